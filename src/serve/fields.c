/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/fields.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 64, MAX_IGNORED_BYTES = 1000 };

static const struct field *find(const struct field *table, const char *name, size_t length) {
    while (table) {
        if (!table->name)
            table = table->more;
        else if (strlen(table->name) == length && !memcmp(table->name, name, length))
            return table;
        else
            table++;
    }
    return NULL;
}

static bool has_type(const struct json *v, unsigned types) {
    switch (v->type) {
    case JSON_NULL: return true;
    case JSON_FALSE:
    case JSON_TRUE: return types & T_BOOL;
    case JSON_INTEGER: return types & (T_NUMBER | T_INTEGER);
    case JSON_REAL:
        return types & T_NUMBER || (types & T_INTEGER && floor(v->real) == v->real && fabs(v->real) < 0x1p62);
    case JSON_BIG_INTEGER: return types & T_NUMBER;
    case JSON_STRING: return types & T_STRING;
    case JSON_ARRAY: return types & T_ARRAY;
    case JSON_OBJECT: return types & T_OBJECT;
    }
    return false;
}

static void describe_types(unsigned types, char *out, size_t room) {
    static const char *const names[] = {"a boolean", "a string", "a number", "an integer", "an array", "an object"};
    size_t n = 0;
    out[0] = '\0';
    for (unsigned i = 0; i < 6 && n < room; i++)
        if (types & 1u << i) n += (size_t)snprintf(out + n, room - n, "%s%s", n ? " or " : "", names[i]);
}

/* Asks for nothing. */
static bool is_inert(const struct json *v) {
    switch (v->type) {
    case JSON_NULL:
    case JSON_FALSE: return true;
    case JSON_INTEGER: return v->integer == 0;
    case JSON_REAL: return v->real == 0;
    case JSON_STRING:
    case JSON_ARRAY:
    case JSON_OBJECT: return v->count == 0;
    default: return false;
    }
}

static void note_ignored(struct buffer *list, const char *name, size_t length) {
    if (list->length + length + 2 > MAX_IGNORED_BYTES || !length) return;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)name[i] <= 32 || (unsigned char)name[i] >= 127 || name[i] == ',') return;
    if (list->length) buffer_puts(list, ", ");
    buffer_append(list, name, length);
}

bool fields_check(struct exchange *x, const struct json *body, const struct field *table, struct problem *problem) {
    struct buffer ignored = {0};
    bool ok = true;
    for (uint32_t i = 0; ok && i < body->count; i++) {
        const struct json_member *m = &body->members[i];
        const struct field *f = find(table, m->key, m->key_length);
        if (m->value.type == JSON_NULL) continue;
        if (f && !has_type(&m->value, f->types)) {
            char types[96];
            describe_types(f->types, types, sizeof types);
            ok = problem_set(problem, 400, f->name, "'%s' must be %s, not %s", f->name, types,
                             json_type_name(&m->value));
        } else if (f && f->use == FIELD_REFUSED && !is_inert(&m->value)) {
            ok = problem_set(problem, 400, f->name, "'%s' is not supported", f->name);
        } else if (!f || f->use == FIELD_IGNORED) {
            note_ignored(&ignored, m->key, m->key_length);
        }
    }
    if (ok && ignored.length) exchange_add_header(x, "X-Ignored-Fields", ignored.data);
    buffer_free(&ignored);
    return ok;
}

const struct json *fields_parse_body(struct exchange *x, struct problem *problem) {
    struct mx_error err = {0};
    const char *text = x->body.length ? x->body.data : "";
    const struct json *body = json_parse(&x->arena, text, x->body.length, JSON_STRICT, MAX_DEPTH, &err);
    if (!body) {
        if (err.code == ERROR_MEMORY)
            problem_set(problem, 500, NULL, "out of memory");
        else
            problem_set(problem, 400, NULL, "the body is no valid JSON: %s", err.message);
        return NULL;
    }
    if (json_is_object(body)) return body;
    problem_set(problem, 400, NULL, "the body must be a JSON object, not %s", json_type_name(body));
    return NULL;
}

const struct json *field_get(const struct json *body, const char *name) {
    const struct json *v = json_get(body, name);
    return json_is_null(v) ? NULL : v;
}

bool field_integer(const struct json *body, const char *name, int64_t minimum, int64_t maximum, int64_t fallback,
                   int64_t *value, struct problem *problem) {
    const struct json *v = field_get(body, name);
    *value = fallback;
    if (!v) return true;
    if (!has_type(v, T_INTEGER))
        return problem_set(problem, 400, name, "'%s' must be an integer, not %s", name, json_type_name(v));
    *value = json_integer(v, fallback);
    if (*value >= minimum && *value <= maximum) return true;
    return problem_set(problem, 400, name, "'%s' must be between %lld and %lld, not %lld", name, (long long)minimum,
                       (long long)maximum, (long long)*value);
}

/* ---- sampling ---- */

static const struct {
    const char *name, *field;
} sampling_names[] = {
    {"temperature", "temperature"},
    {"dynatemp_range", "dynatemp_range"},
    {"dynatemp_exponent", "dynatemp_exponent"},
    {"top_k", "top_k"},
    {"top_p", "top_p"},
    {"min_p", "min_p"},
    {"typical_p", "typical_p"},
    {"top_n_sigma", "top_n_sigma"},
    {"min_keep", "min_keep"},
    {"xtc_probability", "xtc_probability"},
    {"xtc_threshold", "xtc_threshold"},
    {"repetition_penalty", "repetition_penalty"},
    {"repeat_penalty", "repetition_penalty"},
    {"presence_penalty", "presence_penalty"},
    {"frequency_penalty", "frequency_penalty"},
    {"repetition_context_size", "repetition_last_n"},
    {"repetition_last_n", "repetition_last_n"},
    {"repeat_last_n", "repetition_last_n"},
    {"penalize_prompt", "penalize_prompt"},
    {"dry_multiplier", "dry_multiplier"},
    {"dry_base", "dry_base"},
    {"dry_allowed_length", "dry_allowed_length"},
    {"dry_penalty_last_n", "dry_last_n"},
    {"mirostat", "mirostat"},
    {"mirostat_tau", "mirostat_tau"},
    {"mirostat_eta", "mirostat_eta"},
    {"adaptive_target", "adaptive_target"},
    {"adaptive_decay", "adaptive_decay"},
    {"seed", "seed"},
    {"min_tokens", "min_tokens"},
    {"ignore_eos", "ignore_eos"},
    {"max_pattern_size", "loop_max_pattern"},
    {"min_pattern_size", "loop_min_pattern"},
    {"min_count", "loop_min_count"},
};

const struct field sampling_field_table[] = {
    {"temperature", T_NUMBER, FIELD_USED},
    {"dynatemp_range", T_NUMBER, FIELD_USED},
    {"dynatemp_exponent", T_NUMBER, FIELD_USED},
    {"top_k", T_INTEGER, FIELD_USED},
    {"top_p", T_NUMBER, FIELD_USED},
    {"min_p", T_NUMBER, FIELD_USED},
    {"typical_p", T_NUMBER, FIELD_USED},
    {"top_n_sigma", T_NUMBER, FIELD_USED},
    {"min_keep", T_INTEGER, FIELD_USED},
    {"xtc_probability", T_NUMBER, FIELD_USED},
    {"xtc_threshold", T_NUMBER, FIELD_USED},
    {"repetition_penalty", T_NUMBER, FIELD_USED},
    {"repeat_penalty", T_NUMBER, FIELD_USED},
    {"presence_penalty", T_NUMBER, FIELD_USED},
    {"frequency_penalty", T_NUMBER, FIELD_USED},
    {"repetition_context_size", T_INTEGER, FIELD_USED},
    {"repetition_last_n", T_INTEGER, FIELD_USED},
    {"repeat_last_n", T_INTEGER, FIELD_USED},
    {"penalize_prompt", T_BOOL | T_INTEGER, FIELD_USED},
    {"dry_multiplier", T_NUMBER, FIELD_USED},
    {"dry_base", T_NUMBER, FIELD_USED},
    {"dry_allowed_length", T_INTEGER, FIELD_USED},
    {"dry_penalty_last_n", T_INTEGER, FIELD_USED},
    {"dry_sequence_breakers", T_ARRAY, FIELD_USED},
    {"mirostat", T_INTEGER, FIELD_USED},
    {"mirostat_tau", T_NUMBER, FIELD_USED},
    {"mirostat_eta", T_NUMBER, FIELD_USED},
    {"adaptive_target", T_NUMBER, FIELD_USED},
    {"adaptive_decay", T_NUMBER, FIELD_USED},
    {"seed", T_INTEGER, FIELD_USED},
    {"min_tokens", T_INTEGER, FIELD_USED},
    {"ignore_eos", T_BOOL | T_INTEGER, FIELD_USED},
    {"max_pattern_size", T_INTEGER, FIELD_USED},
    {"min_pattern_size", T_INTEGER, FIELD_USED},
    {"min_count", T_INTEGER, FIELD_USED},
    {"logit_bias", T_OBJECT | T_ARRAY, FIELD_USED},
    {"stop_token_ids", T_ARRAY, FIELD_USED},
    {"priority", T_INTEGER, FIELD_USED},
    /* Of llama-server and vLLM, not here. */
    {"samplers", T_ANY, FIELD_REFUSED},
    {"bad_words", T_ANY, FIELD_REFUSED},
    {"allowed_token_ids", T_ANY, FIELD_REFUSED},
    {"lora", T_ANY, FIELD_REFUSED},
    {"n_keep", T_INTEGER, FIELD_IGNORED},
    {"n_discard", T_INTEGER, FIELD_REFUSED},
    {"length_penalty", T_NUMBER, FIELD_IGNORED},
    {"use_beam_search", T_BOOL, FIELD_REFUSED},
    {"backend_sampling", T_BOOL, FIELD_IGNORED},
    {NULL, 0, FIELD_USED},
};

bool fields_sampling(const struct json *body, struct sampling_params *params, struct problem *problem) {
    struct mx_error err;
    for (size_t i = 0; i < sizeof sampling_names / sizeof *sampling_names; i++) {
        const char *name = sampling_names[i].name;
        const struct json *v = field_get(body, name);
        if (!v) continue;
        if (!strcmp(name, "seed") && json_is_number(v)) { /* all 63 bits; a double has 53 */
            params->seed = json_integer(v, -2);
            if (params->seed >= -1) continue;
            return problem_set(problem, 400, name, "'seed' must be -1 or between 0 and 9223372036854775807");
        }
        double value = json_is_bool(v) ? json_bool(v, false) : json_number(v, NAN);
        if (!sampling_set(params, sampling_field_find(sampling_names[i].field), value, &err))
            return problem_set(problem, 400, name, "'%s': %s", name, err.message);
        if (!strcmp(name, "repeat_last_n"))
            params->presence_last_n = params->frequency_last_n = params->repetition_last_n;
    }
    return true;
}

static bool add_bias(struct sampling_params *params, struct logit_bias *biases, int64_t id, const struct json *value,
                     uint32_t vocab_size, struct problem *problem) {
    if (id < 0 || id >= vocab_size)
        return problem_set(problem, 400, "logit_bias", "'logit_bias': %lld is no token id below %u", (long long)id,
                           vocab_size);
    double bias = value && value->type == JSON_FALSE ? -(double)INFINITY : json_number(value, NAN);
    if (isnan(bias) || bias > 1e6)
        return problem_set(problem, 400, "logit_bias", "'logit_bias': the bias of token %lld must be a number",
                           (long long)id);
    biases[params->n_logit_bias++] = (struct logit_bias){(uint32_t)id, (float)bias};
    return true;
}

/* An id written as the key of an object. */
static int64_t id_of_key(const struct json_member *m) {
    int64_t id = 0;
    if (!m->key_length || m->key_length > 10) return -1;
    for (uint32_t i = 0; i < m->key_length; i++) {
        if (m->key[i] < '0' || m->key[i] > '9') return -1;
        id = id * 10 + (m->key[i] - '0');
    }
    return id;
}

bool fields_logit_bias(const struct json *body, struct arena *arena, uint32_t vocab_size,
                       struct sampling_params *params, struct problem *problem) {
    const struct json *v = field_get(body, "logit_bias");
    if (!v || !v->count) return true;
    struct logit_bias *biases = arena_calloc(arena, v->count, sizeof *biases);
    if (!biases) return problem_set(problem, 500, NULL, "out of memory");
    params->logit_bias = biases;
    params->n_logit_bias = 0;
    for (uint32_t i = 0; i < v->count; i++) {
        if (json_is_object(v)) {
            const struct json_member *m = &v->members[i];
            int64_t id = id_of_key(m);
            if (id < 0)
                return problem_set(problem, 400, "logit_bias", "'logit_bias': the key '%.*s' is no token id",
                                   (int)(m->key_length < 40 ? m->key_length : 40), m->key);
            if (!add_bias(params, biases, id, &m->value, vocab_size, problem)) return false;
        } else {
            const struct json *id = json_at(&v->items[i], 0), *bias = json_at(&v->items[i], 1);
            if (!id || id->type != JSON_INTEGER)
                return problem_set(problem, 400, "logit_bias", "'logit_bias' must hold pairs of token id and bias");
            if (!add_bias(params, biases, id->integer, bias, vocab_size, problem)) return false;
        }
    }
    return true;
}
