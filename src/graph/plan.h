/* SPDX-License-Identifier: Apache-2.0 */
/* From a description to a plan: ops fused, values placed in buffers.
 *
 * Each fusion has a name and can be switched off; the bits of the results are the same, since a fused op performs the
 * same steps for each row in the same order. */
#ifndef MLXCEL_GRAPH_PLAN_H
#define MLXCEL_GRAPH_PLAN_H

#include "graph/graph.h"

enum fusion {
    FUSE_PARTS = 1,    /* q, k, v (and the like) as one matmul */
    FUSE_GATED = 2,    /* gate, up and activation as one op */
    FUSE_RESIDUAL = 4, /* residual addition in the matmul before it */
    FUSE_NORM = 8,     /* norm as the prologue of the matmul that reads it */
    FUSE_HEADS = 16,   /* rope, cache write, attention (conv, norms, recurrence) as one op */
    FUSE_ALL = 31,
};

/* "parts", "gated", "residual", "norm", "heads"; false for an unknown name. */
bool fusion_from_name(const char *name, size_t length, unsigned *fusion);

struct buffer_plan {
    uint32_t width; /* f32 columns, a multiple of 16 */
    bool is_output_domain;
};

struct plan {
    const struct graph *graph; /* borrowed; planning set its values' buffers */
    struct op **ops;
    size_t n_ops;
    struct buffer_plan *buffers;
    size_t n_buffers, buffers_capacity;
    struct arena arena;
};

/* Lowers the graph. The graph must outlive the plan; one plan for a graph at a time. */
bool plan_create(struct plan *plan, struct graph *graph, unsigned fusions, struct mx_error *err);
void plan_free(struct plan *plan);

#endif
