/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of 4 lanes, as the products with quantised activations want them (simd/q8_chunk.h, simd/q8_gemm.h): a lane is a
 * block or a weight row. */
#ifndef MLXCEL_KERNELS_NEON_Q8_VEC_H
#define MLXCEL_KERNELS_NEON_Q8_VEC_H

#include "kernels/simd/q8_kinds.h"

#include <arm_neon.h>
#include <string.h>

enum { Q8_LANES = 4 };

typedef float32x4_t q8_floats;
typedef int32x4_t q8_ints;

Q8_INLINE q8_floats v_zero(void) { return vdupq_n_f32(0.0f); }
Q8_INLINE q8_floats v_splat(float x) { return vdupq_n_f32(x); }
Q8_INLINE q8_floats v_load(const float *p) { return vld1q_f32(p); }
Q8_INLINE void v_store(float *p, q8_floats x) { vst1q_f32(p, x); }
Q8_INLINE q8_floats v_add(q8_floats a, q8_floats b) { return vaddq_f32(a, b); }
Q8_INLINE q8_floats v_mul(q8_floats a, q8_floats b) { return vmulq_f32(a, b); }
Q8_INLINE q8_floats v_fma(q8_floats a, q8_floats b, q8_floats c) { return vfmaq_f32(c, a, b); }
Q8_INLINE q8_floats v_convert(q8_ints x) { return vcvtq_f32_s32(x); }
Q8_INLINE void v_store_ints(void *p, q8_ints x) { vst1q_u8(p, vreinterpretq_u8_s32(x)); }
Q8_INLINE q8_ints v_ints_from_floats(q8_floats x) { return vreinterpretq_s32_f32(x); }
Q8_INLINE q8_floats v_floats_from_ints(q8_ints x) { return vreinterpretq_f32_s32(x); }

/* The first n lanes of `fresh`, the rest of `old`. */
Q8_INLINE q8_floats v_first(uint32_t n, q8_floats fresh, q8_floats old) {
    static const uint32_t lanes[4] = {0, 1, 2, 3};
    return vbslq_f32(vcltq_u32(vld1q_u32(lanes), vdupq_n_u32(n)), fresh, old);
}

/* Transposes 4 x 4 words of 32 bits. */
Q8_INLINE void v_transpose(q8_ints v[4]) {
    int64x2_t a = vreinterpretq_s64_s32(vtrn1q_s32(v[0], v[1])), b = vreinterpretq_s64_s32(vtrn2q_s32(v[0], v[1]));
    int64x2_t c = vreinterpretq_s64_s32(vtrn1q_s32(v[2], v[3])), d = vreinterpretq_s64_s32(vtrn2q_s32(v[2], v[3]));
    v[0] = vreinterpretq_s32_s64(vtrn1q_s64(a, c));
    v[1] = vreinterpretq_s32_s64(vtrn1q_s64(b, d));
    v[2] = vreinterpretq_s32_s64(vtrn2q_s64(a, c));
    v[3] = vreinterpretq_s32_s64(vtrn2q_s64(b, d));
}

/* ---- scales; nothing past them is read ---- */

Q8_INLINE q8_floats widen_f16(uint16x4_t x) { return vcvt_f32_f16(vreinterpret_f16_u16(x)); }
Q8_INLINE q8_floats widen_bf16(uint16x4_t x) { return vreinterpretq_f32_u32(vshll_n_u16(x, 16)); }
Q8_INLINE q8_floats widen(enum dtype dtype, uint16x4_t x) { return dtype == DTYPE_F16 ? widen_f16(x) : widen_bf16(x); }
Q8_INLINE q8_floats load_f32(const unsigned char *p) { return vreinterpretq_f32_u8(vld1q_u8(p)); }

/* One scale for each lane. */
Q8_INLINE q8_floats scales_one(enum dtype dtype, const unsigned char *p) {
    return dtype == DTYPE_F32 ? load_f32(p) : widen(dtype, vreinterpret_u16_u8(vld1_u8(p)));
}

/* One scale for two lanes (groups of 128). */
Q8_INLINE q8_floats scales_half(enum dtype dtype, const unsigned char *p) {
    uint32_t two;
    if (dtype == DTYPE_F32) {
        float32x2_t x = vreinterpret_f32_u8(vld1_u8(p));
        return vcombine_f32(vdup_lane_f32(x, 0), vdup_lane_f32(x, 1));
    }
    memcpy(&two, p, sizeof two);
    uint16x4_t x = vcreate_u16(two);
    return widen(dtype, vzip1_u16(x, x));
}

/* Two scales for each lane. */
Q8_INLINE void scales_two(enum dtype dtype, const unsigned char *p, q8_floats out[2]) {
    if (dtype == DTYPE_F32) {
        q8_floats a = load_f32(p), b = load_f32(p + 16);
        out[0] = vuzp1q_f32(a, b);
        out[1] = vuzp2q_f32(a, b);
        return;
    }
    uint16x8_t x = vreinterpretq_u16_u8(vld1q_u8(p));
    out[0] = widen(dtype, vget_low_u16(vuzp1q_u16(x, x)));
    out[1] = widen(dtype, vget_low_u16(vuzp2q_u16(x, x)));
}

/* Half of 2^(code - 127): code 0 means 2^-127, code 255 infinity. */
Q8_INLINE q8_floats half_e8m0(uint16x4_t codes) {
    uint32x4_t code = vmovl_u16(codes), lowest = vandq_u32(vceqzq_u32(code), vdupq_n_u32(0x400000));
    uint32x4_t bits = vorrq_u32(vshlq_n_u32(code, 23), lowest);
    return vmulq_f32(vreinterpretq_f32_u32(bits), vdupq_n_f32(0.5f));
}

/* Half of 4 e4m3 values in the low bytes. With its exponent shifted into place a code is an f16 that is 2^-8 of it. */
Q8_INLINE q8_floats half_e4m3(uint16x4_t codes) {
    uint16x4_t magnitude = vand_u16(vshl_n_u16(codes, 7), vdup_n_u16(0x3f80));
    uint16x4_t sign = vand_u16(vshl_n_u16(codes, 8), vdup_n_u16(0x8000));
    uint16x4_t nan = vand_u16(vceq_u16(magnitude, vdup_n_u16(0x3f80)), vdup_n_u16(0x7e00));
    return vmulq_f32(widen_f16(vorr_u16(vorr_u16(magnitude, sign), nan)), vdupq_n_f32(128.0f));
}

/* Scales of fp4 formats, halved since the codes stand for doubled values. */
Q8_INLINE void scales_mxfp4(const unsigned char *p, q8_floats out[2]) {
    uint16x8_t x = vmovl_u8(vld1_u8(p));
    out[0] = half_e8m0(vget_low_u16(vuzp1q_u16(x, x)));
    out[1] = half_e8m0(vget_low_u16(vuzp2q_u16(x, x)));
}

Q8_INLINE void scales_nvfp4(const unsigned char *p, q8_floats out[4]) {
    uint8x16_t x = vld1q_u8(p);
    uint16x8_t low = vmovl_u8(vget_low_u8(x)), high = vmovl_high_u8(x);
    uint16x8_t even = vuzp1q_u16(low, high), odd = vuzp2q_u16(low, high); /* scales 0 and 2, 1 and 3 of each block */
    out[0] = half_e4m3(vget_low_u16(vuzp1q_u16(even, even)));
    out[1] = half_e4m3(vget_low_u16(vuzp1q_u16(odd, odd)));
    out[2] = half_e4m3(vget_low_u16(vuzp2q_u16(even, even)));
    out[3] = half_e4m3(vget_low_u16(vuzp2q_u16(odd, odd)));
}

#endif
