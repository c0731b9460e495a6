/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sampler_filters.h"

#include "engine/select.h"

#include <math.h>

/* At least n places must stay: lowers a cut by x that keeps fewer. */
static struct cut at_least(struct candidates *c, struct cut cut, int64_t n) {
    if (n <= 1) return cut;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->n; i++)
        kept += c->x[i] > cut.value || (c->x[i] == cut.value && candidates_token(c, i) <= cut.last_tie);
    if (kept >= (uint64_t)n) return cut;
    candidates_keep_largest(c, n < (int64_t)c->n ? (uint32_t)n : c->n);
    return (struct cut){-INFINITY, UINT32_MAX};
}

void filter_top_n_sigma(struct candidates *c, double n) {
    if (!(n > 0)) return;
    double sum = 0, squares = 0, count = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->x[i] == -INFINITY) continue;
        double below = (double)c->x[i] - (double)c->max;
        sum += below;
        squares += below * below;
        count++;
    }
    double mean = sum / count, variance = squares / count - mean * mean;
    double sigma = variance > 0 ? sqrt(variance) : 0;
    candidates_keep(c, c->x, (struct cut){(float)((double)c->max - n * sigma), UINT32_MAX});
}

void filter_top_k(struct candidates *c, int64_t k) {
    if (k > 0 && k < (int64_t)c->n) candidates_keep_largest(c, (uint32_t)k);
}

double candidates_entropy(struct candidates *c) {
    candidates_weigh(c, 1);
    double sum = 0;
    for (uint32_t i = 0; i < c->n; i++)
        if (c->w[i] > 0) sum += (double)c->w[i] * ((double)c->x[i] - (double)c->max);
    return log(c->total) - sum / c->total;
}

void filter_typical(struct candidates *c, double p, int64_t min_keep) {
    if (!(p > 0 && p < 1)) return;
    double entropy = candidates_entropy(c);
    /* -log p = log total - (x - max); the key is minus its distance from the entropy. */
    float middle = (float)((double)c->max + log(c->total) - entropy);
    for (uint32_t i = 0; i < c->n; i++) c->keys[i] = -fabsf(c->x[i] - middle);
    struct cut cut = candidates_cut_by_mass(c, c->keys, p * c->total);
    if (min_keep > 1) {
        uint32_t n = candidates_count(c), kept = 0;
        for (uint32_t i = 0; i < c->n; i++) kept += c->keys[i] >= cut.value;
        if (kept < (uint64_t)min_keep) {
            for (uint32_t i = 0; i < c->n; i++) c->values[i] = c->keys[i];
            cut = (struct cut){select_largest(c->values, c->n, min_keep < n ? (size_t)min_keep : n), UINT32_MAX};
        }
    }
    candidates_keep(c, c->keys, cut);
    candidates_measure(c);
}

/* The least logit that min-p keeps. */
static float min_p_border(const struct candidates *c, double p) { return (float)((double)c->max + log(p)); }

bool is_within_nucleus(const struct candidates *c, double target, double min_p) {
    return min_p > 0 && candidates_mass_from(c, min_p_border(c, min_p)) <= target;
}

void filter_top_p(struct candidates *c, double p, double min_p, int64_t min_keep) {
    if (!(p > 0 && p < 1)) return;
    candidates_weigh(c, 1);
    double target = p * c->total;
    if (is_within_nucleus(c, target, min_p)) return;
    struct cut cut = candidates_cut_by_mass(c, c->x, target);
    candidates_keep(c, c->x, at_least(c, cut, min_keep));
}

void filter_min_p(struct candidates *c, double p, int64_t min_keep) {
    if (!(p > 0)) return;
    struct cut cut = {min_p_border(c, p), UINT32_MAX};
    candidates_keep(c, c->x, at_least(c, cut, min_keep));
}

static bool is_spared(uint32_t token, const uint32_t *spared, size_t n_spared) {
    for (size_t i = 0; i < n_spared; i++)
        if (spared[i] == token) return true;
    return false;
}

void filter_xtc(struct candidates *c, double threshold, int64_t min_keep, const uint32_t *spared, size_t n_spared,
                float *removed) {
    if (threshold > 0.5) return;
    candidates_weigh(c, 1);
    double border = threshold * c->total;
    float least = INFINITY;
    uint32_t n_above = 0, n_kept = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        if (!((double)c->w[i] > border)) continue;
        n_above++;
        if (c->x[i] < least) least = c->x[i];
    }
    if (n_above < 2) return;
    for (uint32_t i = 0; i < c->n; i++)
        n_kept += c->x[i] > -INFINITY && (c->x[i] <= least || is_spared(candidates_token(c, i), spared, n_spared));
    if (n_kept < (uint64_t)(min_keep > 0 ? min_keep : 0)) return;
    for (uint32_t i = 0; i < c->n; i++) {
        uint32_t token = candidates_token(c, i);
        if (c->x[i] <= least || is_spared(token, spared, n_spared)) continue;
        if (removed) removed[token] = -INFINITY;
        c->x[i] = -INFINITY;
    }
    candidates_measure(c);
}
