/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the kernels over rows of logits, which sampling uses. */
#include "tests/kernels/checkkern/check.h"

#include <string.h>

enum { LONGEST = 3 * ROW_CHUNK + 77 };

/* Lengths around the borders of lanes, blocks and chunks, then any. */
static uint32_t row_length(struct check *c, uint32_t i) {
    static const uint32_t lengths[] = {1, 15, 16, 17, 31, 32, 33, 511, 512, 513, 1024, 1025};
    return i < 12 ? lengths[i] : 1 + check_random(c, LONGEST);
}

/* A row as sampling has it after row_load: no NaN. */
static float *clean_row(struct check *c, enum values values, uint32_t n) {
    float *x = check_values(c, values, n);
    c->ref->row_load(x, n, x);
    return x;
}

#define FOR_ROWS(c, id, n, values)                                                                                     \
    for (uint32_t i = 0, n = 0; i < 400; i++)                                                                          \
        for (enum values values = (n = row_length(c, i), (enum values)(i % N_VALUES)), once_ = 1; once_; once_ = 0)    \
            if (check_case(c, "%s, %u values, %s", kernel_name(id), n, values_names[values]), 1)

void check_row_load(struct check *c, int id) {
    FOR_ROWS(c, id, n, values) {
        float *x = check_values(c, values, n), *a = check_room(c, n * sizeof *a), *b = check_room(c, n * sizeof *b);
        c->ref->row_load(x, n, a);
        c->other->row_load(x, n, b);
        check_same_f32(c, "x", a, b, n);
    }
}

void check_row_maxima(struct check *c, int id) {
    FOR_ROWS(c, id, n, values) {
        size_t m = (size_t)row_chunks(n) * ROW_LANES;
        float *x = clean_row(c, values, n), *a = check_room(c, m * sizeof *a), *b = check_room(c, m * sizeof *b);
        c->ref->row_maxima(x, n, a);
        c->other->row_maxima(x, n, b);
        check_same_f32(c, "maxima", a, b, m);
    }
}

void check_row_weights(struct check *c, int id) {
    FOR_ROWS(c, id, n, values) {
        size_t m = row_chunks(n) * sizeof(double);
        float *x = clean_row(c, values, n), *a = check_room(c, n * sizeof *a), *b = check_room(c, n * sizeof *b);
        double *sum_a = check_room(c, m), *sum_b = check_room(c, m);
        float shift = check_value(c, VALUES_PLAIN), scale = 1.5f + check_value(c, VALUES_PLAIN) / 2;
        c->ref->row_weights(x, shift, scale, n, a, sum_a);
        c->other->row_weights(x, shift, scale, n, b, sum_b);
        check_same_f32(c, "weights", a, b, n);
        check_same_bytes(c, "sums", sum_a, sum_b, m);
    }
}

void check_row_split(struct check *c, int id) {
    FOR_ROWS(c, id, n, values) {
        float *key = clean_row(c, values, n), *w = check_values(c, VALUES_PLAIN, n);
        float low = key[check_random(c, n)], high = key[check_random(c, n)];
        struct row_split a, b;
        memset(&a, 0, sizeof a);
        memset(&b, 0, sizeof b);
        c->ref->row_split(key, w, n, low < high ? high : low, low < high ? low : high, &a);
        c->other->row_split(key, w, n, low < high ? high : low, low < high ? low : high, &b);
        check_same_bytes(c, "split", &a, &b, sizeof a);
    }
}

void check_row_find(struct check *c, int id) {
    FOR_ROWS(c, id, n, values) {
        float *key = clean_row(c, values, n), low = key[check_random(c, n)], high = key[check_random(c, n)];
        uint32_t *a = check_room(c, n * sizeof *a), *b = check_room(c, n * sizeof *b), first = check_random(c, n);
        uint32_t end = first + 1 + check_random(c, n - first);
        uint32_t found_a = c->ref->row_find(key, first, end, high, low, a);
        uint32_t found_b = c->other->row_find(key, first, end, high, low, b);
        check_same_bytes(c, "number", &found_a, &found_b, sizeof found_a);
        if (found_a == found_b) check_same_bytes(c, "indices", a, b, found_a * sizeof *a);
    }
}

void check_row_keep(struct check *c, int id) {
    FOR_ROWS(c, id, n, values) {
        float *key = clean_row(c, values, n), *x = check_values(c, VALUES_PLAIN, n);
        float *a = check_copy(c, x, n * sizeof *x), *b = check_copy(c, x, n * sizeof *x),
              value = key[check_random(c, n)];
        c->ref->row_keep(key, value, n, a);
        c->other->row_keep(key, value, n, b);
        check_same_f32(c, "x", a, b, n);
    }
}
