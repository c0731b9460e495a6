/* SPDX-License-Identifier: Apache-2.0 */
/* Routers: which experts a row goes to, and with which weights. Ties take the lower index. */
#include "backend/cpu/cpu.h"

#include <math.h>
#include <string.h>

/* The k best of scores, descending, their indices as u32 bits; used ones become -inf. */
static void take_best(float *scores, uint32_t n, uint32_t k, float *indices) {
    for (uint32_t slot = 0; slot < k; slot++) {
        uint32_t best = 0;
        for (uint32_t e = 1; e < n; e++)
            if (scores[e] > scores[best]) best = e;
        memcpy(&indices[slot], &best, sizeof best);
        scores[best] = -INFINITY;
    }
}

/* The experts that the table has for a token; rows without one take token 0. Numbers beyond the experts become 0. */
static void take_listed(const struct router_params *r, int32_t token, float *indices) {
    const struct weight *table = r->table;
    size_t at = token > 0 && ((size_t)token + 1) * r->top_k <= table->n_cols ? (size_t)token * r->top_k : 0;
    for (uint32_t slot = 0; slot < r->top_k; slot++) {
        float value = table->vector[at + slot];
        uint32_t e = value >= 0.0f && value < (float)r->n_experts ? (uint32_t)value : 0;
        memcpy(&indices[slot], &e, sizeof e);
    }
}

static uint32_t index_of(const float *indices, uint32_t slot) {
    uint32_t e;
    memcpy(&e, &indices[slot], sizeof e);
    return e;
}

/* The sum of the two best scores, or the best one. */
static float group_score(const float *s, uint32_t size, bool by_best) {
    float first = -INFINITY, second = -INFINITY;
    for (uint32_t e = 0; e < size; e++) {
        if (s[e] > first)
            second = first, first = s[e];
        else if (s[e] > second)
            second = s[e];
    }
    return size > 1 && !by_best ? first + second : first;
}

/* Takes the scores of all but the best groups out of the choice (Liu et al. 2024). */
static void keep_best_groups(const struct router_params *r, float *scores) {
    uint32_t size = (r->n_experts + r->n_identity) / r->n_groups;
    for (uint32_t dropped = 0; dropped + r->top_groups < r->n_groups; dropped++) {
        uint32_t worst = 0;
        float worst_score = INFINITY;
        for (uint32_t g = 0; g < r->n_groups; g++) {
            const float *s = scores + (size_t)g * size;
            float score = group_score(s, size, r->group_by_best);
            /* of equal groups the later one goes; NaN marks a group that is gone */
            if (s[0] == s[0] && score <= worst_score) worst = g, worst_score = score;
        }
        for (uint32_t e = 0; e < size; e++) scores[(size_t)worst * size + e] = NAN;
    }
    for (uint32_t e = 0; e < size * r->n_groups; e++)
        if (scores[e] != scores[e]) scores[e] = r->group_to_lowest ? -INFINITY : 0.0f;
}

/* Each pass takes the best logit that is left. Its weight is its softmax among the logits left whose distance to it is
 * at most 2 * jitter of the larger magnitude (Liu, Chen and Gao 2023). */
static void sparsemixer(const struct compiled *c, const struct router_params *r, const float *logits, float *left,
                        float *out) {
    float kept[1024];
    uint32_t n = r->n_experts;
    for (uint32_t slot = 0; slot < r->top_k; slot++) {
        uint32_t best = 0;
        for (uint32_t e = 1; e < n; e++)
            if (left[e] > left[best]) best = e;
        float most = left[best];
        for (uint32_t e = 0; e < n; e++) {
            float magnitude = fabsf(logits[e]) > most ? fabsf(logits[e]) : most;
            kept[e] = (most - logits[e]) / magnitude > 2.0f * r->jitter ? -INFINITY : left[e];
        }
        c->kernels->softmax(kept, n);
        memcpy(&out[slot], &best, sizeof best);
        out[r->top_k + slot] = kept[best];
        left[best] = -INFINITY;
    }
}

void cpu_route_row(const struct compiled *c, const struct router_params *r, int32_t token, float *logits, float *out) {
    const struct kernels *k = c->kernels;
    uint32_t n = r->n_experts + r->n_identity, top_k = r->top_k;
    float *weights = out + top_k, scores[1024];
    if (r->kind == ROUTER_SPARSEMIXER) {
        memcpy(scores, logits, n * sizeof *scores);
        sparsemixer(c, r, logits, scores, out);
        return;
    }
    if (r->kind == ROUTER_SOFTMAX_ALL) k->softmax(logits, n);
    if (r->kind == ROUTER_SIGMOID) k->unary(UNARY_SIGMOID, logits, n, logits);
    if (r->kind == ROUTER_SQRT_SOFTPLUS) {
        k->unary(UNARY_SOFTPLUS, logits, n, logits);
        for (uint32_t e = 0; e < n; e++) logits[e] = sqrtf(logits[e]);
    }
    if (r->bias)
        k->add(logits, r->bias->vector, n, scores);
    else
        memcpy(scores, logits, n * sizeof *scores);
    if (r->n_groups > 1) keep_best_groups(r, scores);
    if (r->table)
        take_listed(r, token, out);
    else
        take_best(scores, n, top_k, out);
    for (uint32_t s = 0; s < top_k; s++) weights[s] = logits[index_of(out, s)];
    if (r->kind == ROUTER_SOFTMAX_TOP) k->softmax(weights, top_k);
    if (r->normalize) {
        float sum = 0.0f;
        for (uint32_t s = 0; s < top_k; s++) sum = sum + weights[s];
        sum = sum + r->normalize_epsilon;
        for (uint32_t s = 0; s < top_k; s++) weights[s] = weights[s] / sum;
    }
    if (r->factor != 1.0f) k->scale(weights, r->factor, top_k, weights);
    for (uint32_t s = 0; s < top_k && r->expert_scale; s++)
        weights[s] = weights[s] * r->expert_scale->vector[index_of(out, s)];
}
