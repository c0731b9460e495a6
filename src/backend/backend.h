/* SPDX-License-Identifier: Apache-2.0 */
/* What executes a plan: the step record, and the functions of a backend.
 *
 * A step is rows and spans. A row is one token (or input vector) of one sequence; a span is the consecutive rows of one
 * sequence in the step. What is computed for a row depends on its source, on the cells that it may see and on the
 * weights, and on nothing else: not on the other spans, nor on how a prompt was cut into steps. */
#ifndef MLXCEL_BACKEND_BACKEND_H
#define MLXCEL_BACKEND_BACKEND_H

#include "base/pool.h"
#include "graph/plan.h"

enum precision {
    PRECISION_FAST,  /* activations as the weight format wants them (8-bit blocks, bf16), f16 keys and values */
    PRECISION_EXACT, /* weights widened to f32, everything else f32 */
};

struct step_row {
    int32_t token;          /* >= 0; or -1 and a vector */
    const float *vector;    /* [hidden_size] */
    uint32_t cell;          /* place in its sequence, from 0: where its keys and values go */
    uint32_t position;      /* for rope */
    const float *condition; /* [hidden_size] for models with OP_CONDITION; NULL = zeros */
    bool is_canvas;         /* of a block that is being denoised (OP_CHOOSE) */
    uint32_t rope_length;   /* length that a length-dependent rope takes: the request's prompt, or the length so far */
};

/* After row `row` of the span, its sequence's recurrent state is copied to the snapshot slot. */
struct step_snapshot {
    uint32_t row, slot;
};

struct step_span {
    uint32_t first_row, n_rows;
    bool is_atomic;                     /* its rows see one another in both directions; those of a canvas also see what
                                         * its first row sees, however far back a window is */
    const uint32_t *const *page_tables; /* [cache groups]: page of the group's pool for cells 64 p .. 64 p + 63 */
    uint32_t state_in, state_out;       /* slots: read from, left in (may be equal); ignored by models without state */
    bool is_fresh;                      /* the sequence starts here: the state begins at zero, state_in is not read */
    const struct step_snapshot *snapshots; /* ascending rows */
    uint32_t n_snapshots;
};

struct step {
    const struct step_row *rows;
    uint32_t n_rows;
    const struct step_span *spans; /* they cover the rows, in order */
    uint32_t n_spans;
    const uint32_t *outputs; /* rows whose logits (and last hidden state) are wanted, ascending */
    uint32_t n_outputs;
    float *const *taps; /* [layers] NULL or [n_rows][hidden_size] for the layer's output; NULL = no taps */
};

struct backend_options {
    enum precision precision;
    enum kernel_tier tier;
    struct pool *pool;       /* borrowed */
    uint32_t max_rows;       /* of a step */
    uint32_t max_outputs;    /* of a step */
    const uint32_t *n_pages; /* [cache groups] pages of each pool */
    uint32_t n_state_slots;  /* working slots and snapshots alike */
};

struct compiled; /* a plan, compiled; owns buffers and pools */

struct backend {
    const char *name;
    struct compiled *(*compile)(const struct plan *plan, const struct backend_options *options, struct mx_error *err);
    void (*release)(struct compiled *compiled);
    /* Runs a step within max_rows and max_outputs. Does not allocate and cannot fail. */
    void (*run)(struct compiled *compiled, const struct step *step);
    /* Results of the last step: output i of the step. */
    const float *(*logits)(const struct compiled *compiled, uint32_t output); /* [vocab_size] */
    const float *(*hidden)(const struct compiled *compiled, uint32_t output); /* [hidden_size] */
    /* Pools. */
    void (*copy_page)(struct compiled *compiled, uint32_t group, uint32_t to, uint32_t from);
    void (*copy_state)(struct compiled *compiled, uint32_t to, uint32_t from);
    /* Which tier supplied kernel `id`, or -1 if no op of the plan uses it. */
    int (*kernel_tier)(const struct compiled *compiled, int id);
    uint64_t (*pool_bytes)(const struct compiled *compiled);
    /* out row i [n_cols] = factor * sum over the table's rows t, ascending, of weights[i][t] * row t. */
    void (*mix_table)(struct compiled *compiled, const struct weight *table, const float *const *weights, uint32_t n,
                      float factor, float *const *out);
};

extern const struct backend cpu_backend;

#endif
