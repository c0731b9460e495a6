/* SPDX-License-Identifier: Apache-2.0 */
#include "format/matrix.h"

#include "base/half.h"

#include <stdio.h>
#include <string.h>

const struct weight_format_info weight_formats[N_WEIGHT_FORMATS] = {
    /*                  name        bits group  codes       biases */
    [WEIGHT_F32] = {"f32", 32, 0, DTYPE_F32, false},        [WEIGHT_F16] = {"f16", 16, 0, DTYPE_F16, false},
    [WEIGHT_BF16] = {"bf16", 16, 0, DTYPE_BF16, false},     [WEIGHT_AFFINE2] = {"affine-2", 2, 0, DTYPE_U32, true},
    [WEIGHT_AFFINE3] = {"affine-3", 3, 0, DTYPE_U32, true}, [WEIGHT_AFFINE4] = {"affine-4", 4, 0, DTYPE_U32, true},
    [WEIGHT_AFFINE5] = {"affine-5", 5, 0, DTYPE_U32, true}, [WEIGHT_AFFINE6] = {"affine-6", 6, 0, DTYPE_U32, true},
    [WEIGHT_AFFINE8] = {"affine-8", 8, 0, DTYPE_U32, true}, [WEIGHT_MXFP4] = {"mxfp4", 4, 32, DTYPE_U32, false},
    [WEIGHT_MXFP8] = {"mxfp8", 8, 32, DTYPE_U32, false},    [WEIGHT_NVFP4] = {"nvfp4", 4, 16, DTYPE_U32, false},
    [WEIGHT_E4M3] = {"e4m3", 8, 128, DTYPE_F8_E4M3, false}, [WEIGHT_TERNARY] = {"ternary", 2, 0, DTYPE_U8, false},
};

enum { E4M3_BLOCK = 128 };

void matrix_run(const struct matrix *m, uint32_t row, uint32_t n, struct weight_rows *run) {
    uint32_t in_run = row % m->run_rows, left = m->run_rows - in_run;
    uint64_t file_row = (uint64_t)m->first_row + (uint64_t)(row / m->run_rows) * m->run_step + in_run;
    if (m->run_rows == 1 && m->n_rows > 1) left = m->n_rows - row; /* a constant stride: one long run */
    size_t stride = m->run_rows == 1 ? m->run_step : 1;
    *run = (struct weight_rows){.format = m->format,
                                .scale_dtype = m->scale_dtype,
                                .n_cols = m->n_cols,
                                .group = m->group,
                                .tensor_scale = m->tensor_scale};
    if (m->format == WEIGHT_TERNARY) {
        uint32_t packed_rows = m->tensor_rows / 4, byte_row = (uint32_t)(file_row % packed_rows);
        run->shift = 2 * (uint32_t)(file_row / packed_rows);
        if (left > packed_rows - byte_row) left = packed_rows - byte_row;
        file_row = byte_row;
    }
    uint64_t scale_row = file_row / m->scale_rows;
    if (m->scale_rows > 1 && left > m->scale_rows - file_row % m->scale_rows)
        left = m->scale_rows - (uint32_t)(file_row % m->scale_rows);
    run->n_rows = left < n ? left : n;
    run->codes = m->codes + file_row * m->row_bytes;
    run->row_bytes = m->row_bytes * stride;
    if (m->scales) run->scales = m->scales + scale_row * m->scale_row_bytes;
    if (m->biases) run->biases = m->biases + scale_row * m->scale_row_bytes;
    run->scale_row_bytes = m->scale_rows > 1 ? 0 : m->scale_row_bytes * stride;
}

void matrix_select_rows(struct matrix *m, uint32_t first_row, uint32_t n_rows, uint32_t run_rows, uint32_t run_step) {
    m->first_row += first_row;
    m->n_rows = n_rows;
    m->run_rows = run_rows;
    m->run_step = run_step;
}

uint64_t matrix_code_bytes(const struct matrix *m) {
    return (uint64_t)m->n_rows * (((uint64_t)m->n_cols * (uint64_t)weight_formats[m->format].bits + 7) / 8);
}

uint64_t matrix_scale_bytes(const struct matrix *m) {
    if (!m->group) return 0;
    uint64_t columns = (m->n_cols + m->group - 1) / m->group, rows = (m->n_rows + m->scale_rows - 1) / m->scale_rows;
    return rows * columns * dtype_bytes(m->scale_dtype) * (weight_formats[m->format].has_biases ? 2 : 1);
}

/* ---- from tensors ---- */

struct request {
    const struct tensor *codes, *scales, *biases;
    uint32_t n_rows, n_cols;
    int64_t expert;
    const struct quantization *hint;
    struct mx_error *err;
};

static bool wrong_shape(const struct request *r, const struct tensor *tensor, uint64_t rows, uint64_t cols,
                        const char *note) {
    char shape[160];
    return error_set(r->err, ERROR_FORMAT, "%s: tensor '%s' has shape %s, expected [%s%llu, %llu]%s",
                     tensor->file->name, tensor->name, tensor_shape_text(tensor, shape, sizeof shape),
                     r->expert >= 0 ? "experts, " : "", (unsigned long long)rows, (unsigned long long)cols, note);
}

/* The last two dimensions, and the part of the data that belongs to the expert. */
static bool take_slice(const struct request *r, const struct tensor *tensor, uint64_t *rows, uint64_t *cols,
                       const unsigned char **data) {
    int lead = r->expert >= 0 ? 1 : 0;
    if (tensor->n_dims != lead + 2 || (lead && (uint64_t)r->expert >= tensor->shape[0])) return false;
    *rows = tensor->shape[lead];
    *cols = tensor->shape[lead + 1];
    *data = tensor->data;
    if (lead && tensor->shape[0]) *data += (size_t)r->expert * (tensor->bytes / tensor->shape[0]);
    return true;
}

static bool wrong_dtype(const struct request *r, const struct tensor *tensor, const char *expected) {
    return error_set(r->err, ERROR_FORMAT, "%s: tensor '%s' is %s, expected %s", tensor->file->name, tensor->name,
                     dtype_name(tensor->dtype), expected);
}

static bool from_plain(struct matrix *m, const struct request *r) {
    static const enum weight_format formats[] = {
        [DTYPE_F32] = WEIGHT_F32, [DTYPE_F16] = WEIGHT_F16, [DTYPE_BF16] = WEIGHT_BF16};
    if (r->codes->dtype > DTYPE_BF16) return wrong_dtype(r, r->codes, "F32, F16 or BF16 (it has no scales beside it)");
    uint64_t rows, cols;
    if (!take_slice(r, r->codes, &rows, &cols, &m->codes) || rows != r->n_rows || cols != r->n_cols)
        return wrong_shape(r, r->codes, r->n_rows, r->n_cols, "");
    m->format = formats[r->codes->dtype];
    m->row_bytes = (size_t)cols * dtype_bytes(r->codes->dtype);
    return true;
}

/* "(4-bit, group 64)": what the config promises, for the message. */
static const char *hint_text(const struct request *r, char *text, size_t room) {
    const struct quantization *q = r->hint;
    text[0] = '\0';
    if (q && q->group) snprintf(text, room, " (%d-bit, group %u)", weight_formats[q->format].bits, q->group);
    return text;
}

static bool affine_from_bits(uint64_t bits, enum weight_format *format) {
    for (int f = WEIGHT_AFFINE2; f <= WEIGHT_AFFINE8; f++)
        if ((uint64_t)weight_formats[f].bits == bits) {
            *format = (enum weight_format)f;
            return true;
        }
    return false;
}

/* The packed codes' shape gives the bits, the scales' shape gives the group. */
static bool choose_packed(struct matrix *m, const struct request *r, uint64_t words, uint64_t groups) {
    char note[80];
    uint64_t bits = r->n_cols && words * 32 % r->n_cols == 0 ? words * 32 / r->n_cols : 0;
    uint64_t group = groups && r->n_cols % groups == 0 ? r->n_cols / groups : 0;
    bool fits;
    if (r->biases) {
        fits = affine_from_bits(bits, &m->format) && (group == 32 || group == 64 || group == 128);
    } else {
        m->format = bits == 8 ? WEIGHT_MXFP8 : group == 16 ? WEIGHT_NVFP4 : WEIGHT_MXFP4;
        fits = (bits == 4 || bits == 8) && group == (uint64_t)weight_formats[m->format].group;
    }
    m->group = (uint32_t)group;
    if (fits) return true;
    uint64_t expected_bits = r->hint && r->hint->group ? (uint64_t)weight_formats[r->hint->format].bits : 4;
    uint64_t expected_words = r->n_cols * expected_bits / 32;
    if (words != expected_words || !r->hint || !r->hint->group)
        return wrong_shape(r, r->codes, r->n_rows, expected_words, hint_text(r, note, sizeof note));
    return wrong_shape(r, r->scales, r->n_rows, r->n_cols / r->hint->group, hint_text(r, note, sizeof note));
}

static bool check_scale_dtype(const struct request *r) {
    enum dtype dtype = r->scales->dtype;
    if (!r->biases) return dtype == DTYPE_U8 || wrong_dtype(r, r->scales, "U8 (block scales without biases)");
    if (dtype > DTYPE_BF16) return wrong_dtype(r, r->scales, "F32, F16 or BF16");
    return r->biases->dtype == dtype || wrong_dtype(r, r->biases, dtype_name(dtype));
}

static bool from_packed(struct matrix *m, const struct request *r) {
    char note[80];
    uint64_t rows, words, scale_rows, groups, bias_rows, bias_groups;
    if (!take_slice(r, r->codes, &rows, &words, &m->codes) || rows != r->n_rows)
        return wrong_shape(r, r->codes, r->n_rows, r->n_cols / 8, hint_text(r, note, sizeof note));
    if (!take_slice(r, r->scales, &scale_rows, &groups, &m->scales) || scale_rows != r->n_rows)
        return wrong_shape(r, r->scales, r->n_rows, groups = r->n_cols / 64, hint_text(r, note, sizeof note));
    if (!check_scale_dtype(r) || !choose_packed(m, r, words, groups)) return false;
    if (r->biases && (!take_slice(r, r->biases, &bias_rows, &bias_groups, &m->biases) || bias_rows != r->n_rows ||
                      bias_groups != groups))
        return wrong_shape(r, r->biases, r->n_rows, groups, hint_text(r, note, sizeof note));
    m->scale_dtype = m->format == WEIGHT_NVFP4 ? DTYPE_F8_E4M3 : r->scales->dtype;
    m->row_bytes = (size_t)words * 4;
    m->scale_row_bytes = (size_t)groups * dtype_bytes(r->scales->dtype);
    return true;
}

static bool from_e4m3(struct matrix *m, const struct request *r) {
    uint64_t rows, cols, scale_rows, groups;
    if (!take_slice(r, r->codes, &rows, &cols, &m->codes) || rows != r->n_rows || cols != r->n_cols)
        return wrong_shape(r, r->codes, r->n_rows, r->n_cols, "");
    uint64_t want_rows = (rows + E4M3_BLOCK - 1) / E4M3_BLOCK, want_groups = (cols + E4M3_BLOCK - 1) / E4M3_BLOCK;
    if (r->scales->dtype > DTYPE_BF16) return wrong_dtype(r, r->scales, "F32, F16 or BF16");
    bool fits = take_slice(r, r->scales, &scale_rows, &groups, &m->scales) && groups == want_groups;
    if (!fits || (scale_rows != want_rows && scale_rows != rows))
        return wrong_shape(r, r->scales, want_rows, want_groups, " (one scale for a block of 128 x 128)");
    m->format = WEIGHT_E4M3;
    m->group = E4M3_BLOCK;
    m->scale_rows = scale_rows == want_rows ? E4M3_BLOCK : 1; /* else a scale for each row */
    m->scale_dtype = r->scales->dtype;
    m->row_bytes = (size_t)cols;
    m->scale_row_bytes = (size_t)groups * dtype_bytes(r->scales->dtype);
    return true;
}

static bool from_ternary(struct matrix *m, const struct request *r) {
    uint64_t rows, cols;
    if (!take_slice(r, r->codes, &rows, &cols, &m->codes) || rows * 4 != r->n_rows || cols != r->n_cols)
        return wrong_shape(r, r->codes, r->n_rows / 4, r->n_cols, " (four ternary rows to a byte)");
    m->format = WEIGHT_TERNARY;
    m->row_bytes = (size_t)cols;
    m->tensor_rows = r->n_rows;
    return vector_widen(r->scales, 1, &m->tensor_scale, r->err);
}

bool matrix_from_tensors(struct matrix *m, const struct tensor *codes, const struct tensor *scales,
                         const struct tensor *biases, uint32_t n_rows, uint32_t n_cols, int64_t expert,
                         const struct quantization *hint, struct mx_error *err) {
    struct request r = {codes, scales, biases, n_rows, n_cols, expert, hint, err};
    *m = (struct matrix){
        .n_rows = n_rows, .n_cols = n_cols, .scale_rows = 1, .run_rows = n_rows, .run_step = n_rows, .tensor_scale = 1};
    if (!scales) return from_plain(m, &r);
    switch (codes->dtype) {
    case DTYPE_F8_E4M3: return from_e4m3(m, &r);
    case DTYPE_U32: return from_packed(m, &r);
    case DTYPE_U8: return from_ternary(m, &r);
    default: return wrong_dtype(&r, codes, "U32 or F8_E4M3 (it has scales beside it)");
    }
}

void matrix_shape_only(struct matrix *m, enum weight_format format, uint32_t group, enum dtype scale_dtype,
                       uint32_t n_rows, uint32_t n_cols) {
    *m = (struct matrix){.format = format,
                         .scale_dtype = scale_dtype,
                         .n_rows = n_rows,
                         .n_cols = n_cols,
                         .group = group,
                         .scale_rows = format == WEIGHT_E4M3 ? E4M3_BLOCK : 1,
                         .run_rows = n_rows,
                         .run_step = n_rows,
                         .tensor_scale = 1,
                         .tensor_rows = n_rows};
    m->row_bytes = ((size_t)n_cols * (size_t)weight_formats[format].bits + 7) / 8;
    if (group) m->scale_row_bytes = (n_cols + group - 1) / group * dtype_bytes(scale_dtype);
}

bool vector_widen(const struct tensor *tensor, uint64_t n, float *out, struct mx_error *err) {
    uint64_t elements = 1;
    for (int i = 0; i < tensor->n_dims; i++) elements *= tensor->shape[i]; /* bounded: the data fits into the file */
    char shape[160];
    if (elements != n)
        return error_set(err, ERROR_FORMAT, "%s: tensor '%s' has shape %s, expected %llu elements", tensor->file->name,
                         tensor->name, tensor_shape_text(tensor, shape, sizeof shape), (unsigned long long)n);
    for (uint64_t i = 0; i < n; i++) {
        uint16_t half;
        switch (tensor->dtype) {
        case DTYPE_F32: memcpy(&out[i], tensor->data + 4 * i, 4); break;
        case DTYPE_F16:
        case DTYPE_BF16:
            memcpy(&half, tensor->data + 2 * i, 2);
            out[i] = tensor->dtype == DTYPE_F16 ? f16_to_f32(half) : bf16_to_f32(half);
            break;
        case DTYPE_I64: {
            int64_t integer;
            memcpy(&integer, tensor->data + 8 * i, 8);
            out[i] = (float)integer;
            break;
        }
        default:
            return error_set(err, ERROR_FORMAT, "%s: tensor '%s' is %s, expected F32, F16 or BF16", tensor->file->name,
                             tensor->name, dtype_name(tensor->dtype));
        }
    }
    return true;
}
