/* SPDX-License-Identifier: Apache-2.0 */
/* Grouped-query attention with the variants of the decoder families. Unit of the head ops: one key head with its query
 * heads. */
#include "graph/blocks/blocks.h"

#include <math.h>
#include <string.h>

const char *block_name(struct builder *b, const char *module, const char *name) {
    const char *joined = b->failed ? "" : arena_printf(&b->graph->arena, "%s.%s", module, name);
    if (joined) return joined;
    builder_fail(b, ERROR_MEMORY, "out of memory (names)");
    return "";
}

/* A bias where the file has one, or, without a file, where the config promises it. */
static const struct weight *optional_bias(struct builder *b, const char *name, struct row_selection rows, uint32_t n,
                                          bool expected) {
    return b_has(b, name, expected) ? b_vector_rows(b, name, rows, n) : NULL;
}

struct projection {
    const char *module;
    uint32_t n_rows;
    bool has_bias;
    struct row_selection rows;
};

static struct matmul_part project(struct builder *b, const struct projection *p, uint32_t n_cols) {
    struct matrix_source source = {p->module, p->rows};
    struct matmul_part part = {.weight = b_matrix_from(b, ROLE_ATTENTION, &source, 1, p->n_rows, n_cols)};
    part.bias = optional_bias(b, block_name(b, p->module, "bias"), p->rows, p->n_rows, p->has_bias);
    return part;
}

static struct value normalize_heads(struct builder *b, struct value x, const struct attention_spec *s,
                                    struct head_params heads, const char *name) {
    const struct weight *weight = b_vector(b, name, s->head_dim);
    if (s->qk_norm_plus_one && !b->failed && weight->vector)
        for (uint32_t i = 0; i < weight->n_cols; i++) weight->vector[i] += 1.0f;
    return b_head_norm(b, x, heads, (struct norm_params){.kind = NORM_RMS, .weight = weight, .eps = s->qk_norm_eps});
}

struct value block_attention(struct builder *b, struct value x, const struct attention_spec *s, const char *module) {
    uint32_t d = s->head_dim, q_rows = s->n_heads * d, kv_rows = s->n_kv_heads * d;
    if (!b->failed && s->n_heads % s->n_kv_heads)
        builder_fail(b, ERROR_FORMAT, "%s: %u attention heads are not a multiple of %u key heads", b->config->path,
                     s->n_heads, s->n_kv_heads);
    if (b->failed) return value_none();
    struct head_params queries = {s->n_kv_heads, s->n_heads / s->n_kv_heads, d}, keys = {s->n_kv_heads, 1, d};
    struct row_selection q_part = {0}, gate_part = {0};
    if (s->has_output_gate) {
        q_part = (struct row_selection){.tensor_rows = 2 * q_rows, .run_rows = d, .run_step = 2 * d};
        gate_part = q_part;
        gate_part.first_row = d;
    }
    const char *q_name = block_name(b, module, "q_proj");
    struct projection projections[] = {
        {q_name, q_rows, s->has_qkv_bias, q_part},
        {block_name(b, module, "k_proj"), kv_rows, s->has_qkv_bias, {0}},
        {block_name(b, module, "v_proj"), kv_rows, s->has_qkv_bias, {0}},
        {q_name, q_rows, s->has_qkv_bias, gate_part},
    };
    size_t n_parts = s->has_output_gate ? 4 : 3;
    struct matmul_part parts[4];
    for (size_t i = 0; i < n_parts; i++) parts[i] = project(b, &projections[i], x.width);
    struct value qkv = b_matmul(b, x, parts, n_parts);
    struct value q = value_columns(qkv, 0, q_rows), k = value_columns(qkv, q_rows, kv_rows);
    struct value v = value_columns(qkv, q_rows + kv_rows, kv_rows);
    if (s->qk_norm == QK_NORM_HEAD) {
        q = normalize_heads(b, q, s, queries, block_name(b, module, "q_norm.weight"));
        k = normalize_heads(b, k, s, keys, block_name(b, module, "k_norm.weight"));
    }
    if (s->has_rope) {
        q = b_rope(b, q, queries, s->rope, s->rope_interleaved);
        k = b_rope(b, k, keys, s->rope, s->rope_interleaved);
    }
    uint32_t cache = b_cache(b, s->policy, s->window, s->n_kv_heads, d, d);
    b_cache_write(b, cache, k, v, keys);
    struct attend_params attend = {.cache = cache, .key_dim = d, .value_dim = d, .softcap = s->softcap};
    attend.scale = (float)(s->scale != 0 ? s->scale : 1 / sqrt((double)d));
    if (s->sinks) attend.sinks = b_vector(b, s->sinks, s->n_heads);
    struct value out = b_attend(b, q, queries, attend);
    if (s->has_output_gate)
        out = b_head_gated(b, UNARY_SIGMOID, value_columns(qkv, q_rows + 2 * kv_rows, q_rows), out, queries);
    struct projection o = {block_name(b, module, "o_proj"), x.width, s->has_o_bias, {0}};
    struct matmul_part o_part = project(b, &o, q_rows);
    return b_matmul(b, out, &o_part, 1);
}
