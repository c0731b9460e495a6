/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels on rows of logits: every tier gives the bits of ref, and ref agrees with plain loops in double. */
#include "base/rng.h"
#include "kernels/kernels.h"
#include "tests/support/tap.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 3000 };

struct buffers {
    float logits[MOST + 8], x[MOST], w[MOST + 8], kept[MOST];
    float maxima[MOST];
    double sums[MOST / ROW_CHUNK + 1];
    uint32_t found[MOST], n_found;
    struct row_split split;
};

static void make_row(float *row, uint32_t n, uint64_t seed) {
    for (uint32_t i = 0; i < n; i++) {
        uint64_t word = rng_next(&seed);
        row[i] = (float)(rng_uniform_f64(word) * 40 - 20);
        if (word % 17 == 0) row[i] = floorf(row[i]);
        if (word % 101 == 0) row[i] = -INFINITY;
        if (word % 251 == 0) row[i] = NAN;
        if (word % 499 == 0) row[i] = INFINITY;
        if (word % 503 == 0) row[i] = -0.0f;
    }
}

/* All kernels on one row that begins `offset` floats into its buffer. */
static void run(const struct kernels *k, struct buffers *b, uint32_t n, uint32_t offset, float shift, float scale) {
    k->row_load(b->logits + offset, n, b->x);
    k->row_maxima(b->x, n, b->maxima);
    k->row_weights(b->x, shift, scale, n, b->w + offset, b->sums);
    k->row_split(b->x, b->w + offset, n, 7.5f, -3.0f, &b->split);
    b->n_found = k->row_find(b->x, offset < n ? offset : 0, n, 9.25f, -1.0f, b->found);
    memcpy(b->kept, b->x, n * sizeof *b->kept);
    k->row_keep(b->x, 2.0f, n, b->kept);
}

static bool same(const struct buffers *a, const struct buffers *b, uint32_t n, uint32_t offset) {
    uint32_t chunks = row_chunks(n);
    return !memcmp(a->x, b->x, n * sizeof *a->x) &&
           !memcmp(a->maxima, b->maxima, chunks * ROW_LANES * sizeof *a->maxima) &&
           !memcmp(a->w + offset, b->w + offset, n * sizeof *a->w) &&
           !memcmp(a->sums, b->sums, chunks * sizeof *a->sums) && !memcmp(&a->split, &b->split, sizeof a->split) &&
           a->n_found == b->n_found && !memcmp(a->found, b->found, a->n_found * sizeof *a->found) &&
           !memcmp(a->kept, b->kept, n * sizeof *a->kept);
}

static void tier_equals_ref(enum kernel_tier tier, struct buffers *a, struct buffers *b) {
    static const uint32_t sizes[] = {1,  2,  7,   8,   15,  16,  17,  31,   33,   63,
                                     64, 65, 100, 511, 512, 513, 576, 1000, 1025, 2999};
    const struct kernels *ref = kernels_for_tier(TIER_REF), *other = kernels_for_tier(tier);
    if (!other) {
        tap_skip(kernel_tier_name(tier), "not on this processor");
        return;
    }
    int n_bad = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint32_t offset = 0; offset < 8; offset += 3)
            for (uint64_t seed = 1; seed <= 4; seed++) {
                memset(a, 0, sizeof *a);
                memset(b, 0, sizeof *b);
                make_row(a->logits + offset, sizes[i], seed * 100 + sizes[i]);
                memcpy(b->logits, a->logits, sizeof a->logits);
                float shift = seed == 2 ? FLT_MAX : 20, scale = seed == 3 ? 0x1p100f : 0.7f;
                run(ref, a, sizes[i], offset, shift, scale);
                run(other, b, sizes[i], offset, shift, scale);
                n_bad += !same(a, b, sizes[i], offset);
            }
    tap_ok(n_bad == 0, "rows: %s gives the bits of ref (row_weights from %s)", kernel_tier_name(tier),
           kernel_tier_name(other->tier[KERNEL_row_weights]));
}

static bool is_close(double a, double b) { return fabs(a - b) <= 1e-6 * fabs(b) + 1e-30; }

static void ref_is_right(struct buffers *b) {
    const uint32_t n = 2999;
    make_row(b->logits, n, 5);
    run(kernels_for_tier(TIER_REF), b, n, 0, 12, 0.5f);
    int n_load = 0, n_maxima = 0, n_weights = 0, n_kept = 0;
    double above = 0, from_low = 0;
    uint32_t n_above = 0, n_from_low = 0, n_found = 0;
    for (uint32_t i = 0; i < n; i++) {
        float v = b->logits[i], x = isnan(v) ? -INFINITY : v == INFINITY ? FLT_MAX : v;
        n_load += b->x[i] != x;
        double w = exp(((double)x - 12) * 0.5);
        if (x <= 60) n_weights += !is_close((double)b->w[i], w);
        if (x > 7.5f) above += (double)b->w[i], n_above++;
        if (x >= -3) from_low += (double)b->w[i], n_from_low++;
        if (x >= -1 && x <= 9.25f) n_load += b->found[n_found++] != i;
        n_kept += b->kept[i] != (x >= 2 ? x : -INFINITY);
    }
    for (uint32_t block = 0; block < row_chunks(n) * ROW_LANES; block++) {
        float largest = -INFINITY;
        for (uint32_t i = block / ROW_LANES * ROW_CHUNK + block % ROW_LANES, k = 0; k < 32 && i < n;
             k++, i += ROW_LANES)
            largest = fmaxf(largest, b->x[i]);
        n_maxima += b->maxima[block] != largest;
    }
    tap_ok(!n_load && n_found == b->n_found, "row_load and row_find agree with plain loops");
    tap_ok(!n_maxima, "row_maxima are the largest of each interleaved block");
    tap_ok(!n_weights, "row_weights are exponentials to 1e-6");
    tap_ok(is_close(b->split.above, above) && is_close(b->split.from_low, from_low) && b->split.n_above == n_above &&
               b->split.n_from_low == n_from_low,
           "row_split adds and counts both parts");
    tap_ok(!n_kept, "row_keep excludes what is below the value");
    double total = 0, chunks = 0;
    for (uint32_t i = 0; i < n; i++) total += (double)b->w[i];
    for (uint32_t i = 0; i < row_chunks(n); i++) chunks += b->sums[i];
    tap_ok(is_close(chunks, total), "the sums of chunks are the sum of the weights");
}

int main(void) {
    struct buffers *a = malloc(sizeof *a), *b = malloc(sizeof *b);
    if (!a || !b) return 1;
    ref_is_right(a);
    tier_equals_ref(TIER_AVX2, a, b);
    tier_equals_ref(TIER_AVX512, a, b);
    tier_equals_ref(TIER_NEON, a, b);
    free(a);
    free(b);
    return tap_done();
}
