/* SPDX-License-Identifier: Apache-2.0 */
/* Dense feed-forward blocks: MLPs with and without gate, shared expert. */
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

static struct matmul_part mlp_part(struct builder *b, const char *module, const char *names, struct matrix_source fused,
                                   uint32_t n_rows, uint32_t n_cols, bool has_bias) {
    const char *path = block_name(b, module, names), *bias = block_name(b, path, "bias");
    struct matrix_source sources[2] = {{path, {0}}, fused};
    return (struct matmul_part){.weight = b_matrix_from(b, ROLE_MLP, sources, fused.module ? 2 : 1, n_rows, n_cols),
                                .bias = b_has(b, bias, has_bias) ? b_vector(b, bias, n_rows) : NULL};
}

static struct matmul_part mlp_down(struct builder *b, const char *module, uint32_t n_rows, uint32_t n_cols,
                                   bool has_bias) {
    const char *names = "down_proj|w2|output_linear";
    return mlp_part(b, module, names, (struct matrix_source){0}, n_rows, n_cols, has_bias);
}

struct value block_gated_mlp(struct builder *b, struct value x, const struct mlp_spec *s, const char *module) {
    uint32_t n = s->intermediate_size;
    struct matrix_source gate = {block_name(b, module, "input_linear"), {.tensor_rows = 2 * n}}, up = gate;
    up.rows.first_row = n;
    struct matmul_part parts[2] = {mlp_part(b, module, "gate_proj|w1", gate, n, x.width, s->has_bias),
                                   mlp_part(b, module, "up_proj|w3", up, n, x.width, s->has_bias)};
    struct value both = b_matmul(b, x, parts, 2);
    struct value gate_value = value_columns(both, 0, n);
    if (s->gate_multiplier != 0) gate_value = b_scale(b, gate_value, s->gate_multiplier);
    if (s->gate_threshold != 0) gate_value = b_threshold(b, gate_value, s->gate_threshold);
    struct value inner = b_gated(b, s->activation, gate_value, value_columns(both, n, n));
    struct matmul_part down = mlp_down(b, module, x.width, n, s->has_bias);
    return b_matmul(b, inner, &down, 1);
}

struct value block_plain_mlp(struct builder *b, struct value x, const struct mlp_spec *s, const char *module) {
    uint32_t n = s->intermediate_size;
    struct matmul_part up = mlp_part(b, module, "up_proj|fc1", (struct matrix_source){0}, n, x.width, s->has_bias);
    struct value inner = b_unary(b, s->activation, b_matmul(b, x, &up, 1));
    struct matmul_part down = mlp_down(b, module, x.width, n, s->has_bias);
    return b_matmul(b, inner, &down, 1);
}

struct value block_shared_expert(struct builder *b, struct value x, const struct mlp_spec *s, const char *module,
                                 const char *gate_module) {
    struct value out = block_gated_mlp(b, x, s, module);
    if (!gate_module) return out;
    struct matmul_part gate = {.weight = b_matrix(b, ROLE_ROUTER, gate_module, 1, x.width), .is_exact = true};
    return b_multiply(b, out, b_unary(b, UNARY_SIGMOID, b_matmul(b, x, &gate, 1)));
}
