/* SPDX-License-Identifier: Apache-2.0 */
/* A tile of activation rows times weight rows, for simd/q8_gemm.h: 6 x 16 outputs, weight rows in lanes.
 *
 * Codes go through vpmaddubsw, whose sums of two products are added up in 16 bits as long as they fit (`quads_in_16_bits`),
 * then vpmaddwd widens them. 12 accumulators, 2 vectors of weights, 1 of activations and 1 product fill the registers;
 * what else a block needs lies in `spare`. 8-bit codes go as two planes of 4 bits, dot = 16 * upper + lower. */
#ifndef MLXCEL_KERNELS_AVX2_Q8_TILE_H
#define MLXCEL_KERNELS_AVX2_Q8_TILE_H

#include "kernels/avx2/q8_codes.h"

#include <string.h>

enum { TILE_VECTORS = 2, TILE_ROWS = 6, TILE_FEW_ROWS = 4 };

/* The kinds that tiles are compiled for; a kind that looks like another one in a panel uses its tiles. */
#define TILE_KINDS(KIND)                                                                                               \
    KIND(affine2_2, WEIGHT_AFFINE2, 2)                                                                                 \
    KIND(affine3_1, WEIGHT_AFFINE3, 1)                                                                                 \
    KIND(affine3_2, WEIGHT_AFFINE3, 2)                                                                                 \
    KIND(affine4_1, WEIGHT_AFFINE4, 1)                                                                                 \
    KIND(affine4_2, WEIGHT_AFFINE4, 2)                                                                                 \
    KIND(affine5_1, WEIGHT_AFFINE5, 1)                                                                                 \
    KIND(affine5_2, WEIGHT_AFFINE5, 2)                                                                                 \
    KIND(affine6_1, WEIGHT_AFFINE6, 1)                                                                                 \
    KIND(affine6_2, WEIGHT_AFFINE6, 2)                                                                                 \
    KIND(affine8_1, WEIGHT_AFFINE8, 1)                                                                                 \
    KIND(affine8_2, WEIGHT_AFFINE8, 2)                                                                                 \
    KIND(mxfp4_2, WEIGHT_MXFP4, 2)                                                                                     \
    KIND(nvfp4_4, WEIGHT_NVFP4, 4)                                                                                     \
    KIND(ternary_1, WEIGHT_TERNARY, 1)

Q8_INLINE enum weight_format tile_format(enum weight_format format, int groups) {
    return format == WEIGHT_AFFINE2 && groups == 1 ? WEIGHT_AFFINE3 : format;
}

Q8_INLINE int tile_planes(enum weight_format format) { return format == WEIGHT_AFFINE8 ? 2 : 1; }

/* Bytes of one block of 16 weight rows in the panel: codes; with scales and biases. */
Q8_INLINE size_t tile_codes_bytes(enum weight_format format) {
    return (size_t)tile_planes(format) * 64 * TILE_VECTORS * Q8_LANES;
}
Q8_INLINE size_t tile_panel_bytes(enum weight_format format, int groups) {
    return tile_codes_bytes(format) + (size_t)groups * TILE_VECTORS * Q8_LANES * 4 * (q8_is_affine(format) ? 2 : 1);
}
/* Bytes of one block of packed activations. */
Q8_INLINE size_t tile_pack_bytes(int groups, int rows) { return (size_t)rows * (64 + 4 + 4 * (size_t)groups); }

/* Plane 0 holds the upper four bits of 8-bit codes. */
Q8_INLINE __m256i tile_plane(enum weight_format format, int plane, __m256i codes) {
    if (format != WEIGHT_AFFINE8) return codes;
    return _mm256_and_si256(plane ? codes : _mm256_srli_epi16(codes, 4), _mm256_set1_epi8(15));
}

/* Quad q of the codes of 8 rows. */
Q8_INLINE void codes_transposed(enum weight_format format, const unsigned char *const rows[8], uint32_t shift,
                                __m256i quads[16]) {
    for (int l = 0; l < 8; l++) {
        struct q8_codes c = codes_load(format, rows[l], shift);
        quads[l] = c.half[0];
        quads[l + 8] = c.half[1];
    }
    v_transpose(quads);
    v_transpose(quads + 8);
}

/* Without it gcc reassociates the sums and collects the products of many quads first, on the stack. */
#define KEEP_ORDER(vector) __asm__ volatile("" : "+x"(vector))
/* What was stored is loaded again rather than held in registers, that is, on the stack. */
#define KEEP_IN_MEMORY() __asm__ volatile("" : : : "memory")

/* How many quads' products of two codes fit into 16 bits together. */
Q8_INLINE int quads_in_16_bits(enum weight_format format) {
    int largest = format == WEIGHT_AFFINE8 ? 15 : q8_largest_code(format);
    int quads = 32767 / (2 * 127 * largest);
    return quads >= 16 ? 16 : quads >= 8 ? 8 : quads >= 4 ? 4 : 2;
}

/* What happens to the dot products of group g of one row and 8 outputs, once they are whole. */
Q8_INLINE void tile_scale(enum weight_format format, int groups, int rows, int g, int m, int v, __m256i dot_bits,
                          const float *scales, const float *numbers, float *partial, const float *before, float *acc) {
    const int at = (m * TILE_VECTORS + v) * 8, offset = q8_code_offset(format);
    const float *biases = scales + groups * TILE_VECTORS * 8;
    __m256 dot = _mm256_cvtepi32_ps(dot_bits), sum = _mm256_broadcast_ss(numbers + (g + 1) * rows + m);
    __m256 scale = _mm256_loadu_ps(scales + (g * TILE_VECTORS + v) * 8);
    if (offset) dot = _mm256_fmadd_ps(_mm256_set1_ps((float)-offset), sum, dot);
    __m256 t = g ? _mm256_fmadd_ps(scale, dot, _mm256_loadu_ps(partial + at)) : _mm256_mul_ps(scale, dot);
    if (q8_is_affine(format)) t = _mm256_fmadd_ps(_mm256_loadu_ps(biases + (g * TILE_VECTORS + v) * 8), sum, t);
    if (g + 1 < groups) {
        _mm256_storeu_ps(partial + at, t);
        return;
    }
    __m256 scale_x = _mm256_broadcast_ss(numbers + m);
    _mm256_storeu_ps(acc + at, _mm256_fmadd_ps(scale_x, t, _mm256_loadu_ps(before + at)));
}

/* acc[rows][16] = before + one block: scale_x * (scale * dot + bias * sum, group by group). */
Q8_INLINE void tile_block(enum weight_format format, int groups, int rows, const unsigned char *panel,
                          const unsigned char *pack, const float *before, float *acc, void *spare) {
    const int per_group = 16 / groups, planes = tile_planes(format);
    const int step = quads_in_16_bits(format) < per_group ? quads_in_16_bits(format) : per_group;
    const float *scales = (const float *)(const void *)(panel + tile_codes_bytes(format));
    const float *numbers = (const float *)(const void *)(pack + rows * 64);
    __m256i *waiting = spare;                                  /* dot products of a group that is not whole */
    float *partial = (float *)(waiting + rows * TILE_VECTORS); /* scaled sums of the groups before */
#pragma GCC unroll 4
    for (int g = 0; g < groups; g++)
#pragma GCC unroll 2
        for (int plane = 0; plane < planes; plane++)
#pragma GCC unroll 8
            for (int first = 0; first < per_group; first += step) {
                __m256i sums[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 16
                for (int q = 0; q < step; q++, panel += TILE_VECTORS * 32) {
                    __m256i w0 = load_32(panel), w1 = load_32(panel + 32);
#pragma GCC unroll 6
                    for (int m = 0; m < rows; m++) {
                        int word;
                        memcpy(&word, pack + m * 64 + 4 * q8_quad(format, groups, g, first + q), 4);
                        __m256i x = _mm256_set1_epi32(word);
                        __m256i p0 = _mm256_maddubs_epi16(w0, x), p1 = _mm256_maddubs_epi16(w1, x);
                        sums[m][0] = q ? _mm256_add_epi16(sums[m][0], p0) : p0;
                        sums[m][1] = q ? _mm256_add_epi16(sums[m][1], p1) : p1;
                        KEEP_ORDER(sums[m][0]);
                        KEEP_ORDER(sums[m][1]);
                    }
                }
                bool is_plane_done = first + step == per_group, is_group_done = is_plane_done && plane + 1 == planes;
#pragma GCC unroll 6
                for (int m = 0; m < rows; m++)
#pragma GCC unroll 2
                    for (int v = 0; v < TILE_VECTORS; v++) {
                        __m256i *wait = waiting + m * TILE_VECTORS + v;
                        __m256i dot = _mm256_madd_epi16(sums[m][v], _mm256_set1_epi16(1));
                        if (plane || first) dot = _mm256_add_epi32(dot, _mm256_load_si256(wait));
                        if (is_plane_done && !is_group_done) dot = _mm256_slli_epi32(dot, 4);
                        if (!is_group_done)
                            _mm256_store_si256(wait, dot);
                        else
                            tile_scale(format, groups, rows, g, m, v, dot, scales, numbers, partial, before, acc);
                    }
                KEEP_IN_MEMORY();
            }
}

#endif
