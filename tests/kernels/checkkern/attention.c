/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of attention and of writing cells. Every cell that a query does not see holds a NaN pattern or an infinity in
 * some pages, pages that none sees are NULL, and queries of one call see quite different ranges. */
#include "tests/kernels/checkkern/check.h"

#include "base/half.h"

#include <math.h>
#include <string.h>

enum { MOST_PAGES = 6 };

static const uint32_t dims[] = {64, 128, 1, 16, 17, 80, 33, 96, 256, 72, 15, 48};
enum { N_DIMS = sizeof dims / sizeof *dims };

static size_t cell_bytes(enum kv_format format) { return format == KV_F16 ? 2 : 4; }

void check_kv_store(struct check *c, int id) {
    for (uint32_t i = 0; i < 900; i++) {
        enum kv_format format = i & 1;
        enum values values = i / 2 % N_VALUES;
        uint32_t key_dim = i % 3 ? dims[check_random(c, N_DIMS)] : 1 + check_random(c, 100);
        uint32_t value_dim = check_random(c, 2) ? key_dim : dims[check_random(c, N_DIMS)],
                 cell = check_random(c, PAGE_CELLS);
        check_case(c, "%s, format %d, dims %u and %u, cell %u, %s values", kernel_name(id), format, key_dim, value_dim,
                   cell, values_names[values]);
        const float *key = check_values(c, values, key_dim), *value = check_values(c, values, value_dim);
        size_t key_values = (size_t)key_dim * PAGE_CELLS, value_values = (size_t)value_dim * PAGE_CELLS;
        void *pages[2][2];
        for (int p = 0; p < 2; p++) {
            pages[0][p] = memset(check_room(c, key_values * cell_bytes(format)), 0x11, key_values * cell_bytes(format));
            pages[1][p] =
                memset(check_room(c, value_values * cell_bytes(format)), 0x11, value_values * cell_bytes(format));
        }
        c->ref->kv_store(format, key, key_dim, value, value_dim, cell, pages[0][0], pages[1][0]);
        c->other->kv_store(format, key, key_dim, value, value_dim, cell, pages[0][1], pages[1][1]);
        for (int p = 0; p < 2; p++) {
            size_t n = p ? value_values : key_values;
            if (format == KV_F16)
                check_same_f16(c, p ? "values" : "keys", pages[p][0], pages[p][1], n);
            else
                check_same_f32(c, p ? "values" : "keys", pages[p][0], pages[p][1], n);
        }
    }
}

struct attention_case {
    struct attention_job job;
    uint32_t n_pages;
    enum values values;
};

static void put_cell(struct check *c, const struct attention_case *a, void *page, size_t index, bool is_seen) {
    static const float garbage[] = {NAN, INFINITY, -INFINITY, 0x1p100f};
    float value = check_value(c, a->values == VALUES_SPECIAL || a->values == VALUES_BITS ? VALUES_PLAIN : a->values);
    if (!is_seen)
        value = garbage[check_random(c, 4)];
    else if (a->values == VALUES_SPECIAL && !check_random(c, 40000))
        value = garbage[check_random(c, 3)];
    if (a->job.format == KV_F16)
        ((uint16_t *)page)[index] = f32_to_f16(value);
    else
        ((float *)page)[index] = value;
}

static bool is_seen(const struct attention_case *a, uint32_t cell) {
    for (uint32_t i = 0; i < a->job.n_queries; i++)
        if (cell >= a->job.first_cell[i] && cell < a->job.end_cell[i]) return true;
    return false;
}

static void make_pages(struct check *c, struct attention_case *a) {
    const void **keys = check_room(c, MOST_PAGES * sizeof *keys), **values = check_room(c, MOST_PAGES * sizeof *values);
    struct attention_job *job = &a->job;
    job->key_pages = keys;
    job->value_pages = values;
    for (uint32_t page = 0; page < a->n_pages; page++) {
        bool seen[PAGE_CELLS], any = false;
        for (uint32_t cell = 0; cell < PAGE_CELLS; cell++) {
            seen[cell] = is_seen(a, page * PAGE_CELLS + cell);
            any = any || seen[cell];
        }
        keys[page] = values[page] = NULL;
        if (!any) continue;
        void *key_page = check_room(c, (size_t)job->key_dim * PAGE_CELLS * cell_bytes(job->format));
        void *value_page = check_room(c, (size_t)job->value_dim * PAGE_CELLS * cell_bytes(job->format));
        for (size_t k = 0; k < (size_t)job->key_dim * PAGE_CELLS; k++)
            put_cell(c, a, key_page, k, seen[k % PAGE_CELLS]);
        for (size_t k = 0; k < (size_t)job->value_dim * PAGE_CELLS; k++)
            put_cell(c, a, value_page, k, seen[k / job->value_dim]);
        keys[page] = key_page;
        values[page] = value_page;
    }
}

/* Ranges as rows of a prompt have them (shape 0), with windows (1), anything (2), one row of several heads (3). */
static void make_ranges(struct check *c, struct attention_case *a, int shape) {
    uint32_t n = a->job.n_queries, cells = a->n_pages * PAGE_CELLS, heads = 1 + check_random(c, 4);
    uint32_t *first = check_room(c, n * sizeof *first), *end = check_room(c, n * sizeof *end);
    uint32_t start = check_random(c, cells), window = 1 + check_random(c, 100);
    for (uint32_t i = 0; i < n; i++) {
        first[i] = 0;
        end[i] = start + 1 + (shape == 3 ? 0 : i / heads);
        if (end[i] > cells) end[i] = cells;
        if (shape == 1 && end[i] > window) first[i] = end[i] - window;
        if (shape == 2) {
            first[i] = check_random(c, cells);
            end[i] = check_random(c, 8) ? first[i] + check_random(c, cells - first[i] + 1) : first[i] / 2;
        }
    }
    a->job.first_cell = first;
    a->job.end_cell = end;
    a->job.masks = NULL;
    if (check_random(c, 3)) return;
    const uint64_t **masks = check_room(c, n * sizeof *masks);
    uint64_t *words = check_room(c, (size_t)n * a->n_pages * sizeof *words);
    uint32_t density = check_random(c, 4);
    memset(words, 0, (size_t)n * a->n_pages * sizeof *words);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t *mask = words + (size_t)i * a->n_pages;
        for (uint32_t bit = 0; bit < cells; bit++)
            if (!check_random(c, density ? 1u << (2 * density) : 2)) mask[bit / 64] |= 1ull << bit % 64;
        masks[i] = check_random(c, 5) ? mask : NULL;
    }
    a->job.masks = masks;
}

static float *const *make_outputs(struct check *c, const struct attention_job *job, float **all) {
    float **out = check_room(c, job->n_queries * sizeof *out);
    *all = check_values(c, VALUES_PLAIN, job->n_queries * job->value_dim);
    for (uint32_t i = 0; i < job->n_queries; i++) out[i] = *all + (size_t)i * job->value_dim;
    return out;
}

void check_index_scores(struct check *c, int id) {
    for (uint32_t i = 0; i < 200; i++) {
        struct index_job job = {.format = i & 1, .n_heads = 1 + check_random(c, 9), .dim = 1 + check_random(c, 130)};
        enum values values = i % 3 ? VALUES_PLAIN : VALUES_SPECIAL;
        bool has_weights = job.n_heads > 1 || check_random(c, 2);
        check_case(c, "%s, format %d, %u heads of %u, %s", kernel_name(id), job.format, job.n_heads, job.dim,
                   has_weights ? "weights" : "no weights");
        float *ref = check_room(c, PAGE_CELLS * sizeof *ref), *other = check_room(c, PAGE_CELLS * sizeof *other);
        float *keys = check_values(c, values, PAGE_CELLS * job.dim);
        uint16_t *halves = check_room(c, PAGE_CELLS * job.dim * sizeof *halves);
        for (uint32_t k = 0; k < PAGE_CELLS * job.dim; k++) halves[k] = f32_to_f16(keys[k]);
        job.keys = job.format == KV_F16 ? (const void *)halves : (const void *)keys;
        job.q = check_values(c, VALUES_PLAIN, job.n_heads * job.dim);
        if (has_weights) job.weights = check_values(c, VALUES_PLAIN, job.n_heads);
        job.scores = ref;
        c->ref->index_scores(&job);
        job.scores = other;
        c->other->index_scores(&job);
        check_same_f32(c, "scores", ref, other, PAGE_CELLS);
    }
}

static void compare_attention(struct check *c, struct attention_case *a, int shape) {
    struct attention_job *job = &a->job;
    make_ranges(c, a, shape);
    make_pages(c, a);
    const float **q = check_room(c, job->n_queries * sizeof *q);
    enum values values = a->values == VALUES_SPECIAL || a->values == VALUES_BITS ? VALUES_PLAIN : a->values;
    const float *all_q = check_values(c, values, job->n_queries * job->key_dim);
    for (uint32_t i = 0; i < job->n_queries; i++) q[i] = all_q + (size_t)i * job->key_dim;
    job->q = q;
    if (check_random(c, 3) == 0) job->sinks = check_values(c, a->values, job->n_queries);
    size_t scratch_bytes = attention_scratch_bytes(job->key_dim, job->value_dim);
    job->scratch = check_room(c, scratch_bytes);
    float *ref, *other;
    job->out = make_outputs(c, job, &ref);
    memset(job->scratch, 0xff, scratch_bytes);
    c->ref->attention(job);
    job->out = make_outputs(c, job, &other);
    memset(job->scratch, 0xff, scratch_bytes);
    c->other->attention(job);
    check_same_f32(c, "out", ref, other, (size_t)job->n_queries * job->value_dim);
}

void check_attention(struct check *c, int id) {
    for (uint32_t i = 0; i < 400; i++) {
        struct attention_case a = {.n_pages = 1 + check_random(c, MOST_PAGES), .values = i % N_VALUES};
        struct attention_job *job = &a.job;
        job->format = i & 1;
        job->key_dim = i % 3 ? dims[i / 2 % 3] : dims[check_random(c, N_DIMS)];
        job->value_dim = i % 3 || check_random(c, 2) ? job->key_dim : dims[check_random(c, N_DIMS)];
        job->n_queries =
            1 + (i % 5 ? check_random(c, 9) : check_random(c, job->key_dim > 100 ? 24 : ATTENTION_MAX_QUERIES));
        job->scale = 1.0f / sqrtf((float)job->key_dim);
        job->softcap = check_random(c, 4) ? 0.0f : 1.0f + 40.0f * (float)check_random(c, 2);
        int shape = (int)(i / 2 % 4);
        check_case(c, "%s, format %d, %u queries, dims %u and %u, %u pages, ranges %d, softcap %g, %s values",
                   kernel_name(id), job->format, job->n_queries, job->key_dim, job->value_dim, a.n_pages, shape,
                   job->softcap, values_names[a.values]);
        compare_attention(c, &a, shape);
    }
}
