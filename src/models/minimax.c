/* SPDX-License-Identifier: Apache-2.0 */
/* MiniMax M1 (Text-01): lightning attention, which is linear attention with a constant decay for each head and layer, and
 * softmax attention by turns; experts. Each branch is summed with its normed input, both sides with factors. */
#include "models/family.h"

#include <math.h>

/* A decay of head h: 2^(-8 (h + 1) / heads), as ALiBi has it, times a factor that falls with the layer. */
struct slopes {
    uint32_t n_heads;
    double layer_factor;
};

static double slope(const void *context, uint32_t head) {
    const struct slopes *s = context;
    return exp2(-8.0 / s->n_heads * (head + 1)) * s->layer_factor;
}

static bool is_minimax_linear(struct builder *b, uint32_t layer) {
    const char *type = decoder_layer_type(b, layer);
    if (type) return !strcmp(type, "linear_attention");
    const struct json *list = config_get(b->config, "attn_type_list");
    return json_is_array(list) ? json_integer(json_at(list, layer), 1) == 0 : layer % 2 == 1;
}

static double factor(struct builder *b, const char *key, const char *released) {
    return config_real_or(b->config, key, config_real_or(b->config, released, 1));
}

static struct value minimax_linear(struct builder *b, struct value x, const struct decoder *d, uint32_t layer) {
    struct slopes slopes = {d->n_heads, 1 - layer / (d->n_layers - 1 + 1e-5) + 1e-5};
    struct linear_attention_spec linear = {.n_heads = d->n_heads,
                                           .head_dim = d->head_dim,
                                           .slope = slope,
                                           .context = &slopes,
                                           .qkv = "qkv_proj",
                                           .gate = "output_gate",
                                           .norm = "norm",
                                           .out = "out_proj",
                                           .qkv_by_head = true,
                                           .has_qkv_activation = true,
                                           .qkv_activation = d->activation,
                                           .scale = 1,
                                           .norm_eps = 1e-6f};
    return block_linear_attention(b, x, &linear, "self_attn");
}

static struct value minimax_experts(struct builder *b, struct value x, const struct decoder *d) {
    struct moe_spec moe = {.router_module = "block_sparse_moe.gate",
                           .intermediate_size = d->intermediate_size,
                           .activation = d->activation};
    moe.router = (struct router_params){.kind = ROUTER_SOFTMAX_TOP,
                                        .factor = 1,
                                        .n_experts = config_size_or(b->config, "num_local_experts", 8),
                                        .top_k = config_size_or(b->config, "num_experts_per_tok", 2)};
    moe_usual_sources(&moe, b, "block_sparse_moe");
    return block_moe(b, x, &moe);
}

/* MLX files of M2 bear the same type, and list their layers as full. */
static bool is_lightning(struct builder *b, const struct decoder *d) {
    struct config *c = b->config;
    bool has_list = config_has(c, "layer_types") || config_has(c, "attn_type_list");
    for (uint32_t i = 0; i < d->n_layers && has_list && !b->failed; i++)
        if (is_minimax_linear(b, i)) return true;
    return !has_list &&
           (config_has(c, "linear_attn_alpha_factor") || config_has(c, "layernorm_linear_attention_alpha"));
}

/* Both branches are summed with the normed input, each side with its factor. */
void build_minimax(struct builder *b) {
    struct decoder d = decoder_from_config(b);
    if (!is_lightning(b, &d)) {
        build_minimax_m2(b);
        return;
    }
    struct attention_spec attention = decoder_attention(b, &d, 10000000);
    attention.rope =
        b_rope_from_config(b, config_size_or(b->config, "rotary_dim", decoder_rotary_dim(b, d.head_dim, 1)), NULL, 1e7);
    double full[2] = {factor(b, "full_attn_alpha_factor", "layernorm_full_attention_alpha"),
                      factor(b, "full_attn_beta_factor", "layernorm_full_attention_beta")};
    double linear[2] = {factor(b, "linear_attn_alpha_factor", "layernorm_linear_attention_alpha"),
                        factor(b, "linear_attn_beta_factor", "layernorm_linear_attention_beta")};
    double mlp[2] = {factor(b, "mlp_alpha_factor", "layernorm_mlp_alpha"),
                     factor(b, "mlp_beta_factor", "layernorm_mlp_beta")};
    const struct weight *embedding = decoder_embedding(b, &d, "model.embed_tokens");
    struct value x = b_embed(b, embedding);
    for (uint32_t i = 0; i < d.n_layers && !b->failed; i++) {
        builder_layer(b, "model.layers.%u", i);
        bool is_linear = is_minimax_linear(b, i);
        const double *f = is_linear ? linear : full;
        struct value n = b_rms_norm(b, x, "input_layernorm.weight", d.norm_eps, false);
        struct value mixed = is_linear ? minimax_linear(b, n, &d, i) : block_attention(b, n, &attention, "self_attn");
        x = b_add(b, b_scale(b, n, f[0]), b_scale(b, mixed, f[1]));
        n = b_rms_norm(b, x, "post_attention_layernorm.weight", d.norm_eps, false);
        x = b_add(b, b_scale(b, n, mlp[0]), b_scale(b, minimax_experts(b, n, &d), mlp[1]));
        builder_layer_end(b, x);
    }
    decoder_head(b, x, &d, embedding, "model.norm.weight", false, "lm_head", false);
}
