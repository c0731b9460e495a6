/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sampler_penalties.h"

#include <float.h>
#include <math.h>

void ban_by_mask(float *x, uint32_t n, const uint32_t *allowed_bits) {
    for (uint32_t first = 0; first < n; first += 32) {
        uint32_t allowed = allowed_bits[first / 32], end = n - first < 32 ? n : first + 32;
        if (allowed == 0xffffffffu) continue;
        for (uint32_t i = first; i < end; i++) x[i] = allowed >> (i - first) & 1 ? x[i] : -INFINITY;
    }
}

void ban_tokens(float *x, uint32_t n, const uint32_t *tokens, size_t n_tokens) {
    for (size_t i = 0; i < n_tokens; i++)
        if (tokens[i] < n) x[tokens[i]] = -INFINITY;
}

/* Stays finite, so that it is no ban. */
static float bounded(double value) {
    if (value < -(double)FLT_MAX) return -FLT_MAX;
    return value > (double)FLT_MAX ? FLT_MAX : (float)value;
}

void add_biases(float *x, const struct logit_bias *biases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float *logit = &x[biases[i].token];
        if (biases[i].bias == -INFINITY) *logit = -INFINITY;
        if (*logit > -INFINITY) *logit = bounded((double)*logit + (double)biases[i].bias);
    }
}

void penalize_repetition(float *x, const struct token_history *history, double penalty) {
    for (size_t i = 0; i < history->n_counts; i++) {
        const struct token_count *entry = &history->counts[i];
        float *logit = &x[entry->token];
        if (!entry->n[WINDOW_REPETITION] || *logit == -INFINITY) continue;
        *logit = bounded(*logit > 0 ? (double)*logit / penalty : (double)*logit * penalty);
    }
}

void penalize_counts(float *x, const struct token_history *history, double frequency, double presence) {
    for (size_t i = 0; i < history->n_counts; i++) {
        const struct token_count *entry = &history->counts[i];
        float *logit = &x[entry->token];
        if (*logit == -INFINITY) continue;
        double lowered = frequency * (double)entry->n[WINDOW_FREQUENCY];
        if (entry->n[WINDOW_PRESENCE]) lowered += presence;
        *logit = bounded((double)*logit - lowered);
    }
}
