/* SPDX-License-Identifier: Apache-2.0 */
/* Mixture of experts: router, products with each row's experts, weighted sum. */
#include "graph/blocks/blocks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void moe_usual_sources(struct moe_spec *s, struct builder *b, const char *module) {
    uint32_t n = s->intermediate_size;
    const char *fused = block_name(b, module, "experts.gate_up_proj|input_linear");
    s->gate[0].module = block_name(b, module, "switch_mlp.gate_proj|experts.gate_proj");
    s->gate[1].module = block_name(b, module, "experts.%u.gate_proj|experts.%u.w1");
    s->gate[2] = (struct matrix_source){fused, {.tensor_rows = 2 * n}};
    s->up[0].module = block_name(b, module, "switch_mlp.up_proj|experts.up_proj");
    s->up[1].module = block_name(b, module, "experts.%u.up_proj|experts.%u.w3");
    s->up[2] = (struct matrix_source){fused, {.tensor_rows = 2 * n, .first_row = n}};
    s->down[0].module = block_name(b, module, "switch_mlp.down_proj|switch_mlp.fc2");
    s->down[1].module = block_name(b, module, "experts.%u.down_proj|experts.%u.w2");
    s->down[2].module = block_name(b, module, "experts.down_proj|output_linear");
    s->n_gate = s->n_up = s->n_down = 3;
    if (!s->is_plain) return;
    s->up[0].module = block_name(b, module, "switch_mlp.fc1|switch_mlp.up_proj");
    s->n_up = 2;
}

/* The biases of all experts, n for each, beside the first source that has them. */
static const struct weight *expert_biases(struct builder *b, const struct moe_spec *s,
                                          const struct matrix_source *sources, uint32_t n_sources, uint32_t n) {
    uint32_t n_experts = s->router.n_experts;
    for (uint32_t i = 0; i < n_sources; i++) {
        char names[600];
        if (strstr(sources[i].module, "%u")) continue;
        const char *dotted = block_name(b, sources[i].module, "bias");
        int length = (int)strcspn(sources[i].module, "|");
        snprintf(names, sizeof names, "%s|%.*s_bias", dotted, length, sources[i].module);
        if (!b_has(b, names, s->has_bias)) continue;
        struct row_selection rows = sources[i].rows;
        if (rows.tensor_rows && !rows.run_rows) {
            rows.run_rows = n;
            rows.run_step = rows.tensor_rows;
        }
        rows.tensor_rows *= n_experts;
        return b_vector_rows(b, names, rows, n_experts * n);
    }
    return NULL;
}

static struct matmul_part expert_part(struct builder *b, const struct moe_spec *s, const struct matrix_source *sources,
                                      uint32_t n_sources, uint32_t n_rows, uint32_t n_cols) {
    struct matmul_part part = {.weight = b_experts(b, sources, n_sources, s->router.n_experts, n_rows, n_cols)};
    if (!b->failed) part.bias = expert_biases(b, s, sources, n_sources, n_rows);
    return part;
}

/* One product with each of the row's k experts. Part p's k slots lie side by side, after those of the parts before. */
static struct value experts(struct builder *b, struct value x, struct value route, const struct matmul_part *parts,
                            uint32_t n_parts, uint32_t top_k, bool expert_input) {
    struct op op = {.kind = OP_EXPERTS, .in = {x, value_none(), route}};
    if (b->failed) return value_none();
    uint32_t width = 0;
    op.matmul.n_parts = n_parts;
    op.matmul.top_k = top_k;
    op.matmul.expert_input = expert_input;
    op.matmul.factor = 1.0f;
    for (uint32_t i = 0; i < n_parts; i++) {
        op.matmul.parts[i] = parts[i];
        op.matmul.parts[i].out_offset = width;
        width += top_k * parts[i].weight->n_rows;
    }
    op.out = b_value(b, width);
    b_op(b, op);
    return op.out;
}

struct value block_limited_gate(struct builder *b, struct value gate, struct value up, enum unary f,
                                const struct gate_limits *limits) {
    double limit = limits->limit;
    bool is_early = limit > 0 && !limits->after_activation, is_late = limit > 0 && limits->after_activation;
    if (limit > 0) up = b_clip(b, up, -limit, limit);
    if (!limits->up_plus_one && !is_late) return b_gated(b, f, is_early ? b_clip(b, gate, -INFINITY, limit) : gate, up);
    struct value g = b_unary(b, f, is_early ? b_clip(b, gate, -INFINITY, limit) : gate);
    if (is_late) g = b_clip(b, g, -INFINITY, limit);
    struct value out = b_multiply(b, g, up);
    return limits->up_plus_one ? b_add(b, out, g) : out;
}

static struct value expert_activations(struct builder *b, struct value x, struct value route,
                                       const struct moe_spec *s) {
    uint32_t k = s->router.top_k, n = s->intermediate_size;
    struct matmul_part up = expert_part(b, s, s->up, s->n_up, n, x.width);
    if (s->is_plain) return b_unary(b, s->activation, experts(b, x, route, &up, 1, k, false));
    struct matmul_part inner[2] = {expert_part(b, s, s->gate, s->n_gate, n, x.width), up};
    struct value both = experts(b, x, route, inner, 2, k, false);
    return block_limited_gate(b, value_columns(both, 0, k * n), value_columns(both, k * n, k * n), s->activation,
                              &s->limits);
}

static struct value route_rows(struct builder *b, struct value x, const struct moe_spec *s) {
    uint32_t n_all = s->router.n_experts + s->router.n_identity;
    const char *bias = block_name(b, s->router_module, "bias");
    struct matmul_part part = {.weight = b_matrix(b, ROLE_ROUTER, s->router_module, n_all, x.width), .is_exact = true};
    if (!s->has_no_router_bias && b_has(b, bias, s->has_bias)) part.bias = b_vector(b, bias, n_all);
    struct op op = {.kind = OP_ROUTE, .router = s->router};
    if (s->table) op.router.table = b_vector(b, s->table, s->table_rows * s->router.top_k);
    if (s->correction && b_has(b, s->correction, s->has_correction)) op.router.bias = b_vector(b, s->correction, n_all);
    if (s->expert_scale) op.router.expert_scale = b_vector(b, s->expert_scale, n_all);
    op.in[0] = b_matmul(b, x, &part, 1);
    op.out = b_value(b, 2 * s->router.top_k);
    b_op(b, op);
    return op.out;
}

static void check(struct builder *b, const struct moe_spec *s) {
    const struct router_params *r = &s->router;
    uint64_t n_all = (uint64_t)r->n_experts + r->n_identity;
    if (b->failed) return;
    if (n_all > 1024)
        builder_fail(b, ERROR_UNSUPPORTED, "%s: %llu experts, at most 1024 are supported", b->config->path,
                     (unsigned long long)n_all);
    if (r->top_k > n_all || !r->top_k)
        builder_fail(b, ERROR_FORMAT, "%s: %u experts for each token, but there are %llu", b->config->path, r->top_k,
                     (unsigned long long)n_all);
    if (r->n_groups > 1 && (n_all % r->n_groups || !r->top_groups || r->top_groups > r->n_groups ||
                            r->top_k > n_all / r->n_groups * r->top_groups))
        builder_fail(b, ERROR_FORMAT, "%s: %llu experts in %u groups, of which %u are kept", b->config->path,
                     (unsigned long long)n_all, r->n_groups, r->top_groups);
    b_check_width(b, (uint64_t)2 * r->top_k, s->intermediate_size, "experts");
    b_check_width(b, r->top_k, b->graph->hidden_size, "experts");
    if (s->scales_input && r->top_k != 1)
        builder_fail(b, ERROR_UNSUPPORTED, "%s: router weights on the experts' input need one expert a token, not %u",
                     b->config->path, r->top_k);
}

struct value block_moe(struct builder *b, struct value x, const struct moe_spec *s) {
    uint32_t k = s->router.top_k;
    check(b, s);
    struct value route = route_rows(b, s->router_input ? *s->router_input : x, s);
    if (b->failed) return value_none();
    uint32_t hidden = x.width;
    if (s->latent_size) x = b_linear(b, x, b_matrix(b, ROLE_MLP, s->latent_in, s->latent_size, hidden), NULL);
    struct value in = s->scales_input ? b_multiply(b, x, value_columns(route, 1, 1)) : x;
    struct value act = expert_activations(b, in, route, s);
    struct matmul_part down = expert_part(b, s, s->down, s->n_down, x.width, s->intermediate_size);
    struct value slots = experts(b, act, route, &down, 1, k, true);
    if (s->scales_input) return slots;
    struct op op = {.kind = OP_COMBINE, .in = {slots, route, s->router.n_identity ? x : value_none()}};
    op.out = b_value(b, x.width);
    op.combine.top_k = k;
    op.combine.n_experts = s->router.n_experts;
    b_op(b, op);
    if (!s->latent_size) return op.out;
    return b_linear(b, op.out, b_matrix(b, ROLE_MLP, s->latent_out, hidden, s->latent_size), NULL);
}
