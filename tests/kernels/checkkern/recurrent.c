/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the recurrences: odd sizes, parts of the channels, and the state after each call. */
#include "tests/kernels/checkkern/check.h"

#include <string.h>

static void compare_conv(struct check *c, struct conv_job job, enum values values) {
    size_t history = (size_t)(job.taps - 1) * job.n_channels,
           x_floats = (job.n_rows - 1) * job.x_stride + job.n_channels;
    size_t y_floats = (job.n_rows - 1) * job.y_stride + job.n_channels;
    job.x = check_values(c, values, (uint32_t)x_floats);
    job.weight = check_values(c, values == VALUES_EDGE ? values : VALUES_PLAIN, job.n_channels * job.taps);
    job.bias = check_random(c, 2) ? check_values(c, VALUES_PLAIN, job.n_channels) : NULL;
    float *state = check_values(c, values, (uint32_t)history), *y = check_values(c, VALUES_PLAIN, (uint32_t)y_floats);
    struct conv_job ref = job, other = job;
    ref.state = check_copy(c, state, history * sizeof *state);
    other.state = check_copy(c, state, history * sizeof *state);
    ref.y = check_copy(c, y, y_floats * sizeof *y);
    other.y = check_copy(c, y, y_floats * sizeof *y);
    if (job.x_stride == job.y_stride && check_random(c, 3) == 0) { /* in place */
        memcpy(other.y, job.x, y_floats * sizeof *y);
        memcpy(ref.y, job.x, y_floats * sizeof *y);
        other.x = other.y;
    }
    c->ref->conv(&ref);
    c->other->conv(&other);
    check_same_f32(c, "y", ref.y, other.y, y_floats);
    check_same_f32(c, "state", ref.state, other.state, history);
}

void check_conv(struct check *c, int id) {
    for (uint32_t i = 0; i < 700; i++) {
        uint32_t n_channels = 1 + check_random(c, i % 3 ? 100 : 400),
                 first = check_random(c, 3) ? 0 : check_random(c, n_channels);
        struct conv_job job = {.n_rows = 1 + (i % 4 ? check_random(c, 12) : 0),
                               .first = first,
                               .n_channels = n_channels,
                               .end = check_random(c, 3) ? n_channels : first + 1 + check_random(c, n_channels - first),
                               .taps = i % 2 ? 4 : 1 + check_random(c, 19),
                               .silu = check_random(c, 2)};
        job.x_stride = n_channels + (check_random(c, 2) ? check_random(c, 40) : 0);
        job.y_stride = check_random(c, 2) ? job.x_stride : n_channels;
        enum values values = i % N_VALUES;
        check_case(c, "%s, channels %u to %u of %u, %u taps, %u rows, %s values", kernel_name(id), job.first, job.end,
                   n_channels, job.taps, job.n_rows, values_names[values]);
        compare_conv(c, job, values);
    }
}

void check_mamba2(struct check *c, int id) {
    for (uint32_t i = 0; i < 600; i++) {
        uint32_t p = 1 + check_random(c, i % 3 ? 20 : 80),
                 n = i % 2 ? 64u << check_random(c, 2) : 1 + check_random(c, 140);
        enum values values = i % N_VALUES;
        check_case(c, "%s, head_dim %u, state_dim %u, %s values", kernel_name(id), p, n, values_names[values]);
        struct mamba2_job ref = {.head_dim = p,
                                 .state_dim = n,
                                 .x = check_values(c, values, p),
                                 .b = check_values(c, values, n),
                                 .c = check_values(c, values, n),
                                 .dt = check_value(c, check_random(c, 2) ? values : VALUES_PLAIN),
                                 .a = -1.0f - check_value(c, VALUES_PLAIN),
                                 .d = check_value(c, VALUES_PLAIN)};
        struct mamba2_job other = ref;
        float *state = check_values(c, values, p * n);
        ref.state = check_copy(c, state, (size_t)p * n * sizeof *state);
        other.state = state;
        ref.y = check_values(c, VALUES_PLAIN, p);
        other.y = check_values(c, VALUES_PLAIN, p);
        c->ref->mamba2(&ref);
        c->other->mamba2(&other);
        check_same_f32(c, "y", ref.y, other.y, p);
        check_same_f32(c, "state", ref.state, other.state, (size_t)p * n);
    }
}

void check_delta(struct check *c, int id) {
    for (uint32_t i = 0; i < 600; i++) {
        uint32_t k = i % 2 ? 64u << check_random(c, 2) : 1 + check_random(c, 140),
                 v = 1 + check_random(c, i % 3 ? 20 : 80);
        enum values values = i % N_VALUES;
        check_case(c, "%s, key_dim %u, value_dim %u, %s values", kernel_name(id), k, v, values_names[values]);
        struct delta_job ref = {.key_dim = k,
                                .value_dim = v,
                                .q = check_values(c, values, k),
                                .k = check_values(c, values, k),
                                .v = check_values(c, values, v),
                                .decay = check_value(c, check_random(c, 4) ? VALUES_PLAIN : values),
                                .beta = check_value(c, VALUES_PLAIN)};
        struct delta_job other = ref;
        float *state = check_values(c, values, v * k);
        ref.state = check_copy(c, state, (size_t)v * k * sizeof *state);
        other.state = state;
        ref.y = check_values(c, VALUES_PLAIN, v);
        other.y = check_values(c, VALUES_PLAIN, v);
        c->ref->delta(&ref);
        c->other->delta(&other);
        check_same_f32(c, "y", ref.y, other.y, v);
        check_same_f32(c, "state", ref.state, other.state, (size_t)v * k);
    }
}

void check_mamba1(struct check *c, int id) {
    for (uint32_t i = 0; i < 600; i++) {
        uint32_t p = 1 + check_random(c, i % 3 ? 20 : 80), n = i % 2 ? 16 : 1 + check_random(c, 40);
        enum values values = i % N_VALUES;
        check_case(c, "%s, %u channels, state_dim %u, %s values", kernel_name(id), p, n, values_names[values]);
        struct mamba1_job ref = {.n_channels = p,
                                 .state_dim = n,
                                 .x = check_values(c, values, p),
                                 .dt = check_values(c, check_random(c, 2) ? values : VALUES_PLAIN, p),
                                 .d = check_values(c, VALUES_PLAIN, p),
                                 .a = check_values(c, check_random(c, 2) ? values : VALUES_PLAIN, p * n),
                                 .b = check_values(c, values, n),
                                 .c = check_values(c, values, n)};
        struct mamba1_job other = ref;
        float *state = check_values(c, values, p * n);
        ref.state = check_copy(c, state, (size_t)p * n * sizeof *state);
        other.state = state;
        ref.y = check_values(c, VALUES_PLAIN, p);
        other.y = check_values(c, VALUES_PLAIN, p);
        c->ref->mamba1(&ref);
        c->other->mamba1(&other);
        check_same_f32(c, "y", ref.y, other.y, p);
        check_same_f32(c, "state", ref.state, other.state, (size_t)p * n);
    }
}

void check_lru(struct check *c, int id) {
    for (uint32_t i = 0; i < 600; i++) {
        uint32_t n = 1 + check_random(c, i % 3 ? 20 : 80);
        enum values values = i % N_VALUES;
        check_case(c, "%s, %u channels, %s values", kernel_name(id), n, values_names[values]);
        float *log_a = check_values(c, check_random(c, 2) ? values : VALUES_PLAIN, n);
        for (uint32_t k = 0; k < n; k++) log_a[k] = log_a[k] > 0 ? -log_a[k] : log_a[k];
        struct lru_job ref = {.n_channels = n, .is_first = i % 5 == 0, .x = check_values(c, values, n), .log_a = log_a};
        struct lru_job other = ref;
        float *state = check_values(c, values, n);
        ref.state = check_copy(c, state, n * sizeof *state);
        other.state = state;
        ref.y = check_values(c, VALUES_PLAIN, n);
        other.y = check_values(c, VALUES_PLAIN, n);
        c->ref->lru(&ref);
        c->other->lru(&other);
        check_same_f32(c, "y", ref.y, other.y, n);
        check_same_f32(c, "state", ref.state, other.state, n);
    }
}

void check_dplr(struct check *c, int id) {
    for (uint32_t i = 0; i < 600; i++) {
        uint32_t k = i % 2 ? 64u << check_random(c, 2) : 1 + check_random(c, 140),
                 v = 1 + check_random(c, i % 3 ? 20 : 80);
        enum values values = i % N_VALUES;
        check_case(c, "%s, key_dim %u, value_dim %u, %s values", kernel_name(id), k, v, values_names[values]);
        struct dplr_job ref = {.key_dim = k,
                               .value_dim = v,
                               .q = check_values(c, values, k),
                               .decay = check_values(c, check_random(c, 2) ? values : VALUES_PLAIN, k),
                               .a = check_values(c, values, k),
                               .b = check_values(c, VALUES_PLAIN, k),
                               .k = check_values(c, values, k),
                               .v = check_values(c, values, v)};
        struct dplr_job other = ref;
        float *state = check_values(c, values, v * k);
        ref.state = check_copy(c, state, (size_t)v * k * sizeof *state);
        other.state = state;
        ref.y = check_values(c, VALUES_PLAIN, v);
        other.y = check_values(c, VALUES_PLAIN, v);
        c->ref->dplr(&ref);
        c->other->dplr(&other);
        check_same_f32(c, "y", ref.y, other.y, v);
        check_same_f32(c, "state", ref.state, other.state, (size_t)v * k);
    }
}
