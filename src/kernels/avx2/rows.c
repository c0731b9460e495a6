/* SPDX-License-Identifier: Apache-2.0 */
/* AVX2: passes over a row of logits, for sampling. The sixteen lanes lie in two registers (f32) or four (f64). */
#include "kernels/avx2/rows.h"

#include "kernels/constants.h"

#include <float.h>
#include <immintrin.h>
#include <math.h>
#include <string.h>

enum { QUAD = 64 };

/* math_exp of kernels/ref/math.h, eight at a time. */
static inline __m256 exp8(__m256 x) {
    __m256 bounded = _mm256_min_ps(_mm256_set1_ps(EXP_HIGHEST), x); /* NaN stays */
    __m256 magic = _mm256_set1_ps(ROUND_MAGIC);
    __m256 t = _mm256_fmadd_ps(bounded, _mm256_set1_ps(EXP_LOG2E), magic), n = _mm256_sub_ps(t, magic);
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-EXP_LN2_HI), bounded);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(-EXP_LN2_LO), r);
    __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(EXP_C0), r, _mm256_set1_ps(EXP_C1));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C5));
    p = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), _mm256_set1_ps(1.0f));
    __m256i exponent = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(ROUND_MAGIC_BITS - 127));
    __m256 power = _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
    __m256 is_lowest = _mm256_cmp_ps(x, _mm256_set1_ps(EXP_LOWEST), _CMP_LT_OQ);
    return _mm256_andnot_ps(is_lowest, _mm256_mul_ps(p, power));
}

/* Eight f32 sums of quads onto the lanes of two f64 registers. */
static inline void add8(__m256 sums, __m256d *lower, __m256d *upper) {
    *lower = _mm256_add_pd(*lower, _mm256_cvtps_pd(_mm256_castps256_ps128(sums)));
    *upper = _mm256_add_pd(*upper, _mm256_cvtps_pd(_mm256_extractf128_ps(sums, 1)));
}

/* The tree (l, l+8), (l, l+4), (l, l+2), (l, l+1) over lanes 0..15 in four registers. */
static inline double tree16(const __m256d lanes[4]) {
    double b[4];
    __m256d a = _mm256_add_pd(lanes[0], lanes[2]), c = _mm256_add_pd(lanes[1], lanes[3]);
    _mm256_storeu_pd(b, _mm256_add_pd(a, c));
    return (b[0] + b[2]) + (b[1] + b[3]);
}

void avx2_row_load(const float *logits, uint32_t n, float *x) {
    const __m256 lowest = _mm256_set1_ps(-INFINITY), largest = _mm256_set1_ps(FLT_MAX);
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 v = _mm256_loadu_ps(logits + i);
        v = _mm256_blendv_ps(v, lowest, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
        _mm256_storeu_ps(x + i, _mm256_min_ps(v, largest));
    }
    for (; i < n; i++) {
        float v = logits[i] == logits[i] ? logits[i] : -INFINITY;
        x[i] = v > FLT_MAX ? FLT_MAX : v;
    }
}

void avx2_row_maxima(const float *x, uint32_t n, float *maxima) {
    uint32_t i = 0;
    for (; i + ROW_CHUNK <= n; i += ROW_CHUNK, maxima += ROW_LANES) {
        __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + i + 8);
        for (uint32_t k = i + 16; k < i + ROW_CHUNK; k += 16) {
            a = _mm256_max_ps(_mm256_loadu_ps(x + k), a);
            b = _mm256_max_ps(_mm256_loadu_ps(x + k + 8), b);
        }
        _mm256_storeu_ps(maxima, a);
        _mm256_storeu_ps(maxima + 8, b);
    }
    if (i == n) return;
    for (int l = 0; l < ROW_LANES; l++) maxima[l] = -INFINITY;
    for (uint32_t l = 0; i < n; i++, l = (l + 1) % ROW_LANES)
        if (x[i] > maxima[l]) maxima[l] = x[i];
}

/* Weights of one quad, added to the lanes. */
static inline void weigh_quad(const float *x, __m256 shift, __m256 scale, float *w, __m256d lanes[4]) {
    __m256 v[8];
    for (int k = 0; k < 8; k++) {
        v[k] = exp8(_mm256_mul_ps(_mm256_sub_ps(_mm256_loadu_ps(x + 8 * k), shift), scale));
        _mm256_storeu_ps(w + 8 * k, v[k]);
    }
    add8(_mm256_add_ps(_mm256_add_ps(v[0], v[2]), _mm256_add_ps(v[4], v[6])), &lanes[0], &lanes[1]);
    add8(_mm256_add_ps(_mm256_add_ps(v[1], v[3]), _mm256_add_ps(v[5], v[7])), &lanes[2], &lanes[3]);
}

void avx2_row_weights(const float *x, float shift, float scale, uint32_t n, float *w, double *sums) {
    const __m256 shifts = _mm256_set1_ps(shift), scales = _mm256_set1_ps(scale);
    for (uint32_t first = 0; first < n; first += ROW_CHUNK) {
        uint32_t end = n - first < ROW_CHUNK ? n : first + ROW_CHUNK, i = first;
        __m256d lanes[4] = {_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()};
        for (; i + QUAD <= end; i += QUAD) weigh_quad(x + i, shifts, scales, w + i, lanes);
        if (i < end) {
            float padded[QUAD], weights[QUAD];
            for (uint32_t k = 0; k < QUAD; k++) padded[k] = i + k < end ? x[i + k] : -INFINITY;
            weigh_quad(padded, shifts, scales, weights, lanes);
            memcpy(w + i, weights, (end - i) * sizeof *w);
        }
        *sums++ = tree16(lanes);
    }
}

struct split_lanes {
    __m256d above[4], from_low[4];
    __m256i n_above, n_from_low; /* negated */
};

/* One half (8 lanes) of a quad. */
static inline void split_half(const float *key, const float *w, __m256 high, __m256 low, int half,
                              struct split_lanes *s) {
    __m256 a[4], b[4];
    for (int k = 0; k < 4; k++) {
        __m256 v = _mm256_loadu_ps(key + 16 * k), mass = _mm256_loadu_ps(w + 16 * k);
        __m256 is_above = _mm256_cmp_ps(v, high, _CMP_GT_OQ), is_from_low = _mm256_cmp_ps(v, low, _CMP_GE_OQ);
        a[k] = _mm256_and_ps(is_above, mass);
        b[k] = _mm256_and_ps(is_from_low, mass);
        s->n_above = _mm256_add_epi32(s->n_above, _mm256_castps_si256(is_above));
        s->n_from_low = _mm256_add_epi32(s->n_from_low, _mm256_castps_si256(is_from_low));
    }
    __m256 sum_a = _mm256_add_ps(_mm256_add_ps(a[0], a[1]), _mm256_add_ps(a[2], a[3]));
    __m256 sum_b = _mm256_add_ps(_mm256_add_ps(b[0], b[1]), _mm256_add_ps(b[2], b[3]));
    add8(sum_a, &s->above[2 * half], &s->above[2 * half + 1]);
    add8(sum_b, &s->from_low[2 * half], &s->from_low[2 * half + 1]);
}

static uint32_t count8(__m256i negated) {
    int32_t n[8], sum = 0;
    _mm256_storeu_si256((__m256i *)(void *)n, negated);
    for (int i = 0; i < 8; i++) sum -= n[i];
    return (uint32_t)sum;
}

void avx2_row_split(const float *key, const float *w, uint32_t n, float high, float low, struct row_split *split) {
    const __m256 highs = _mm256_set1_ps(high), lows = _mm256_set1_ps(low);
    struct split_lanes s;
    memset(&s, 0, sizeof s);
    uint32_t i = 0;
    for (; i + QUAD <= n; i += QUAD) {
        split_half(key + i, w + i, highs, lows, 0, &s);
        split_half(key + i + 8, w + i + 8, highs, lows, 1, &s);
    }
    if (i < n) {
        float keys[QUAD], weights[QUAD];
        for (uint32_t k = 0; k < QUAD; k++) {
            keys[k] = i + k < n ? key[i + k] : NAN; /* fails every comparison */
            weights[k] = i + k < n ? w[i + k] : 0.0f;
        }
        split_half(keys, weights, highs, lows, 0, &s);
        split_half(keys + 8, weights + 8, highs, lows, 1, &s);
    }
    split->above = tree16(s.above);
    split->from_low = tree16(s.from_low);
    split->n_above = count8(s.n_above);
    split->n_from_low = count8(s.n_from_low);
}

uint32_t avx2_row_find(const float *key, uint32_t first, uint32_t end, float high, float low, uint32_t *found) {
    const __m256 highs = _mm256_set1_ps(high), lows = _mm256_set1_ps(low);
    uint32_t count = 0, i = first;
    for (; i + 32 <= end; i += 32) {
        uint32_t hits = 0;
        for (uint32_t k = 0; k < 4; k++) {
            __m256 v = _mm256_loadu_ps(key + i + 8 * k);
            __m256 is_within = _mm256_and_ps(_mm256_cmp_ps(v, lows, _CMP_GE_OQ), _mm256_cmp_ps(v, highs, _CMP_LE_OQ));
            hits |= (uint32_t)_mm256_movemask_ps(is_within) << 8 * k;
        }
        for (; hits; hits &= hits - 1) found[count++] = i + (uint32_t)__builtin_ctz(hits);
    }
    for (; i < end; i++)
        if (key[i] >= low && key[i] <= high) found[count++] = i;
    return count;
}

void avx2_row_keep(const float *key, float value, uint32_t n, float *x) {
    const __m256 values = _mm256_set1_ps(value), lowest = _mm256_set1_ps(-INFINITY);
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 is_kept = _mm256_cmp_ps(_mm256_loadu_ps(key + i), values, _CMP_GE_OQ);
        _mm256_storeu_ps(x + i, _mm256_blendv_ps(lowest, _mm256_loadu_ps(x + i), is_kept));
    }
    for (; i < n; i++) x[i] = key[i] >= value ? x[i] : -INFINITY;
}
