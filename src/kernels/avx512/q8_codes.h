/* SPDX-License-Identifier: Apache-2.0 */
/* Codes of a block of 64 columns, unpacked to bytes in the order of the activations. */
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
Q8_INLINE __m512i fp4_values(__m512i nibbles) {
    __m128i values = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), nibbles);
}
Q8_INLINE __m512i codes_fp4(const unsigned char *p) { return fp4_values(codes_nibbles(p)); }

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

#endif
