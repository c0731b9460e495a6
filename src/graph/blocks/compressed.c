/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over a window and over compressed runs of tokens (DeepSeek-V4, 2026): one vector serves as key and value of
 * all heads; each full run of tokens becomes one more such vector, a softmax-weighted mean by channel, which later queries
 * see beside the window, all of them or those that an index chooses. Results are rotated back, and leave through
 * projections of groups of heads. */
#include "graph/blocks/blocks.h"

#include <math.h>

static struct matmul_part part_of(struct builder *b, const char *module, uint32_t n_rows, uint32_t n_cols) {
    return (struct matmul_part){.weight = b_matrix(b, ROLE_ATTENTION, module, n_rows, n_cols)};
}

static struct value head_norm(struct builder *b, struct value x, struct head_params heads, float eps) {
    return b_head_norm(b, x, heads, (struct norm_params){.kind = NORM_RMS, .eps = eps});
}

/* The mean of each run, normalised and rotated by the run's first position; it stands in the row of its last token. */
static struct value compress(struct builder *b, struct value x, const struct compressed_spec *s, uint32_t width,
                             const char *module) {
    uint32_t all = s->is_overlapped ? 2 * width : width;
    struct matmul_part parts[2] = {part_of(b, block_name(b, module, "wkv"), all, x.width),
                                   part_of(b, block_name(b, module, "wgate"), all, x.width)};
    parts[1].is_exact = true;
    struct value both = b_matmul(b, x, parts, 2);
    struct compress_params params = {.run = s->run, .width = width, .is_overlapped = s->is_overlapped};
    params.biases = b_vector(b, block_name(b, module, "ape"), s->run * all);
    struct value mean = b_compress(b, value_columns(both, 0, all), value_columns(both, all, all), params);
    mean = block_norm(b, mean, &(struct norm_spec){.eps = s->norm_eps}, block_name(b, module, "norm"));
    return b_rope_last(b, mean, (struct head_params){1, 1, width}, b_rope_stepped(b, s->rope, s->run), true);
}

/* The choice among the runs so far, by keys and queries of its own. */
static struct value choose_runs(struct builder *b, struct value x, struct value latent, const struct compressed_spec *s,
                                const char *module, struct attend_params *attend) {
    uint32_t n = s->index_heads, d = s->index_dim;
    struct value k = compress(b, x, s, d, block_name(b, module, "compressor"));
    struct matmul_part q_part = part_of(b, block_name(b, module, "wq_b"), n * d, latent.width);
    struct matmul_part w_part = part_of(b, block_name(b, module, "weights_proj"), n, x.width);
    q_part.is_exact = w_part.is_exact = true;
    struct value q = b_rope_last(b, b_matmul(b, latent, &q_part, 1), (struct head_params){1, n, d}, s->rope, true);
    struct value weights = b_scale(b, b_matmul(b, x, &w_part, 1), 1 / sqrt((double)n * d));
    struct index_params index = {
        .key_dim = d, .n_choices = 1, .heads_per_choice = n, .top_k = s->top_k, .block = s->run, .at_end = true};
    index.cache = b_cache(b, CACHE_FULL, 0, 1, d, 0);
    b_cache_write(b, index.cache, k, value_columns(k, 0, 0), (struct head_params){1, 1, d});
    attend->n_choices = 1;
    attend->top_k = s->top_k;
    attend->block = s->run;
    return b_index(b, q, weights, index);
}

/* Each group of heads through rows of its own, then all together. */
static struct value project_groups(struct builder *b, struct value x, const struct compressed_spec *s, uint32_t width,
                                   const char *module) {
    uint32_t per_group = x.width / s->n_groups;
    struct row_selection rows = {s->n_groups * s->group_rank, 0, s->group_rank, s->group_rank};
    struct matrix_source source = {.module = block_name(b, module, "wo_a"), .rows = rows};
    const struct weight *groups = b_heads(b, source, s->n_groups, s->group_rank, per_group);
    struct value low = b_value(b, s->n_groups * s->group_rank);
    b_multiply_heads(b, x, groups, false, low, 0);
    return b_linear(b, low, b_matrix(b, ROLE_ATTENTION, block_name(b, module, "wo_b"), width, low.width), NULL);
}

struct value block_compressed_attention(struct builder *b, struct value x, const struct compressed_spec *s,
                                        const char *module) {
    uint32_t n = s->n_heads, d = s->head_dim, group = block_heads_per_unit(n);
    struct head_params queries = {n / group, group, d}, keys = {1, 1, d};
    struct norm_spec norm = {.eps = s->norm_eps};
    if (!b->failed && (!s->n_groups || (uint64_t)n * d % s->n_groups))
        builder_fail(b, ERROR_FORMAT, "%s: %u heads in %u groups", b->config->path, n, s->n_groups);
    b_check_width(b, n, (uint64_t)2 * d, "heads");
    b_check_width(b, s->index_heads, s->index_dim, "index heads");
    b_check_width(b, s->n_groups, s->group_rank, "groups");
    b_check_width(b, s->run, (uint64_t)2 * (d > s->index_dim ? d : s->index_dim), "tokens");
    b_check_width(b, 1, (uint64_t)s->top_k + 1, "choice");
    if (b->failed) return value_none();
    struct matmul_part down[2] = {part_of(b, block_name(b, module, "wq_a"), s->q_rank, x.width),
                                  part_of(b, block_name(b, module, "wkv"), d, x.width)};
    struct value low = b_matmul(b, x, down, 2);
    struct value latent = block_norm(b, value_columns(low, 0, s->q_rank), &norm, block_name(b, module, "q_norm"));
    const char *kv_norm = block_name(b, module, "kv_norm"), *kv_norm_weight = block_name(b, kv_norm, "weight");
    if (!b_has(b, kv_norm_weight, false)) kv_norm = block_name(b, module, "norm");
    struct value kv = block_norm(b, value_columns(low, s->q_rank, d), &norm, kv_norm);
    kv = b_rope_last(b, kv, keys, s->rope, true);
    struct attend_params attend = {.key_dim = d, .value_dim = d, .scale = (float)(1 / sqrt((double)d))};
    attend.cache = b_cache(b, CACHE_WINDOW, s->window, 1, d, d);
    b_cache_write(b, attend.cache, kv, kv, keys);
    attend.sinks = b_vector(b, block_name(b, module, "attn_sink"), n);
    struct value chosen = value_none();
    if (s->run) {
        struct value mean = compress(b, x, s, d, block_name(b, module, "compressor"));
        attend.run = s->run;
        attend.more_cache = b_cache(b, CACHE_FULL, 0, 1, d, d);
        b_cache_write(b, attend.more_cache, mean, mean, keys);
        if (s->index_heads) chosen = choose_runs(b, x, latent, s, block_name(b, module, "indexer"), &attend);
    }
    struct matmul_part up = part_of(b, block_name(b, module, "wq_b"), n * d, s->q_rank);
    struct value q = head_norm(b, b_matmul(b, latent, &up, 1), queries, s->norm_eps);
    q = b_rope_last(b, q, queries, s->rope, true);
    struct value out = b_attend_chosen(b, q, chosen, queries, attend);
    out = b_rope_last(b, out, queries, b_rope_negated(b, s->rope), true);
    return project_groups(b, out, s, x.width, module);
}
