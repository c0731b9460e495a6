/* SPDX-License-Identifier: Apache-2.0 */
/* The gated delta net (Yang, Kautz, Hatamizadeh 2024). */
#include "graph/blocks/blocks.h"

#include <math.h>

/* The projections of a delta net: in one tensor by key heads (q, k, v group, z group; b group, a group), or separate. */
struct delta_rows {
    struct matrix_source q[2], k[2], v[2], z[2], b[2], a[2];
};

static struct delta_rows delta_sources(struct builder *b, const struct delta_spec *s, const char *module) {
    uint32_t group = s->n_value_heads / s->n_key_heads, dv = group * s->value_dim, step = 2 * s->key_dim + 2 * dv;
    uint32_t keys = s->n_key_heads * s->key_dim, values = s->n_value_heads * s->value_dim, all = step * s->n_key_heads;
    const char *fused = block_name(b, module, "in_proj_qkvz"), *fused_ba = block_name(b, module, "in_proj_ba");
    const char *qkv = block_name(b, module, "in_proj_qkv");
    uint32_t all_ba = 2 * s->n_value_heads, all_qkv = 2 * keys + values;
    return (struct delta_rows){
        .q = {{fused, {all, 0, s->key_dim, step}}, {qkv, {all_qkv, 0, 0, 0}}},
        .k = {{fused, {all, s->key_dim, s->key_dim, step}}, {qkv, {all_qkv, keys, 0, 0}}},
        .v = {{fused, {all, 2 * s->key_dim, dv, step}}, {qkv, {all_qkv, 2 * keys, 0, 0}}},
        .z = {{fused, {all, 2 * s->key_dim + dv, dv, step}}, {block_name(b, module, "in_proj_z"), {0}}},
        .b = {{fused_ba, {all_ba, 0, group, 2 * group}}, {block_name(b, module, "in_proj_b"), {0}}},
        .a = {{fused_ba, {all_ba, group, group, 2 * group}}, {block_name(b, module, "in_proj_a"), {0}}},
    };
}

static struct matmul_part delta_part(struct builder *b, const struct matrix_source sources[2], uint32_t n_rows,
                                     uint32_t n_cols, bool is_exact) {
    return (struct matmul_part){.weight = b_matrix_from(b, ROLE_RECURRENT, sources, 2, n_rows, n_cols),
                                .is_exact = is_exact};
}

static struct value delta_conv(struct builder *b, struct value qkv, const struct delta_spec *s, const char *module) {
    uint32_t keys = s->n_key_heads * s->key_dim, group = s->n_value_heads / s->n_key_heads;
    struct op op = {.kind = OP_CONV, .in = {qkv}};
    op.head.heads = (struct head_params){.n_units = s->n_key_heads};
    op.head.conv = (struct conv_params){
        .weight = block_conv_weight(b, block_name(b, module, "conv1d.weight"), qkv.width, s->conv_taps),
        .taps = s->conv_taps,
        .n_channels = qkv.width,
        .state = b_state(b, (uint64_t)(s->conv_taps - 1) * qkv.width),
        .silu = true,
        .n_ranges = 3,
        .first = {0, keys, 2 * keys},
        .count = {s->key_dim, s->key_dim, group * s->value_dim},
    };
    return b_head_op(b, op, qkv.width);
}

/* L2 norm of each head times `factor`: an RMS norm with eps / dim and a constant weight. */
static struct value l2_norm(struct builder *b, struct value x, struct head_params heads, double factor) {
    const struct weight *constant = b_constant(b, heads.head_dim, factor / sqrt((double)heads.head_dim));
    return b_head_norm(
        b, x, heads, (struct norm_params){.kind = NORM_RMS, .weight = constant, .eps = (float)(1e-6 / heads.head_dim)});
}

struct value block_delta_net(struct builder *b, struct value x, const struct delta_spec *s, const char *module) {
    if (!b->failed && (s->n_value_heads % s->n_key_heads || s->conv_taps < 2))
        builder_fail(b, ERROR_FORMAT, "%s: %u value heads are not a multiple of %u key heads, or %u taps are too few",
                     b->config->path, s->n_value_heads, s->n_key_heads, s->conv_taps);
    if (b->failed) return value_none();
    uint32_t keys = s->n_key_heads * s->key_dim, values = s->n_value_heads * s->value_dim, n = s->n_value_heads;
    struct delta_rows rows = delta_sources(b, s, module);
    struct matmul_part parts[6] = {
        delta_part(b, rows.q, keys, x.width, false),   delta_part(b, rows.k, keys, x.width, false),
        delta_part(b, rows.v, values, x.width, false), delta_part(b, rows.z, values, x.width, false),
        delta_part(b, rows.b, n, x.width, true),       delta_part(b, rows.a, n, x.width, true),
    };
    struct value all = b_matmul(b, x, parts, 6), z = value_columns(all, 2 * keys + values, values);
    struct value qkv = delta_conv(b, value_columns(all, 0, 2 * keys + values), s, module);
    struct head_params key_heads = {s->n_key_heads, 1, s->key_dim};
    struct head_params value_heads = {s->n_key_heads, n / s->n_key_heads, s->value_dim};
    struct value q = l2_norm(b, value_columns(qkv, 0, keys), key_heads, 1 / sqrt((double)s->key_dim));
    struct value k = l2_norm(b, value_columns(qkv, keys, keys), key_heads, 1);
    struct op rule = {.kind = OP_DELTA,
                      .in = {q, k, value_columns(qkv, 2 * keys, values), value_columns(all, 2 * keys + 2 * values, n),
                             value_columns(all, 2 * keys + 2 * values + n, n)}};
    rule.head.heads = value_heads;
    rule.head.delta = (struct delta_params){
        .n_key_heads = s->n_key_heads,
        .n_value_heads = n,
        .key_dim = s->key_dim,
        .value_dim = s->value_dim,
        .a = block_decay_rate(b, block_name(b, module, "A_log"), n),
        .dt_bias = b_vector(b, block_name(b, module, "dt_bias"), n),
        .state = b_state(b, (uint64_t)values * s->key_dim),
    };
    struct value y = b_head_op(b, rule, values);
    const struct weight *weight = b_vector(b, block_name(b, module, "norm.weight"), s->value_dim);
    y = b_head_norm(b, y, value_heads, (struct norm_params){.kind = NORM_RMS, .weight = weight, .eps = s->norm_eps});
    y = b_head_gated(b, UNARY_SILU, z, y, value_heads);
    return b_linear(b, y, b_matrix(b, ROLE_RECURRENT, block_name(b, module, "out_proj"), x.width, values), NULL);
}
