/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the 16-lane rule for x86: after (l, l + 8) come (l, l + 4), (l, l + 2) and (l, l + 1). */
#ifndef MLXCEL_KERNELS_SIMD_Q8_FOLD_H
#define MLXCEL_KERNELS_SIMD_Q8_FOLD_H

#include "kernels/simd/q8_kinds.h"

#include <immintrin.h>

Q8_INLINE float fold_one(__m256 lanes) {
    __m128 a = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
    __m128 b = _mm_add_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

/* Of two vectors [4 lanes | 4 lanes] of different rows: (l, l + 2) side by side. */
Q8_INLINE __m256 fold_pairs(__m256 a, __m256 b) {
    __m256d x = _mm256_castps_pd(a), y = _mm256_castps_pd(b);
    return _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(x, y)), _mm256_castpd_ps(_mm256_unpackhi_pd(x, y)));
}

/* Eight rows at once. */
Q8_INLINE __m256 fold_eight(const __m256 rows[8]) {
    __m256 four[4];
    for (int i = 0; i < 4; i++) /* rows i and i + 4 */
        four[i] = _mm256_add_ps(_mm256_permute2f128_ps(rows[i], rows[i + 4], 0x20),
                                _mm256_permute2f128_ps(rows[i], rows[i + 4], 0x31));
    __m256 a = fold_pairs(four[0], four[1]), b = fold_pairs(four[2], four[3]);
    return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd));
}

#endif
