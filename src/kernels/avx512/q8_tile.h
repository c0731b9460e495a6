/* SPDX-License-Identifier: Apache-2.0 */
/* A tile of activation rows times weight rows, for simd/q8_gemm.h: 12 x 32 outputs, weight rows in lanes. vpdpbusd adds
 * four products to each of 24 accumulators, 2 vectors of weights and activations spread from memory. */
#ifndef MLXCEL_KERNELS_AVX512_Q8_TILE_H
#define MLXCEL_KERNELS_AVX512_Q8_TILE_H

#include "kernels/avx512/q8_codes.h"

#include <string.h>

enum { TILE_VECTORS = 2, TILE_ROWS = 12, TILE_FEW_ROWS = 6 };

/* The kinds that tiles are compiled for; a kind that looks like another one in a panel uses its tiles: with one group in
 * a block the order of the quads does not matter, with two it is that of the activations. */
#define TILE_KINDS(KIND)                                                                                               \
    KIND(affine2_2, WEIGHT_AFFINE2, 2)                                                                                 \
    KIND(affine4_1, WEIGHT_AFFINE4, 1)                                                                                 \
    KIND(affine4_2, WEIGHT_AFFINE4, 2)                                                                                 \
    KIND(affine8_2, WEIGHT_AFFINE8, 2)                                                                                 \
    KIND(mxfp4_2, WEIGHT_MXFP4, 2)                                                                                     \
    KIND(nvfp4_4, WEIGHT_NVFP4, 4)                                                                                     \
    KIND(ternary_1, WEIGHT_TERNARY, 1)

Q8_INLINE enum weight_format tile_format(enum weight_format format, int groups) {
    if (!q8_is_affine(format)) return format;
    return groups == 1 ? WEIGHT_AFFINE4 : q8_order(format) == ACTIVATION_BYTES ? WEIGHT_AFFINE8 : format;
}

Q8_INLINE int tile_planes(enum weight_format format) {
    (void)format;
    return 1;
}

/* Bytes of one block of 32 weight rows in the panel: codes; with scales and biases. */
Q8_INLINE size_t tile_codes_bytes(enum weight_format format) {
    (void)format;
    return (size_t)64 * TILE_VECTORS * Q8_LANES;
}
Q8_INLINE size_t tile_panel_bytes(enum weight_format format, int groups) {
    return tile_codes_bytes(format) + (size_t)groups * TILE_VECTORS * Q8_LANES * 4 * (q8_is_affine(format) ? 2 : 1);
}
/* Bytes of one block of packed activations. */
Q8_INLINE size_t tile_pack_bytes(int groups, int rows) { return (size_t)rows * (64 + 4 + 4 * (size_t)groups); }

Q8_INLINE __m512i tile_plane(enum weight_format format, int plane, __m512i codes) {
    (void)format;
    (void)plane;
    return codes;
}

/* Quad q of the codes of 16 rows. */
Q8_INLINE void codes_transposed(enum weight_format format, const unsigned char *const rows[16], uint32_t shift,
                                __m512i quads[16]) {
    for (int l = 0; l < 16; l++) quads[l] = codes_load(format, rows[l], shift);
    v_transpose(quads);
}

/* What happens to the dot products of group g of one row and 16 outputs. */
Q8_INLINE void tile_scale(enum weight_format format, int groups, int rows, int g, int m, int v, __m512i dot_bits,
                          const float *scales, const float *numbers, float *partial, const float *before, float *acc) {
    const int at = (m * TILE_VECTORS + v) * 16, offset = q8_code_offset(format);
    const float *biases = scales + groups * TILE_VECTORS * 16;
    __m512 dot = _mm512_cvtepi32_ps(dot_bits), sum = _mm512_set1_ps(numbers[(g + 1) * rows + m]);
    __m512 scale = _mm512_loadu_ps(scales + (g * TILE_VECTORS + v) * 16);
    if (offset) dot = _mm512_fmadd_ps(_mm512_set1_ps((float)-offset), sum, dot);
    __m512 t = g ? _mm512_fmadd_ps(scale, dot, _mm512_loadu_ps(partial + at)) : _mm512_mul_ps(scale, dot);
    if (q8_is_affine(format)) t = _mm512_fmadd_ps(_mm512_loadu_ps(biases + (g * TILE_VECTORS + v) * 16), sum, t);
    if (g + 1 < groups) {
        _mm512_storeu_ps(partial + at, t);
        return;
    }
    __m512 scale_x = _mm512_set1_ps(numbers[m]);
    _mm512_storeu_ps(acc + at, _mm512_fmadd_ps(scale_x, t, _mm512_loadu_ps(before + at)));
}

/* acc[rows][32] = before + one block: scale_x * (scale * dot + bias * sum, group by group). */
Q8_INLINE void tile_block(enum weight_format format, int groups, int rows, const unsigned char *panel,
                          const unsigned char *pack, const float *before, float *acc, void *spare) {
    const int per_group = 16 / groups;
    const float *scales = (const float *)(const void *)(panel + tile_codes_bytes(format));
    const float *numbers = (const float *)(const void *)(pack + rows * 64);
#pragma GCC unroll 4
    for (int g = 0; g < groups; g++) {
        __m512i dots[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 12
        for (int m = 0; m < rows; m++) dots[m][0] = dots[m][1] = _mm512_setzero_si512();
#pragma GCC unroll 16
        for (int q = 0; q < per_group; q++, panel += TILE_VECTORS * 64) {
            __m512i w0 = _mm512_loadu_si512(panel), w1 = _mm512_loadu_si512(panel + 64);
#pragma GCC unroll 12
            for (int m = 0; m < rows; m++) {
                int word;
                memcpy(&word, pack + m * 64 + 4 * q8_quad(format, groups, g, q), 4);
                __m512i x = _mm512_set1_epi32(word);
                dots[m][0] = _mm512_dpbusd_epi32(dots[m][0], w0, x);
                dots[m][1] = _mm512_dpbusd_epi32(dots[m][1], w1, x);
            }
        }
#pragma GCC unroll 12
        for (int m = 0; m < rows; m++)
#pragma GCC unroll 2
            for (int v = 0; v < TILE_VECTORS; v++)
                tile_scale(format, groups, rows, g, m, v, dots[m][v], scales, numbers, spare, before, acc);
        __asm__ volatile("" : : : "memory"); /* scaled sums are loaded again rather than held on the stack */
    }
}

#endif
