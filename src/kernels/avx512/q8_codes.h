/* SPDX-License-Identifier: Apache-2.0 */
/* Codes of a block of 64 columns, unpacked to bytes in the order of the activations, and their dot products. */
#ifndef MLXCEL_KERNELS_AVX512_Q8_CODES_H
#define MLXCEL_KERNELS_AVX512_Q8_CODES_H

#include "kernels/avx512/q8_vec.h"
#include "kernels/simd/q8_bits.h"

/* The lower half as it is, the upper half shifted. */
Q8_INLINE __m512i codes_nibbles(const unsigned char *p) {
    __m512i x = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)p));
    __m512i shifts = _mm512_setr_epi64(0, 0, 0, 0, 4, 4, 4, 4);
    return _mm512_and_si512(_mm512_srlv_epi64(x, shifts), _mm512_set1_epi8(15));
}

/* e2m1: the doubled value plus 12. */
Q8_INLINE __m512i codes_fp4(const unsigned char *p) {
    __m128i values = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), codes_nibbles(p));
}

Q8_INLINE __m512i codes_crumbs(const unsigned char *p) {
    __m512i x = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)p));
    __m512i shifts = _mm512_setr_epi64(0, 0, 2, 2, 4, 4, 6, 6);
    return _mm512_and_si512(_mm512_srlv_epi64(x, shifts), _mm512_set1_epi8(3));
}

Q8_INLINE __m512i codes_ternary(const unsigned char *p, __m128i shift) {
    return _mm512_and_si512(_mm512_srl_epi16(_mm512_loadu_si512(p), shift), _mm512_set1_epi8(3));
}

/* A block of 8 * bits bytes is loaded under a mask; its words are moved so that each quarter holds the bytes of 16 codes,
 * the first at index 0 or 2. Codes with even numbers then come out of 16-bit windows by a shift to the right, odd ones by
 * a shift to the left (simd/q8_bits.h). */
struct bit_tables {
    int32_t words[16];
    char even_bytes[64], odd_bytes[64];
    int16_t even_factors[32], odd_factors[32];
};

#define BIT_TABLES(bits, second, fourth)                                                                               \
    {Q8_EVEN_BYTES(bits, 0), Q8_EVEN_BYTES(bits, second), Q8_EVEN_BYTES(bits, 0), Q8_EVEN_BYTES(bits, fourth)},        \
        {Q8_ODD_BYTES(bits, 0), Q8_ODD_BYTES(bits, second), Q8_ODD_BYTES(bits, 0), Q8_ODD_BYTES(bits, fourth)},        \
        {Q8_EVEN_FACTORS(bits), Q8_EVEN_FACTORS(bits), Q8_EVEN_FACTORS(bits), Q8_EVEN_FACTORS(bits)}, {                \
        Q8_ODD_FACTORS(bits), Q8_ODD_FACTORS(bits), Q8_ODD_FACTORS(bits), Q8_ODD_FACTORS(bits)                         \
    }

static const struct bit_tables bits_3 = {{0, 1, 2, 3, 1, 2, 3, 4, 3, 4, 5, 5, 4, 5, 5, 5}, BIT_TABLES(3, 2, 2)};
static const struct bit_tables bits_5 = {{0, 1, 2, 3, 2, 3, 4, 5, 5, 6, 7, 8, 7, 8, 9, 9}, BIT_TABLES(5, 2, 2)};
static const struct bit_tables bits_6 = {{0, 1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9, 9, 10, 11, 11}, BIT_TABLES(6, 0, 0)};

Q8_INLINE __m512i codes_bits(int bits, const struct bit_tables *tables, const unsigned char *p) {
    __m512i from = _mm512_maskz_loadu_epi8((__mmask64)((1ull << (8 * bits)) - 1), p);
    from = _mm512_permutexvar_epi32(_mm512_loadu_si512(tables->words), from);
    __m512i even = _mm512_shuffle_epi8(from, _mm512_loadu_si512(tables->even_bytes));
    __m512i odd = _mm512_shuffle_epi8(from, _mm512_loadu_si512(tables->odd_bytes));
    even = _mm512_mulhi_epu16(even, _mm512_loadu_si512(tables->even_factors));
    odd = _mm512_mullo_epi16(odd, _mm512_loadu_si512(tables->odd_factors));
    __m512i mask = _mm512_set1_epi16((short)((1 << bits) - 1));
    return _mm512_or_si512(_mm512_and_si512(even, mask), _mm512_and_si512(odd, _mm512_slli_epi16(mask, 8)));
}

Q8_INLINE __m512i codes_load(enum weight_format format, const unsigned char *p, uint32_t shift) {
    switch (format) {
    case WEIGHT_AFFINE2: return codes_crumbs(p);
    case WEIGHT_AFFINE3: return codes_bits(3, &bits_3, p);
    case WEIGHT_AFFINE4: return codes_nibbles(p);
    case WEIGHT_AFFINE5: return codes_bits(5, &bits_5, p);
    case WEIGHT_AFFINE6: return codes_bits(6, &bits_6, p);
    case WEIGHT_TERNARY: return codes_ternary(p, _mm_cvtsi32_si128((int)shift));
    case WEIGHT_AFFINE8: return _mm512_loadu_si512(p);
    default: return codes_fp4(p);
    }
}

/* ---- dot products of a block: 16 lanes, still to be summed ---- */

/* A dot product as computed is the true one plus this times the sum of the activations. */
Q8_INLINE int dot_offset(enum weight_format format) { return q8_code_offset(format); }

/* With two groups each has its own quarters: bytes [0 0 1 1], nibbles [0 1 0 1], and crumbs are put in order as bytes.
 * With four, as nibbles: each quarter holds two groups, [0 0 1 1 | 2 2 3 3 | 0 0 1 1 | 2 2 3 3]. */
Q8_INLINE __m512i block_dot(enum weight_format format, int groups, __m512i codes, const int8_t *x) {
    __m512i dot = _mm512_dpbusd_epi32(_mm512_setzero_si512(), codes, _mm512_loadu_si512(x));
    if (groups == 2 && q8_order(format) == ACTIVATION_CRUMBS)
        dot = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), dot);
    return dot;
}

/* ---- sums of sixteen blocks' lanes together; partial results combine as the blocks come ---- */

/* a b: [a b a b] in each quarter; four groups: [a0 a1 b0 b1] or [a2 a3 b2 b3]. */
Q8_INLINE __m512i join_two(int groups, __m512i a, __m512i b) {
    if (groups < 4) return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    __m512 x = _mm512_castsi512_ps(a), y = _mm512_castsi512_ps(b);
    return _mm512_add_epi32(_mm512_castps_si512(_mm512_shuffle_ps(x, y, 0x88)),
                            _mm512_castps_si512(_mm512_shuffle_ps(x, y, 0xdd)));
}

/* ab, cd: [a b c d] in each quarter. Four groups: sorted in out[0] ([abcd]0 or 2), out[1] ([abcd]1 or 3). */
Q8_INLINE void join_four(int groups, __m512i ab, __m512i cd, __m512i out[2]) {
    if (groups < 4) {
        out[0] = out[1] = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
        return;
    }
    __m512 x = _mm512_castsi512_ps(ab), y = _mm512_castsi512_ps(cd);
    out[0] = _mm512_castps_si512(_mm512_shuffle_ps(x, y, 0x88));
    out[1] = _mm512_castps_si512(_mm512_shuffle_ps(x, y, 0xdd));
}

/* Quarters of a and b: [a b] each summed to two quarters, first with second or first with third. */
Q8_INLINE __m512i add_quarters(bool is_alternating, __m512i a, __m512i b) {
    if (is_alternating) return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x44), _mm512_shuffle_i32x4(a, b, 0xee));
    return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
}

/* Four vectors of four blocks each. */
Q8_INLINE void join_sixteen(enum weight_format format, int groups, __m512i fours[4][2], __m512i out[4]) {
    bool is_alternating = groups > 1 && q8_order(format) == ACTIVATION_NIBBLES;
    for (int part = 0; part < (groups == 4 ? 2 : 1); part++) {
        __m512i low = add_quarters(is_alternating, fours[0][part], fours[1][part]);
        __m512i high = add_quarters(is_alternating, fours[2][part], fours[3][part]);
        __m512i first = _mm512_shuffle_i32x4(low, high, 0x88), second = _mm512_shuffle_i32x4(low, high, 0xdd);
        if (groups == 1) {
            out[0] = _mm512_add_epi32(first, second);
        } else if (groups == 2) {
            out[0] = first;
            out[1] = second;
        } else {
            out[part] = first;
            out[2 + part] = second;
        }
    }
}

/* Integer dots of the blocks at `codes` with the rows x[r], lane = block; of n blocks only, the others give 0. */
Q8_INLINE void block_dots(enum weight_format format, int groups, int n_rows, uint32_t n, const unsigned char *codes,
                          uint32_t shift, const int8_t *const x[], __m512i out[][4]) {
    __m512i fours[4][4][2];
#pragma GCC unroll 4
    for (int f = 0; f < 4; f++) {
        __m512i twos[4][2];
#pragma GCC unroll 2
        for (int t = 0; t < 2; t++) {
            __m512i ones[4][2];
#pragma GCC unroll 2
            for (int i = 0; i < 2; i++) {
                uint32_t block = (uint32_t)(f * 4 + t * 2 + i);
                if (block < n) {
                    __m512i c = codes_load(format, codes + block * q8_block_bytes(format), shift);
#pragma GCC unroll 4
                    for (int r = 0; r < n_rows; r++) ones[r][i] = block_dot(format, groups, c, x[r] + block * 64);
                } else {
#pragma GCC unroll 4
                    for (int r = 0; r < n_rows; r++) ones[r][i] = _mm512_setzero_si512();
                }
            }
#pragma GCC unroll 4
            for (int r = 0; r < n_rows; r++) twos[r][t] = join_two(groups, ones[r][0], ones[r][1]);
        }
#pragma GCC unroll 4
        for (int r = 0; r < n_rows; r++) join_four(groups, twos[r][0], twos[r][1], fours[r][f]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++) join_sixteen(format, groups, fours[r], out[r]);
}

#endif
