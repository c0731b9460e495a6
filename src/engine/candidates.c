/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/candidates.h"

#include "base/memory.h"
#include "engine/select.h"

#include <float.h>
#include <math.h>
#include <string.h>

bool candidates_init(struct candidates *c, uint32_t vocab_size, struct mx_error *err) {
    size_t chunks = row_chunks(vocab_size), n = vocab_size;
    *c = (struct candidates){.kernels = kernels_for_tier(kernels_best_tier()), .vocab_size = vocab_size};
    bool ok = (c->row = aligned_calloc(n, sizeof *c->row)) != NULL;
    ok = ok && (c->row_w = aligned_calloc(n, sizeof *c->row_w)) != NULL;
    ok = ok && (c->list = aligned_calloc(n, sizeof *c->list)) != NULL;
    ok = ok && (c->list_w = aligned_calloc(n, sizeof *c->list_w)) != NULL;
    ok = ok && (c->list_ids = aligned_calloc(n, sizeof *c->list_ids)) != NULL;
    ok = ok && (c->keys = aligned_calloc(n, sizeof *c->keys)) != NULL;
    ok = ok && (c->maxima = aligned_calloc(chunks, ROW_LANES * sizeof *c->maxima)) != NULL;
    ok = ok && (c->chunk_maxima = aligned_calloc(chunks, sizeof *c->chunk_maxima)) != NULL;
    ok = ok && (c->sums = aligned_calloc(chunks, sizeof *c->sums)) != NULL;
    ok = ok && (c->selection = aligned_calloc(n, sizeof *c->selection)) != NULL;
    ok = ok && (c->values = aligned_calloc(n + ROW_LANES, sizeof *c->values)) != NULL;
    if (ok) return true;
    candidates_free(c);
    return error_memory(err, "sampling");
}

void candidates_free(struct candidates *c) {
    free(c->row);
    free(c->row_w);
    free(c->list);
    free(c->list_w);
    free(c->list_ids);
    free(c->keys);
    free(c->maxima);
    free(c->chunk_maxima);
    free(c->sums);
    free(c->selection);
    free(c->values);
    memset(c, 0, sizeof *c);
}

void candidates_load(struct candidates *c, const float *logits) {
    c->kernels->row_load(logits, c->vocab_size, c->row);
    candidates_begin(c, c->row);
}

void candidates_begin(struct candidates *c, float *row) {
    c->x = row;
    c->w = c->row_w;
    c->ids = NULL;
    c->n = c->vocab_size;
    c->scale = 0;
}

/* The maxima of chunks from those of their blocks. */
static void measure_chunks(struct candidates *c) {
    uint32_t n = row_chunks(c->n);
    for (uint32_t i = 0; i < n; i++) {
        const float *blocks = c->maxima + (size_t)i * ROW_LANES;
        float largest = blocks[0];
        for (int l = 1; l < ROW_LANES; l++) largest = blocks[l] > largest ? blocks[l] : largest;
        c->chunk_maxima[i] = largest;
    }
}

bool candidates_measure(struct candidates *c) {
    const float *values = c->x;
    uint32_t n = c->n;
    if (!c->ids) {
        c->kernels->row_maxima(c->x, c->n, c->maxima);
        measure_chunks(c);
        values = c->chunk_maxima;
        n = row_chunks(c->n);
    }
    float largest = -INFINITY;
    for (uint32_t i = 0; i < n; i++) largest = values[i] > largest ? values[i] : largest;
    c->max = largest;
    c->scale = 0;
    return largest > -INFINITY;
}

void candidates_weigh(struct candidates *c, double scale) {
    if (c->scale == scale) return;
    c->scale = scale;
    float bounded = scale < (double)FLT_MAX ? (float)scale : FLT_MAX;
    c->kernels->row_weights(c->x, c->max, bounded, c->n, c->w, c->sums);
    c->total = 0;
    for (uint32_t i = 0; i < row_chunks(c->n); i++) c->total += c->sums[i];
}

uint32_t candidates_count(const struct candidates *c) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->n; i++) count += c->x[i] > -INFINITY;
    return count;
}

uint32_t candidates_best(const struct candidates *c) {
    if (c->ids) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < c->n; i++)
            if (c->x[i] > c->x[best] || (c->x[i] == c->x[best] && c->ids[i] < c->ids[best])) best = i;
        return best;
    }
    for (uint32_t chunk = 0; chunk < row_chunks(c->n); chunk++) {
        if (c->chunk_maxima[chunk] < c->max) continue;
        uint32_t first = chunk * ROW_CHUNK, end = c->n - first < ROW_CHUNK ? c->n : first + ROW_CHUNK;
        for (uint32_t i = first; i < end; i++)
            if (c->x[i] == c->max) return i;
    }
    return 0;
}

uint32_t candidates_find(const struct candidates *c, uint32_t token) {
    if (!c->ids) return token < c->n && c->x[token] > -INFINITY ? token : c->n;
    for (uint32_t i = 0; i < c->n; i++)
        if (c->ids[i] == token) return i;
    return c->n;
}

uint32_t candidates_find_from(const struct candidates *c, float low, uint32_t *found) {
    uint32_t n = 0;
    for (uint32_t chunk = 0; chunk < row_chunks(c->n); chunk++) {
        if (c->chunk_maxima[chunk] < low) continue;
        uint32_t first = chunk * ROW_CHUNK, end = c->n - first < ROW_CHUNK ? c->n : first + ROW_CHUNK;
        n += c->kernels->row_find(c->x, first, end, INFINITY, low, found + n);
    }
    return n;
}

/* Moves the row's places found[0 .. n) (which is list_ids) into the list. */
static void list_take(struct candidates *c, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) c->list[i] = c->x[c->list_ids[i]];
    c->x = c->list;
    c->w = c->list_w;
    c->ids = c->list_ids;
    c->n = n;
    c->scale = 0;
}

static bool is_within(float key, uint32_t token, struct cut cut) {
    return key > cut.value || (key == cut.value && token <= cut.last_tie);
}

static void list_keep(struct candidates *c, const float *key, struct cut cut) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        if (!is_within(key[i], c->list_ids[i], cut)) continue;
        c->list[n] = c->list[i];
        c->list_ids[n++] = c->list_ids[i];
    }
    c->n = n;
}

/* About a third of the row or more is within the cut, by a sample: the row is better left as it is. */
static bool is_wide(const struct candidates *c, float value) {
    enum { SAMPLE = 512 };
    uint32_t hits = 0;
    if (c->n < 4 * SAMPLE) return false;
    for (uint32_t i = 0; i < SAMPLE; i++) hits += c->x[(uint64_t)i * c->n / SAMPLE] >= value;
    return hits > SAMPLE / 3;
}

void candidates_keep(struct candidates *c, const float *key, struct cut cut) {
    c->scale = 0;
    if (c->ids) {
        list_keep(c, key, cut);
        return;
    }
    if (key == c->x && is_wide(c, cut.value)) {
        c->kernels->row_keep(key, cut.value, c->n, c->x);
        for (uint64_t i = (uint64_t)cut.last_tie + 1; i < c->n; i++)
            if (c->x[i] == cut.value) c->x[i] = -INFINITY;
        return;
    }
    float low = cut.value > -FLT_MAX ? cut.value : -FLT_MAX; /* excluded places stay outside */
    bool is_by_x = key == c->x;
    uint32_t found = is_by_x ? candidates_find_from(c, low, c->list_ids)
                             : c->kernels->row_find(key, 0, c->n, INFINITY, low, c->list_ids);
    uint32_t n = cut.last_tie == UINT32_MAX ? found : 0;
    for (uint32_t i = n; i < found; i++)
        if (is_within(key[c->list_ids[i]], c->list_ids[i], cut)) c->list_ids[n++] = c->list_ids[i];
    list_take(c, n);
}

/* The k-th largest maximum of chunks or of blocks. */
float candidates_reached_by(struct candidates *c, uint32_t k) {
    uint32_t n = row_chunks(c->n);
    const float *maxima = c->chunk_maxima;
    if (k > n / 4) {
        maxima = c->maxima;
        n *= ROW_LANES;
    }
    if (k > n) return -FLT_MAX;
    memcpy(c->values, maxima, n * sizeof *c->values);
    float value = select_largest(c->values, n, k);
    return value > -FLT_MAX ? value : -FLT_MAX;
}

void candidates_keep_largest(struct candidates *c, uint32_t k) {
    if (!c->ids) list_take(c, candidates_find_from(c, candidates_reached_by(c, k), c->list_ids));
    if (c->n <= k) return;
    memcpy(c->values, c->x, c->n * sizeof *c->values);
    candidates_keep(c, c->x, (struct cut){select_largest(c->values, c->n, k), UINT32_MAX});
}

/* ---- order ---- */

static bool is_before(const struct candidates *c, uint32_t a, uint32_t b) {
    return c->list[a] > c->list[b] || (c->list[a] == c->list[b] && c->list_ids[a] < c->list_ids[b]);
}

static void swap_places(struct candidates *c, uint32_t a, uint32_t b) {
    float x = c->list[a];
    uint32_t id = c->list_ids[a];
    c->list[a] = c->list[b];
    c->list_ids[a] = c->list_ids[b];
    c->list[b] = x;
    c->list_ids[b] = id;
}

/* Heapsort with the last place of the order at the root: no recursion, no memory. */
static void sift_down(struct candidates *c, uint32_t root, uint32_t n) {
    for (;;) {
        uint64_t child = 2 * (uint64_t)root + 1;
        if (child >= n) return;
        if (child + 1 < n && is_before(c, (uint32_t)child, (uint32_t)child + 1)) child++;
        if (!is_before(c, root, (uint32_t)child)) return;
        swap_places(c, root, (uint32_t)child);
        root = (uint32_t)child;
    }
}

void candidates_sort(struct candidates *c) {
    c->scale = 0;
    for (uint32_t i = c->n / 2; i-- > 0;) sift_down(c, i, c->n);
    for (uint32_t end = c->n; end > 1; end--) {
        swap_places(c, 0, end - 1);
        sift_down(c, 0, end - 1);
    }
}
