/* SPDX-License-Identifier: Apache-2.0 */
/* A tile of activation rows times weight rows, for simd/q8_gemm.h: 8 x 8 outputs, weight rows in lanes. A dot product of
 * bytes adds four products to each lane of 16 accumulators, the activations being one word of a register. */
#ifndef MLXCEL_KERNELS_NEON_Q8_TILE_H
#define MLXCEL_KERNELS_NEON_Q8_TILE_H

#include "kernels/neon/q8_codes.h"

enum { TILE_VECTORS = 2, TILE_ROWS = 8, TILE_FEW_ROWS = 4 };

/* The kinds that tiles are compiled for; a kind that looks like another one in a panel uses its tiles: with one group in
 * a block the order of the quads does not matter, with two it is that of the activations. */
#define TILE_KINDS(KIND)                                                                                               \
    KIND(affine2_2, WEIGHT_AFFINE2, 2)                                                                                 \
    KIND(affine4_1, WEIGHT_AFFINE4, 1)                                                                                 \
    KIND(affine4_2, WEIGHT_AFFINE4, 2)                                                                                 \
    KIND(affine6_2, WEIGHT_AFFINE6, 2)                                                                                 \
    KIND(affine8_1, WEIGHT_AFFINE8, 1)                                                                                 \
    KIND(affine8_2, WEIGHT_AFFINE8, 2)                                                                                 \
    KIND(mxfp4_2, WEIGHT_MXFP4, 2)                                                                                     \
    KIND(nvfp4_4, WEIGHT_NVFP4, 4)                                                                                     \
    KIND(ternary_1, WEIGHT_TERNARY, 1)

Q8_INLINE enum weight_format tile_format(enum weight_format format, int groups) {
    if (!q8_is_affine(format) || format == WEIGHT_AFFINE8) return format;
    return groups == 1 ? WEIGHT_AFFINE4 : q8_order(format) == ACTIVATION_BYTES ? WEIGHT_AFFINE6 : format;
}

Q8_INLINE int tile_planes(enum weight_format format) {
    (void)format;
    return 1;
}

/* Bytes of one block of 8 weight rows in the panel: codes; with scales and biases. */
Q8_INLINE size_t tile_codes_bytes(enum weight_format format) {
    (void)format;
    return (size_t)64 * TILE_VECTORS * Q8_LANES;
}
Q8_INLINE size_t tile_panel_bytes(enum weight_format format, int groups) {
    return tile_codes_bytes(format) + (size_t)groups * TILE_VECTORS * Q8_LANES * 4 * (q8_is_affine(format) ? 2 : 1);
}
/* Bytes of one block of packed activations. */
Q8_INLINE size_t tile_pack_bytes(int groups, int rows) { return (size_t)rows * (64 + 4 + 4 * (size_t)groups); }

Q8_INLINE q8_ints tile_plane(enum weight_format format, int plane, q8_ints codes) {
    (void)format;
    (void)plane;
    return codes;
}

/* Quad q of the codes of 4 rows. */
Q8_INLINE void codes_transposed(enum weight_format format, const unsigned char *const rows[4], uint32_t shift,
                                q8_ints quads[16]) {
    for (int l = 0; l < 4; l++) {
        struct q8_codes c = codes_load(format, rows[l], shift);
        for (int part = 0; part < 4; part++) quads[4 * part + l] = vreinterpretq_s32_s8(c.quarter[part]);
    }
    for (int part = 0; part < 4; part++) v_transpose(quads + 4 * part);
}

/* What happens to the dot products of group g of one row and 4 outputs. */
Q8_INLINE void tile_scale(enum weight_format format, int groups, int rows, int g, int m, int v, q8_ints dots,
                          const float *scales, const float *numbers, float *partial, const float *before, float *acc) {
    const int at = (m * TILE_VECTORS + v) * Q8_LANES, offset = dot_offset(format);
    const float *biases = scales + groups * TILE_VECTORS * Q8_LANES;
    q8_floats dot = v_convert(dots), sum = v_splat(numbers[(g + 1) * rows + m]);
    q8_floats scale = v_load(scales + (g * TILE_VECTORS + v) * Q8_LANES);
    if (offset) dot = v_fma(v_splat((float)-offset), sum, dot);
    q8_floats t = g ? v_fma(scale, dot, v_load(partial + at)) : v_mul(scale, dot);
    if (q8_is_affine(format)) t = v_fma(v_load(biases + (g * TILE_VECTORS + v) * Q8_LANES), sum, t);
    if (g + 1 < groups) {
        v_store(partial + at, t);
        return;
    }
    v_store(acc + at, v_fma(v_splat(numbers[m]), t, v_load(before + at)));
}

/* acc[rows][8] = before + one block: scale_x * (scale * dot + bias * sum, group by group). */
Q8_INLINE void tile_block(enum weight_format format, int groups, int rows, const unsigned char *panel,
                          const unsigned char *pack, const float *before, float *acc, void *spare) {
    const int per_group = 16 / groups;
    const float *scales = (const float *)(const void *)(panel + tile_codes_bytes(format));
    const float *numbers = (const float *)(const void *)(pack + rows * 64);
#pragma GCC unroll 4
    for (int g = 0; g < groups; g++) {
        q8_ints dots[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 8
        for (int m = 0; m < rows; m++) dots[m][0] = dots[m][1] = vdupq_n_s32(0);
            /* Two quads at a time: they stand side by side in every order. */
#pragma GCC unroll 8
        for (int q = 0; q < per_group; q += 2, panel += 4 * 16) {
            int8x16_t w0 = vreinterpretq_s8_u8(vld1q_u8(panel)), w1 = vreinterpretq_s8_u8(vld1q_u8(panel + 16));
            int8x16_t w2 = vreinterpretq_s8_u8(vld1q_u8(panel + 32)), w3 = vreinterpretq_s8_u8(vld1q_u8(panel + 48));
#pragma GCC unroll 8
            for (int m = 0; m < rows; m++) {
                int8x8_t x = vreinterpret_s8_u8(vld1_u8(pack + m * 64 + 4 * q8_quad(format, groups, g, q)));
                dots[m][0] = vdotq_lane_s32(dots[m][0], w0, x, 0);
                dots[m][1] = vdotq_lane_s32(dots[m][1], w1, x, 0);
                dots[m][0] = vdotq_lane_s32(dots[m][0], w2, x, 1);
                dots[m][1] = vdotq_lane_s32(dots[m][1], w3, x, 1);
            }
            __asm__ volatile("" : : : "memory"); /* else gcc loads the weights of many quads first, onto the stack */
        }
#pragma GCC unroll 8
        for (int m = 0; m < rows; m++)
#pragma GCC unroll 2
            for (int v = 0; v < TILE_VECTORS; v++)
                tile_scale(format, groups, rows, g, m, v, dots[m][v], scales, numbers, spare, before, acc);
        __asm__ volatile("" : : : "memory"); /* scaled sums are loaded again rather than held on the stack */
    }
}

#endif
