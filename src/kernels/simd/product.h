/* SPDX-License-Identifier: Apache-2.0 */
/* What all matrix products share: sizes of panels and blocks, where rows lie, bf16 in planes. */
#ifndef MLXCEL_KERNELS_SIMD_PRODUCT_H
#define MLXCEL_KERNELS_SIMD_PRODUCT_H

#include "kernels/simd/tile.h"

enum {
    FEW_ROWS = 8,
    FEW_ELEMENTS = 4096, /* 16 KiB: a block of all activation rows, where they are few */
    PANEL_ROWS = 32,
    BATCH_ROWS = 32 / TILE_ROWS * TILE_ROWS, /* activation rows whose sums wait in scratch */
    BLOCK_COLUMNS = 512,                     /* 2 KiB of a row */
    PLANE_STRIDE = BLOCK_COLUMNS + 16,       /* no multiple of a page: rows must not meet in one set of the cache */
};

enum rule {
    RULE_F32,    /* f32 activations */
    RULE_PLANES, /* bf16 activations, fused multiply-adds over planes under flushing */
    RULE_DOT,    /* bf16 activations, the processor's dot products of pairs */
};

SIMD_INLINE const void *product_x(const struct matmul_job *job, uint32_t r) {
    return (const char *)job->x + (size_t)(job->x_ids ? job->x_ids[r] : r) * job->x_row_bytes;
}

SIMD_INLINE float *product_y(const struct matmul_job *job, uint32_t r) {
    return job->y + (job->y_ids ? job->y_ids[r] : r) * job->y_stride;
}

/* y[i] = the tree sum of the 16 lanes at sums + 16 i. */
static void reduce_sums(const float *sums, uint32_t n, float *y) {
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) lanes_store(y + i, lanes_sum_16(sums + 16 * i));
    for (; i < n; i++) y[i] = lanes_sum(lanes_load(sums + 16 * i));
}

/* Columns [0, n) of a row in planes, n a multiple of 32. */
SIMD_INLINE void planes_from_pairs(const void *row, uint32_t n, float *out) {
    const unsigned char *at = row;
    for (uint32_t k = 0; k < n; k += 32) SIMD_UNROLL for (int v = 0; v < LANE_VECS; v++) {
            ivec pairs = ivec_load(at + 2 * (size_t)k + v * VEC_FLOATS * 4);
            vec_store(out + k + v * VEC_FLOATS, vec_from_bits(ivec_and(pairs, ivec_set1((int32_t)0xffff0000u))));
            vec_store(out + k + 16 + v * VEC_FLOATS, vec_from_bits(ivec_shl(pairs, 16)));
        }
}

#endif
