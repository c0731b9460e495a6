/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/weights.h"

#include "base/half.h"
#include "base/memory.h"
#include "format/awq.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_NAME = 512 };

/* ---- names ---- */

/* How multimodal checkpoints wrap the names of their text part: a leading "model." is replaced by `replacement`, any
 * other name gets `prefix` in front. */
static const struct {
    const char *replacement, *prefix;
} wrappers[] = {
    {"model.", ""},
    {"language_model.model.", "language_model."},
    {"model.language_model.", ""},
    {"model.language_model.", "language_model."},
    {"language_model.", "language_model."},
    {"model.text_model.", ""},
    {"transformer.", ""},
    {"model.decoder.", ""},
    {"thinker.model.", "thinker."},
    {"thinker.language_model.model.", "thinker.language_model."},
    {"text.model.", "text."},
    {"", ""},
};
enum { N_WRAPPERS = sizeof wrappers / sizeof *wrappers };

static void wrap_name(int wrapper, const char *name, char *out) {
    if (!strncmp(name, "model.", 6))
        snprintf(out, MAX_NAME, "%s%s", wrappers[wrapper].replacement, name + 6);
    else
        snprintf(out, MAX_NAME, "%s%s", wrappers[wrapper].prefix, name);
}

static const struct tensor *find_wrapped(struct weights *w, const char *name) {
    char wrapped[MAX_NAME];
    for (int i = 0; i < N_WRAPPERS; i++) {
        int wrapper = (w->wrapper + i) % N_WRAPPERS;
        wrap_name(wrapper, name, wrapped);
        const struct tensor *tensor = checkpoint_find(w->checkpoint, wrapped);
        if (!tensor) continue;
        w->wrapper = wrapper;
        return tensor;
    }
    return NULL;
}

/* scope + "." + alternative number `index` + suffix; false when there are fewer alternatives. "" as scope adds nothing;
 * an alternative that begins with '/' is a full name. */
static bool full_name(const char *scope, const char *names, int index, const char *suffix, char *out) {
    for (; index > 0; index--) {
        names = strchr(names, '|');
        if (!names) return false;
        names++;
    }
    int n = (int)strcspn(names, "|");
    if (*names == '/')
        snprintf(out, MAX_NAME, "%.*s%s", n - 1, names + 1, suffix);
    else
        snprintf(out, MAX_NAME, "%s%s%.*s%s", scope, *scope ? "." : "", n, names, suffix);
    return true;
}

static bool mark_used(struct weights *w, const struct tensor *tensor, struct mx_error *err) {
    if (!tensor) return true;
    return map_put(&w->used, tensor->name, strlen(tensor->name), 1, NULL) || error_memory(err, "weight names");
}

const struct tensor *weights_find(struct weights *w, const char *scope, const char *names) {
    char name[MAX_NAME];
    if (!w->checkpoint) return NULL;
    for (int i = 0; full_name(scope, names, i, "", name); i++) {
        const struct tensor *tensor = find_wrapped(w, name);
        if (tensor) return tensor;
    }
    return NULL;
}

bool weights_has(struct weights *w, const char *scope, const char *names, bool fallback) {
    char name[MAX_NAME];
    if (!w->checkpoint) return fallback;
    if (weights_find(w, scope, names)) return true;
    /* "X.weight" is there in another form */
    for (int i = 0; w->is_awq && full_name(scope, names, i, "", name); i++) {
        size_t n = strlen(name), m = strlen(".weight");
        if (n <= m || n + 8 > sizeof name || strcmp(name + n - m, ".weight") != 0) continue;
        memcpy(name + n - m, ".qweight", sizeof ".qweight");
        if (find_wrapped(w, name)) return true;
    }
    return false;
}

/* ---- what the config says about formats ---- */

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

static bool read_config(struct weights *w, struct mx_error *err) {
    const struct json *q = config_get(w->config, "quantization");
    const char *dtype = config_string_or(w->config, "torch_dtype", "bfloat16");
    w->plain_dtype = !strcmp(dtype, "float32") ? DTYPE_F32 : !strcmp(dtype, "float16") ? DTYPE_F16 : DTYPE_BF16;
    if (!json_is_object(q)) return true;
    const struct json *method = json_get(q, "quant_method");
    if (json_string_is(method, "fp8")) {
        w->quantization = (struct quantization){WEIGHT_E4M3, 128};
        return true;
    }
    if (json_string_is(method, "bitnet")) {
        /* BitLinear divides by weight_scale, AutoBitLinear multiplies. */
        w->inverts_ternary = !json_string_is(json_get(q, "linear_class"), "autobitlinear");
        return true;
    }
    if (json_string_is(method, "mxfp4")) {
        w->quantization = (struct quantization){WEIGHT_MXFP4, 32};
        return true;
    }
    if (json_string_is(method, "modelopt") && json_string_is(json_get(q, "quant_algo"), "NVFP4")) {
        w->quantization = (struct quantization){WEIGHT_NVFP4, 16};
        w->plain_modules = json_get(q, "ignore");
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

/* Whether a pattern ("lm_head", "model.layers.*.self_attn*") names the module, under its plain or a wrapped name. */
static bool is_listed_plain(struct weights *w, const char *module) {
    char wrapped[MAX_NAME];
    for (uint32_t k = 0; json_is_array(w->plain_modules) && k < w->plain_modules->count; k++) {
        const char *pattern = json_string_copy(&w->arena, &w->plain_modules->items[k]);
        for (int i = 0; pattern && i < N_WRAPPERS; i++) {
            wrap_name(i, module, wrapped);
            if (!fnmatch(pattern, wrapped, 0)) return true;
        }
    }
    return false;
}

/* The config's entry for a module, under its plain or a wrapped name. */
static struct quantization module_quantization(struct weights *w, const char *module) {
    const struct json *q = config_get(w->config, "quantization"), *entry = NULL;
    char wrapped[MAX_NAME];
    for (int i = 0; i < N_WRAPPERS && !entry; i++) {
        wrap_name(i, module, wrapped);
        entry = json_get(q, wrapped);
    }
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

/* ---- weights ---- */

static struct weight *new_weight(struct weights *w, const char *name, enum weight_role role, uint32_t n_rows,
                                 uint32_t n_cols, uint32_t n_experts, struct mx_error *err) {
    struct weight *weight = arena_calloc(&w->arena, 1, sizeof *weight);
    if (!weight || !array_reserve(&w->list, &w->capacity, w->n + 1, sizeof(struct weight *)) ||
        !(weight->name = arena_copy(&w->arena, name, strlen(name)))) {
        error_memory(err, "weight table");
        return NULL;
    }
    weight->role = role;
    weight->is_repeat = w->is_repeat;
    weight->n_rows = n_rows;
    weight->n_cols = n_cols;
    weight->n_experts = n_experts;
    w->list[w->n++] = weight;
    return weight;
}

static void count_bytes(struct weight *weight) {
    for (uint32_t e = 0; e < (weight->n_experts ? weight->n_experts : 1); e++)
        weight->stored_bytes += matrix_code_bytes(&weight->matrices[e]) + matrix_scale_bytes(&weight->matrices[e]);
}

/* The tensors of one module. */
struct module {
    const struct tensor *codes, *scales, *biases;
    const struct tensor *factor; /* of the whole tensor; NULL = none */
    bool is_awq;                 /* qweight, scales and qzeros, to be repacked */
};

/* MXFP4 as released checkpoints have it: module_blocks U8 [.., rows, groups, 16] is the same bytes as U32 [.., rows, words];
 * module_scales U8 [.., rows, groups]. */
static bool find_blocks(struct weights *w, const char *module, struct module *found) {
    char name[MAX_NAME + 32];
    snprintf(name, sizeof name, "%s_blocks", module);
    const struct tensor *blocks = find_wrapped(w, name);
    snprintf(name, sizeof name, "%s_scales", module);
    const struct tensor *scales = find_wrapped(w, name);
    if (!blocks || !scales || blocks->dtype != DTYPE_U8 || blocks->n_dims < 3 ||
        blocks->shape[blocks->n_dims - 1] != 16)
        return false;
    struct tensor *view = arena_calloc(&w->arena, 1, sizeof *view);
    if (!view) return false;
    *view = *blocks;
    view->dtype = DTYPE_U32;
    view->n_dims--;
    view->shape[view->n_dims - 1] *= 4;
    *found = (struct module){.codes = view, .scales = scales};
    return true;
}

/* NVFP4 as ModelOpt writes it: weight U8 [rows, cols / 2], weight_scale F8_E4M3 [rows, groups], and a factor of the whole
 * tensor. Codes and scales are the same bytes as in the MLX layout. */
static bool view_triplet(struct weights *w, const char *module, struct module *found) {
    char name[MAX_NAME + 32];
    const struct tensor *codes = found->codes, *scales = found->scales;
    if (codes->dtype != DTYPE_U8 || !scales || scales->dtype != DTYPE_F8_E4M3 || codes->n_dims != 2 ||
        codes->shape[1] % 4)
        return false;
    snprintf(name, sizeof name, "%s.weight_scale_2", module);
    found->factor = find_wrapped(w, name);
    struct tensor *views = found->factor ? arena_calloc(&w->arena, 2, sizeof *views) : NULL;
    if (!views) return false;
    views[0] = *codes;
    views[0].dtype = DTYPE_U32;
    views[0].shape[1] /= 4;
    views[1] = *scales;
    views[1].dtype = DTYPE_U8;
    found->codes = &views[0];
    found->scales = &views[1];
    return true;
}

static bool find_awq(struct weights *w, const char *module, struct module *found) {
    static const char *const parts[] = {"qweight", "scales", "qzeros"};
    const struct tensor *tensors[3];
    char name[MAX_NAME + 32];
    for (size_t i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s.%s", module, parts[i]);
        if (!(tensors[i] = find_wrapped(w, name))) return false;
    }
    *found = (struct module){.codes = tensors[0], .scales = tensors[1], .biases = tensors[2], .is_awq = true};
    return true;
}

/* Looks for module.weight with its scales, in any of the conventions; a stacked tensor may also lack ".weight". */
static bool find_module(struct weights *w, const char *module, struct module *found) {
    char name[MAX_NAME + 32];
    static const char *const scale_names[] = {".scales", ".weight_scale_inv", ".weight_scale"};
    snprintf(name, sizeof name, "%s.weight", module);
    *found = (struct module){0};
    found->codes = find_wrapped(w, name);
    if (!found->codes && w->is_awq && find_awq(w, module, found)) return true;
    if (!found->codes) {
        found->codes = find_wrapped(w, module);
        found->scales = found->biases = NULL;
        if (!found->codes) return find_blocks(w, module, found);
        snprintf(name, sizeof name, "%s_scale_inv", module);
        found->scales = found->codes->dtype == DTYPE_F8_E4M3 ? find_wrapped(w, name) : NULL;
        return true;
    }
    found->scales = NULL;
    for (size_t i = 0; i < 3 && !found->scales && found->codes->dtype > DTYPE_BF16; i++) {
        snprintf(name, sizeof name, "%s%s", module, scale_names[i]);
        found->scales = find_wrapped(w, name);
    }
    if (view_triplet(w, module, found)) return true;
    snprintf(name, sizeof name, "%s.biases", module);
    found->biases = found->scales ? find_wrapped(w, name) : NULL;
    return true;
}

static void select_rows(struct matrix *m, const struct row_selection *rows, uint32_t n_rows) {
    if (!rows->tensor_rows) return;
    if (rows->run_rows)
        matrix_select_rows(m, rows->first_row, n_rows, rows->run_rows, rows->run_step);
    else
        matrix_select_rows(m, rows->first_row, n_rows, n_rows, n_rows);
}

/* A copy of a plain tensor whose last two dimensions, [cols, rows], are exchanged; made once. The result is valid until the
 * next copy. */
static const struct tensor *transposed(struct weights *w, const struct tensor *tensor, struct mx_error *err) {
    char shape[160];
    uint64_t index;
    if (map_get(&w->transposed, tensor->name, strlen(tensor->name), &index)) return &w->copies[index];
    size_t size = dtype_bytes(tensor->dtype), last = (size_t)tensor->n_dims - 1;
    if (tensor->dtype > DTYPE_BF16 || tensor->n_dims < 2) {
        error_set(err, ERROR_FORMAT, "%s: tensor '%s' is %s %s, expected a plain [in, out] matrix", tensor->file->name,
                  tensor->name, dtype_name(tensor->dtype), tensor_shape_text(tensor, shape, sizeof shape));
        return NULL;
    }
    unsigned char *data = arena_alloc(&w->arena, tensor->bytes);
    if (!data || !array_reserve(&w->copies, &w->copies_capacity, w->n_copies + 1, sizeof *w->copies) ||
        !map_put(&w->transposed, tensor->name, strlen(tensor->name), w->n_copies, NULL)) {
        error_memory(err, tensor->name);
        return NULL;
    }
    size_t rows = (size_t)tensor->shape[last], cols = (size_t)tensor->shape[last - 1], each = rows * cols * size;
    for (size_t first = 0; first < tensor->bytes && each; first += each)
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < cols; c++)
                memcpy(data + first + (r * cols + c) * size, tensor->data + first + (c * rows + r) * size, size);
    struct tensor *copy = &w->copies[w->n_copies++];
    *copy = *tensor;
    copy->shape[last - 1] = rows;
    copy->shape[last] = cols;
    copy->data = data;
    return copy;
}

static bool bind_matrix(struct weights *w, struct matrix *m, const char *module, const struct module *found,
                        const struct row_selection *rows, uint32_t n_rows, uint32_t n_cols, int64_t expert,
                        struct mx_error *err) {
    struct quantization hint = module_quantization(w, module);
    uint32_t tensor_rows = rows->tensor_rows ? rows->tensor_rows : n_rows;
    struct awq_tensors repacked;
    struct module usable = *found;
    if (found->is_awq) {
        if (!awq_repack(&w->arena, found->codes, found->biases, found->scales, &repacked, err)) return false;
        usable = (struct module){.codes = &repacked.codes, .scales = &repacked.scales, .biases = &repacked.biases};
    }
    if (!matrix_from_tensors(m, usable.codes, usable.scales, usable.biases, tensor_rows, n_cols, expert, &hint, err))
        return false;
    if (found->factor && !vector_widen(found->factor, 1, &m->tensor_scale, err)) return false;
    select_rows(m, rows, n_rows);
    if (m->format == WEIGHT_TERNARY && w->inverts_ternary) m->tensor_scale = 1.0f / m->tensor_scale;
    return mark_used(w, found->codes, err) && mark_used(w, found->scales, err) && mark_used(w, found->biases, err) &&
           mark_used(w, found->factor, err);
}

static float read_plain(enum weight_format format, const unsigned char *at) {
    float value;
    uint16_t half;
    if (format == WEIGHT_F32) {
        memcpy(&value, at, 4);
        return value;
    }
    memcpy(&half, at, 2);
    return format == WEIGHT_F16 ? f16_to_f32(half) : bf16_to_f32(half);
}

static void write_plain(enum weight_format format, float value, unsigned char *at) {
    if (format == WEIGHT_F32) {
        memcpy(at, &value, 4);
        return;
    }
    uint16_t half = format == WEIGHT_F16 ? f32_to_f16(value) : f32_to_bf16(value);
    memcpy(at, &half, 2);
}

bool weights_unit_rows(struct weights *w, struct matrix *m, struct mx_error *err) {
    if (!m->codes || m->format > WEIGHT_BF16 || m->run_rows != m->n_rows) return true;
    size_t size = (size_t)weight_formats[m->format].bits / 8;
    unsigned char *copy = arena_calloc(&w->arena, m->n_rows, m->row_bytes);
    if (!copy) return error_memory(err, "normalised rows");
    for (uint32_t r = 0; r < m->n_rows; r++) {
        const unsigned char *row = m->codes + (m->first_row + (size_t)r) * m->row_bytes;
        double sum = 0;
        for (uint32_t k = 0; k < m->n_cols; k++) {
            double value = read_plain(m->format, row + k * size);
            sum += value * value;
        }
        float length = (float)sqrt(sum) + 1e-7f;
        for (uint32_t k = 0; k < m->n_cols; k++)
            write_plain(m->format, read_plain(m->format, row + k * size) / length, copy + r * m->row_bytes + k * size);
    }
    m->codes = copy;
    m->first_row = 0;
    return true;
}

/* A matrix for shape-only builders. Modules whose columns no group divides stay plain, as in the MLX conversion. */
static void plan_matrix(struct weights *w, struct matrix *m, const char *module, uint32_t n_rows, uint32_t n_cols) {
    static const enum weight_format plain[] = {
        [DTYPE_F32] = WEIGHT_F32, [DTYPE_F16] = WEIGHT_F16, [DTYPE_BF16] = WEIGHT_BF16};
    struct quantization q = module_quantization(w, module);
    bool is_e4m3 = q.group && q.format == WEIGHT_E4M3;
    if ((is_e4m3 || w->is_awq) && (strstr(module, "embed") || strstr(module, "head"))) q.group = 0;
    if (!q.group || (!is_e4m3 && n_cols % q.group != 0)) {
        matrix_shape_only(m, plain[w->plain_dtype], 0, w->plain_dtype, n_rows, n_cols);
        return;
    }
    enum dtype scale_dtype = weight_formats[q.format].has_biases ? w->plain_dtype
                             : is_e4m3                           ? DTYPE_F32
                             : q.format == WEIGHT_NVFP4          ? DTYPE_F8_E4M3
                                                                 : DTYPE_U8;
    matrix_shape_only(m, q.format, q.group, scale_dtype, n_rows, n_cols);
}

/* Finds the first alternative of the sources that exists. Returns its source number, or -1 with the error set. With
 * experts, "%u" in a name stands for the expert. */
static int find_source(struct weights *w, const char *scope, const struct matrix_source *sources, size_t n_sources,
                       char *module, struct module *found, struct mx_error *err) {
    char pattern[MAX_NAME];
    for (size_t s = 0; s < n_sources; s++)
        for (int i = 0; full_name(scope, sources[s].module, i, "", pattern); i++) {
            const char *number = strstr(pattern, "%u");
            if (number)
                snprintf(module, MAX_NAME, "%.*s0%s", (int)(number - pattern), pattern, number + 2);
            else
                memcpy(module, pattern, MAX_NAME);
            if (!find_module(w, module, found)) continue;
            memcpy(module, pattern, MAX_NAME);
            return (int)s;
        }
    full_name(scope, sources[0].module, 0, ".weight", pattern);
    checkpoint_missing(w->checkpoint, pattern, err);
    return -1;
}

struct weight *weights_matrix(struct weights *w, const char *scope, const struct matrix_source *sources,
                              size_t n_sources, enum weight_role role, uint32_t n_rows, uint32_t n_cols,
                              struct mx_error *err) {
    char module[MAX_NAME];
    struct module found = {0};
    int source = 0;
    if (w->checkpoint)
        source = find_source(w, scope, sources, n_sources, module, &found, err);
    else
        full_name(scope, sources[0].module, 0, "", module);
    if (source < 0) return NULL;
    struct weight *weight = new_weight(w, found.codes ? found.codes->name : module, role, n_rows, n_cols, 0, err);
    if (!weight) return NULL;
    weight->matrices = arena_calloc(&w->arena, 1, sizeof *weight->matrices);
    if (!weight->matrices) {
        error_memory(err, "weight table");
        return NULL;
    }
    weight->tensor_rows = sources[source].rows.tensor_rows;
    if (!w->checkpoint)
        plan_matrix(w, weight->matrices, module, n_rows, n_cols);
    else if ((sources[source].is_transposed && !(found.codes = transposed(w, found.codes, err))) ||
             !bind_matrix(w, weight->matrices, module, &found, &sources[source].rows, n_rows, n_cols, -1, err))
        return NULL;
    count_bytes(weight);
    return weight;
}

static bool bind_experts(struct weights *w, struct weight *weight, const char *pattern, const struct module *stacked,
                         const struct row_selection *rows, struct mx_error *err) {
    const char *number = strstr(pattern, "%u");
    for (uint32_t e = 0; e < weight->n_experts; e++) {
        char module[MAX_NAME] = "";
        struct module one = *stacked;
        if (number) {
            snprintf(module, sizeof module, "%.*s%u%s", (int)(number - pattern), pattern, e, number + 2);
            if (!find_module(w, module, &one)) {
                strncat(module, ".weight", sizeof module - strlen(module) - 1);
                return checkpoint_missing(w->checkpoint, module, err);
            }
        }
        if (!bind_matrix(w, &weight->matrices[e], number ? module : pattern, &one, rows, weight->n_rows, weight->n_cols,
                         number ? -1 : (int64_t)e, err))
            return false;
    }
    if (!number && stacked->codes->shape[0] != weight->n_experts)
        return error_set(err, ERROR_FORMAT, "%s: tensor '%s' holds %llu experts, expected %u",
                         stacked->codes->file->name, stacked->codes->name, (unsigned long long)stacked->codes->shape[0],
                         weight->n_experts);
    return true;
}

struct weight *weights_experts(struct weights *w, const char *scope, const struct matrix_source *sources,
                               size_t n_sources, uint32_t n_experts, uint32_t n_rows, uint32_t n_cols,
                               struct mx_error *err) {
    char pattern[MAX_NAME];
    struct module found = {0};
    int source = 0;
    if (w->checkpoint)
        source = find_source(w, scope, sources, n_sources, pattern, &found, err);
    else
        full_name(scope, sources[0].module, 0, "", pattern);
    if (source < 0) return NULL;
    struct weight *weight =
        new_weight(w, found.codes ? found.codes->name : pattern, ROLE_EXPERTS, n_rows, n_cols, n_experts, err);
    if (!weight) return NULL;
    weight->tensor_rows = sources[source].rows.tensor_rows;
    weight->matrices = arena_calloc(&w->arena, n_experts, sizeof *weight->matrices);
    if (!weight->matrices) {
        error_memory(err, "weight table");
        return NULL;
    }
    if (w->checkpoint) {
        if (sources[source].is_transposed && !(found.codes = transposed(w, found.codes, err))) return NULL;
        if (!bind_experts(w, weight, pattern, &found, &sources[source].rows, err)) return NULL;
    } else {
        for (uint32_t e = 0; e < n_experts; e++) plan_matrix(w, &weight->matrices[e], pattern, n_rows, n_cols);
    }
    count_bytes(weight);
    return weight;
}

static bool bind_heads(struct weights *w, struct weight *weight, const char *module, const struct module *found,
                       const struct row_selection *rows, struct mx_error *err) {
    for (uint32_t h = 0; h < weight->n_experts; h++) {
        struct row_selection one = *rows;
        if (rows->tensor_rows) {
            one.first_row += h * rows->run_step;
            one.run_rows = 0;
        }
        if (!bind_matrix(w, &weight->matrices[h], module, found, &one, weight->n_rows, weight->n_cols,
                         rows->tensor_rows ? -1 : (int64_t)h, err))
            return false;
    }
    return true;
}

struct weight *weights_heads(struct weights *w, const char *scope, const struct matrix_source *source, uint32_t n_heads,
                             uint32_t n_rows, uint32_t n_cols, struct mx_error *err) {
    char module[MAX_NAME];
    struct module found = {0};
    full_name(scope, source->module, 0, "", module);
    if (w->checkpoint && find_source(w, scope, source, 1, module, &found, err) < 0) return NULL;
    struct weight *weight =
        new_weight(w, found.codes ? found.codes->name : module, ROLE_ATTENTION, n_rows, n_cols, n_heads, err);
    if (!weight) return NULL;
    weight->tensor_rows = source->rows.tensor_rows;
    weight->is_flat = source->rows.tensor_rows != 0;
    weight->matrices = arena_calloc(&w->arena, n_heads, sizeof *weight->matrices);
    if (!weight->matrices) {
        error_memory(err, "weight table");
        return NULL;
    }
    for (uint32_t h = 0; h < n_heads && !w->checkpoint; h++)
        plan_matrix(w, &weight->matrices[h], module, n_rows, n_cols);
    if (w->checkpoint && !bind_heads(w, weight, module, &found, &source->rows, err)) return NULL;
    count_bytes(weight);
    return weight;
}

static bool widen(struct weights *w, struct weight *weight, const struct tensor *tensor,
                  const struct row_selection *selection, struct mx_error *err) {
    uint32_t n = weight->n_cols, total = selection && selection->tensor_rows ? selection->tensor_rows : n;
    float *all = arena_calloc(&w->arena, total, sizeof *all);
    if (!all) return error_memory(err, tensor->name);
    if (!vector_widen(tensor, total, all, err)) return false;
    weight->vector = all;
    if (!selection || !selection->tensor_rows) return true;
    weight->vector = arena_calloc(&w->arena, n, sizeof *weight->vector);
    if (!weight->vector) return error_memory(err, tensor->name);
    uint32_t run = selection->run_rows ? selection->run_rows : n, step = selection->run_rows ? selection->run_step : n;
    for (uint32_t i = 0; i < n; i++) weight->vector[i] = all[selection->first_row + i / run * step + i % run];
    return true;
}

struct weight *weights_vector(struct weights *w, const char *scope, const char *names,
                              const struct row_selection *selection, uint32_t n, struct mx_error *err) {
    char name[MAX_NAME];
    const struct tensor *tensor = NULL;
    full_name(scope, names, 0, "", name);
    if (w->checkpoint && !(tensor = weights_find(w, scope, names))) {
        checkpoint_missing(w->checkpoint, name, err);
        return NULL;
    }
    struct weight *weight = new_weight(w, tensor ? tensor->name : name, ROLE_NORM, 1, n, 0, err);
    if (!weight) return NULL;
    weight->tensor_rows = selection ? selection->tensor_rows : 0;
    weight->stored_bytes = (uint64_t)n * dtype_bytes(tensor ? tensor->dtype : w->plain_dtype);
    if (tensor && (!widen(w, weight, tensor, selection, err) || !mark_used(w, tensor, err))) return NULL;
    return weight;
}

void weights_unused(const struct weights *w, void (*visit)(void *context, const struct tensor *tensor), void *context) {
    for (size_t f = 0; w->checkpoint && f < w->checkpoint->n_files; f++)
        for (size_t t = 0; t < w->checkpoint->files[f].n_tensors; t++) {
            const struct tensor *tensor = &w->checkpoint->files[f].tensors[t];
            if (!map_get(&w->used, tensor->name, strlen(tensor->name), NULL)) visit(context, tensor);
        }
}

bool weights_init(struct weights *w, const struct checkpoint *checkpoint, struct config *config, struct mx_error *err) {
    *w = (struct weights){.checkpoint = checkpoint, .config = config};
    return read_config(w, err);
}

void weights_free(struct weights *w) {
    free(w->list);
    map_free(&w->used);
    map_free(&w->transposed);
    free(w->copies);
    arena_free(&w->arena);
    *w = (struct weights){0};
}
