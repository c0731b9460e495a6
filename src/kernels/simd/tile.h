/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loops of matrix products: the 16-lane sums of a tile of outputs, kept in registers over a range of columns.
 *
 * A tile is up to TILE_WEIGHTS weight rows by TILE_ROWS activation rows. Its sums come from memory (or start at zero)
 * and return there, so that long rows are taken in blocks of columns that stay in the first-level cache, and so that the
 * end of a row, shorter than a step, may go another way.
 *
 *   operand   weights                              activations           columns a step
 *   PANEL     f32 in scratch                       f32                   16
 *   F32       f32 in memory, the next prefetched   f32                   16
 *   F16       f16 likewise                         f32                   32
 *   PAIRS     bf16 likewise                        f32 planes of bf16    32
 *   DOT_PANEL bf16 in scratch                      bf16                  32, by a dot product of pairs
 *   DOT       bf16 likewise                        bf16                  32, where the processor has one
 *
 * Planes are the columns of each 32 as the bf16 rule takes them: the 16 odd ones, then the 16 even ones. With both
 * operands in planes, the bf16 rule is the PANEL tile under flushing. A row of bf16 for DOT is a row of half as many
 * elements of 32 bits, so that it is found and cut like one of f32. */
#ifndef MLXCEL_KERNELS_SIMD_TILE_H
#define MLXCEL_KERNELS_SIMD_TILE_H

#include "kernels/kernels.h"

enum operand { OPERAND_PANEL, OPERAND_F32, OPERAND_F16, OPERAND_PAIRS, OPERAND_DOT_PANEL, OPERAND_DOT };

struct tile {
    const unsigned char *weights; /* first row, at the first column of the range */
    size_t weight_stride;         /* bytes between rows */
    const float *const *x;        /* rows */
    size_t x_offset;              /* of the first column, in elements of 32 bits */
    uint32_t n_steps;
    bool is_first; /* sums start at zero */
    float *sums;   /* sum (weight row i, row j) at (j * sums_stride + i) * 16 */
    size_t sums_stride;
    const unsigned char
        *prefetch;       /* bytes that will be read soon, prefetch_step of them a step: for tiles that stream, */
    uint32_t n_prefetch; /* of each of n_prefetch rows */
    uint32_t prefetch_step;
};

#ifndef SIMD_HAS_DOT_PAIRS /* never called: tiles of DOT are made only where it is there */
SIMD_INLINE void vec_dot_pairs_to(vec *sum, vec a, vec b) { vec_fma_to(sum, a, b); }
#endif

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
            SIMD_UNROLL for (uint32_t i = 0; i < nw; i++) {
                a[i] = tile_weights(operand, w + i * stride, part, v);
                SIMD_KEEP(a[i]); /* in a register: gcc would load it again for every row */
            }
            SIMD_UNROLL for (uint32_t j = 0; j < nx; j++) {
                vec b = vec_load(x[j] + at + part * 16 + v * VEC_FLOATS);
                SIMD_UNROLL for (uint32_t i = 0; i < nw; i++) {
                    if (operand >= OPERAND_DOT_PANEL)
                        vec_dot_pairs_to(&sums[i][j].v[v], a[i], b);
                    else
                        vec_fma_to(&sums[i][j].v[v], a[i], b);
                }
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
            SIMD_UNROLL for (uint32_t j = 0; j < nx; j++) vec_fma_to(&sums[i][j].v[v], upper, odd[j]);
            SIMD_UNROLL for (uint32_t j = 0; j < nx; j++) vec_fma_to(&sums[i][j].v[v], lower, even[j]);
        }
    }
}

SIMD_INLINE void tile_run(enum operand operand, uint32_t nw, uint32_t nx, const struct tile *t) {
    lanes sums[TILE_WEIGHTS][TILE_ROWS];
    const float *x[TILE_ROWS];
    SIMD_UNROLL for (uint32_t j = 0; j < nx; j++) x[j] = t->x[j] + t->x_offset;
    SIMD_UNROLL for (uint32_t i = 0; i < nw; i++) SIMD_UNROLL for (uint32_t j = 0; j < nx; j++) sums[i][j] =
        t->is_first ? lanes_zero() : lanes_load(t->sums + (j * t->sums_stride + i) * 16);
    const unsigned char *w = t->weights, *prefetch = t->prefetch;
    const bool in_scratch = operand == OPERAND_PANEL || operand == OPERAND_DOT_PANEL;
    const size_t step = operand == OPERAND_F16 || operand == OPERAND_PAIRS ? 32 : 16;
    size_t stride = t->weight_stride, end = t->n_steps * step;
    const uint32_t n_prefetch = in_scratch ? 1 : t->n_prefetch, prefetch_step = t->prefetch_step;
    for (size_t at = 0; at < end; at += step, w += 64, prefetch += prefetch_step) {
        /* Into the second-level cache, which has more misses in flight: bf16 rows stream twice as fast on a Zen 4. */
        for (uint32_t i = 0; i < n_prefetch; i++) __builtin_prefetch(prefetch + i * stride, 0, 2);
        if (operand == OPERAND_PAIRS)
            tile_step_pairs(nw, nx, sums, w, stride, x, at);
        else
            tile_step(operand, nw, nx, sums, w, stride, x, at);
    }
    SIMD_UNROLL for (uint32_t i = 0; i < nw; i++) SIMD_UNROLL for (uint32_t j = 0; j < nx; j++)
        lanes_store(t->sums + (j * t->sums_stride + i) * 16, sums[i][j]);
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
    TILE_PASTE(TILE_ALL_, WEIGHTS)                                                                                     \
    (TILE_PASTE(TILE_LINE_, ROWS), TILE_FUNCTION,                                                                      \
     NAME) static const tile_function tiles_##NAME[TILE_WEIGHTS][TILE_ROWS] = {                                        \
        TILE_PASTE(TILE_ALL_, WEIGHTS)(TILE_PASTE(TILE_LINE_, ROWS), TILE_ENTRY, NAME)}

/* The size of the next part when n is shared out over as few parts of at most `most` as can be, evenly. */
SIMD_INLINE uint32_t even_part(uint32_t n, uint32_t most) {
    uint32_t parts = (n + most - 1) / most;
    return (n + parts - 1) / parts;
}

#endif
