/* SPDX-License-Identifier: Apache-2.0 */
/* What a config says about the formats of weights, in the ways of MLX, transformers and others. */
#include "graph/weights_internal.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

static bool read_quantization(const struct json *object, struct quantization fallback, struct quantization *q) {
    static const struct {
        const char *mode;
        enum weight_format format;
        uint32_t group;
    } modes[] = {{"mxfp4", WEIGHT_MXFP4, 32}, {"mxfp8", WEIGHT_MXFP8, 32}, {"nvfp4", WEIGHT_NVFP4, 16}};
    *q = fallback;
    const struct json *mode = json_get(object, "mode");
    for (size_t i = 0; i < 3; i++)
        if (json_string_is(mode, modes[i].mode)) {
            *q = (struct quantization){modes[i].format, modes[i].group};
            return true;
        }
    int64_t bits = json_integer(json_get(object, "bits"), 4), group = json_integer(json_get(object, "group_size"), 64);
    for (int f = WEIGHT_AFFINE2; f <= WEIGHT_AFFINE8; f++)
        if (weight_formats[f].bits == bits && group > 0 && group <= 1024) {
            *q = (struct quantization){(enum weight_format)f, (uint32_t)group};
            return true;
        }
    return false;
}

static bool is_awq_gemm(const struct json *q) {
    const struct json *version = json_get(q, "version");
    bool is_gemm = json_is_null(version) || json_string_is(version, "gemm") || json_string_is(version, "GEMM");
    return is_gemm && json_integer(json_get(q, "bits"), 4) == 4 && json_bool(json_get(q, "zero_point"), true);
}

/* A quantisation of others: its name and bits, for the message that refuses it. */
static bool note_foreign(struct weights *w, const struct json *q, const struct json *method, struct mx_error *err) {
    const struct json *group = json_get(json_get(q, "config_groups"), "group_0");
    int64_t bits = json_integer(json_get(q, "bits"), json_integer(json_get(json_get(group, "weights"), "num_bits"), 0));
    if (!bits && json_bool(json_get(q, "load_in_4bit"), false)) bits = 4;
    if (!bits && json_bool(json_get(q, "load_in_8bit"), false)) bits = 8;
    w->foreign_bits = bits > 0 && bits <= 32 ? (uint32_t)bits : 0;
    const struct json *version = json_get(q, "version");
    w->foreign_method = json_is_string(version) ? arena_printf(&w->arena, "%.*s %.*s", (int)method->count,
                                                               method->string, (int)version->count, version->string)
                                                : json_string_copy(&w->arena, method);
    return w->foreign_method || error_memory(err, w->config->path);
}

bool weight_formats_from_config(struct weights *w, struct mx_error *err) {
    const struct json *q = config_get(w->config, "quantization");
    const char *dtype = config_string_or(w->config, "torch_dtype", "bfloat16");
    w->plain_dtype = !strcmp(dtype, "float32") ? DTYPE_F32 : !strcmp(dtype, "float16") ? DTYPE_F16 : DTYPE_BF16;
    if (!json_is_object(q)) return true;
    const struct json *method = json_get(q, "quant_method");
    if (json_string_is(method, "fp8")) {
        w->quantization = (struct quantization){WEIGHT_E4M3, 128};
        w->plain_modules = json_get(q, "modules_to_not_convert");
        return true;
    }
    /* Conversions have a block of their own for what is not ternary. */
    const struct json *released = config_get(w->config, "quantization_config");
    if (json_string_is(json_get(released, "quant_method"), "bitnet")) {
        /* BitLinear divides by weight_scale, AutoBitLinear multiplies. */
        w->inverts_ternary = !json_string_is(json_get(released, "linear_class"), "autobitlinear");
        w->is_ternary = true;
        if (q == released) return true;
    }
    if (json_string_is(method, "mxfp4")) {
        w->quantization = (struct quantization){WEIGHT_MXFP4, 32};
        return true;
    }
    const struct json *algorithm = json_get(q, "quant_algo");
    if (json_string_is(method, "modelopt") &&
        (json_string_is(algorithm, "NVFP4") || json_string_is(algorithm, "FP8"))) {
        bool is_fp8 = json_string_is(algorithm, "FP8");
        w->quantization = is_fp8 ? (struct quantization){WEIGHT_E4M3, 128} : (struct quantization){WEIGHT_NVFP4, 16};
        w->plain_modules = json_get(q, json_get(q, "ignore") ? "ignore" : "exclude_modules");
        return true;
    }
    if (json_string_is(method, "awq") && is_awq_gemm(q)) {
        w->is_awq = true;
        return read_quantization(q, (struct quantization){0}, &w->quantization);
    }
    if (json_is_string(method)) return note_foreign(w, q, method, err);
    if (!json_get(q, "bits") && !json_get(q, "mode")) return true;
    return read_quantization(q, (struct quantization){0}, &w->quantization) ||
           error_set(err, ERROR_UNSUPPORTED, "%s: quantization of %lld bits, group %lld is not supported",
                     w->config->path, (long long)json_integer(json_get(q, "bits"), 0),
                     (long long)json_integer(json_get(q, "group_size"), 0));
}

static bool is_inside(const char *module, const char *outer) {
    size_t n = strlen(outer);
    return n && !strncmp(module, outer, n) && module[n] == '.';
}

/* Whether a pattern ("lm_head", "model.layers.*.self_attn*") names the module or one around it, under its plain or a
 * wrapped name. */
static bool is_listed_plain(struct weights *w, const char *module) {
    char wrapped[MAX_NAME];
    for (uint32_t k = 0; json_is_array(w->plain_modules) && k < w->plain_modules->count; k++) {
        const char *pattern = json_string_copy(&w->arena, &w->plain_modules->items[k]);
        for (int i = 0; pattern && weight_name_wrapped(i, module, wrapped); i++)
            if (!fnmatch(pattern, wrapped, 0) || is_inside(wrapped, pattern)) return true;
    }
    return false;
}

/* The config's entry for a module, under its plain or a wrapped name, or NULL. */
static const struct json *find_entry(struct weights *w, const char *module) {
    const struct json *q = config_get(w->config, "quantization"), *entry = NULL;
    char wrapped[MAX_NAME];
    for (int i = 0; !entry && weight_name_wrapped(i, module, wrapped); i++) entry = json_get(q, wrapped);
    return entry;
}

bool weight_has_entry(struct weights *w, const char *module) { return find_entry(w, module) != NULL; }

struct quantization weight_module_quantization(struct weights *w, const char *module) {
    const struct json *entry = find_entry(w, module);
    struct quantization result = w->quantization;
    if (!entry && is_listed_plain(w, module)) return (struct quantization){0};
    if (json_is_bool(entry)) return json_bool(entry, true) ? result : (struct quantization){0};
    if (json_is_object(entry)) read_quantization(entry, result, &result);
    return result;
}

bool quantization_from_name(const char *name, struct quantization *q, enum dtype *plain) {
    static const struct {
        const char *name;
        enum weight_format format;
        uint32_t group;
        enum dtype plain;
    } names[] = {{"mxfp4", WEIGHT_MXFP4, 32, DTYPE_BF16}, {"mxfp8", WEIGHT_MXFP8, 32, DTYPE_BF16},
                 {"nvfp4", WEIGHT_NVFP4, 16, DTYPE_BF16}, {"bf16", WEIGHT_BF16, 0, DTYPE_BF16},
                 {"f16", WEIGHT_F16, 0, DTYPE_F16},       {"f32", WEIGHT_F32, 0, DTYPE_F32}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i].name, name)) {
            *q = (struct quantization){names[i].format, names[i].group};
            if (plain) *plain = names[i].plain;
            return true;
        }
    int bits = 0, group = 0, end = 0;
    if (sscanf(name, "%dbit-g%d%n", &bits, &group, &end) != 2 || name[end]) return false;
    for (int f = WEIGHT_AFFINE2; f <= WEIGHT_AFFINE8; f++)
        if (weight_formats[f].bits == bits && (group == 32 || group == 64 || group == 128)) {
            *q = (struct quantization){(enum weight_format)f, (uint32_t)group};
            if (plain) *plain = DTYPE_BF16;
            return true;
        }
    return false;
}
