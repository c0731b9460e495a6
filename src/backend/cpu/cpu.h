/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU interpreter's own structures. A step runs as one job of the thread pool: every thread walks the op list, takes
 * tasks of each op from the pool and meets the others at a barrier before the next op. */
#ifndef MLXCEL_BACKEND_CPU_CPU_H
#define MLXCEL_BACKEND_CPU_CPU_H

#include "backend/backend.h"

/* Rows of one span that one task of a head op takes. */
enum { ROW_BLOCK = 16 };

/* A matmul's activations are prepared by each thread for itself up to this many values, else once, with a barrier.
 * Preparing 8,192 values costs about 2 us, a barrier of two threads about 1. */
enum { LOCAL_VALUES = 8192 };

struct row_block {
    uint32_t span, first_row, n_rows;
};

/* Scratch of one thread. */
struct thread_scratch {
    float *row;                               /* one row of the widest matmul input: a normalised row */
    unsigned char *forms[N_ACTIVATION_FORMS]; /* activations prepared locally */
    unsigned char *matmul;                    /* for kernels */
    float *tile;                              /* [max rows][MATMUL_PANEL]: the second half of gated products */
    unsigned char *attention;
    uint64_t *masks; /* [ATTENTION_MAX_QUERIES][most pages]: cells that each query sees; NULL without such attentions */
    float *cell_scores, *block_scores, *sorted;           /* [cells of most pages]: of a choice of cells */
    const void **key_pages, **value_pages;                /* [2 * most pages of a pool] */
    uint32_t *expert_first;                               /* [experts + 1]: where each expert's entries begin */
    uint32_t *chosen;                                     /* [experts]: those that have entries */
    uint32_t *expert_rows, *expert_slots, *x_ids, *y_ids; /* [max rows * top_k] */
};

struct compiled {
    const struct plan *plan;
    const struct graph *graph;
    const struct kernels *kernels;
    enum precision precision;
    enum kv_format kv_format;
    struct pool *pool;
    uint32_t max_rows, max_outputs;
    float **buffers; /* [plan buffers], each [rows or outputs][width] */
    unsigned char *shared_forms[N_ACTIVATION_FORMS];
    struct thread_scratch *threads;
    struct row_block *blocks; /* [max_rows], of the running step */
    uint32_t n_blocks;
    bool has_long_span; /* a span of the running step has more than one row */
    unsigned char **page_pools;
    size_t *page_pool_bytes, *page_bytes, *entry_bytes, *head_bytes;
    uint32_t n_groups;
    float *states;
    size_t state_pool_bytes;
    uint32_t n_state_slots;
    uint32_t max_pages;
    bool kernel_used[N_KERNELS];
    const struct step *step; /* while running */
    void **allocations;      /* everything above that free() releases */
    size_t n_allocations, allocations_capacity;
};

/* First value of a row of a value, and the distance between rows. */
static inline float *value_row(const struct compiled *c, struct value v, uint32_t row) {
    int buffer = c->graph->values[v.id].buffer;
    return c->buffers[buffer] + (size_t)row * c->plan->buffers[buffer].width + v.offset;
}
static inline size_t value_stride(const struct compiled *c, struct value v) {
    return c->plan->buffers[c->graph->values[v.id].buffer].width;
}
/* Rows of a value in the running step. */
static inline uint32_t value_rows(const struct compiled *c, struct value v) {
    return c->graph->values[v.id].is_output_domain ? c->step->n_outputs : c->step->n_rows;
}

/* Each runs one op on the calling thread, taking tasks until none is left; the caller puts the barrier after it. */
void cpu_row_op(struct compiled *c, const struct op *op, int thread);
void cpu_matmul_op(struct compiled *c, const struct op *op, int thread);
/* Begins to fetch the weights that this thread will read first in the op, which comes next. */
void cpu_matmul_ahead(const struct compiled *c, const struct op *op, int thread);
void cpu_experts_op(struct compiled *c, const struct op *op, int thread);
void cpu_head_op(struct compiled *c, const struct op *op, int thread);

/* Steps of a matmul that experts share (matmul_ops.c). */
enum activation_form cpu_part_form(const struct compiled *c, const struct matmul_part *part);
void cpu_form_row(const struct compiled *c, enum activation_form form, const float *x, uint32_t n, void *out);
/* The same with the weights from column `at` on. */
void cpu_normalize_at(const struct compiled *c, const struct norm_params *norm, size_t at, const float *x, uint32_t n,
                      float *y);
void cpu_normalize(const struct compiled *c, const struct norm_params *norm, const float *x, uint32_t n, float *y);
/* One row of a matrix, widened. */
void cpu_widen_row(const struct compiled *c, const struct matrix *matrix, uint32_t row, float *out);
/* y = rows [first, first + n) of the matrix times the job's activations; handles runs of rows. */
void cpu_matmul_rows(const struct compiled *c, const struct matmul_part *part, const struct matrix *matrix,
                     uint32_t first, uint32_t n, struct matmul_job job);

/* Choices of cells (index.c). One choice of one row; out has choice_width(top_k) values. Pages of the choice's cache are
 * key_pages[cell / 64]. */
struct choice_job {
    const struct index_params *params;
    const float *q, *weights;
    const void *const *key_pages;
    uint32_t first_cell, end_cell;
};
void cpu_index(const struct compiled *c, const struct choice_job *job, struct thread_scratch *scratch, float *out);
/* The bits of the chosen cells below end_cell, page by page; false where all are chosen. */
bool cpu_choice_mask(const float *choice, uint32_t block, uint32_t end_cell, uint64_t *mask);

/* Routing of one row (route.c): logits [n_experts] are overwritten. */
void cpu_route_row(const struct compiled *c, const struct router_params *router, int32_t token, float *logits,
                   float *out);

#endif
