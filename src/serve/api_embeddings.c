/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/api_embeddings.h"

#include "serve/request.h"
#include "serve/server_parts.h"

#include <math.h>
#include <string.h>

static const struct field embedding_fields[] = {
    {"model", T_STRING, FIELD_USED},
    {"input", T_STRING | T_ARRAY, FIELD_USED},
    {"content", T_STRING | T_ARRAY, FIELD_USED},
    {"prompt", T_STRING, FIELD_USED},
    {"encoding_format", T_STRING, FIELD_USED},
    {"dimensions", T_INTEGER, FIELD_USED},
    {"embd_normalize", T_INTEGER, FIELD_USED},
    {"truncate", T_BOOL, FIELD_IGNORED},
    {"options", T_OBJECT, FIELD_IGNORED},
    {"keep_alive", T_ANY, FIELD_IGNORED},
    {NULL, 0, FIELD_USED},
};

enum shape { SHAPE_OPENAI, SHAPE_NATIVE, SHAPE_EMBED, SHAPE_EMBEDDING };

struct embedding_extra {
    enum shape shape;
    bool is_base64;
    size_t dimensions;
    int64_t norm; /* 2 = Euclidean, 1 = sum, 0 = largest, -1 = as computed */
};

/* ---- writing ---- */

/* Scales a cut vector to length 1 in the wanted sense. */
static void normalise(float *v, size_t n, int64_t norm) {
    double length = 0;
    for (size_t i = 0; i < n; i++) {
        double x = fabs((double)v[i]);
        if (norm == 2)
            length += x * x;
        else if (norm == 1)
            length += x;
        else if (norm == 0)
            length = x > length ? x : length;
        else
            length += pow(x, (double)norm);
    }
    if (norm >= 2) length = norm == 2 ? sqrt(length) : pow(length, 1.0 / (double)norm);
    if (norm < 0 || length == 0) return;
    for (size_t i = 0; i < n; i++) v[i] = (float)((double)v[i] / length);
}

static void write_base64(struct json_writer *w, const void *data, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *bytes = data;
    struct buffer text = {0};
    for (size_t i = 0; i < n; i += 3) {
        unsigned value =
            (unsigned)bytes[i] << 16 | (i + 1 < n ? (unsigned)bytes[i + 1] << 8 : 0u) | (i + 2 < n ? bytes[i + 2] : 0u);
        char four[4] = {digits[value >> 18], digits[value >> 12 & 63], i + 1 < n ? digits[value >> 6 & 63] : '=',
                        i + 2 < n ? digits[value & 63] : '='};
        buffer_append(&text, four, 4);
    }
    if (text.failed) w->out->failed = true;
    json_write_string_n(w, text.data ? text.data : "", text.length);
    buffer_free(&text);
}

static void write_vector(struct json_writer *w, const struct generation *g, uint32_t index) {
    const struct embedding_extra *e = g->extra;
    float *v = g->choices[index].vector;
    normalise(v, e->dimensions, e->norm);
    if (e->is_base64) { /* little-endian floats, as every supported processor has them */
        write_base64(w, v, e->dimensions * sizeof *v);
        return;
    }
    json_begin_array(w);
    for (size_t i = 0; i < e->dimensions; i++) json_write_real_as(w, "%.9g", (double)v[i]);
    json_end_array(w);
}

static void write_openai(struct json_writer *w, const struct generation *g) {
    json_begin_object(w);
    json_add_string(w, "object", "list");
    json_write_key(w, "data");
    json_begin_array(w);
    for (uint32_t i = 0; i < g->n_choices; i++) {
        json_begin_object(w);
        json_add_string(w, "object", "embedding");
        json_add_integer(w, "index", i);
        json_write_key(w, "embedding");
        write_vector(w, g, i);
        json_end_object(w);
    }
    json_end_array(w);
    json_add_string(w, "model", g->served->id);
    json_write_key(w, "usage");
    json_begin_object(w);
    json_add_count(w, "prompt_tokens", generation_n_prompt(g));
    json_add_count(w, "total_tokens", generation_n_prompt(g));
    json_end_object(w);
    json_end_object(w);
}

static void write_native(struct json_writer *w, const struct generation *g) {
    json_begin_array(w);
    for (uint32_t i = 0; i < g->n_choices; i++) {
        json_begin_object(w);
        json_add_integer(w, "index", i);
        json_write_key(w, "embedding");
        json_begin_array(w);
        write_vector(w, g, i);
        json_end_array(w);
        json_end_object(w);
    }
    json_end_array(w);
}

static void write_ollama(struct json_writer *w, const struct generation *g, bool is_list) {
    json_begin_object(w);
    if (is_list) {
        json_add_string(w, "model", g->served->id);
        json_write_key(w, "embeddings");
        json_begin_array(w);
        for (uint32_t i = 0; i < g->n_choices; i++) write_vector(w, g, i);
        json_end_array(w);
        json_add_count(w, "total_duration", g->ended_ns - g->exchange->arrived_ns);
        json_add_integer(w, "load_duration", 0);
        json_add_count(w, "prompt_eval_count", generation_n_prompt(g));
    } else {
        json_write_key(w, "embedding");
        write_vector(w, g, 0);
    }
    json_end_object(w);
}

static void end(struct generation *g) {
    const struct embedding_extra *e = g->extra;
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    for (uint32_t i = 0; i < g->n_choices; i++) {
        bool is_finite = true;
        for (size_t k = 0; k < e->dimensions; k++) is_finite = is_finite && isfinite(g->choices[i].vector[k]);
        if (is_finite) continue;
        api_refuse(g->exchange, 500, "the model computed no numbers for an input");
        return;
    }
    if (e->shape == SHAPE_OPENAI)
        write_openai(&w, g);
    else if (e->shape == SHAPE_NATIVE)
        write_native(&w, g);
    else
        write_ollama(&w, g, e->shape == SHAPE_EMBED);
    exchange_reply_json(g->exchange, 200, &out);
}

static const struct answer_writer embedding_writer = {.end = end, .extra_bytes = sizeof(struct embedding_extra)};

/* ---- reading ---- */

static bool take(struct generation *g, const struct json *body, enum shape shape, struct problem *problem) {
    struct embedding_extra *e = g->extra;
    const struct json *format = field_get(body, "encoding_format"), *input = field_get(body, "input");
    int64_t most = g->served->model.graph.hidden_size, dimensions;
    g->pooling = g->served->options->pools_last ? POOLING_LAST : POOLING_MEAN;
    g->max_tokens = 1; /* nothing is generated: no room is needed */
    e->shape = shape;
    if (format && !json_string_is(format, "float") && !json_string_is(format, "base64"))
        return problem_set(problem, 400, "encoding_format", "'encoding_format' must be \"float\" or \"base64\"");
    e->is_base64 = json_string_is(format, "base64") && (shape == SHAPE_OPENAI || shape == SHAPE_NATIVE);
    if (!field_integer(body, "dimensions", 1, most, most, &dimensions, problem) ||
        !field_integer(body, "embd_normalize", -1, 100, 2, &e->norm, problem))
        return false;
    e->dimensions = (size_t)dimensions;
    if (!input) input = field_get(body, shape == SHAPE_EMBEDDING ? "prompt" : "content");
    return request_take_prompts(g, input, "input", MAX_VECTORS, problem);
}

static void embed(struct exchange *x, enum shape shape) {
    struct problem problem;
    const struct json *body;
    struct generation *g = request_open(x, embedding_fields, &embedding_writer, &body, &problem);
    if (!g || !take(g, body, shape, &problem) || !generation_submit(g, &problem)) api_fail(x, &problem);
}

void api_embeddings(struct exchange *x) { embed(x, SHAPE_OPENAI); }
void api_native_embeddings(struct exchange *x) { embed(x, SHAPE_NATIVE); }
void ollama_embed(struct exchange *x) { embed(x, SHAPE_EMBED); }
void ollama_embeddings(struct exchange *x) { embed(x, SHAPE_EMBEDDING); }
