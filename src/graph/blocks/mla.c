/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-head latent attention (DeepSeek-V2, 2024), absorbed: the cache holds a normalised latent and one rotated key for
 * all heads, and the matrices that would make keys and values of the latent are applied to the query and to the result.
 * So a key is [latent | rope], a value is the latent, and all query heads read one key head. */
#include "graph/blocks/blocks.h"

#include <math.h>

static struct matmul_part part_of(struct builder *b, const char *module, struct row_selection rows, uint32_t n_rows,
                                  uint32_t n_cols, bool has_bias) {
    struct matrix_source source = {.module = module, .rows = rows};
    const char *bias = block_name(b, module, "bias");
    struct matmul_part part = {.weight = b_matrix_from(b, ROLE_ATTENTION, &source, 1, n_rows, n_cols)};
    if (b_has(b, bias, has_bias)) part.bias = b_vector_rows(b, bias, rows, n_rows);
    return part;
}

static struct value latent_norm(struct builder *b, struct value x, const struct mla_spec *s, const char *module,
                                double factor) {
    struct norm_spec norm = {.eps = s->latent_norm_eps};
    return b_scale(b, block_norm(b, x, &norm, module), factor != 0 ? factor : 1);
}

/* The parts of every head's query: [all heads' unrotated dimensions | all heads' rotated ones]. */
static struct value queries(struct builder *b, struct value x, const struct mla_spec *s, const char *module,
                            bool has_bias) {
    uint32_t d = s->nope_dim + s->rope_dim, n = s->n_heads;
    struct row_selection nope = {n * d, 0, s->nope_dim, d}, rope = {n * d, s->nope_dim, s->rope_dim, d};
    struct matmul_part parts[2] = {part_of(b, module, nope, n * s->nope_dim, x.width, has_bias),
                                   part_of(b, module, rope, n * s->rope_dim, x.width, has_bias)};
    return b_matmul(b, x, parts, 2);
}

/* Rotates heads of rope_dim columns into columns of out, whose heads are out_stride columns apart. */
static void rotate(struct builder *b, struct value x, const struct mla_spec *s, struct head_params heads,
                   struct value out, uint32_t out_stride) {
    struct op op = {.kind = OP_ROPE, .in = {x, value_none()}, .out = out};
    if (b->failed) return;
    if (s->has_rope) op.in[1] = b_rope_table(b, s->rope);
    op.head.heads = heads;
    op.head.rope = (struct rope_params){.table = s->rope,
                                        .rotary_dim = s->has_rope ? s->rope_dim : 0,
                                        .is_interleaved = s->rope_interleaved,
                                        .in_stride = s->rope_dim,
                                        .out_stride = out_stride};
    b_op(b, op);
}

uint32_t block_heads_per_unit(uint32_t n_heads) {
    uint32_t n = n_heads < 16 ? n_heads : 16;
    while (n_heads % n) n--;
    return n;
}

struct value block_mla(struct builder *b, struct value x, const struct mla_spec *s, const char *module) {
    b_check_width(b, s->n_heads, (uint64_t)s->kv_rank + s->rope_dim, "heads");
    b_check_width(b, s->n_heads, (uint64_t)s->nope_dim + s->rope_dim, "heads");
    b_check_width(b, s->n_heads, (uint64_t)s->nope_dim + s->value_dim, "heads");
    uint32_t n = s->n_heads, latent = s->kv_rank, key_dim = latent + s->rope_dim, kv_step = s->nope_dim + s->value_dim;
    const char *q_name = block_name(b, module, s->q_rank ? "q_b_proj" : "q_proj");
    const char *kv_name = block_name(b, module, "kv_a_proj_with_mqa"), *kv_b = block_name(b, module, "kv_b_proj");
    if (b->failed) return value_none();
    struct row_selection all = {.tensor_rows = key_dim}, pe = {.tensor_rows = key_dim, .first_row = latent};
    struct matmul_part down[3] = {part_of(b, kv_name, all, latent, x.width, s->has_bias),
                                  part_of(b, kv_name, pe, s->rope_dim, x.width, s->has_bias)};
    if (s->q_rank)
        down[2] =
            part_of(b, block_name(b, module, "q_a_proj"), (struct row_selection){0}, s->q_rank, x.width, s->has_bias);
    struct value low = b_matmul(b, x, down, s->q_rank ? 3 : 2), q_input = x;
    if (s->q_rank)
        q_input = latent_norm(b, value_columns(low, key_dim, s->q_rank), s, block_name(b, module, "q_a_layernorm"),
                              s->q_latent_factor);
    struct value q = queries(b, q_input, s, q_name, false);
    if (s->position_scale.beta != 0)
        q = b_multiply(b, q, b_position(b, s->position_scale.beta, s->position_scale.length, s->position_scale.offset));
    struct value c_kv =
        latent_norm(b, value_columns(low, 0, latent), s, block_name(b, module, "kv_a_layernorm"), s->kv_latent_factor);

    /* [latent | rope] of each head's query: kv_b's key rows take the unrotated part to the latent's space. */
    struct value q_nope = value_columns(q, 0, n * s->nope_dim), q_pe = value_columns(q, q_nope.width, n * s->rope_dim);
    struct value q_all = b_value(b, n * key_dim), k_all = b_value(b, key_dim);
    bool is_split = b_has(b, block_name(b, module, "embed_q.weight"), false);
    const char *embed = block_name(b, module, "embed_q"), *unembed = block_name(b, module, "unembed_out");
    struct row_selection key_rows = {n * kv_step, 0, s->nope_dim, kv_step};
    struct row_selection value_rows = {n * kv_step, s->nope_dim, s->value_dim, kv_step};
    const struct weight *up_keys =
        is_split ? b_heads(b, (struct matrix_source){.module = embed}, n, latent, s->nope_dim)
                 : b_heads(b, (struct matrix_source){.module = kv_b, .rows = key_rows}, n, s->nope_dim, latent);
    struct matrix_source value_source = {.module = kv_b, .rows = value_rows};
    if (is_split) value_source = (struct matrix_source){.module = unembed};
    const struct weight *up_values = b_heads(b, value_source, n, s->value_dim, latent);
    b_multiply_heads(b, q_nope, up_keys, !is_split, q_all, key_dim);

    b_copy(b, c_kv, value_columns(k_all, 0, latent));
    rotate(b, value_columns(low, latent, s->rope_dim), s, (struct head_params){1, 1, s->rope_dim},
           value_columns(k_all, latent, s->rope_dim), 0);
    uint32_t cache = b_cache(b, s->policy, s->window, 1, key_dim, latent);
    b_cache_write(b, cache, k_all, value_columns(k_all, 0, latent), (struct head_params){1, 1, key_dim});

    struct attend_params attend = {.cache = cache, .key_dim = key_dim, .value_dim = latent};
    struct value chosen = value_none();
    if (s->index) chosen = block_index(b, x, q_input, s->index, block_name(b, module, "indexer"), &attend);
    uint32_t group = block_heads_per_unit(n);
    struct head_params rope_heads = {n / group, group, s->rope_dim}, query_heads = {n / group, group, key_dim};
    rotate(b, q_pe, s, rope_heads, value_columns(q_all, latent, q_all.width - latent), key_dim);
    attend.scale = (float)(s->scale != 0 ? s->scale : 1 / sqrt((double)(s->nope_dim + s->rope_dim)));
    struct value o_latent =
        s->index ? b_attend_chosen(b, q_all, chosen, query_heads, attend) : b_attend(b, q_all, query_heads, attend);
    struct value o = b_value(b, n * s->value_dim);
    b_multiply_heads(b, o_latent, up_values, false, o, 0);
    struct matmul_part o_part =
        part_of(b, block_name(b, module, "o_proj"), (struct row_selection){0}, x.width, o.width, s->has_bias);
    return b_matmul(b, o, &o_part, 1);
}
