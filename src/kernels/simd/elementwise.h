/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise kernels, rotary embedding, and rows as matmul kernels want them. */
#include "kernels/simd/math.h"
#include "kernels/simd/simd.h"

void SIMD_NAME(add)(const float *a, const float *b, uint32_t n, float *y) {
    for (uint32_t k = 0; k < n; k += 16)
        lanes_store_some(y + k, lanes_add(lanes_load_some(a + k, n - k), lanes_load_some(b + k, n - k)), n - k);
}

void SIMD_NAME(multiply)(const float *a, const float *b, uint32_t n, float *y) {
    for (uint32_t k = 0; k < n; k += 16)
        lanes_store_some(y + k, lanes_mul(lanes_load_some(a + k, n - k), lanes_load_some(b + k, n - k)), n - k);
}

void SIMD_NAME(scale)(const float *x, float factor, uint32_t n, float *y) {
    lanes f = lanes_set1(factor);
    for (uint32_t k = 0; k < n; k += 16) lanes_store_some(y + k, lanes_mul(lanes_load_some(x + k, n - k), f), n - k);
}

void SIMD_NAME(add_scaled)(const float *x, float factor, uint32_t n, float *y) {
    lanes f = lanes_set1(factor);
    for (uint32_t k = 0; k < n; k += 16)
        lanes_store_some(y + k, lanes_fma(lanes_load_some(x + k, n - k), f, lanes_load_some(y + k, n - k)), n - k);
}

void SIMD_NAME(softcap)(const float *x, float cap, uint32_t n, float *y) {
    lanes c = lanes_set1(cap);
    for (uint32_t k = 0; k < n; k += 16)
        lanes_store_some(y + k, lanes_mul(c, lanes_tanh(lanes_div(lanes_load_some(x + k, n - k), c))), n - k);
}

void SIMD_NAME(clip)(const float *x, float low, float high, uint32_t n, float *y) {
    lanes least = lanes_set1(low), most = lanes_set1(high);
    for (uint32_t k = 0; k < n; k += 16) {
        lanes_store_some(y + k, lanes_min(most, lanes_max(least, lanes_load_some(x + k, n - k))), n - k);
    }
}

/* Functions of one kind each: the kind is a constant in the loop. */
#define FOR_ALL_UNARY(DO)                                                                                              \
    DO(UNARY_SILU)                                                                                                     \
    DO(UNARY_GELU_TANH)                                                                                                \
    DO(UNARY_GELU_ERF)                                                                                                 \
    DO(UNARY_RELU)                                                                                                     \
    DO(UNARY_RELU2) DO(UNARY_SIGMOID) DO(UNARY_SOFTPLUS) DO(UNARY_EXP) DO(UNARY_TANH) DO(UNARY_GELU_QUICK)

#define DEFINE_LOOPS(KIND)                                                                                             \
    SIMD_NOINLINE void apply_##KIND(const float *x, uint32_t n, float *y) {                                            \
        for (uint32_t k = 0; k < n; k += 16)                                                                           \
            lanes_store_some(y + k, lanes_unary(KIND, lanes_load_some(x + k, n - k)), n - k);                          \
    }                                                                                                                  \
    SIMD_NOINLINE void gate_##KIND(const float *gate, const float *up, uint32_t n, float *y) {                         \
        for (uint32_t k = 0; k < n; k += 16) {                                                                         \
            lanes f = lanes_unary(KIND, lanes_load_some(gate + k, n - k));                                             \
            lanes_store_some(y + k, lanes_mul(f, lanes_load_some(up + k, n - k)), n - k);                              \
        }                                                                                                              \
    }
FOR_ALL_UNARY(DEFINE_LOOPS)

void SIMD_NAME(unary)(enum unary kind, const float *x, uint32_t n, float *y) {
    static void (*const loops[N_UNARY])(const float *, uint32_t, float *) = {
#define ENTRY(KIND) [KIND] = apply_##KIND,
        FOR_ALL_UNARY(ENTRY)
#undef ENTRY
    };
    loops[kind](x, n, y);
}

void SIMD_NAME(gated)(enum unary kind, const float *gate, const float *up, uint32_t n, float *y) {
    static void (*const loops[N_UNARY])(const float *, const float *, uint32_t, float *) = {
#define ENTRY(KIND) [KIND] = gate_##KIND,
        FOR_ALL_UNARY(ENTRY)
#undef ENTRY
    };
    loops[kind](gate, up, n, y);
}

/* ---- rotary embedding ---- */

SIMD_INLINE lanes rotate_first(lanes a, lanes b, lanes cosine, lanes sine) {
    return lanes_fnma(b, sine, lanes_mul(a, cosine));
}
SIMD_INLINE lanes rotate_second(lanes a, lanes b, lanes cosine, lanes sine) {
    return lanes_fma(a, sine, lanes_mul(b, cosine));
}

void SIMD_NAME(rope_halves)(const float *x, const float *cosine, const float *sine, uint32_t n, float *y) {
    uint32_t half = n / 2;
    for (uint32_t k = 0; k < half; k += 16) {
        uint32_t left = half - k;
        lanes a = lanes_load_some(x + k, left), b = lanes_load_some(x + half + k, left);
        lanes c = lanes_load_some(cosine + k, left), s = lanes_load_some(sine + k, left);
        lanes_store_some(y + k, rotate_first(a, b, c, s), left);
        lanes_store_some(y + half + k, rotate_second(a, b, c, s), left);
    }
}

/* 16 pairs at p, the rest of a row shorter than that in a copy. */
SIMD_INLINE void rotate_pairs(const float *x, const float *cosine, const float *sine, uint32_t left, float *y) {
    lanes a, b, c = lanes_load_some(cosine, left), s = lanes_load_some(sine, left);
    lanes_unzip(x, &a, &b);
    lanes_zip_store(y, rotate_first(a, b, c, s), rotate_second(a, b, c, s));
}

void SIMD_NAME(rope_pairs)(const float *x, const float *cosine, const float *sine, uint32_t n, float *y) {
    uint32_t half = n / 2, k = 0;
    for (; k + 16 <= half; k += 16) rotate_pairs(x + 2 * k, cosine + k, sine + k, 16, y + 2 * k);
    if (k == half) return;
    float part[32] = {0}, rotated[32];
    for (uint32_t i = 0; i < 2 * (half - k); i++) part[i] = x[2 * k + i];
    rotate_pairs(part, cosine + k, sine + k, half - k, rotated);
    for (uint32_t i = 0; i < 2 * (half - k); i++) y[2 * k + i] = rotated[i];
}

/* ---- activations ---- */

void SIMD_NAME(to_f32)(const float *x, uint32_t n, void *out) {
    float *row = out;
    for (uint32_t k = 0; k < n; k += 16) lanes_store(row + k, lanes_load_some(x + k, n - k));
}

/* Rounds to bf16, the result in the low bits of each lane; NaN stays NaN. */
SIMD_INLINE ilanes round_to_bf16(lanes x) {
    ilanes bits = lanes_bits(x), upper = ilanes_shr(bits, 16);
    ilanes magnitude = ilanes_and(bits, ilanes_set1(0x7fffffff));
    ilanes last = ilanes_and(upper, ilanes_set1(1));
    ilanes rounded = ilanes_shr(ilanes_add(bits, ilanes_add(last, ilanes_set1(0x7fff))), 16);
    ilanes quiet = ilanes_or(upper, ilanes_set1(0x40));
    return ilanes_select(ilanes_greater(magnitude, ilanes_set1(0x7f800000)), quiet, rounded);
}

void SIMD_NAME(to_bf16)(const float *x, uint32_t n, void *out) {
    uint16_t *row = out;
    uint32_t padded = (n + 31) / 32 * 32;
    for (uint32_t k = 0; k < padded; k += 16) {
        lanes v = k < n ? lanes_load_some(x + k, n - k) : lanes_zero();
        halves_store(row + k, halves_from_lanes(round_to_bf16(v)));
    }
}
