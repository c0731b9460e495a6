/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/synth.h"

#include "cli/commands.h"
#include "cli/session.h"

#include "base/file.h"
#include "base/half.h"
#include "base/memory.h"
#include "base/rng.h"
#include "models/models.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum part { PART_CODES, PART_SCALES, PART_BIASES, PART_VECTOR };

/* One tensor of the file. */
struct item {
    const struct weight *weight;
    enum part part;
    char name[560];
    enum dtype dtype;
    uint64_t shape[3];
    int n_dims;
    uint64_t bytes, offset;
};

struct synth {
    struct graph graph;
    struct config config;
    struct item *items;
    size_t n_items, capacity;
    struct map seen;
    uint64_t seed;
    FILE *file;
};

/* ---- the list of tensors ---- */

static bool add_item(struct synth *s, const struct weight *w, enum part part, const char *suffix, enum dtype dtype,
                     uint64_t rows, uint64_t cols, struct mx_error *err) {
    if (!array_reserve(&s->items, &s->capacity, s->n_items + 1, sizeof *s->items))
        return error_memory(err, "tensor list");
    struct item *item = &s->items[s->n_items];
    *item = (struct item){.weight = w, .part = part, .dtype = dtype};
    snprintf(item->name, sizeof item->name, "%s%s", w->name, suffix);
    if (w->n_experts && !w->is_flat) item->shape[item->n_dims++] = w->n_experts;
    if (part != PART_VECTOR || w->taps) item->shape[item->n_dims++] = part == PART_VECTOR ? cols / w->taps : rows;
    item->shape[item->n_dims++] = part == PART_VECTOR && w->taps ? w->taps : cols;
    if (part == PART_VECTOR && w->taps) item->shape[item->n_dims++] = 1;
    item->bytes = dtype_bytes(dtype);
    for (int i = 0; i < item->n_dims; i++) item->bytes *= item->shape[i];
    item->offset = s->n_items ? s->items[s->n_items - 1].offset + s->items[s->n_items - 1].bytes : 0;
    s->n_items++;
    return true;
}

static bool list_weight(struct synth *s, const struct weight *w, struct mx_error *err) {
    bool was_present;
    if (!map_put(&s->seen, w->name, strlen(w->name), 1, &was_present)) return error_memory(err, "tensor list");
    if (was_present) return true; /* another selection of rows of the same tensor */
    uint32_t rows = w->tensor_rows ? w->tensor_rows : w->n_rows;
    if (!w->matrices)
        return add_item(s, w, PART_VECTOR, "", s->graph.weights.plain_dtype, 1,
                        w->tensor_rows ? w->tensor_rows : w->n_cols, err);
    const struct matrix *m = w->matrices;
    const struct weight_format_info *f = &weight_formats[m->format];
    if (!m->group) return add_item(s, w, PART_CODES, ".weight", f->code_dtype, rows, w->n_cols, err);
    uint64_t words = (uint64_t)w->n_cols * (uint64_t)f->bits / 32, groups = w->n_cols / m->group;
    enum dtype scale = m->format == WEIGHT_NVFP4 ? DTYPE_U8 : m->scale_dtype;
    return add_item(s, w, PART_CODES, ".weight", DTYPE_U32, rows, words, err) &&
           add_item(s, w, PART_SCALES, ".scales", scale, rows, groups, err) &&
           (!f->has_biases || add_item(s, w, PART_BIASES, ".biases", scale, rows, groups, err));
}

/* ---- values ---- */

static void store_real(enum dtype dtype, unsigned char *out, uint64_t i, float value) {
    uint16_t half = dtype == DTYPE_F16 ? f32_to_f16(value) : f32_to_bf16(value);
    if (dtype == DTYPE_F32)
        memcpy(out + 4 * i, &value, 4);
    else
        memcpy(out + 2 * i, &half, 2);
}

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

/* A plausible value of a vector: norm weights near 1, biases near 0, decay rates as after training. */
static float vector_value(const struct item *item, float u) {
    if (ends_with(item->name, "A_log")) return 2.7f * u;
    if (ends_with(item->name, "dt_bias")) return -4.0f + 2.0f * u;
    if (ends_with(item->name, "bias")) return 0.02f * (2.0f * u - 1.0f);
    if (item->weight->taps) return (2.0f * u - 1.0f) / sqrtf((float)item->weight->taps);
    return 0.9f + 0.2f * u;
}

/* Root mean square of random codes of a block format. */
static double code_rms(enum weight_format format) { return format == WEIGHT_MXFP8 ? 128.0 : 2.926; }

static void fill_scales(const struct item *item, uint64_t first, uint64_t n, uint64_t state, unsigned char *out) {
    const struct matrix *m = item->weight->matrices;
    int bits = weight_formats[m->format].bits;
    double root = sqrt((double)item->weight->n_cols);
    for (uint64_t i = 0; i < n; i++) {
        float u = rng_uniform(rng_mix(state + (first + i + 1) * RNG_GOLDEN));
        double scale = (0.9 + 0.2 * (double)u) / (root * ldexp(1, bits - 2));
        if (m->format == WEIGHT_MXFP4 || m->format == WEIGHT_MXFP8) {
            out[i] = (unsigned char)(127 + (int)floor(log2(1 / (code_rms(m->format) * root)) + 0.5));
        } else if (m->format == WEIGHT_NVFP4) {
            double wanted = (0.9 + 0.2 * (double)u) / (code_rms(m->format) * root);
            unsigned char code = 0; /* the largest e4m3 value not above it */
            while (code < 0x7e && (double)e4m3_to_f32((uint8_t)(code + 1)) <= wanted) code++;
            out[i] = code ? code : 1;
        } else {
            store_real(item->dtype, out, i, (float)(item->part == PART_SCALES ? scale : -ldexp(1, bits - 1) * scale));
        }
    }
}

static void fill_codes(const struct item *item, uint64_t first, uint64_t n, uint64_t state, unsigned char *out) {
    const struct matrix *m = item->weight->matrices;
    float limit = sqrtf(3.0f / (float)item->weight->n_cols);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t word = rng_mix(state + (first + i + 1) * RNG_GOLDEN);
        if (m->group) {
            uint32_t codes = (uint32_t)(word >> 32);
            if (m->format == WEIGHT_MXFP8) codes &= 0xf7f7f7f7u; /* e4m3 without its NaN */
            memcpy(out + 4 * i, &codes, 4);
        } else {
            store_real(item->dtype, out, i, limit * (2.0f * rng_uniform(word) - 1.0f));
        }
    }
}

static void fill(const struct item *item, uint64_t first, uint64_t n, uint64_t seed, unsigned char *out) {
    uint64_t h = 0xcbf29ce484222325u;
    for (const char *c = item->weight->name; *c; c++) h = (h ^ (unsigned char)*c) * 0x100000001b3u;
    uint64_t state = h ^ seed * RNG_GOLDEN;
    switch (item->part) {
    case PART_CODES: fill_codes(item, first, n, state, out); break;
    case PART_SCALES:
    case PART_BIASES: fill_scales(item, first, n, ~state, out); break; /* the bias goes with its scale */
    case PART_VECTOR:
        for (uint64_t i = 0; i < n; i++)
            store_real(item->dtype, out, i,
                       vector_value(item, rng_uniform(rng_mix(state + (first + i + 1) * RNG_GOLDEN))));
        break;
    }
}

/* ---- files ---- */

static bool write_header(struct synth *s, struct mx_error *err) {
    struct buffer header = {0};
    struct json_writer w = {.out = &header};
    json_begin_object(&w);
    json_add_raw(&w, "__metadata__", "{\"format\":\"mlx\"}", 16);
    for (size_t i = 0; i < s->n_items; i++) {
        const struct item *item = &s->items[i];
        json_write_key(&w, item->name);
        json_begin_object(&w);
        json_add_string(&w, "dtype", dtype_name(item->dtype));
        json_write_key(&w, "shape");
        json_begin_array(&w);
        for (int d = 0; d < item->n_dims; d++) json_write_integer(&w, (int64_t)item->shape[d]);
        json_end_array(&w);
        json_write_key(&w, "data_offsets");
        json_begin_array(&w);
        json_write_integer(&w, (int64_t)item->offset);
        json_write_integer(&w, (int64_t)(item->offset + item->bytes));
        json_end_array(&w);
        json_end_object(&w);
    }
    json_end_object(&w);
    while (header.length % 64 != 56) buffer_putc(&header, ' '); /* data begins at a multiple of 64 */
    uint64_t length = header.length;
    bool ok = !header.failed || error_memory(err, "safetensors header");
    if (ok && (fwrite(&length, 8, 1, s->file) != 1 || fwrite(header.data, 1, header.length, s->file) != header.length))
        ok = error_set(err, ERROR_IO, "model.safetensors: %s", strerror(errno));
    buffer_free(&header);
    return ok;
}

static bool write_items(struct synth *s, struct mx_error *err) {
    enum { CHUNK = 1 << 16 };
    unsigned char *chunk = malloc((size_t)CHUNK * 4);
    bool ok = chunk != NULL || error_memory(err, "tensor data");
    for (size_t i = 0; i < s->n_items && ok; i++) {
        const struct item *item = &s->items[i];
        uint64_t size = dtype_bytes(item->dtype), n = item->bytes / size;
        for (uint64_t at = 0; at < n && ok; at += CHUNK) {
            uint64_t count = n - at < CHUNK ? n - at : CHUNK;
            if (session_was_interrupted()) {
                ok = error_set(err, ERROR_CANCELLED, "interrupted");
                break;
            }
            fill(item, at, count, s->seed, chunk);
            if (fwrite(chunk, size, count, s->file) != count)
                ok = error_set(err, ERROR_IO, "model.safetensors: %s", strerror(errno));
        }
    }
    free(chunk);
    return ok;
}

/* The config with the quantization block of the format. */
static bool write_config(struct synth *s, const struct quantization *q, const char *folder, struct mx_error *err) {
    struct buffer out = {0};
    struct json_writer w = {.out = &out, .indent = 2};
    static const char *const modes[] = {[WEIGHT_MXFP4] = "mxfp4", [WEIGHT_MXFP8] = "mxfp8", [WEIGHT_NVFP4] = "nvfp4"};
    json_begin_object(&w);
    for (uint32_t i = 0; i < s->config.root->count; i++) {
        const struct json_member *m = &s->config.root->members[i];
        bool replaced = (m->key_length == 12 && !memcmp(m->key, "quantization", 12)) ||
                        (m->key_length == 19 && !memcmp(m->key, "quantization_config", 19));
        if (replaced) continue;
        json_write_key_n(&w, m->key, m->key_length);
        json_write_value(&w, &m->value);
    }
    if (q->group) {
        json_write_key(&w, "quantization");
        json_begin_object(&w);
        json_add_integer(&w, "group_size", q->group);
        json_add_integer(&w, "bits", weight_formats[q->format].bits);
        json_add_string(&w, "mode", q->format >= WEIGHT_MXFP4 ? modes[q->format] : "affine");
        json_end_object(&w);
    }
    json_end_object(&w);
    buffer_putc(&out, '\n');
    char path[4096];
    snprintf(path, sizeof path, "%s/config.json", folder);
    bool ok = out.failed ? error_memory(err, "config.json") : file_write_atomic(path, out.data, out.length, err);
    buffer_free(&out);
    return ok;
}

static bool write_weights(struct synth *s, const char *folder, struct mx_error *err) {
    char path[4096], partial[4096];
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    snprintf(partial, sizeof partial, "%.4000s.partial", path);
    s->file = fopen(partial, "wb");
    if (!s->file) return error_set(err, ERROR_IO, "%s: %s", partial, strerror(errno));
    bool ok = write_header(s, err) && write_items(s, err);
    if (fclose(s->file) != 0 && ok) ok = error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
    if (ok && rename(partial, path) != 0) ok = error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
    if (!ok) unlink(partial);
    return ok;
}

/* Whether the config lies in the folder: its weights are somebody's, and would be written over. */
static bool is_source(const char *config_path, const char *folder) {
    char path[4096];
    struct stat source, target;
    snprintf(path, sizeof path, "%s/config.json", config_path);
    if (stat(file_is_directory(config_path) ? path : config_path, &source) != 0) return false;
    snprintf(path, sizeof path, "%s/config.json", folder);
    return stat(path, &target) == 0 && source.st_dev == target.st_dev && source.st_ino == target.st_ino;
}

bool synth_write(const char *config_path, const char *format, uint64_t seed, const char *folder, struct mx_error *err) {
    struct synth s = {.seed = seed};
    struct quantization q;
    enum dtype plain = DTYPE_BF16;
    if (!quantization_from_name(format, &q, &plain))
        return error_set(
            err, ERROR_USAGE,
            "--quant: '%s' is no weight format (4bit-g64, 8bit-g64, ..., mxfp4, mxfp8, nvfp4, bf16, f16, f32)", format);
    if (is_source(config_path, folder))
        return error_set(err, ERROR_USAGE, "-o: %s holds the config itself; its weights would be lost", folder);
    bool ok = config_open(&s.config, config_path, err) && model_build_as(&s.graph, &s.config, &q, plain, err);
    for (size_t i = 0; ok && i < s.graph.weights.n; i++) ok = list_weight(&s, s.graph.weights.list[i], err);
    bool made = ok && mkdir(folder, 0777) == 0;
    if (ok && !made && (errno != EEXIST || !file_is_directory(folder)))
        ok = error_set(err, ERROR_IO, "%s: %s", folder, strerror(errno));
    ok = ok && write_weights(&s, folder, err) && write_config(&s, &q, folder, err);
    if (!ok && made) rmdir(folder);
    map_free(&s.seen);
    free(s.items);
    graph_free(&s.graph);
    config_close(&s.config);
    return ok;
}

int command_synth(const struct options *options) {
    struct mx_error err = {0};
    const char *config = options_text(options, OPT_CONFIG), *out = options_text(options, OPT_OUT);
    bool ok = config && out;
    if (!ok) error_set(&err, ERROR_USAGE, "synth needs --config FILE and -o DIR");
    session_catch_interrupt();
    ok = ok && synth_write(config, options_text(options, OPT_QUANT), (uint64_t)options_integer(options, OPT_SYNTH_SEED),
                           out, &err);
    return ok ? 0 : command_fail(&err);
}
