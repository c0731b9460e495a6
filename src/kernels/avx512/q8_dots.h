/* SPDX-License-Identifier: Apache-2.0 */
/* Dot products for simd/q8_gemv.h: chunks of 16 blocks of a weight row, blocks in lanes. */
#ifndef MLXCEL_KERNELS_AVX512_Q8_DOTS_H
#define MLXCEL_KERNELS_AVX512_Q8_DOTS_H

#include "kernels/avx512/q8_codes.h"

/* A dot product as computed is the true one plus this times the sum of the activations. */
Q8_INLINE int dot_offset(enum weight_format format) { return q8_code_offset(format); }

enum { GEMV_ROWS = 8 };
#define GEMV_DEFINE_EIGHT(name, format, groups) GEMV_DEFINE_ROWS(name, format, groups, 8)
#define GEMV_EIGHT(name)                        gemv_##name##_8

/* Bytes at .. at + 63 of n_bytes, then zeros. */
Q8_INLINE __m512i load_some(const unsigned char *p, uint32_t n_bytes, uint32_t at) {
    if (at + 64 <= n_bytes) {
        __m512i x = _mm512_loadu_si512(p + at);
        __asm__("" : "+v"(x)); /* else gcc reads memory again for a second use, most often across cache lines */
        return x;
    }
    return _mm512_maskz_loadu_epi8((__mmask64)((1ull << (n_bytes > at ? n_bytes - at : 0)) - 1), p + at);
}

/* Transposes 4 x 4 words of 32 bits in each quarter. */
Q8_INLINE void transpose_quarters(__m512i v[4]) {
    __m512i a = _mm512_unpacklo_epi32(v[0], v[1]), b = _mm512_unpackhi_epi32(v[0], v[1]);
    __m512i c = _mm512_unpacklo_epi32(v[2], v[3]), d = _mm512_unpackhi_epi32(v[2], v[3]);
    v[0] = _mm512_unpacklo_epi64(a, c);
    v[1] = _mm512_unpackhi_epi64(a, c);
    v[2] = _mm512_unpacklo_epi64(b, d);
    v[3] = _mm512_unpackhi_epi64(b, d);
}

/* Word q of every block of packed nibbles (8 words), packed crumbs (4), or codes in bytes (16); blocks n and up are 0. */
Q8_INLINE void chunk_words(enum weight_format format, uint32_t n, const unsigned char *p, uint32_t shift,
                           __m512i words[16]) {
    const uint32_t n_bytes = n * q8_block_bytes(format);
    if (q8_order(format) == ACTIVATION_NIBBLES) {
        /* After the transposition: word i of blocks 0 2 4 6, word 4 + i of them; the same of blocks 1 3 5 7. */
        __m512i low = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 16, 24, 17, 25, 18, 26, 19, 27);
        __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(4)), t[8];
        for (uint32_t i = 0; i < 8; i++) t[i] = load_some(p, n_bytes, 64 * i);
        transpose_quarters(t);
        transpose_quarters(t + 4);
        for (int i = 0; i < 4; i++) {
            words[i] = _mm512_permutex2var_epi32(t[i], low, t[4 + i]);
            words[4 + i] = _mm512_permutex2var_epi32(t[i], high, t[4 + i]);
        }
    } else if (q8_order(format) == ACTIVATION_CRUMBS) {
        __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        for (uint32_t i = 0; i < 4; i++) words[i] = load_some(p, n_bytes, 64 * i);
        transpose_quarters(words);
        for (int i = 0; i < 4; i++) words[i] = _mm512_permutexvar_epi32(order, words[i]);
    } else {
        for (uint32_t b = 0; b < 16; b++)
            words[b] = b < n ? codes_load(format, p + b * q8_block_bytes(format), shift) : _mm512_setzero_si512();
        v_transpose(words);
    }
}

/* Quad q of every block. */
Q8_INLINE __m512i chunk_quad(enum weight_format format, const __m512i words[16], int q) {
    if (q8_order(format) == ACTIVATION_CRUMBS)
        return _mm512_and_si512(_mm512_srli_epi32(words[q % 4], (unsigned)(q / 4 * 2)), _mm512_set1_epi8(3));
    if (q8_order(format) != ACTIVATION_NIBBLES) return words[q];
    __m512i x = q < 8 ? words[q] : _mm512_srli_epi32(words[q % 8], 4);
    x = _mm512_and_si512(x, _mm512_set1_epi8(15));
    return q8_is_fp4(format) ? fp4_values(x) : x;
}

/* Integer dots of the n blocks at `codes` with packed rows (simd/q8_gemv.h), lane = block. */
Q8_INLINE void chunk_dots(enum weight_format format, int groups, int n_rows, uint32_t n, const unsigned char *codes,
                          uint32_t shift, const unsigned char *pack, size_t step, __m512i out[][4]) {
    /* Quads that share a word follow each other; four sums or more are under way at a time. */
    const enum activation_form order = q8_order(format);
    const int shared = order == ACTIVATION_NIBBLES ? 2 : order == ACTIVATION_CRUMBS ? 4 : 1;
    const int per_group = 16 / groups, n_sums = n_rows * groups >= 4 ? 1 : 4 / (n_rows * groups);
    __m512i words[16];
    chunk_words(format, n, codes, shift, words);
#pragma GCC unroll 4
    for (int g = 0; g < groups; g++) {
        __m512i sums[GEMV_ROWS][4];
#pragma GCC unroll 8
        for (int r = 0; r < n_rows; r++)
#pragma GCC unroll 4
            for (int s = 0; s < n_sums; s++) sums[r][s] = _mm512_setzero_si512();
#pragma GCC unroll 16
        for (int i = 0; i < per_group; i++) {
            int q = q8_quad(format, groups, g, i % shared * (per_group / shared) + i / shared), s = i % n_sums;
            __m512i c = chunk_quad(format, words, q);
#pragma GCC unroll 8
            for (int r = 0; r < n_rows; r++)
                sums[r][s] = _mm512_dpbusd_epi32(sums[r][s], c, _mm512_load_si512(pack + (size_t)r * step + q * 64));
        }
#pragma GCC unroll 8
        for (int r = 0; r < n_rows; r++) {
            out[r][g] = n_sums > 1 ? _mm512_add_epi32(sums[r][0], sums[r][1]) : sums[r][0];
            if (n_sums > 2) out[r][g] = _mm512_add_epi32(out[r][g], _mm512_add_epi32(sums[r][2], sums[r][3]));
        }
    }
}

/* Quads of the activations of at most 16 blocks; zeros where there are fewer. */
static void gemv_pack_codes(const char *x, uint32_t n, unsigned char *pack) {
    __m512i quads[16];
    for (uint32_t b = 0; b < 16; b++) quads[b] = b < n ? _mm512_loadu_si512(x + b * 64) : _mm512_setzero_si512();
    v_transpose(quads);
    for (int q = 0; q < 16; q++) _mm512_store_si512(pack + q * 64, quads[q]);
}

#endif
