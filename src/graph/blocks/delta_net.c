/* SPDX-License-Identifier: Apache-2.0 */
/* The gated delta net (Yang, Kautz, Hatamizadeh 2024). */
#include "graph/blocks/blocks.h"

#include <math.h>

/* The projections of a delta net: in one tensor by key heads (q, k, v group, z group; b group, a group), or separate. */
struct delta_rows {
    struct matrix_source q[3], k[3], v[3], z[3], b[3], a[3];
};

static struct delta_rows delta_sources(struct builder *b, const struct delta_spec *s, const char *module) {
    uint32_t group = s->n_value_heads / s->n_key_heads, dv = group * s->value_dim, step = 2 * s->key_dim + 2 * dv;
    uint32_t keys = s->n_key_heads * s->key_dim, values = s->n_value_heads * s->value_dim, all = step * s->n_key_heads;
    const char *fused = block_name(b, module, "in_proj_qkvz"), *fused_ba = block_name(b, module, "in_proj_ba");
    const char *qkv = block_name(b, module, "in_proj_qkv");
    uint32_t all_ba = 2 * s->n_value_heads, all_qkv = 2 * keys + values;
    return (struct delta_rows){
        .q = {{fused, {all, 0, s->key_dim, step}}, {qkv, {all_qkv, 0, 0, 0}}, {block_name(b, module, "q_proj"), {0}}},
        .k = {{fused, {all, s->key_dim, s->key_dim, step}},
              {qkv, {all_qkv, keys, 0, 0}},
              {block_name(b, module, "k_proj"), {0}}},
        .v = {{fused, {all, 2 * s->key_dim, dv, step}},
              {qkv, {all_qkv, 2 * keys, 0, 0}},
              {block_name(b, module, "v_proj"), {0}}},
        .z = {{fused, {all, 2 * s->key_dim + dv, dv, step}},
              {block_name(b, module, "in_proj_z"), {0}},
              {block_name(b, module, "g_proj"), {0}}},
        .b = {{fused_ba, {all_ba, 0, group, 2 * group}},
              {block_name(b, module, "in_proj_b"), {0}},
              {block_name(b, module, "b_proj"), {0}}},
        .a = {{fused_ba, {all_ba, group, group, 2 * group}},
              {block_name(b, module, "in_proj_a"), {0}},
              {block_name(b, module, "a_proj"), {0}}},
    };
}

static struct matmul_part delta_part(struct builder *b, const struct matrix_source sources[3], uint32_t n_rows,
                                     uint32_t n_cols, bool is_exact) {
    return (struct matmul_part){.weight = b_matrix_from(b, ROLE_RECURRENT, sources, 3, n_rows, n_cols),
                                .is_exact = is_exact};
}

static struct value delta_conv(struct builder *b, struct value qkv, const struct delta_spec *s, const char *module) {
    uint32_t keys = s->n_key_heads * s->key_dim, group = s->n_value_heads / s->n_key_heads;
    struct op op = {.kind = OP_CONV, .in = {qkv}};
    const char *joined = block_name(b, module, "conv1d.weight");
    const char *const names[3] = {block_name(b, module, "q_conv1d.weight|q_conv.conv.weight"),
                                  block_name(b, module, "k_conv1d.weight|k_conv.conv.weight"),
                                  block_name(b, module, "v_conv1d.weight|v_conv.conv.weight")};
    const uint32_t channels[3] = {keys, keys, group * s->n_key_heads * s->value_dim};
    op.head.heads = (struct head_params){.n_units = s->n_key_heads};
    op.head.conv = (struct conv_params){
        .weight = b_has(b, joined, true) ? block_conv_weight(b, joined, qkv.width, s->conv_taps)
                                         : block_joined_conv(b, names, channels, s->conv_taps),
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

/* An RMS norm with eps / dim and a constant weight. */
struct value block_l2_norm(struct builder *b, struct value x, struct head_params heads, double factor, double eps) {
    const struct weight *constant = b_constant(b, heads.head_dim, factor / sqrt((double)heads.head_dim));
    return b_head_norm(
        b, x, heads, (struct norm_params){.kind = NORM_RMS, .weight = constant, .eps = (float)(eps / heads.head_dim)});
}

struct value block_delta_net(struct builder *b, struct value x, const struct delta_spec *s, const char *module) {
    if (!block_check_mixer(b, (uint64_t)s->n_key_heads * s->key_dim, s->value_dim, s->conv_taps) ||
        !block_check_mixer(b, (uint64_t)s->n_value_heads * s->value_dim, s->key_dim, s->conv_taps))
        return value_none();
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
    struct value q = block_l2_norm(b, value_columns(qkv, 0, keys), key_heads, 1 / sqrt((double)s->key_dim), 1e-6);
    struct value k = block_l2_norm(b, value_columns(qkv, keys, keys), key_heads, 1, 1e-6);
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
        .beta_factor = (float)(s->beta_factor != 0 ? s->beta_factor : 1),
        .state = b_state(b, (uint64_t)values * s->key_dim),
    };
    struct value y = b_head_op(b, rule, values);
    const struct weight *weight = b_vector(b, block_name(b, module, "norm.weight|o_norm.weight"), s->value_dim);
    y = b_head_norm(b, y, value_heads, (struct norm_params){.kind = NORM_RMS, .weight = weight, .eps = s->norm_eps});
    y = b_head_gated(b, UNARY_SILU, z, y, value_heads);
    return b_linear(b, y, b_matrix(b, ROLE_RECURRENT, block_name(b, module, "out_proj|o_proj"), x.width, values), NULL);
}

struct value block_dplr(struct builder *b, uint32_t n_heads, uint32_t key_dim, uint32_t value_dim, struct value q,
                        struct value decay, struct value a, struct value bb, struct value k, struct value v) {
    struct op op = {.kind = OP_DPLR, .in = {q, decay, a, bb, k, v}};
    op.head.heads = (struct head_params){n_heads, 1, value_dim, false};
    op.head.dplr = (struct dplr_params){
        .key_dim = key_dim, .value_dim = value_dim, .state = b_state(b, (uint64_t)n_heads * key_dim * value_dim)};
    return b_head_op(b, op, n_heads * value_dim);
}

/* exp(a * softplus(f_b(f_a(x)) + dt_bias)) for each channel; the rate a is the head's. */
static struct value channel_decay(struct builder *b, struct value low, const struct channel_delta_spec *s,
                                  const char *module) {
    uint32_t width = s->n_heads * s->head_dim;
    struct matmul_part part = {.weight =
                                   b_matrix(b, ROLE_RECURRENT, block_name(b, module, "f_b_proj"), width, low.width),
                               .bias = b_vector(b, block_name(b, module, "dt_bias"), width),
                               .is_exact = true};
    struct value dt = b_unary(b, UNARY_SOFTPLUS, b_matmul(b, low, &part, 1));
    return b_unary(b, UNARY_EXP, b_weigh(b, dt, block_decay_rate(b, block_name(b, module, "A_log"), s->n_heads)));
}

struct value block_channel_delta(struct builder *b, struct value x, const struct channel_delta_spec *s,
                                 const char *module) {
    static const char *const names[6] = {"q_proj", "k_proj", "v_proj", "f_a_proj", "g_a_proj", "b_proj"};
    uint32_t n = s->n_heads, d = s->head_dim, width = n * d;
    if (!block_check_mixer(b, (uint64_t)n * d, d, s->conv_taps)) return value_none();
    const uint32_t n_rows[6] = {width, width, width, d, d, n};
    struct matmul_part parts[6];
    for (int i = 0; i < 6; i++)
        parts[i] = (struct matmul_part){
            .weight = b_matrix(b, ROLE_RECURRENT, block_name(b, module, names[i]), n_rows[i], x.width),
            .is_exact = i == 3 || i == 5};
    struct value all = b_matmul(b, x, parts, 6);
    struct delta_spec shape = {n, n, d, d, s->conv_taps, 0, 0};
    if (b->failed) return value_none();
    struct value qkv = delta_conv(b, value_columns(all, 0, 3 * width), &shape, module);
    struct head_params heads = {n, 1, d, false};
    struct value q = block_l2_norm(b, value_columns(qkv, 0, width), heads, 1 / sqrt((double)d), 1e-6);
    struct value k = block_l2_norm(b, value_columns(qkv, width, width), heads, 1, 1e-6);
    struct value decay = channel_decay(b, value_columns(all, 3 * width, d), s, module);
    struct value beta = b_unary(b, UNARY_SIGMOID, value_columns(all, 3 * width + 2 * d, n));
    struct value bk = b_multiply(b, k, beta), a = b_scale(b, b_multiply(b, decay, k), -1);
    struct value y = block_dplr(b, n, d, d, q, decay, a, bk, bk, value_columns(qkv, 2 * width, width));
    const struct weight *gate = b_matrix(b, ROLE_RECURRENT, block_name(b, module, "g_b_proj"), width, d);
    struct value z = b_linear(b, value_columns(all, 3 * width + d, d), gate, NULL);
    const struct weight *weight = b_vector(b, block_name(b, module, "o_norm.weight"), d);
    y = b_head_norm(b, y, heads, (struct norm_params){.kind = NORM_RMS, .weight = weight, .eps = s->norm_eps});
    y = b_head_gated(b, UNARY_SIGMOID, z, y, heads);
    return b_linear(b, y, b_matrix(b, ROLE_RECURRENT, block_name(b, module, "o_proj"), x.width, width), NULL);
}
