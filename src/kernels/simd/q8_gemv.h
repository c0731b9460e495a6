/* SPDX-License-Identifier: Apache-2.0 */
/* Products with few activation rows: lanes are consecutive blocks of one weight row, so that weights stream from memory
 * once, in order. A chunk is Q8_LANES blocks: their dot products become one vector, their scales are another, and
 *   t = scale * dot, then fma(bias, sum, t), group by group; acc = fma(scale_x, t, acc)
 * is done for all lanes at once. A file that includes this has included its tier's q8_codes.h. */
#ifndef MLXCEL_KERNELS_SIMD_Q8_GEMV_H
#define MLXCEL_KERNELS_SIMD_Q8_GEMV_H

#include "kernels/simd/q8_chunk.h"

enum { GEMV_ROWS = 4, GEMV_HALVES = 16 / Q8_LANES };

/* Bytes ahead of the codes and scales in use. Measured on a Zen 3: without prefetch 70 % of the speed, 2 to 8 KiB equal. */
enum { GEMV_PREFETCH = 4096, GEMV_PREFETCH_SCALES = 1024 };

/* What is the same for all activation rows: where things lie in an x row, in bytes. */
struct gemv_layout {
    uint32_t n_blocks, n_cols;
    uint32_t scale_step; /* of the weights' scales from chunk to chunk */
    size_t scale, sum, sum_step;
};

Q8_INLINE struct gemv_layout gemv_layout(const struct weight_rows *w, int groups) {
    size_t blocks = q8_blocks(w->n_cols), padded = q8_padded(w->n_cols);
    size_t first_sum = groups == 1 ? 1 : groups == 2 ? 2 : 4; /* arrays of `padded` before it */
    return (struct gemv_layout){.n_blocks = (uint32_t)blocks,
                                .n_cols = w->n_cols,
                                .scale_step = q8_scale_bytes(w, groups, Q8_LANES),
                                .scale = blocks * 64,
                                .sum = blocks * 64 + first_sum * padded * 4,
                                .sum_step = padded * 4};
}

/* One chunk, or with is_tail its first n blocks, the last ones of the row. x[r] points at the chunk's codes minus
 * 64 * block, so that x[r] + layout->scale + 4 * block is a scale. */
Q8_INLINE void gemv_chunk(enum weight_format format, int groups, int n_rows, bool is_tail, uint32_t n, uint32_t block,
                          const struct weight_rows *w, const struct gemv_layout *layout, struct q8_chunk chunk,
                          const char *const x[], q8_floats acc[]) {
    const int8_t *codes[GEMV_ROWS];
    q8_floats scale[4], bias[4];
    q8_ints dots[GEMV_ROWS][4];
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++) codes[r] = (const int8_t *)x[r] + (size_t)block * 64;
    block_dots(format, groups, n_rows, is_tail ? n : Q8_LANES, chunk.codes, w->shift, codes, dots);
    q8_scales(format, groups, w, chunk.scales, scale);
    if (q8_is_affine(format)) q8_scales(format, groups, w, chunk.biases, bias);
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++) {
        const float *sums = (const float *)(const void *)(x[r] + layout->sum) + block;
        const float *scale_x = (const float *)(const void *)(x[r] + layout->scale) + block;
        q8_floats t = v_zero();
#pragma GCC unroll 4
        for (int g = 0; g < groups; g++) {
            q8_floats sum = v_load((const float *)(const void *)((const char *)sums + (size_t)g * layout->sum_step));
            q8_floats dot = v_convert(dots[r][g]);
            if (dot_offset(format)) dot = v_fma(v_splat((float)-dot_offset(format)), sum, dot);
            q8_floats next = g ? v_fma(scale[g], dot, t) : v_mul(scale[g], dot);
            if (q8_is_affine(format)) next = v_fma(bias[g], sum, next);
            t = is_tail && g ? v_first(q8_blocks_with_group(layout->n_cols, n, groups, g), next, t) : next;
        }
        q8_floats next = v_fma(v_load(scale_x), t, acc[r]);
        acc[r] = is_tail ? v_first(n, next, acc[r]) : next;
    }
}

/* The last chunk of a row, which is no whole one: for one activation row, since it is rarely a large part of the work. */
Q8_INLINE q8_floats gemv_tail(enum weight_format format, int groups, const struct weight_rows *w, uint32_t o,
                              uint32_t block, const struct gemv_layout *layout, struct q8_chunk chunk, const char *x,
                              q8_floats acc) {
    struct q8_chunk_copy copy;
    uint32_t n = layout->n_blocks - block;
    chunk = q8_last_chunk(format, groups, w, o, block, n, chunk, &copy);
    gemv_chunk(format, groups, 1, true, n, block, w, layout, chunk, &x, &acc);
    return acc;
}

typedef q8_floats (*gemv_tail_function)(const struct weight_rows *w, uint32_t o, uint32_t block,
                                        const struct gemv_layout *layout, struct q8_chunk chunk, const char *x,
                                        q8_floats acc);

/* The lanes of weight row o times x[r], folded once, (l, l + 8): to lanes[r]. */
Q8_INLINE void gemv_row(enum weight_format format, int groups, int n_rows, gemv_tail_function tail,
                        const struct weight_rows *w, uint32_t o, const struct gemv_layout *layout,
                        const char *const x[], __m256 lanes[]) {
    const uint32_t code_step = Q8_LANES * q8_block_bytes(format);
    struct q8_chunk chunk = q8_row_start(format, w, o);
    q8_floats acc[GEMV_ROWS], other[GEMV_ROWS]; /* of this chunk's lanes, and with 8 lanes those of the next one's */
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++) acc[r] = other[r] = v_zero();
    uint32_t block = 0;
    for (; block + Q8_LANES <= layout->n_blocks; block += Q8_LANES) {
        for (uint32_t line = 0; line < code_step; line += 64)
            _mm_prefetch((const char *)chunk.codes + GEMV_PREFETCH + line, _MM_HINT_T0);
        if (q8_is_affine(format)) {
            _mm_prefetch((const char *)chunk.scales + GEMV_PREFETCH_SCALES, _MM_HINT_T0);
            _mm_prefetch((const char *)chunk.biases + GEMV_PREFETCH_SCALES, _MM_HINT_T0);
        }
        gemv_chunk(format, groups, n_rows, false, Q8_LANES, block, w, layout, chunk, x, acc);
        chunk.codes += code_step;
        if (format != WEIGHT_TERNARY) chunk.scales += layout->scale_step;
        if (q8_is_affine(format)) chunk.biases += layout->scale_step;
        if (GEMV_HALVES == 1) continue;
#pragma GCC unroll 4
        for (int r = 0; r < n_rows; r++) {
            q8_floats swap = acc[r];
            acc[r] = other[r];
            other[r] = swap;
        }
    }
    if (block < layout->n_blocks)
        for (int r = 0; r < n_rows; r++) acc[r] = tail(w, o, block, layout, chunk, x[r], acc[r]);
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++) lanes[r] = v_fold(acc[r], other[r]);
}

/* Activation rows first .. first + n_rows - 1. */
Q8_INLINE void gemv_rows(enum weight_format format, int groups, int n_rows, gemv_tail_function tail,
                         const struct matmul_job *job, uint32_t first) {
    const struct weight_rows *w = job->weights;
    struct gemv_layout layout = gemv_layout(w, groups);
    const char *x[GEMV_ROWS];
    float *y[GEMV_ROWS];
    for (int r = 0; r < n_rows; r++) {
        x[r] = job_x(job, first + (uint32_t)r);
        y[r] = job_y(job, first + (uint32_t)r);
    }
    /* The lanes of eight weight rows end in the tree together. */
    __m256 folded[GEMV_ROWS][8], lanes[GEMV_ROWS];
    for (uint32_t o = 0; o < w->n_rows; o++) {
        gemv_row(format, groups, n_rows, tail, w, o, &layout, x, lanes);
#pragma GCC unroll 4
        for (int r = 0; r < n_rows; r++) {
            folded[r][o % 8] = lanes[r];
            if (o % 8 == 7) _mm256_storeu_ps(y[r] + o - 7, fold_eight(folded[r]));
        }
    }
    for (int r = 0; r < n_rows; r++)
        for (uint32_t o = w->n_rows / 8 * 8; o < w->n_rows; o++) y[r][o] = fold_one(folded[r][o % 8]);
}

/* Functions for 1, 2 and 4 activation rows of each kind. */
typedef void (*gemv_function)(const struct matmul_job *job, uint32_t first);

/* Weights of one strip stay in the second-level cache while group after group of activation rows passes. */
enum { GEMV_STRIP_BYTES = 160 << 10 };

static void gemv(const gemv_function of_kind[GEMV_ROWS + 1], const struct matmul_job *job) {
    const struct weight_rows *w = job->weights;
    uint32_t strip = w->n_rows;
    if (job->n_rows > GEMV_ROWS) strip = (uint32_t)(GEMV_STRIP_BYTES / (w->row_bytes + 1) + 8) / 8 * 8;
    for (uint32_t o = 0; o < w->n_rows; o += strip) {
        struct weight_rows rows = *w;
        struct matmul_job part = *job;
        rows.n_rows = w->n_rows - o < strip ? w->n_rows - o : strip;
        rows.codes += o * w->row_bytes;
        if (rows.scales) rows.scales += o * w->scale_row_bytes;
        if (rows.biases) rows.biases += o * w->scale_row_bytes;
        part.weights = &rows;
        part.y += o;
        uint32_t step;
        for (uint32_t first = 0; first < job->n_rows; first += step) {
            uint32_t left = job->n_rows - first;
            step = left >= 4 ? 4 : left >= 2 ? 2 : 1;
            of_kind[step](&part, first);
        }
    }
}

#define GEMV_DEFINE(name, format, groups)                                                                              \
    __attribute__((noinline)) static q8_floats gemv_##name##_tail(                                                     \
        const struct weight_rows *w, uint32_t o, uint32_t block, const struct gemv_layout *layout,                     \
        struct q8_chunk chunk, const char *x, q8_floats acc) {                                                         \
        return gemv_tail(format, groups, w, o, block, layout, chunk, x, acc);                                          \
    }                                                                                                                  \
    GEMV_DEFINE_ROWS(name, format, groups, 1)                                                                          \
    GEMV_DEFINE_ROWS(name, format, groups, 2)                                                                          \
    GEMV_DEFINE_ROWS(name, format, groups, 4)
#define GEMV_DEFINE_ROWS(name, format, groups, rows)                                                                   \
    static void gemv_##name##_##rows(const struct matmul_job *job, uint32_t first) {                                   \
        gemv_rows(format, groups, rows, gemv_##name##_tail, job, first);                                               \
    }
#define GEMV_ENTRY(name, format, groups)                                                                               \
    [format][(groups) / 2] = {[1] = gemv_##name##_1, [2] = gemv_##name##_2, [4] = gemv_##name##_4},

#endif
