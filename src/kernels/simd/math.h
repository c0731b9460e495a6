/* SPDX-License-Identifier: Apache-2.0 */
/* The elementary functions over 16 lanes: the steps of ref/math.h, one for one. */
#ifndef MLXCEL_KERNELS_SIMD_MATH_H
#define MLXCEL_KERNELS_SIMD_MATH_H

#include "kernels/constants.h"
#include "kernels/kernels.h"

#define LANES_STEP(p, x, c) lanes_fma(p, x, lanes_set1(c))

SIMD_INLINE lanes lanes_exp(lanes x) {
    lanes bounded = lanes_min(lanes_set1(EXP_HIGHEST), x); /* NaN stays */
    lanes t = lanes_fma(bounded, lanes_set1(EXP_LOG2E), lanes_set1(ROUND_MAGIC));
    lanes n = lanes_sub(t, lanes_set1(ROUND_MAGIC));
    lanes r = lanes_fma(n, lanes_set1(-EXP_LN2_HI), bounded);
    r = lanes_fma(n, lanes_set1(-EXP_LN2_LO), r);
    lanes p = LANES_STEP(lanes_set1(EXP_C0), r, EXP_C1);
    p = LANES_STEP(p, r, EXP_C2);
    p = LANES_STEP(p, r, EXP_C3);
    p = LANES_STEP(p, r, EXP_C4);
    p = LANES_STEP(p, r, EXP_C5);
    p = lanes_add(lanes_fma(p, lanes_mul(r, r), r), lanes_set1(1.0f));
    /* (bits(t) - ROUND_MAGIC_BITS + 127) << 23: only the low bits of the sum stay */
    ilanes power = ilanes_shl(ilanes_add(lanes_bits(t), ilanes_set1(127 - ROUND_MAGIC_BITS)), 23);
    return lanes_select(lanes_less(x, lanes_set1(EXP_LOWEST)), lanes_zero(), lanes_mul(p, lanes_from_bits(power)));
}

SIMD_INLINE lanes lanes_abs(lanes x) { return lanes_and(x, lanes_from_bits(ilanes_set1(0x7fffffff))); }
SIMD_INLINE lanes lanes_sign(lanes x) { return lanes_and(x, lanes_from_bits(ilanes_set1(INT32_MIN))); }
SIMD_INLINE lanes lanes_copysign(lanes x, lanes sign) { return lanes_or(lanes_abs(x), lanes_sign(sign)); }
SIMD_INLINE lanes lanes_negate(lanes x) { return lanes_sub(lanes_set1(-0.0f), x); /* exact, and -(+0) = -0 */ }

SIMD_INLINE lanes lanes_tanh(lanes x) {
    lanes a = lanes_abs(x), z = lanes_mul(x, x), one = lanes_set1(1.0f);
    lanes p = LANES_STEP(lanes_set1(TANH_C0), z, TANH_C1);
    p = LANES_STEP(p, z, TANH_C2);
    p = LANES_STEP(p, z, TANH_C3);
    p = LANES_STEP(p, z, TANH_C4);
    lanes small = lanes_fma(lanes_mul(p, z), x, x);
    lanes large = lanes_sub(one, lanes_div(lanes_set1(2.0f), lanes_add(lanes_exp(lanes_add(a, a)), one)));
    return lanes_select(lanes_less(a, lanes_set1(TANH_BORDER)), small, lanes_copysign(large, x));
}

SIMD_INLINE lanes lanes_erf(lanes x) {
    lanes a = lanes_abs(x), z = lanes_mul(x, x), one = lanes_set1(1.0f);
    lanes p = LANES_STEP(lanes_set1(ERF_P0), z, ERF_P1);
    p = LANES_STEP(p, z, ERF_P2);
    p = LANES_STEP(p, z, ERF_P3);
    p = LANES_STEP(p, z, ERF_P4);
    p = LANES_STEP(p, z, ERF_P5);
    p = LANES_STEP(p, z, ERF_P6);
    lanes t = lanes_div(one, lanes_fma(lanes_set1(0.5f), a, one));
    lanes q = LANES_STEP(lanes_set1(ERF_Q0), t, ERF_Q1);
    q = LANES_STEP(q, t, ERF_Q2);
    q = LANES_STEP(q, t, ERF_Q3);
    q = LANES_STEP(q, t, ERF_Q4);
    q = LANES_STEP(q, t, ERF_Q5);
    q = LANES_STEP(q, t, ERF_Q6);
    q = LANES_STEP(q, t, ERF_Q7);
    lanes large = lanes_fnma(lanes_exp(lanes_negate(z)), q, one);
    return lanes_select(lanes_less(a, one), lanes_mul(p, x), lanes_copysign(large, x));
}

SIMD_INLINE lanes lanes_one_plus_exp_minus(lanes x) { return lanes_add(lanes_set1(1.0f), lanes_exp(lanes_negate(x))); }
SIMD_INLINE lanes lanes_sigmoid(lanes x) { return lanes_div(lanes_set1(1.0f), lanes_one_plus_exp_minus(x)); }
SIMD_INLINE lanes lanes_silu(lanes x) { return lanes_div(x, lanes_one_plus_exp_minus(x)); }
SIMD_INLINE lanes lanes_gelu_quick(lanes x) {
    return lanes_div(x, lanes_add(lanes_set1(1.0f), lanes_exp(lanes_mul(lanes_set1(-1.702f), x))));
}
/* x < 0 ? 0 : x, and NaN stays */
SIMD_INLINE lanes lanes_relu(lanes x) { return lanes_max(lanes_zero(), x); }

SIMD_INLINE lanes lanes_softplus(lanes x) {
    lanes e = lanes_exp(lanes_negate(lanes_abs(x))), s = lanes_div(e, lanes_add(lanes_set1(2.0f), e)),
          z = lanes_mul(s, s);
    lanes p = LANES_STEP(lanes_set1(LOG1P_C0), z, LOG1P_C1);
    p = LANES_STEP(p, z, LOG1P_C2);
    p = LANES_STEP(p, z, LOG1P_C3);
    p = LANES_STEP(p, z, LOG1P_C4);
    p = LANES_STEP(p, z, LOG1P_C5);
    p = lanes_fma(lanes_mul(p, z), s, s);
    return lanes_add(lanes_relu(x), lanes_add(p, p));
}

SIMD_INLINE lanes lanes_gelu_tanh(lanes x) {
    lanes inner = lanes_fma(lanes_mul(lanes_set1(GELU_CUBIC), lanes_mul(x, x)), x, x);
    lanes half = lanes_mul(lanes_set1(0.5f), x);
    return lanes_fma(half, lanes_tanh(lanes_mul(lanes_set1(GELU_SQRT_2_OVER_PI), inner)), half);
}

SIMD_INLINE lanes lanes_gelu_erf(lanes x) {
    lanes half = lanes_mul(lanes_set1(0.5f), x);
    return lanes_fma(half, lanes_erf(lanes_mul(lanes_set1(SQRT_HALF), x)), half);
}

#undef LANES_STEP

/* kind is a constant wherever this is used in a loop. */
SIMD_INLINE lanes lanes_unary(enum unary kind, lanes x) {
    switch (kind) {
    case UNARY_SILU: return lanes_silu(x);
    case UNARY_GELU_TANH: return lanes_gelu_tanh(x);
    case UNARY_GELU_ERF: return lanes_gelu_erf(x);
    case UNARY_RELU: return lanes_relu(x);
    case UNARY_RELU2: return lanes_mul(lanes_relu(x), lanes_relu(x));
    case UNARY_SIGMOID: return lanes_sigmoid(x);
    case UNARY_SOFTPLUS: return lanes_softplus(x);
    case UNARY_EXP: return lanes_exp(x);
    case UNARY_GELU_QUICK: return lanes_gelu_quick(x);
    default: return lanes_tanh(x);
    }
}

/* acc + the product of up to 16 more elements by the 16-lane rule; lanes past n stay as they are (a product of -0 and
 * +0 changes no sum). */
SIMD_INLINE lanes lanes_dot_step(const float *a, const float *b, uint32_t n, lanes acc) {
    if (n >= 16) return lanes_fma(lanes_load(a), lanes_load(b), acc);
    return lanes_fma(lanes_load_part(a, n, -0.0f), lanes_load_part(b, n, 0.0f), acc);
}

SIMD_INLINE float lanes_dot(const float *a, const float *b, uint32_t n) {
    lanes acc = lanes_zero();
    uint32_t k = 0;
    for (; k + 16 <= n; k += 16) acc = lanes_fma(lanes_load(a + k), lanes_load(b + k), acc);
    if (k < n) acc = lanes_dot_step(a + k, b + k, n - k, acc);
    return lanes_sum(acc);
}

#endif
