/* SPDX-License-Identifier: Apache-2.0 */
/* Activations quantised in blocks of 64 columns. */
#include "kernels/avx2/q8.h"

#include "kernels/constants.h"

#include <immintrin.h>
#include <string.h>

/* Where the parts of a row lie that is being written. */
struct q8_row {
    int8_t *codes;
    float *scale, *sum64, *sum32, *sum16;
    uint32_t padded;
};

static struct q8_row row_at(void *out, uint32_t n) {
    size_t padded = q8_padded(n);
    float *scale = (float *)(void *)((char *)out + (size_t)q8_blocks(n) * 64);
    return (struct q8_row){out, scale, scale + padded, scale + 2 * padded, scale + 4 * padded, (uint32_t)padded};
}

/* The largest magnitude, as bits. */
static uint32_t largest_of_64(const float *x) {
    __m256i magnitude = _mm256_set1_epi32(0x7fffffff), largest = _mm256_setzero_si256();
    for (int i = 0; i < 8; i++)
        largest = _mm256_max_epu32(
            largest, _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(const void *)(x + 8 * i)), magnitude));
    __m128i a = _mm_max_epu32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
    a = _mm_max_epu32(a, _mm_shuffle_epi32(a, 0x4e));
    a = _mm_max_epu32(a, _mm_shuffle_epi32(a, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(a);
}

/* 32 codes in column order. */
static __m256i codes_of_32(const float *x, __m256 inverse) {
    __m256 magic = _mm256_set1_ps(ROUND_MAGIC);
    __m256i code[4];
    for (int i = 0; i < 4; i++) {
        __m256 rounded = _mm256_add_ps(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), inverse), magic);
        code[i] = _mm256_sub_epi32(_mm256_castps_si256(rounded), _mm256_set1_epi32(ROUND_MAGIC_BITS));
    }
    /* Each pack works within halves; the permutation puts the words into order again. */
    __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(code[0], code[1]), _mm256_packs_epi32(code[2], code[3]));
    return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* Sums of 16 columns each. */
static void sums_of_32(__m256i codes, int sums[2]) {
    __m256i fours = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), codes), _mm256_set1_epi16(1));
    fours = _mm256_add_epi32(fours, _mm256_shuffle_epi32(fours, 0x4e));
    fours = _mm256_add_epi32(fours, _mm256_shuffle_epi32(fours, 0xb1));
    sums[0] = _mm256_cvtsi256_si32(fours);
    sums[1] = _mm256_extract_epi32(fours, 4);
}

/* Stores a block in the order; first and second hold columns 0 .. 31 and 32 .. 63. */
static void store_block(int8_t *out, enum activation_form order, __m256i first, __m256i second) {
    __m256i *to = (__m256i *)(void *)out;
    if (order == ACTIVATION_NIBBLES || order == ACTIVATION_CRUMBS) {
        /* Even columns, then odd ones, in 64-bit quarters: [e0 o0 | e1 o1] to [e0 e1 | o0 o1]. */
        __m256i split = _mm256_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15, 0, 2, 4, 6, 8, 10, 12,
                                         14, 1, 3, 5, 7, 9, 11, 13, 15);
        first = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(first, split), 0xd8);
        second = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(second, split), 0xd8);
        __m256i even = _mm256_permute2x128_si256(first, second, 0x20),
                odd = _mm256_permute2x128_si256(first, second, 0x31);
        first = even;
        second = odd;
        if (order == ACTIVATION_CRUMBS) {
            even = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(first, split), 0xd8); /* columns 0 4 .. | 2 6 .. */
            odd = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(second, split), 0xd8); /* columns 1 5 .. | 3 7 .. */
            first = _mm256_permute2x128_si256(even, odd, 0x20);
            second = _mm256_permute2x128_si256(even, odd, 0x31);
        }
    }
    _mm256_storeu_si256(to, first);
    _mm256_storeu_si256(to + 1, second);
}

static void quantize_block(const float *x, enum activation_form order, const struct q8_row *row, uint32_t b) {
    uint32_t largest = largest_of_64(x);
    int8_t *codes = row->codes + (size_t)b * 64;
    float absmax;
    memcpy(&absmax, &largest, sizeof absmax);
    if (largest >= 0x7f800000u || absmax < Q8_SMALLEST) {
        uint32_t nan = 0x7fc00000u;
        memset(codes, 0, 64);
        if (largest >= 0x7f800000u) memcpy(&row->scale[b], &nan, sizeof nan);
        return;
    }
    __m256 inverse = _mm256_set1_ps(127.0f / absmax);
    __m256i first = codes_of_32(x, inverse), second = codes_of_32(x + 32, inverse);
    int sums[4];
    sums_of_32(first, sums);
    sums_of_32(second, sums + 2);
    store_block(codes, order, first, second);
    row->scale[b] = absmax / 127.0f;
    for (uint32_t s = 0; s < 4; s++) row->sum16[s * row->padded + b] = (float)sums[s];
    row->sum32[b] = (float)(sums[0] + sums[1]);
    row->sum32[row->padded + b] = (float)(sums[2] + sums[3]);
    row->sum64[b] = (float)(sums[0] + sums[1] + sums[2] + sums[3]);
}

void avx2_to_q8(const float *x, uint32_t n, enum activation_form order, void *out) {
    struct q8_row row = row_at(out, n);
    memset(row.scale, 0, (size_t)row.padded * 32);
    uint32_t whole = n / 64;
    for (uint32_t b = 0; b < whole; b++) quantize_block(x + (size_t)b * 64, order, &row, b);
    if (n % 64) {
        float last[64] = {0};
        memcpy(last, x + (size_t)whole * 64, n % 64 * sizeof *x);
        quantize_block(last, order, &row, whole);
    }
}
