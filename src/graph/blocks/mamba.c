/* SPDX-License-Identifier: Apache-2.0 */
/* State-space mixers: Mamba-1 (Gu and Dao 2023) and Mamba-2 (Dao and Gu 2024). */
#include "graph/blocks/blocks.h"

#include <math.h>

/* One RMS norm of the time step, B or C; weightless where the spec says so. */
static struct value parameter_norm(struct builder *b, struct value x, const struct mamba1_spec *s, const char *module,
                                   const char *name) {
    if (s->norms == MAMBA_NORMS_NONE) return x;
    struct norm_params norm = {.kind = NORM_RMS, .eps = s->norm_eps};
    if (s->norms == MAMBA_NORMS_WEIGHTED) norm.weight = b_vector(b, block_name(b, module, name), x.width);
    return b_norm(b, x, norm);
}

struct value block_mamba1(struct builder *b, struct value x, const struct mamba1_spec *s, const char *module) {
    uint32_t inner = s->inner_size, rank = s->dt_rank, n = s->state_dim;
    if (!block_check_mixer(b, inner, n, s->conv_taps) || !block_check_mixer(b, rank, 1, s->conv_taps))
        return value_none();
    const char *in_proj = block_name(b, module, "in_proj"), *out_proj = block_name(b, module, "out_proj");
    const char *dt_proj = block_name(b, module, "dt_proj"), *conv_bias = block_name(b, module, "conv1d.bias");
    struct value xz = b_linear(b, x, b_matrix(b, ROLE_RECURRENT, in_proj, 2 * inner, x.width),
                               block_optional_vector(b, block_name(b, in_proj, "bias"), s->has_proj_bias, 2 * inner));
    const struct weight *conv = block_conv_weight(b, block_name(b, module, "conv1d.weight"), inner, s->conv_taps);
    struct value u = block_conv(b, value_columns(xz, 0, inner), conv,
                                block_optional_vector(b, conv_bias, s->has_conv_bias, inner), s->conv_taps, true);
    struct matmul_part x_part = {
        .weight = b_matrix(b, ROLE_RECURRENT, block_name(b, module, "x_proj"), rank + 2 * n, inner), .is_exact = true};
    struct value parameters = b_matmul(b, u, &x_part, 1);
    struct value dt = parameter_norm(b, value_columns(parameters, 0, rank), s, module, "dt_layernorm.weight");
    struct value bb = parameter_norm(b, value_columns(parameters, rank, n), s, module, "b_layernorm.weight");
    struct value cc = parameter_norm(b, value_columns(parameters, rank + n, n), s, module, "c_layernorm.weight");
    struct matmul_part dt_part = {.weight = b_matrix(b, ROLE_RECURRENT, dt_proj, inner, rank),
                                  .bias = b_vector(b, block_name(b, dt_proj, "bias"), inner),
                                  .is_exact = true};
    dt = b_unary(b, UNARY_SOFTPLUS, b_matmul(b, dt, &dt_part, 1));
    struct op scan = {.kind = OP_MAMBA1, .in = {u, bb, cc, dt}};
    scan.head.heads =
        (struct head_params){.n_units = (inner + CHANNEL_UNIT - 1) / CHANNEL_UNIT, .is_channelwise = true};
    scan.head.scan = (struct scan_params){
        .n_channels = inner,
        .unit_channels = CHANNEL_UNIT,
        .state_dim = n,
        .a = block_decay_rate(b, block_name(b, module, "A_log"), inner * n),
        .d = b_vector(b, block_name(b, module, "D"), inner),
        .state = b_state(b, (uint64_t)inner * n),
    };
    struct value y = b_gated(b, UNARY_SILU, value_columns(xz, inner, inner), b_head_op(b, scan, inner));
    return b_linear(b, y, b_matrix(b, ROLE_RECURRENT, out_proj, x.width, inner),
                    block_optional_vector(b, block_name(b, out_proj, "bias"), s->has_proj_bias, x.width));
}

/* What the segments of in_proj's output are multiplied by: gate and time step by ops, x, B and C in the convolution. */
static const struct weight *scaled_conv(struct builder *b, const struct mamba2_spec *s, const char *module,
                                        uint32_t inner, uint32_t bc) {
    uint32_t channels = inner + 2 * bc;
    const struct weight *conv = block_conv_weight(b, block_name(b, module, "conv1d.weight"), channels, s->conv_taps);
    if (b->failed || !s->has_multipliers || !conv->vector) return conv;
    for (uint32_t i = 0; i < channels * s->conv_taps; i++) {
        uint32_t channel = i / s->conv_taps;
        conv->vector[i] *= s->multipliers[channel < inner ? 1 : channel < inner + bc ? 2 : 3];
    }
    return conv;
}

static struct value gated_norm(struct builder *b, struct value y, struct value gate, const struct mamba2_spec *s,
                               const char *module) {
    struct norm_params norm = {.kind = NORM_RMS, .eps = s->norm_eps};
    if (s->norm != GATED_NORM_NONE) norm.weight = b_vector(b, block_name(b, module, "norm.weight"), y.width);
    if (s->norm_groups > 1) {
        norm.group = y.width / s->norm_groups;
        norm.per_group = true;
    }
    if (s->norm == GATED_NORM_FIRST) y = b_norm(b, y, norm);
    y = b_gated(b, UNARY_SILU, gate, y);
    return s->norm == GATED_NORM_LAST ? b_norm(b, y, norm) : y;
}

struct value block_mamba2(struct builder *b, struct value x, const struct mamba2_spec *s, const char *module) {
    if (!block_check_mixer(b, (uint64_t)s->n_heads * s->head_dim, s->state_dim, s->conv_taps) ||
        !block_check_mixer(b, (uint64_t)s->n_groups * s->state_dim, s->state_dim, s->conv_taps))
        return value_none();
    uint32_t inner = s->n_heads * s->head_dim, bc = s->n_groups * s->state_dim, conv = inner + 2 * bc;
    uint32_t all = inner + conv + s->n_heads, n_groups = s->n_groups ? s->n_groups : 1;
    if (!b->failed && (s->n_heads % n_groups || inner % (s->norm_groups ? s->norm_groups : 1)))
        builder_fail(b, ERROR_FORMAT, "%s: %u heads in %u groups, norms of %u groups", b->config->path, s->n_heads,
                     s->n_groups, s->norm_groups);
    const char *in_proj = block_name(b, module, "in_proj"), *bias = block_name(b, in_proj, "bias");
    struct row_selection wide = {.tensor_rows = all}, dt_rows = {.tensor_rows = all, .first_row = inner + conv};
    bool has_bias = b_has(b, bias, s->has_proj_bias);
    struct matmul_part parts[2] = {
        {.weight = b_matrix_from(b, ROLE_RECURRENT, &(struct matrix_source){in_proj, wide}, 1, inner + conv, x.width),
         .bias = has_bias ? b_vector_rows(b, bias, wide, inner + conv) : NULL},
        {.weight = b_matrix_from(b, ROLE_RECURRENT, &(struct matrix_source){in_proj, dt_rows}, 1, s->n_heads, x.width),
         .bias = has_bias ? b_vector_rows(b, bias, dt_rows, s->n_heads) : NULL,
         .is_exact = true},
    };
    struct value projected = b_matmul(b, x, parts, 2), gate = value_columns(projected, 0, inner);
    struct value dt = value_columns(projected, inner + conv, s->n_heads);
    const struct weight *conv_bias =
        block_optional_vector(b, block_name(b, module, "conv1d.bias"), s->has_conv_bias, conv);
    struct value mixed = block_conv(b, value_columns(projected, inner, conv), scaled_conv(b, s, module, inner, bc),
                                    conv_bias, s->conv_taps, true);
    if (s->has_multipliers) {
        gate = b_scale(b, gate, (double)s->multipliers[0]);
        dt = b_scale(b, dt, (double)s->multipliers[4]);
    }
    struct op scan = {.kind = OP_MAMBA2,
                      .in = {value_columns(mixed, 0, inner), value_columns(mixed, inner, bc),
                             value_columns(mixed, inner + bc, bc), dt}};
    scan.head.heads = (struct head_params){s->n_heads, 1, s->head_dim, false};
    scan.head.mamba2 = (struct mamba2_params){
        .n_heads = s->n_heads,
        .head_dim = s->head_dim,
        .state_dim = s->state_dim,
        .heads_per_group = s->n_heads / n_groups,
        .a = block_decay_rate(b, block_name(b, module, "A_log"), s->n_heads),
        .d = b_vector(b, block_name(b, module, "D"), s->n_heads),
        .dt_bias = b_vector(b, block_name(b, module, "dt_bias"), s->n_heads),
        .dt_min = s->dt_min,
        .dt_max = s->dt_max,
        .state = b_state(b, (uint64_t)inner * s->state_dim),
    };
    struct value y = gated_norm(b, b_head_op(b, scan, inner), gate, s, module);
    const char *out_proj = block_name(b, module, "out_proj");
    return b_linear(b, y, b_matrix(b, ROLE_RECURRENT, out_proj, x.width, inner),
                    block_optional_vector(b, block_name(b, out_proj, "bias"), s->has_proj_bias, x.width));
}

struct value block_mamba_bottleneck(struct builder *b, struct value x, const struct mamba_bottleneck_spec *s,
                                    const char *module) {
    uint32_t n = s->n_heads, d = s->head_dim, inner = n * d, state = s->state_dim, rank = s->dt_rank;
    if (!block_check_mixer(b, (uint64_t)n * d, state, s->conv_taps)) return value_none();
    const char *in_proj = block_name(b, module, "in_proj");
    struct matrix_source z_rows = {in_proj, {2 * inner, 0, d, 2 * d}}, x_rows = {in_proj, {2 * inner, d, d, 2 * d}};
    struct matmul_part parts[2] = {{.weight = b_matrix_from(b, ROLE_RECURRENT, &z_rows, 1, inner, x.width)},
                                   {.weight = b_matrix_from(b, ROLE_RECURRENT, &x_rows, 1, inner, x.width)}};
    struct value zx = b_matmul(b, x, parts, 2), z = value_columns(zx, 0, inner);
    const struct weight *conv = block_conv_weight(b, block_name(b, module, "conv1d.weight"), inner, s->conv_taps);
    struct value u = block_conv(b, value_columns(zx, inner, inner), conv, NULL, s->conv_taps, true);
    struct matmul_part low_part = {
        .weight = b_matrix(b, ROLE_RECURRENT, block_name(b, module, "bcdt_proj"), rank + 2 * state, inner),
        .is_exact = true};
    struct value low = b_matmul(b, u, &low_part, 1);
    struct value bb =
        b_rms_norm(b, value_columns(low, 0, state), block_name(b, module, "B_norm_weight"), s->norm_eps, false);
    struct value cc =
        b_rms_norm(b, value_columns(low, state, state), block_name(b, module, "C_norm_weight"), s->norm_eps, false);
    struct value dt =
        b_rms_norm(b, value_columns(low, 2 * state, rank), block_name(b, module, "dt_norm_weight"), s->norm_eps, false);
    struct matmul_part dt_part = {.weight = b_matrix(b, ROLE_RECURRENT, block_name(b, module, "dt_proj"), n, rank),
                                  .is_exact = true};
    struct op scan = {.kind = OP_MAMBA2, .in = {u, bb, cc, b_matmul(b, dt, &dt_part, 1)}};
    scan.head.heads = (struct head_params){n, 1, d, false};
    scan.head.mamba2 = (struct mamba2_params){
        .n_heads = n,
        .head_dim = d,
        .state_dim = state,
        .heads_per_group = n,
        .a = block_decay_rate(b, block_name(b, module, "A_log"), n),
        .d = b_vector(b, block_name(b, module, "D"), n),
        .dt_bias = b_vector(b, block_name(b, module, "dt_bias"), n),
        .dt_max = INFINITY,
        .state = b_state(b, (uint64_t)inner * state),
    };
    struct value y = b_gated(b, UNARY_SILU, z, b_head_op(b, scan, inner));
    return b_linear(b, y, b_matrix(b, ROLE_RECURRENT, block_name(b, module, "out_proj"), x.width, inner), NULL);
}
