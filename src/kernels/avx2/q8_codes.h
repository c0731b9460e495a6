/* SPDX-License-Identifier: Apache-2.0 */
/* Codes of a block of 64 columns, unpacked to bytes in the order of the activations. */
#ifndef MLXCEL_KERNELS_AVX2_Q8_CODES_H
#define MLXCEL_KERNELS_AVX2_Q8_CODES_H

#include "kernels/avx2/q8_vec.h"
#include "kernels/simd/q8_bits.h"

/* 64 unsigned bytes. */
struct q8_codes {
    __m256i half[2];
};

/* Without the empty statement gcc reads memory again for a second use, which costs another load across cache lines. */
Q8_INLINE __m256i load_32(const unsigned char *p) {
    __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)p);
    __asm__("" : "+x"(x));
    return x;
}
Q8_INLINE __m128i load_16(const unsigned char *p) { return _mm_loadu_si128((const __m128i *)(const void *)p); }
Q8_INLINE __m256i load_16_twice(const unsigned char *p) { return _mm256_broadcastsi128_si256(load_16(p)); }
Q8_INLINE __m256i load_16_and_16(const unsigned char *low, const unsigned char *high) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load_16(low)), load_16(high), 1);
}

Q8_INLINE struct q8_codes codes_nibbles(const unsigned char *p) {
    __m256i x = load_32(p), mask = _mm256_set1_epi8(15);
    return (struct q8_codes){{_mm256_and_si256(x, mask), _mm256_and_si256(_mm256_srli_epi16(x, 4), mask)}};
}

/* e2m1: the doubled value plus 12. */
Q8_INLINE __m256i fp4_values(__m256i nibbles) {
    __m256i values = _mm256_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0, 12, 13, 14, 15, 16, 18,
                                      20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
    return _mm256_shuffle_epi8(values, nibbles);
}
Q8_INLINE struct q8_codes codes_fp4(const unsigned char *p) {
    struct q8_codes c = codes_nibbles(p);
    for (int i = 0; i < 2; i++) c.half[i] = fp4_values(c.half[i]);
    return c;
}

Q8_INLINE struct q8_codes codes_crumbs(const unsigned char *p) {
    __m256i mask = _mm256_set1_epi8(3);
    __m256i x = _mm256_srlv_epi32(load_16_twice(p), _mm256_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2));
    return (struct q8_codes){{_mm256_and_si256(x, mask), _mm256_and_si256(_mm256_srli_epi32(x, 4), mask)}};
}

Q8_INLINE struct q8_codes codes_ternary(const unsigned char *p, __m128i shift) {
    __m256i mask = _mm256_set1_epi8(3);
    return (struct q8_codes){{_mm256_and_si256(_mm256_srl_epi16(load_32(p), shift), mask),
                              _mm256_and_si256(_mm256_srl_epi16(load_32(p + 32), shift), mask)}};
}

/* 32 codes of `bits` bits. `from` has 16 codes' bytes in each half, their first byte at index `low`, `high`. Codes with
 * even numbers come out of 16-bit windows by a shift to the right, odd ones by a shift to the left (simd/q8_bits.h). */
#define UNPACK_BITS(bits, from, low, high)                                                                             \
    unpack_bits((from), _mm256_setr_epi8(Q8_EVEN_BYTES(bits, low), Q8_EVEN_BYTES(bits, high)),                         \
                _mm256_setr_epi8(Q8_ODD_BYTES(bits, low), Q8_ODD_BYTES(bits, high)),                                   \
                _mm256_setr_epi16(Q8_EVEN_FACTORS(bits), Q8_EVEN_FACTORS(bits)),                                       \
                _mm256_setr_epi16(Q8_ODD_FACTORS(bits), Q8_ODD_FACTORS(bits)), (1 << (bits)) - 1)

Q8_INLINE __m256i unpack_bits(__m256i from, __m256i even_bytes, __m256i odd_bytes, __m256i even_factors,
                              __m256i odd_factors, int mask) {
    __m256i even = _mm256_mulhi_epu16(_mm256_shuffle_epi8(from, even_bytes), even_factors);
    __m256i odd = _mm256_mullo_epi16(_mm256_shuffle_epi8(from, odd_bytes), odd_factors);
    even = _mm256_and_si256(even, _mm256_set1_epi16((short)mask));
    odd = _mm256_and_si256(odd, _mm256_set1_epi16((short)(mask << 8)));
    return _mm256_or_si256(even, odd);
}

/* No load leaves the block's bytes. */
Q8_INLINE struct q8_codes codes_3_bits(const unsigned char *p) {
    return (struct q8_codes){{UNPACK_BITS(3, load_16_twice(p), 0, 6), UNPACK_BITS(3, load_16_twice(p + 8), 4, 10)}};
}

Q8_INLINE struct q8_codes codes_5_bits(const unsigned char *p) {
    return (struct q8_codes){
        {UNPACK_BITS(5, load_16_and_16(p, p + 10), 0, 0), UNPACK_BITS(5, load_16_and_16(p + 20, p + 24), 0, 6)}};
}

Q8_INLINE struct q8_codes codes_6_bits(const unsigned char *p) {
    return (struct q8_codes){
        {UNPACK_BITS(6, load_16_and_16(p, p + 12), 0, 0), UNPACK_BITS(6, load_16_and_16(p + 24, p + 32), 0, 4)}};
}

Q8_INLINE struct q8_codes codes_load(enum weight_format format, const unsigned char *p, uint32_t shift) {
    switch (format) {
    case WEIGHT_AFFINE2: return codes_crumbs(p);
    case WEIGHT_AFFINE3: return codes_3_bits(p);
    case WEIGHT_AFFINE4: return codes_nibbles(p);
    case WEIGHT_AFFINE5: return codes_5_bits(p);
    case WEIGHT_AFFINE6: return codes_6_bits(p);
    case WEIGHT_TERNARY: return codes_ternary(p, _mm_cvtsi32_si128((int)shift));
    case WEIGHT_AFFINE8: return (struct q8_codes){{load_32(p), load_32(p + 32)}};
    default: return codes_fp4(p);
    }
}

#endif
