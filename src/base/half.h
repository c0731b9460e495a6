/* SPDX-License-Identifier: Apache-2.0 */
/* 16-bit and 8-bit floating-point formats: exact widening to f32, and rounding to nearest, ties to even.
 *
 *   f16   1 sign, 5 exponent (bias 15), 10 fraction     IEEE 754 binary16
 *   bf16  1 sign, 8 exponent (bias 127), 7 fraction     the upper half of an f32
 *   e4m3  1 sign, 4 exponent (bias 7), 3 fraction       OCP FP8: no infinities, 0x7f and 0xff are NaN
 *   e2m1  1 sign, 2 exponent (bias 1), 1 fraction       OCP FP4: 0 .5 1 1.5 2 3 4 6
 *   e8m0  8 exponent (bias 127)                         OCP scale: 2^(code - 127) */
#ifndef MLXCEL_BASE_HALF_H
#define MLXCEL_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float f32_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t f32_to_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float bf16_to_f32(uint16_t code) { return f32_from_bits((uint32_t)code << 16); }

static inline uint16_t f32_to_bf16(float value) {
    uint32_t bits = f32_to_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40); /* NaN stays NaN */
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

static inline float f16_to_f32(uint16_t code) {
    uint32_t sign = (uint32_t)(code & 0x8000u) << 16, exponent = code >> 10 & 31, fraction = code & 0x3ffu;
    if (exponent == 31) return f32_from_bits(sign | 0x7f800000u | fraction << 13 | (fraction ? 0x400000u : 0));
    if (exponent) return f32_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
    float magnitude = (float)fraction * 0x1p-24f; /* zero and subnormals: exact */
    return f32_from_bits(sign | f32_to_bits(magnitude));
}

static inline uint16_t f32_to_f16(float value) {
    uint32_t bits = f32_to_bits(value), sign = bits >> 16 & 0x8000u;
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (bits >> 13 & 0x1ffu));
    if (bits >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and above round to infinity */
    if (bits < 0x38800000u) {                                   /* below 2^-14: subnormal in f16 */
        /* Adding 0.5 leaves the result, rounded to a multiple of 2^-24, in the low bits of the sum. */
        float shifted = f32_from_bits(bits) + 0.5f;
        return (uint16_t)(sign | (f32_to_bits(shifted) - 0x3f000000u));
    }
    uint32_t rounded = bits + 0xfffu + (bits >> 13 & 1);
    return (uint16_t)(sign | ((rounded >> 13) - (112u << 10)));
}

static inline float e4m3_to_f32(uint8_t code) {
    uint32_t sign = (uint32_t)(code & 0x80u) << 24, exponent = code >> 3 & 15, fraction = code & 7u;
    if (exponent == 15 && fraction == 7) return f32_from_bits(sign | 0x7fc00000u);
    if (exponent) return f32_from_bits(sign | (exponent + 120) << 23 | fraction << 20);
    return f32_from_bits(sign | f32_to_bits((float)fraction * 0x1p-9f));
}

/* Twice the value of an e2m1 code, which is an integer. */
static inline int e2m1_doubled(unsigned code) {
    static const signed char doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    return doubled[code & 15];
}

static inline float e8m0_to_f32(uint8_t code) {
    return code ? f32_from_bits((uint32_t)code << 23) : 0x1p-127f; /* code 255 (NaN in the standard) reads infinity */
}

#endif
