/* SPDX-License-Identifier: Apache-2.0 */
/* The index of sparse attention: small queries and keys of their own decide which cells the attention reads. */
#include "graph/blocks/blocks.h"

#include <math.h>

static struct value project(struct builder *b, struct value x, const char *module, uint32_t n_rows) {
    struct matmul_part part = {.weight = b_matrix(b, ROLE_ATTENTION, module, n_rows, x.width), .is_exact = true};
    return b_matmul(b, x, &part, 1);
}

static float plus_one(float x) { return 1.0f + x; }

static struct value normalize_heads(struct builder *b, struct value x, const struct index_spec *s, const char *module,
                                    struct head_params heads) {
    struct norm_params norm = {.kind = s->has_weights ? NORM_LAYER : NORM_RMS, .eps = s->norm_eps};
    norm.weight = b_vector(b, block_name(b, module, "weight"), s->head_dim);
    if (s->norm_plus_one) b_transform(b, norm.weight, plus_one);
    if (s->has_weights) norm.bias = b_vector(b, block_name(b, module, "bias"), s->head_dim);
    return b_head_norm(b, x, heads, norm);
}

struct value block_index(struct builder *b, struct value x, struct value q_input, const struct index_spec *s,
                         const char *module, struct attend_params *attend) {
    uint32_t n = s->n_heads, d = s->head_dim;
    struct head_params queries = {1, n, d}, keys = {1, 1, d};
    b_check_width(b, n, (uint64_t)d + s->top_k + 1, "index heads");
    if (b->failed) return value_none();
    struct value k = project(b, x, block_name(b, module, s->has_weights ? "wk" : "k_proj"), d);
    k = normalize_heads(b, k, s, block_name(b, module, "k_norm"), keys);
    struct value q = project(b, q_input, block_name(b, module, s->has_weights ? "wq_b" : "q_proj"), n * d);
    if (!s->has_weights) q = normalize_heads(b, q, s, block_name(b, module, "q_norm"), queries);
    struct value weights = value_none();
    if (s->has_weights)
        weights = b_scale(b, project(b, x, block_name(b, module, "weights_proj"), n), 1 / sqrt((double)n * d));
    q = b_rope(b, q, queries, s->rope, s->rope_interleaved);
    k = b_rope(b, k, keys, s->rope, s->rope_interleaved);
    struct index_params index = {.key_dim = d,
                                 .n_choices = s->has_weights ? 1 : n,
                                 .heads_per_choice = s->has_weights ? n : 1,
                                 .top_k = s->top_k,
                                 .block = s->block,
                                 .n_local = s->n_local};
    index.cache = b_cache(b, CACHE_FULL, 0, 1, d, 0);
    b_cache_write(b, index.cache, k, value_columns(k, 0, 0), keys);
    attend->n_choices = index.n_choices;
    attend->top_k = index.top_k;
    attend->block = index.block;
    return b_index(b, q, weights, index);
}
