/* SPDX-License-Identifier: Apache-2.0 */
/* RWKV-7 (Peng et al. 2025): each projection reads its own mixture of a token and the one before; the state's transition
 * is a diagonal plus a rank-one matrix; values of later layers mix with those of the first. */
#include "models/family.h"

#include <math.h>

struct rwkv {
    struct decoder d;
    uint32_t n_heads, decay_rank, a_rank, v_rank, gate_rank;
    struct norm_spec norm;
    struct value first_values;
};

/* x + (previous - x) * mu */
static struct value mixed(struct builder *b, struct value x, struct value difference, const char *name) {
    return b_add(b, x, b_weigh(b, difference, b_vector(b, name, x.width)));
}

static struct value difference(struct builder *b, struct value x) {
    return b_add(b, block_previous(b, x), b_scale(b, x, -1));
}

/* Two thin matrices with a function between; precise where the result steers the state. */
static struct value low_rank(struct builder *b, struct value x, const char *module, uint32_t rank, bool has_function,
                             enum unary f, bool has_bias) {
    const char *first = block_name(b, module, "lora.0"), *second = block_name(b, module, "lora.2");
    struct matmul_part in = {.weight = b_matrix(b, ROLE_RECURRENT, first, rank, x.width), .is_exact = true};
    struct matmul_part out = {.weight = b_matrix(b, ROLE_RECURRENT, second, x.width, rank), .is_exact = true};
    if (has_bias) out.bias = b_vector(b, block_name(b, second, "bias"), x.width);
    struct value inner = b_matmul(b, x, &in, 1);
    if (has_function) inner = b_unary(b, f, inner);
    return b_matmul(b, inner, &out, 1);
}

static struct value project(struct builder *b, struct value x, const char *module) {
    return b_linear(b, x, b_matrix(b, ROLE_RECURRENT, module, x.width, x.width), NULL);
}

static struct value values_of(struct builder *b, struct value xv, struct rwkv *m, uint32_t layer) {
    struct value v = project(b, xv, "attn.v_proj");
    if (layer == 0) return m->first_values = v;
    struct value share = b_unary(b, UNARY_SIGMOID, low_rank(b, xv, "attn.v_lora", m->v_rank, false, 0, true));
    return b_add(b, v, b_multiply(b, b_add(b, m->first_values, b_scale(b, v, -1)), share));
}

static struct value time_mix(struct builder *b, struct value x, struct rwkv *m, uint32_t layer) {
    uint32_t n = m->n_heads, width = x.width, dim = width / n;
    struct head_params heads = {n, 1, dim, false};
    struct value d = difference(b, x), xa = mixed(b, x, d, "attn.x_a");
    struct value r = project(b, mixed(b, x, d, "attn.x_r"), "attn.r_proj");
    struct value k = project(b, mixed(b, x, d, "attn.x_k"), "attn.k_proj");
    struct value v = values_of(b, mixed(b, x, d, "attn.x_v"), m, layer);
    struct value rate = b_unary(b, UNARY_SIGMOID, low_rank(b, xa, "attn.a_lora", m->a_rank, false, 0, true));
    struct value gate =
        low_rank(b, mixed(b, x, d, "attn.x_g"), "attn.g_lora", m->gate_rank, true, UNARY_SIGMOID, false);
    struct value w = low_rank(b, mixed(b, x, d, "attn.x_w"), "attn.w_lora", m->decay_rank, true, UNARY_TANH, true);
    w = b_unary(b, UNARY_EXP, b_scale(b, b_unary(b, UNARY_SIGMOID, w), -0.606531));
    struct value kk = block_l2_norm(b, b_weigh(b, k, b_vector(b, "attn.k_k", width)), heads, 1, 1e-14);
    struct value less = b_add(b, b_multiply(b, k, rate), b_scale(b, k, -1));
    k = b_add(b, k, b_weigh(b, less, b_vector(b, "attn.k_a", width)));
    struct value y = block_dplr(b, n, dim, dim, r, w, b_scale(b, kk, -1), b_multiply(b, kk, rate), k, v);
    y = b_norm(b, y,
               (struct norm_params){.kind = NORM_LAYER,
                                    .weight = b_vector(b, "attn.g_norm.weight", width),
                                    .bias = b_vector(b, "attn.g_norm.bias", width),
                                    .eps = 64e-5f,
                                    .group = dim,
                                    .per_group = true});
    struct value bonus = b_block_dot(b, b_weigh(b, r, b_vector(b, "attn.r_k", width)), k, n);
    y = b_multiply(b, b_add(b, y, b_multiply(b, v, bonus)), gate);
    return project(b, y, "attn.o_proj");
}

static struct value channel_mix(struct builder *b, struct value x, struct rwkv *m) {
    struct value inner = mixed(b, x, difference(b, x), "ffn.x_k");
    inner = b_linear(b, inner, b_matrix(b, ROLE_MLP, "ffn.key", m->d.intermediate_size, x.width), NULL);
    inner = b_unary(b, UNARY_RELU2, inner);
    return b_linear(b, inner, b_matrix(b, ROLE_MLP, "ffn.value", x.width, m->d.intermediate_size), NULL);
}

void build_rwkv7(struct builder *b) {
    struct config *c = b->config;
    struct rwkv m = {.d = decoder_from_config(b), .norm = {.kind = NORM_LAYER, .has_bias = true}};
    uint32_t dim = config_size_or(c, "head_dim", 64);
    m.n_heads = m.d.hidden_size / dim;
    if (!m.n_heads || m.d.hidden_size % dim)
        builder_fail(b, ERROR_FORMAT, "%s: heads of %u over a hidden size of %u", c->path, dim, m.d.hidden_size);
    m.norm.eps = (float)config_real_or(c, "norm_eps", 1e-5);
    m.decay_rank = config_size_or(c, "decay_low_rank_dim", 64);
    m.a_rank = config_size_or(c, "a_low_rank_dim", 64);
    m.v_rank = config_size_or(c, "v_low_rank_dim", 32);
    m.gate_rank = config_size_or(c, "gate_low_rank_dim", 128);
    const struct weight *embedding = decoder_embedding(b, &m.d, "model.embeddings");
    struct value x = b_embed(b, embedding);
    for (uint32_t i = 0; i < m.d.n_layers && !b->failed; i++) {
        builder_layer(b, "model.layers.%u", i);
        if (i == 0) x = block_norm(b, x, &m.norm, "pre_norm");
        x = b_add(b, x, time_mix(b, block_norm(b, x, &m.norm, "attn_norm"), &m, i));
        x = b_add(b, x, channel_mix(b, block_norm(b, x, &m.norm, "ffn_norm"), &m));
        builder_layer_end(b, x);
    }
    builder_top(b);
    x = block_norm(b, b_select_outputs(b, x), &m.norm, "model.norm");
    b->graph->hidden = x;
    decoder_logits(b, x, &m.d, embedding, "lm_head", false);
}
