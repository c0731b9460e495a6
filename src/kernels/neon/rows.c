/* SPDX-License-Identifier: Apache-2.0 */
/* NEON: passes over a row of logits, for sampling. The sixteen lanes lie in four registers (f32) or eight (f64). */
#include "kernels/neon/rows.h"

#include "kernels/neon/lanes.h"
#include "kernels/simd/math.h"

#include <float.h>
#include <math.h>

enum { QUAD = 64 };

typedef struct {
    float64x2_t v[8];
} lanes_f64;

static void row_load(const float *logits, uint32_t n, float *x) {
    lanes largest = lanes_set1(FLT_MAX), lowest = lanes_set1(-INFINITY);
    for (uint32_t k = 0; k < n; k += 16) {
        lanes v = lanes_load_some(logits + k, n - k);
        SIMD_UNROLL for (int i = 0; i < LANE_VECS; i++) v.v[i] =
            vec_select(vceqq_f32(v.v[i], v.v[i]), v.v[i], lowest.v[i]);
        lanes_store_some(x + k, lanes_min(v, largest), n - k);
    }
}

static void row_maxima(const float *x, uint32_t n, float *maxima) {
    for (uint32_t first = 0; first < n; first += ROW_CHUNK, maxima += ROW_LANES) {
        uint32_t end = n - first < ROW_CHUNK ? n : first + ROW_CHUNK, k = first;
        lanes most = lanes_set1(-INFINITY);
        for (; k + 16 <= end; k += 16) most = lanes_max(lanes_load(x + k), most);
        if (k < end) most = lanes_max(lanes_load_part(x + k, end - k, -INFINITY), most);
        lanes_store(maxima, most);
    }
}

/* The quad of x that begins at p, or a copy of its first n values, then `padding`. */
SIMD_INLINE const float *take_quad(const float *p, uint32_t n, float padding, float copy[QUAD]) {
    if (n >= QUAD) return p;
    for (uint32_t i = 0; i < QUAD; i++) copy[i] = i < n ? p[i] : padding;
    return copy;
}

/* The four values of each lane added in f32, onto sums in f64. */
SIMD_INLINE void add_quad(const lanes quad[4], lanes_f64 *sums) {
    lanes sum = lanes_add(lanes_add(quad[0], quad[1]), lanes_add(quad[2], quad[3]));
    SIMD_UNROLL for (int i = 0; i < LANE_VECS; i++) {
        sums->v[2 * i] = vaddq_f64(sums->v[2 * i], vcvt_f64_f32(vget_low_f32(sum.v[i])));
        sums->v[2 * i + 1] = vaddq_f64(sums->v[2 * i + 1], vcvt_high_f64_f32(sum.v[i]));
    }
}

/* The tree (l, l+8), (l, l+4), (l, l+2), (l, l+1). */
SIMD_INLINE double tree_f64(const lanes_f64 *s) {
    float64x2_t a = vaddq_f64(vaddq_f64(s->v[0], s->v[4]), vaddq_f64(s->v[2], s->v[6]));
    float64x2_t b = vaddq_f64(vaddq_f64(s->v[1], s->v[5]), vaddq_f64(s->v[3], s->v[7]));
    float64x2_t two = vaddq_f64(a, b);
    return vgetq_lane_f64(two, 0) + vgetq_lane_f64(two, 1);
}

SIMD_INLINE lanes_f64 zeros_f64(void) {
    lanes_f64 y;
    SIMD_UNROLL for (int i = 0; i < 8; i++) y.v[i] = vdupq_n_f64(0);
    return y;
}

static void row_weights(const float *x, float shift, float scale, uint32_t n, float *w, double *sums) {
    lanes shifts = lanes_set1(shift), scales = lanes_set1(scale);
    for (uint32_t first = 0; first < n; first += ROW_CHUNK) {
        uint32_t end = n - first < ROW_CHUNK ? n : first + ROW_CHUNK;
        lanes_f64 chunk = zeros_f64();
        for (uint32_t k = first; k < end; k += QUAD) {
            float copy[QUAD];
            const float *from = take_quad(x + k, end - k, -INFINITY, copy);
            lanes quad[4];
            SIMD_UNROLL for (uint32_t i = 0; i < 4; i++) {
                quad[i] = lanes_exp(lanes_mul(lanes_sub(lanes_load(from + 16 * i), shifts), scales));
                if (k + 16 * i < end) lanes_store_some(w + k + 16 * i, quad[i], end - k - 16 * i);
            }
            add_quad(quad, &chunk);
        }
        *sums++ = tree_f64(&chunk);
    }
}

static void row_split(const float *key, const float *w, uint32_t n, float high, float low, struct row_split *split) {
    lanes_f64 above = zeros_f64(), from_low = zeros_f64();
    vec highs = vec_set1(high), lows = vec_set1(low);
    uint32x4_t n_above = vdupq_n_u32(0), n_from_low = vdupq_n_u32(0);
    for (uint32_t k = 0; k < n; k += QUAD) {
        float keys_copy[QUAD], weights_copy[QUAD];
        const float *keys = take_quad(key + k, n - k, NAN, keys_copy); /* NAN fails both comparisons */
        const float *weights = take_quad(w + k, n - k, 0.0f, weights_copy);
        lanes a[4], b[4];
        SIMD_UNROLL for (int i = 0; i < 4; i++) SIMD_UNROLL for (int v = 0; v < LANE_VECS; v++) {
            vec x = vec_load(keys + 16 * i + 4 * v), mass = vec_load(weights + 16 * i + 4 * v);
            uint32x4_t is_above = vcgtq_f32(x, highs), is_from_low = vcgeq_f32(x, lows);
            a[i].v[v] = vec_select(is_above, mass, vec_zero());
            b[i].v[v] = vec_select(is_from_low, mass, vec_zero());
            n_above = vsubq_u32(n_above, is_above);
            n_from_low = vsubq_u32(n_from_low, is_from_low);
        }
        add_quad(a, &above);
        add_quad(b, &from_low);
    }
    split->above = tree_f64(&above);
    split->from_low = tree_f64(&from_low);
    split->n_above = vaddvq_u32(n_above);
    split->n_from_low = vaddvq_u32(n_from_low);
}

static uint32_t row_find(const float *key, uint32_t first, uint32_t end, float high, float low, uint32_t *found) {
    vec highs = vec_set1(high), lows = vec_set1(low);
    uint32_t count = 0, i = first;
    while (i < end) {
        uint32_t next = end - i < 16 ? end : i + 16;
        if (next - i == 16) { /* hits are rare: 16 values are passed over at once */
            uint32x4_t hits = vdupq_n_u32(0);
            SIMD_UNROLL for (int v = 0; v < LANE_VECS; v++) {
                vec x = vec_load(key + i + 4 * v);
                hits = vorrq_u32(hits, vandq_u32(vcgeq_f32(x, lows), vcleq_f32(x, highs)));
            }
            if (vmaxvq_u32(hits) == 0) i = next;
        }
        for (; i < next; i++)
            if (key[i] >= low && key[i] <= high) found[count++] = i;
    }
    return count;
}

static void row_keep(const float *key, float value, uint32_t n, float *x) {
    vec least = vec_set1(value), lowest = vec_set1(-INFINITY);
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4)
        vec_store(x + i, vec_select(vcgeq_f32(vec_load(key + i), least), vec_load(x + i), lowest));
    for (; i < n; i++) x[i] = key[i] >= value ? x[i] : -INFINITY;
}

void neon_fill_rows(struct kernels *table) {
    KERNELS_SET(table, TIER_NEON, row_load, row_load);
    KERNELS_SET(table, TIER_NEON, row_maxima, row_maxima);
    KERNELS_SET(table, TIER_NEON, row_weights, row_weights);
    KERNELS_SET(table, TIER_NEON, row_split, row_split);
    KERNELS_SET(table, TIER_NEON, row_find, row_find);
    KERNELS_SET(table, TIER_NEON, row_keep, row_keep);
}
