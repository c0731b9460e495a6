/* SPDX-License-Identifier: Apache-2.0 */
/* Grouped-query attention with the variants of the decoder families. Unit of the head ops: one key head with its query
 * heads. */
#include "graph/blocks/blocks.h"

#include <math.h>
#include <string.h>

/* Appends n bytes of text. */
static char *put(char *at, const char *text, size_t n) {
    memcpy(at, text, n);
    return at + n;
}

const char *block_name(struct builder *b, const char *modules, const char *names) {
    size_t n_modules = 1, n_names = 1;
    for (const char *at = modules; *at; at++) n_modules += *at == '|';
    for (const char *at = names; *at; at++) n_names += *at == '|';
    size_t room = n_names * (strlen(modules) + 1) + n_modules * (strlen(names) + 1) + n_modules * n_names + 1;
    char *joined = b->failed ? NULL : arena_alloc(&b->graph->arena, room), *at = joined;
    if (!b->failed && !joined) builder_fail(b, ERROR_MEMORY, "out of memory (names)");
    if (!joined) return "";
    for (const char *module = modules; *module; module += *module == '|') {
        size_t n_module = strcspn(module, "|");
        for (const char *name = names; *name; name += *name == '|') {
            size_t n_name = strcspn(name, "|");
            if (at != joined) *at++ = '|';
            at = put(at, module, n_module);
            *at++ = '.';
            at = put(at, name, n_name);
            name += n_name;
        }
        module += n_module;
    }
    *at = '\0';
    return joined;
}

/* A bias where the file has it, or, without a file, where the config promises it. */
static const struct weight *optional_bias(struct builder *b, const char *name, struct row_selection rows, uint32_t n,
                                          bool expected) {
    return b_has(b, name, expected) ? b_vector_rows(b, name, rows, n) : NULL;
}

static struct matmul_part project(struct builder *b, struct matrix_source source, uint32_t n_rows, uint32_t n_cols,
                                  bool has_bias) {
    struct matmul_part part = {.weight = b_matrix_from(b, ROLE_ATTENTION, &source, 1, n_rows, n_cols)};
    part.bias = optional_bias(b, block_name(b, source.module, "bias"), source.rows, n_rows, has_bias);
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
                          .queries = {s->n_kv_heads, group, d},
                          .keys = {s->n_kv_heads, 1, d},
                          .values = {s->n_kv_heads, 1, v},
                          .outputs = {s->n_kv_heads, group, v}};
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
        sources[i] = (struct matrix_source){is_fused ? fused : block_name(b, module, usual[i]), rows[i]};
    if (s->has_output_gate) sources[0].rows = (struct row_selection){2 * n->q_rows, 0, s->head_dim, 2 * s->head_dim};
    struct matmul_part parts[5];
    size_t n_parts = 0;
    for (int i = 0; i < 3; i++)
        if (n_rows[i]) parts[n_parts++] = project(b, sources[i], n_rows[i], x.width, s->has_qkv_bias);
    if (s->has_output_gate) {
        sources[0].rows.first_row = s->head_dim;
        parts[n_parts++] = project(b, sources[0], n->q_rows, x.width, s->has_qkv_bias);
    }
    uint32_t gates = s->gate_is_per_head ? s->n_heads : s->n_heads * n->value_dim;
    if (s->gate_proj)
        parts[n_parts++] =
            project(b, (struct matrix_source){block_name(b, module, s->gate_proj), {0}}, gates, x.width, false);
    return b_matmul(b, x, parts, n_parts);
}

static struct value normalize(struct builder *b, struct value x, const struct attention_spec *s,
                              struct head_params heads, const char *name) {
    struct norm_params norm = {.kind = NORM_RMS, .eps = s->qk_norm_eps};
    if (s->qk_norm == QK_NORM_ALL) return b_rms_norm(b, x, name, s->qk_norm_eps, s->qk_norm_plus_one);
    if (!s->qk_norm_is_plain) {
        norm.weight = b_vector(b, name, s->head_dim);
        if (s->qk_norm_plus_one && !b->failed && norm.weight->vector)
            for (uint32_t i = 0; i < norm.weight->n_cols; i++) norm.weight->vector[i] += 1.0f;
    }
    return b_head_norm(b, x, heads, norm);
}

/* Norm, position factor and rotation of q and k, in the order of the specification. Shared keys are ready. */
static void prepare_heads(struct builder *b, const struct attention_spec *s, const struct shape *n, const char *module,
                          struct value *q, struct value *k) {
    const char *q_norm = block_name(b, block_name(b, module, name_or(s->q_norm, "q_norm|q_layernorm")), "weight");
    const char *k_norm = block_name(b, block_name(b, module, name_or(s->k_norm, "k_norm|k_layernorm")), "weight");
    bool has_norm = s->qk_norm != QK_NORM_NONE;
    if (has_norm && !s->qk_norm_after_rope) {
        *q = normalize(b, *q, s, n->queries, q_norm);
        if (n->k_rows) *k = normalize(b, *k, s, n->keys, k_norm);
    }
    if (s->qkv_clip != 0 && s->qk_norm == QK_NORM_ALL) {
        *q = b_clip(b, *q, -s->qkv_clip, s->qkv_clip);
        if (n->k_rows) *k = b_clip(b, *k, -s->qkv_clip, s->qkv_clip);
    }
    if (s->position_scale.beta != 0)
        *q = b_multiply(b, *q,
                        b_position(b, s->position_scale.beta, s->position_scale.length, s->position_scale.offset));
    if (s->has_rope) {
        *q = b_rope(b, *q, n->queries, s->rope, s->rope_interleaved);
        if (n->k_rows) *k = b_rope(b, *k, n->keys, s->rope, s->rope_interleaved);
    }
    if (has_norm && s->qk_norm_after_rope) {
        *q = normalize(b, *q, s, n->queries, q_norm);
        if (n->k_rows) *k = normalize(b, *k, s, n->keys, k_norm);
    }
}

/* Writes keys and values to the layer's own cache, or finds the shared one. */
static uint32_t prepare_cache(struct builder *b, const struct attention_spec *s, const struct shape *n, struct value k,
                              struct value v) {
    if (s->shared_cache) return *s->shared_cache;
    if (s->value_norm) v = b_head_norm(b, v, n->values, (struct norm_params){.kind = NORM_RMS, .eps = s->qk_norm_eps});
    uint32_t cache = b_cache(b, s->policy, s->window, s->n_kv_heads, s->head_dim, n->value_dim);
    b_cache_write(b, cache, k, v, n->keys);
    return cache;
}

uint32_t block_attention_cache(const struct builder *b) {
    return b->graph->n_caches ? (uint32_t)b->graph->n_caches - 1 : 0;
}

struct value block_attention(struct builder *b, struct value x, const struct attention_spec *s, const char *module) {
    if (!b->failed && (!s->n_kv_heads || s->n_heads % s->n_kv_heads))
        builder_fail(b, ERROR_FORMAT, "%s: %u attention heads are not a multiple of %u key heads", b->config->path,
                     s->n_heads, s->n_kv_heads);
    if (b->failed) return value_none();
    struct shape n = shape_of(s);
    struct value all = project_all(b, x, s, &n, module);
    if (s->qkv_clip != 0 && s->qk_norm != QK_NORM_ALL) all = b_clip(b, all, -s->qkv_clip, s->qkv_clip);
    struct value q = value_columns(all, 0, n.q_rows), k = value_columns(all, n.q_rows, n.k_rows);
    struct value v = value_columns(all, n.q_rows + n.k_rows, n.v_rows);
    struct value gate = value_columns(all, n.q_rows + n.k_rows + n.v_rows, n.q_rows);
    if (s->keys_as_values) v = k;
    if (s->qkv_clip != 0 && s->qk_norm == QK_NORM_ALL) v = b_clip(b, v, -s->qkv_clip, s->qkv_clip);
    if (s->value_scale != 0) v = b_scale(b, v, s->value_scale);
    prepare_heads(b, s, &n, module, &q, &k);
    struct attend_params attend = {
        .cache = prepare_cache(b, s, &n, k, v), .key_dim = s->head_dim, .value_dim = n.value_dim};
    attend.softcap = s->softcap;
    attend.scale = (float)(s->scale != 0 ? s->scale : 1 / sqrt((double)s->head_dim));
    if (s->sinks) attend.sinks = b_vector(b, s->sinks, s->n_heads);
    struct value out = b_attend(b, q, n.queries, attend);
    if (s->has_output_gate) out = b_head_gated(b, UNARY_SIGMOID, gate, out, n.queries);
    gate.width = s->gate_is_per_head ? s->n_heads : s->n_heads * n.value_dim;
    if (s->gate_proj && s->gate_is_per_head) out = b_head_scale(b, s->gate_activation, gate, out, n.outputs);
    if (s->gate_proj && !s->gate_is_per_head) out = b_head_gated(b, s->gate_activation, gate, out, n.outputs);
    struct matrix_source o = {block_name(b, module, name_or(s->o_proj, "o_proj|out_proj")), {0}};
    struct matmul_part o_part = project(b, o, x.width, s->n_heads * n.value_dim, s->has_o_bias);
    return b_matmul(b, out, &o_part, 1);
}
