/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrences: causal convolution, Mamba-2 (Dao and Gu 2024), the gated delta rule (Yang et al. 2024). */
#include "kernels/ref/ref.h"

#include "kernels/ref/math.h"

void REF_NAME(conv)(const struct conv_job *job) {
    uint32_t history = job->taps - 1;
    for (uint32_t c = job->first; c < job->end; c++) {
        for (uint32_t r = 0; r < job->n_rows; r++) {
            float y = job->bias ? job->bias[c] : 0.0f, now = job->x[r * job->x_stride + c];
            for (uint32_t t = 0; t < history; t++)
                y = fused(job->weight[(size_t)c * job->taps + t], job->state[(size_t)t * job->n_channels + c], y);
            y = fused(job->weight[(size_t)c * job->taps + history], now, y);
            for (uint32_t t = 0; t + 1 < history; t++)
                job->state[(size_t)t * job->n_channels + c] = job->state[(size_t)(t + 1) * job->n_channels + c];
            if (history) job->state[(size_t)(history - 1) * job->n_channels + c] = now;
            job->y[r * job->y_stride + c] = job->silu ? math_silu(y) : y;
        }
    }
}

void REF_NAME(mamba2)(const struct mamba2_job *job) {
    float decay = math_exp(job->dt * job->a);
    for (uint32_t p = 0; p < job->head_dim; p++) {
        float *state = job->state + (size_t)p * job->state_dim, input = job->dt * job->x[p];
        for (uint32_t n = 0; n < job->state_dim; n++) state[n] = fused(input, job->b[n], state[n] * decay);
        job->y[p] = fused(job->d, job->x[p], dot16(state, job->c, job->state_dim));
    }
}

void REF_NAME(mamba1)(const struct mamba1_job *job) {
    uint32_t n_state = job->state_dim;
    for (uint32_t c = 0; c < job->n_channels; c++) {
        float *state = job->state + (size_t)c * n_state, input = job->dt[c] * job->x[c];
        const float *a = job->a + (size_t)c * n_state;
        for (uint32_t n = 0; n < n_state; n++)
            state[n] = fused(input, job->b[n], state[n] * math_exp(job->dt[c] * a[n]));
        job->y[c] = fused(job->d[c], job->x[c], dot16(state, job->c, n_state));
    }
}

void REF_NAME(lru)(const struct lru_job *job) {
    for (uint32_t c = 0; c < job->n_channels; c++) {
        float a = math_exp(job->log_a[c]), share = __builtin_sqrtf(1.0f - math_exp(2.0f * job->log_a[c]));
        job->state[c] = job->is_first ? job->x[c] : fused(a, job->state[c], share * job->x[c]);
        job->y[c] = job->state[c];
    }
}

void REF_NAME(dplr)(const struct dplr_job *job) {
    for (uint32_t i = 0; i < job->value_dim; i++) {
        float *state = job->state + (size_t)i * job->key_dim, e = dot16(state, job->a, job->key_dim);
        for (uint32_t n = 0; n < job->key_dim; n++)
            state[n] = fused(job->v[i], job->k[n], fused(e, job->b[n], state[n] * job->decay[n]));
        job->y[i] = dot16(state, job->q, job->key_dim);
    }
}

void REF_NAME(delta)(const struct delta_job *job) {
    for (uint32_t i = 0; i < job->value_dim; i++) {
        float *state = job->state + (size_t)i * job->key_dim;
        for (uint32_t n = 0; n < job->key_dim; n++) state[n] = state[n] * job->decay;
        float e = job->beta * (job->v[i] - dot16(state, job->k, job->key_dim));
        for (uint32_t n = 0; n < job->key_dim; n++) state[n] = fused(e, job->k[n], state[n]);
        job->y[i] = dot16(state, job->q, job->key_dim);
    }
}
