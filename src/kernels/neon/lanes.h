/* SPDX-License-Identifier: Apache-2.0 */
/* What the templates of kernels/simd need from NEON: a register of 4 floats; four are 16 lanes. */
#ifndef MLXCEL_KERNELS_NEON_LANES_H
#define MLXCEL_KERNELS_NEON_LANES_H

#include "kernels/simd/base.h"

#include <arm_neon.h>
#include <string.h>

#define SIMD_NAME(name) neon_##name
#define SIMD_TIER       TIER_NEON

enum { VEC_FLOATS = 4, LANE_VECS = 4 };
#define TILE_WEIGHTS   3 /* 24 of 32 registers hold sums */
#define TILE_ROWS      2
#define STREAM_WEIGHTS 2 /* where the weights come straight from memory */
#define STREAM_ROWS    2

/* Attention: lanes beside 1, 2, 3, 4 queries in a tile; the most queries of one tile, and of several. */
enum { ATTENTION_LANES_1 = 4, ATTENTION_LANES_2 = 2, ATTENTION_LANES_3 = 2, ATTENTION_LANES_4 = 1 };
enum { ATTENTION_MOST = 4, ATTENTION_BEST = 3 };
#define ATTENTION_FOR_TILES(DO, FORMAT) DO(FORMAT, 1) DO(FORMAT, 2) DO(FORMAT, 3) DO(FORMAT, 4)

typedef float32x4_t vec;
typedef uint32x4_t ivec;
typedef uint32x4_t vec_mask; /* all bits of an element or none */

/* ---- f32 ---- */

SIMD_INLINE vec vec_zero(void) { return vdupq_n_f32(0.0f); }
SIMD_INLINE vec vec_set1(float x) { return vdupq_n_f32(x); }
SIMD_INLINE vec vec_load(const float *p) { return vld1q_f32(p); }
SIMD_INLINE void vec_store(float *p, vec v) { vst1q_f32(p, v); }
SIMD_INLINE vec vec_add(vec a, vec b) { return vaddq_f32(a, b); }
SIMD_INLINE vec vec_sub(vec a, vec b) { return vsubq_f32(a, b); }
SIMD_INLINE vec vec_mul(vec a, vec b) { return vmulq_f32(a, b); }
SIMD_INLINE vec vec_sqrt(vec a) { return vsqrtq_f32(a); }
SIMD_INLINE vec vec_div(vec a, vec b) { return vdivq_f32(a, b); }
SIMD_INLINE vec vec_fma(vec a, vec b, vec c) { return vfmaq_f32(c, a, b); }
SIMD_INLINE vec vec_fnma(vec a, vec b, vec c) { return vfmsq_f32(c, a, b); }
SIMD_INLINE void vec_fma_to(vec *sum, vec a, vec b) { *sum = vfmaq_f32(*sum, a, b); }
/* fmin and fmax of the processor treat NaN otherwise than C's comparisons. */
SIMD_INLINE vec vec_min(vec a, vec b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
SIMD_INLINE vec vec_max(vec a, vec b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
SIMD_INLINE vec vec_from_bits(ivec a) { return vreinterpretq_f32_u32(a); }
SIMD_INLINE ivec vec_bits(vec a) { return vreinterpretq_u32_f32(a); }
SIMD_INLINE vec vec_and(vec a, vec b) { return vec_from_bits(vandq_u32(vec_bits(a), vec_bits(b))); }
SIMD_INLINE vec vec_or(vec a, vec b) { return vec_from_bits(vorrq_u32(vec_bits(a), vec_bits(b))); }
SIMD_INLINE vec_mask vec_less(vec a, vec b) { return vcltq_f32(a, b); }
SIMD_INLINE vec vec_select(vec_mask mask, vec yes, vec no) { return vbslq_f32(mask, yes, no); }

/* ---- i32 ---- */

SIMD_INLINE ivec ivec_set1(int32_t x) { return vdupq_n_u32((uint32_t)x); }
SIMD_INLINE ivec ivec_load(const void *p) { return vreinterpretq_u32_u8(vld1q_u8(p)); }
SIMD_INLINE ivec ivec_add(ivec a, ivec b) { return vaddq_u32(a, b); }
SIMD_INLINE ivec ivec_and(ivec a, ivec b) { return vandq_u32(a, b); }
SIMD_INLINE ivec ivec_or(ivec a, ivec b) { return vorrq_u32(a, b); }
SIMD_INLINE ivec ivec_shl(ivec a, int n) { return a << n; }
SIMD_INLINE ivec ivec_shr(ivec a, int n) { return a >> n; }
SIMD_INLINE ivec ivec_shr_each(ivec a, ivec n) { return a >> n; }
SIMD_INLINE vec_mask ivec_greater(ivec a, ivec b) {
    return vcgtq_s32(vreinterpretq_s32_u32(a), vreinterpretq_s32_u32(b));
}
SIMD_INLINE ivec ivec_select(vec_mask mask, ivec yes, ivec no) { return vbslq_u32(mask, yes, no); }
SIMD_INLINE vec vec_from_int(ivec a) { return vcvtq_f32_s32(vreinterpretq_s32_u32(a)); }

/* 16 bytes to every quarter of a register, of which there is one; bytes picked from it. */
SIMD_INLINE ivec ivec_repeat16(const void *p) { return ivec_load(p); }
SIMD_INLINE ivec ivec_pick_bytes(ivec a, ivec places) {
    return vreinterpretq_u32_u8(vqtbl1q_u8(vreinterpretq_u8_u32(a), vreinterpretq_u8_u32(places)));
}
/* 4 bytes, each to 32 bits without sign. */
SIMD_INLINE ivec ivec_from_bytes(const unsigned char *p) {
    uint32_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    return vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(bytes))));
}

/* A register that the compiler must not know. */
#define SIMD_KEEP(v) __asm__ volatile("" : "+w"(v))

/* ---- 16 numbers of 16 bits ---- */

typedef struct {
    uint16x8_t v[2];
} halves;

#define HALVES(low, high) ((halves){{(low), (high)}})

SIMD_INLINE halves halves_load(const void *p) {
    const uint8_t *bytes = p;
    return HALVES(vreinterpretq_u16_u8(vld1q_u8(bytes)), vreinterpretq_u16_u8(vld1q_u8(bytes + 16)));
}
SIMD_INLINE void halves_store(void *p, halves a) {
    uint8_t *bytes = p;
    vst1q_u8(bytes, vreinterpretq_u8_u16(a.v[0]));
    vst1q_u8(bytes + 16, vreinterpretq_u8_u16(a.v[1]));
}
SIMD_INLINE halves halves_from_bytes(const unsigned char *p) {
    uint8x16_t bytes = vld1q_u8(p);
    return HALVES(vmovl_u8(vget_low_u8(bytes)), vmovl_high_u8(bytes));
}
SIMD_INLINE halves halves_set1(int x) { return HALVES(vdupq_n_u16((uint16_t)x), vdupq_n_u16((uint16_t)x)); }
SIMD_INLINE halves halves_and(halves a, halves b) {
    return HALVES(vandq_u16(a.v[0], b.v[0]), vandq_u16(a.v[1], b.v[1]));
}
SIMD_INLINE halves halves_or(halves a, halves b) {
    return HALVES(vorrq_u16(a.v[0], b.v[0]), vorrq_u16(a.v[1], b.v[1]));
}
SIMD_INLINE halves halves_shl(halves a, int n) { return HALVES(a.v[0] << n, a.v[1] << n); }
SIMD_INLINE halves halves_shr(halves a, int n) { return HALVES(a.v[0] >> n, a.v[1] >> n); }
SIMD_INLINE halves halves_equal(halves a, halves b) {
    return HALVES(vceqq_u16(a.v[0], b.v[0]), vceqq_u16(a.v[1], b.v[1]));
}

SIMD_INLINE vec vec_load_f16(const void *p) { return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p))); }

#include "kernels/simd/lanes.h"

SIMD_INLINE lanes lanes_from_f16(halves h) {
    float16x8_t low = vreinterpretq_f16_u16(h.v[0]), high = vreinterpretq_f16_u16(h.v[1]);
    return (lanes){{vcvt_f32_f16(vget_low_f16(low)), vcvt_high_f32_f16(low), vcvt_f32_f16(vget_low_f16(high)),
                    vcvt_high_f32_f16(high)}};
}
/* 16 bf16 in order. */
SIMD_INLINE lanes lanes_load_bf16(const void *p) {
    halves h = halves_load(p);
    return (lanes){{vec_from_bits(vshll_n_u16(vget_low_u16(h.v[0]), 16)), vec_from_bits(vshll_high_n_u16(h.v[0], 16)),
                    vec_from_bits(vshll_n_u16(vget_low_u16(h.v[1]), 16)), vec_from_bits(vshll_high_n_u16(h.v[1], 16))}};
}
SIMD_INLINE halves lanes_to_f16(lanes a) {
    return HALVES(vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(a.v[0]), a.v[1])),
                  vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(a.v[2]), a.v[3])));
}
/* The low 16 bits of each lane. */
SIMD_INLINE halves halves_from_lanes(ilanes a) {
    return HALVES(vmovn_high_u32(vmovn_u32(a.v[0]), a.v[1]), vmovn_high_u32(vmovn_u32(a.v[2]), a.v[3]));
}

/* ---- sums of lanes ---- */

/* (l, l+8), (l, l+4): four lanes are left. */
SIMD_INLINE vec neon_sum_to_4(lanes a) { return vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3])); }

SIMD_INLINE float lanes_sum(lanes a) {
    vec four = neon_sum_to_4(a);
    float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

/* The largest lane; any of them where one is NaN. */
SIMD_INLINE float lanes_largest(lanes a) {
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(a.v[0], a.v[1]), vmaxq_f32(a.v[2], a.v[3])));
}

/* Of two registers of four lanes of different sums: (l, l+2) side by side. */
SIMD_INLINE vec neon_pair_2(vec a, vec b) {
    float64x2_t x = vreinterpretq_f64_f32(a), y = vreinterpretq_f64_f32(b);
    return vaddq_f32(vreinterpretq_f32_f64(vzip1q_f64(x, y)), vreinterpretq_f32_f64(vzip2q_f64(x, y)));
}

/* Sixteen lanes_sum at once: element i is that of the i-th 16 floats at p. */
SIMD_INLINE lanes lanes_sum_16(const float *p) {
    lanes y;
    SIMD_UNROLL for (int i = 0; i < 4; i++, p += 64) {
        vec a = neon_sum_to_4(lanes_load(p)), b = neon_sum_to_4(lanes_load(p + 16));
        vec c = neon_sum_to_4(lanes_load(p + 32)), d = neon_sum_to_4(lanes_load(p + 48));
        y.v[i] = vpaddq_f32(neon_pair_2(a, b), neon_pair_2(c, d));
    }
    return y;
}

/* ---- even and odd elements ---- */

/* 32 floats at p: those at even places, those at odd places. */
SIMD_INLINE void lanes_unzip(const float *p, lanes *even, lanes *odd) {
    SIMD_UNROLL for (int i = 0; i < 4; i++) {
        float32x4x2_t pair = vld2q_f32(p + 8 * i);
        even->v[i] = pair.val[0];
        odd->v[i] = pair.val[1];
    }
}
SIMD_INLINE void lanes_zip_store(float *p, lanes even, lanes odd) {
    SIMD_UNROLL for (int i = 0; i < 4; i++) {
        float32x4x2_t pair = {{even.v[i], odd.v[i]}};
        vst2q_f32(p + 8 * i, pair);
    }
}

/* ---- denormal numbers as zero, for the bf16 rule ----
 *
 * The rule asks after its rounding whether a result is tiny, as x86 does. This processor asks before it: of the results
 * that round up to 2^-126 it makes zero. No others differ. */

enum { NEON_FLUSH = 1 << 24 };

typedef uint64_t simd_mode;
SIMD_INLINE void simd_mode_restore(simd_mode mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode) : "memory"); }
SIMD_INLINE simd_mode simd_flush_on(void) {
    simd_mode mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode) : : "memory");
    simd_mode_restore(mode | NEON_FLUSH);
    return mode;
}

#endif
