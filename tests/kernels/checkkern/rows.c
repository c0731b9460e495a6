/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the kernels that work on one row: every length up to 70, then lengths around powers of two, with all kinds
 * of values; where a kernel may work in place, it does so in every second case. */
#include "tests/kernels/checkkern/check.h"

#include "base/half.h"

#include <math.h>
#include <string.h>

/* Lengths 1 to 70, then these. */
static const uint32_t long_rows[] = {79,  80,  81,  95,  96,  97,  127,  128,  129,  160,  191,  192, 200,
                                     255, 256, 257, 300, 511, 512, 1000, 1023, 1024, 1025, 2048, 2051};
enum { SHORT_ROWS = 70, N_ROWS = SHORT_ROWS + sizeof long_rows / sizeof *long_rows };

static uint32_t row_length(unsigned i) { return i < SHORT_ROWS ? i + 1 : long_rows[i - SHORT_ROWS]; }

#define FOR_ALL_ROWS(c, id, n, values)                                                                                 \
    for (unsigned case_ = 0; case_ < N_ROWS * N_VALUES; case_++)                                                       \
        for (uint32_t n = row_length(case_ / N_VALUES), values = case_ % N_VALUES, once_ = 1; once_; once_ = 0)        \
            if (check_case(c, "%s, n = %u, %s values", kernel_name(id), n, values_names[values]), true)

static bool in_place(const struct check *c) { return c->random >> 20 & 1; }

/* Two copies of a row: where the result of ref and that of the other table go. */
struct results {
    float *ref, *other;
};

static struct results results_like(struct check *c, const float *x, uint32_t n) {
    struct results y = {check_copy(c, x, n * sizeof *x), check_copy(c, x, n * sizeof *x)};
    return y;
}

static void same_rows(struct check *c, struct results y, uint32_t n) { check_same_f32(c, "y", y.ref, y.other, n); }

void check_to_f32(struct check *c, int id) {
    FOR_ALL_ROWS(c, id, n, values) {
        size_t bytes = activation_row_bytes(ACTIVATION_F32, n);
        float *x = check_values(c, values, n), *ref = check_room(c, bytes), *other = check_room(c, bytes);
        c->ref->to_f32(x, n, ref);
        c->other->to_f32(x, n, other);
        check_same_f32(c, "out", ref, other, bytes / 4);
    }
}

void check_to_bf16(struct check *c, int id) {
    FOR_ALL_ROWS(c, id, n, values) {
        size_t bytes = activation_row_bytes(ACTIVATION_BF16, n);
        float *x = check_values(c, values, n);
        uint16_t *ref = check_room(c, bytes), *other = check_room(c, bytes);
        c->ref->to_bf16(x, n, ref);
        c->other->to_bf16(x, n, other);
        check_same_bf16(c, "out", ref, other, bytes / 2);
    }
}

void check_to_q8(struct check *c, int id) {
    FOR_ALL_ROWS(c, id, n, values)
    for (enum activation_form order = ACTIVATION_BYTES; order <= ACTIVATION_CRUMBS; order++) {
        check_case(c, "to_q8, n = %u, order %u, %s values", n, order, values_names[values]);
        size_t bytes = activation_row_bytes(order, n), codes = (size_t)q8_blocks(n) * 64;
        float *x = check_values(c, values, n);
        if (n > 64 && values == VALUES_PLAIN) /* blocks of quite different size */
            for (uint32_t k = 0; k < n; k++) x[k] = ldexpf(x[k], (int)(k / 64 % 9) * 16 - 64);
        unsigned char *ref = check_room(c, bytes), *other = check_room(c, bytes);
        c->ref->to_q8(x, n, order, ref);
        c->other->to_q8(x, n, order, other);
        check_same_bytes(c, "codes", ref, other, codes);
        check_same_f32(c, "scales and sums", (const float *)(const void *)(ref + codes),
                       (const float *)(const void *)(other + codes), (bytes - codes) / 4);
    }
}

void check_dot(struct check *c, int id) {
    FOR_ALL_ROWS(c, id, n, values) {
        float *a = check_values(c, values, n), *b = check_values(c, values, n);
        float ref = c->ref->dot(a, b, n), other = c->other->dot(a, b, n);
        check_same_f32(c, "dot", &ref, &other, 1);
    }
}

void check_rms_norm(struct check *c, int id) {
    FOR_ALL_ROWS(c, id, n, values) {
        float *x = check_values(c, values, n), *weight = check_random(c, 3) ? check_values(c, values, n) : NULL;
        float eps = check_random(c, 2) ? 1e-6f : 1e-5f;
        struct results y = results_like(c, x, n);
        bool same_buffer = in_place(c);
        c->ref->rms_norm(x, weight, eps, n, y.ref);
        c->other->rms_norm(same_buffer ? y.other : x, weight, eps, n, y.other);
        same_rows(c, y, n);
    }
}

void check_layer_norm(struct check *c, int id) {
    FOR_ALL_ROWS(c, id, n, values) {
        float *x = check_values(c, values, n), *weight = check_random(c, 3) ? check_values(c, VALUES_PLAIN, n) : NULL;
        float *bias = check_random(c, 2) ? check_values(c, VALUES_PLAIN, n) : NULL;
        struct results y = results_like(c, x, n);
        bool same_buffer = in_place(c);
        c->ref->layer_norm(x, weight, bias, 1e-5f, n, y.ref);
        c->other->layer_norm(same_buffer ? y.other : x, weight, bias, 1e-5f, n, y.other);
        same_rows(c, y, n);
    }
}

void check_two_rows(struct check *c, int id) {
    FOR_ALL_ROWS(c, id, n, values) {
        float *a = check_values(c, values, n), *b = check_values(c, check_random(c, 2) ? values : VALUES_PLAIN, n);
        struct results y = results_like(c, a, n);
        const float *first = in_place(c) ? y.other : a;
        if (id == KERNEL_add)
            c->ref->add(a, b, n, y.ref), c->other->add(first, b, n, y.other);
        else
            c->ref->multiply(a, b, n, y.ref), c->other->multiply(first, b, n, y.other);
        same_rows(c, y, n);
    }
}

void check_one_row(struct check *c, int id) {
    FOR_ALL_ROWS(c, id, n, values) {
        float *x = check_values(c, values, n), *start = check_values(c, values, n);
        float factor = check_value(c, check_random(c, 2) ? values : VALUES_PLAIN), cap = 30.0f + (float)n;
        struct results y = results_like(c, id == KERNEL_add_scaled ? start : x, n);
        const float *from = in_place(c) && id != KERNEL_add_scaled ? y.other : x;
        if (id == KERNEL_scale)
            c->ref->scale(x, factor, n, y.ref), c->other->scale(from, factor, n, y.other);
        else if (id == KERNEL_softcap)
            c->ref->softcap(x, cap, n, y.ref), c->other->softcap(from, cap, n, y.other);
        else if (id == KERNEL_threshold)
            c->ref->threshold(x, 0.25f, n, y.ref), c->other->threshold(from, 0.25f, n, y.other);
        else if (id == KERNEL_clip)
            c->ref->clip(x, -0.5f, 0.75f, n, y.ref), c->other->clip(from, -0.5f, 0.75f, n, y.other);
        else
            c->ref->add_scaled(x, factor, n, y.ref), c->other->add_scaled(from, factor, n, y.other);
        same_rows(c, y, n);
    }
}

void check_shaped_row(struct check *c, int id) {
    FOR_ALL_ROWS(c, id, n, values) {
        float *x = check_values(c, values, n);
        float high = 0.02f * (float)(n % 89), step = 0.25f + 0.01f * (float)(n % 31);
        struct results y = results_like(c, x, n);
        const float *from = in_place(c) ? y.other : x;
        if (id == KERNEL_grid)
            c->ref->grid(x, step, n, y.ref), c->other->grid(from, step, n, y.other);
        else
            c->ref->xielu(x, step, high, 0.5f, -1e-6f, n, y.ref),
                c->other->xielu(from, step, high, 0.5f, -1e-6f, n, y.other);
        same_rows(c, y, n);
    }
}

/* Values from -110 to 110 in small steps: every branch and every exponent of the elementary functions. */
static float *sweep(struct check *c, uint32_t n) {
    float *x = check_room(c, n * sizeof *x);
    for (uint32_t i = 0; i < n; i++)
        x[i] = 220.0f * (float)i / (float)n - 110.0f + 0.001f * check_value(c, VALUES_PLAIN);
    return x;
}

static void compare_unary(struct check *c, enum unary kind, const float *x, uint32_t n) {
    struct results y = results_like(c, x, n);
    bool same_buffer = in_place(c);
    c->ref->unary(kind, x, n, y.ref);
    c->other->unary(kind, same_buffer ? y.other : x, n, y.other);
    same_rows(c, y, n);
}

void check_unary(struct check *c, int id) {
    FOR_ALL_ROWS(c, id, n, values)
    for (enum unary kind = 0; kind < N_UNARY; kind++) {
        check_case(c, "unary %u, n = %u, %s values", kind, n, values_names[values]);
        compare_unary(c, kind, check_values(c, values, n), n);
    }
    for (enum unary kind = 0; kind < N_UNARY; kind++) {
        check_case(c, "unary %u, values from -110 to 110", kind);
        compare_unary(c, kind, sweep(c, 100000), 100000);
        check_case(c, "unary %u, any values", kind);
        compare_unary(c, kind, check_values(c, VALUES_BITS, 100000), 100000);
    }
}

void check_gated(struct check *c, int id) {
    FOR_ALL_ROWS(c, id, n, values)
    for (enum unary kind = 0; kind < N_UNARY; kind++) {
        check_case(c, "gated %u, n = %u, %s values", kind, n, values_names[values]);
        float *gate = check_values(c, values, n), *up = check_values(c, values, n);
        struct results y = results_like(c, gate, n);
        const float *from = in_place(c) ? y.other : gate;
        c->ref->gated(kind, gate, up, n, y.ref);
        c->other->gated(kind, from, up, n, y.other);
        same_rows(c, y, n);
    }
}

void check_softmax(struct check *c, int id) {
    FOR_ALL_ROWS(c, id, n, values) {
        float *x = check_values(c, values, n);
        if (values == VALUES_PLAIN && check_random(c, 2))
            for (uint32_t k = 0; k < n; k++) x[k] *= 40.0f;
        struct results y = results_like(c, x, n);
        c->ref->softmax(y.ref, n);
        c->other->softmax(y.other, n);
        same_rows(c, y, n);
    }
}

void check_rope(struct check *c, int id) {
    FOR_ALL_ROWS(c, id, half, values) {
        uint32_t n = 2 * half;
        float *x = check_values(c, values, n), *cosine = check_values(c, VALUES_PLAIN, half);
        float *sine = check_values(c, check_random(c, 4) ? VALUES_PLAIN : values, half);
        struct results y = results_like(c, x, n);
        const float *from = in_place(c) ? y.other : x;
        if (id == KERNEL_rope_halves)
            c->ref->rope_halves(x, cosine, sine, n, y.ref), c->other->rope_halves(from, cosine, sine, n, y.other);
        else
            c->ref->rope_pairs(x, cosine, sine, n, y.ref), c->other->rope_pairs(from, cosine, sine, n, y.other);
        same_rows(c, y, n);
    }
}

void check_rope_angles(struct check *c, int id) {
    for (unsigned i = 0; i < SHORT_ROWS; i++) {
        uint32_t n = row_length(i), position = check_random(c, i & 1 ? 100000 : 100);
        check_case(c, "%s, n = %u, position %u", kernel_name(id), n, position);
        float *frequency = check_room(c, n * sizeof *frequency), *out = check_values(c, VALUES_PLAIN, 2 * n);
        for (uint32_t k = 0; k < n; k++) frequency[k] = powf(10000.0f, -(float)k / (float)n);
        struct results y = results_like(c, out, 2 * n);
        c->ref->rope_angles((float)position, frequency, n, 1.0f + 0.1f * (float)(i & 1), y.ref, y.ref + n);
        c->other->rope_angles((float)position, frequency, n, 1.0f + 0.1f * (float)(i & 1), y.other, y.other + n);
        same_rows(c, y, 2 * n);
    }
}
