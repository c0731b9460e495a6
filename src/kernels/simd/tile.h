/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loops of matrix products: the 16-lane sums of a tile of outputs, kept in registers over a range of columns.
 *
 * A tile is up to TILE_WEIGHTS weight rows by TILE_ROWS activation rows. Its sums come from memory (or start at zero)
 * and return there, so that long rows are taken in blocks of columns that stay in the first-level cache, and so that the
 * end of a row, shorter than a step, may go another way. reduce_sums ends the 16-lane rule.
 *
 *   operand   weights in memory                activations              columns a step
 *   F32       f32                              f32                      16
 *   F16       f16                              f32                      32
 *   PAIRS     bf16                             f32 planes of bf16       32
 *
 * Planes are the columns of each 32 as the bf16 rule takes them: the 16 odd ones, then the 16 even ones. With both
 * operands in planes, the bf16 rule is the F32 tile under flushing. */
#ifndef MLXCEL_KERNELS_SIMD_TILE_H
#define MLXCEL_KERNELS_SIMD_TILE_H

#include "kernels/kernels.h"

enum operand { OPERAND_F32, OPERAND_F16, OPERAND_PAIRS };

struct tile {
    const unsigned char *weights; /* first row, at the first column of the range */
    size_t weight_stride;         /* bytes between rows */
    const float *const *x;        /* rows */
    size_t x_offset;              /* of the first column, in floats */
    uint32_t n_steps;
    bool is_first; /* sums start at zero */
    float *sums;   /* sum (weight row i, row j) at (j * sums_stride + i) * 16 */
    size_t sums_stride;
    const unsigned char *prefetch; /* bytes that will be read next: one line a step from each of n_prefetch rows */
    uint32_t n_prefetch;
};

/* One step of 16 columns of f32 at w, or of 32 columns of f16 (the 16 from 16 * part on). */
SIMD_INLINE vec tile_weights(enum operand operand, const unsigned char *w, int part, int v) {
    if (operand == OPERAND_F16) return vec_load_f16(w + part * 32 + v * VEC_FLOATS * 2);
    return vec_load((const float *)(const void *)w + v * VEC_FLOATS);
}

SIMD_INLINE void tile_step(enum operand operand, uint32_t nw, uint32_t nx, lanes sums[TILE_WEIGHTS][TILE_ROWS],
                           const unsigned char *w, size_t stride, const float *const *x, size_t at) {
    const int parts = operand == OPERAND_F16 ? 2 : 1;
    SIMD_UNROLL for (int part = 0; part < parts; part++) {
        SIMD_UNROLL for (int v = 0; v < LANE_VECS; v++) {
            vec a[TILE_WEIGHTS];
            SIMD_UNROLL for (uint32_t i = 0; i < nw; i++) a[i] = tile_weights(operand, w + i * stride, part, v);
            SIMD_UNROLL for (uint32_t j = 0; j < nx; j++) {
                vec b = vec_load(x[j] + at + part * 16 + v * VEC_FLOATS);
                SIMD_UNROLL for (uint32_t i = 0; i < nw; i++) sums[i][j].v[v] = vec_fma(a[i], b, sums[i][j].v[v]);
            }
        }
    }
}

/* 32 columns of bf16 weights: a 32-bit element holds an even column below, the odd one above. */
SIMD_INLINE void tile_step_pairs(uint32_t nw, uint32_t nx, lanes sums[TILE_WEIGHTS][TILE_ROWS], const unsigned char *w,
                                 size_t stride, const float *const *x, size_t at) {
    SIMD_UNROLL for (int v = 0; v < LANE_VECS; v++) {
        vec odd[TILE_ROWS], even[TILE_ROWS];
        SIMD_UNROLL for (uint32_t j = 0; j < nx; j++) {
            odd[j] = vec_load(x[j] + at + v * VEC_FLOATS);
            even[j] = vec_load(x[j] + at + 16 + v * VEC_FLOATS);
        }
        SIMD_UNROLL for (uint32_t i = 0; i < nw; i++) {
            ivec pairs = ivec_load(w + i * stride + v * VEC_FLOATS * 4);
            vec upper = vec_from_bits(ivec_and(pairs, ivec_set1((int32_t)0xffff0000u)));
            vec lower = vec_from_bits(ivec_shl(pairs, 16));
            SIMD_UNROLL for (uint32_t j = 0; j < nx; j++) sums[i][j].v[v] = vec_fma(upper, odd[j], sums[i][j].v[v]);
            SIMD_UNROLL for (uint32_t j = 0; j < nx; j++) sums[i][j].v[v] = vec_fma(lower, even[j], sums[i][j].v[v]);
        }
    }
}

SIMD_INLINE void tile_run(enum operand operand, uint32_t nw, uint32_t nx, const struct tile *t) {
    lanes sums[TILE_WEIGHTS][TILE_ROWS];
    const float *x[TILE_ROWS];
    SIMD_UNROLL for (uint32_t j = 0; j < nx; j++) x[j] = t->x[j] + t->x_offset;
    SIMD_UNROLL for (uint32_t i = 0; i < nw; i++)
        SIMD_UNROLL for (uint32_t j = 0; j < nx; j++)
            sums[i][j] = t->is_first ? lanes_zero() : lanes_load(t->sums + (j * t->sums_stride + i) * 16);
    const unsigned char *w = t->weights, *prefetch = t->prefetch;
    size_t stride = t->weight_stride, columns = operand == OPERAND_F32 ? 16 : 32, end = t->n_steps * columns;
    uint32_t n_prefetch = t->n_prefetch;
    for (size_t at = 0; at < end; at += columns, w += 64, prefetch += 64) {
        for (uint32_t i = 0; i < n_prefetch; i++) __builtin_prefetch(prefetch + i * stride);
        if (operand == OPERAND_PAIRS) tile_step_pairs(nw, nx, sums, w, stride, x, at);
        else tile_step(operand, nw, nx, sums, w, stride, x, at);
    }
    SIMD_UNROLL for (uint32_t i = 0; i < nw; i++)
        SIMD_UNROLL for (uint32_t j = 0; j < nx; j++) lanes_store(t->sums + (j * t->sums_stride + i) * 16, sums[i][j]);
}

typedef void (*tile_function)(const struct tile *t);

/* One function for each size of tile, and a table of them: NAME[weight rows - 1][rows - 1]. */
#define TILE_PASTE(a, b)        TILE_PASTE_NOW(a, b)
#define TILE_PASTE_NOW(a, b)    a##b
#define TILE_LINE_1(DO, N, W)   DO(N, W, 1)
#define TILE_LINE_2(DO, N, W)   TILE_LINE_1(DO, N, W) DO(N, W, 2)
#define TILE_LINE_3(DO, N, W)   TILE_LINE_2(DO, N, W) DO(N, W, 3)
#define TILE_LINE_4(DO, N, W)   TILE_LINE_3(DO, N, W) DO(N, W, 4)
#define TILE_LINE_5(DO, N, W)   TILE_LINE_4(DO, N, W) DO(N, W, 5)
#define TILE_LINE_6(DO, N, W)   TILE_LINE_5(DO, N, W) DO(N, W, 6)
#define TILE_ALL_1(LINE, DO, N) LINE(DO, N, 1)
#define TILE_ALL_2(LINE, DO, N) TILE_ALL_1(LINE, DO, N) LINE(DO, N, 2)
#define TILE_ALL_3(LINE, DO, N) TILE_ALL_2(LINE, DO, N) LINE(DO, N, 3)
#define TILE_ALL_4(LINE, DO, N) TILE_ALL_3(LINE, DO, N) LINE(DO, N, 4)

#define TILE_FUNCTION(NAME, W, X)                                                                                      \
    SIMD_NOINLINE void tile_##NAME##_##W##x##X(const struct tile *t) { tile_run(OPERAND_##NAME, W, X, t); }
#define TILE_ENTRY(NAME, W, X) [W - 1][X - 1] = tile_##NAME##_##W##x##X,
#define TILE_TABLE(NAME, WEIGHTS, ROWS)                                                                                \
    TILE_PASTE(TILE_ALL_, WEIGHTS)(TILE_PASTE(TILE_LINE_, ROWS), TILE_FUNCTION, NAME)                                  \
    static const tile_function tiles_##NAME[TILE_WEIGHTS][TILE_ROWS] = {                                               \
        TILE_PASTE(TILE_ALL_, WEIGHTS)(TILE_PASTE(TILE_LINE_, ROWS), TILE_ENTRY, NAME)}

/* The size of the next part when n is shared out over as few parts of at most `most` as can be, evenly. */
SIMD_INLINE uint32_t even_part(uint32_t n, uint32_t most) {
    uint32_t parts = (n + most - 1) / most;
    return (n + parts - 1) / parts;
}

/* y[i] = the tree sum of the 16 lanes at sums + 16 i. */
static void reduce_sums(const float *sums, uint32_t n, float *y) {
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) lanes_store(y + i, lanes_sum_16(sums + 16 * i));
    for (; i < n; i++) y[i] = lanes_sum(lanes_load(sums + 16 * i));
}

#endif
