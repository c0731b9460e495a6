/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of kernels/walls.h. */
#include "kernels/walls.h"

#include <immintrin.h>

static inline void prefetch_line(const char *p, size_t distance) {
    if (distance >= WALL_FAR)
        _mm_prefetch(p + distance, _MM_HINT_T1);
    else if (distance)
        _mm_prefetch(p + distance, _MM_HINT_T0);
}

static uint64_t read_16(const void *memory, size_t bytes, size_t prefetch) {
    const __m128i *p = memory;
    __m128i sum[4] = {_mm_setzero_si128(), _mm_setzero_si128(), _mm_setzero_si128(), _mm_setzero_si128()};
    for (size_t i = 0; i < bytes / 16; i += 4) {
        prefetch_line((const char *)(p + i), prefetch);
        for (size_t j = 0; j < 4; j++) sum[j] = _mm_xor_si128(sum[j], _mm_loadu_si128(p + i + j));
    }
    return (uint64_t)_mm_cvtsi128_si64(_mm_xor_si128(_mm_xor_si128(sum[0], sum[1]), _mm_xor_si128(sum[2], sum[3])));
}

static uint64_t read_32(const void *memory, size_t bytes, size_t prefetch) {
    const __m256i *p = memory;
    __m256i sum[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    for (size_t i = 0; i < bytes / 32; i += 4) {
        prefetch_line((const char *)(p + i), prefetch);
        prefetch_line((const char *)(p + i) + 64, prefetch);
        for (size_t j = 0; j < 4; j++) sum[j] = _mm256_xor_si256(sum[j], _mm256_loadu_si256(p + i + j));
    }
    __m256i all = _mm256_xor_si256(_mm256_xor_si256(sum[0], sum[1]), _mm256_xor_si256(sum[2], sum[3]));
    return (uint64_t)_mm256_extract_epi64(all, 0) ^ (uint64_t)_mm256_extract_epi64(all, 2);
}

/* Six times eight products that are summed in 16 bits, then widened. The empty statements keep the compiler from seeing
 * that the factors are always the same, and from another order of the sums. */
enum { SUMS = 6, PRODUCTS = 8 };

static uint64_t multiply(uint64_t rounds) {
    __m256i a = _mm256_set1_epi8(15), b = _mm256_set1_epi8(-127), ones = _mm256_set1_epi16(1), wide[SUMS];
    for (int i = 0; i < SUMS; i++) wide[i] = _mm256_setzero_si256();
    for (uint64_t r = 0; r < rounds; r++) {
        __m256i sum[SUMS];
#pragma GCC unroll 8
        for (int p = 0; p < PRODUCTS; p++) {
#pragma GCC unroll 6
            for (int i = 0; i < SUMS; i++) {
                __asm__ volatile("" : "+x"(b));
                __m256i product = _mm256_maddubs_epi16(a, b);
                sum[i] = p ? _mm256_add_epi16(sum[i], product) : product;
                __asm__ volatile("" : "+x"(sum[i]));
            }
        }
#pragma GCC unroll 6
        for (int i = 0; i < SUMS; i++) wide[i] = _mm256_add_epi32(wide[i], _mm256_madd_epi16(sum[i], ones));
    }
    for (int i = 1; i < SUMS; i++) wide[0] = _mm256_add_epi32(wide[0], wide[i]);
    return (uint64_t)_mm256_extract_epi64(wide[0], 0);
}

const struct wall_loops wall_loops_avx2 = {
    {16, 32}, {read_16, read_32}, multiply, (uint64_t)SUMS *PRODUCTS * 32 * 2, avx2_wall_fma};
