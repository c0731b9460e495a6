/* SPDX-License-Identifier: Apache-2.0 */
/* Head ops that go token by token: convolutions and recurrences. A task is one unit of a whole span; at each snapshot row
 * the unit's part of the state is copied. */
#include "backend/cpu/unit.h"

#include <math.h>
#include <string.h>

static float *state_at(const struct compiled *c, uint32_t slot, uint32_t offset) {
    return c->states + (size_t)slot * c->graph->state_floats + offset;
}

/* Rows of a span up to the next snapshot. */
struct segment {
    uint32_t first_row, n_rows;
    int64_t snapshot; /* slot, or -1 */
};

static bool next_segment(const struct compiled *c, const struct unit *u, uint32_t *at, uint32_t *snapshot,
                         struct segment *s) {
    const struct step_span *span = &c->step->spans[u->span];
    uint32_t end = u->first_row + u->n_rows;
    if (*at == end) return false;
    *s = (struct segment){.first_row = *at, .n_rows = end - *at, .snapshot = -1};
    if (*snapshot < span->n_snapshots) {
        s->n_rows = span->snapshots[*snapshot].row + 1 - *at;
        s->snapshot = span->snapshots[(*snapshot)++].slot;
    }
    *at += s->n_rows;
    return true;
}

/* Runs `step` for the unit's rows in order on n floats of the state, and copies these at snapshots. number: what the step is
 * told, mostly a head. */
static void
advance(const struct compiled *c, const struct op *op, const struct unit *u, uint32_t number, uint32_t offset, size_t n,
        void (*step)(const struct compiled *, const struct op *, uint32_t row, uint32_t number, float *state)) {
    float *state = state_at(c, c->step->spans[u->span].state_out, offset);
    uint32_t at = u->first_row, snapshot = 0;
    struct segment s;
    while (next_segment(c, u, &at, &snapshot, &s)) {
        for (uint32_t r = s.first_row; r < s.first_row + s.n_rows; r++) step(c, op, r, number, state);
        if (s.snapshot >= 0) memcpy(state_at(c, (uint32_t)s.snapshot, offset), state, n * sizeof *state);
    }
}

static void conv_range(const struct compiled *c, const struct op *op, const struct segment *s, uint32_t slot,
                       uint32_t first, uint32_t end) {
    const struct conv_params *p = &op->head.conv;
    float *state = state_at(c, slot, p->state);
    struct conv_job job = {.n_rows = s->n_rows,
                           .first = first,
                           .end = end,
                           .n_channels = p->n_channels,
                           .taps = p->taps,
                           .x = value_row(c, op->in[0], s->first_row),
                           .x_stride = value_stride(c, op->in[0]),
                           .y = value_row(c, op->out, s->first_row),
                           .y_stride = value_stride(c, op->out),
                           .weight = p->weight->vector,
                           .bias = p->bias ? p->bias->vector : NULL,
                           .state = state,
                           .silu = p->silu};
    c->kernels->conv(&job);
    for (uint32_t t = 0; t + 1 < p->taps && s->snapshot >= 0; t++) {
        size_t at = (size_t)t * p->n_channels + first;
        memcpy(state_at(c, (uint32_t)s->snapshot, p->state) + at, state + at, (end - first) * sizeof *state);
    }
}

static void conv(const struct compiled *c, const struct op *op, const struct unit *u) {
    const struct conv_params *p = &op->head.conv;
    uint32_t at = u->first_row, snapshot = 0;
    struct segment s;
    while (next_segment(c, u, &at, &snapshot, &s))
        for (uint32_t i = 0; i < p->n_ranges; i++) {
            uint32_t first = p->first[i] + u->unit * p->count[i], end = first + p->count[i];
            if (end > p->n_channels) end = p->n_channels;
            conv_range(c, op, &s, c->step->spans[u->span].state_out, first, end);
        }
}

static float mamba2_time_step(const struct compiled *c, const struct op *op, uint32_t row, uint32_t head) {
    const struct mamba2_params *p = &op->head.mamba2;
    if (!op->in[3].width) return 1.0f;
    float dt = value_row(c, op->in[3], row)[head] + (p->dt_bias ? p->dt_bias->vector[head] : 0.0f);
    c->kernels->unary(UNARY_SOFTPLUS, &dt, 1, &dt);
    return dt < p->dt_min ? p->dt_min : dt > p->dt_max ? p->dt_max : dt;
}

/* A softmax-weighted mean that is being collected, n channels: largest raw weight, sum of exponentials, weighted sum. */
struct series {
    float *m, *l, *o;
};

static struct series series_at(float *state, uint32_t width, uint32_t number, uint32_t first) {
    float *at = state + (size_t)number * 3 * width + first;
    return (struct series){at, at + width, at + 2 * (size_t)width};
}

/* a and b become exp(x - max(x, y)) and exp(y - max(x, y)), m the larger one; an empty series (l = 0) has no weight. */
static void merge_weights(const struct compiled *c, const float *x, const float *l, const float *y, uint32_t n,
                          float *m, float *a, float *b) {
    for (uint32_t k = 0; k < n; k++) {
        float most = l[k] != 0.0f && x[k] > y[k] ? x[k] : y[k];
        a[k] = l[k] != 0.0f ? x[k] - most : -INFINITY;
        b[k] = y[k] - most;
        m[k] = most;
    }
    c->kernels->unary(UNARY_EXP, a, n, a);
    c->kernels->unary(UNARY_EXP, b, n, b);
}

static void collect(const struct compiled *c, struct series s, const float *x, const float *raw, const float *bias,
                    uint32_t n) {
    float weight[COMPRESS_UNIT] = {0}, a[COMPRESS_UNIT], b[COMPRESS_UNIT];
    for (uint32_t k = 0; k < n; k++) weight[k] = raw[k] + bias[k];
    merge_weights(c, s.m, s.l, weight, n, s.m, a, b);
    for (uint32_t k = 0; k < n; k++) {
        s.l[k] = s.l[k] * a[k] + b[k];
        s.o[k] = s.o[k] * a[k] + x[k] * b[k];
    }
}

/* Moves one series to another's place, and empties it. */
static void hand_over(struct series from, struct series to, uint32_t n) {
    size_t bytes = n * sizeof(float);
    memcpy(to.m, from.m, bytes), memcpy(to.l, from.l, bytes), memcpy(to.o, from.o, bytes);
    memset(from.m, 0, bytes), memset(from.l, 0, bytes), memset(from.o, 0, bytes);
}

static void finish(const struct compiled *c, struct series now, struct series before, uint32_t n, float *out) {
    float m[COMPRESS_UNIT], a[COMPRESS_UNIT], b[COMPRESS_UNIT];
    merge_weights(c, before.m, before.l, now.m, n, m, a, b);
    for (uint32_t k = 0; k < n; k++) {
        float sum = before.l[k] * a[k] + now.l[k] * b[k], weighted = before.o[k] * a[k] + now.o[k] * b[k];
        out[k] = weighted / sum;
    }
}

static void compress_row(const struct compiled *c, const struct op *op, uint32_t row, uint32_t first, uint32_t n,
                         float *state) {
    const struct compress_params *p = &op->head.compress;
    uint32_t place = c->step->rows[row].cell % p->run, w = p->width, all = p->is_overlapped ? 2 * w : w;
    const float *x = value_row(c, op->in[0], row), *raw = value_row(c, op->in[1], row);
    const float *bias = p->biases->vector + (size_t)place * all;
    float *out = value_row(c, op->out, row) + first;
    uint32_t last = all - w + first; /* channels of the series that counts now */
    struct series now = series_at(state, w, 0, first);
    if (place == 0) memset(now.l, 0, n * sizeof *now.l), memset(now.o, 0, n * sizeof *now.o);
    collect(c, now, x + last, raw + last, bias + last, n);
    memset(out, 0, n * sizeof *out);
    if (!p->is_overlapped) {
        for (uint32_t k = 0; k < n && place == p->run - 1; k++) out[k] = now.o[k] / now.l[k];
        return;
    }
    struct series next = series_at(state, w, 1, first), before = series_at(state, w, 2, first);
    if (place == 0) hand_over(next, before, n);
    collect(c, next, x + first, raw + first, bias + first, n);
    if (place == p->run - 1) finish(c, now, before, n, out);
}

static void compress(const struct compiled *c, const struct op *op, const struct unit *u) {
    const struct compress_params *p = &op->head.compress;
    uint32_t first = u->unit * COMPRESS_UNIT, n = p->width - first < COMPRESS_UNIT ? p->width - first : COMPRESS_UNIT;
    float *state = state_at(c, c->step->spans[u->span].state_out, p->state);
    uint32_t at = u->first_row, snapshot = 0, n_arrays = p->is_overlapped ? 9 : 3;
    struct segment s;
    while (next_segment(c, u, &at, &snapshot, &s)) {
        for (uint32_t r = s.first_row; r < s.first_row + s.n_rows; r++) compress_row(c, op, r, first, n, state);
        for (uint32_t i = 0; i < n_arrays && s.snapshot >= 0; i++)
            memcpy(state_at(c, (uint32_t)s.snapshot, p->state) + (size_t)i * p->width + first,
                   state + (size_t)i * p->width + first, n * sizeof *state);
    }
}

/* Tokens are f32s of the state: exact up to 2^24. A row without a token counts as token 0. */
static void ngram_row(const struct compiled *c, const struct op *op, uint32_t row, uint32_t number, float *state) {
    const struct ngram_params *p = &op->head.ngram;
    uint32_t n_before = p->n - 1, token = c->step->rows[row].token < 0 ? 0 : (uint32_t)c->step->rows[row].token;
    float *out = value_row(c, op->out, row);
    (void)number;
    for (uint32_t table = 0; table < n_before * p->n_tables; table++) {
        uint64_t size = p->first_size + 2 * (uint64_t)table, power = 1, sum = token;
        for (uint32_t back = 1; back <= table / p->n_tables + 1; back++) {
            power = power * p->vocab_size % size;
            sum += (uint64_t)state[n_before - back] * power;
        }
        uint32_t hash = (uint32_t)(sum % size);
        memcpy(out + table, &hash, sizeof hash);
    }
    memmove(state, state + 1, (n_before - 1) * sizeof *state);
    state[n_before - 1] = (float)token;
}

static void ngram(const struct compiled *c, const struct op *op, const struct unit *u) {
    const struct ngram_params *p = &op->head.ngram;
    advance(c, op, u, 0, p->state, p->n - 1, ngram_row);
}

static void mamba2_row(const struct compiled *c, const struct op *op, uint32_t row, uint32_t head, float *state) {
    const struct mamba2_params *p = &op->head.mamba2;
    uint32_t group = head / p->heads_per_group;
    c->kernels->mamba2(&(struct mamba2_job){.head_dim = p->head_dim,
                                            .state_dim = p->state_dim,
                                            .x = value_row(c, op->in[0], row) + (size_t)head * p->head_dim,
                                            .b = value_row(c, op->in[1], row) + (size_t)group * p->state_dim,
                                            .c = value_row(c, op->in[2], row) + (size_t)group * p->state_dim,
                                            .dt = mamba2_time_step(c, op, row, head),
                                            .a = p->a->vector[head],
                                            .d = p->d ? p->d->vector[head] : 0.0f,
                                            .state = state,
                                            .y = value_row(c, op->out, row) + (size_t)head * p->head_dim});
}

static void mamba2(const struct compiled *c, const struct op *op, const struct unit *u) {
    const struct mamba2_params *p = &op->head.mamba2;
    size_t n = (size_t)p->head_dim * p->state_dim;
    advance(c, op, u, u->unit, p->state + (uint32_t)(u->unit * n), n, mamba2_row);
}

static uint32_t scan_width(const struct scan_params *p, uint32_t first) {
    return p->n_channels - first < p->unit_channels ? p->n_channels - first : p->unit_channels;
}

/* The selective scan and the gated linear recurrence: a unit's channels of a row. */
static void scan_row(const struct compiled *c, const struct op *op, uint32_t r, uint32_t unit, float *state) {
    const struct scan_params *p = &op->head.scan;
    uint32_t first = unit * p->unit_channels, n = scan_width(p, first);
    const float *x = value_row(c, op->in[0], r) + first;
    float *y = value_row(c, op->out, r) + first;
    if (op->kind == OP_LRU) {
        c->kernels->lru(&(struct lru_job){.n_channels = n,
                                          .is_first = c->step->rows[r].cell == 0,
                                          .x = x,
                                          .log_a = value_row(c, op->in[1], r) + first,
                                          .state = state,
                                          .y = y});
        return;
    }
    c->kernels->mamba1(&(struct mamba1_job){.n_channels = n,
                                            .state_dim = p->state_dim,
                                            .x = x,
                                            .dt = value_row(c, op->in[3], r) + first,
                                            .d = p->d->vector + first,
                                            .a = p->a->vector + (size_t)first * p->state_dim,
                                            .b = value_row(c, op->in[1], r),
                                            .c = value_row(c, op->in[2], r),
                                            .state = state,
                                            .y = y});
}

static void scan(const struct compiled *c, const struct op *op, const struct unit *u) {
    const struct scan_params *p = &op->head.scan;
    uint32_t first = u->unit * p->unit_channels;
    advance(c, op, u, u->unit, p->state + first * p->state_dim, (size_t)scan_width(p, first) * p->state_dim, scan_row);
}

static void dplr_row(const struct compiled *c, const struct op *op, uint32_t row, uint32_t head, float *state) {
    const struct dplr_params *p = &op->head.dplr;
    size_t keys = (size_t)head * p->key_dim, values = (size_t)head * p->value_dim;
    c->kernels->dplr(&(struct dplr_job){.key_dim = p->key_dim,
                                        .value_dim = p->value_dim,
                                        .q = value_row(c, op->in[0], row) + keys,
                                        .decay = value_row(c, op->in[1], row) + keys,
                                        .a = value_row(c, op->in[2], row) + keys,
                                        .b = value_row(c, op->in[3], row) + keys,
                                        .k = value_row(c, op->in[4], row) + keys,
                                        .v = value_row(c, op->in[5], row) + values,
                                        .state = state,
                                        .y = value_row(c, op->out, row) + values});
}

static void dplr(const struct compiled *c, const struct op *op, const struct unit *u) {
    const struct dplr_params *p = &op->head.dplr;
    size_t n = (size_t)p->value_dim * p->key_dim;
    advance(c, op, u, u->unit, p->state + (uint32_t)(u->unit * n), n, dplr_row);
}

/* decay = exp(a * softplus(raw + dt_bias)), beta = sigmoid(raw). */
static void delta_gates(const struct compiled *c, const struct op *op, uint32_t row, uint32_t head, float *decay,
                        float *beta) {
    const struct delta_params *p = &op->head.delta;
    float dt = value_row(c, op->in[4], row)[head] + p->dt_bias->vector[head];
    c->kernels->unary(UNARY_SOFTPLUS, &dt, 1, &dt);
    *decay = p->a->vector[head] * dt;
    c->kernels->unary(UNARY_EXP, decay, 1, decay);
    c->kernels->unary(UNARY_SIGMOID, value_row(c, op->in[3], row) + head, 1, beta);
    *beta = *beta * p->beta_factor;
}

static void delta_row(const struct compiled *c, const struct op *op, uint32_t row, uint32_t head, float *state) {
    const struct delta_params *p = &op->head.delta;
    uint32_t key_head = head / (p->n_value_heads / p->n_key_heads);
    struct delta_job job = {.key_dim = p->key_dim,
                            .value_dim = p->value_dim,
                            .q = value_row(c, op->in[0], row) + (size_t)key_head * p->key_dim,
                            .k = value_row(c, op->in[1], row) + (size_t)key_head * p->key_dim,
                            .v = value_row(c, op->in[2], row) + (size_t)head * p->value_dim,
                            .state = state,
                            .y = value_row(c, op->out, row) + (size_t)head * p->value_dim};
    delta_gates(c, op, row, head, &job.decay, &job.beta);
    c->kernels->delta(&job);
}

static void delta(const struct compiled *c, const struct op *op, const struct unit *u) {
    const struct delta_params *p = &op->head.delta;
    uint32_t per_key = p->n_value_heads / p->n_key_heads;
    size_t n = (size_t)p->value_dim * p->key_dim;
    for (uint32_t head = u->unit * per_key; head < (u->unit + 1) * per_key; head++)
        advance(c, op, u, head, p->state + (uint32_t)(head * n), n, delta_row);
}

void cpu_recurrent_unit(const struct compiled *c, const struct op *op, const struct unit *u) {
    switch (op->kind) {
    case OP_CONV: conv(c, op, u); break;
    case OP_COMPRESS: compress(c, op, u); break;
    case OP_NGRAM: ngram(c, op, u); break;
    case OP_MAMBA2: mamba2(c, op, u); break;
    case OP_MAMBA1:
    case OP_LRU: scan(c, op, u); break;
    case OP_DPLR: dplr(c, op, u); break;
    case OP_DELTA: delta(c, op, u); break;
    default: break;
    }
}
