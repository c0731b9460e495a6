/* SPDX-License-Identifier: Apache-2.0 */
/* Counters and histograms for Prometheus. Any thread adds. */
#ifndef MLXCEL_SERVE_METRICS_H
#define MLXCEL_SERVE_METRICS_H

#include "base/buffer.h"

#include <stdatomic.h>
#include <stdint.h>

enum { MAX_BUCKETS = 16 };

struct histogram {
    const double *bounds; /* ascending; a last bucket is above them */
    unsigned n_bounds;
    atomic_uint_least64_t counts[MAX_BUCKETS + 1];
    atomic_uint_least64_t sum_millionths;
};

struct metrics {
    struct histogram queue, first_token, inter_token, request, prompt_tokens, generated_tokens, batch_size,
        cached_share;
    atomic_uint_least64_t n_prompt_tokens, n_cached_tokens, n_generated_tokens, prompt_ns, generated_ns;
    atomic_uint_least64_t n_answers[6]; /* by the first digit of the status */
    atomic_uint_least64_t n_cancelled, n_refused, n_timed_out;
};

void metrics_init(struct metrics *metrics);
void metrics_observe(struct histogram *histogram, double value);
void metrics_count(atomic_uint_least64_t *counter, uint64_t n);

/* One value with its help and type, in the text format. */
void metrics_write_value(struct buffer *out, const char *name, const char *type, const char *help, double value);
void metrics_write_histograms(struct buffer *out, struct metrics *metrics);

#endif
