/* SPDX-License-Identifier: Apache-2.0 */
/* Statements. A frame is entered and left as jinja2's generated code does it, down to this: `break` and `continue`
 * jump over the leaving of the frames in between, and a loop's else runs unless an iteration reached its end. */
#include "text/jinja/eval.h"

#include "text/jinja/iterate.h"
#include "text/jinja/loop.h"
#include "text/jinja/markup.h"
#include "text/jinja/operate.h"
#include "text/jinja/print.h"
#include "text/jinja/text.h"

#include <string.h>

static enum flow exec_node(struct jinja_run *run, struct jinja_env *env, const struct node *n);

/* ---- environments and frames ---- */

struct jinja_env *jinja_env_new(struct jinja_run *run, const struct function *function, struct jinja_env *outer) {
    struct jinja_env *env = jinja_alloc(run, 1, sizeof *env + function->n_slots * sizeof(struct jv));
    if (!env || !jinja_spend(run, function->n_slots / 8 + 1)) return NULL;
    env->outer = outer;
    for (uint32_t i = 0; i < function->n_slots; i++) env->slots[i] = jv_missing();
    return env;
}

bool jinja_lookup(struct jinja_run *run, const struct name *name, struct jv *result) {
    struct jinja_text *text = (struct jinja_text *)&name->text;
    struct jinja_entry *e = run->exported ? jinja_dict_find_text(run, run->exported, text) : NULL;
    if (!e) e = jinja_dict_find_text(run, run->context, text);
    if (e) return *result = e->value, true;
    const struct jinja_builtin *global = jinja_find_global(text);
    *result = global ? jv_object(JV_FUNCTION, global) : jv_missing();
    return true;
}

bool jinja_enter_frame(struct jinja_run *run, struct jinja_env *env, const struct frame_plan *plan) {
    if (plan->n && !jinja_spend(run, plan->n)) return false;
    for (size_t i = 0; i < plan->n; i++) {
        const struct load *load = &plan->loads[i];
        struct jinja_env *from = env;
        switch (load->action) {
        case LOAD_PARAMETER: break;
        case LOAD_UNDEFINED: env->slots[load->index] = jv_missing(); break;
        case LOAD_ALIAS:
            for (unsigned hops = load->source.hops; hops; hops--) from = from->outer;
            env->slots[load->index] = from->slots[load->source.index];
            break;
        case LOAD_RESOLVE:
            if (!jinja_lookup(run, load->name, &env->slots[load->index])) return false;
            break;
        }
    }
    return true;
}

void jinja_leave_frame(struct jinja_env *env, const struct frame_plan *plan) {
    for (size_t i = 0; i < plan->n; i++) env->slots[plan->loads[i].index] = jv_missing();
}

bool jinja_capture(struct jinja_run *run, struct jinja_env *env, const struct nodes *body, struct jv *result) {
    size_t start = run->out->length;
    return jinja_exec(run, env, body) != FLOW_FAILED && jinja_string_take(run, run->out, start, result);
}

/* ---- assignment ---- */

static bool unpack(struct jinja_run *run, struct jinja_env *env, const struct node *target, struct jv value) {
    size_t wanted = target->items.n, n;
    struct jv few[8], *parts = wanted > 8 ? jinja_alloc(run, wanted, sizeof *parts) : few;
    if (!parts) return false;
    if (!jinja_is_iterable(value))
        return jinja_raise(run, JINJA_TYPE, "cannot unpack non-iterable %s object", jinja_type_name(value));
    if (!jinja_take(run, value, parts, wanted, &n)) return false;
    if (n > wanted) return jinja_raise(run, JINJA_VALUE, "too many values to unpack (expected %zu)", wanted);
    if (n < wanted)
        return jinja_raise(run, JINJA_VALUE, "not enough values to unpack (expected %zu, got %zu)", wanted, n);
    n = 0;
    for (const struct node *item = target->items.first; item; item = item->next)
        if (!jinja_assign(run, env, item, parts[n++])) return false;
    return true;
}

bool jinja_assign(struct jinja_run *run, struct jinja_env *env, const struct node *target, struct jv value) {
    if (target->kind == NODE_TUPLE) return unpack(run, env, target, value);
    for (unsigned hops = target->slot.hops; hops; hops--) env = env->outer;
    struct jv *slot = &env->slots[target->slot.index];
    if (target->kind == NODE_NAME) {
        *slot = value;
        return true;
    }
    if ((slot->type != JV_NAMESPACE && slot->type != JV_DICT) || slot->dict->is_constant)
        return jinja_raise(run, JINJA_TYPE, "'%s' object does not support item assignment", jinja_type_name(*slot));
    return jinja_dict_set(run, slot->dict, jv_text((struct jinja_text *)&target->attribute->text), value);
}

/* name.attribute = value is for namespaces only; this is found out before the value is computed. */
static bool check_namespaces(struct jinja_run *run, struct jinja_env *env, const struct node *target) {
    if (target->kind == NODE_TUPLE) {
        for (const struct node *item = target->items.first; item; item = item->next)
            if (!check_namespaces(run, env, item)) return false;
        return true;
    }
    if (target->kind != NODE_NSREF) return true;
    for (unsigned hops = target->slot.hops; hops; hops--) env = env->outer;
    return env->slots[target->slot.index].type == JV_NAMESPACE ||
           jinja_raise(run, JINJA_RUNTIME, "cannot assign attribute on non-namespace object");
}

/* What the top level sets is seen by blocks. */
static bool export_target(struct jinja_run *run, struct jinja_env *env, const struct node *target) {
    if (!run->exported) return true;
    if (target->kind == NODE_NAME)
        return jinja_dict_set(run, run->exported, jv_text((struct jinja_text *)&target->name->text),
                              env->slots[target->slot.index]);
    for (const struct node *item = target->kind == NODE_TUPLE ? target->items.first : NULL; item; item = item->next)
        if (!export_target(run, env, item)) return false;
    return true;
}

static enum flow as_flow(bool ok) { return ok ? FLOW_NEXT : FLOW_FAILED; }

static enum flow exec_assign(struct jinja_run *run, struct jinja_env *env, const struct node *n) {
    struct jv value;
    return as_flow(check_namespaces(run, env, n->scope.into) && jinja_eval(run, env, n->scope.value, &value) &&
                   jinja_assign(run, env, n->scope.into, value) &&
                   (!n->scope.is_exported || export_target(run, env, n->scope.into)));
}

static enum flow exec_assign_block(struct jinja_run *run, struct jinja_env *env, const struct node *n) {
    struct jv value;
    size_t start = run->out->length;
    if (!jinja_enter_frame(run, env, n->scope.frame)) return FLOW_FAILED;
    enum flow flow = jinja_exec(run, env, &n->scope.body);
    if (flow == FLOW_FAILED || !jinja_string_take(run, run->out, start, &value)) return FLOW_FAILED;
    if (flow != FLOW_NEXT) return flow;
    value.is_markup = n->escape == ESCAPE_ON || (n->escape == ESCAPE_VOLATILE && run->autoescape);
    if (n->scope.value) {
        run->captured = value;
        if (!jinja_eval(run, env, n->scope.value, &value)) return FLOW_FAILED;
    }
    if (run->autoescape && !value.is_markup) {
        if (!jinja_to_str(run, value, &value)) return FLOW_FAILED;
        value.is_markup = true;
    }
    if (!jinja_assign(run, env, n->scope.into, value) ||
        (n->scope.is_exported && !export_target(run, env, n->scope.into)))
        return FLOW_FAILED;
    jinja_leave_frame(env, n->scope.frame);
    return FLOW_NEXT;
}

/* ---- output ---- */

static bool write_value(struct jinja_run *run, struct jv v, bool escapes) {
    if (escapes && !(v.type == JV_STRING && v.is_markup)) {
        struct jv escaped;
        return jinja_escape(run, v, &escaped) && jinja_write(run, escaped.text->data, escaped.text->length);
    }
    if (v.type == JV_STRING) return jinja_write(run, v.text->data, v.text->length);
    struct jv text;
    return jinja_to_str(run, v, &text) && jinja_write(run, text.text->data, text.text->length);
}

static enum flow exec_output(struct jinja_run *run, struct jinja_env *env, const struct node *n) {
    for (const struct node *child = n->items.first; child; child = child->next) {
        struct jv value = child->value;
        if (child->kind == NODE_DATA) {
            if (!jinja_write(run, value.text->data, value.text->length)) return FLOW_FAILED;
            continue;
        }
        bool escapes = n->escape == ESCAPE_ON || (n->escape == ESCAPE_VOLATILE && run->autoescape);
        if (!jinja_eval(run, env, child, &value) || !write_value(run, value, escapes)) return FLOW_FAILED;
    }
    return FLOW_NEXT;
}

/* What a call or filter block gives must be text already. */
static bool write_text(struct jinja_run *run, struct jv v) {
    if (v.type == JV_STRING) return jinja_write(run, v.text->data, v.text->length);
    return jinja_raise(run, JINJA_TYPE, "sequence item 0: expected str instance, %s found", jinja_type_name(v));
}

/* ---- loops ---- */

struct filtered {
    const struct node *node;
    struct jinja_env *outer, *env;
};

/* The value that a target stands for after it was assigned. */
static bool target_value(struct jinja_run *run, struct jinja_env *env, const struct node *target, struct jv *value) {
    if (target->kind == NODE_NAME) return *value = env->slots[target->slot.index], true;
    struct jinja_list *list = jinja_list_new(run, target->items.n);
    if (!list) return false;
    for (const struct node *item = target->items.first; item; item = item->next) {
        struct jv part;
        if (!target_value(run, env, item, &part) || !jinja_list_append(run, list, part)) return false;
    }
    *value = jv_tuple(list);
    return true;
}

static bool step_filtered(struct jinja_run *run, struct jinja_iterator *it, struct jv *item, bool *is_end) {
    struct filtered *f = it->state;
    const struct node *n = f->node;
    if (!f->env) {
        f->env = jinja_env_new(run, n->loop.test_function, f->outer);
        if (!f->env || !jinja_enter_frame(run, f->env, n->loop.test_frame)) return false;
    }
    for (;;) {
        struct jv candidate, answer;
        bool truth;
        if (!jinja_next_of_source(run, it, &candidate, is_end)) return false;
        if (*is_end) return true;
        if (!jinja_assign(run, f->env, n->loop.test_into, candidate) ||
            !jinja_eval(run, f->env, n->loop.test, &answer) || !jinja_truth(run, answer, &truth))
            return false;
        if (truth) return target_value(run, f->env, n->loop.test_into, item);
    }
}

static bool with_filter(struct jinja_run *run, struct jinja_env *env, const struct node *n, struct jv *iterable) {
    if (!n->loop.test) return true;
    struct filtered *f = jinja_alloc(run, 1, sizeof *f);
    if (!f) return false;
    *f = (struct filtered){.node = n, .outer = env};
    return jinja_generator(run, "generator", step_filtered, *iterable, f, iterable);
}

struct iteration {
    struct jinja_iterator *iterator;
    struct jinja_loop *loop; /* NULL when the body does not look at it */
};

static bool next_item(struct jinja_run *run, const struct iteration *i, struct jv *item, bool *is_end) {
    if (i->loop) return jinja_loop_next(run, i->loop, item, is_end);
    return jinja_next(run, i->iterator, item, is_end);
}

static enum flow run_loop(struct jinja_run *run, struct jinja_env *env, const struct node *n,
                          const struct iteration *i) {
    bool completed = false; /* an iteration came to its end */
    for (;;) {
        struct jv item;
        bool is_end;
        if (!next_item(run, i, &item, &is_end)) return FLOW_FAILED;
        if (is_end) break;
        if (!jinja_assign(run, env, n->loop.into, item)) return FLOW_FAILED;
        if (i->loop) env->slots[n->loop.loop_slot] = jv_object(JV_LOOP, i->loop);
        if (!jinja_enter_frame(run, env, n->loop.frame)) return FLOW_FAILED;
        enum flow flow = jinja_exec(run, env, &n->loop.body);
        if (flow == FLOW_FAILED) return flow;
        if (flow == FLOW_BREAK) break;
        if (flow == FLOW_NEXT) completed = true;
    }
    jinja_leave_frame(env, n->loop.frame);
    if (!n->loop.otherwise.n || completed) return FLOW_NEXT;
    if (!jinja_enter_frame(run, env, n->loop.else_frame)) return FLOW_FAILED;
    enum flow flow = jinja_exec(run, env, &n->loop.otherwise);
    if (flow == FLOW_NEXT) jinja_leave_frame(env, n->loop.else_frame);
    return flow;
}

/* `outer` is where the loop stands, env where its variables are; they differ for a recursive loop. */
static enum flow start_loop(struct jinja_run *run, struct jinja_env *outer, struct jinja_env *env, const struct node *n,
                            struct jv iterable, int64_t depth0) {
    struct iteration i = {0};
    if (!with_filter(run, outer, n, &iterable) || !(i.iterator = jinja_iterate(run, iterable))) return FLOW_FAILED;
    if (n->loop.is_extended) {
        if (!(i.loop = jinja_loop_new(run, iterable, i.iterator))) return FLOW_FAILED;
        i.loop->depth0 = depth0;
        i.loop->node = n->loop.is_recursive ? n : NULL;
        i.loop->env = outer;
        env->slots[n->loop.loop_slot] = jv_missing();
    }
    return run_loop(run, env, n, &i);
}

bool jinja_loop_recurse(struct jinja_run *run, const struct node *n, struct jinja_env *outer, struct jv iterable,
                        int64_t depth0, struct jv *result) {
    struct jinja_env *env = jinja_env_new(run, n->loop.loop_function, outer);
    size_t start = run->out->length;
    if (!env) return false;
    if (++run->calls > JINJA_MAX_CALLS) return jinja_raise(run, JINJA_LIMIT, "maximum recursion depth exceeded");
    if (start_loop(run, outer, env, n, iterable, depth0) == FLOW_FAILED ||
        !jinja_string_take(run, run->out, start, result))
        return false;
    run->calls--;
    result->is_markup = n->escape == ESCAPE_ON || (n->escape == ESCAPE_VOLATILE && run->autoescape);
    return true;
}

static enum flow exec_for(struct jinja_run *run, struct jinja_env *env, const struct node *n) {
    struct jv iterable, text;
    if (!jinja_eval(run, env, n->loop.iterable, &iterable)) return FLOW_FAILED;
    if (!n->loop.is_recursive) return start_loop(run, env, env, n, iterable, 0);
    return as_flow(jinja_loop_recurse(run, n, env, iterable, 0, &text) && write_text(run, text));
}

/* ---- branches ---- */

static enum flow exec_if(struct jinja_run *run, struct jinja_env *env, const struct node *n) {
    const struct node *branch = n;
    struct jv value;
    for (bool is_first = true; branch; branch = is_first ? n->branch.elifs.first : branch->next, is_first = false) {
        bool truth;
        if (!jinja_eval(run, env, branch->branch.test, &value) || !jinja_truth(run, value, &truth)) return FLOW_FAILED;
        if (truth) return jinja_exec(run, env, &branch->branch.body);
    }
    return jinja_exec(run, env, &n->branch.otherwise);
}

/* ---- macros and blocks ---- */

static bool make_macro(struct jinja_run *run, struct jinja_env *env, const struct macro *definition,
                       struct jv *result) {
    struct jinja_macro *macro = jinja_alloc(run, 1, sizeof *macro);
    if (!macro) return false;
    *macro = (struct jinja_macro){.definition = definition, .env = env};
    *result = jv_object(JV_MACRO, macro);
    return true;
}

static enum flow exec_macro(struct jinja_run *run, struct jinja_env *env, const struct node *n) {
    struct jv macro;
    if (!make_macro(run, env, n->macro.macro, &macro)) return FLOW_FAILED;
    env->slots[n->macro.store.index] = macro;
    if (!n->macro.is_exported || !run->exported) return FLOW_NEXT;
    return as_flow(
        jinja_dict_set(run, run->exported, jv_text((struct jinja_text *)&n->macro.macro->name->text), macro));
}

static enum flow exec_call_block(struct jinja_run *run, struct jinja_env *env, const struct node *n) {
    static const struct jinja_args no_arguments;
    struct jv caller, text;
    if (!make_macro(run, env, n->macro.macro, &caller)) return FLOW_FAILED;
    bool ok = n->macro.call ? jinja_eval_call(run, env, n->macro.call, caller, &text)
                            : jinja_call_macro(run, caller.macro, &no_arguments, &text);
    return as_flow(ok && write_text(run, text));
}

static enum flow exec_filter_block(struct jinja_run *run, struct jinja_env *env, const struct node *n) {
    struct jv text;
    size_t start = run->out->length;
    if (!jinja_enter_frame(run, env, n->scope.frame)) return FLOW_FAILED;
    enum flow flow = jinja_exec(run, env, &n->scope.body);
    if (flow == FLOW_FAILED || !jinja_string_take(run, run->out, start, &text)) return FLOW_FAILED;
    if (flow != FLOW_NEXT) return flow;
    text.is_markup = n->escape == ESCAPE_ON || (n->escape == ESCAPE_VOLATILE && run->autoescape);
    run->captured = text;
    if (!jinja_eval(run, env, n->scope.value, &text) || !write_text(run, text)) return FLOW_FAILED;
    jinja_leave_frame(env, n->scope.frame);
    return FLOW_NEXT;
}

static enum flow exec_with(struct jinja_run *run, struct jinja_env *env, const struct node *n) {
    if (!jinja_enter_frame(run, env, n->scope.frame)) return FLOW_FAILED;
    const struct node *value = n->scope.value->items.first;
    for (const struct node *into = n->scope.into->items.first; into; into = into->next, value = value->next) {
        struct jv result;
        if (!jinja_eval(run, env, value, &result) || !jinja_assign(run, env, into, result)) return FLOW_FAILED;
    }
    enum flow flow = jinja_exec(run, env, &n->scope.body);
    if (flow == FLOW_NEXT) jinja_leave_frame(env, n->scope.frame);
    return flow;
}

static enum flow exec_autoescape(struct jinja_run *run, struct jinja_env *env, const struct node *n) {
    struct jv value;
    bool before = run->autoescape, truth;
    if (!jinja_enter_frame(run, env, n->scope.frame) || !jinja_eval(run, env, n->scope.value, &value) ||
        !jinja_truth(run, value, &truth))
        return FLOW_FAILED;
    run->autoescape = truth;
    enum flow flow = jinja_exec(run, env, &n->scope.body);
    if (flow != FLOW_NEXT) return flow;
    run->autoescape = before;
    jinja_leave_frame(env, n->scope.frame);
    return FLOW_NEXT;
}

bool jinja_run_block(struct jinja_run *run, const struct jinja_block *block) {
    struct jinja_env *env = jinja_env_new(run, block->function, NULL);
    if (!env) return false;
    if (block->self_slot >= 0) env->slots[block->self_slot] = jv_object(JV_SELF, NULL);
    if (block->super_slot >= 0) {
        char *hint = arena_printf(run->arena, "there is no parent block called '%s'.", block->name->text.data);
        if (!hint) return jinja_out_of_memory(run);
        if (!jinja_undefined_hint(run, hint, &env->slots[block->super_slot])) return false;
    }
    return jinja_enter_frame(run, env, &block->frame) && jinja_exec(run, env, &block->body) != FLOW_FAILED;
}

static enum flow exec_block(struct jinja_run *run, struct jinja_env *env, const struct node *n) {
    const struct jinja_block *b = n->block;
    if (b->is_required)
        return as_flow(jinja_raise(run, JINJA_RUNTIME, "Required block '%s' not found", b->name->text.data));
    struct jinja_dict *before = run->exported;
    if (b->is_scoped && !(run->exported = jinja_dict_copy(run, before))) return FLOW_FAILED;
    for (size_t i = b->n_visible; i-- > 0;) { /* the innermost last, so that it counts */
        struct jinja_env *from = env;
        for (unsigned hops = b->visible[i].slot.hops; hops; hops--) from = from->outer;
        struct jv value = from->slots[b->visible[i].slot.index];
        if (value.type == JV_MISSING) continue;
        if (!jinja_dict_set(run, run->exported, jv_text((struct jinja_text *)&b->visible[i].name->text), value))
            return FLOW_FAILED;
    }
    bool ok = jinja_run_block(run, b);
    run->exported = before;
    return as_flow(ok);
}

/* No template can be loaded; an empty list of names to include may be ignored. */
static enum flow exec_include(struct jinja_run *run, struct jinja_env *env, const struct node *n) {
    struct jv name;
    bool truth;
    if (!jinja_eval(run, env, n->include.template, &name) || !jinja_truth(run, name, &truth)) return FLOW_FAILED;
    if (n->kind == NODE_INCLUDE && !truth && name.type != JV_UNDEFINED && name.type != JV_STRING &&
        n->include.ignores_missing)
        return FLOW_NEXT;
    return as_flow(jinja_raise(run, JINJA_TYPE, "no loader for this environment specified"));
}

static enum flow exec_node(struct jinja_run *run, struct jinja_env *env, const struct node *n) {
    switch ((enum node_kind)n->kind) {
    case NODE_OUTPUT: return exec_output(run, env, n);
    case NODE_FOR: return exec_for(run, env, n);
    case NODE_IF: return exec_if(run, env, n);
    case NODE_MACRO: return exec_macro(run, env, n);
    case NODE_CALL_BLOCK: return exec_call_block(run, env, n);
    case NODE_FILTER_BLOCK: return exec_filter_block(run, env, n);
    case NODE_WITH: return exec_with(run, env, n);
    case NODE_BLOCK: return exec_block(run, env, n);
    case NODE_ASSIGN: return exec_assign(run, env, n);
    case NODE_ASSIGN_BLOCK: return exec_assign_block(run, env, n);
    case NODE_AUTOESCAPE: return exec_autoescape(run, env, n);
    case NODE_BREAK: return FLOW_BREAK;
    case NODE_CONTINUE: return FLOW_CONTINUE;
    default: return exec_include(run, env, n);
    }
}

enum flow jinja_exec(struct jinja_run *run, struct jinja_env *env, const struct nodes *body) {
    if (++run->depth > JINJA_MAX_DEPTH) {
        jinja_raise(run, JINJA_LIMIT, "maximum recursion depth exceeded");
        return FLOW_FAILED;
    }
    enum flow flow = FLOW_NEXT;
    for (const struct node *n = body->first; n && flow == FLOW_NEXT; n = n->next) {
        if (!jinja_step(run)) return FLOW_FAILED;
        run->line = n->line;
        flow = exec_node(run, env, n);
    }
    run->depth--;
    return flow;
}
