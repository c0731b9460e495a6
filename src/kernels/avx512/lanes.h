/* SPDX-License-Identifier: Apache-2.0 */
/* What the templates of kernels/simd need from AVX-512 (F, BW, DQ, VL) and F16C: one register is 16 lanes. */
#ifndef MLXCEL_KERNELS_AVX512_LANES_H
#define MLXCEL_KERNELS_AVX512_LANES_H

#include "kernels/simd/base.h"

#include <immintrin.h>

#define SIMD_NAME(name) avx512_##name
#define SIMD_TIER       TIER_AVX512

enum { VEC_FLOATS = 16, LANE_VECS = 1 };
#define TILE_WEIGHTS   4 /* 24 of 32 registers hold sums */
#define TILE_ROWS      6
#define STREAM_WEIGHTS 4 /* where the weights come straight from memory */
#define STREAM_ROWS    4

/* Attention: lanes beside 1, 2, 3, 4 and more queries in a tile; the most queries of one tile, and of several. */
enum { ATTENTION_LANES_1 = 4, ATTENTION_LANES_2 = 4, ATTENTION_LANES_3 = 4, ATTENTION_LANES_4 = 4 };
enum { ATTENTION_MOST = 6, ATTENTION_BEST = 6 };
#define ATTENTION_FOR_TILES(DO, FORMAT)                                                                                \
    DO(FORMAT, 1) DO(FORMAT, 2) DO(FORMAT, 3) DO(FORMAT, 4) DO(FORMAT, 5) DO(FORMAT, 6)

typedef __m512 vec;
typedef __m512i ivec;
typedef __mmask16 vec_mask;

/* ---- f32 ---- */

SIMD_INLINE vec vec_zero(void) { return _mm512_setzero_ps(); }
SIMD_INLINE vec vec_set1(float x) { return _mm512_set1_ps(x); }
SIMD_INLINE vec vec_load(const float *p) { return _mm512_loadu_ps(p); }
SIMD_INLINE void vec_store(float *p, vec v) { _mm512_storeu_ps(p, v); }
SIMD_INLINE vec vec_add(vec a, vec b) { return _mm512_add_ps(a, b); }
SIMD_INLINE vec vec_sub(vec a, vec b) { return _mm512_sub_ps(a, b); }
SIMD_INLINE vec vec_mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
SIMD_INLINE vec vec_sqrt(vec a) { return _mm512_sqrt_ps(a); }
SIMD_INLINE vec vec_div(vec a, vec b) { return _mm512_div_ps(a, b); }
SIMD_INLINE vec vec_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
SIMD_INLINE vec vec_fnma(vec a, vec b, vec c) { return _mm512_fnmadd_ps(a, b, c); }
SIMD_INLINE void vec_fma_to(vec *sum, vec a, vec b) { __asm__("vfmadd231ps %2, %1, %0" : "+v"(*sum) : "v"(a), "v"(b)); }
/* sum += the products of pairs of bf16, as the bf16 rule wants them: avx512_dot_pairs_is_exact says whether. Only where
 * the processor has AVX512_BF16. */
#define SIMD_HAS_DOT_PAIRS
SIMD_INLINE void vec_dot_pairs_to(vec *sum, vec a, vec b) {
    *sum = _mm512_dpbf16_ps(*sum, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b));
}
SIMD_INLINE vec vec_min(vec a, vec b) { return _mm512_min_ps(a, b); }
SIMD_INLINE vec vec_max(vec a, vec b) { return _mm512_max_ps(a, b); }
SIMD_INLINE vec vec_and(vec a, vec b) { return _mm512_and_ps(a, b); }
SIMD_INLINE vec vec_or(vec a, vec b) { return _mm512_or_ps(a, b); }
SIMD_INLINE vec_mask vec_less(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
SIMD_INLINE vec vec_select(vec_mask mask, vec yes, vec no) { return _mm512_mask_blend_ps(mask, no, yes); }

/* ---- i32 ---- */

SIMD_INLINE ivec ivec_set1(int32_t x) { return _mm512_set1_epi32(x); }
SIMD_INLINE ivec ivec_load(const void *p) { return _mm512_loadu_si512(p); }
SIMD_INLINE ivec ivec_add(ivec a, ivec b) { return _mm512_add_epi32(a, b); }
SIMD_INLINE ivec ivec_and(ivec a, ivec b) { return _mm512_and_si512(a, b); }
SIMD_INLINE ivec ivec_or(ivec a, ivec b) { return _mm512_or_si512(a, b); }
SIMD_INLINE ivec ivec_shl(ivec a, int n) { return _mm512_sll_epi32(a, _mm_cvtsi32_si128(n)); }
SIMD_INLINE ivec ivec_shr(ivec a, int n) { return _mm512_srl_epi32(a, _mm_cvtsi32_si128(n)); }
SIMD_INLINE ivec ivec_shr_each(ivec a, ivec n) { return _mm512_srlv_epi32(a, n); }
SIMD_INLINE vec_mask ivec_greater(ivec a, ivec b) { return _mm512_cmpgt_epi32_mask(a, b); }
SIMD_INLINE ivec ivec_select(vec_mask mask, ivec yes, ivec no) { return _mm512_mask_blend_epi32(mask, no, yes); }
SIMD_INLINE ivec vec_bits(vec a) { return _mm512_castps_si512(a); }
SIMD_INLINE vec vec_from_bits(ivec a) { return _mm512_castsi512_ps(a); }
SIMD_INLINE vec vec_from_int(ivec a) { return _mm512_cvtepi32_ps(a); }

/* 16 bytes to every quarter of a register; bytes picked from it within each quarter. */
SIMD_INLINE ivec ivec_repeat16(const void *p) { return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i_u *)p)); }
SIMD_INLINE ivec ivec_pick_bytes(ivec a, ivec places) { return _mm512_shuffle_epi8(a, places); }
/* 16 bytes, each to 32 bits without sign. */
SIMD_INLINE ivec ivec_from_bytes(const unsigned char *p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i_u *)p));
}

/* For the walls: a += products of unsigned and signed bytes, in fours; a register that the compiler must not know. */
SIMD_INLINE ivec ivec_dot_bytes(ivec a, ivec x, ivec y) { return _mm512_dpbusd_epi32(a, x, y); }
#define SIMD_KEEP(v) __asm__ volatile("" : "+v"(v))

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

SIMD_INLINE vec vec_load_f16(const void *p) { return _mm512_cvtph_ps(halves_load(p)); }

#include "kernels/simd/lanes.h"

SIMD_INLINE lanes lanes_from_f16(halves h) { return (lanes){{_mm512_cvtph_ps(h)}}; }
SIMD_INLINE halves lanes_to_f16(lanes v) { return _mm512_cvtps_ph(v.v[0], _MM_FROUND_TO_NEAREST_INT); }
/* 16 bf16 in order. */
SIMD_INLINE lanes lanes_load_bf16(const void *p) {
    return (lanes){{_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves_load(p)), 16))}};
}
/* The low 16 bits of each lane. */
SIMD_INLINE halves halves_from_lanes(ilanes a) { return _mm512_cvtepi32_epi16(a.v[0]); }

/* ---- sums of lanes ---- */

/* (l, l+8), (l, l+4), (l, l+2), (l, l+1). */
SIMD_INLINE float lanes_sum(lanes a) {
    __m256 low = _mm512_castps512_ps256(a.v[0]), high = _mm512_extractf32x8_ps(a.v[0], 1),
           eight = _mm256_add_ps(low, high);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* The largest lane; any of them where one is NaN. */
SIMD_INLINE float lanes_largest(lanes a) { return _mm512_reduce_max_ps(a.v[0]); }

/* Two, then four, eight and sixteen rows of sums in one register; quarters of the register are the units first. */
SIMD_INLINE __m512 avx512_pair_8(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
}
SIMD_INLINE __m512 avx512_pair_4(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}
SIMD_INLINE __m512 avx512_pair_2(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
}
SIMD_INLINE __m512 avx512_pair_1(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}

/* Sixteen lanes_sum at once: element i is that of the i-th 16 floats at p. After the quarters' steps, quarter q of c[i]
 * is row i + 4 q; the last two steps put four such registers in order. */
SIMD_INLINE lanes lanes_sum_16(const float *p) {
    __m512 c[4];
    SIMD_UNROLL for (int i = 0; i < 4; i++) {
        __m512 ab = avx512_pair_8(vec_load(p + 16 * i), vec_load(p + 16 * (i + 4)));
        __m512 cd = avx512_pair_8(vec_load(p + 16 * (i + 8)), vec_load(p + 16 * (i + 12)));
        c[i] = avx512_pair_4(ab, cd);
    }
    return (lanes){{avx512_pair_1(avx512_pair_2(c[0], c[1]), avx512_pair_2(c[2], c[3]))}};
}

/* ---- even and odd elements ---- */

/* 32 floats at p: those at even places, those at odd places. */
SIMD_INLINE void lanes_unzip(const float *p, lanes *even, lanes *odd) {
    const __m512i places = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    __m512 a = vec_load(p), b = vec_load(p + 16);
    even->v[0] = _mm512_permutex2var_ps(a, places, b);
    odd->v[0] = _mm512_permutex2var_ps(a, _mm512_add_epi32(places, _mm512_set1_epi32(1)), b);
}
SIMD_INLINE void lanes_zip_store(float *p, lanes even, lanes odd) {
    const __m512i places = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    vec_store(p, _mm512_permutex2var_ps(even.v[0], places, odd.v[0]));
    vec_store(p + 16, _mm512_permutex2var_ps(even.v[0], _mm512_add_epi32(places, _mm512_set1_epi32(8)), odd.v[0]));
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
