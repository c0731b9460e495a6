/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/metrics.h"

static const double seconds[] = {0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300};
static const double tokens[] = {1, 8, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 131072};
static const double rows[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128};
static const double shares[] = {0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1};

static void set_bounds(struct histogram *h, const double *bounds, size_t n) {
    h->bounds = bounds;
    h->n_bounds = (unsigned)n;
}

void metrics_init(struct metrics *m) {
    struct histogram *times[] = {&m->queue, &m->first_token, &m->inter_token, &m->request};
    for (size_t i = 0; i < 4; i++) set_bounds(times[i], seconds, sizeof seconds / sizeof *seconds);
    set_bounds(&m->prompt_tokens, tokens, sizeof tokens / sizeof *tokens);
    set_bounds(&m->generated_tokens, tokens, sizeof tokens / sizeof *tokens);
    set_bounds(&m->batch_size, rows, sizeof rows / sizeof *rows);
    set_bounds(&m->cached_share, shares, sizeof shares / sizeof *shares);
}

void metrics_observe(struct histogram *h, double value) {
    unsigned i = 0;
    while (i < h->n_bounds && value > h->bounds[i]) i++;
    atomic_fetch_add_explicit(&h->counts[i], 1, memory_order_relaxed);
    if (value > 0) atomic_fetch_add_explicit(&h->sum_millionths, (uint64_t)(value * 1e6), memory_order_relaxed);
}

void metrics_count(atomic_uint_least64_t *counter, uint64_t n) {
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

void metrics_write_value(struct buffer *out, const char *name, const char *type, const char *help, double value) {
    buffer_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s %.15g\n", name, help, name, type, name, value);
}

static void write_histogram(struct buffer *out, const char *name, const char *help, struct histogram *h) {
    uint64_t total = 0;
    buffer_printf(out, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name);
    for (unsigned i = 0; i < h->n_bounds; i++) {
        total += atomic_load(&h->counts[i]);
        buffer_printf(out, "%s_bucket{le=\"%g\"} %llu\n", name, h->bounds[i], (unsigned long long)total);
    }
    total += atomic_load(&h->counts[h->n_bounds]);
    buffer_printf(out, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.6f\n%s_count %llu\n", name, (unsigned long long)total,
                  name, (double)atomic_load(&h->sum_millionths) * 1e-6, name, (unsigned long long)total);
}

void metrics_write_histograms(struct buffer *out, struct metrics *m) {
    write_histogram(out, "mlxcel_queue_seconds", "Time from a request's arrival to its first computed row.", &m->queue);
    write_histogram(out, "mlxcel_time_to_first_token_seconds", "Time from arrival to the first token.",
                    &m->first_token);
    write_histogram(out, "mlxcel_inter_token_seconds", "Time between two tokens of one answer.", &m->inter_token);
    write_histogram(out, "mlxcel_request_seconds", "Time from arrival to the end of the answer.", &m->request);
    write_histogram(out, "mlxcel_request_prompt_tokens", "Prompt tokens of a request.", &m->prompt_tokens);
    write_histogram(out, "mlxcel_request_generated_tokens", "Generated tokens of a request.", &m->generated_tokens);
    write_histogram(out, "mlxcel_batch_size", "Sequences in a step.", &m->batch_size);
    write_histogram(out, "mlxcel_request_cached_share", "Share of a prompt that the prefix cache had.",
                    &m->cached_share);
}
