/* SPDX-License-Identifier: Apache-2.0 */
/* A rendering from outside: the context as values, the template run, the failure as an error. */
#include "text/jinja/eval.h"

#include "text/jinja/integer.h"
#include "text/jinja/number.h"
#include "text/jinja/operate.h"
#include "text/jinja/text.h"

#include <string.h>

static bool convert(struct jinja_run *run, const struct json *json, struct jv *v);

static bool convert_array(struct jinja_run *run, const struct json *json, struct jv *v) {
    struct jinja_list *list = jinja_list_new(run, json->count);
    if (!list) return false;
    for (uint32_t i = 0; i < json->count; i++)
        if (!convert(run, &json->items[i], &list->items[i])) return false;
    list->n = json->count;
    if (list->tail) list->tail->used = list->n;
    *v = jv_list(list);
    return true;
}

static bool convert_object(struct jinja_run *run, const struct json *json, struct jv *v) {
    struct jinja_dict *dict = jinja_dict_new(run, json->count);
    if (!dict) return false;
    for (uint32_t i = 0; i < json->count; i++) {
        struct jv key, value;
        const struct json_member *m = &json->members[i];
        if (!jinja_borrowed(run, m->key, m->key_length, &key) || !convert(run, &m->value, &value) ||
            !jinja_dict_set(run, dict, key, value))
            return false;
    }
    *v = jv_dict(dict);
    return true;
}

static bool convert_integer(struct jinja_run *run, const struct json *json, struct jv *v) {
    bool is_number;
    if (!jinja_read_int(run, json->string, json->count, 10, &is_number, v)) return false;
    return is_number || jinja_raise(run, JINJA_VALUE, "invalid integer in the context");
}

static bool convert(struct jinja_run *run, const struct json *json, struct jv *v) {
    if (!jinja_step(run)) return false;
    switch (json->type) {
    case JSON_NULL: return *v = jv_none(), true;
    case JSON_FALSE:
    case JSON_TRUE: return *v = jv_bool(json->type == JSON_TRUE), true;
    case JSON_INTEGER: return *v = jv_int(json->integer), true;
    case JSON_REAL: return *v = jv_float(json->real), true;
    case JSON_BIG_INTEGER: return convert_integer(run, json, v);
    case JSON_STRING: return jinja_borrowed(run, json->string, json->count, v);
    default: break;
    }
    if (++run->depth > JINJA_MAX_NESTING) return jinja_raise(run, JINJA_LIMIT, "the context is nested too deeply");
    bool ok = json->type == JSON_ARRAY ? convert_array(run, json, v) : convert_object(run, json, v);
    run->depth--;
    return ok;
}

static bool run_template(struct jinja_run *run, const struct json *context) {
    const struct jinja_template *t = run->template;
    struct jv variables;
    if (!json_is_object(context)) return jinja_raise(run, JINJA_TYPE, "the context is no object");
    if (!convert(run, context, &variables)) return false;
    run->context = variables.dict;
    if (t->blocks && !(run->exported = jinja_dict_new(run, 0))) return false;
    struct jinja_env *env = jinja_env_new(run, t->function, NULL);
    if (!env) return false;
    if (t->self_slot >= 0) env->slots[t->self_slot] = jv_object(JV_SELF, NULL);
    return jinja_enter_frame(run, env, &t->frame) && jinja_exec(run, env, &t->body) != FLOW_FAILED;
}

static enum error_code code_of(const char *kind) { return kind == JINJA_LIMIT ? ERROR_LIMIT : ERROR_FORMAT; }

bool jinja_render_explained(const struct jinja_template *template, const struct json *context,
                            const struct jinja_limits *limits, struct buffer *out, struct jinja_failure *failure,
                            struct mx_error *err) {
    struct jinja_failure own = {0};
    struct arena arena = {0};
    if (!limits) limits = &jinja_default_limits;
    if (!failure) failure = &own;
    jinja_failure_free(failure);
    struct jinja_run run = {.template = template,
                            .arena = &arena,
                            .max_memory_bytes = limits->max_memory_bytes,
                            .out = out,
                            .out_start = out->length,
                            .max_output_bytes = limits->max_output_bytes,
                            .steps_left = limits->max_steps,
                            .now = limits->now,
                            .hash_seed = template->hash_seed,
                            .random_state = template->hash_seed,
                            .failure = failure};
    bool ok = run_template(&run, context);
    if (!ok) {
        out->length = run.out_start;
        if (out->data) out->data[out->length] = '\0';
        const char *message = failure->message.data ? failure->message.data : "out of memory";
        if (failure->kind == JINJA_RAISED)
            error_set(err, ERROR_FORMAT, "chat template: %s", message);
        else
            error_set(err, code_of(failure->kind), "chat template, line %u: %s: %s", failure->line, failure->kind,
                      message);
    }
    if (run.c_locale) freelocale(run.c_locale);
    arena_free(&arena);
    jinja_failure_free(&own);
    return ok;
}

bool jinja_render(const struct jinja_template *template, const struct json *context, const struct jinja_limits *limits,
                  struct buffer *out, struct mx_error *err) {
    return jinja_render_explained(template, context, limits, out, NULL, err);
}
