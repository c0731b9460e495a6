/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products, one output at a time: the definition of the rounding order for each class of weight formats. */
#include "kernels/ref/ref.h"

#include "kernels/ref/math.h"

static const void *x_row(const struct matmul_job *job, uint32_t r) {
    return (const char *)job->x + (size_t)(job->x_ids ? job->x_ids[r] : r) * job->x_row_bytes;
}

static float *y_row(const struct matmul_job *job, uint32_t r) {
    return job->y + (size_t)(job->y_ids ? job->y_ids[r] : r) * job->y_stride;
}

/* Weights widened to f32, the 16-lane rule. */
void REF_NAME(matmul_exact)(const struct matmul_job *job) {
    float *row = job->scratch;
    for (uint32_t o = 0; o < job->weights->n_rows; o++) {
        REF_NAME(dequantize_row)(job->weights, o, row);
        for (uint32_t r = 0; r < job->n_rows; r++) y_row(job, r)[o] = dot16(row, x_row(job, r), job->weights->n_cols);
    }
}

void REF_NAME(matmul_float)(const struct matmul_job *job) { REF_NAME(matmul_exact)(job); }

/* ---- the bf16 rule: what the instruction vdpbf16ps does ---- */

static float flush(float x) { return math_abs(x) < 0x1p-126f ? math_copysign(0.0f, x) : x; }

/* fma with denormal inputs and results flushed to zero. The processor decides before the rounding of the denormal range
 * whether a result is tiny: a result of exactly 2^-126 may have been rounded up to it, which the same sum, scaled out of
 * the denormal range, shows. */
static float flushing_fma(float a, float b, float c) {
    a = flush(a);
    b = flush(b);
    c = flush(c);
    float y = fused(a, b, c);
    if (math_abs(y) == 0x1p-126f) {
        bool a_is_smaller = math_abs(a) < math_abs(b);
        float scaled = fused(a_is_smaller ? a * 0x1p64f : a, a_is_smaller ? b : b * 0x1p64f, c * 0x1p64f);
        if (math_abs(scaled) < 0x1p-62f) return math_copysign(0.0f, y);
    }
    return flush(y);
}

/* Lane i of 16 takes the pairs of each 32 columns, first column 2i + 1, then column 2i. */
static void bf16_steps(float lanes[16], const uint16_t *a, const uint16_t *b, uint32_t n) {
    for (uint32_t k = 0; k < n; k += 32)
        for (uint32_t i = 0; i < 16; i++) {
            uint32_t odd = k + 2 * i + 1, even = k + 2 * i;
            lanes[i] = flushing_fma(odd < n ? bf16_to_f32(a[odd]) : 0.0f, bf16_to_f32(b[odd]), lanes[i]);
            lanes[i] = flushing_fma(even < n ? bf16_to_f32(a[even]) : 0.0f, bf16_to_f32(b[even]), lanes[i]);
        }
}

void REF_NAME(matmul_bf16)(const struct matmul_job *job) {
    const struct weight_rows *w = job->weights;
    uint16_t *row = job->scratch;
    for (uint32_t o = 0; o < w->n_rows; o++) {
        memcpy(row, w->codes + (size_t)o * w->row_bytes, (size_t)w->n_cols * 2);
        for (uint32_t r = 0; r < job->n_rows; r++) {
            float lanes[16] = {0};
            bf16_steps(lanes, row, x_row(job, r), w->n_cols);
            y_row(job, r)[o] = lanes_sum(lanes);
        }
    }
}

/* The bf16 rule within a scale block; acc[block mod 16] = fma(scale, block, acc). */
void REF_NAME(matmul_e4m3)(const struct matmul_job *job) {
    const struct weight_rows *w = job->weights;
    uint16_t *row = job->scratch;
    for (uint32_t o = 0; o < w->n_rows; o++) {
        const unsigned char *scales = w->scales + (size_t)o * w->scale_row_bytes;
        for (uint32_t k = 0; k < w->n_cols; k++)
            row[k] = f32_to_bf16(e4m3_to_f32(w->codes[(size_t)o * w->row_bytes + k]));
        for (uint32_t r = 0; r < job->n_rows; r++) {
            const uint16_t *x = x_row(job, r);
            float acc[16] = {0};
            for (uint32_t first = 0, block = 0; first < w->n_cols; first += w->group, block++) {
                uint32_t left = w->n_cols - first;
                float lanes[16] = {0};
                bf16_steps(lanes, row + first, x + first, left < w->group ? left : w->group);
                acc[block & 15] = fused(REF_NAME(weight_scale)(w, scales, block), lanes_sum(lanes), acc[block & 15]);
            }
            y_row(job, r)[o] = lanes_sum(acc);
        }
    }
}

/* ---- the rule for quantised activations ---- */

/* The integer that a code stands for; its scale is weight_factor times the stored one. */
static int integer_code(enum weight_format format, unsigned code) {
    if (format == WEIGHT_MXFP4 || format == WEIGHT_NVFP4) return e2m1_doubled(code);
    return format == WEIGHT_TERNARY ? (int)code - 1 : (int)code;
}

static float group_scale(const struct weight_rows *w, const unsigned char *scales, uint32_t group) {
    if (w->format == WEIGHT_TERNARY) return w->tensor_scale;
    float scale = REF_NAME(weight_scale)(w, scales, group);
    return w->format == WEIGHT_MXFP4 || w->format == WEIGHT_NVFP4 ? 0.5f * scale : scale;
}

/* Column k of a block, in the order of the row's form. */
static int q8_code(const struct q8 *x, enum activation_form order, uint32_t block, uint32_t k) {
    uint32_t place = order == ACTIVATION_NIBBLES  ? (k & 1) * 32 + k / 2
                     : order == ACTIVATION_CRUMBS ? (k & 3) * 16 + k / 4
                                                  : k;
    return x->codes[block * 64 + place];
}

/* codes: the row as integers, 64 for each block. */
static float q8_product(const struct weight_rows *w, const int16_t *codes, const unsigned char *scales,
                        const unsigned char *biases, const struct q8 *x, enum activation_form order) {
    float acc[16] = {0};
    uint32_t step = w->group && w->group < 64 ? w->group : 64;
    for (uint32_t block = 0; block < x->n_blocks; block++) {
        float t = 0.0f;
        for (uint32_t s = 0; s < 64 / step && block * 64 + s * step < w->n_cols; s++) {
            uint32_t group = w->group ? (block * 64 + s * step) / w->group : 0;
            int dot = 0, sum = 0;
            for (uint32_t k = s * step; k < (s + 1) * step; k++) {
                int code = q8_code(x, order, block, k);
                dot += codes[block * 64 + k] * code;
                sum += code;
            }
            float scale = group_scale(w, scales, group);
            t = s ? fused(scale, (float)dot, t) : scale * (float)dot;
            if (biases) t = fused(REF_NAME(weight_scale)(w, biases, group), (float)sum, t);
        }
        acc[block & 15] = fused(x->scale[block], t, acc[block & 15]);
    }
    return lanes_sum(acc);
}

void REF_NAME(matmul_q8)(const struct matmul_job *job) {
    const struct weight_rows *w = job->weights;
    enum activation_form order = matmul_activation_form(w->format);
    for (uint32_t o = 0; o < w->n_rows; o++) {
        const unsigned char *row = w->codes + (size_t)o * w->row_bytes;
        const unsigned char *scales = w->scales ? w->scales + (size_t)o * w->scale_row_bytes : NULL;
        const unsigned char *biases = w->biases ? w->biases + (size_t)o * w->scale_row_bytes : NULL;
        int16_t *codes = job->scratch;
        memset(codes, 0, (size_t)q8_blocks(w->n_cols) * 64 * sizeof *codes);
        for (uint32_t k = 0; k < w->n_cols; k++)
            codes[k] = (int16_t)integer_code(w->format, REF_NAME(weight_code)(w, row, k));
        for (uint32_t r = 0; r < job->n_rows; r++) {
            struct q8 x = q8_view(x_row(job, r), w->n_cols);
            y_row(job, r)[o] = q8_product(w, codes, scales, biases, &x, order);
        }
    }
}
