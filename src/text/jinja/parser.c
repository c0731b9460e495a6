/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens to statements. The grammar and the order of its decisions are jinja2's. Every function returns NULL or false
 * with the failure set. */
#include "text/jinja/compiler.h"

#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool jinja_token_is(const struct compiler *c, enum token_kind kind) { return jinja_token(c)->kind == kind; }

static bool is_name(const struct token *t, const char *name) {
    return t->kind == TOKEN_NAME && t->length == strlen(name) && !memcmp(t->text, name, t->length);
}

bool jinja_token_is_name(const struct compiler *c, const char *name) { return is_name(jinja_token(c), name); }

bool jinja_skip(struct compiler *c, enum token_kind kind) {
    if (jinja_token(c)->kind != kind) return false;
    c->at++;
    return true;
}

bool jinja_skip_name(struct compiler *c, const char *name) {
    if (!jinja_token_is_name(c, name)) return false;
    c->at++;
    return true;
}

static const char *const kind_names[] = {
    [TOKEN_EOF] = "end of template",
    [TOKEN_DATA] = "template data / text",
    [TOKEN_VARIABLE_BEGIN] = "begin of print statement",
    [TOKEN_VARIABLE_END] = "end of print statement",
    [TOKEN_BLOCK_BEGIN] = "begin of statement block",
    [TOKEN_BLOCK_END] = "end of statement block",
    [TOKEN_NAME] = "name",
    [TOKEN_STRING] = "string",
    [TOKEN_INTEGER] = "integer",
    [TOKEN_FLOAT] = "float",
    [TOKEN_LBRACKET] = "[",
    [TOKEN_RBRACKET] = "]",
    [TOKEN_LPAREN] = "(",
    [TOKEN_RPAREN] = ")",
    [TOKEN_RBRACE] = "}",
    [TOKEN_ASSIGN] = "=",
    [TOKEN_COLON] = ":",
    [TOKEN_COMMA] = ",",
};

const char *jinja_describe(const struct token *t, char room[80]) {
    if (t->kind == TOKEN_NAME || t->kind > TOKEN_FLOAT) {
        snprintf(room, 80, "%.*s", t->length > 60 ? 60 : (int)t->length, t->text);
        return room;
    }
    return kind_names[t->kind];
}

static bool expected(struct compiler *c, const char *what) {
    char room[80];
    const struct token *t = jinja_token(c);
    if (t->kind == TOKEN_EOF) return jinja_syntax_error(c, t->line, "unexpected end of template, expected '%s'.", what);
    return jinja_syntax_error(c, t->line, "expected token '%s', got '%s'", what, jinja_describe(t, room));
}

bool jinja_expect(struct compiler *c, enum token_kind kind) {
    return jinja_skip(c, kind) || expected(c, kind_names[kind]);
}

bool jinja_expect_name(struct compiler *c, const char *name) { return jinja_skip_name(c, name) || expected(c, name); }

bool jinja_enter(struct compiler *c) {
    if (++c->depth <= JINJA_MAX_TREE) return true;
    return jinja_syntax_error(c, jinja_token(c)->line, "the template is nested too deeply");
}

const struct name *jinja_parse_name(struct compiler *c) {
    const struct token *t = jinja_token(c);
    if (!jinja_expect(c, TOKEN_NAME)) return NULL;
    return jinja_intern(c, t->text, t->length);
}

static struct node *parse_statement(struct compiler *c);

/* The tags that end a body, separated by spaces. */
static bool is_end(const struct compiler *c, const char *ends) {
    const struct token *t = jinja_token(c);
    if (t->kind != TOKEN_NAME) return false;
    while (ends && *ends) {
        size_t n = strcspn(ends, " ");
        if (n == t->length && !memcmp(ends, t->text, n)) return true;
        ends += n + (ends[n] == ' ');
    }
    return false;
}

static bool add_output(struct compiler *c, struct nodes *body, struct node **output, struct node *child) {
    if (!*output) {
        *output = jinja_new_node(c, NODE_OUTPUT, child->line);
        if (!*output) return false;
        jinja_nodes_add(body, *output);
    }
    jinja_nodes_add(&(*output)->items, child);
    return true;
}

static bool parse_data(struct compiler *c, struct nodes *body, struct node **output) {
    const struct token *t = jinja_token(c);
    c->at++;
    if (!t->length) return true;
    struct node *data = jinja_new_node(c, NODE_DATA, t->line);
    struct jinja_text *text = data ? jinja_text_borrow(&c->run, t->text, t->length) : NULL;
    if (!text) return false;
    jinja_text_count(text);
    data->value = jv_text(text);
    return add_output(c, body, output, data);
}

/* Statements up to a tag of `ends` (which stays the current token), or to the end of the template. */
static bool parse_body(struct compiler *c, const char *ends, struct nodes *body) {
    struct node *output = NULL; /* neighbouring text and expressions are one output */
    for (;;) {
        const struct token *t = jinja_token(c);
        if (t->kind == TOKEN_EOF) return true;
        if (t->kind == TOKEN_DATA) {
            if (!parse_data(c, body, &output)) return false;
        } else if (t->kind == TOKEN_VARIABLE_BEGIN) {
            c->at++;
            struct node *value = jinja_parse_tuple(c, TUPLE_PLAIN, NULL);
            if (!value || !add_output(c, body, &output, value) || !jinja_expect(c, TOKEN_VARIABLE_END)) return false;
        } else {
            output = NULL;
            c->at++; /* {% */
            if (is_end(c, ends)) return true;
            struct node *statement = parse_statement(c);
            if (!statement) return false;
            jinja_nodes_add(body, statement);
            if (!jinja_expect(c, TOKEN_BLOCK_END)) return false;
        }
    }
}

/* The body of a tag: from its %} to one of `ends`, which is the current token then. */
static bool parse_statements(struct compiler *c, const char *ends, struct nodes *body) {
    jinja_skip(c, TOKEN_COLON);
    if (!jinja_expect(c, TOKEN_BLOCK_END) || !parse_body(c, ends, body)) return false;
    if (!jinja_token_is(c, TOKEN_EOF)) return true;
    return jinja_syntax_error(c, jinja_token(c)->line,
                              "Unexpected end of template. Jinja was looking for the following tags: '%s'.", ends);
}

/* The same; the end tag is skipped. */
static bool parse_block_body(struct compiler *c, const char *end, struct nodes *body) {
    if (!parse_statements(c, end, body)) return false;
    c->at++;
    return true;
}

static struct node *parse_for(struct compiler *c, uint32_t line) {
    struct node *n = jinja_new_node(c, NODE_FOR, line);
    if (!n || !(n->loop.into = jinja_parse_target(c, TUPLE_PLAIN, "in")) || !jinja_expect_name(c, "in") ||
        !(n->loop.iterable = jinja_parse_tuple(c, TUPLE_NO_CONDITIONAL, "recursive")))
        return NULL;
    if (jinja_skip_name(c, "if") && !(n->loop.test = jinja_parse_expression(c))) return NULL;
    n->loop.is_recursive = jinja_skip_name(c, "recursive");
    if (!parse_statements(c, "endfor else", &n->loop.body)) return NULL;
    if (jinja_skip_name(c, "endfor")) return n;
    c->at++;
    return parse_block_body(c, "endfor", &n->loop.otherwise) ? n : NULL;
}

static struct node *parse_if(struct compiler *c, uint32_t line) {
    struct node *first = jinja_new_node(c, NODE_IF, line), *n = first;
    while (n) {
        if (!(n->branch.test = jinja_parse_tuple(c, TUPLE_NO_CONDITIONAL, NULL)) ||
            !parse_statements(c, "elif else endif", &n->branch.body))
            return NULL;
        if (jinja_skip_name(c, "endif")) return first;
        if (jinja_skip_name(c, "else")) return parse_block_body(c, "endif", &first->branch.otherwise) ? first : NULL;
        c->at++;
        n = jinja_new_node(c, NODE_IF, jinja_token(c)->line);
        if (n) jinja_nodes_add(&first->branch.elifs, n);
    }
    return NULL;
}

static struct node *parse_set(struct compiler *c, uint32_t line) {
    struct node *into = jinja_parse_target(c, TUPLE_NAMESPACE, NULL);
    if (!into) return NULL;
    if (jinja_skip(c, TOKEN_ASSIGN)) {
        struct node *n = jinja_new_node(c, NODE_ASSIGN, line);
        if (!n || !(n->scope.value = jinja_parse_tuple(c, TUPLE_PLAIN, NULL))) return NULL;
        n->scope.into = into;
        return n;
    }
    struct node *n = jinja_new_node(c, NODE_ASSIGN_BLOCK, line);
    if (!n) return NULL;
    n->scope.into = into;
    if (jinja_token_is(c, TOKEN_PIPE) && !(n->scope.value = jinja_parse_filters(c, NULL, false))) return NULL;
    return parse_block_body(c, "endset", &n->scope.body) ? n : NULL;
}

static void mark_parameters(struct node *target) {
    if (target->kind == NODE_NAME)
        target->use = NAME_PARAMETER;
    else if (target->kind == NODE_TUPLE)
        for (struct node *item = target->items.first; item; item = item->next) mark_parameters(item);
}

static struct node *parse_with(struct compiler *c, uint32_t line) {
    struct node *n = jinja_new_node(c, NODE_WITH, line);
    struct node *targets = jinja_new_node(c, NODE_TUPLE, line), *values = jinja_new_node(c, NODE_TUPLE, line);
    if (!n || !targets || !values) return NULL;
    while (!jinja_token_is(c, TOKEN_BLOCK_END)) {
        if (targets->items.n && !jinja_expect(c, TOKEN_COMMA)) return NULL;
        struct node *target = jinja_parse_target(c, TUPLE_PLAIN, NULL), *value;
        if (!target || !jinja_expect(c, TOKEN_ASSIGN) || !(value = jinja_parse_expression(c))) return NULL;
        mark_parameters(target);
        jinja_nodes_add(&targets->items, target);
        jinja_nodes_add(&values->items, value);
    }
    n->scope.into = targets;
    n->scope.value = values;
    return parse_block_body(c, "endwith", &n->scope.body) ? n : NULL;
}

static struct node *parse_autoescape(struct compiler *c, uint32_t line) {
    struct node *n = jinja_new_node(c, NODE_AUTOESCAPE, line);
    if (!n || !(n->scope.value = jinja_parse_expression(c))) return NULL;
    return parse_block_body(c, "endautoescape", &n->scope.body) ? n : NULL;
}

/* (a, b=1): names that are parameters, the last of them with defaults. */
static bool parse_signature(struct compiler *c, struct macro *m) {
    if (!jinja_expect(c, TOKEN_LPAREN)) return false;
    while (!jinja_token_is(c, TOKEN_RPAREN)) {
        if (m->parameters.n && !jinja_expect(c, TOKEN_COMMA)) return false;
        struct node *parameter = jinja_new_node(c, NODE_NAME, jinja_token(c)->line);
        if (!parameter || !(parameter->name = jinja_parse_store_name(c))) return false;
        parameter->use = NAME_PARAMETER;
        if (jinja_skip(c, TOKEN_ASSIGN)) {
            struct node *value = jinja_parse_expression(c);
            if (!value) return false;
            jinja_nodes_add(&m->defaults, value);
        } else if (m->defaults.n) {
            return jinja_syntax_error(c, jinja_token(c)->line, "non-default argument follows default argument");
        }
        jinja_nodes_add(&m->parameters, parameter);
    }
    return jinja_expect(c, TOKEN_RPAREN);
}

static struct node *new_macro(struct compiler *c, enum node_kind kind, uint32_t line) {
    struct node *n = jinja_new_node(c, kind, line);
    if (!n || !(n->macro.macro = jinja_compiler_alloc(c, 1, sizeof *n->macro.macro))) return NULL;
    return n;
}

static struct node *parse_macro(struct compiler *c, uint32_t line) {
    struct node *n = new_macro(c, NODE_MACRO, line);
    if (!n || !(n->macro.macro->name = jinja_parse_store_name(c)) || !parse_signature(c, n->macro.macro)) return NULL;
    return parse_block_body(c, "endmacro", &n->macro.macro->body) ? n : NULL;
}

static struct node *parse_call_block(struct compiler *c, uint32_t line) {
    struct node *n = new_macro(c, NODE_CALL_BLOCK, line);
    if (!n || (jinja_token_is(c, TOKEN_LPAREN) && !parse_signature(c, n->macro.macro)) ||
        !(n->macro.call = jinja_parse_expression(c)))
        return NULL;
    if (n->macro.call->kind != NODE_CALL) {
        jinja_syntax_error(c, line, "expected call");
        return NULL;
    }
    return parse_block_body(c, "endcall", &n->macro.macro->body) ? n : NULL;
}

static struct node *parse_generation(struct compiler *c, uint32_t line) {
    struct node *n = new_macro(c, NODE_CALL_BLOCK, line);
    return n && parse_block_body(c, "endgeneration", &n->macro.macro->body) ? n : NULL;
}

static struct node *parse_filter_block(struct compiler *c, uint32_t line) {
    struct node *n = jinja_new_node(c, NODE_FILTER_BLOCK, line);
    if (!n || !(n->scope.value = jinja_parse_filters(c, NULL, true))) return NULL;
    return parse_block_body(c, "endfilter", &n->scope.body) ? n : NULL;
}

static bool is_blank_output(const struct node *n) {
    if (n->kind != NODE_OUTPUT) return false;
    for (const struct node *child = n->items.first; child; child = child->next) {
        size_t from = 0, to = child->kind == NODE_DATA ? child->value.text->length : 0;
        if (!to) return false;
        jinja_trim_space(child->value.text->data, &from, &to);
        if (from < to) return false;
    }
    return true;
}

static struct node *parse_block(struct compiler *c, uint32_t line) {
    struct node *n = jinja_new_node(c, NODE_BLOCK, line);
    struct jinja_block *b = n ? jinja_compiler_alloc(c, 1, sizeof *b) : NULL;
    if (!b || !(b->name = jinja_parse_name(c))) return NULL;
    n->block = b;
    b->is_scoped = jinja_skip_name(c, "scoped");
    b->is_required = jinja_skip_name(c, "required");
    if (!parse_block_body(c, "endblock", &b->body)) return NULL;
    for (const struct node *child = b->body.first; child && b->is_required; child = child->next)
        if (!is_blank_output(child)) {
            jinja_syntax_error(c, line, "Required blocks can only contain comments or whitespace");
            return NULL;
        }
    jinja_skip_name(c, b->name->text.data);
    return n;
}

static struct node *parse_print(struct compiler *c, uint32_t line) {
    struct node *n = jinja_new_node(c, NODE_OUTPUT, line);
    while (n && !jinja_token_is(c, TOKEN_BLOCK_END)) {
        if (n->items.n && !jinja_expect(c, TOKEN_COMMA)) return NULL;
        struct node *value = jinja_parse_expression(c);
        if (!value) return NULL;
        jinja_nodes_add(&n->items, value);
    }
    return n;
}

static struct node *parse_extends(struct compiler *c, uint32_t line) {
    struct node *n = jinja_new_node(c, NODE_EXTENDS, line);
    return n && (n->include.template = jinja_parse_expression(c)) ? n : NULL;
}

/* "with context" or "without context" changes nothing where no template can be loaded. */
static bool skip_context(struct compiler *c) {
    if (!jinja_token_is_name(c, "with") && !jinja_token_is_name(c, "without")) return false;
    if (!is_name(jinja_token(c) + 1, "context")) return false;
    c->at += 2;
    return true;
}

static struct node *parse_include(struct compiler *c, uint32_t line) {
    struct node *n = jinja_new_node(c, NODE_INCLUDE, line);
    if (!n || !(n->include.template = jinja_parse_expression(c))) return NULL;
    if (jinja_token_is_name(c, "ignore") && is_name(jinja_token(c) + 1, "missing")) {
        n->include.ignores_missing = true;
        c->at += 2;
    }
    skip_context(c);
    return n;
}

static bool add_import(struct compiler *c, struct node *import) {
    struct node *target = jinja_new_node(c, NODE_NAME, jinja_token(c)->line);
    if (!target || !(target->name = jinja_parse_store_name(c))) return false;
    target->use = NAME_STORE;
    jinja_nodes_add(&import->include.targets, target);
    return true;
}

static struct node *parse_import(struct compiler *c, uint32_t line) {
    struct node *n = jinja_new_node(c, NODE_IMPORT, line);
    if (!n || !(n->include.template = jinja_parse_expression(c)) || !jinja_expect_name(c, "as") || !add_import(c, n))
        return NULL;
    skip_context(c);
    return n;
}

static struct node *parse_from(struct compiler *c, uint32_t line) {
    struct node *n = jinja_new_node(c, NODE_IMPORT, line);
    if (!n || !(n->include.template = jinja_parse_expression(c)) || !jinja_expect_name(c, "import")) return NULL;
    for (bool more = true; more;) {
        if (n->include.targets.n && !jinja_expect(c, TOKEN_COMMA)) return NULL;
        if (skip_context(c)) break;
        const struct token *t = jinja_token(c);
        if (!add_import(c, n)) return NULL;
        if (*t->text == '_') {
            jinja_syntax_error(c, t->line, "names starting with an underline can not be imported");
            return NULL;
        }
        if (jinja_skip_name(c, "as") && !(n->include.targets.last->name = jinja_parse_store_name(c))) return NULL;
        more = !skip_context(c) && jinja_token_is(c, TOKEN_COMMA);
    }
    return n;
}

static struct node *parse_break(struct compiler *c, uint32_t line) { return jinja_new_node(c, NODE_BREAK, line); }
static struct node *parse_continue(struct compiler *c, uint32_t line) { return jinja_new_node(c, NODE_CONTINUE, line); }

static struct node *parse_statement(struct compiler *c) {
    static const struct {
        const char *tag;
        struct node *(*parse)(struct compiler *c, uint32_t line);
    } tags[] = {{"for", parse_for},
                {"if", parse_if},
                {"set", parse_set},
                {"macro", parse_macro},
                {"call", parse_call_block},
                {"generation", parse_generation},
                {"break", parse_break},
                {"continue", parse_continue},
                {"with", parse_with},
                {"filter", parse_filter_block},
                {"block", parse_block},
                {"print", parse_print},
                {"include", parse_include},
                {"import", parse_import},
                {"from", parse_from},
                {"extends", parse_extends},
                {"autoescape", parse_autoescape}};
    const struct token *t = jinja_token(c);
    char room[80];
    if (t->kind != TOKEN_NAME) {
        jinja_syntax_error(c, t->line, "tag name expected");
        return NULL;
    }
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        if (!is_name(t, tags[i].tag)) continue;
        int depth = c->depth;
        c->at++;
        struct node *n = jinja_enter(c) ? tags[i].parse(c, t->line) : NULL;
        c->depth = depth;
        return n;
    }
    jinja_syntax_error(c, t->line, "Encountered unknown tag '%s'.", jinja_describe(t, room));
    return NULL;
}

bool jinja_parse(struct compiler *c, struct nodes *body) { return parse_body(c, NULL, body); }
