/* SPDX-License-Identifier: Apache-2.0 */
/* The walk that jinja2's code generator does, without generating code: decides for every frame what happens to its
 * variables on entry, gives every name its slot, finds filters and tests, folds constants, and refuses what jinja2 or
 * the Python compiler behind it would refuse. */
#include "text/jinja/call.h"
#include "text/jinja/operate.h"
#include "text/jinja/symbols.h"

#include "text/jinja/text.h"

#include <string.h>

/* Python's limit on nested for loops in one function. */
#define MAX_LOOPS 20

struct frame {
    struct symbols *symbols;
    bool is_toplevel; /* assignments reach the context, where blocks see them */
    bool is_soft;     /* inside an if: an unknown filter fails only when it is reached */
    bool in_defaults; /* of a macro: a parameter may not be set yet */
};

static bool emit_all(struct compiler *c, const struct frame *f, const struct nodes *nodes);
static bool emit(struct compiler *c, const struct frame *f, struct node *n);
static bool emit_expression(struct compiler *c, const struct frame *f, struct node *n);

static bool maybe_expression(struct compiler *c, const struct frame *f, struct node *n) {
    return !n || emit_expression(c, f, n);
}

static bool emit_expressions(struct compiler *c, const struct frame *f, const struct nodes *nodes) {
    for (struct node *n = nodes->first; n; n = n->next)
        if (!emit_expression(c, f, n)) return false;
    return true;
}

static enum escape_mode escape_mode(const struct compiler *c) {
    return c->is_volatile ? ESCAPE_VOLATILE : c->autoescape ? ESCAPE_ON : ESCAPE_OFF;
}

/* A frame inside f, in the same function or (scope != NULL) in one of its own. */
static bool inner_frame(struct compiler *c, const struct frame *f, struct scope *scope, struct frame *inner) {
    struct symbols *s = jinja_new_symbols(c, f->symbols, scope ? scope : f->symbols->scope);
    *inner = (struct frame){.symbols = s};
    return s != NULL;
}

static struct slot slot_from(const struct frame *f, const struct scope *scope, uint32_t index) {
    return (struct slot){.hops = (uint16_t)(f->symbols->scope->depth - scope->depth), .index = index};
}

/* What happens on entry to a frame, from its finished table. */
static bool make_plan(struct compiler *c, const struct frame *f, struct frame_plan *plan) {
    const struct symbols *s = f->symbols;
    plan->loads = jinja_compiler_alloc(c, s->n ? s->n : 1, sizeof *plan->loads);
    if (!plan->loads) return false;
    plan->n = s->n;
    for (size_t i = 0; i < s->n; i++) {
        const struct symbol *symbol = &s->entries[i];
        struct load *load = &plan->loads[i];
        load->action = (enum load_action)symbol->action;
        load->index = symbol->slot;
        load->name = c->name_list[symbol->name];
        if (load->action == LOAD_ALIAS) load->source = slot_from(f, symbol->alias_scope, symbol->alias_slot);
    }
    return true;
}

static struct frame_plan *new_plan(struct compiler *c, const struct frame *f) {
    struct frame_plan *plan = jinja_compiler_alloc(c, 1, sizeof *plan);
    return plan && make_plan(c, f, plan) ? plan : NULL;
}

static bool resolve_name(struct compiler *c, const struct frame *f, const struct name *name, uint32_t line,
                         struct slot *slot, const struct symbol **symbol) {
    struct symbols *owner;
    const struct symbol *found = jinja_find_symbol(f->symbols, name->id, &owner);
    if (!found)
        return jinja_syntax_error(
            c, line, "Tried to resolve a name to a reference that was unknown to the frame ('%s')", name->text.data);
    *slot = slot_from(f, owner->scope, found->slot);
    if (symbol) *symbol = found;
    return true;
}

/* ---- looking through a subtree ---- */

struct search {
    const char *names[3];
    bool is_found[3], is_out[3]; /* stored before it was loaded: no longer of interest */
    bool has_loop_store, has_scoped_block;
    bool into_blocks;
};

static bool search_node(void *context, struct node *n) {
    struct search *search = context;
    if (n->kind == NODE_NAME) {
        for (int i = 0; i < 3 && search->names[i]; i++) {
            if (!jinja_text_is(&n->name->text, search->names[i])) continue;
            if (n->use != NAME_LOAD)
                search->is_out[i] = true;
            else if (!search->is_out[i])
                search->is_found[i] = true;
        }
        if (n->use == NAME_STORE && jinja_text_is(&n->name->text, "loop")) search->has_loop_store = true;
    }
    if (n->kind == NODE_BLOCK) {
        if (n->block->is_scoped) search->has_scoped_block = true;
        if (!search->into_blocks) return true;
    }
    return jinja_each_child(n, search_node, search);
}

/* Which of these names (up to three) are loaded before they are stored, outside of blocks. */
static struct search find_undeclared(const struct nodes *nodes, const char *a, const char *b, const char *d) {
    struct search search = {.names = {a, b, d}};
    for (struct node *n = nodes->first; n; n = n->next) search_node(&search, n);
    return search;
}

static int64_t declare_special(struct compiler *c, struct frame *f, const char *text, bool *ok) {
    const struct name *name = jinja_intern(c, text, strlen(text));
    *ok = name && jinja_declare_parameter(c, f->symbols, name);
    return *ok ? (int64_t)jinja_find_symbol(f->symbols, name->id, NULL)->slot : -1;
}

/* ---- expressions ---- */

static bool is_python_keyword(const struct name *name) {
    static const char *const words[] = {"False",  "None",   "True",    "and",      "as",       "assert", "async",
                                        "await",  "break",  "class",   "continue", "def",      "del",    "elif",
                                        "else",   "except", "finally", "for",      "from",     "global", "if",
                                        "import", "in",     "is",      "lambda",   "nonlocal", "not",    "or",
                                        "pass",   "raise",  "return",  "try",      "while",    "with",   "yield"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (jinja_text_is(&name->text, words[i])) return true;
    return false;
}

/* Python refuses a keyword that stands twice in a call, unless jinja2 had to write it as a dict. */
static bool check_keywords(struct compiler *c, const struct arguments *args, uint32_t line, bool has_caller) {
    for (const struct keyword *k = args->keywords; k; k = k->next)
        if (is_python_keyword(k->name)) return true;
    for (const struct keyword *k = args->keywords; k; k = k->next) {
        bool is_twice = has_caller && jinja_text_is(&k->name->text, "caller");
        for (const struct keyword *other = k->next; other && !is_twice; other = other->next)
            is_twice = other->name == k->name;
        if (is_twice) return jinja_syntax_error(c, line, "keyword argument repeated: %s", k->name->text.data);
        if (++c->work > 30000000) return jinja_syntax_error(c, line, "the template is too large");
    }
    return true;
}

static bool emit_arguments(struct compiler *c, const struct frame *f, const struct arguments *args, uint32_t line,
                           bool has_caller) {
    if (!check_keywords(c, args, line, has_caller) || !emit_expressions(c, f, &args->positional)) return false;
    for (const struct keyword *k = args->keywords; k; k = k->next)
        if (!emit_expression(c, f, k->value)) return false;
    return maybe_expression(c, f, args->star) && maybe_expression(c, f, args->star_star);
}

static bool emit_name(struct compiler *c, const struct frame *f, struct node *n) {
    const struct symbol *symbol = NULL;
    if (!resolve_name(c, f, n->name, n->line, &n->slot, &symbol)) return false;
    n->is_checked = f->in_defaults || symbol->action != LOAD_PARAMETER;
    return true;
}

static bool emit_filter(struct compiler *c, const struct frame *f, struct node *n) {
    bool is_filter = n->kind == NODE_FILTER;
    n->builtin = is_filter ? jinja_find_filter(&n->callee->text) : jinja_find_test(&n->callee->text);
    if (!n->builtin && !f->is_soft)
        return jinja_syntax_error(c, n->line, "No %s named '%s'.", is_filter ? "filter" : "test", n->callee->text.data);
    return maybe_expression(c, f, n->target) && emit_arguments(c, f, n->arguments, n->line, false);
}

static bool emit_operands(struct compiler *c, const struct frame *f, struct node *n) {
    if (!emit_expression(c, f, n->a)) return false;
    for (struct node *operand = n->operands.first; operand; operand = operand->next)
        if (!emit_expression(c, f, operand->a)) return false;
    return true;
}

static bool emit_expression(struct compiler *c, const struct frame *f, struct node *n) {
    if (!c->is_volatile && !jinja_fold(c, n)) return false;
    n->escape = (uint8_t)escape_mode(c);
    struct frame soft = *f;
    switch ((enum node_kind)n->kind) {
    case NODE_NAME: return emit_name(c, f, n);
    case NODE_NSREF: return resolve_name(c, f, n->name, n->line, &n->slot, NULL);
    case NODE_TUPLE:
    case NODE_LIST:
    case NODE_DICT:
    case NODE_CONCAT: return emit_expressions(c, f, &n->items);
    case NODE_CONDITIONAL:
        soft.is_soft = true;
        return emit_expression(c, &soft, n->b) && emit_expression(c, &soft, n->a) && maybe_expression(c, &soft, n->c);
    case NODE_FILTER:
    case NODE_TEST: return emit_filter(c, f, n);
    case NODE_CALL: return emit_expression(c, f, n->target) && emit_arguments(c, f, n->arguments, n->line, false);
    case NODE_ATTRIBUTE: return emit_expression(c, f, n->target);
    case NODE_SLICE:
        return maybe_expression(c, f, n->a) && maybe_expression(c, f, n->b) && maybe_expression(c, f, n->c);
    case NODE_COMPARE: return emit_operands(c, f, n);
    case NODE_ITEM:
    case NODE_BINARY:
    case NODE_AND:
    case NODE_OR: return emit_expression(c, f, n->a) && emit_expression(c, f, n->b);
    case NODE_NOT:
    case NODE_NEGATIVE:
    case NODE_POSITIVE: return emit_expression(c, f, n->a);
    default: return true;
    }
}

/* ---- loops ---- */

static struct node *clone_target(struct compiler *c, const struct node *target) {
    struct node *copy = jinja_new_node(c, (enum node_kind)target->kind, target->line);
    if (!copy) return NULL;
    copy->use = target->use;
    if (target->kind == NODE_NAME) {
        copy->name = target->name;
        return copy;
    }
    for (const struct node *item = target->items.first; item; item = item->next) {
        struct node *part = clone_target(c, item);
        if (!part) return NULL;
        jinja_nodes_add(&copy->items, part);
    }
    return copy;
}

/* The filter of a loop is a function of its own: it runs when the loop asks for the next item. */
static bool emit_loop_test(struct compiler *c, const struct frame *f, struct node *n) {
    struct scope *scope = jinja_new_scope(c, f->symbols->scope);
    struct frame test;
    if (!scope || !inner_frame(c, f, scope, &test)) return false;
    n->loop.test_function = scope->function;
    return (n->loop.test_into = clone_target(c, n->loop.into)) &&
           jinja_track_target(c, test.symbols, n->loop.test_into) && jinja_track(c, test.symbols, n->loop.test) &&
           (n->loop.test_frame = new_plan(c, &test)) && emit_expression(c, &test, n->loop.test_into) &&
           emit_expression(c, &test, n->loop.test);
}

static bool emit_else(struct compiler *c, const struct frame *f, struct scope *scope, struct node *n) {
    struct frame frame;
    return inner_frame(c, f, scope, &frame) && jinja_track_all(c, frame.symbols, &n->loop.otherwise) &&
           (n->loop.else_frame = new_plan(c, &frame)) && emit_all(c, &frame, &n->loop.otherwise);
}

static bool emit_for(struct compiler *c, const struct frame *f, struct node *n) {
    n->escape = (uint8_t)escape_mode(c);
    struct search search = find_undeclared(&n->loop.body, "loop", NULL, NULL), whole = {.into_blocks = true};
    jinja_each_child(n, search_node, &whole);
    if (whole.has_loop_store)
        return jinja_syntax_error(c, n->line, "Can't assign to special loop variable in for-loop target");
    n->loop.is_extended = n->loop.is_recursive || search.is_found[0] || whole.has_scoped_block;
    struct scope *scope = n->loop.is_recursive ? jinja_new_scope(c, f->symbols->scope) : NULL;
    if (n->loop.is_recursive && !scope) return false;
    if (scope) n->loop.loop_function = scope->function;
    struct frame body;
    bool ok = inner_frame(c, f, scope, &body);
    n->loop.loop_slot = -1;
    if (ok && n->loop.is_extended) n->loop.loop_slot = declare_special(c, &body, "loop", &ok);
    if (!ok || !jinja_track_target(c, body.symbols, n->loop.into) || !jinja_track_all(c, body.symbols, &n->loop.body))
        return false;
    if (n->loop.test && !emit_loop_test(c, f, n)) return false;
    if (!(n->loop.frame = new_plan(c, &body)) || !emit_expression(c, &body, n->loop.into) ||
        !emit_expression(c, f, n->loop.iterable))
        return false;
    struct scope *inside = body.symbols->scope;
    if (++inside->n_loops > MAX_LOOPS) return jinja_syntax_error(c, n->line, "too many statically nested blocks");
    ok = emit_all(c, &body, &n->loop.body);
    inside->n_loops--;
    return ok && (!n->loop.otherwise.n || emit_else(c, f, scope, n));
}

/* ---- macros ---- */

static bool check_parameters(struct compiler *c, const struct macro *m, int64_t *caller_at) {
    int64_t i = 0;
    *caller_at = -1;
    for (const struct node *p = m->parameters.first; p; p = p->next, i++) {
        if (jinja_text_is(&p->name->text, "caller")) *caller_at = i;
        for (const struct node *other = p->next; other; other = other->next) {
            if (other->name == p->name)
                return jinja_syntax_error(c, p->line, "duplicate argument '%s' in function definition",
                                          p->name->text.data);
            if (++c->work > 30000000) return jinja_syntax_error(c, p->line, "the template is too large");
        }
    }
    return true;
}

static bool has_parameter(const struct macro *m, const char *text) {
    for (const struct node *p = m->parameters.first; p; p = p->next)
        if (jinja_text_is(&p->name->text, text)) return true;
    return false;
}

static bool track_macro(struct compiler *c, struct frame *f, const struct macro *m) {
    return jinja_track_all(c, f->symbols, &m->parameters) && jinja_track_all(c, f->symbols, &m->defaults) &&
           jinja_track_all(c, f->symbols, &m->body);
}

/* caller, kwargs and varargs are parameters where the body uses them. */
static bool declare_specials(struct compiler *c, struct frame *f, struct macro *m, int64_t caller_at, uint32_t line) {
    struct search used = find_undeclared(&m->body, "caller", "kwargs", "varargs");
    bool ok = true;
    m->caller_slot = m->kwargs_slot = m->varargs_slot = -1;
    m->has_explicit_caller = caller_at >= 0;
    if (used.is_found[0] && caller_at >= 0 && (int64_t)m->parameters.n - caller_at > (int64_t)m->defaults.n)
        return jinja_syntax_error(c, line,
                                  "When defining macros or call blocks the special \"caller\" argument must be "
                                  "omitted or be given a default.");
    if (used.is_found[0]) {
        int64_t slot = declare_special(c, f, "caller", &ok);
        m->caller_slot = slot;
    }
    if (ok && used.is_found[1] && !has_parameter(m, "kwargs")) m->kwargs_slot = declare_special(c, f, "kwargs", &ok);
    if (ok && used.is_found[2] && !has_parameter(m, "varargs")) m->varargs_slot = declare_special(c, f, "varargs", &ok);
    return ok;
}

static bool record_parameters(struct compiler *c, const struct frame *f, struct macro *m) {
    size_t n = m->parameters.n, i = 0;
    m->parameter_slots = jinja_compiler_alloc(c, n + 1, sizeof *m->parameter_slots);
    m->parameter_names = jinja_compiler_alloc(c, 1, sizeof *m->parameter_names);
    struct jv *names = jinja_compiler_alloc(c, n + 1, sizeof *names);
    if (!m->parameter_slots || !m->parameter_names || !names) return false;
    for (const struct node *p = m->parameters.first; p; p = p->next, i++) {
        m->parameter_slots[i] = jinja_find_symbol(f->symbols, p->name->id, NULL)->slot;
        names[i] = jv_text((struct jinja_text *)&c->name_list[p->name->id]->text);
    }
    *m->parameter_names = (struct jinja_list){.items = names, .n = n};
    return true;
}

static bool emit_macro_body(struct compiler *c, const struct frame *f, struct node *n) {
    struct macro *m = n->macro.macro;
    struct scope *scope = jinja_new_scope(c, f->symbols->scope);
    struct frame frame;
    int64_t caller_at;
    if (!scope || !inner_frame(c, f, scope, &frame) || !check_parameters(c, m, &caller_at)) return false;
    m->function = scope->function;
    if (!track_macro(c, &frame, m) || !declare_specials(c, &frame, m, caller_at, n->line) ||
        !track_macro(c, &frame, m) || !record_parameters(c, &frame, m) || !make_plan(c, &frame, &m->frame))
        return false;
    struct frame defaults = frame;
    defaults.in_defaults = true;
    return emit_expressions(c, &defaults, &m->defaults) && emit_all(c, &frame, &m->body);
}

static bool emit_macro(struct compiler *c, const struct frame *f, struct node *n) {
    n->macro.is_exported = f->is_toplevel;
    return emit_macro_body(c, f, n) && resolve_name(c, f, n->macro.macro->name, n->line, &n->macro.store, NULL);
}

static bool emit_call_block(struct compiler *c, const struct frame *f, struct node *n) {
    struct node *call = n->macro.call;
    if (!emit_macro_body(c, f, n)) return false;
    return !call || (emit_expression(c, f, call->target) && emit_arguments(c, f, call->arguments, call->line, true));
}

/* ---- other scopes ---- */

static bool emit_filter_block(struct compiler *c, const struct frame *f, struct node *n) {
    n->escape = (uint8_t)escape_mode(c);
    struct frame inner;
    return inner_frame(c, f, NULL, &inner) && jinja_track_all(c, inner.symbols, &n->scope.body) &&
           jinja_track(c, inner.symbols, n->scope.value) && (n->scope.frame = new_plan(c, &inner)) &&
           emit_all(c, &inner, &n->scope.body) && emit_expression(c, &inner, n->scope.value);
}

static bool emit_with(struct compiler *c, const struct frame *f, struct node *n) {
    struct frame inner;
    return inner_frame(c, f, NULL, &inner) && jinja_track(c, inner.symbols, n->scope.into) &&
           jinja_track_all(c, inner.symbols, &n->scope.body) && (n->scope.frame = new_plan(c, &inner)) &&
           emit_expression(c, &inner, n->scope.into) && emit_expressions(c, f, &n->scope.value->items) &&
           emit_all(c, &inner, &n->scope.body);
}

static bool emit_assign(struct compiler *c, const struct frame *f, struct node *n) {
    n->scope.is_exported = f->is_toplevel;
    return emit_expression(c, f, n->scope.into) && emit_expression(c, f, n->scope.value);
}

static bool emit_assign_block(struct compiler *c, const struct frame *f, struct node *n) {
    struct frame inner;
    n->scope.is_exported = f->is_toplevel;
    n->escape = (uint8_t)escape_mode(c);
    return inner_frame(c, f, NULL, &inner) && jinja_track_all(c, inner.symbols, &n->scope.body) &&
           (n->scope.frame = new_plan(c, &inner)) && emit_all(c, &inner, &n->scope.body) &&
           emit_expression(c, f, n->scope.into) && maybe_expression(c, &inner, n->scope.value);
}

static bool emit_autoescape(struct compiler *c, const struct frame *f, struct node *n) {
    struct frame inner;
    bool autoescape = c->autoescape, is_volatile = c->is_volatile;
    if (!inner_frame(c, f, NULL, &inner) || !jinja_track(c, inner.symbols, n->scope.value) ||
        !jinja_track_all(c, inner.symbols, &n->scope.body) || !(n->scope.frame = new_plan(c, &inner)) ||
        !emit_expression(c, &inner, n->scope.value))
        return false;
    if (n->scope.value->kind == NODE_CONST)
        c->autoescape = jinja_const_truth(n->scope.value->value);
    else
        c->is_volatile = true;
    bool ok = emit_all(c, &inner, &n->scope.body);
    c->autoescape = autoescape;
    c->is_volatile = is_volatile;
    return ok;
}

/* Registers the block and notes what a scoped one sees. Its body is emitted after the template's. */
static bool emit_block(struct compiler *c, const struct frame *f, struct node *n) {
    struct jinja_block *b = n->block, **at = &c->template->blocks;
    for (; *at; at = &(*at)->next)
        if ((*at)->name == b->name)
            return jinja_syntax_error(c, n->line, "block '%s' defined twice", b->name->text.data);
    *at = b;
    if (!b->is_scoped) return true;
    size_t n_names = 0;
    for (const struct symbols *s = f->symbols; s; s = s->parent) n_names += s->n;
    b->visible = jinja_compiler_alloc(c, n_names ? n_names : 1, sizeof *b->visible);
    if (!b->visible) return false;
    for (const struct symbols *s = f->symbols; s; s = s->parent) /* the innermost of a name comes first */
        for (size_t i = 0; i < s->n; i++) {
            struct jinja_scoped *v = &b->visible[b->n_visible];
            if (!s->entries[i].is_stored) continue;
            v->name = c->name_list[s->entries[i].name];
            if (!resolve_name(c, f, v->name, n->line, &v->slot, NULL)) return false;
            b->n_visible++;
        }
    return true;
}

static bool emit_extends(struct compiler *c, const struct frame *f, struct node *n) {
    if (!f->is_toplevel) return jinja_syntax_error(c, n->line, "cannot use extend from a non top-level scope");
    return emit_expression(c, f, n->include.template);
}

static bool emit_if(struct compiler *c, const struct frame *f, struct node *n) {
    struct frame soft = *f;
    soft.is_soft = true;
    if (!emit_expression(c, &soft, n->branch.test) || !emit_all(c, &soft, &n->branch.body)) return false;
    for (struct node *elif = n->branch.elifs.first; elif; elif = elif->next)
        if (!emit_expression(c, &soft, elif->branch.test) || !emit_all(c, &soft, &elif->branch.body)) return false;
    return emit_all(c, &soft, &n->branch.otherwise);
}

static bool emit_output(struct compiler *c, const struct frame *f, struct node *n) {
    n->escape = (uint8_t)escape_mode(c);
    for (struct node *child = n->items.first; child; child = child->next) {
        if (child->kind == NODE_DATA) continue;
        if (!emit_expression(c, f, child)) return false;
        jinja_fold_output(c, child);
    }
    return true;
}

static bool emit(struct compiler *c, const struct frame *f, struct node *n) {
    switch ((enum node_kind)n->kind) {
    case NODE_OUTPUT: return emit_output(c, f, n);
    case NODE_FOR: return emit_for(c, f, n);
    case NODE_IF: return emit_if(c, f, n);
    case NODE_MACRO: return emit_macro(c, f, n);
    case NODE_CALL_BLOCK: return emit_call_block(c, f, n);
    case NODE_FILTER_BLOCK: return emit_filter_block(c, f, n);
    case NODE_WITH: return emit_with(c, f, n);
    case NODE_BLOCK: return emit_block(c, f, n);
    case NODE_EXTENDS: return emit_extends(c, f, n);
    case NODE_INCLUDE:
    case NODE_IMPORT: return emit_expression(c, f, n->include.template);
    case NODE_ASSIGN: return emit_assign(c, f, n);
    case NODE_ASSIGN_BLOCK: return emit_assign_block(c, f, n);
    case NODE_AUTOESCAPE: return emit_autoescape(c, f, n);
    case NODE_BREAK: return f->symbols->scope->n_loops || jinja_syntax_error(c, n->line, "'break' outside loop");
    case NODE_CONTINUE:
        return f->symbols->scope->n_loops || jinja_syntax_error(c, n->line, "'continue' not properly in loop");
    default: return true;
    }
}

static bool emit_all(struct compiler *c, const struct frame *f, const struct nodes *nodes) {
    for (struct node *n = nodes->first; n; n = n->next)
        if (!emit(c, f, n)) return false;
    return true;
}

static bool emit_block_body(struct compiler *c, struct jinja_block *b) {
    struct scope *scope = jinja_new_scope(c, NULL);
    struct frame frame = {.symbols = scope ? jinja_new_symbols(c, NULL, scope) : NULL};
    if (!frame.symbols) return false;
    struct search used = find_undeclared(&b->body, "self", "super", NULL);
    bool ok = true;
    b->function = scope->function;
    b->self_slot = b->super_slot = -1;
    if (used.is_found[0]) b->self_slot = declare_special(c, &frame, "self", &ok);
    if (ok && used.is_found[1]) b->super_slot = declare_special(c, &frame, "super", &ok);
    return ok && jinja_track_all(c, frame.symbols, &b->body) && make_plan(c, &frame, &b->frame) &&
           emit_all(c, &frame, &b->body);
}

bool jinja_resolve(struct compiler *c) {
    struct jinja_template *t = c->template;
    struct scope *scope = jinja_new_scope(c, NULL);
    struct frame root = {.symbols = scope ? jinja_new_symbols(c, NULL, scope) : NULL, .is_toplevel = true};
    if (!root.symbols) return false;
    bool ok = true;
    t->function = scope->function;
    t->self_slot = -1;
    if (find_undeclared(&t->body, "self", NULL, NULL).is_found[0])
        t->self_slot = declare_special(c, &root, "self", &ok);
    if (!ok || !jinja_track_all(c, root.symbols, &t->body) || !make_plan(c, &root, &t->frame) ||
        !emit_all(c, &root, &t->body))
        return false;
    for (struct jinja_block *b = t->blocks; b; b = b->next)
        if (!emit_block_body(c, b)) return false;
    return true;
}
