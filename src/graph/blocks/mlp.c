/* SPDX-License-Identifier: Apache-2.0 */
/* Feed-forward blocks: gated MLP, mixture of experts, shared expert. */
#include "graph/blocks/blocks.h"

#include <string.h>

enum unary block_activation(struct builder *b, const char *name) {
    static const struct {
        const char *name;
        enum unary kind;
    } names[] = {
        {"silu", UNARY_SILU},          {"swish", UNARY_SILU},          {"gelu_pytorch_tanh", UNARY_GELU_TANH},
        {"gelu_new", UNARY_GELU_TANH}, {"gelu_fast", UNARY_GELU_TANH}, {"gelu", UNARY_GELU_ERF},
        {"relu", UNARY_RELU},          {"relu2", UNARY_RELU2},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i].name, name)) return names[i].kind;
    builder_fail(b, ERROR_UNSUPPORTED, "%s: activation '%s' is not known", b->config->path, name);
    return UNARY_SILU;
}

static struct matmul_part mlp_part(struct builder *b, const char *module, const char *name, uint32_t n_rows,
                                   uint32_t n_cols, bool has_bias) {
    const char *path = block_name(b, module, name), *bias = block_name(b, path, "bias");
    return (struct matmul_part){.weight = b_matrix(b, ROLE_MLP, path, n_rows, n_cols),
                                .bias = b_has(b, bias, has_bias) ? b_vector(b, bias, n_rows) : NULL};
}

struct value block_gated_mlp(struct builder *b, struct value x, const struct mlp_spec *s, const char *module) {
    uint32_t n = s->intermediate_size;
    struct matmul_part parts[2] = {mlp_part(b, module, "gate_proj", n, x.width, s->has_bias),
                                   mlp_part(b, module, "up_proj", n, x.width, s->has_bias)};
    struct value both = b_matmul(b, x, parts, 2);
    struct value inner = b_gated(b, s->activation, value_columns(both, 0, n), value_columns(both, n, n));
    struct matmul_part down = mlp_part(b, module, "down_proj", x.width, n, s->has_bias);
    return b_matmul(b, inner, &down, 1);
}

void moe_usual_sources(struct moe_spec *s, struct builder *b, const char *module) {
    uint32_t n = s->intermediate_size;
    const char *fused = block_name(b, module, "experts.gate_up_proj");
    s->gate[0].module = block_name(b, module, "switch_mlp.gate_proj");
    s->gate[1].module = block_name(b, module, "experts.%u.gate_proj");
    s->gate[2] = (struct matrix_source){fused, {.tensor_rows = 2 * n}};
    s->up[0].module = block_name(b, module, "switch_mlp.up_proj");
    s->up[1].module = block_name(b, module, "experts.%u.up_proj");
    s->up[2] = (struct matrix_source){fused, {.tensor_rows = 2 * n, .first_row = n}};
    s->down[0].module = block_name(b, module, "switch_mlp.down_proj");
    s->down[1].module = block_name(b, module, "experts.%u.down_proj");
    s->down[2].module = block_name(b, module, "experts.down_proj");
    s->n_gate = s->n_up = s->n_down = 3;
}

/* One product with each of the row's k experts. Part p's k slots lie side by side, after those of the parts before. */
static struct value experts(struct builder *b, struct value x, struct value route, const struct weight *const *weights,
                            uint32_t n_parts, uint32_t top_k, bool expert_input) {
    struct op op = {.kind = OP_EXPERTS, .in = {x, value_none(), route}};
    if (b->failed) return value_none();
    uint32_t width = 0;
    op.matmul.n_parts = n_parts;
    op.matmul.top_k = top_k;
    op.matmul.expert_input = expert_input;
    op.matmul.factor = 1.0f;
    for (uint32_t i = 0; i < n_parts; i++) {
        op.matmul.parts[i] = (struct matmul_part){.weight = weights[i], .out_offset = width};
        width += top_k * weights[i]->n_rows;
    }
    op.out = b_value(b, width);
    b_op(b, op);
    return op.out;
}

struct value block_moe(struct builder *b, struct value x, const struct moe_spec *s) {
    uint32_t k = s->router.top_k, n_experts = s->router.n_experts, n = s->intermediate_size;
    if (!b->failed && n_experts > 1024)
        builder_fail(b, ERROR_UNSUPPORTED, "%s: %u experts, at most 1024 are supported", b->config->path, n_experts);
    if (!b->failed && (k > n_experts || !k))
        builder_fail(b, ERROR_FORMAT, "%s: %u experts for each token, but there are %u", b->config->path, k, n_experts);
    struct matmul_part router = {.weight = b_matrix(b, ROLE_ROUTER, s->router_module, n_experts, x.width),
                                 .is_exact = true};
    struct value logits = b_matmul(b, x, &router, 1);
    struct value route = b_value(b, 2 * k);
    b_op(b, (struct op){.kind = OP_ROUTE, .in = {logits}, .out = route, .router = s->router});
    const struct weight *inner[2] = {b_experts(b, s->gate, s->n_gate, n_experts, n, x.width),
                                     b_experts(b, s->up, s->n_up, n_experts, n, x.width)};
    const struct weight *down = b_experts(b, s->down, s->n_down, n_experts, x.width, n);
    struct value both = experts(b, x, route, inner, 2, k, false);
    struct value act = b_gated(b, s->activation, value_columns(both, 0, k * n), value_columns(both, k * n, k * n));
    struct value slots = experts(b, act, route, &down, 1, k, true);
    struct value out = b_value(b, x.width);
    b_op(b, (struct op){.kind = OP_COMBINE, .in = {slots, route}, .out = out, .top_k = k});
    return out;
}

struct value block_shared_expert(struct builder *b, struct value x, const struct mlp_spec *s, const char *module,
                                 const char *gate_module) {
    struct value out = block_gated_mlp(b, x, s, module);
    if (!gate_module) return out;
    struct matmul_part gate = {.weight = b_matrix(b, ROLE_ROUTER, gate_module, 1, x.width), .is_exact = true};
    return b_multiply(b, out, b_unary(b, UNARY_SIGMOID, b_matmul(b, x, &gate, 1)));
}
