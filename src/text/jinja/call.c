/* SPDX-License-Identifier: Apache-2.0 */
#include "text/jinja/call.h"

#include "text/jinja/eval.h"
#include "text/jinja/loop.h"
#include "text/jinja/operate.h"
#include "text/jinja/print.h"
#include "text/jinja/text.h"

#include <string.h>

/* ---- builtins ---- */

/* The place of a parameter in a list of names, or -1. */
static int parameter_index(const char *names, const struct jinja_text *name) {
    for (int i = 0; names && *names; i++) {
        size_t n = strcspn(names, " ");
        if (n == name->length && !memcmp(names, name->data, n)) return i;
        names += n + (names[n] == ' ');
    }
    return -1;
}

static bool bind_named(struct jinja_run *run, const struct jinja_builtin *b, const struct jinja_named *named,
                       struct jv *items) {
    int i = parameter_index(b->parameters, named->name);
    if (i < 0)
        return jinja_raise(run, JINJA_TYPE, "%s() got an unexpected keyword argument '%.*s'", b->name,
                           named->name->length > 100 ? 100 : (int)named->name->length, named->name->data);
    if (items[i].type != JV_MISSING)
        return jinja_raise(run, JINJA_TYPE, "%s() got multiple values for argument '%s'", b->name, named->name->data);
    items[i] = named->value;
    return true;
}

bool jinja_call_builtin(struct jinja_run *run, const struct jinja_builtin *b, struct jv self,
                        const struct jinja_args *args, struct jv *result) {
    if (b->n_max == JINJA_VARIADIC) return b->call(run, self, args, result);
    struct jv items[JINJA_MAX_PARAMETERS];
    if (args->n > b->n_max)
        return jinja_raise(run, JINJA_TYPE, "%s() takes at most %d arguments (%zu given)", b->name, b->n_max, args->n);
    for (size_t i = 0; i < b->n_max; i++) items[i] = i < args->n ? args->items[i] : jv_missing();
    for (size_t i = 0; i < args->n_named; i++)
        if (!bind_named(run, b, &args->named[i], items)) return false;
    for (size_t i = 0; i < b->n_required; i++)
        if (items[i].type == JV_MISSING)
            return jinja_raise(run, JINJA_TYPE, "%s() misses a required argument", b->name);
    struct jinja_args bound = {.items = items, .n = b->n_max};
    return b->call(run, self, &bound, result);
}

static bool unknown(struct jinja_run *run, const char *what, struct jv name) {
    struct buffer text = {0};
    bool ok = jinja_print_repr(run, name, &text);
    if (ok) jinja_raise(run, JINJA_RUNTIME, "No %s named %s.", what, text.data ? text.data : "");
    buffer_free(&text);
    return false;
}

bool jinja_call_filter(struct jinja_run *run, struct jv name, struct jv value, const struct jinja_args *args,
                       struct jv *result) {
    const struct jinja_builtin *b = name.type == JV_STRING ? jinja_find_filter(name.text) : NULL;
    return b ? jinja_call_builtin(run, b, value, args, result) : unknown(run, "filter", name);
}

bool jinja_call_test(struct jinja_run *run, struct jv name, struct jv value, const struct jinja_args *args,
                     bool *result) {
    const struct jinja_builtin *b = name.type == JV_STRING ? jinja_find_test(name.text) : NULL;
    struct jv answer;
    if (!b) return unknown(run, "test", name);
    return jinja_call_builtin(run, b, value, args, &answer) && jinja_truth(run, answer, result);
}

/* ---- macros ---- */

static int named_index(const struct jinja_args *args, const struct jinja_text *name) {
    for (size_t i = 0; i < args->n_named; i++)
        if (jinja_text_equal(args->named[i].name, name)) return (int)i;
    return -1;
}

static bool macro_name(struct jinja_run *run, const struct macro *m, struct buffer *out) {
    if (!m->name) return jinja_puts(run, out, "None");
    return jinja_print_quoted(run, m->name->text.data, m->name->text.length, false, out);
}

bool jinja_print_macro(struct jinja_run *run, const struct jinja_macro *macro, struct buffer *out) {
    const struct macro *m = macro->definition;
    return jinja_puts(run, out, "<Macro ") && (m->name ? macro_name(run, m, out) : jinja_puts(run, out, "anonymous")) &&
           jinja_puts(run, out, ">");
}

/* Arguments that no parameter takes: kwargs and varargs get them, else they are errors. `used` marks the named ones
 * that a parameter took. */
static bool bind_rest(struct jinja_run *run, const struct macro *m, const struct jinja_args *args, const bool *used,
                      struct jinja_env *env) {
    size_t n = m->parameters.n;
    const char *name = m->name ? m->name->text.data : "None";
    struct jinja_dict *kwargs = m->kwargs_slot >= 0 ? jinja_dict_new(run, 0) : NULL;
    if (m->kwargs_slot >= 0 && !kwargs) return false;
    for (size_t i = 0; i < args->n_named; i++) {
        if (used[i]) continue;
        struct jinja_text *key = args->named[i].name;
        if (kwargs) {
            if (!jinja_dict_set(run, kwargs, jv_text(key), args->named[i].value)) return false;
        } else if (jinja_text_is(key, "caller")) {
            return jinja_raise(run, JINJA_TYPE,
                               "macro '%s' was invoked with two values for the special caller argument. This is most "
                               "likely a bug.",
                               name);
        } else {
            return jinja_raise(run, JINJA_TYPE, "macro '%s' takes no keyword argument '%.*s'", name,
                               key->length > 100 ? 100 : (int)key->length, key->data);
        }
    }
    if (kwargs) env->slots[m->kwargs_slot] = jv_dict(kwargs);
    if (m->varargs_slot >= 0) {
        size_t extra = args->n > n ? args->n - n : 0;
        struct jinja_list *varargs = jinja_list_of(run, args->items + (extra ? n : 0), extra);
        env->slots[m->varargs_slot] = jv_tuple(varargs);
        return varargs != NULL;
    }
    if (args->n > n) return jinja_raise(run, JINJA_TYPE, "macro '%s' takes not more than %zu argument(s)", name, n);
    return true;
}

static bool bind_macro(struct jinja_run *run, const struct macro *m, const struct jinja_args *args,
                       struct jinja_env *env) {
    bool few[16] = {false}, *used = few;
    if (args->n_named > 16) {
        used = jinja_alloc(run, args->n_named, sizeof *used);
        if (!used || !jinja_spend(run, args->n_named * (m->parameters.n + 1) / 16)) return false;
        memset(used, 0, args->n_named);
    }
    for (size_t i = 0; i < m->parameters.n; i++) {
        struct jv value = jv_missing();
        int at = i < args->n ? -1 : named_index(args, m->parameter_names->items[i].text);
        if (i < args->n) value = args->items[i];
        if (at >= 0) {
            value = args->named[at].value;
            used[at] = true;
        }
        env->slots[m->parameter_slots[i]] = value;
    }
    if (m->caller_slot >= 0 && !m->has_explicit_caller) {
        struct jv caller = jv_none();
        for (size_t i = 0; i < args->n_named; i++)
            if (jinja_text_is(args->named[i].name, "caller")) {
                caller = args->named[i].value;
                used[i] = true;
            }
        if (caller.type == JV_NONE && !jinja_undefined_hint(run, "No caller defined", &caller)) return false;
        env->slots[m->caller_slot] = caller;
    }
    return bind_rest(run, m, args, used, env);
}

/* Defaults of the parameters that were not given, from left to right. */
static bool set_defaults(struct jinja_run *run, const struct macro *m, struct jinja_env *env) {
    size_t i = 0, first_default = m->parameters.n - m->defaults.n;
    const struct node *value = m->defaults.first;
    for (const struct node *p = m->parameters.first; p; p = p->next, i++) {
        struct jv *slot = &env->slots[m->parameter_slots[i]];
        const struct node *given = i >= first_default ? value : NULL;
        if (given) value = value->next;
        if (slot->type != JV_MISSING) continue;
        struct jv result;
        if (given) {
            if (!jinja_eval(run, env, given, &result)) return false;
        } else {
            char *hint = arena_printf(run->arena, "parameter '%s' was not provided", p->name->text.data);
            if (!hint) return jinja_out_of_memory(run);
            if (!jinja_undefined_hint(run, hint, &result)) return false;
        }
        *slot = result;
    }
    return true;
}

bool jinja_call_macro(struct jinja_run *run, const struct jinja_macro *macro, const struct jinja_args *args,
                      struct jv *result) {
    const struct macro *m = macro->definition;
    struct jinja_env *env = jinja_env_new(run, m->function, macro->env);
    if (!env || !bind_macro(run, m, args, env)) return false;
    if (++run->calls > JINJA_MAX_CALLS) return jinja_raise(run, JINJA_LIMIT, "maximum recursion depth exceeded");
    bool ok = jinja_enter_frame(run, env, &m->frame) && set_defaults(run, m, env) &&
              jinja_capture(run, env, &m->body, result);
    run->calls--;
    if (ok) result->is_markup = run->autoescape;
    return ok;
}

/* ---- calls ---- */

static bool call_block_reference(struct jinja_run *run, const struct jinja_block *block, struct jv *result) {
    size_t start = run->out->length;
    if (++run->calls > JINJA_MAX_CALLS) return jinja_raise(run, JINJA_LIMIT, "maximum recursion depth exceeded");
    bool ok = jinja_run_block(run, block) && jinja_string_take(run, run->out, start, result);
    run->calls--;
    if (ok) result->is_markup = run->autoescape;
    return ok;
}

static bool call_loop(struct jinja_run *run, struct jinja_loop *loop, const struct jinja_args *args,
                      struct jv *result) {
    if (args->n != 1 || args->n_named)
        return jinja_raise(run, JINJA_TYPE, "a recursive loop is called with one iterable");
    if (!loop->node)
        return jinja_raise(run, JINJA_TYPE, "The loop must have the 'recursive' marker to be called recursively.");
    return jinja_loop_recurse(run, loop->node, loop->env, args->items[0], loop->depth0 + 1, result);
}

static bool call_joiner(struct jinja_run *run, struct jinja_cycler *joiner, const struct jinja_args *args,
                        struct jv *result) {
    if (args->n || args->n_named) return jinja_raise(run, JINJA_TYPE, "a joiner takes no arguments");
    if (joiner->position) return *result = joiner->items->items[0], true;
    joiner->position = 1;
    return jinja_literal(run, "", result);
}

bool jinja_call(struct jinja_run *run, struct jv callee, const struct jinja_args *args, struct jv *result) {
    switch ((enum jv_type)callee.type) {
    case JV_MACRO: return jinja_call_macro(run, callee.macro, args, result);
    case JV_METHOD: return jinja_call_builtin(run, callee.method->builtin, callee.method->self, args, result);
    case JV_FUNCTION: return jinja_call_builtin(run, callee.function, jv_missing(), args, result);
    case JV_LOOP: return call_loop(run, callee.loop, args, result);
    case JV_JOINER: return call_joiner(run, callee.cycler, args, result);
    case JV_BLOCK:
        if (args->n || args->n_named) return jinja_raise(run, JINJA_TYPE, "a block takes no arguments");
        return call_block_reference(run, callee.block, result);
    case JV_UNDEFINED: return jinja_fail_undefined(run, callee.undefined);
    default: return jinja_raise(run, JINJA_TYPE, "'%s' object is not callable", jinja_type_name(callee));
    }
}
