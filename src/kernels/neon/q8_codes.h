/* SPDX-License-Identifier: Apache-2.0 */
/* Codes of a block of 64 columns, unpacked to signed bytes in the order of the activations. */
#ifndef MLXCEL_KERNELS_NEON_Q8_CODES_H
#define MLXCEL_KERNELS_NEON_Q8_CODES_H

#include "kernels/neon/q8_vec.h"

struct q8_codes {
    int8x16_t quarter[4];
};

/* Codes are the true integers, but for those of 8 bits, moved to -128 .. 127: a dot product as computed is the true one
 * plus this times the sum of the activations. */
Q8_INLINE int dot_offset(enum weight_format format) { return format == WEIGHT_AFFINE8 ? -128 : 0; }

Q8_INLINE int8x16_t bits_below(uint8x16_t x, int mask) {
    return vreinterpretq_s8_u8(vandq_u8(x, vdupq_n_u8((uint8_t)mask)));
}

Q8_INLINE struct q8_codes codes_nibbles(const unsigned char *p) {
    uint8x16_t a = vld1q_u8(p), b = vld1q_u8(p + 16);
    return (struct q8_codes){{bits_below(a, 15), bits_below(b, 15), vreinterpretq_s8_u8(vshrq_n_u8(a, 4)),
                              vreinterpretq_s8_u8(vshrq_n_u8(b, 4))}};
}

/* e2m1, doubled. */
Q8_INLINE struct q8_codes codes_fp4(const unsigned char *p) {
    static const int8_t values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    struct q8_codes c = codes_nibbles(p);
    int8x16_t table = vld1q_s8(values);
    for (int i = 0; i < 4; i++) c.quarter[i] = vqtbl1q_s8(table, vreinterpretq_u8_s8(c.quarter[i]));
    return c;
}

Q8_INLINE struct q8_codes codes_crumbs(const unsigned char *p) {
    uint8x16_t x = vld1q_u8(p);
    return (struct q8_codes){{bits_below(x, 3), bits_below(vshrq_n_u8(x, 2), 3), bits_below(vshrq_n_u8(x, 4), 3),
                              vreinterpretq_s8_u8(vshrq_n_u8(x, 6))}};
}

Q8_INLINE struct q8_codes codes_ternary(const unsigned char *p, uint32_t shift) {
    int8x16_t right = vdupq_n_s8((int8_t) - (int)shift);
    struct q8_codes c;
    for (int i = 0; i < 4; i++)
        c.quarter[i] = vsubq_s8(bits_below(vshlq_u8(vld1q_u8(p + 16 * i), right), 3), vdupq_n_s8(1));
    return c;
}

Q8_INLINE struct q8_codes codes_bytes(const unsigned char *p) {
    struct q8_codes c;
    for (int i = 0; i < 4; i++) c.quarter[i] = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(p + 16 * i), vdupq_n_u8(0x80)));
    return c;
}

/* The two bytes that code j of `bits` bits lies in, and how far it stands above their lowest bit. */
#define CODE_BYTES(bits, j) (j) * (bits) / 8, (j) * (bits) / 8 + 1
#define CODE_SHIFT(bits, j) -((j) * (bits) % 8)
#define CODES_8(PART, bits)                                                                                            \
    PART(bits, 0), PART(bits, 1), PART(bits, 2), PART(bits, 3), PART(bits, 4), PART(bits, 5), PART(bits, 6),           \
        PART(bits, 7)

/* 16 codes, which begin at byte `first` of the 16 at p. A pick of a byte past the 16 gives zero; it has no part in a
 * code. */
Q8_INLINE int8x16_t unpack_bits(const uint8_t places[16], const int16_t shifts[8], int bits, const unsigned char *p,
                                int first) {
    uint8x16_t x = vld1q_u8(p), at = vaddq_u8(vld1q_u8(places), vdupq_n_u8((uint8_t)first));
    int16x8_t shift = vld1q_s16(shifts);
    uint16x8_t low = vshlq_u16(vreinterpretq_u16_u8(vqtbl1q_u8(x, at)), shift);
    at = vaddq_u8(at, vdupq_n_u8((uint8_t)bits)); /* codes 8 .. 15 repeat the pattern so many bytes later */
    uint16x8_t high = vshlq_u16(vreinterpretq_u16_u8(vqtbl1q_u8(x, at)), shift);
    return bits_below(vuzp1q_u8(vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high)), (1 << bits) - 1);
}

/* Blocks of 64 codes; no load leaves the block's bytes. */
#define DEFINE_CODES(bits, at0, at1, at2, at3)                                                                         \
    Q8_INLINE struct q8_codes codes_##bits##_bits(const unsigned char *p) {                                            \
        static const uint8_t places[16] = {CODES_8(CODE_BYTES, bits)};                                                 \
        static const int16_t shifts[8] = {CODES_8(CODE_SHIFT, bits)};                                                  \
        return (struct q8_codes){{unpack_bits(places, shifts, bits, p + (at0), 0),                                     \
                                  unpack_bits(places, shifts, bits, p + (at1), 2 * (bits) - (at1)),                    \
                                  unpack_bits(places, shifts, bits, p + (at2), 4 * (bits) - (at2)),                    \
                                  unpack_bits(places, shifts, bits, p + (at3), 6 * (bits) - (at3))}};                  \
    }
DEFINE_CODES(3, 0, 0, 8, 8)
DEFINE_CODES(5, 0, 10, 20, 24)
DEFINE_CODES(6, 0, 12, 24, 32)

Q8_INLINE struct q8_codes codes_load(enum weight_format format, const unsigned char *p, uint32_t shift) {
    switch (format) {
    case WEIGHT_AFFINE2: return codes_crumbs(p);
    case WEIGHT_AFFINE3: return codes_3_bits(p);
    case WEIGHT_AFFINE4: return codes_nibbles(p);
    case WEIGHT_AFFINE5: return codes_5_bits(p);
    case WEIGHT_AFFINE6: return codes_6_bits(p);
    case WEIGHT_TERNARY: return codes_ternary(p, shift);
    case WEIGHT_AFFINE8: return codes_bytes(p);
    default: return codes_fp4(p);
    }
}

#endif
