/* SPDX-License-Identifier: Apache-2.0 */
/* Samples rows given as JSON, for scripts/check-samplers.py and for looking at a chain by hand. Each line of stdin is
 *
 *   {"logits": [..], "params": {"top_p": 0.9, ..}, "text": [ids], "stop_ids": [ids], "newline_ids": [ids],
 *    "logit_bias": [[id, bias], ..], "breakers": [[ids], ..], "allowed": [ids]}
 *
 * (all but logits may be absent; null is a logit of -infinity) and gives one line {"token", "logprob", "top": [[id,
 * logprob], ..]}, by default the whole distribution that the token was drawn from, or {"error"}. */
#include "base/json.h"
#include "base/memory.h"
#include "engine/sampler.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DEPTH = 8 };

struct ids {
    uint32_t *data;
    size_t n;
};

static struct ids read_ids(struct arena *arena, const struct json *array) {
    struct ids ids = {.n = json_is_array(array) ? array->count : 0};
    ids.data = arena_calloc(arena, ids.n, sizeof *ids.data);
    for (size_t i = 0; ids.data && i < ids.n; i++) ids.data[i] = (uint32_t)json_integer(json_at(array, i), 0);
    if (!ids.data) ids.n = 0;
    return ids;
}

static bool read_params(struct arena *arena, const struct json *line, struct sampling_params *p, struct mx_error *err) {
    const struct json *given = json_get(line, "params"), *biases = json_get(line, "logit_bias");
    *p = sampling_defaults();
    p->temperature = 1;
    p->want_logprobs = 1;
    p->logprobs_kind = LOGPROBS_FINAL;
    p->n_top_logprobs = -1;
    for (uint32_t i = 0; json_is_object(given) && i < given->count; i++) {
        char *name = arena_copy(arena, given->members[i].key, given->members[i].key_length);
        const struct sampling_field *field = name ? sampling_field_find(name) : NULL;
        if (!field) return error_set(err, ERROR_USAGE, "params: '%s' is not known", name ? name : "?");
        if (!sampling_set(p, field, json_number(&given->members[i].value, NAN), err)) return false;
    }
    p->n_logit_bias = json_is_array(biases) ? biases->count : 0;
    struct logit_bias *copy = arena_calloc(arena, p->n_logit_bias, sizeof *copy);
    if (!copy) return error_memory(err, "logit_bias");
    for (size_t i = 0; i < p->n_logit_bias; i++) {
        const struct json *pair = json_at(biases, i);
        copy[i].token = (uint32_t)json_integer(json_at(pair, 0), 0);
        copy[i].bias = (float)json_number(json_at(pair, 1), -INFINITY);
    }
    p->logit_bias = copy;
    return true;
}

static bool read_breakers(struct arena *arena, const struct json *list, struct dry_breakers *b, struct mx_error *err) {
    for (uint32_t i = 0; json_is_array(list) && i < list->count; i++) {
        struct ids ids = read_ids(arena, json_at(list, i));
        if (!dry_breakers_add(b, (struct breaker_ids){ids.data, ids.n}, err)) return false;
    }
    dry_breakers_finish(b);
    return true;
}

static void write_result(struct json_writer *w, const struct sample_result *result) {
    json_begin_object(w);
    json_write_key(w, "token");
    json_write_integer(w, result->token == SAMPLE_NONE ? -1 : (int64_t)result->token);
    json_write_key(w, "logprob");
    json_write_real_as(w, "%.9g", (double)result->logprob);
    json_write_key(w, "top");
    json_begin_array(w);
    for (uint32_t i = 0; i < result->n_top; i++) {
        json_begin_array(w);
        json_write_integer(w, result->top[i].token);
        json_write_real_as(w, "%.9g", (double)result->top[i].logprob);
        json_end_array(w);
    }
    json_end_array(w);
    json_end_object(w);
}

static bool sample(struct arena *arena, const struct json *line, struct json_writer *w, struct mx_error *err) {
    const struct json *row = json_get(line, "logits"), *allowed = json_get(line, "allowed");
    if (!json_is_array(row) || !row->count) return error_set(err, ERROR_USAGE, "logits is missing");
    struct ids stop = read_ids(arena, json_get(line, "stop_ids")), text = read_ids(arena, json_get(line, "text"));
    struct ids newline = read_ids(arena, json_get(line, "newline_ids")), may = read_ids(arena, allowed);
    float *logits = arena_calloc(arena, row->count, sizeof *logits);
    uint32_t *mask = arena_calloc(arena, row->count / 32 + 1, sizeof *mask);
    if (!logits || !mask) return error_memory(err, "a row");
    for (uint32_t i = 0; i < row->count; i++) logits[i] = (float)json_number(json_at(row, i), -INFINITY);
    for (size_t i = 0; i < may.n; i++)
        if (may.data[i] < row->count) mask[may.data[i] / 32] |= 1u << may.data[i] % 32;
    struct sampling_params params;
    struct dry_breakers breakers = {0};
    struct sampler sampler = {0};
    struct sampling_scratch scratch = {0};
    struct sample_result result;
    struct sampler_tokens tokens = {.stop_ids = stop.data,
                                    .n_stop_ids = stop.n,
                                    .newline_ids = newline.data,
                                    .n_newline_ids = newline.n,
                                    .breakers = &breakers};
    bool ok =
        read_params(arena, line, &params, err) && read_breakers(arena, json_get(line, "breakers"), &breakers, err) &&
        sampler_init(&sampler, &params, row->count, &tokens, err) &&
        sampler_accept_prompt(&sampler, text.data, text.n, err) && sampling_scratch_init(&scratch, row->count, err);
    if (ok) {
        sampler_sample(&sampler, &scratch, logits, json_is_array(allowed) ? mask : NULL, &result);
        write_result(w, &result);
    }
    sampler_free(&sampler);
    sampling_scratch_free(&scratch);
    dry_breakers_free(&breakers);
    return ok;
}

int main(void) {
    char *text = NULL;
    size_t capacity = 0;
    ssize_t length;
    while ((length = getline(&text, &capacity, stdin)) > 0) {
        struct arena arena = {0};
        struct buffer out = {0};
        struct json_writer w = {.out = &out};
        struct mx_error err = {0};
        const struct json *line = json_parse(&arena, text, (size_t)length, JSON_ALLOW_NAN, DEPTH, &err);
        if (!line || !sample(&arena, line, &w, &err)) {
            buffer_clear(&out);
            w = (struct json_writer){.out = &out};
            json_begin_object(&w);
            json_write_key(&w, "error");
            json_write_string(&w, err.message);
            json_end_object(&w);
        }
        puts(out.data ? out.data : "{}");
        fflush(stdout);
        buffer_free(&out);
        arena_free(&arena);
    }
    free(text);
    return 0;
}
