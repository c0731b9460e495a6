/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrences, and writing cells of pages. */
#include "kernels/simd/math.h"
#include "kernels/simd/simd.h"

/* ---- convolution: channels in lanes ---- */

/* Tap t of n <= 16 channels, whose weights lie `taps` apart. */
SIMD_INLINE lanes load_tap(const float *weight, uint32_t taps, uint32_t t, uint32_t n) {
    float part[16] = {0};
    for (uint32_t i = 0; i < n; i++) part[i] = weight[(size_t)i * taps + t];
    return lanes_load(part);
}

/* All four taps of 16 channels: two unzips bring the taps apart. */
SIMD_INLINE void load_four_taps(const float *weight, lanes w[4]) {
    float even[32], odd[32];
    lanes e, o;
    SIMD_UNROLL for (int half = 0; half < 2; half++) {
        lanes_unzip(weight + 32 * half, &e, &o);
        lanes_store(even + 16 * half, e);
        lanes_store(odd + 16 * half, o);
    }
    lanes_unzip(even, &w[0], &w[2]);
    lanes_unzip(odd, &w[1], &w[3]);
}

/* n <= 16 channels from c on; taps is a constant, so that weights and history stay in registers. */
SIMD_INLINE void conv_channels(const struct conv_job *job, uint32_t taps, uint32_t c, uint32_t n) {
    lanes w[4], past[4], bias = job->bias ? lanes_load_some(job->bias + c, n) : lanes_zero();
    const float *weight = job->weight + (size_t)c * taps;
    if (taps == 4 && n == 16)
        load_four_taps(weight, w);
    else
        SIMD_UNROLL for (uint32_t t = 0; t < taps; t++) w[t] = load_tap(weight, taps, t, n);
    SIMD_UNROLL for (uint32_t t = 0; t + 1 < taps; t++) past[t] =
        lanes_load_some(job->state + (size_t)t * job->n_channels + c, n);
    for (uint32_t r = 0; r < job->n_rows; r++) {
        lanes y = bias;
        past[taps - 1] = lanes_load_some(job->x + r * job->x_stride + c, n);
        SIMD_UNROLL for (uint32_t t = 0; t < taps; t++) y = lanes_fma(w[t], past[t], y);
        SIMD_UNROLL for (uint32_t t = 0; t + 1 < taps; t++) past[t] = past[t + 1];
        lanes_store_some(job->y + r * job->y_stride + c, job->silu ? lanes_silu(y) : y, n);
    }
    SIMD_UNROLL for (uint32_t t = 0; t + 1 < taps; t++)
        lanes_store_some(job->state + (size_t)t * job->n_channels + c, past[t], n);
}

/* Any number of taps: the history moves in memory. */
static void conv_channels_slowly(const struct conv_job *job, uint32_t c, uint32_t n) {
    uint32_t history = job->taps - 1;
    const float *weight = job->weight + (size_t)c * job->taps;
    for (uint32_t r = 0; r < job->n_rows; r++) {
        lanes y = job->bias ? lanes_load_some(job->bias + c, n) : lanes_zero();
        lanes now = lanes_load_some(job->x + r * job->x_stride + c, n);
        float *state = job->state + c;
        for (uint32_t t = 0; t < history; t++, state += job->n_channels) {
            y = lanes_fma(load_tap(weight, job->taps, t, n), lanes_load_some(state, n), y);
            lanes_store_some(state, t + 1 < history ? lanes_load_some(state + job->n_channels, n) : now, n);
        }
        y = lanes_fma(load_tap(weight, job->taps, history, n), now, y);
        lanes_store_some(job->y + r * job->y_stride + c, job->silu ? lanes_silu(y) : y, n);
    }
}

void SIMD_NAME(conv)(const struct conv_job *job) {
    for (uint32_t c = job->first; c < job->end; c += 16) {
        uint32_t n = job->end - c < 16 ? job->end - c : 16;
        switch (job->taps) {
        case 2: conv_channels(job, 2, c, n); break;
        case 3: conv_channels(job, 3, c, n); break;
        case 4: conv_channels(job, 4, c, n); break;
        default: conv_channels_slowly(job, c, n);
        }
    }
}

/* ---- states: several rows at a time, since one sum of 16 lanes is a chain ---- */

enum { STATE_ROWS = 4 };

/* Rows p .. p + rows of the state, rows a constant. */
SIMD_INLINE void mamba2_rows(const struct mamba2_job *job, float decay, uint32_t p, uint32_t rows) {
    uint32_t n = job->state_dim;
    float *state = job->state + (size_t)p * n;
    lanes sums[STATE_ROWS], input[STATE_ROWS], factor = lanes_set1(decay);
    SIMD_UNROLL for (uint32_t i = 0; i < rows; i++) {
        sums[i] = lanes_zero();
        input[i] = lanes_set1(job->dt * job->x[p + i]);
    }
    for (uint32_t k = 0; k < n; k += 16) {
        uint32_t left = n - k;
        lanes b = lanes_load_some(job->b + k, left), c = lanes_load_some(job->c + k, left);
        SIMD_UNROLL for (uint32_t i = 0; i < rows; i++) {
            lanes s = lanes_fma(input[i], b, lanes_mul(lanes_load_some(state + i * n + k, left), factor));
            lanes_store_some(state + i * n + k, s, left);
            if (left < 16) s = lanes_neutral(s, left);
            sums[i] = lanes_fma(s, c, sums[i]);
        }
    }
    SIMD_UNROLL for (uint32_t i = 0; i < rows; i++) job->y[p + i] =
        __builtin_fmaf(job->d, job->x[p + i], lanes_sum(sums[i]));
}

void SIMD_NAME(mamba2)(const struct mamba2_job *job) {
    float decay[16];
    lanes_store(decay, lanes_exp(lanes_set1(job->dt * job->a)));
    uint32_t p = 0;
    for (; p + STATE_ROWS <= job->head_dim; p += STATE_ROWS) mamba2_rows(job, decay[0], p, STATE_ROWS);
    for (; p < job->head_dim; p++) mamba2_rows(job, decay[0], p, 1);
}

/* Rows of the state are channels, each with rates of its own. */
SIMD_INLINE void mamba1_rows(const struct mamba1_job *job, uint32_t c, uint32_t rows) {
    uint32_t n = job->state_dim;
    float *state = job->state + (size_t)c * n;
    const float *a = job->a + (size_t)c * n;
    lanes sums[STATE_ROWS], input[STATE_ROWS], dt[STATE_ROWS];
    SIMD_UNROLL for (uint32_t i = 0; i < rows; i++) {
        sums[i] = lanes_zero();
        dt[i] = lanes_set1(job->dt[c + i]);
        input[i] = lanes_set1(job->dt[c + i] * job->x[c + i]);
    }
    for (uint32_t k = 0; k < n; k += 16) {
        uint32_t left = n - k;
        lanes b = lanes_load_some(job->b + k, left), out = lanes_load_some(job->c + k, left);
        SIMD_UNROLL for (uint32_t i = 0; i < rows; i++) {
            lanes decay = lanes_exp(lanes_mul(dt[i], lanes_load_some(a + i * n + k, left)));
            lanes s = lanes_fma(input[i], b, lanes_mul(lanes_load_some(state + i * n + k, left), decay));
            lanes_store_some(state + i * n + k, s, left);
            if (left < 16) s = lanes_neutral(s, left);
            sums[i] = lanes_fma(s, out, sums[i]);
        }
    }
    SIMD_UNROLL for (uint32_t i = 0; i < rows; i++) job->y[c + i] =
        __builtin_fmaf(job->d[c + i], job->x[c + i], lanes_sum(sums[i]));
}

void SIMD_NAME(mamba1)(const struct mamba1_job *job) {
    uint32_t c = 0;
    for (; c + STATE_ROWS <= job->n_channels; c += STATE_ROWS) mamba1_rows(job, c, STATE_ROWS);
    for (; c < job->n_channels; c++) mamba1_rows(job, c, 1);
}

void SIMD_NAME(lru)(const struct lru_job *job) {
    for (uint32_t c = 0; c < job->n_channels; c += 16) {
        uint32_t n = job->n_channels - c;
        lanes x = lanes_load_some(job->x + c, n), log_a = lanes_load_some(job->log_a + c, n), state = x;
        if (!job->is_first) {
            lanes square = lanes_exp(lanes_mul(lanes_set1(2.0f), log_a));
            lanes share = lanes_sqrt(lanes_sub(lanes_set1(1.0f), square));
            state = lanes_fma(lanes_exp(log_a), lanes_load_some(job->state + c, n), lanes_mul(share, x));
        }
        lanes_store_some(job->state + c, state, n);
        lanes_store_some(job->y + c, state, n);
    }
}

SIMD_INLINE void dplr_rows(const struct dplr_job *job, uint32_t first, uint32_t rows) {
    uint32_t n = job->key_dim;
    float *state = job->state + (size_t)first * n;
    lanes sums[STATE_ROWS], e[STATE_ROWS], v[STATE_ROWS];
    SIMD_UNROLL for (uint32_t i = 0; i < rows; i++) sums[i] = lanes_zero();
    for (uint32_t k = 0; k < n; k += 16) {
        lanes a = lanes_load_some(job->a + k, n - k);
        SIMD_UNROLL for (uint32_t i = 0; i < rows; i++) {
            lanes s = lanes_load_some(state + i * n + k, n - k);
            if (n - k < 16) s = lanes_neutral(s, n - k);
            sums[i] = lanes_fma(s, a, sums[i]);
        }
    }
    SIMD_UNROLL for (uint32_t i = 0; i < rows; i++) {
        e[i] = lanes_set1(lanes_sum(sums[i]));
        v[i] = lanes_set1(job->v[first + i]);
        sums[i] = lanes_zero();
    }
    for (uint32_t k = 0; k < n; k += 16) {
        uint32_t left = n - k;
        lanes key = lanes_load_some(job->k + k, left), query = lanes_load_some(job->q + k, left);
        lanes b = lanes_load_some(job->b + k, left), decay = lanes_load_some(job->decay + k, left);
        SIMD_UNROLL for (uint32_t i = 0; i < rows; i++) {
            lanes s = lanes_fma(e[i], b, lanes_mul(lanes_load_some(state + i * n + k, left), decay));
            s = lanes_fma(v[i], key, s);
            lanes_store_some(state + i * n + k, s, left);
            if (left < 16) s = lanes_neutral(s, left);
            sums[i] = lanes_fma(s, query, sums[i]);
        }
    }
    SIMD_UNROLL for (uint32_t i = 0; i < rows; i++) job->y[first + i] = lanes_sum(sums[i]);
}

void SIMD_NAME(dplr)(const struct dplr_job *job) {
    uint32_t i = 0;
    for (; i + STATE_ROWS <= job->value_dim; i += STATE_ROWS) dplr_rows(job, i, STATE_ROWS);
    for (; i < job->value_dim; i++) dplr_rows(job, i, 1);
}

/* Rows i .. i + rows of the state. The decayed state is computed twice rather than stored in between. */
SIMD_INLINE void delta_rows(const struct delta_job *job, uint32_t first, uint32_t rows) {
    uint32_t n = job->key_dim;
    float *state = job->state + (size_t)first * n;
    lanes sums[STATE_ROWS], e[STATE_ROWS], decay = lanes_set1(job->decay);
    SIMD_UNROLL for (uint32_t i = 0; i < rows; i++) sums[i] = lanes_zero();
    for (uint32_t k = 0; k < n; k += 16) {
        lanes key = lanes_load_some(job->k + k, n - k);
        SIMD_UNROLL for (uint32_t i = 0; i < rows; i++) {
            lanes s = lanes_mul(lanes_load_some(state + i * n + k, n - k), decay);
            if (n - k < 16) s = lanes_neutral(s, n - k);
            sums[i] = lanes_fma(s, key, sums[i]);
        }
    }
    SIMD_UNROLL for (uint32_t i = 0; i < rows; i++) {
        e[i] = lanes_set1(job->beta * (job->v[first + i] - lanes_sum(sums[i])));
        sums[i] = lanes_zero();
    }
    for (uint32_t k = 0; k < n; k += 16) {
        lanes key = lanes_load_some(job->k + k, n - k), query = lanes_load_some(job->q + k, n - k);
        SIMD_UNROLL for (uint32_t i = 0; i < rows; i++) {
            lanes s = lanes_fma(e[i], key, lanes_mul(lanes_load_some(state + i * n + k, n - k), decay));
            lanes_store_some(state + i * n + k, s, n - k);
            if (n - k < 16) s = lanes_neutral(s, n - k);
            sums[i] = lanes_fma(s, query, sums[i]);
        }
    }
    SIMD_UNROLL for (uint32_t i = 0; i < rows; i++) job->y[first + i] = lanes_sum(sums[i]);
}

void SIMD_NAME(delta)(const struct delta_job *job) {
    uint32_t i = 0;
    for (; i + STATE_ROWS <= job->value_dim; i += STATE_ROWS) delta_rows(job, i, STATE_ROWS);
    for (; i < job->value_dim; i++) delta_rows(job, i, 1);
}

/* ---- cells ---- */

void SIMD_NAME(kv_store)(enum kv_format format, const float *key, uint32_t key_dim, const float *value,
                         uint32_t value_dim, uint32_t cell, void *key_page, void *value_page) {
    float *key32 = (float *)key_page + cell, *value32 = (float *)value_page + (size_t)cell * value_dim;
    uint16_t *key16 = (uint16_t *)key_page + cell, *value16 = (uint16_t *)value_page + (size_t)cell * value_dim;
    if (format == KV_F32) {
        for (uint32_t d = 0; d < key_dim; d++) key32[(size_t)d * PAGE_CELLS] = key[d];
        for (uint32_t d = 0; d < value_dim; d += 16)
            lanes_store_some(value32 + d, lanes_load_some(value + d, value_dim - d), value_dim - d);
        return;
    }
    uint16_t part[16];
    for (uint32_t d = 0; d < key_dim; d += 16) {
        uint32_t n = key_dim - d < 16 ? key_dim - d : 16;
        halves_store(part, lanes_to_f16(lanes_load_some(key + d, n)));
        for (uint32_t i = 0; i < n; i++) key16[(size_t)(d + i) * PAGE_CELLS] = part[i];
    }
    for (uint32_t d = 0; d < value_dim; d += 16) {
        uint32_t n = value_dim - d < 16 ? value_dim - d : 16;
        halves h = lanes_to_f16(lanes_load_some(value + d, n));
        if (n == 16)
            halves_store(value16 + d, h);
        else
            for (uint32_t i = (halves_store(part, h), 0); i < n; i++) value16[d + i] = part[i];
    }
}
