/* SPDX-License-Identifier: Apache-2.0 */
/* Passes over a row of logits, for sampling. Sums are taken in quads of 64 values: the four of a lane (index mod 16)
 * are added in f32, (v0 + v1) + (v2 + v3), each lane's sums of quads in f64, ascending, and the lanes by the tree of
 * the 16-lane rule. Values beyond the end count as zero. */
#include "kernels/ref/ref.h"

#include "kernels/ref/math.h"

#include <float.h>
#include <math.h>

enum { QUAD = 64 };

static double lanes_sum_f64(const double lanes[16]) {
    double a[8], b[4];
    for (int l = 0; l < 8; l++) a[l] = lanes[l] + lanes[l + 8];
    for (int l = 0; l < 4; l++) b[l] = a[l] + a[l + 4];
    return (b[0] + b[2]) + (b[1] + b[3]);
}

static void add_quad(const float quad[QUAD], double lanes[16]) {
    for (int l = 0; l < 16; l++) lanes[l] += (double)((quad[l] + quad[l + 16]) + (quad[l + 32] + quad[l + 48]));
}

/* The quad of x that begins at `first`; beyond the end, `padding`. Copies keep the loops over quads free of borders, so
 * that compilers can turn them into vector code. */
static void take_quad(const float *x, uint32_t first, uint32_t n, float padding, float quad[QUAD]) {
    uint32_t count = n - first < QUAD ? n - first : QUAD;
    memcpy(quad, x + first, count * sizeof *quad);
    for (uint32_t i = count; i < QUAD; i++) quad[i] = padding;
}

void REF_NAME(row_load)(const float *logits, uint32_t n, float *x) {
    for (uint32_t i = 0; i < n; i++) {
        float v = logits[i] == logits[i] ? logits[i] : -INFINITY;
        x[i] = v > FLT_MAX ? FLT_MAX : v;
    }
}

void REF_NAME(row_maxima)(const float *x, uint32_t n, float *maxima) {
    for (uint32_t chunk = 0; chunk < row_chunks(n); chunk++, maxima += ROW_LANES) {
        uint32_t first = chunk * ROW_CHUNK, count = n - first < ROW_CHUNK ? n - first : ROW_CHUNK, i = 0;
        float largest[ROW_LANES];
        for (int l = 0; l < ROW_LANES; l++) largest[l] = -INFINITY;
        for (; i + ROW_LANES <= count; i += ROW_LANES)
            for (uint32_t l = 0; l < ROW_LANES; l++)
                largest[l] = x[first + i + l] > largest[l] ? x[first + i + l] : largest[l];
        memcpy(maxima, largest, sizeof largest);
        for (uint32_t l = 0; i < count; i++, l++) maxima[l] = x[first + i] > maxima[l] ? x[first + i] : maxima[l];
    }
}

void REF_NAME(row_weights)(const float *x, float shift, float scale, uint32_t n, float *w, double *sums) {
    for (uint32_t chunk = 0; chunk < row_chunks(n); chunk++) {
        uint32_t first = chunk * ROW_CHUNK, end = n - first < ROW_CHUNK ? n : first + ROW_CHUNK;
        double lanes[16] = {0};
        for (; first < end; first += QUAD) {
            float quad[QUAD];
            take_quad(x, first, end, -INFINITY, quad);
            for (int i = 0; i < QUAD; i++) quad[i] = math_exp((quad[i] - shift) * scale);
            memcpy(w + first, quad, (end - first < QUAD ? end - first : QUAD) * sizeof *w);
            add_quad(quad, lanes);
        }
        sums[chunk] = lanes_sum_f64(lanes);
    }
}

void REF_NAME(row_split)(const float *key, const float *w, uint32_t n, float high, float low, struct row_split *split) {
    double above[16] = {0}, from_low[16] = {0};
    split->n_above = split->n_from_low = 0;
    for (uint32_t first = 0; first < n; first += QUAD) {
        float keys[QUAD], a[QUAD], b[QUAD];
        take_quad(key, first, n, NAN, keys); /* NAN fails both comparisons */
        take_quad(w, first, n, 0, b);
        for (int i = 0; i < QUAD; i++) {
            split->n_above += keys[i] > high;
            split->n_from_low += keys[i] >= low;
            a[i] = keys[i] > high ? b[i] : 0.0f;
            b[i] = keys[i] >= low ? b[i] : 0.0f;
        }
        add_quad(a, above);
        add_quad(b, from_low);
    }
    split->above = lanes_sum_f64(above);
    split->from_low = lanes_sum_f64(from_low);
}

uint32_t REF_NAME(row_find)(const float *key, uint32_t first, uint32_t end, float high, float low, uint32_t *found) {
    uint32_t count = 0;
    for (uint32_t i = first; i < end; i++)
        if (key[i] >= low && key[i] <= high) found[count++] = i;
    return count;
}

void REF_NAME(row_keep)(const float *key, float value, uint32_t n, float *x) {
    for (uint32_t i = 0; i < n; i++) x[i] = key[i] >= value ? x[i] : -INFINITY;
}
