/* SPDX-License-Identifier: Apache-2.0 */
/* Hyper-connections (Zhu et al. 2024), with a nearly doubly stochastic matrix between the streams (Xie et al. 2026): the
 * residual is several streams; weights that follow from all of them make one input for a branch, put its result back
 * on every stream, and mix the streams. */
#include "graph/blocks/blocks.h"

static struct value weights(struct builder *b, struct value streams, const struct hyper_spec *s, const char *name,
                            uint32_t n_parts) {
    uint32_t n = s->n, n_all = n_parts == 1 ? n : (2 + n) * n;
    struct hyper_params params = {.n = n, .n_iterations = s->n_iterations, .n_parts = n_parts, .epsilon = s->epsilon};
    if (!b->failed && n > HYPER_STREAMS)
        builder_fail(b, ERROR_UNSUPPORTED, "%s: %u residual streams, at most %d are supported", b->config->path, n,
                     HYPER_STREAMS);
    if (b->failed) return value_none();
    const char *fn = arena_printf(&b->graph->arena, "%s_fn|%s.fn", name, name),
               *base = arena_printf(&b->graph->arena, "%s_base|%s.base", name, name);
    const char *scale = arena_printf(&b->graph->arena, "%s_scale|%s.scale", name, name);
    if (!fn || !base || !scale) builder_fail(b, ERROR_MEMORY, "out of memory (names)");
    if (b->failed) return value_none();
    struct matmul_part part = {.weight = b_matrix(b, ROLE_ROUTER, fn, n_all, streams.width), .is_exact = true};
    params.base = b_vector(b, base, n_all);
    params.scale = b_vector(b, scale, n_parts);
    struct value flat = b_norm(b, streams, (struct norm_params){.kind = NORM_RMS, .eps = s->norm_eps});
    return b_hyper(b, b_matmul(b, flat, &part, 1), params);
}

struct hyper_site block_hyper_in(struct builder *b, struct value streams, const struct hyper_spec *s,
                                 const char *name) {
    struct hyper_site site = {.streams = streams, .weights = weights(b, streams, s, name, 3), .n = s->n};
    site.input = b_mix(b, streams, value_columns(site.weights, 0, s->n), value_none(), 1);
    return site;
}

struct value block_hyper_out(struct builder *b, const struct hyper_site *site, struct value branch) {
    uint32_t n = site->n;
    struct value placed = b_mix(b, branch, value_columns(site->weights, n, n), value_none(), n);
    return b_mix(b, site->streams, value_columns(site->weights, 2 * n, n * n), placed, n);
}

struct value block_hyper_head(struct builder *b, struct value streams, const struct hyper_spec *s, const char *name) {
    return b_mix(b, streams, weights(b, streams, s, name, 1), value_none(), 1);
}
