/* SPDX-License-Identifier: Apache-2.0 */
/* Linear attention with a constant decay for each head (Lightning Attention; Qin et al. 2024). The recurrence is Mamba-2's
 * with a time step of 1: decay = exp(-slope). Unit of the head ops: one head. */
#include "graph/blocks/blocks.h"

static struct value project(struct builder *b, struct value x, const struct linear_attention_spec *s,
                            const char *module) {
    uint32_t d = s->head_dim, n = s->n_heads, width = n * d;
    const char *qkv = block_name(b, module, s->qkv), *gate = block_name(b, module, s->gate);
    const char *bias = block_name(b, qkv, "bias");
    struct matmul_part parts[4];
    for (uint32_t i = 0; i < 3; i++) {
        struct matrix_source source = {qkv, {.tensor_rows = 3 * width, .first_row = i * width}};
        if (s->qkv_by_head) source.rows = (struct row_selection){3 * width, i * d, d, 3 * d};
        parts[i] = (struct matmul_part){.weight = b_matrix_from(b, ROLE_ATTENTION, &source, 1, width, x.width)};
        if (b_has(b, bias, false)) parts[i].bias = b_vector_rows(b, bias, source.rows, width);
    }
    parts[3] = (struct matmul_part){.weight = b_matrix(b, ROLE_ATTENTION, gate, width, x.width)};
    return b_matmul(b, x, parts, 4);
}

static struct value prepare(struct builder *b, struct value x, const struct linear_attention_spec *s,
                            const char *module, const char *norm) {
    struct head_params heads = {s->n_heads, 1, s->head_dim, false};
    if (norm) {
        const char *name = block_name(b, block_name(b, module, norm), "weight");
        x = b_head_norm(
            b, x, heads,
            (struct norm_params){.kind = NORM_RMS, .weight = b_vector(b, name, s->head_dim), .eps = s->qk_norm_eps});
    }
    return s->has_rope ? b_rope(b, x, heads, s->rope, false) : x;
}

struct value block_linear_attention(struct builder *b, struct value x, const struct linear_attention_spec *s,
                                    const char *module) {
    uint32_t width = s->n_heads * s->head_dim;
    if (!block_check_mixer(b, (uint64_t)s->n_heads * s->head_dim, s->head_dim, 2)) return value_none();
    if (s->norm_groups && width % s->norm_groups)
        builder_fail(b, ERROR_FORMAT, "%s: %u channels in %u groups", b->config->path, width, s->norm_groups);
    if (b->failed) return value_none();
    struct value all = project(b, x, s, module), qkv = value_columns(all, 0, 3 * width);
    if (s->has_qkv_activation) qkv = b_unary(b, s->qkv_activation, qkv);
    struct value q = value_columns(qkv, 0, width), k = value_columns(qkv, width, width);
    q = prepare(b, q, s, module, s->q_norm);
    k = prepare(b, k, s, module, s->k_norm);
    const struct weight *rates = b_constant(b, s->n_heads, 0);
    for (uint32_t h = 0; h < s->n_heads && !b->failed; h++) rates->vector[h] = (float)-s->slope(s->context, h);
    struct op scan = {.kind = OP_MAMBA2, .in = {value_columns(qkv, 2 * width, width), k, q}};
    scan.head.heads = (struct head_params){s->n_heads, 1, s->head_dim, false};
    scan.head.mamba2 = (struct mamba2_params){
        .n_heads = s->n_heads,
        .head_dim = s->head_dim,
        .state_dim = s->head_dim,
        .heads_per_group = 1,
        .a = rates,
        .state = b_state(b, (uint64_t)width * s->head_dim),
    };
    struct value y = b_scale(b, b_head_op(b, scan, width), s->scale);
    struct norm_params norm = {.kind = NORM_RMS, .eps = s->norm_eps};
    norm.weight = b_vector(b, block_name(b, block_name(b, module, s->norm), "weight"), width);
    if (s->norm_groups > 1) {
        norm.group = width / s->norm_groups;
        norm.per_group = true;
    }
    y = b_gated(b, UNARY_SIGMOID, value_columns(all, 3 * width, width), b_norm(b, y, norm));
    return b_linear(b, y, b_matrix(b, ROLE_ATTENTION, block_name(b, module, s->out), x.width, width), NULL);
}
