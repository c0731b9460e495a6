/* SPDX-License-Identifier: Apache-2.0 */
/* Where a sum of weights passes a target, without sorting. Tried in this order: the set is small, and selection finds
 * the cut; the 64 or 1,024 largest places of the row hold it; a sample tells about where it lies, a few passes over the
 * row narrow the bracket around it, and selection finds it among the places left. */
#include "engine/candidates.h"

#include "engine/select.h"

#include <math.h>

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

struct sample {
    uint32_t n;
    uint32_t rank; /* of the sample's own cut, from 1 */
};

/* At most `size` places of the bracket, evenly spread, into selection (reordered) and values; finds the cut among them.
 * */
static struct sample take_sample(struct candidates *c, const float *key, double target, const struct bracket *b,
                                 uint32_t size) {
    struct sample sample = {0, 1};
    double total = 0, above, share = (target - b->above) / (b->end - b->above);
    for (uint32_t i = 0; i < size; i++) {
        uint32_t place = (uint32_t)((uint64_t)i * c->n / size);
        if (key[place] > b->high) continue;
        c->selection[sample.n] = (struct weighted){key[place], c->w[place]};
        c->values[sample.n++] = key[place];
        total += (double)c->w[place];
    }
    if (!sample.n) return sample;
    float value = select_by_mass(c->selection, sample.n, share * total, &above);
    for (uint32_t i = 0; i < sample.n; i++) sample.rank += c->values[i] > value;
    return sample;
}

/* Two keys that most likely enclose the cut: four standard deviations of a rank around the sample's cut. */
static void guess(struct candidates *c, struct sample sample, const struct bracket *b, float *high, float *low) {
    uint32_t n = sample.n, rank = sample.rank;
    *high = b->high;
    *low = b->low;
    if (!n) return;
    uint32_t margin = 4 + (uint32_t)(4 * sqrt((double)rank * (double)(n - rank + 1) / n));
    if (rank > margin) *high = select_largest(c->values, n, rank - margin);
    if (rank + margin <= n) *low = select_largest(c->values, n, rank + margin);
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

enum { FEW = 64, SOME = 1024 };

/* The weight of the row's n largest places or a few more: found of them, down to the key low. */
static double mass_of_largest(struct candidates *c, uint32_t n, float *low, uint32_t *found) {
    double mass = 0;
    *low = candidates_reached_by(c, n);
    *found = candidates_find_from(c, *low, c->list_ids);
    for (uint32_t i = 0; i < *found; i++) mass += (double)c->w[c->list_ids[i]];
    return mass;
}

/* A bracket that begins after the n largest places of the row. False when they pass the target. */
static bool begin_after(struct candidates *c, uint32_t n, double target, struct bracket *b) {
    float low;
    b->above = mass_of_largest(c, n, &low, &b->n_above);
    b->high = nextafterf(low, -INFINITY);
    return b->above <= target;
}

bool candidates_is_wide(struct candidates *c, double target) {
    enum { SAMPLE = 256 };
    struct bracket b = {.low = -INFINITY, .end = c->total, .n_end = c->n};
    if (c->ids || c->n <= 4 * SOME || !begin_after(c, FEW, target, &b)) return false;
    struct sample sample = take_sample(c, c->x, target, &b, SAMPLE);
    return sample.n && (double)sample.rank * c->n / sample.n > 2 * SOME;
}

double candidates_mass_from(const struct candidates *c, float value) {
    struct row_split split;
    double sum = 0;
    if (c->ids) {
        c->kernels->row_split(c->x, c->w, c->n, INFINITY, value, &split);
        return split.from_low;
    }
    for (uint32_t chunk = 0; chunk < row_chunks(c->n); chunk++) {
        if (c->chunk_maxima[chunk] < value) continue;
        uint32_t first = chunk * ROW_CHUNK, n = c->n - first < ROW_CHUNK ? c->n - first : ROW_CHUNK;
        c->kernels->row_split(c->x + first, c->w + first, n, INFINITY, value, &split);
        sum += split.from_low;
    }
    return sum;
}

double candidates_mass_before(const struct candidates *c, uint32_t place) {
    struct row_split split;
    float x = c->x[place];
    c->kernels->row_split(c->x, c->w, c->n, x, x, &split);
    double before = split.above;
    if (split.n_from_low > split.n_above + 1)
        for (uint32_t i = 0; i < place; i++)
            if (c->x[i] == x) before += (double)c->w[i];
    return before;
}

/* The cut among the n largest places of the row, when they hold it. Otherwise the bracket begins after them. */
static bool cut_among_largest(struct candidates *c, uint32_t n, double target, struct cut *cut, struct bracket *b) {
    if (begin_after(c, n, target, b)) return false;
    uint32_t found = b->n_above;
    *cut = cut_among(c, c->x, c->list_ids, found, 0, target);
    return true;
}

struct cut candidates_cut_by_mass(struct candidates *c, const float *key, double target) {
    enum { SMALL = 8192, SAMPLE = 1024 };
    if (c->n <= SMALL) return cut_among(c, key, NULL, c->n, 0, target);
    struct bracket b = {.high = INFINITY, .low = -INFINITY, .end = c->total, .n_end = c->n};
    struct cut cut;
    /* Most rows of a language model have their mass in few places. */
    bool is_row = key == c->x && !c->ids;
    if (is_row && cut_among_largest(c, FEW, target, &cut, &b)) return cut;
    struct sample sample = take_sample(c, key, target, &b, SAMPLE);
    bool is_some = sample.n && (double)sample.rank * c->n / sample.n < SOME;
    if (is_row && is_some && cut_among_largest(c, SOME, target, &cut, &b)) return cut;
    float high, low;
    guess(c, sample, &b, &high, &low);
    enclose(c, key, target, high, low, &b);
    uint32_t *found = c->ids ? (uint32_t *)(void *)c->values : c->list_ids;
    uint32_t n = c->kernels->row_find(key, 0, c->n, b.high, b.low, found);
    if (!n) return (struct cut){b.low, UINT32_MAX};
    return cut_among(c, key, found, n, b.above, target);
}
