/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of 8 lanes, as the products with quantised activations want them (simd/q8_gemv.h, simd/q8_gemm.h): a lane is a
 * block or a weight row. avx512/q8_vec.h has the same names for 16 lanes. */
#ifndef MLXCEL_KERNELS_AVX2_Q8_VEC_H
#define MLXCEL_KERNELS_AVX2_Q8_VEC_H

#include "kernels/simd/q8_fold.h"

enum { Q8_LANES = 8 };

typedef __m256 q8_floats; /* 8 x f32 */
typedef __m256i q8_ints;  /* 8 x i32 */

Q8_INLINE q8_floats v_zero(void) { return _mm256_setzero_ps(); }
Q8_INLINE q8_floats v_splat(float x) { return _mm256_set1_ps(x); }
Q8_INLINE q8_floats v_load(const float *p) { return _mm256_loadu_ps(p); }
Q8_INLINE void v_store(float *p, q8_floats x) { _mm256_storeu_ps(p, x); }
Q8_INLINE q8_floats v_add(q8_floats a, q8_floats b) { return _mm256_add_ps(a, b); }
Q8_INLINE q8_floats v_mul(q8_floats a, q8_floats b) { return _mm256_mul_ps(a, b); }
Q8_INLINE q8_floats v_fma(q8_floats a, q8_floats b, q8_floats c) { return _mm256_fmadd_ps(a, b, c); }
Q8_INLINE q8_floats v_convert(q8_ints x) { return _mm256_cvtepi32_ps(x); }
Q8_INLINE q8_ints v_load_ints(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
Q8_INLINE void v_store_ints(void *p, q8_ints x) { _mm256_storeu_si256((__m256i *)p, x); }

/* The first n lanes of `fresh`, the rest of `old`. */
Q8_INLINE q8_floats v_first(uint32_t n, q8_floats fresh, q8_floats old) {
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane);
    return _mm256_blendv_ps(old, fresh, _mm256_castsi256_ps(mask));
}

/* The first step of the tree that ends the 16-lane rule; either half may hold lanes 0 to 7. */
Q8_INLINE __m256 v_fold(q8_floats a, q8_floats b) { return _mm256_add_ps(a, b); }

/* Transposes 8 x 8 words of 32 bits. */
Q8_INLINE void v_transpose(q8_ints v[8]) {
    __m256i a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_epi32(v[i], v[i + 1]);
        a[i + 1] = _mm256_unpackhi_epi32(v[i], v[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            b[i + 2 * j] = _mm256_unpacklo_epi64(a[i + j], a[i + 2 + j]);
            b[i + 2 * j + 1] = _mm256_unpackhi_epi64(a[i + j], a[i + 2 + j]);
        }
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
        v[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
    }
}

Q8_INLINE q8_ints v_ints_from_floats(q8_floats x) { return _mm256_castps_si256(x); }
Q8_INLINE q8_floats v_floats_from_ints(q8_ints x) { return _mm256_castsi256_ps(x); }

/* ---- scales ---- */

Q8_INLINE __m256 widen_f16(__m128i x) { return _mm256_cvtph_ps(x); }
Q8_INLINE __m256 widen_bf16(__m128i x) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16)); }

/* One scale for each lane. */
Q8_INLINE q8_floats scales_one(enum dtype dtype, const unsigned char *p) {
    if (dtype == DTYPE_F32) return _mm256_loadu_ps((const float *)(const void *)p);
    __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
    return dtype == DTYPE_F16 ? widen_f16(x) : widen_bf16(x);
}

/* One scale for two lanes (groups of 128). */
Q8_INLINE q8_floats scales_half(enum dtype dtype, const unsigned char *p) {
    __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    __m256 x;
    if (dtype == DTYPE_F32) {
        x = _mm256_castps128_ps256(_mm_loadu_ps((const float *)(const void *)p));
    } else {
        __m128i half = _mm_loadl_epi64((const __m128i *)(const void *)p);
        x = dtype == DTYPE_F16 ? widen_f16(half) : widen_bf16(half);
    }
    return _mm256_permutevar8x32_ps(x, twice);
}

/* Two scales for each lane. */
Q8_INLINE void scales_two(enum dtype dtype, const unsigned char *p, q8_floats out[2]) {
    if (dtype == DTYPE_F32) {
        __m256 a = _mm256_loadu_ps((const float *)(const void *)p),
               b = _mm256_loadu_ps((const float *)(const void *)p + 8);
        __m256 even = _mm256_shuffle_ps(a, b, 0x88), odd = _mm256_shuffle_ps(a, b, 0xdd);
        out[0] = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(even), 0xd8));
        out[1] = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(odd), 0xd8));
        return;
    }
    __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)p);
    if (dtype == DTYPE_BF16) {
        out[0] = _mm256_castsi256_ps(_mm256_slli_epi32(x, 16));
        out[1] = _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32((int)0xffff0000u)));
        return;
    }
    __m256i split = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0, 1, 4, 5, 8, 9, 12, 13, 2,
                                     3, 6, 7, 10, 11, 14, 15);
    x = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(x, split), 0xd8);
    out[0] = widen_f16(_mm256_castsi256_si128(x));
    out[1] = widen_f16(_mm256_extracti128_si256(x, 1));
}

/* Half of 2^(code - 127) for 8 codes in the low bytes: code 0 means 2^-127, code 255 infinity. */
Q8_INLINE q8_floats half_e8m0(__m128i codes) {
    __m256i code = _mm256_cvtepu8_epi32(codes);
    __m256i lowest = _mm256_and_si256(_mm256_cmpeq_epi32(code, _mm256_setzero_si256()), _mm256_set1_epi32(0x400000));
    __m256i bits = _mm256_or_si256(_mm256_slli_epi32(code, 23), lowest);
    return _mm256_mul_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(0.5f));
}

/* Half of 8 e4m3 values in the low bytes. With its exponent shifted into place a code is an f16 that is 2^-8 of it. */
Q8_INLINE q8_floats half_e4m3(__m128i codes) {
    __m128i code = _mm_cvtepi8_epi16(codes), largest = _mm_set1_epi16(0x7f);
    __m128i nan = _mm_cmpeq_epi16(_mm_and_si128(code, largest), largest);
    __m128i half = _mm_and_si128(_mm_slli_epi16(code, 7), _mm_set1_epi16((short)0xbf80));
    half = _mm_or_si128(half, _mm_and_si128(nan, _mm_set1_epi16(0x7e00)));
    return _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(128.0f));
}

/* Scales of fp4 formats, halved since the codes stand for doubled values. */
Q8_INLINE void scales_mxfp4(const unsigned char *p, q8_floats out[2]) {
    __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
    x = _mm_shuffle_epi8(x, _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
    out[0] = half_e8m0(x);
    out[1] = half_e8m0(_mm_unpackhi_epi64(x, x));
}

Q8_INLINE void scales_nvfp4(const unsigned char *p, q8_floats out[4]) {
    __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)p);
    __m256i split = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, 0, 4, 8, 12, 1, 5, 9, 13, 2,
                                     6, 10, 14, 3, 7, 11, 15);
    x = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(x, split), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    __m128i low = _mm256_castsi256_si128(x), high = _mm256_extracti128_si256(x, 1);
    out[0] = half_e4m3(low);
    out[1] = half_e4m3(_mm_unpackhi_epi64(low, low));
    out[2] = half_e4m3(high);
    out[3] = half_e4m3(_mm_unpackhi_epi64(high, high));
}

#endif
