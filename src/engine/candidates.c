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
    c->x = c->row;
    c->w = c->row_w;
    c->ids = NULL;
    c->n = c->vocab_size;
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
    return largest > -INFINITY;
}

void candidates_weigh(struct candidates *c, double scale) {
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

/* The row's places with x >= low into found; their number. Chunks whose maximum is smaller are passed over. */
static uint32_t find_from(const struct candidates *c, float low, uint32_t *found) {
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
    for (uint32_t i = 0; i < n; i++) c->list[i] = c->row[c->list_ids[i]];
    c->x = c->list;
    c->w = c->list_w;
    c->ids = c->list_ids;
    c->n = n;
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
    uint32_t found, n = 0;
    if (key == c->x)
        found = find_from(c, low, c->list_ids);
    else
        found = c->kernels->row_find(key, 0, c->n, INFINITY, low, c->list_ids);
    for (uint32_t i = 0; i < found; i++)
        if (is_within(key[c->list_ids[i]], c->list_ids[i], cut)) c->list_ids[n++] = c->list_ids[i];
    list_take(c, n);
}

/* A value that at least k places of the row reach, and not many more: the k-th largest maximum of chunks or blocks. */
static float reached_by(struct candidates *c, uint32_t k) {
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
    if (!c->ids) list_take(c, find_from(c, reached_by(c, k), c->list_ids));
    if (c->n <= k) return;
    memcpy(c->values, c->x, c->n * sizeof *c->values);
    candidates_keep(c, c->x, (struct cut){select_largest(c->values, c->n, k), UINT32_MAX});
}

/* ---- cut by mass ---- */

/* Where the cut lies: its key is within [low, high]. */
struct bracket {
    float high, low;
    double above, end;       /* sums of the weights with key > high, and with key >= low */
    uint32_t n_above, n_end; /* numbers of such places */
};

/* Splits the bracket at two keys and goes on with the part that holds the target. */
static void narrow(struct candidates *c, const float *key, double target, float high, float low, struct bracket *b) {
    struct row_split split;
    if (high > b->high) high = b->high;
    if (low < b->low) low = b->low;
    c->kernels->row_split(key, c->w, c->n, high, low, &split);
    if (target < split.above) {
        b->low = nextafterf(high, INFINITY);
        b->end = split.above;
        b->n_end = split.n_above;
    } else if (target < split.from_low) {
        *b = (struct bracket){high, low, split.above, split.from_low, split.n_above, split.n_from_low};
    } else {
        b->high = nextafterf(low, -INFINITY);
        b->above = split.from_low;
        b->n_above = split.n_from_low;
    }
}

/* Two keys that most likely enclose the cut, and the share of places above it, from a sample of the places in the
 * bracket: four standard deviations of a rank around the sample's own cut. */
static double guess(struct candidates *c, const float *key, double target, const struct bracket *b, float *high,
                    float *low) {
    enum { SAMPLE = 1024 };
    double total = 0, above;
    uint32_t n = 0, rank = 1;
    for (uint32_t i = 0; i < SAMPLE; i++) {
        uint32_t place = (uint32_t)((uint64_t)i * c->n / SAMPLE);
        if (key[place] > b->high) continue;
        c->selection[n] = (struct weighted){key[place], c->w[place]};
        c->values[n++] = key[place];
        total += (double)c->w[place];
    }
    *high = b->high;
    *low = b->low;
    if (!n) return 0;
    double share = (target - b->above) / (b->end - b->above);
    float value = select_by_mass(c->selection, n, share * total, &above);
    for (uint32_t i = 0; i < n; i++) rank += c->values[i] > value;
    uint32_t margin = 4 + (uint32_t)(4 * sqrt((double)rank * (double)(n - rank + 1) / n));
    if (rank > margin) *high = select_largest(c->values, n, rank - margin);
    if (rank + margin <= n) *low = select_largest(c->values, n, rank + margin);
    return (double)rank / n;
}

/* A few passes over all places leave a narrow bracket around the cut. */
static void enclose(struct candidates *c, const float *key, double target, float high, float low, struct bracket *b) {
    narrow(c, key, target, high, low, b);
    for (int round = 0; round < 3 && b->n_end - b->n_above > 4096; round++) {
        /* Within a narrow bracket the mass grows about evenly with the key. */
        float width = b->high - b->low, share = (float)((target - b->above) / (b->end - b->above));
        if (!(width < INFINITY) || !(share >= 0) || !(share <= 1)) break;
        narrow(c, key, target, b->high - width * (share - 0.1f), b->high - width * (share + 0.1f), b);
    }
}

/* The last token that belongs to the cut among those whose key is `value`. */
static uint32_t last_tie(const struct candidates *c, const float *key, float value, double above, double target) {
    for (uint32_t i = 0; i < c->n; i++) {
        if (key[i] != value) continue;
        above += (double)c->w[i];
        if (above > target) return candidates_token(c, i);
    }
    return UINT32_MAX;
}

/* The cut among the places found[0 .. n), which hold all keys of a bracket. */
static struct cut cut_among(struct candidates *c, const float *key, const uint32_t *found, uint32_t n, double above,
                            double target) {
    double larger;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t place = found ? found[i] : i;
        c->selection[i] = (struct weighted){key[place], c->w[place]};
    }
    float value = select_by_mass(c->selection, n, target - above, &larger);
    uint32_t n_ties = 0;
    for (uint32_t i = 0; i < n; i++) n_ties += c->selection[i].key == value;
    uint32_t last = n_ties > 1 ? last_tie(c, key, value, above + larger, target) : UINT32_MAX;
    return (struct cut){value, last};
}

/* The cut when the row's n or more largest places hold it. Otherwise the bracket begins after them. */
static bool cut_among_largest(struct candidates *c, uint32_t n, double target, struct cut *cut, struct bracket *b) {
    double mass = 0;
    float low = reached_by(c, n);
    uint32_t found = find_from(c, low, c->list_ids);
    for (uint32_t i = 0; i < found; i++) mass += (double)c->w[c->list_ids[i]];
    if (mass > target) {
        *cut = cut_among(c, c->x, c->list_ids, found, 0, target);
        return true;
    }
    b->high = nextafterf(low, -INFINITY);
    b->above = mass;
    b->n_above = found;
    return false;
}

struct cut candidates_cut_by_mass(struct candidates *c, const float *key, double target) {
    enum { SMALL = 8192, FEW = 64, SOME = 1024 };
    if (c->n <= SMALL) return cut_among(c, key, NULL, c->n, 0, target);
    struct bracket b = {.high = INFINITY, .low = -INFINITY, .end = c->total, .n_end = c->n};
    struct cut cut;
    /* Most rows of a language model have their mass in few places. */
    bool is_row = key == c->x && !c->ids;
    if (is_row && cut_among_largest(c, FEW, target, &cut, &b)) return cut;
    float high, low;
    double share = guess(c, key, target, &b, &high, &low);
    if (is_row && share * c->n < SOME && cut_among_largest(c, SOME, target, &cut, &b)) return cut;
    enclose(c, key, target, high, low, &b);
    uint32_t *found = c->ids ? (uint32_t *)(void *)c->values : c->list_ids;
    uint32_t n = c->kernels->row_find(key, 0, c->n, b.high, b.low, found);
    if (!n) return (struct cut){b.low, UINT32_MAX};
    return cut_among(c, key, found, n, b.above, target);
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
    for (uint32_t i = c->n / 2; i-- > 0;) sift_down(c, i, c->n);
    for (uint32_t end = c->n; end > 1; end--) {
        swap_places(c, 0, end - 1);
        sift_down(c, 0, end - 1);
    }
}
