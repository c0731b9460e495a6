/* SPDX-License-Identifier: Apache-2.0 */
#include "text/jinja/eval.h"

#include "text/jinja/attribute.h"
#include "text/jinja/iterate.h"
#include "text/jinja/markup.h"
#include "text/jinja/operate.h"
#include "text/jinja/print.h"
#include "text/jinja/text.h"

#include <string.h>

/* A constant is being computed and depends on the rendering; the message is never seen. */
static bool not_constant(struct jinja_run *run) { return jinja_raise(run, JINJA_UNSUPPORTED, "not a constant"); }

/* ---- names ---- */

static bool eval_name(struct jinja_run *run, struct jinja_env *env, const struct node *n, struct jv *result) {
    if (run->is_folding) return not_constant(run);
    for (unsigned hops = n->slot.hops; hops; hops--) env = env->outer;
    *result = env->slots[n->slot.index];
    if (result->type != JV_MISSING || !n->is_checked) return true;
    return jinja_undefined(run, jv_missing(), jv_text((struct jinja_text *)&n->name->text), result);
}

/* ---- containers, text ---- */

static bool eval_items(struct jinja_run *run, struct jinja_env *env, const struct node *n, struct jv *result) {
    struct jinja_list *list = jinja_list_new(run, n->items.n);
    if (!list) return false;
    for (const struct node *item = n->items.first; item; item = item->next) {
        if (!jinja_eval(run, env, item, &list->items[list->n])) return false;
        list->n++;
    }
    if (list->tail) list->tail->used = list->n;
    *result = n->kind == NODE_LIST ? jv_list(list) : jv_tuple(list);
    return true;
}

static bool eval_dict(struct jinja_run *run, struct jinja_env *env, const struct node *n, struct jv *result) {
    struct jinja_dict *dict = jinja_dict_new(run, n->items.n / 2);
    if (!dict) return false;
    for (const struct node *item = n->items.first; item; item = item->next->next) {
        struct jv key, value;
        if (!jinja_eval(run, env, item, &key) || !jinja_eval(run, env, item->next, &value) ||
            !jinja_dict_set(run, dict, key, value))
            return false;
    }
    *result = jv_dict(dict);
    return true;
}

/* Values joined as text; where escaping is on and one of them is markup, the others are escaped. */
static bool eval_concat(struct jinja_run *run, struct jinja_env *env, const struct node *n, struct jv *result) {
    struct jv few[8], *parts = few;
    size_t count = 0;
    bool has_markup = false;
    if (n->items.n > 8 && !(parts = jinja_alloc(run, n->items.n, sizeof *parts))) return false;
    for (const struct node *item = n->items.first; item; item = item->next, count++) {
        if (!jinja_eval(run, env, item, &parts[count]) || !jinja_soft_str(run, parts[count], &parts[count]))
            return false;
        has_markup |= parts[count].is_markup;
    }
    bool escapes = has_markup && n->escape == ESCAPE_ON && !run->is_folding;
    for (size_t i = 0; i < count; i++)
        if (escapes && !jinja_escape(run, parts[i], &parts[i])) return false;
    *result = parts[0];
    for (size_t i = 1; i < count; i++)
        if (!jinja_text_concat(run, result->text, parts[i].text, result)) return false;
    result->is_markup = escapes;
    return true;
}

/* ---- operators ---- */

static bool eval_compare(struct jinja_run *run, struct jinja_env *env, const struct node *n, struct jv *result) {
    struct jv left, right;
    bool holds = true;
    if (!jinja_eval(run, env, n->a, &left)) return false;
    for (const struct node *operand = n->operands.first; operand && holds; operand = operand->next) {
        if (!jinja_eval(run, env, operand->a, &right) ||
            !jinja_compare(run, (enum node_op)operand->op, left, right, &holds))
            return false;
        left = right;
    }
    *result = jv_bool(holds);
    return true;
}

static bool eval_logic(struct jinja_run *run, struct jinja_env *env, const struct node *n, struct jv *result) {
    bool truth;
    if (!jinja_eval(run, env, n->a, result) || !jinja_truth(run, *result, &truth)) return false;
    return truth == (n->kind == NODE_OR) || jinja_eval(run, env, n->b, result);
}

static bool eval_conditional(struct jinja_run *run, struct jinja_env *env, const struct node *n, struct jv *result) {
    bool truth;
    if (!jinja_eval(run, env, n->a, result) || !jinja_truth(run, *result, &truth)) return false;
    if (truth) return jinja_eval(run, env, n->b, result);
    if (n->c) return jinja_eval(run, env, n->c, result);
    if (run->is_folding) return not_constant(run);
    char *hint = arena_printf(
        run->arena, "the inline if-expression on line %u evaluated to false and no else section was defined.", n->line);
    return hint ? jinja_undefined_hint(run, hint, result) : jinja_out_of_memory(run);
}

static bool eval_not(struct jinja_run *run, struct jinja_env *env, const struct node *n, struct jv *result) {
    bool truth;
    if (!jinja_eval(run, env, n->a, result) || !jinja_truth(run, *result, &truth)) return false;
    *result = jv_bool(!truth);
    return true;
}

static bool eval_slice(struct jinja_run *run, struct jinja_env *env, const struct node *n, struct jv parts[3]) {
    const struct node *nodes[3] = {n->a, n->b, n->c};
    for (int i = 0; i < 3; i++) {
        parts[i] = jv_none();
        if (nodes[i] && !jinja_eval(run, env, nodes[i], &parts[i])) return false;
    }
    return true;
}

static bool eval_item(struct jinja_run *run, struct jinja_env *env, const struct node *n, struct jv *result) {
    struct jv object, key, parts[3];
    if (!jinja_eval(run, env, n->a, &object)) return false;
    if (n->b->kind == NODE_SLICE) {
        if (!eval_slice(run, env, n->b, parts)) return false;
        if (jinja_getslice(run, object, parts[0], parts[1], parts[2], result)) return true;
        /* As a constant it is looked up like any other item: what has no slices is undefined. */
        if (!run->is_folding || run->failure->kind != JINJA_TYPE) return false;
        jinja_failure_free(run->failure);
        return jinja_undefined(run, object, jv_none(), result);
    }
    return jinja_eval(run, env, n->b, &key) && jinja_getitem(run, object, key, result);
}

/* ---- calls ---- */

static bool add_star(struct jinja_run *run, struct jv value, struct jinja_args *args) {
    struct jinja_list *more = jinja_collect(run, value), *all = more ? jinja_list_of(run, args->items, args->n) : NULL;
    for (size_t i = 0; all && i < more->n; i++)
        if (!jinja_list_append(run, all, more->items[i])) return false;
    if (!all) return false;
    args->items = all->items;
    args->n = all->n;
    return true;
}

static bool add_star_star(struct jinja_run *run, struct jv value, struct jinja_args *args) {
    if (value.type == JV_UNDEFINED) return jinja_fail_undefined(run, value.undefined);
    if (value.type != JV_DICT)
        return jinja_raise(run, JINJA_TYPE, "argument after ** must be a mapping, not %s", jinja_type_name(value));
    struct jinja_named *all = jinja_alloc(run, args->n_named + value.dict->n + 1, sizeof *all);
    if (!all || !jinja_spend(run, (uint64_t)args->n_named * value.dict->n / 8)) return false;
    if (args->n_named) memcpy(all, args->named, args->n_named * sizeof *all);
    size_t n = args->n_named;
    for (size_t i = 0; i < value.dict->n; i++) {
        const struct jinja_entry *e = &value.dict->entries[i];
        if (e->key.type != JV_STRING) return jinja_raise(run, JINJA_TYPE, "keywords must be strings");
        for (size_t j = 0; j < args->n_named; j++)
            if (jinja_text_equal(all[j].name, e->key.text))
                return jinja_raise(run, JINJA_TYPE, "got multiple values for keyword argument '%s'", e->key.text->data);
        all[n++] = (struct jinja_named){.name = e->key.text, .value = e->value};
    }
    args->named = all;
    args->n_named = n;
    return true;
}

/* Of a keyword that stands twice (a Python keyword, see resolve.c) the last one counts. */
static size_t named_place(const struct jinja_named *named, size_t n, const struct name *name) {
    for (size_t i = 0; i < n; i++)
        if (named[i].name == &name->text) return i;
    return n;
}

bool jinja_eval_arguments(struct jinja_run *run, struct jinja_env *env, const struct arguments *from, struct jv caller,
                          struct jinja_argument_room *room, struct jinja_args *args) {
    struct jv *items = room->items, value;
    struct jinja_named *named = room->named;
    size_t n = 0, n_named = 0;
    if (from->positional.n > 8 && !(items = jinja_alloc(run, from->positional.n, sizeof *items))) return false;
    if (from->n_keywords > 7 && !(named = jinja_alloc(run, from->n_keywords + 1, sizeof *named))) return false;
    for (const struct node *item = from->positional.first; item; item = item->next, n++)
        if (!jinja_eval(run, env, item, &items[n])) return false;
    for (const struct keyword *k = from->keywords; k; k = k->next) {
        size_t at = n_named < 8 || from->n_keywords < 64 ? named_place(named, n_named, k->name) : n_named;
        if (!jinja_eval(run, env, k->value, &named[at].value)) return false;
        named[at].name = (struct jinja_text *)&k->name->text;
        n_named += at == n_named;
    }
    if (caller.type != JV_MISSING) {
        if (!jinja_literal(run, "caller", &value)) return false;
        named[n_named++] = (struct jinja_named){.name = value.text, .value = caller};
    }
    *args = (struct jinja_args){.items = items, .n = n, .named = named, .n_named = n_named};
    if (from->star && (!jinja_eval(run, env, from->star, &value) || !add_star(run, value, args))) return false;
    return !from->star_star || (jinja_eval(run, env, from->star_star, &value) && add_star_star(run, value, args));
}

/* object.method(...): no method value is made on the way. */
static bool eval_method_call(struct jinja_run *run, struct jinja_env *env, const struct node *n, struct jv caller,
                             struct jv *result) {
    struct jv object, callee;
    struct jinja_argument_room room;
    struct jinja_args args;
    const struct name *name = n->target->callee;
    if (!jinja_eval(run, env, n->target->target, &object)) return false;
    const struct jinja_builtin *b = NULL;
    if (name->methods && object.type != JV_NAMESPACE && !object.is_markup)
        b = jinja_method_for(name->methods, (enum jv_type)object.type);
    if (b && b->call && !b->needs_context && b->n_max)
        return jinja_eval_arguments(run, env, n->arguments, caller, &room, &args) &&
               jinja_call_builtin(run, b, object, &args, result);
    return jinja_getattr(run, object, name, &callee) &&
           (callee.type != JV_UNDEFINED || jinja_fail_undefined(run, callee.undefined)) &&
           jinja_eval_arguments(run, env, n->arguments, caller, &room, &args) && jinja_call(run, callee, &args, result);
}

bool jinja_eval_call(struct jinja_run *run, struct jinja_env *env, const struct node *n, struct jv caller,
                     struct jv *result) {
    struct jv callee;
    struct jinja_argument_room room;
    struct jinja_args args;
    if (run->is_folding) return not_constant(run);
    if (n->target->kind == NODE_ATTRIBUTE) return eval_method_call(run, env, n, caller, result);
    return jinja_eval(run, env, n->target, &callee) &&
           jinja_eval_arguments(run, env, n->arguments, caller, &room, &args) && jinja_call(run, callee, &args, result);
}

static bool eval_filter(struct jinja_run *run, struct jinja_env *env, const struct node *n, struct jv *result) {
    struct jv value = run->captured;
    struct jinja_argument_room room;
    struct jinja_args args;
    if (run->is_folding && (!n->target || !n->builtin || n->builtin->needs_context)) return not_constant(run);
    if (n->target && !jinja_eval(run, env, n->target, &value)) return false;
    if (!jinja_eval_arguments(run, env, n->arguments, jv_missing(), &room, &args)) return false;
    run->line = n->line;
    if (!n->builtin)
        return jinja_raise(run, JINJA_RUNTIME, "No %s named '%s' found.", n->kind == NODE_FILTER ? "filter" : "test",
                           n->callee->text.data);
    return jinja_call_builtin(run, n->builtin, value, &args, result);
}

static bool eval_attribute(struct jinja_run *run, struct jinja_env *env, const struct node *n, struct jv *result) {
    struct jv object;
    return jinja_eval(run, env, n->target, &object) && jinja_getattr(run, object, n->callee, result);
}

static bool eval_binary(struct jinja_run *run, struct jinja_env *env, const struct node *n, struct jv *result) {
    struct jv a, b;
    return jinja_eval(run, env, n->a, &a) && jinja_eval(run, env, n->b, &b) &&
           jinja_arithmetic(run, (enum node_op)n->op, a, b, result);
}

static bool eval_slice_value(struct jinja_run *run, struct jinja_env *env, const struct node *n, struct jv *result) {
    struct jv parts[3];
    struct jinja_slice *slice = jinja_alloc(run, 1, sizeof *slice);
    if (!slice || !eval_slice(run, env, n, parts)) return false;
    *slice = (struct jinja_slice){parts[0], parts[1], parts[2]};
    *result = jv_object(JV_SLICE, slice);
    return true;
}

static bool eval_inner(struct jinja_run *run, struct jinja_env *env, const struct node *n, struct jv *result) {
    struct jv value;
    switch ((enum node_kind)n->kind) {
    case NODE_TUPLE:
    case NODE_LIST: return eval_items(run, env, n, result);
    case NODE_DICT: return eval_dict(run, env, n, result);
    case NODE_CONCAT: return eval_concat(run, env, n, result);
    case NODE_CONDITIONAL: return eval_conditional(run, env, n, result);
    case NODE_FILTER:
    case NODE_TEST: return eval_filter(run, env, n, result);
    case NODE_CALL: return jinja_eval_call(run, env, n, jv_missing(), result);
    case NODE_ITEM: return eval_item(run, env, n, result);
    case NODE_ATTRIBUTE: return eval_attribute(run, env, n, result);
    case NODE_COMPARE: return eval_compare(run, env, n, result);
    case NODE_BINARY: return eval_binary(run, env, n, result);
    case NODE_AND:
    case NODE_OR: return eval_logic(run, env, n, result);
    case NODE_NOT: return eval_not(run, env, n, result);
    case NODE_NEGATIVE: return jinja_eval(run, env, n->a, &value) && jinja_negate(run, value, result);
    case NODE_POSITIVE: return jinja_eval(run, env, n->a, &value) && jinja_positive(run, value, result);
    case NODE_SLICE: return eval_slice_value(run, env, n, result);
    default: return not_constant(run);
    }
}

bool jinja_eval(struct jinja_run *run, struct jinja_env *env, const struct node *n, struct jv *result) {
    if (!jinja_step(run)) return false;
    if (n->kind == NODE_CONST || n->kind == NODE_DATA) {
        *result = n->value;
        return true;
    }
    run->line = n->line;
    if (n->kind == NODE_NAME) return eval_name(run, env, n, result);
    if (++run->depth > JINJA_MAX_DEPTH) return jinja_raise(run, JINJA_LIMIT, "maximum recursion depth exceeded");
    bool ok = eval_inner(run, env, n, result);
    run->depth--;
    return ok;
}
