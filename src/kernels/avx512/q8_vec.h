/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of 16 lanes, as the products with quantised activations want them (simd/q8_gemv.h, simd/q8_gemm.h): a lane is a
 * block or a weight row. avx2/q8_vec.h has the same names for 8 lanes. */
#ifndef MLXCEL_KERNELS_AVX512_Q8_VEC_H
#define MLXCEL_KERNELS_AVX512_Q8_VEC_H

#include "kernels/simd/q8_fold.h"

enum { Q8_LANES = 16 };

typedef __m512 q8_floats; /* 16 x f32 */
typedef __m512i q8_ints;  /* 16 x i32 */

Q8_INLINE q8_floats v_zero(void) { return _mm512_setzero_ps(); }
Q8_INLINE q8_floats v_splat(float x) { return _mm512_set1_ps(x); }
Q8_INLINE q8_floats v_load(const float *p) { return _mm512_loadu_ps(p); }
Q8_INLINE void v_store(float *p, q8_floats x) { _mm512_storeu_ps(p, x); }
Q8_INLINE q8_floats v_add(q8_floats a, q8_floats b) { return _mm512_add_ps(a, b); }
Q8_INLINE q8_floats v_mul(q8_floats a, q8_floats b) { return _mm512_mul_ps(a, b); }
Q8_INLINE q8_floats v_fma(q8_floats a, q8_floats b, q8_floats c) { return _mm512_fmadd_ps(a, b, c); }
Q8_INLINE q8_floats v_convert(q8_ints x) { return _mm512_cvtepi32_ps(x); }
Q8_INLINE q8_ints v_load_ints(const void *p) { return _mm512_loadu_si512(p); }
Q8_INLINE void v_store_ints(void *p, q8_ints x) { _mm512_storeu_si512(p, x); }
Q8_INLINE q8_ints v_ints_from_floats(q8_floats x) { return _mm512_castps_si512(x); }
Q8_INLINE q8_floats v_floats_from_ints(q8_ints x) { return _mm512_castsi512_ps(x); }

/* The first n lanes of `fresh`, the rest of `old`. */
Q8_INLINE q8_floats v_first(uint32_t n, q8_floats fresh, q8_floats old) {
    return _mm512_mask_blend_ps((__mmask16)((1u << n) - 1), old, fresh);
}

/* The first step of the tree that ends the 16-lane rule; one vector holds all lanes. */
Q8_INLINE __m256 v_fold(q8_floats a, q8_floats unused) {
    (void)unused;
    __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a), 1));
    return _mm256_add_ps(_mm512_castps512_ps256(a), high);
}

/* Transposes 16 x 16 words of 32 bits: within quarters, then the quarters. */
Q8_INLINE void v_transpose(q8_ints v[16]) {
    __m512i a[16], b[16];
    for (int i = 0; i < 16; i += 2) {
        a[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
        a[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
        for (int j = 0; j < 2; j++) {
            b[i + 2 * j] = _mm512_unpacklo_epi64(a[i + j], a[i + 2 + j]);
            b[i + 2 * j + 1] = _mm512_unpackhi_epi64(a[i + j], a[i + 2 + j]);
        }
    for (int j = 0; j < 4; j++) { /* quarter q of b[4 r + j]: word 4 q + j of rows 4 r .. 4 r + 3 */
        __m512i x = _mm512_shuffle_i32x4(b[j], b[4 + j], 0x44), y = _mm512_shuffle_i32x4(b[8 + j], b[12 + j], 0x44);
        __m512i z = _mm512_shuffle_i32x4(b[j], b[4 + j], 0xee), w = _mm512_shuffle_i32x4(b[8 + j], b[12 + j], 0xee);
        v[j] = _mm512_shuffle_i32x4(x, y, 0x88);
        v[4 + j] = _mm512_shuffle_i32x4(x, y, 0xdd);
        v[8 + j] = _mm512_shuffle_i32x4(z, w, 0x88);
        v[12 + j] = _mm512_shuffle_i32x4(z, w, 0xdd);
    }
}

/* ---- scales ---- */

Q8_INLINE __m512 widen_f16(__m256i x) { return _mm512_cvtph_ps(x); }
Q8_INLINE __m512 widen_bf16(__m256i x) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16)); }

/* One scale for each lane. */
Q8_INLINE q8_floats scales_one(enum dtype dtype, const unsigned char *p) {
    if (dtype == DTYPE_F32) return _mm512_loadu_ps(p);
    __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)p);
    return dtype == DTYPE_F16 ? widen_f16(x) : widen_bf16(x);
}

/* One scale for two lanes (groups of 128). */
Q8_INLINE q8_floats scales_half(enum dtype dtype, const unsigned char *p) {
    __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    __m512 x;
    if (dtype == DTYPE_F32) {
        x = _mm512_castps256_ps512(_mm256_loadu_ps((const float *)(const void *)p));
    } else {
        __m256i half = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p));
        x = dtype == DTYPE_F16 ? widen_f16(half) : widen_bf16(half);
    }
    return _mm512_permutexvar_ps(twice, x);
}

/* Two scales for each lane. */
Q8_INLINE void scales_two(enum dtype dtype, const unsigned char *p, q8_floats out[2]) {
    if (dtype == DTYPE_F32) {
        __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
        __m512 a = _mm512_loadu_ps(p), b = _mm512_loadu_ps(p + 64);
        out[0] = _mm512_permutex2var_ps(a, even, b);
        out[1] = _mm512_permutex2var_ps(a, odd, b);
        return;
    }
    __m512i x = _mm512_loadu_si512(p);
    if (dtype == DTYPE_BF16) {
        out[0] = _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
        out[1] = _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32((int)0xffff0000u)));
        return;
    }
    out[0] = widen_f16(_mm512_cvtepi32_epi16(x));
    out[1] = widen_f16(_mm512_cvtepi32_epi16(_mm512_srli_epi32(x, 16)));
}

/* Half of 2^(code - 127): code 0 means 2^-127, code 255 infinity. */
Q8_INLINE q8_floats half_e8m0(__m512i code) {
    __m512i bits = _mm512_slli_epi32(code, 23);
    bits =
        _mm512_mask_mov_epi32(bits, _mm512_cmpeq_epi32_mask(code, _mm512_setzero_si512()), _mm512_set1_epi32(0x400000));
    return _mm512_mul_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(0.5f));
}

/* Half of e4m3 values. With its exponent shifted into place a code is an f16 that is 2^-8 of it. */
Q8_INLINE q8_floats half_e4m3(__m512i code) {
    __m512i largest = _mm512_set1_epi32(0x7f), magnitude = _mm512_and_si512(code, largest);
    __m512i sign = _mm512_slli_epi32(_mm512_and_si512(code, _mm512_set1_epi32(0x80)), 8);
    __m512i half = _mm512_or_si512(_mm512_slli_epi32(magnitude, 7), sign);
    half = _mm512_mask_mov_epi32(half, _mm512_cmpeq_epi32_mask(magnitude, largest), _mm512_set1_epi32(0x7e00));
    return _mm512_mul_ps(widen_f16(_mm512_cvtepi32_epi16(half)), _mm512_set1_ps(128.0f));
}

/* Scales of fp4 formats, halved since the codes stand for doubled values. */
Q8_INLINE void scales_mxfp4(const unsigned char *p, q8_floats out[2]) {
    __m512i x = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
    out[0] = half_e8m0(_mm512_and_si512(x, _mm512_set1_epi32(255)));
    out[1] = half_e8m0(_mm512_srli_epi32(x, 8));
}

Q8_INLINE void scales_nvfp4(const unsigned char *p, q8_floats out[4]) {
    __m512i x = _mm512_loadu_si512(p), mask = _mm512_set1_epi32(255);
    out[0] = half_e4m3(_mm512_and_si512(x, mask));
    out[1] = half_e4m3(_mm512_and_si512(_mm512_srli_epi32(x, 8), mask));
    out[2] = half_e4m3(_mm512_and_si512(_mm512_srli_epi32(x, 16), mask));
    out[3] = half_e4m3(_mm512_srli_epi32(x, 24));
}

#endif
