/* SPDX-License-Identifier: Apache-2.0 */
/* Codes of a block of 64 columns, unpacked to bytes in the order of the activations, and their dot products. */
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
Q8_INLINE struct q8_codes codes_fp4(const unsigned char *p) {
    __m256i values = _mm256_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0, 12, 13, 14, 15, 16, 18,
                                      20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
    struct q8_codes c = codes_nibbles(p);
    for (int i = 0; i < 2; i++) c.half[i] = _mm256_shuffle_epi8(values, c.half[i]);
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

/* ---- dot products of a block: 8 lanes of 32 bits, or of pairs of 16 bits, still to be summed ---- */

/* Four products of the largest code fit 16 bits everywhere but for 8-bit codes; with 4-bit codes so do the sums of four
 * lanes, which spares half of the additions. */
Q8_INLINE bool dots_are_16_bit(enum weight_format format) { return q8_largest_code(format) <= 16; }

/* A dot product as computed is the true one plus this times the sum of the activations. 8-bit codes are moved to
 * -128 .. 127, since products of larger ones would saturate. */
Q8_INLINE int dot_offset(enum weight_format format) { return format == WEIGHT_AFFINE8 ? -128 : q8_code_offset(format); }

Q8_INLINE __m256i multiply_half(enum weight_format format, __m256i codes, const int8_t *x) {
    __m256i activations = _mm256_loadu_si256((const __m256i *)(const void *)x);
    if (format != WEIGHT_AFFINE8) return _mm256_maddubs_epi16(codes, activations);
    __m256i centred = _mm256_xor_si256(codes, _mm256_set1_epi8((char)0x80));
    __m256i products = _mm256_maddubs_epi16(_mm256_abs_epi8(centred), _mm256_sign_epi8(activations, centred));
    return _mm256_madd_epi16(products, _mm256_set1_epi16(1));
}

Q8_INLINE __m256i add_dots(enum weight_format format, __m256i a, __m256i b) {
    return format == WEIGHT_AFFINE8 ? _mm256_add_epi32(a, b) : _mm256_add_epi16(a, b);
}

/* With two or four groups, each has its own lanes: [0 | 1] or [0 0 1 1 | 2 2 3 3]. */
Q8_INLINE __m256i block_dot(enum weight_format format, int groups, struct q8_codes c, const int8_t *x) {
    __m256i low = multiply_half(format, c.half[0], x), high = multiply_half(format, c.half[1], x + 32);
    if (groups > 1 && q8_order(format) == ACTIVATION_BYTES) {
        __m256i a = _mm256_permute2x128_si256(low, high, 0x20), b = _mm256_permute2x128_si256(low, high, 0x31);
        low = a;
        high = b;
    }
    __m256i dot = add_dots(format, low, high);
    if (groups > 1 && q8_order(format) == ACTIVATION_CRUMBS) dot = _mm256_permute4x64_epi64(dot, 0xd8);
    if (dots_are_16_bit(format) || format == WEIGHT_AFFINE8) return dot;
    return _mm256_madd_epi16(dot, _mm256_set1_epi16(1));
}

/* ---- sums of eight blocks' lanes together; partial results combine as the blocks come ---- */

Q8_INLINE __m256i add_lanes(bool is_16_bit, __m256i a, __m256i b) {
    return is_16_bit ? _mm256_add_epi16(a, b) : _mm256_add_epi32(a, b);
}

/* a b: [a b a b | ..], or with four groups [a0 a1 b0 b1 | a2 a3 b2 b3]. */
Q8_INLINE __m256i join_two(enum weight_format format, int groups, __m256i a, __m256i b) {
    if (groups == 4) {
        __m256 x = _mm256_castsi256_ps(a), y = _mm256_castsi256_ps(b);
        return _mm256_add_epi32(_mm256_castps_si256(_mm256_shuffle_ps(x, y, 0x88)),
                                _mm256_castps_si256(_mm256_shuffle_ps(x, y, 0xdd)));
    }
    return add_lanes(dots_are_16_bit(format), _mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}

/* ab, cd: [a b c d | a b c d], 32 bits each. Four groups: not summed but sorted, [a b c d]0 | [..]2 and [..]1 | [..]3. */
Q8_INLINE void join_four(enum weight_format format, int groups, __m256i ab, __m256i cd, __m256i out[2]) {
    if (groups == 4) {
        __m256 x = _mm256_castsi256_ps(ab), y = _mm256_castsi256_ps(cd);
        out[0] = _mm256_castps_si256(_mm256_shuffle_ps(x, y, 0x88));
        out[1] = _mm256_castps_si256(_mm256_shuffle_ps(x, y, 0xdd));
        return;
    }
    bool is_16_bit = dots_are_16_bit(format);
    out[0] = add_lanes(is_16_bit, _mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
    if (is_16_bit) out[0] = _mm256_madd_epi16(out[0], _mm256_set1_epi16(1));
    out[1] = out[0];
}

Q8_INLINE void join_eight(int groups, const __m256i abcd[2], const __m256i efgh[2], __m256i out[]) {
    __m256i low = _mm256_permute2x128_si256(abcd[0], efgh[0], 0x20);
    __m256i high = _mm256_permute2x128_si256(abcd[0], efgh[0], 0x31);
    if (groups == 1) {
        out[0] = _mm256_add_epi32(low, high);
        return;
    }
    out[0] = low;
    if (groups == 2) {
        out[1] = high;
        return;
    }
    out[2] = high;
    out[1] = _mm256_permute2x128_si256(abcd[1], efgh[1], 0x20);
    out[3] = _mm256_permute2x128_si256(abcd[1], efgh[1], 0x31);
}

/* Integer dots of the blocks at `codes` with the rows x[r], lane = block; of n blocks only, the others give 0. */
Q8_INLINE void block_dots(enum weight_format format, int groups, int n_rows, uint32_t n, const unsigned char *codes,
                          uint32_t shift, const int8_t *const x[], __m256i out[][4]) {
    __m256i fours[4][2][2];
#pragma GCC unroll 2
    for (int f = 0; f < 2; f++) {
        __m256i twos[4][2];
#pragma GCC unroll 2
        for (int t = 0; t < 2; t++) {
            __m256i ones[4][2];
#pragma GCC unroll 2
            for (int i = 0; i < 2; i++) {
                uint32_t block = (uint32_t)(f * 4 + t * 2 + i);
                if (block < n) {
                    struct q8_codes c = codes_load(format, codes + block * q8_block_bytes(format), shift);
#pragma GCC unroll 4
                    for (int r = 0; r < n_rows; r++) ones[r][i] = block_dot(format, groups, c, x[r] + block * 64);
                } else {
#pragma GCC unroll 4
                    for (int r = 0; r < n_rows; r++) ones[r][i] = _mm256_setzero_si256();
                }
            }
#pragma GCC unroll 4
            for (int r = 0; r < n_rows; r++) twos[r][t] = join_two(format, groups, ones[r][0], ones[r][1]);
        }
#pragma GCC unroll 4
        for (int r = 0; r < n_rows; r++) join_four(format, groups, twos[r][0], twos[r][1], fours[r][f]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++) join_eight(groups, fours[r][0], fours[r][1], out[r]);
}

#endif
