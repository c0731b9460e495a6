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

static uint32_t index_of(const float *indices, uint32_t slot) {
    uint32_t e;
    memcpy(&e, &indices[slot], sizeof e);
    return e;
}

/* Sets the scores of all but the best groups to 0; a group's score is the sum of its two best (Liu et al. 2024). */
static void keep_best_groups(const struct router_params *r, float *scores) {
    uint32_t size = r->n_experts / r->n_groups;
    for (uint32_t dropped = 0; dropped + r->top_groups < r->n_groups; dropped++) {
        uint32_t worst = 0;
        float worst_score = INFINITY;
        for (uint32_t g = 0; g < r->n_groups; g++) {
            const float *s = scores + (size_t)g * size;
            float first = -INFINITY, second = -INFINITY;
            for (uint32_t e = 0; e < size; e++) {
                if (s[e] > first)
                    second = first, first = s[e];
                else if (s[e] > second)
                    second = s[e];
            }
            float score = size > 1 ? first + second : first;
            /* of equal groups the later one goes; NaN marks a group that is gone */
            if (s[0] == s[0] && score <= worst_score) worst = g, worst_score = score;
        }
        for (uint32_t e = 0; e < size; e++) scores[(size_t)worst * size + e] = NAN;
    }
    for (uint32_t e = 0; e < r->n_experts; e++)
        if (scores[e] != scores[e]) scores[e] = 0.0f;
}

void cpu_route_row(const struct compiled *c, const struct router_params *r, float *logits, float *out) {
    const struct kernels *k = c->kernels;
    uint32_t n = r->n_experts, top_k = r->top_k;
    float *weights = out + top_k, scores[1024];
    if (r->kind == ROUTER_SOFTMAX_ALL) k->softmax(logits, n);
    if (r->kind == ROUTER_SIGMOID) k->unary(UNARY_SIGMOID, logits, n, logits);
    if (r->bias)
        k->add(logits, r->bias->vector, n, scores);
    else
        memcpy(scores, logits, n * sizeof *scores);
    if (r->n_groups > 1) keep_best_groups(r, scores);
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
}
