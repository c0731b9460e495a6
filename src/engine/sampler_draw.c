/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sampler_draw.h"

#include "engine/sampler_filters.h"

#include <float.h>
#include <math.h>

double draw_temperature(struct candidates *c, const struct sampling_params *params) {
    if (!(params->dynatemp_range > 0)) return params->temperature;
    uint32_t n = candidates_count(c);
    if (n < 2) return params->temperature;
    double share = candidates_entropy(c) / log((double)n);
    double low = params->temperature - params->dynatemp_range, high = params->temperature + params->dynatemp_range;
    if (low < 0) low = 0;
    return low + (high - low) * pow(share > 0 ? share : 0, params->dynatemp_exponent);
}

uint32_t draw_place(const struct candidates *c, double u) {
    double goal = u * c->total, sum = 0;
    uint32_t n_chunks = row_chunks(c->n), chunk = 0;
    while (chunk + 1 < n_chunks && sum + c->sums[chunk] <= goal) sum += c->sums[chunk++];
    /* Sums by chunk and by place differ in their last bits, so the walk may pass the border of a chunk. */
    for (uint32_t i = chunk * ROW_CHUNK; i < c->n; i++) {
        sum += (double)c->w[i];
        if (c->w[i] > 0 && sum > goal) return i;
    }
    for (uint32_t i = c->n; i-- > 0;)
        if (c->w[i] > 0) return i;
    return candidates_best(c);
}

uint32_t draw_tempered(struct candidates *c, double temperature, double u) {
    if (temperature <= 0) {
        uint32_t best = candidates_best(c);
        for (uint32_t i = 0; i < c->n; i++) c->w[i] = 0;
        c->w[best] = 1;
        c->total = 1;
        c->scale = 0;
        return best;
    }
    candidates_weigh(c, 1 / temperature);
    return draw_place(c, u);
}

enum nucleus_draw draw_from_nucleus(struct candidates *c, double top_p, double min_p, double temperature, double u,
                                    uint32_t *place) {
    candidates_weigh(c, 1);
    double target = top_p * c->total;
    if (is_within_nucleus(c, target, min_p) || !candidates_is_wide(c, target)) return NUCLEUS_NARROW;
    struct candidates tempered = *c;
    if (temperature != 1) {
        tempered.w = c->list_w; /* free as long as the set is a row */
        candidates_weigh(&tempered, 1 / temperature);
        c->scale = 0; /* the sums of chunks are the other's now */
    }
    *place = draw_place(&tempered, u);
    return candidates_mass_before(c, *place) <= target ? NUCLEUS_TAKEN : NUCLEUS_REJECTED;
}

/* Divides all logits by the temperature, in place; the largest becomes 0. */
static void apply_temperature(struct candidates *c, double temperature) {
    float inverse = 1 / temperature < (double)FLT_MAX ? (float)(1 / temperature) : FLT_MAX;
    for (uint32_t i = 0; i < c->n; i++) c->x[i] = (c->x[i] - c->max) * inverse;
    candidates_measure(c);
}

/* How many of the most probable tokens hold the surprise at mu, if probabilities fall like rank^-s (Zipf). */
static double mirostat_rank(struct candidates *c, double mu) {
    enum { ESTIMATED = 100 };
    double products = 0, squares = 0;
    candidates_sort(c);
    for (uint32_t i = 0; i + 1 < c->n && i + 1 < ESTIMATED; i++) {
        if (c->x[i + 1] == -INFINITY) break;
        double t = log((double)(i + 2) / (double)(i + 1)), b = (double)c->x[i] - (double)c->x[i + 1];
        products += t * b;
        squares += t * t;
    }
    if (!(products > 0)) return INFINITY; /* one token, or all alike */
    double s = products / squares, epsilon = s - 1, n = c->vocab_size;
    /* epsilon / (1 - n^-epsilon) tends to 1 / log n as epsilon tends to 0. */
    double slope = fabs(epsilon) < 1e-9 ? 1 / log(n) : epsilon / (1 - pow(n, -epsilon));
    return pow(slope * exp2(mu), 1 / s);
}

/* The list of the 100 best destroys the row's set, so version 1 restores it: the row itself still holds all. */
static void keep_rank(struct candidates *c, double mu) {
    struct candidates row = *c;
    candidates_keep_largest(c, 100);
    double rank = mirostat_rank(c, mu);
    *c = row;
    if (rank < (double)c->n) candidates_keep_largest(c, rank >= 1 ? (uint32_t)rank : 1);
}

uint32_t draw_mirostat(struct candidates *c, const struct sampling_params *params, double mu, double u,
                       double *surprise) {
    if (params->temperature <= 0) {
        *surprise = 0;
        return draw_tempered(c, 0, u);
    }
    apply_temperature(c, params->temperature);
    if (params->mirostat == 1) {
        keep_rank(c, mu);
    } else {
        candidates_weigh(c, 1);
        /* surprise <= mu: log2(total) - (x - max) / ln 2 <= mu */
        double least = (double)c->max + log(c->total) - mu * log(2);
        if (least > (double)c->max) least = (double)c->max;
        candidates_keep(c, c->x, (struct cut){(float)least, UINT32_MAX});
    }
    candidates_weigh(c, 1);
    uint32_t place = draw_place(c, u);
    *surprise = log2(c->total) - log2((double)c->w[place]);
    return place;
}

uint32_t draw_adaptive(struct candidates *c, double temperature, double target, double u, double *probability) {
    if (temperature <= 0) {
        *probability = 1;
        return draw_tempered(c, 0, u);
    }
    /* Near the target the new logit falls with the square of the distance, far from it with the distance. */
    const double peak = 5, sharpness = 10, width = 0.3;
    candidates_weigh(c, 1 / temperature);
    double total = c->total;
    for (uint32_t i = 0; i < c->n; i++) {
        c->keys[i] = c->w[i];
        if (c->x[i] == -INFINITY) continue;
        double distance = fabs((double)c->w[i] / total - target) / width;
        c->x[i] = (float)(peak - sharpness * distance * distance / (1 + distance));
    }
    candidates_measure(c);
    candidates_weigh(c, 1);
    uint32_t place = draw_place(c, u);
    *probability = (double)c->keys[place] / total;
    return place;
}
