/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions, by recursive descent; precedence from weak to strong:
 *
 *   if-else   or   and   not   comparison, in   + -   ~   * / // %   **   unary - +   filters, tests, calls, subscripts
 *
 * Each level that loops counts its turns as depth, since they make the tree deeper too. */
#include "text/jinja/compiler.h"

#include "text/jinja/integer.h"
#include "text/jinja/number.h"
#include "text/jinja/text.h"

#include <stdlib.h>
#include <string.h>

static struct node *parse_or(struct compiler *c);
static struct node *parse_unary(struct compiler *c, bool with_filter);
static struct node *parse_primary(struct compiler *c, bool with_namespace);
static struct node *parse_postfix(struct compiler *c, struct node *n);

static struct node *fail(struct compiler *c, uint32_t line, const char *message) {
    jinja_syntax_error(c, line, "%s", message);
    return NULL;
}

static struct node *unexpected(struct compiler *c, const char *format) {
    char room[80];
    struct buffer message = {0};
    const struct token *t = jinja_token(c);
    buffer_printf(&message, "%s'%s'", format, jinja_describe(t, room));
    fail(c, t->line, message.data ? message.data : format);
    buffer_free(&message);
    return NULL;
}

static struct node *new_pair(struct compiler *c, enum node_kind kind, struct node *a, struct node *b) {
    struct node *n = a && b ? jinja_new_node(c, kind, a->line) : NULL;
    if (n) {
        n->a = a;
        n->b = b;
    }
    return n;
}

struct node *jinja_parse_expression(struct compiler *c) {
    int depth = c->depth;
    if (!jinja_enter(c)) return NULL;
    struct node *n = parse_or(c);
    while (n && jinja_skip_name(c, "if")) {
        struct node *conditional = jinja_enter(c) ? jinja_new_node(c, NODE_CONDITIONAL, n->line) : NULL;
        if (!conditional || !(conditional->a = parse_or(c))) return NULL;
        conditional->b = n;
        if (jinja_skip_name(c, "else") && !(conditional->c = jinja_parse_expression(c))) return NULL;
        n = conditional;
    }
    c->depth = depth;
    return n;
}

static struct node *parse_not(struct compiler *c);

static struct node *parse_and(struct compiler *c) {
    int depth = c->depth;
    struct node *n = parse_not(c);
    while (n && jinja_skip_name(c, "and")) n = jinja_enter(c) ? new_pair(c, NODE_AND, n, parse_not(c)) : NULL;
    c->depth = depth;
    return n;
}

static struct node *parse_or(struct compiler *c) {
    int depth = c->depth;
    struct node *n = parse_and(c);
    while (n && jinja_skip_name(c, "or")) n = jinja_enter(c) ? new_pair(c, NODE_OR, n, parse_and(c)) : NULL;
    c->depth = depth;
    return n;
}

struct binary {
    uint8_t token, op;
};

static const struct binary *find_binary(const struct compiler *c, const struct binary *table, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (jinja_token_is(c, (enum token_kind)table[i].token)) return &table[i];
    return NULL;
}

static struct node *new_binary(struct compiler *c, enum node_op op, struct node *a, struct node *b) {
    struct node *n = new_pair(c, NODE_BINARY, a, b);
    if (n) n->op = (uint8_t)op;
    return n;
}

static struct node *parse_power(struct compiler *c) {
    int depth = c->depth;
    struct node *n = parse_unary(c, true);
    while (n && jinja_skip(c, TOKEN_POW)) n = jinja_enter(c) ? new_binary(c, OP_POW, n, parse_unary(c, true)) : NULL;
    c->depth = depth;
    return n;
}

static struct node *parse_product(struct compiler *c) {
    static const struct binary table[] = {
        {TOKEN_MUL, OP_MUL}, {TOKEN_DIV, OP_DIV}, {TOKEN_FLOORDIV, OP_FLOORDIV}, {TOKEN_MOD, OP_MOD}};
    int depth = c->depth;
    struct node *n = parse_power(c);
    const struct binary *found;
    while (n && (found = find_binary(c, table, 4))) {
        c->at++;
        n = jinja_enter(c) ? new_binary(c, (enum node_op)found->op, n, parse_power(c)) : NULL;
    }
    c->depth = depth;
    return n;
}

static struct node *parse_concat(struct compiler *c) {
    struct node *n = parse_product(c);
    if (!n || !jinja_token_is(c, TOKEN_TILDE)) return n;
    struct node *concat = jinja_new_node(c, NODE_CONCAT, n->line);
    while (concat && n) {
        jinja_nodes_add(&concat->items, n);
        if (!jinja_skip(c, TOKEN_TILDE)) return concat;
        n = parse_product(c);
    }
    return NULL;
}

static struct node *parse_sum(struct compiler *c) {
    static const struct binary table[] = {{TOKEN_ADD, OP_ADD}, {TOKEN_SUB, OP_SUB}};
    int depth = c->depth;
    struct node *n = parse_concat(c);
    const struct binary *found;
    while (n && (found = find_binary(c, table, 2))) {
        c->at++;
        n = jinja_enter(c) ? new_binary(c, (enum node_op)found->op, n, parse_concat(c)) : NULL;
    }
    c->depth = depth;
    return n;
}

/* The comparison operator at the current token, skipped; false when there is none. */
static bool take_comparison(struct compiler *c, uint8_t *op) {
    static const struct binary table[] = {{TOKEN_EQ, OP_EQ}, {TOKEN_NE, OP_NE}, {TOKEN_LT, OP_LT},
                                          {TOKEN_LE, OP_LE}, {TOKEN_GT, OP_GT}, {TOKEN_GE, OP_GE}};
    const struct binary *found = find_binary(c, table, 6);
    if (found) {
        *op = found->op;
        c->at++;
        return true;
    }
    if (jinja_skip_name(c, "in")) {
        *op = OP_IN;
        return true;
    }
    if (!jinja_token_is_name(c, "not")) return false;
    c->at++;
    if (jinja_skip_name(c, "in")) {
        *op = OP_NOT_IN;
        return true;
    }
    c->at--;
    return false;
}

/* The operands hang in a list of one-child nodes, so that each has its operator. */
static struct node *parse_compare(struct compiler *c) {
    struct node *n = parse_sum(c);
    uint8_t op;
    if (!n || !take_comparison(c, &op)) return n;
    struct node *compare = jinja_new_node(c, NODE_COMPARE, n->line);
    if (!compare) return NULL;
    compare->a = n;
    do {
        struct node *operand = jinja_new_node(c, NODE_COMPARE, n->line);
        if (!operand || !(operand->a = parse_sum(c))) return NULL;
        operand->op = op;
        jinja_nodes_add(&compare->operands, operand);
    } while (take_comparison(c, &op));
    return compare;
}

static struct node *parse_not(struct compiler *c) {
    if (!jinja_token_is_name(c, "not")) return parse_compare(c);
    int depth = c->depth;
    uint32_t line = jinja_token(c)->line;
    c->at++;
    struct node *n = jinja_enter(c) ? jinja_new_node(c, NODE_NOT, line) : NULL;
    if (!n || !(n->a = parse_not(c))) return NULL;
    c->depth = depth;
    return n;
}

/* ---- calls, filters, tests ---- */

static bool parse_argument(struct compiler *c, struct arguments *args, struct keyword ***tail, uint32_t line) {
    const char *message = "invalid syntax for function call expression";
    if (jinja_skip(c, TOKEN_MUL)) {
        if (args->star || args->star_star) return fail(c, line, message);
        return (args->star = jinja_parse_expression(c)) != NULL;
    }
    if (jinja_skip(c, TOKEN_POW)) {
        if (args->star_star) return fail(c, line, message);
        return (args->star_star = jinja_parse_expression(c)) != NULL;
    }
    if (jinja_token_is(c, TOKEN_NAME) && jinja_token(c)[1].kind == TOKEN_ASSIGN) {
        if (args->star_star) return fail(c, line, message);
        struct keyword *k = jinja_compiler_alloc(c, 1, sizeof *k);
        if (!k || !(k->name = jinja_parse_name(c))) return false;
        c->at++;
        if (!(k->value = jinja_parse_expression(c))) return false;
        **tail = k;
        *tail = &k->next;
        args->n_keywords++;
        return true;
    }
    if (args->star || args->star_star || args->keywords) return fail(c, line, message);
    struct node *value = jinja_parse_expression(c);
    if (value) jinja_nodes_add(&args->positional, value);
    return value != NULL;
}

/* At the opening bracket. */
static struct arguments *parse_arguments(struct compiler *c) {
    uint32_t line = jinja_token(c)->line;
    struct arguments *args = jinja_compiler_alloc(c, 1, sizeof *args);
    if (!args || !jinja_expect(c, TOKEN_LPAREN)) return NULL;
    struct keyword **tail = &args->keywords;
    for (bool is_first = true; !jinja_token_is(c, TOKEN_RPAREN); is_first = false) {
        if (!is_first && !jinja_expect(c, TOKEN_COMMA)) return NULL;
        if (!is_first && jinja_token_is(c, TOKEN_RPAREN)) break;
        if (!parse_argument(c, args, &tail, line)) return NULL;
    }
    return jinja_expect(c, TOKEN_RPAREN) ? args : NULL;
}

static struct node *parse_call(struct compiler *c, struct node *target) {
    struct node *n = jinja_new_node(c, NODE_CALL, jinja_token(c)->line);
    if (!n || !(n->arguments = parse_arguments(c))) return NULL;
    n->target = target;
    return n;
}

/* name, or name.name.name */
static const struct name *parse_dotted(struct compiler *c) {
    const struct name *first = jinja_parse_name(c);
    if (!first || !jinja_token_is(c, TOKEN_DOT)) return first;
    struct buffer dotted = {0};
    buffer_append(&dotted, first->text.data, first->text.length);
    const struct name *part = first;
    while (part && jinja_skip(c, TOKEN_DOT)) {
        part = jinja_parse_name(c);
        if (part) buffer_printf(&dotted, ".%s", part->text.data);
    }
    if (dotted.failed) jinja_out_of_memory(&c->run);
    const struct name *name = part && !dotted.failed ? jinja_intern(c, dotted.data, dotted.length) : NULL;
    buffer_free(&dotted);
    return name;
}

struct node *jinja_parse_filters(struct compiler *c, struct node *target, bool starts_inline) {
    struct node *n = target;
    while (starts_inline || jinja_token_is(c, TOKEN_PIPE)) {
        if (!starts_inline) c->at++;
        starts_inline = false;
        struct node *filter = jinja_enter(c) ? jinja_new_node(c, NODE_FILTER, jinja_token(c)->line) : NULL;
        if (!filter || !(filter->callee = parse_dotted(c))) return NULL;
        filter->arguments = jinja_token_is(c, TOKEN_LPAREN) ? parse_arguments(c)
                                                            : jinja_compiler_alloc(c, 1, sizeof *filter->arguments);
        if (!filter->arguments) return NULL;
        filter->target = n;
        n = filter;
    }
    return n;
}

static bool starts_test_argument(struct compiler *c) {
    switch (jinja_token(c)->kind) {
    case TOKEN_NAME:
        return !jinja_token_is_name(c, "else") && !jinja_token_is_name(c, "or") && !jinja_token_is_name(c, "and");
    case TOKEN_STRING:
    case TOKEN_INTEGER:
    case TOKEN_FLOAT:
    case TOKEN_LBRACKET:
    case TOKEN_LBRACE: return true;
    default: return false;
    }
}

/* Behind "is". */
static struct node *parse_test(struct compiler *c, struct node *target) {
    uint32_t line = jinja_token(c)->line;
    bool is_negated = jinja_skip_name(c, "not");
    struct node *n = jinja_new_node(c, NODE_TEST, line);
    if (!n || !(n->callee = parse_dotted(c))) return NULL;
    n->target = target;
    bool has_brackets = jinja_token_is(c, TOKEN_LPAREN);
    n->arguments = has_brackets ? parse_arguments(c) : jinja_compiler_alloc(c, 1, sizeof *n->arguments);
    if (!n->arguments) return NULL;
    if (!has_brackets && starts_test_argument(c)) {
        if (jinja_token_is_name(c, "is"))
            return fail(c, jinja_token(c)->line, "You cannot chain multiple tests with is");
        struct node *argument = parse_primary(c, false);
        if (argument) argument = parse_postfix(c, argument);
        if (!argument) return NULL;
        jinja_nodes_add(&n->arguments->positional, argument);
    }
    if (!is_negated) return n;
    struct node *not = jinja_new_node(c, NODE_NOT, line);
    if (not ) not ->a = n;
    return not ;
}

/* ---- subscripts ---- */

static bool ends_slice_part(const struct compiler *c) {
    return jinja_token_is(c, TOKEN_RBRACKET) || jinja_token_is(c, TOKEN_COMMA);
}

/* a, or any of a: :b a:b a:b:c ... */
static struct node *parse_subscribed(struct compiler *c) {
    struct node *first = NULL;
    uint32_t line = jinja_token(c)->line;
    if (!jinja_token_is(c, TOKEN_COLON)) {
        first = jinja_parse_expression(c);
        if (!first || !jinja_token_is(c, TOKEN_COLON)) return first;
    }
    c->at++;
    struct node *n = jinja_new_node(c, NODE_SLICE, line);
    if (!n) return NULL;
    n->a = first;
    if (!jinja_token_is(c, TOKEN_COLON) && !ends_slice_part(c) && !(n->b = jinja_parse_expression(c))) return NULL;
    if (jinja_skip(c, TOKEN_COLON) && !ends_slice_part(c) && !(n->c = jinja_parse_expression(c))) return NULL;
    return n;
}

static struct node *parse_brackets(struct compiler *c, struct node *target) {
    uint32_t line = jinja_token(c)->line;
    struct node *tuple = jinja_new_node(c, NODE_TUPLE, line);
    c->at++;
    while (tuple && !jinja_token_is(c, TOKEN_RBRACKET)) {
        if (tuple->items.n && !jinja_expect(c, TOKEN_COMMA)) return NULL;
        struct node *part = parse_subscribed(c);
        if (!part) return NULL;
        jinja_nodes_add(&tuple->items, part);
    }
    if (!tuple) return NULL;
    c->at++;
    struct node *only = tuple->items.n == 1 ? tuple->items.first : NULL;
    for (const struct node *part = tuple->items.first; part && !only; part = part->next)
        if (part->kind == NODE_SLICE) return fail(c, line, "invalid syntax");
    return new_pair(c, NODE_ITEM, target, only ? only : tuple);
}

static struct node *parse_dot(struct compiler *c, struct node *target) {
    uint32_t line = jinja_token(c)->line;
    c->at++;
    const struct token *t = jinja_token(c);
    if (t->kind == TOKEN_NAME) {
        struct node *n = jinja_new_node(c, NODE_ATTRIBUTE, line);
        if (!n || !(n->callee = jinja_parse_name(c))) return NULL;
        n->target = target;
        return n;
    }
    if (t->kind != TOKEN_INTEGER) return fail(c, t->line, "expected name or number");
    return new_pair(c, NODE_ITEM, target, parse_primary(c, false));
}

static struct node *parse_postfix(struct compiler *c, struct node *n) {
    int depth = c->depth;
    while (n) {
        bool is_dot = jinja_token_is(c, TOKEN_DOT), is_bracket = jinja_token_is(c, TOKEN_LBRACKET);
        if (!is_dot && !is_bracket && !jinja_token_is(c, TOKEN_LPAREN)) break;
        if (!jinja_enter(c)) return NULL;
        n = is_dot ? parse_dot(c, n) : is_bracket ? parse_brackets(c, n) : parse_call(c, n);
    }
    c->depth = depth;
    return n;
}

static struct node *parse_filter_expression(struct compiler *c, struct node *n) {
    while (n) {
        if (jinja_token_is(c, TOKEN_PIPE))
            n = jinja_parse_filters(c, n, false);
        else if (jinja_skip_name(c, "is"))
            n = jinja_enter(c) ? parse_test(c, n) : NULL;
        else if (jinja_token_is(c, TOKEN_LPAREN))
            n = jinja_enter(c) ? parse_call(c, n) : NULL;
        else
            break;
    }
    return n;
}

static struct node *parse_unary(struct compiler *c, bool with_filter) {
    int depth = c->depth;
    uint32_t line = jinja_token(c)->line;
    if (!jinja_enter(c)) return NULL;
    struct node *n;
    if (jinja_token_is(c, TOKEN_SUB) || jinja_token_is(c, TOKEN_ADD)) {
        n = jinja_new_node(c, jinja_token_is(c, TOKEN_SUB) ? NODE_NEGATIVE : NODE_POSITIVE, line);
        c->at++;
        if (!n || !(n->a = parse_unary(c, false))) return NULL;
    } else {
        n = parse_primary(c, false);
    }
    if (n) n = parse_postfix(c, n);
    if (n && with_filter) n = parse_filter_expression(c, n);
    c->depth = depth;
    return n;
}

/* ---- primaries ---- */

static struct node *new_const(struct compiler *c, uint32_t line, struct jv value) {
    struct node *n = jinja_new_node(c, NODE_CONST, line);
    if (n) n->value = value;
    return n;
}

static struct node *parse_name_primary(struct compiler *c, bool with_namespace) {
    const struct token *t = jinja_token(c);
    bool is_true = jinja_token_is_name(c, "true") || jinja_token_is_name(c, "True");
    if (is_true || jinja_token_is_name(c, "false") || jinja_token_is_name(c, "False"))
        return c->at++, new_const(c, t->line, jv_bool(is_true));
    if (jinja_token_is_name(c, "none") || jinja_token_is_name(c, "None"))
        return c->at++, new_const(c, t->line, jv_none());
    struct node *n = jinja_new_node(c, NODE_NAME, t->line);
    if (!n || !(n->name = jinja_parse_name(c))) return NULL;
    if (!with_namespace || !jinja_skip(c, TOKEN_DOT)) return n;
    n->kind = NODE_NSREF;
    return (n->attribute = jinja_parse_name(c)) ? n : NULL;
}

/* Neighbouring strings are one. */
static struct node *parse_string(struct compiler *c) {
    const struct token *t = jinja_token(c);
    struct buffer joined = {0};
    for (; jinja_token_is(c, TOKEN_STRING); c->at++)
        buffer_append(&joined, jinja_token(c)->text, jinja_token(c)->length);
    struct jv value;
    bool ok = jinja_string_take(&c->run, &joined, 0, &value);
    buffer_free(&joined);
    if (!ok) return NULL;
    jinja_text_count(value.text);
    jinja_text_hash(value.text, c->run.hash_seed);
    return new_const(c, t->line, value);
}

static struct node *parse_number(struct compiler *c) {
    const struct token *t = jinja_token(c);
    struct jv value = jv_none();
    c->at++;
    if (t->kind == TOKEN_FLOAT) {
        double real = 0;
        if (!jinja_read_float(&c->run, t->text, t->length, &real)) return fail(c, t->line, "invalid number");
        value = jv_float(real);
    } else {
        bool is_number;
        if (!jinja_read_int(&c->run, t->text, t->length, 0, &is_number, &value) || !is_number)
            return fail(c, t->line, "invalid number");
    }
    return new_const(c, t->line, value);
}

static struct node *parse_list(struct compiler *c) {
    struct node *n = jinja_new_node(c, NODE_LIST, jinja_token(c)->line);
    c->at++;
    while (n && !jinja_token_is(c, TOKEN_RBRACKET)) {
        if (n->items.n && !jinja_expect(c, TOKEN_COMMA)) return NULL;
        if (jinja_token_is(c, TOKEN_RBRACKET)) break;
        struct node *item = jinja_parse_expression(c);
        if (!item) return NULL;
        jinja_nodes_add(&n->items, item);
    }
    return n && jinja_expect(c, TOKEN_RBRACKET) ? n : NULL;
}

static struct node *parse_dict(struct compiler *c) {
    struct node *n = jinja_new_node(c, NODE_DICT, jinja_token(c)->line);
    c->at++;
    while (n && !jinja_token_is(c, TOKEN_RBRACE)) {
        if (n->items.n && !jinja_expect(c, TOKEN_COMMA)) return NULL;
        if (jinja_token_is(c, TOKEN_RBRACE)) break;
        struct node *key = jinja_parse_expression(c), *value;
        if (!key || !jinja_expect(c, TOKEN_COLON) || !(value = jinja_parse_expression(c))) return NULL;
        jinja_nodes_add(&n->items, key);
        jinja_nodes_add(&n->items, value);
    }
    return n && jinja_expect(c, TOKEN_RBRACE) ? n : NULL;
}

static struct node *parse_primary(struct compiler *c, bool with_namespace) {
    int depth = c->depth;
    struct node *n = NULL;
    if (!jinja_enter(c)) return NULL;
    switch (jinja_token(c)->kind) {
    case TOKEN_NAME: n = parse_name_primary(c, with_namespace); break;
    case TOKEN_STRING: n = parse_string(c); break;
    case TOKEN_INTEGER:
    case TOKEN_FLOAT: n = parse_number(c); break;
    case TOKEN_LPAREN:
        c->at++;
        n = jinja_parse_tuple(c, TUPLE_PARENTHESES, NULL);
        if (n && !jinja_expect(c, TOKEN_RPAREN)) n = NULL;
        break;
    case TOKEN_LBRACKET: n = parse_list(c); break;
    case TOKEN_LBRACE: n = parse_dict(c); break;
    default: return unexpected(c, "unexpected ");
    }
    c->depth = depth;
    return n;
}

static bool is_tuple_end(const struct compiler *c, const char *end_name) {
    enum token_kind kind = (enum token_kind)jinja_token(c)->kind;
    if (kind == TOKEN_VARIABLE_END || kind == TOKEN_BLOCK_END || kind == TOKEN_RPAREN) return true;
    return end_name && jinja_token_is_name(c, end_name);
}

struct node *jinja_parse_tuple(struct compiler *c, unsigned mode, const char *end_name) {
    uint32_t line = jinja_token(c)->line;
    struct nodes items = {0};
    bool is_tuple = false;
    for (;;) {
        if (items.n && !jinja_expect(c, TOKEN_COMMA)) return NULL;
        if (is_tuple_end(c, end_name)) break;
        struct node *item = mode & TUPLE_PRIMARY          ? parse_primary(c, (mode & TUPLE_NAMESPACE) != 0)
                            : mode & TUPLE_NO_CONDITIONAL ? parse_or(c)
                                                          : jinja_parse_expression(c);
        if (!item) return NULL;
        jinja_nodes_add(&items, item);
        if (!jinja_token_is(c, TOKEN_COMMA)) break;
        is_tuple = true;
    }
    if (!is_tuple && items.n) return items.first;
    if (!is_tuple && !(mode & TUPLE_PARENTHESES)) return unexpected(c, "Expected an expression, got ");
    struct node *n = jinja_new_node(c, NODE_TUPLE, line);
    if (n) n->items = items;
    return n;
}

static bool is_constant_name(const struct name *name) {
    static const char *const constants[] = {"true", "false", "none", "True", "False", "None"};
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (jinja_text_is(&name->text, constants[i])) return true;
    return false;
}

const struct name *jinja_parse_store_name(struct compiler *c) {
    uint32_t line = jinja_token(c)->line;
    const struct name *name = jinja_parse_name(c);
    if (name && is_constant_name(name)) {
        fail(c, line, "can't assign to 'name'");
        return NULL;
    }
    return name;
}

/* Marks the names of a target as stored; false when it holds something that cannot be assigned to. */
static bool mark_target(struct node *n) {
    if (n->kind == NODE_NSREF) return true;
    if (n->kind == NODE_NAME) {
        n->use = NAME_STORE;
        return true;
    }
    if (n->kind != NODE_TUPLE) return false;
    for (struct node *item = n->items.first; item; item = item->next)
        if (!mark_target(item)) return false;
    return true;
}

struct node *jinja_parse_target(struct compiler *c, unsigned mode, const char *end_name) {
    struct node *n = jinja_parse_tuple(c, mode | TUPLE_PRIMARY, end_name);
    if (!n) return NULL;
    static const char *const names[] = {[NODE_CONST] = "const",
                                        [NODE_TUPLE] = "tuple",
                                        [NODE_LIST] = "list",
                                        [NODE_DICT] = "dict",
                                        [NODE_CONDITIONAL] = "condexpr",
                                        [NODE_FILTER] = "filter",
                                        [NODE_TEST] = "test",
                                        [NODE_CALL] = "call",
                                        [NODE_ITEM] = "getitem",
                                        [NODE_ATTRIBUTE] = "getattr",
                                        [NODE_CONCAT] = "concat",
                                        [NODE_COMPARE] = "compare"};
    if (mark_target(n)) return n;
    const char *name = n->kind < sizeof names / sizeof *names ? names[n->kind] : NULL;
    jinja_syntax_error(c, n->line, "can't assign to '%s'", name ? name : "expression");
    return NULL;
}
