/* SPDX-License-Identifier: Apache-2.0 */
/* The elementary functions and the 16-lane dot product, step by step. Every step is one correctly rounded operation of
 * IEEE 754 or an integer operation, so that vector code can do the same. */
#ifndef MLXCEL_KERNELS_REF_MATH_H
#define MLXCEL_KERNELS_REF_MATH_H

#include "base/half.h"
#include "kernels/constants.h"

#include <stdint.h>

/* kernels/ref is compiled twice: with and without the processor's fused multiply-add. */
#ifdef REF_WITH_FMA
#define REF_NAME(name) ref_fma_##name
#else
#define REF_NAME(name) ref_##name
#endif

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
static inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
/* a * b + c with one rounding. The product is exact in double. The sum is rounded to odd (Boldo and Melquiond 2008), so
 * that the second rounding, to float, cannot go wrong. */
static inline float fused(float a, float b, float c) {
    double product = (double)a * (double)b, addend = (double)c, sum = product + addend;
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if ((bits >> 52 & 0x7ff) == 0x7ff || sum == 0) return (float)sum;
    double part = sum - product, error = (product - (sum - part)) + (addend - part); /* Knuth's two-sum */
    if (error != 0 && !(bits & 1)) {
        bits = (error > 0) == (sum > 0) ? bits + 1 : bits - 1;
        memcpy(&sum, &bits, sizeof sum);
    }
    return (float)sum;
}
#endif

/* rint of |x| < 2^22, as the low bits of the returned float. */
static inline float round_magic(float x) { return x + ROUND_MAGIC; }

static inline float math_exp(float x) {
    float bounded = EXP_HIGHEST < x ? EXP_HIGHEST : x; /* NaN stays */
    float t = fused(bounded, EXP_LOG2E, ROUND_MAGIC), n = t - ROUND_MAGIC;
    float r = fused(n, -EXP_LN2_HI, bounded);
    r = fused(n, -EXP_LN2_LO, r);
    float p = fused(EXP_C0, r, EXP_C1);
    p = fused(p, r, EXP_C2);
    p = fused(p, r, EXP_C3);
    p = fused(p, r, EXP_C4);
    p = fused(p, r, EXP_C5);
    p = fused(p, r * r, r) + 1.0f;
    float power = f32_from_bits((f32_to_bits(t) - ROUND_MAGIC_BITS + 127) << 23);
    return x < EXP_LOWEST ? 0.0f : p * power;
}

static inline float math_abs(float x) { return f32_from_bits(f32_to_bits(x) & 0x7fffffffu); }
static inline float math_copysign(float x, float sign) {
    return f32_from_bits((f32_to_bits(x) & 0x7fffffffu) | (f32_to_bits(sign) & 0x80000000u));
}

static inline float math_tanh(float x) {
    float a = math_abs(x), z = x * x;
    float p = fused(TANH_C0, z, TANH_C1);
    p = fused(p, z, TANH_C2);
    p = fused(p, z, TANH_C3);
    p = fused(p, z, TANH_C4);
    float small = fused(p * z, x, x);
    float large = 1.0f - 2.0f / (math_exp(a + a) + 1.0f);
    return a < TANH_BORDER ? small : math_copysign(large, x);
}

static inline float math_erf(float x) {
    float a = math_abs(x), z = x * x;
    float p = fused(ERF_P0, z, ERF_P1);
    p = fused(p, z, ERF_P2);
    p = fused(p, z, ERF_P3);
    p = fused(p, z, ERF_P4);
    p = fused(p, z, ERF_P5);
    p = fused(p, z, ERF_P6);
    float t = 1.0f / fused(0.5f, a, 1.0f);
    float q = fused(ERF_Q0, t, ERF_Q1);
    q = fused(q, t, ERF_Q2);
    q = fused(q, t, ERF_Q3);
    q = fused(q, t, ERF_Q4);
    q = fused(q, t, ERF_Q5);
    q = fused(q, t, ERF_Q6);
    q = fused(q, t, ERF_Q7);
    float large = fused(-math_exp(-z), q, 1.0f);
    return a < 1.0f ? p * x : math_copysign(large, x);
}

static inline float math_sigmoid(float x) { return 1.0f / (1.0f + math_exp(-x)); }
static inline float math_silu(float x) { return x / (1.0f + math_exp(-x)); }
static inline float math_gelu_quick(float x) { return x / (1.0f + math_exp(-1.702f * x)); }

static inline float math_softplus(float x) {
    float e = math_exp(-math_abs(x)), s = e / (2.0f + e), z = s * s;
    float p = fused(LOG1P_C0, z, LOG1P_C1);
    p = fused(p, z, LOG1P_C2);
    p = fused(p, z, LOG1P_C3);
    p = fused(p, z, LOG1P_C4);
    p = fused(p, z, LOG1P_C5);
    p = fused(p * z, s, s);
    return (x < 0.0f ? 0.0f : x) + (p + p);
}

static inline float math_gelu_tanh(float x) {
    float inner = fused(GELU_CUBIC * (x * x), x, x), half = 0.5f * x;
    return fused(half, math_tanh(GELU_SQRT_2_OVER_PI * inner), half);
}

static inline float math_gelu_erf(float x) {
    float half = 0.5f * x;
    return fused(half, math_erf(SQRT_HALF * x), half);
}

/* The end of the 16-lane rule. */
static inline float lanes_sum(const float lanes[16]) {
    float a[8], b[4];
    for (int l = 0; l < 8; l++) a[l] = lanes[l] + lanes[l + 8];
    for (int l = 0; l < 4; l++) b[l] = a[l] + a[l + 4];
    return (b[0] + b[2]) + (b[1] + b[3]);
}

static inline float dot16(const float *a, const float *b, uint32_t n) {
    float lanes[16] = {0};
    for (uint32_t k = 0; k < n; k++) lanes[k & 15] = fused(a[k], b[k], lanes[k & 15]);
    return lanes_sum(lanes);
}

#endif
