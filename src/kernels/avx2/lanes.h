/* SPDX-License-Identifier: Apache-2.0 */
/* What the templates of kernels/simd need from AVX2, FMA and F16C: a register of 8 floats; two are 16 lanes. */
#ifndef MLXCEL_KERNELS_AVX2_LANES_H
#define MLXCEL_KERNELS_AVX2_LANES_H

#include "kernels/simd/base.h"

#include <immintrin.h>

#define SIMD_NAME(name) avx2_##name
#define SIMD_TIER       TIER_AVX2

enum { VEC_FLOATS = 8, LANE_VECS = 2 };
#define TILE_WEIGHTS   3 /* 12 of 16 registers hold sums */
#define TILE_ROWS      2
#define STREAM_WEIGHTS 2 /* where the weights come straight from memory */
#define STREAM_ROWS    2

/* Attention: lanes beside 1, 2, 3, 4 queries in a tile; the most queries of one tile, and of several. */
enum { ATTENTION_LANES_1 = 4, ATTENTION_LANES_2 = 2, ATTENTION_LANES_3 = 2, ATTENTION_LANES_4 = 1 };
enum { ATTENTION_MOST = 4, ATTENTION_BEST = 3 };
#define ATTENTION_FOR_TILES(DO, FORMAT) DO(FORMAT, 1) DO(FORMAT, 2) DO(FORMAT, 3) DO(FORMAT, 4)

typedef __m256 vec;
typedef __m256i ivec;
typedef __m256 vec_mask; /* all bits of an element or none */

/* ---- f32 ---- */

SIMD_INLINE vec vec_zero(void) { return _mm256_setzero_ps(); }
SIMD_INLINE vec vec_set1(float x) { return _mm256_set1_ps(x); }
SIMD_INLINE vec vec_load(const float *p) { return _mm256_loadu_ps(p); }
SIMD_INLINE void vec_store(float *p, vec v) { _mm256_storeu_ps(p, v); }
SIMD_INLINE vec vec_add(vec a, vec b) { return _mm256_add_ps(a, b); }
SIMD_INLINE vec vec_sub(vec a, vec b) { return _mm256_sub_ps(a, b); }
SIMD_INLINE vec vec_mul(vec a, vec b) { return _mm256_mul_ps(a, b); }
SIMD_INLINE vec vec_sqrt(vec a) { return _mm256_sqrt_ps(a); }
SIMD_INLINE vec vec_div(vec a, vec b) { return _mm256_div_ps(a, b); }
SIMD_INLINE vec vec_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
SIMD_INLINE vec vec_fnma(vec a, vec b, vec c) { return _mm256_fnmadd_ps(a, b, c); }
/* sum += a * b. gcc is not told what it is: it would spend moves on other forms of the instruction. */
SIMD_INLINE void vec_fma_to(vec *sum, vec a, vec b) { __asm__("vfmadd231ps %2, %1, %0" : "+x"(*sum) : "x"(a), "x"(b)); }
SIMD_INLINE vec vec_min(vec a, vec b) { return _mm256_min_ps(a, b); }
SIMD_INLINE vec vec_max(vec a, vec b) { return _mm256_max_ps(a, b); }
SIMD_INLINE vec vec_and(vec a, vec b) { return _mm256_and_ps(a, b); }
SIMD_INLINE vec vec_or(vec a, vec b) { return _mm256_or_ps(a, b); }
SIMD_INLINE vec_mask vec_less(vec a, vec b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
SIMD_INLINE vec vec_select(vec_mask mask, vec yes, vec no) { return _mm256_blendv_ps(no, yes, mask); }

/* ---- i32 ---- */

SIMD_INLINE ivec ivec_set1(int32_t x) { return _mm256_set1_epi32(x); }
SIMD_INLINE ivec ivec_load(const void *p) { return _mm256_loadu_si256((const __m256i_u *)p); }
SIMD_INLINE ivec ivec_add(ivec a, ivec b) { return _mm256_add_epi32(a, b); }
SIMD_INLINE ivec ivec_and(ivec a, ivec b) { return _mm256_and_si256(a, b); }
SIMD_INLINE ivec ivec_or(ivec a, ivec b) { return _mm256_or_si256(a, b); }
SIMD_INLINE ivec ivec_shl(ivec a, int n) { return _mm256_slli_epi32(a, n); }
SIMD_INLINE ivec ivec_shr(ivec a, int n) { return _mm256_srli_epi32(a, n); }
SIMD_INLINE ivec ivec_shr_each(ivec a, ivec n) { return _mm256_srlv_epi32(a, n); }
SIMD_INLINE vec_mask ivec_greater(ivec a, ivec b) { return _mm256_castsi256_ps(_mm256_cmpgt_epi32(a, b)); }
SIMD_INLINE ivec ivec_select(vec_mask mask, ivec yes, ivec no) {
    return _mm256_blendv_epi8(no, yes, _mm256_castps_si256(mask));
}
SIMD_INLINE ivec vec_bits(vec a) { return _mm256_castps_si256(a); }
SIMD_INLINE vec vec_from_bits(ivec a) { return _mm256_castsi256_ps(a); }
SIMD_INLINE vec vec_from_int(ivec a) { return _mm256_cvtepi32_ps(a); }

/* 16 bytes to every quarter of a register; bytes picked from it within each quarter. */
SIMD_INLINE ivec ivec_repeat16(const void *p) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i_u *)p));
}
SIMD_INLINE ivec ivec_pick_bytes(ivec a, ivec places) { return _mm256_shuffle_epi8(a, places); }
/* 8 bytes, each to 32 bits without sign. */
SIMD_INLINE ivec ivec_from_bytes(const unsigned char *p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i_u *)p));
}

/* For the walls: a += products of unsigned and signed bytes, in fours; a register that the compiler must not know. */
SIMD_INLINE ivec ivec_dot_bytes(ivec a, ivec x, ivec y) {
    return _mm256_add_epi32(a, _mm256_madd_epi16(_mm256_maddubs_epi16(x, y), _mm256_set1_epi16(1)));
}
#define SIMD_KEEP(v) __asm__ volatile("" : "+x"(v))

/* ---- 16 numbers of 16 bits ---- */

typedef __m256i halves;

SIMD_INLINE halves halves_load(const void *p) { return _mm256_loadu_si256((const __m256i_u *)p); }
SIMD_INLINE void halves_store(void *p, halves v) { _mm256_storeu_si256((__m256i_u *)p, v); }
SIMD_INLINE halves halves_from_bytes(const unsigned char *p) {
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i_u *)p));
}
SIMD_INLINE halves halves_set1(int x) { return _mm256_set1_epi16((short)x); }
SIMD_INLINE halves halves_and(halves a, halves b) { return _mm256_and_si256(a, b); }
SIMD_INLINE halves halves_or(halves a, halves b) { return _mm256_or_si256(a, b); }
SIMD_INLINE halves halves_shl(halves a, int n) { return _mm256_slli_epi16(a, n); }
SIMD_INLINE halves halves_shr(halves a, int n) { return _mm256_srli_epi16(a, n); }
SIMD_INLINE halves halves_equal(halves a, halves b) { return _mm256_cmpeq_epi16(a, b); }

SIMD_INLINE vec vec_load_f16(const void *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)p)); }

#include "kernels/simd/lanes.h"

SIMD_INLINE lanes lanes_from_f16(halves h) {
    return (lanes){{_mm256_cvtph_ps(_mm256_castsi256_si128(h)), _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1))}};
}
/* 16 bf16 in order. */
SIMD_INLINE lanes lanes_load_bf16(const void *p) {
    __m256i h = halves_load(p), low = _mm256_cvtepu16_epi32(_mm256_castsi256_si128(h));
    __m256i high = _mm256_cvtepu16_epi32(_mm256_extracti128_si256(h, 1));
    return (lanes){{_mm256_castsi256_ps(_mm256_slli_epi32(low, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(high, 16))}};
}
SIMD_INLINE halves lanes_to_f16(lanes v) {
    __m128i low = _mm256_cvtps_ph(v.v[0], _MM_FROUND_TO_NEAREST_INT);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), _mm256_cvtps_ph(v.v[1], _MM_FROUND_TO_NEAREST_INT), 1);
}
/* The low 16 bits of each lane, whose upper bits are zero. */
SIMD_INLINE halves halves_from_lanes(ilanes a) {
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(a.v[0], a.v[1]), 0xd8);
}

/* ---- sums of lanes ---- */

/* (l, l+4), (l, l+2), (l, l+1) of 8 elements that are the sums (l, l+8). */
SIMD_INLINE float lanes_sum(lanes a) {
    __m256 eight = _mm256_add_ps(a.v[0], a.v[1]);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* The largest lane; any of them where one is NaN. */
SIMD_INLINE float lanes_largest(lanes a) {
    __m256 eight = _mm256_max_ps(a.v[0], a.v[1]);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

SIMD_INLINE __m256 avx2_pair_4(__m256 a, __m256 b) {
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}
SIMD_INLINE __m256 avx2_pair_2(__m256 a, __m256 b) {
    return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));
}
SIMD_INLINE __m256 avx2_pair_1(__m256 a, __m256 b) {
    return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd));
}

/* Eight lanes_sum at once: element i is that of the i-th 16 floats at p. */
SIMD_INLINE __m256 avx2_sum_8(const float *p) {
    __m256 a[8];
    SIMD_UNROLL for (int i = 0; i < 8; i++) a[i] = _mm256_add_ps(vec_load(p + 16 * i), vec_load(p + 16 * i + 8));
    __m256 b04 = avx2_pair_4(a[0], a[4]), b15 = avx2_pair_4(a[1], a[5]);
    __m256 b26 = avx2_pair_4(a[2], a[6]), b37 = avx2_pair_4(a[3], a[7]);
    return avx2_pair_1(avx2_pair_2(b04, b15), avx2_pair_2(b26, b37));
}

/* Sixteen lanes_sum at once. */
SIMD_INLINE lanes lanes_sum_16(const float *p) { return (lanes){{avx2_sum_8(p), avx2_sum_8(p + 128)}}; }

/* ---- even and odd elements ---- */

/* 32 floats at p: those at even places, those at odd places. */
SIMD_INLINE void lanes_unzip(const float *p, lanes *even, lanes *odd) {
    SIMD_UNROLL for (int i = 0; i < 2; i++) {
        __m256 a = vec_load(p + 16 * i), b = vec_load(p + 16 * i + 8);
        __m256 low = _mm256_permute2f128_ps(a, b, 0x20), high = _mm256_permute2f128_ps(a, b, 0x31);
        even->v[i] = _mm256_shuffle_ps(low, high, 0x88);
        odd->v[i] = _mm256_shuffle_ps(low, high, 0xdd);
    }
}
SIMD_INLINE void lanes_zip_store(float *p, lanes even, lanes odd) {
    SIMD_UNROLL for (int i = 0; i < 2; i++) {
        __m256 low = _mm256_unpacklo_ps(even.v[i], odd.v[i]), high = _mm256_unpackhi_ps(even.v[i], odd.v[i]);
        vec_store(p + 16 * i, _mm256_permute2f128_ps(low, high, 0x20));
        vec_store(p + 16 * i + 8, _mm256_permute2f128_ps(low, high, 0x31));
    }
}

/* ---- denormal numbers as zero, for the bf16 rule ---- */

typedef unsigned simd_mode;
SIMD_INLINE simd_mode simd_flush_on(void) {
    unsigned mode = _mm_getcsr();
    _mm_setcsr(mode | 0x8040); /* flush to zero, denormals are zero */
    return mode;
}
SIMD_INLINE void simd_mode_restore(simd_mode mode) { _mm_setcsr(mode); }

#endif
