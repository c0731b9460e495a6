/* SPDX-License-Identifier: Apache-2.0 */
/* Grouped-query attention with the variants of the decoder families. Unit of the head ops: one key head with its query
 * heads. */
#include "graph/blocks/blocks.h"

#include <math.h>
#include <string.h>

static struct matmul_part project(struct builder *b, struct matrix_source source, uint32_t n_rows, uint32_t n_cols,
                                  bool has_bias) {
    struct matmul_part part = {.weight = b_matrix_from(b, ROLE_ATTENTION, &source, 1, n_rows, n_cols)};
    part.bias = block_bias(b, block_name(b, source.module, "bias"), source.rows, n_rows, has_bias);
    return part;
}

/* Sizes of the attention: rows of the projections, heads of each unit. */
struct shape {
    uint32_t q_rows, k_rows, v_rows, value_dim;
    struct head_params queries, keys, values, outputs;
};

static struct shape shape_of(const struct attention_spec *s) {
    uint32_t d = s->head_dim, v = s->value_dim ? s->value_dim : d, group = s->n_heads / s->n_kv_heads;
    return (struct shape){.q_rows = s->n_heads * d,
                          .k_rows = s->shared_cache ? 0 : s->n_kv_heads * d,
                          .v_rows = s->shared_cache || s->keys_as_values ? 0 : s->n_kv_heads * v,
                          .value_dim = v,
                          .queries = {s->n_kv_heads, group, d, .is_strided = s->is_strided},
                          .keys = {s->n_kv_heads, 1, d},
                          .values = {s->n_kv_heads, 1, v},
                          .outputs = {s->n_kv_heads, group, v, .is_strided = s->is_strided}};
}

static const char *name_or(const char *name, const char *usual) { return name ? name : usual; }

/* Where q, k and v lie in a fused projection. */
static void fused_rows(const struct attention_spec *s, const struct shape *n, struct row_selection rows[3]) {
    uint32_t all = n->q_rows + n->k_rows + n->v_rows;
    if (s->qkv_layout == QKV_IN_ORDER) {
        rows[0] = (struct row_selection){.tensor_rows = all};
        rows[1] = (struct row_selection){.tensor_rows = all, .first_row = n->q_rows};
        rows[2] = (struct row_selection){.tensor_rows = all, .first_row = n->q_rows + n->k_rows};
        return;
    }
    uint32_t d = s->head_dim, queries = n->queries.heads_per_unit * d, step = queries + d + n->value_dim;
    rows[0] = (struct row_selection){all, 0, queries, step};
    rows[1] = (struct row_selection){all, queries, d, step};
    rows[2] = (struct row_selection){all, queries + d, n->value_dim, step};
}

static bool borrows_projection(const struct attention_spec *s) {
    return s->shared_projection && s->shared_projection->id != NO_VALUE;
}

/* q, k, v, and the gate where there is one, side by side. */
static struct value project_all(struct builder *b, struct value x, const struct attention_spec *s,
                                const struct shape *n, const char *module) {
    const char *usual[3] = {name_or(s->q_proj, "q_proj"), name_or(s->k_proj, "k_proj"), name_or(s->v_proj, "v_proj")};
    uint32_t n_rows[3] = {n->q_rows, n->k_rows, n->v_rows};
    struct matrix_source sources[3] = {{0}};
    const char *fused = s->qkv_proj ? block_name(b, module, s->qkv_proj) : NULL;
    bool is_fused = fused && (b_has(b, block_name(b, fused, "weight"), true) || b_has(b, fused, false));
    struct row_selection rows[3] = {{0}};
    if (is_fused) fused_rows(s, n, rows);
    for (int i = 0; i < 3; i++)
        sources[i] =
            (struct matrix_source){is_fused ? fused : block_name(b, module, usual[i]), rows[i], s->is_transposed};
    if (s->has_output_gate) sources[0].rows = (struct row_selection){2 * n->q_rows, 0, s->head_dim, 2 * s->head_dim};
    struct matmul_part parts[5];
    size_t n_parts = 0;
    for (int i = 0; i < 3; i++)
        if (n_rows[i] && !(i && borrows_projection(s)))
            parts[n_parts++] = project(b, sources[i], n_rows[i], x.width, s->has_qkv_bias);
    if (s->has_output_gate) {
        sources[0].rows.first_row = s->head_dim;
        parts[n_parts++] = project(b, sources[0], n->q_rows, x.width, s->has_qkv_bias);
    }
    uint32_t gates = s->gate_is_per_head ? s->n_heads : s->n_heads * n->value_dim;
    if (s->gate_proj)
        parts[n_parts++] =
            project(b, (struct matrix_source){.module = block_name(b, module, s->gate_proj)}, gates, x.width, false);
    return b_matmul(b, x, parts, n_parts);
}

static float plus_one(float x) { return 1.0f + x; }

/* The weights of all heads, from one tensor or from one for each head. */
static const struct weight *head_weights(struct builder *b, const char *module, uint32_t n_heads, uint32_t head_dim) {
    const char *whole = block_name(b, module, "weight");
    if (!b->failed) whole = arena_printf(&b->graph->arena, "%s|%s", whole, module); /* a bare vector has no ".weight" */
    if (!whole) builder_fail(b, ERROR_MEMORY, "out of memory (names)");
    if (b->failed) return NULL;
    if (b_has(b, whole, true)) return b_vector(b, whole, n_heads * head_dim);
    const struct weight *all = b_constant(b, n_heads * head_dim, 0);
    for (uint32_t h = 0; h < n_heads && !b->failed; h++) {
        const char *name = arena_printf(&b->graph->arena, "%s.norms.%u.weight", module, h);
        const struct weight *one = b_vector(b, name ? name : "", head_dim);
        if (!b->failed) memcpy(all->vector + (size_t)h * head_dim, one->vector, head_dim * sizeof *one->vector);
    }
    return all;
}

static struct value normalize(struct builder *b, struct value x, const struct attention_spec *s,
                              struct head_params heads, const char *module) {
    struct norm_params norm = {.kind = s->qk_norm_kind, .eps = s->qk_norm_eps};
    if (!s->qk_norm_is_plain) {
        norm.weight =
            s->qk_norm == QK_NORM_EACH
                ? head_weights(b, module, heads.n_units * heads.heads_per_unit, s->head_dim)
                : b_vector(b, block_name(b, module, "weight"), s->qk_norm == QK_NORM_ALL ? x.width : s->head_dim);
        if (s->qk_norm_plus_one) b_transform(b, norm.weight, plus_one);
        const char *bias = block_name(b, module, "bias");
        if (s->qk_norm == QK_NORM_HEAD && b_has(b, bias, false)) norm.bias = b_vector(b, bias, s->head_dim);
    }
    if (s->qk_norm == QK_NORM_ALL) return b_norm(b, x, norm);
    norm.per_group = s->qk_norm == QK_NORM_EACH;
    return b_head_norm(b, x, heads, norm);
}

static struct value clip(struct builder *b, struct value x, const struct attention_spec *s) {
    return s->qkv_clip > 0 ? b_clip(b, x, -s->qkv_clip, s->qkv_clip) : x;
}

/* Norm, clipping, position factor (of queries) and rotation of q or k, in the order of the specification. */
static struct value prepare_heads(struct builder *b, struct value x, const struct attention_spec *s,
                                  struct head_params heads, const char *norm_module, struct position_scale scale) {
    bool has_norm = s->qk_norm != QK_NORM_NONE;
    if (has_norm && !s->qk_norm_after_rope) x = normalize(b, x, s, heads, norm_module);
    if (s->qk_norm == QK_NORM_ALL) x = clip(b, x, s);
    if (scale.beta != 0) x = b_multiply(b, x, b_position(b, scale.beta, scale.length, scale.offset));
    if (s->has_rope) x = b_rope(b, x, heads, s->rope, s->rope_interleaved);
    if (has_norm && s->qk_norm_after_rope) x = normalize(b, x, s, heads, norm_module);
    return x;
}

/* A causal filter over the columns of each head, all with the head's taps. */
static struct value filter_heads(struct builder *b, struct value x, const struct attention_spec *s,
                                 struct head_params heads, const char *name) {
    const struct weight *taps = b_vector(b, name, heads.n_units * s->kv_taps);
    const struct weight *all = b_constant(b, x.width * s->kv_taps, 0);
    for (uint32_t i = 0; !b->failed && taps->vector && i < all->n_cols; i++)
        all->vector[i] = taps->vector[i / s->kv_taps / heads.head_dim * s->kv_taps + i % s->kv_taps];
    struct op op = {.kind = OP_CONV, .in = {x}};
    op.head.heads = heads;
    op.head.conv = (struct conv_params){.weight = all,
                                        .taps = s->kv_taps,
                                        .n_channels = x.width,
                                        .state = b_state(b, (uint64_t)(s->kv_taps - 1) * x.width),
                                        .n_ranges = 1,
                                        .count = {heads.head_dim}};
    return b_head_op(b, op, x.width);
}

/* Keys and values into the layer's own cache, or the shared one, which has them. */
static uint32_t prepare_cache(struct builder *b, struct value k, struct value v, const struct attention_spec *s,
                              const struct shape *n, const char *module) {
    if (s->shared_cache) return *s->shared_cache;
    if (s->kv_taps) {
        k = filter_heads(b, k, s, n->keys, block_name(b, module, "conv_k"));
        v = filter_heads(b, v, s, n->values, block_name(b, module, "conv_v"));
    }
    if (s->qk_norm == QK_NORM_ALL) v = clip(b, v, s);
    if (s->value_scale != 0) v = b_scale(b, v, s->value_scale);
    k = prepare_heads(b, k, s, n->keys, block_name(b, module, name_or(s->k_norm, "k_norm|k_layernorm")),
                      (struct position_scale){0});
    if (s->value_norm) v = b_head_norm(b, v, n->values, (struct norm_params){.kind = NORM_RMS, .eps = s->qk_norm_eps});
    if (s->has_kv_grid) {
        k = b_grid(b, k, b_vector(b, block_name(b, module, "quant_key_scale"), 1));
        v = b_grid(b, v, b_vector(b, block_name(b, module, "quant_value_scale"), 1));
    }
    uint32_t cache = b_cache(b, s->policy, s->window, s->n_kv_heads, s->head_dim, n->value_dim);
    b_cache_write(b, cache, k, v, n->keys);
    return cache;
}

/* Attention over the cells that the index chooses. */
static struct value attend_chosen(struct builder *b, struct value x, struct value q, struct attend_params attend,
                                  const struct attention_spec *s, const struct shape *n, const char *module) {
    struct value chosen = block_index(b, x, x, s->index, block_name(b, module, "indexer"), &attend);
    if (!b->failed && s->n_kv_heads % attend.n_choices)
        builder_fail(b, ERROR_FORMAT, "%s: %u key heads cannot share %u choices of cells", b->config->path,
                     s->n_kv_heads, attend.n_choices);
    return b_attend_chosen(b, q, chosen, n->queries, attend);
}

/* Attention over the layer's cache, mixed with that over an earlier one where the specification says so. */
static struct value attend_caches(struct builder *b, struct value q, struct attend_params attend,
                                  const struct attention_spec *s, const struct shape *n) {
    struct value own = b_attend(b, q, n->queries, attend);
    if (!s->mixed_cache) return own;
    attend.cache = *s->mixed_cache;
    struct value earlier = b_attend(b, q, n->queries, attend);
    const struct weight *weight = b_vector(b, block_name(b, s->mix_gate, "weight"), s->n_heads * s->head_dim);
    const struct weight *bias = b_vector(b, block_name(b, s->mix_gate, "bias"), s->n_heads);
    struct value gate = b_add_vector(b, b_weights_dot(b, q, weight, s->n_heads), bias);
    return b_add(b, b_head_scale(b, UNARY_SIGMOID, gate, earlier, n->outputs),
                 b_head_scale(b, UNARY_SIGMOID, b_scale(b, gate, -1), own, n->outputs));
}

static struct value gated_output(struct builder *b, struct value out, struct value gate, const struct attention_spec *s,
                                 const struct shape *n) {
    if (s->has_output_gate) return b_head_gated(b, UNARY_SIGMOID, gate, out, n->queries);
    if (s->gate_proj && s->gate_is_per_head) return b_head_scale(b, s->gate_activation, gate, out, n->outputs);
    return s->gate_proj ? b_head_gated(b, s->gate_activation, gate, out, n->outputs) : out;
}

uint32_t block_attention_cache(const struct builder *b) {
    return b->graph->n_caches ? (uint32_t)b->graph->n_caches - 1 : 0;
}

struct value block_attention(struct builder *b, struct value x, const struct attention_spec *s, const char *module) {
    if (!b->failed && (!s->n_kv_heads || s->n_heads % s->n_kv_heads))
        builder_fail(b, ERROR_FORMAT, "%s: %u attention heads are not a multiple of %u key heads", b->config->path,
                     s->n_heads, s->n_kv_heads);
    b_check_width(b, s->n_heads, (uint64_t)2 * (s->head_dim + (uint64_t)s->value_dim), "heads");
    if (b->failed) return value_none();
    struct shape n = shape_of(s);
    struct value all = project_all(b, x, s, &n, module);
    if (s->qk_norm != QK_NORM_ALL) all = clip(b, all, s);
    uint32_t at_v = n.q_rows + n.k_rows, at_gate = at_v + n.v_rows;
    struct value q = value_columns(all, 0, n.q_rows), k = value_columns(all, n.q_rows, n.k_rows);
    struct value v = s->keys_as_values ? k : value_columns(all, at_v, n.v_rows);
    if (borrows_projection(s)) {
        k = value_columns(*s->shared_projection, 0, n.k_rows);
        v = value_columns(*s->shared_projection, n.k_rows, n.v_rows);
        at_gate = n.q_rows;
    } else if (s->shared_projection) {
        *s->shared_projection = value_columns(all, n.q_rows, n.k_rows + n.v_rows);
    }
    struct value gate = value_columns(all, at_gate, all.width - at_gate);
    q = prepare_heads(b, q, s, n.queries, block_name(b, module, name_or(s->q_norm, "q_norm|q_layernorm")),
                      s->position_scale);
    struct attend_params attend = {.key_dim = s->head_dim, .value_dim = n.value_dim, .softcap = s->softcap};
    attend.cache = prepare_cache(b, k, v, s, &n, module);
    attend.scale = (float)(s->scale != 0 ? s->scale : 1 / sqrt((double)s->head_dim));
    if (s->sinks) attend.sinks = b_vector(b, s->sinks, s->n_heads);
    attend.blocks = s->blocks;
    struct value out = s->index ? attend_chosen(b, x, q, attend, s, &n, module) : attend_caches(b, q, attend, s, &n);
    out = gated_output(b, out, gate, s, &n);
    if (s->output_norm)
        out = block_norm(b, out, &(struct norm_spec){.eps = s->qk_norm_eps}, block_name(b, module, s->output_norm));
    struct matrix_source o = {block_name(b, module, name_or(s->o_proj, "o_proj|out_proj")), {0}, s->is_transposed};
    struct matmul_part o_part = project(b, o, x.width, s->n_heads * n.value_dim, s->has_o_bias);
    return b_matmul(b, out, &o_part, 1);
}
