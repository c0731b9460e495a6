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

static uint64_t read_64(const void *memory, size_t bytes, size_t prefetch) {
    const char *p = memory;
    __m512i sum[4];
    for (int j = 0; j < 4; j++) sum[j] = _mm512_setzero_si512();
    for (size_t i = 0; i < bytes; i += 256)
        for (size_t j = 0; j < 4; j++) {
            prefetch_line(p + i + 64 * j, prefetch);
            sum[j] = _mm512_xor_si512(sum[j], _mm512_loadu_si512(p + i + 64 * j));
        }
    sum[0] = _mm512_xor_si512(_mm512_xor_si512(sum[0], sum[1]), _mm512_xor_si512(sum[2], sum[3]));
    return (uint64_t)_mm512_reduce_add_epi64(sum[0]);
}

enum { SUMS = 12, REPEATS = 4 };

/* The empty statements keep the compiler from seeing that the factors are always the same, and that all sums are equal:
 * it would make one chain of them. */
static uint64_t multiply(uint64_t rounds) {
    __m512i a = _mm512_set1_epi8(15), b = _mm512_set1_epi8(-127), sum[SUMS];
#pragma GCC unroll 12
    for (int i = 0; i < SUMS; i++) {
        sum[i] = _mm512_setzero_si512();
        __asm__ volatile("" : "+v"(sum[i]));
    }
    for (uint64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 4
        for (int n = 0; n < REPEATS; n++) {
            __asm__ volatile("" : "+v"(b));
#pragma GCC unroll 12
            for (int i = 0; i < SUMS; i++) sum[i] = _mm512_dpbusd_epi32(sum[i], a, b);
        }
    }
    for (int i = 1; i < SUMS; i++) sum[0] = _mm512_add_epi32(sum[0], sum[i]);
    return (uint64_t)_mm512_reduce_add_epi32(sum[0]);
}

const struct wall_loops wall_loops_avx512 = {
    {32, 64}, {read_32, read_64}, multiply, (uint64_t)SUMS *REPEATS * 64 * 2, avx512_wall_fma};
