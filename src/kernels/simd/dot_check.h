/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the processor's dot product of bf16 pairs is the bf16 rule: both on some thousand random operands, among them
 * many whose results are denormal or nearly so, and many that cancel. */
#include "base/rng.h"
#include "kernels/simd/simd.h"

#include <stdbool.h>

enum { DOT_ROUNDS = 4096 };

/* Bits of a bf16 in the upper half, with an exponent near `exponent`. */
static uint32_t random_bf16(uint64_t *random, uint32_t exponent) {
    uint64_t word = rng_next(random);
    return (uint32_t)(word & 0x80000000u) | ((exponent + (uint32_t)(word >> 40 & 7)) & 0xff) << 23 |
           (uint32_t)(word & 0x7f0000u);
}

/* Exponents of the factors and of the sum, so that the products meet the sum: results around 2^-126, around 1, at the
 * upper end, and denormal inputs. */
static void random_operands(uint64_t *random, uint32_t round, uint32_t a[16], uint32_t b[16], uint32_t sum[16]) {
    static const uint32_t exponents[][3] = {{62, 58, 0},     {124, 124, 124}, {60, 60, 1},
                                            {190, 190, 249}, {0, 120, 0},     {66, 62, 2}};
    const uint32_t *e = exponents[round % (sizeof exponents / sizeof *exponents)];
    for (int i = 0; i < 16; i++) {
        a[i] = random_bf16(random, e[0]) | random_bf16(random, e[0]) >> 16;
        b[i] = random_bf16(random, e[1]) | random_bf16(random, e[1]) >> 16;
        sum[i] = random_bf16(random, e[2]) | (uint32_t)(rng_next(random) & 0xffff);
        if (rng_next(random) % 4 == 0) b[i] ^= 0x8000; /* the products cancel as often as not */
    }
}

SIMD_NOINLINE void by_fma(const uint32_t a[16], const uint32_t b[16], uint32_t sum[16]) {
    ivec upper = ivec_set1((int32_t)0xffff0000u);
    for (int v = 0; v < LANE_VECS; v++) {
        ivec x = ivec_load(a + v * VEC_FLOATS), y = ivec_load(b + v * VEC_FLOATS);
        vec s = vec_from_bits(ivec_load(sum + v * VEC_FLOATS));
        s = vec_fma(vec_from_bits(ivec_and(x, upper)), vec_from_bits(ivec_and(y, upper)), s);
        s = vec_fma(vec_from_bits(ivec_shl(x, 16)), vec_from_bits(ivec_shl(y, 16)), s);
        vec_store((float *)(void *)(sum + v * VEC_FLOATS), s);
    }
}

SIMD_NOINLINE void by_dot(const uint32_t a[16], const uint32_t b[16], uint32_t sum[16]) {
    for (int v = 0; v < LANE_VECS; v++) {
        vec s = vec_from_bits(ivec_load(sum + v * VEC_FLOATS));
        vec_dot_pairs_to(&s, vec_from_bits(ivec_load(a + v * VEC_FLOATS)),
                         vec_from_bits(ivec_load(b + v * VEC_FLOATS)));
        vec_store((float *)(void *)(sum + v * VEC_FLOATS), s);
    }
}

static bool is_nan(uint32_t bits) { return (bits & 0x7fffffffu) > 0x7f800000u; }

bool SIMD_NAME(dot_pairs_is_exact)(void) {
    uint64_t random = 1;
    for (uint32_t round = 0; round < DOT_ROUNDS; round++) {
        uint32_t a[16], b[16], fma_sum[16], dot_sum[16];
        random_operands(&random, round, a, b, fma_sum);
        for (int i = 0; i < 16; i++) dot_sum[i] = fma_sum[i];
        simd_mode mode = simd_flush_on();
        by_fma(a, b, fma_sum);
        simd_mode_restore(mode);
        by_dot(a, b, dot_sum);
        for (int i = 0; i < 16; i++)
            if (fma_sum[i] != dot_sum[i] && !(is_nan(fma_sum[i]) && is_nan(dot_sum[i]))) return false;
    }
    return true;
}
