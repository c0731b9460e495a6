/* SPDX-License-Identifier: Apache-2.0 */
/* The layouts in which files hold a module: codes, scales and biases under their names, and copies where no view will do. */
#include "graph/weights_internal.h"

#include "base/half.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* MXFP4 as released checkpoints have it: module_blocks U8 [.., rows, groups, 16] is the same bytes as U32 [.., rows, words];
 * module_scales U8 [.., rows, groups]. */
static bool find_blocks(struct weights *w, const char *module, struct module *found) {
    char name[MAX_NAME + 32];
    snprintf(name, sizeof name, "%s_blocks", module);
    const struct tensor *blocks = weight_find_wrapped(w, name);
    snprintf(name, sizeof name, "%s_scales", module);
    const struct tensor *scales = weight_find_wrapped(w, name);
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
    found->factor = weight_find_wrapped(w, name);
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
        if (!(tensors[i] = weight_find_wrapped(w, name))) return false;
    }
    *found = (struct module){.codes = tensors[0], .scales = tensors[1], .biases = tensors[2], .is_awq = true};
    return true;
}

/* Looks for module.weight with its scales, in any of the conventions; a stacked tensor may also lack ".weight". */
bool weight_find_module(struct weights *w, const char *module, struct module *found) {
    char name[MAX_NAME + 32];
    static const char *const scale_names[] = {".scales", ".weight_scale_inv", ".weight_scale"};
    snprintf(name, sizeof name, "%s.weight", module);
    *found = (struct module){0};
    found->codes = weight_find_wrapped(w, name);
    if (!found->codes && w->is_awq && find_awq(w, module, found)) return true;
    if (!found->codes) {
        found->codes = weight_find_wrapped(w, module);
        found->scales = found->biases = NULL;
        if (!found->codes) return find_blocks(w, module, found);
        snprintf(name, sizeof name, "%s_scale_inv", module);
        found->scales = found->codes->dtype == DTYPE_F8_E4M3 ? weight_find_wrapped(w, name) : NULL;
        return true;
    }
    found->scales = NULL;
    for (size_t i = 0; i < 3 && !found->scales && found->codes->dtype > DTYPE_BF16; i++) {
        snprintf(name, sizeof name, "%s%s", module, scale_names[i]);
        found->scales = weight_find_wrapped(w, name);
    }
    if (view_triplet(w, module, found)) return true;
    snprintf(name, sizeof name, "%s.biases", module);
    found->biases = found->scales ? weight_find_wrapped(w, name) : NULL;
    return true;
}

/* E4M3 files with one scale for the whole tensor, or one for each row: the same scales as a grid [rows or blocks of rows,
 * blocks of 128 columns]. Other scales stay as they are. */
bool weight_spread_scales(struct weights *w, struct module *found, struct mx_error *err) {
    enum { BLOCK = 128 };
    const struct tensor *codes = found->codes, *scales = found->scales;
    if (codes->dtype != DTYPE_F8_E4M3 || codes->n_dims != 2 || !scales || scales->dtype > DTYPE_BF16) return true;
    uint64_t n = 1, rows = codes->shape[0], n_groups = (codes->shape[1] + BLOCK - 1) / BLOCK;
    for (int i = 0; i < scales->n_dims; i++) n *= scales->shape[i];
    bool is_by_row = n == rows && (scales->n_dims == 1 || scales->shape[scales->n_dims - 1] == 1);
    bool is_grid =
        scales->n_dims == 2 && scales->shape[0] == (rows + BLOCK - 1) / BLOCK && scales->shape[1] == n_groups;
    if (is_grid || (n != 1 && !is_by_row)) return true;
    size_t size = dtype_bytes(scales->dtype);
    uint64_t n_rows = n == 1 ? (rows + BLOCK - 1) / BLOCK : rows; /* times n_groups: less than the codes in the file */
    struct tensor *grid = arena_calloc(&w->arena, 1, sizeof *grid);
    unsigned char *data = arena_calloc(&w->arena, n_rows * n_groups, size);
    if (!grid || !data) return error_memory(err, scales->name);
    for (uint64_t r = 0; r < n_rows; r++)
        for (uint64_t g = 0; g < n_groups; g++)
            memcpy(data + (r * n_groups + g) * size, scales->data + (n == 1 ? 0 : r) * size, size);
    *grid = *scales;
    grid->n_dims = 2;
    grid->shape[0] = n_rows;
    grid->shape[1] = n_groups;
    grid->bytes = n_rows * n_groups * size;
    grid->data = data;
    found->scales = grid;
    return true;
}

/* A copy of a plain tensor whose last two dimensions, [cols, rows], are exchanged; made once. The result is valid until the
 * next copy. */
const struct tensor *weight_transposed(struct weights *w, const struct tensor *tensor, struct mx_error *err) {
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
