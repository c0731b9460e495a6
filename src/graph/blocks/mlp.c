/* SPDX-License-Identifier: Apache-2.0 */
/* Dense feed-forward blocks: MLPs with and without gate, shared expert. */
#include "graph/blocks/blocks.h"

#include <math.h>
#include <string.h>

enum unary block_activation(struct builder *b, const char *name) {
    static const struct {
        const char *name;
        enum unary kind;
    } names[] = {
        {"silu", UNARY_SILU},
        {"swish", UNARY_SILU},
        {"gelu_pytorch_tanh", UNARY_GELU_TANH},
        {"gelu_new", UNARY_GELU_TANH},
        {"gelu_fast", UNARY_GELU_TANH},
        {"gelu", UNARY_GELU_ERF},
        {"gelu_python", UNARY_GELU_ERF},
        {"swiglu", UNARY_SILU},
        {"relu", UNARY_RELU},
        {"relu2", UNARY_RELU2},
        {"swigluoai", UNARY_GELU_QUICK},
        {"sqrelu", UNARY_RELU2},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i].name, name)) return names[i].kind;
    /* functions with parameters or of both halves: the specification says how (mlp_spec) */
    if (!strcmp(name, "xielu") || !strcmp(name, "gegelu")) return N_UNARY;
    builder_fail(b, ERROR_UNSUPPORTED, "%s: activation '%s' is not known", b->config->path, name);
    return UNARY_SILU;
}

/* A matrix of an MLP: a module of its own, or rows of the fused one, whichever of the two sources the file has. */
static struct matmul_part mlp_part(struct builder *b, const struct mlp_spec *s, struct matrix_source first,
                                   struct matrix_source second, uint32_t n_rows, uint32_t n_cols) {
    struct matrix_source sources[2] = {first, second};
    size_t n = second.module ? 2 : 1;
    for (size_t i = 0; i < n; i++) sources[i].is_transposed = s->is_transposed;
    struct matmul_part part = {.weight = b_matrix_from(b, ROLE_MLP, sources, n, n_rows, n_cols)};
    for (size_t i = 0; i < n && !part.bias; i++) {
        bool is_expected = s->has_bias && i == 0;
        part.bias = block_bias(b, block_name(b, sources[i].module, "bias"), sources[i].rows, n_rows, is_expected);
    }
    return part;
}

static const char *mlp_name(struct builder *b, const char *module, const char *name, const char *usual) {
    return block_name(b, module, name ? name : usual);
}

static struct value mlp_down(struct builder *b, struct value inner, const struct mlp_spec *s, const char *module,
                             uint32_t width) {
    if (s->inner_norm)
        inner =
            block_norm(b, inner, &(struct norm_spec){.eps = s->inner_norm_eps}, block_name(b, module, s->inner_norm));
    struct matrix_source source = {.module = mlp_name(b, module, s->down_proj, "down_proj|w2|output_linear")};
    struct matmul_part down = mlp_part(b, s, source, (struct matrix_source){0}, width, s->intermediate_size);
    return b_matmul(b, inner, &down, 1);
}

struct value block_gated_mlp(struct builder *b, struct value x, const struct mlp_spec *s, const char *module) {
    uint32_t n = s->intermediate_size;
    struct row_selection first = {.tensor_rows = 2 * n}, second = {.tensor_rows = 2 * n, .first_row = n};
    if (s->is_interleaved) {
        first.run_rows = second.run_rows = second.first_row = 1;
        first.run_step = second.run_step = 2;
    }
    const char *fused = mlp_name(b, module, s->gate_up_proj, "input_linear");
    struct matrix_source fused_gate = {.module = fused, .rows = s->up_is_first ? second : first};
    struct matrix_source fused_up = {.module = fused, .rows = s->up_is_first ? first : second};
    struct matrix_source gate = {.module = mlp_name(b, module, s->gate_proj, "gate_proj|w1")};
    struct matrix_source up = {.module = mlp_name(b, module, s->up_proj, "up_proj|w3")};
    bool is_fused = s->gate_up_proj != NULL;
    struct matmul_part parts[2] = {
        mlp_part(b, s, is_fused ? fused_gate : gate, is_fused ? gate : fused_gate, n, x.width),
        mlp_part(b, s, is_fused ? fused_up : up, is_fused ? up : fused_up, n, x.width)};
    struct value both = b_matmul(b, x, parts, 2);
    struct value gate_value = value_columns(both, 0, n);
    if (s->gate_multiplier != 0) gate_value = b_scale(b, gate_value, s->gate_multiplier);
    if (s->gate_threshold != 0) gate_value = b_threshold(b, gate_value, s->gate_threshold);
    struct value inner = block_limited_gate(b, gate_value, value_columns(both, n, n), s->activation, &s->limits);
    return mlp_down(b, inner, s, module, x.width);
}

static float softplus(float x) { return (float)(x > 0 ? x + log1p(exp(-(double)x)) : log1p(exp((double)x))); }
static float half_plus_softplus(float x) { return 0.5f + softplus(x); }

/* xIELU (Huang and Schlag 2024): the file holds both slopes before their softplus, and beta and epsilon, which are 0.5
 * and -1e-6 where it does not. */
static struct value trained_activation(struct builder *b, struct value x, const char *module) {
    const struct weight *positive = b_vector(b, block_name(b, module, "alpha_p"), 1);
    const struct weight *negative = b_vector(b, block_name(b, module, "alpha_n"), 1);
    b_transform(b, positive, softplus);
    b_transform(b, negative, half_plus_softplus);
    struct op op = {.kind = OP_XIELU, .in = {x, value_none()}, .out = b_value(b, x.width)};
    op.xielu.positive = positive;
    op.xielu.negative = negative;
    op.xielu.beta = 0.5f;
    op.xielu.epsilon = -1e-6f;
    const char *beta = block_name(b, module, "beta"), *epsilon = block_name(b, module, "eps");
    if (b_has(b, beta, false)) op.xielu.beta = b_vector(b, beta, 1)->vector[0];
    if (b_has(b, epsilon, false)) op.xielu.epsilon = b_vector(b, epsilon, 1)->vector[0];
    b_op(b, op);
    return op.out;
}

struct value block_mlp(struct builder *b, struct value x, const struct mlp_spec *s, const char *module) {
    return s->has_no_gate ? block_plain_mlp(b, x, s, module) : block_gated_mlp(b, x, s, module);
}

struct value block_plain_mlp(struct builder *b, struct value x, const struct mlp_spec *s, const char *module) {
    struct matrix_source source = {.module = mlp_name(b, module, s->up_proj, "up_proj|fc1")};
    struct matmul_part up = mlp_part(b, s, source, (struct matrix_source){0}, s->intermediate_size, x.width);
    struct value inner = b_matmul(b, x, &up, 1);
    inner = s->xielu ? trained_activation(b, inner, block_name(b, module, s->xielu)) : b_unary(b, s->activation, inner);
    return mlp_down(b, inner, s, module, x.width);
}

struct value block_shared_expert(struct builder *b, struct value x, const struct mlp_spec *s, const char *module,
                                 const char *gate_module) {
    struct value out = block_gated_mlp(b, x, s, module);
    if (!gate_module) return out;
    struct matmul_part gate = {.weight = b_matrix(b, ROLE_ROUTER, gate_module, 1, x.width), .is_exact = true};
    return b_multiply(b, out, b_unary(b, UNARY_SIGMOID, b_matmul(b, x, &gate, 1)));
}
