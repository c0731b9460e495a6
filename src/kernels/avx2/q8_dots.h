/* SPDX-License-Identifier: Apache-2.0 */
/* Dot products for simd/q8_gemv.h: chunks of 8 blocks of a weight row, blocks in lanes. */
#ifndef MLXCEL_KERNELS_AVX2_Q8_DOTS_H
#define MLXCEL_KERNELS_AVX2_Q8_DOTS_H

#include "kernels/avx2/q8_codes.h"

enum { GEMV_ROWS = 4 };
#define GEMV_DEFINE_EIGHT(name, format, groups)
#define GEMV_EIGHT(name) NULL

/* A dot product as computed is the true one plus this times the sum of the activations. 8-bit codes are moved to
 * -128 .. 127, since products of larger ones would saturate. */
Q8_INLINE int dot_offset(enum weight_format format) { return format == WEIGHT_AFFINE8 ? -128 : q8_code_offset(format); }

/* So many quads' products add up in 16 bits: 2 * 127 * code each. */
Q8_INLINE int quads_together(enum weight_format format) {
    const int code = q8_largest_code(format);
    return code <= 7 ? 16 : code <= 15 ? 8 : code <= 31 ? 4 : code <= 63 ? 2 : 1;
}

/* Word q of every block of packed nibbles (8 words), packed crumbs (4), or codes in bytes (16); blocks n and up are 0. */
Q8_INLINE void chunk_words(enum weight_format format, uint32_t n, const unsigned char *p, uint32_t shift,
                           __m256i words[16]) {
    const uint32_t step = q8_block_bytes(format);
    if (q8_order(format) == ACTIVATION_NIBBLES) {
        for (uint32_t b = 0; b < 8; b++) words[b] = b < n ? load_32(p + b * step) : _mm256_setzero_si256();
        v_transpose(words);
    } else if (q8_order(format) == ACTIVATION_CRUMBS) {
        for (uint32_t b = 0; b < 4; b++) {
            __m128i low = b < n ? load_16(p + b * step) : _mm_setzero_si128();
            __m128i high = b + 4 < n ? load_16(p + (b + 4) * step) : _mm_setzero_si128();
            words[b] = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
        }
        __m256i a = _mm256_unpacklo_epi32(words[0], words[1]), b = _mm256_unpackhi_epi32(words[0], words[1]);
        __m256i c = _mm256_unpacklo_epi32(words[2], words[3]), d = _mm256_unpackhi_epi32(words[2], words[3]);
        words[0] = _mm256_unpacklo_epi64(a, c);
        words[1] = _mm256_unpackhi_epi64(a, c);
        words[2] = _mm256_unpacklo_epi64(b, d);
        words[3] = _mm256_unpackhi_epi64(b, d);
    } else {
        for (uint32_t b = 0; b < 8; b++) {
            struct q8_codes codes = {{_mm256_setzero_si256(), _mm256_setzero_si256()}};
            if (b < n) codes = codes_load(format, p + b * step, shift);
            words[b] = codes.half[0];
            words[8 + b] = codes.half[1];
        }
        v_transpose(words);
        v_transpose(words + 8);
    }
}

/* Quad q of every block. */
Q8_INLINE __m256i chunk_quad(enum weight_format format, const __m256i words[16], int q) {
    if (q8_order(format) == ACTIVATION_CRUMBS)
        return _mm256_and_si256(_mm256_srli_epi32(words[q % 4], q / 4 * 2), _mm256_set1_epi8(3));
    if (format == WEIGHT_AFFINE8) return _mm256_xor_si256(words[q], _mm256_set1_epi8((char)0x80));
    if (q8_order(format) != ACTIVATION_NIBBLES) return words[q];
    __m256i x = _mm256_and_si256(q < 8 ? words[q] : _mm256_srli_epi32(words[q % 8], 4), _mm256_set1_epi8(15));
    return q8_is_fp4(format) ? fp4_values(x) : x;
}

Q8_INLINE __m256i multiply_quad(enum weight_format format, __m256i codes, __m256i activations) {
    if (format == WEIGHT_AFFINE8)
        return _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(activations, codes));
    return _mm256_maddubs_epi16(codes, activations);
}

/* Integer dots of the n blocks at `codes` with packed rows (simd/q8_gemv.h), lane = block. */
Q8_INLINE void chunk_dots(enum weight_format format, int groups, int n_rows, uint32_t n, const unsigned char *codes,
                          uint32_t shift, const unsigned char *pack, size_t step, __m256i out[][4]) {
    /* Quads that share a word follow each other. */
    const enum activation_form order = q8_order(format);
    const int shared = order == ACTIVATION_NIBBLES ? 2 : order == ACTIVATION_CRUMBS ? 4 : 1;
    const int per_group = 16 / groups, fit = quads_together(format), together = fit < per_group ? fit : per_group;
    __m256i words[16];
    chunk_words(format, n, codes, shift, words);
#pragma GCC unroll 4
    for (int g = 0; g < groups; g++)
#pragma GCC unroll 16
        for (int i = 0; i < per_group; i += together) {
            __m256i sums[GEMV_ROWS];
#pragma GCC unroll 16
            for (int j = i; j < i + together; j++) {
                int q = q8_quad(format, groups, g, j % shared * (per_group / shared) + j / shared);
                __m256i c = chunk_quad(format, words, q);
#pragma GCC unroll 4
                for (int r = 0; r < n_rows; r++) {
                    __m256i x = _mm256_load_si256((const __m256i *)(const void *)(pack + (size_t)r * step + q * 32));
                    __m256i products = multiply_quad(format, c, x);
                    sums[r] = j == i ? products : _mm256_add_epi16(sums[r], products);
                    __asm__("" : "+x"(sums[r])); /* else gcc collects the products of many quads first, on the stack */
                }
            }
#pragma GCC unroll 4
            for (int r = 0; r < n_rows; r++) {
                __m256i dots = _mm256_madd_epi16(sums[r], _mm256_set1_epi16(1));
                out[r][g] = i == 0 ? dots : _mm256_add_epi32(out[r][g], dots);
            }
        }
}

/* Quads of the activations of at most 8 blocks; zeros where there are fewer. */
static void gemv_pack_codes(const char *x, uint32_t n, unsigned char *pack) {
    for (int half = 0; half < 2; half++, x += 32, pack += 256) {
        __m256i quads[8];
        for (uint32_t b = 0; b < 8; b++)
            quads[b] = b < n ? load_32((const unsigned char *)x + b * 64) : _mm256_setzero_si256();
        v_transpose(quads);
        for (int q = 0; q < 8; q++) _mm256_store_si256((__m256i *)(void *)(pack + q * 32), quads[q]);
    }
}

#endif
