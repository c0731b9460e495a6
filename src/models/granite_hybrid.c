/* SPDX-License-Identifier: Apache-2.0 */
/* Granite 4 H and Bamba: Mamba-2 in most layers, attention in some, and a feed-forward part in each: Granite's experts
 * with a shared MLP beside them, Bamba's gated MLP. Granite scales embedding, branches and logits. */
#include "models/family.h"

static bool is_mamba_layer(struct builder *b, uint32_t layer) {
    const char *type = decoder_layer_type(b, layer);
    if (type) return !strcmp(type, "mamba") || !strcmp(type, "linear_attention");
    const struct json *full = config_get(b->config, "attn_layer_indices");
    for (uint32_t i = 0; json_is_array(full) && i < full->count; i++)
        if (json_integer(&full->items[i], -1) == (int64_t)layer) return false;
    return true;
}

static struct value granite_feed_forward(struct builder *b, struct value x, const struct decoder *d) {
    struct config *c = b->config;
    struct mlp_spec shared = {config_size_or(c, "shared_intermediate_size", d->intermediate_size), d->activation,
                              config_bool_or(c, "mlp_bias", false)};
    struct value out = block_gated_mlp(b, x, &shared, "shared_mlp|mlp");
    uint32_t n_experts = (uint32_t)config_integer_or(c, "num_local_experts", 0, 0, 65536);
    uint32_t top_k = (uint32_t)config_integer_or(c, "num_experts_per_tok", 0, 0, 65536);
    if (!n_experts) return out;
    struct moe_spec moe = {.router_module = "block_sparse_moe.router.layer",
                           .intermediate_size = d->intermediate_size,
                           .activation = d->activation};
    moe.router =
        (struct router_params){.kind = ROUTER_SOFTMAX_TOP, .factor = 1, .n_experts = n_experts, .top_k = top_k};
    moe_usual_sources(&moe, b, "block_sparse_moe");
    return b_add(b, block_moe(b, x, &moe), out);
}

void build_granite_hybrid(struct builder *b) {
    struct config *c = b->config;
    struct decoder d = decoder_from_config(b);
    bool has_mamba = false;
    for (uint32_t i = 0; i < d.n_layers && !b->failed && !has_mamba; i++) has_mamba = is_mamba_layer(b, i);
    struct mamba2_spec mamba = {0};
    if (has_mamba) mamba = hybrid_mamba2(b, &d);
    struct attention_spec attention = decoder_attention(b, &d, 10000);
    attention.has_rope = !strcmp(config_string_or(c, "position_embedding_type", "rope"), "rope");
    attention.scale = config_real_or(c, "attention_multiplier", 1);
    double branch = config_real_or(c, "residual_multiplier", 1);
    const struct weight *embedding = decoder_embedding(b, &d, "model.embed_tokens");
    struct value x = b_scale(b, b_embed(b, embedding), config_real_or(c, "embedding_multiplier", 1));
    for (uint32_t i = 0; i < d.n_layers && !b->failed; i++) {
        builder_layer(b, "model.layers.%u", i);
        struct value n = b_rms_norm(b, x, "input_layernorm.weight", d.norm_eps, false);
        n = is_mamba_layer(b, i) ? block_mamba2(b, n, &mamba, "mamba") : block_attention(b, n, &attention, "self_attn");
        x = b_add(b, x, b_scale(b, n, branch));
        n = b_rms_norm(b, x, "post_attention_layernorm.weight", d.norm_eps, false);
        x = b_add(b, x, b_scale(b, granite_feed_forward(b, n, &d), branch));
        builder_layer_end(b, x);
    }
    x = decoder_final_norm(b, x, &d, "model.norm.weight", false);
    x = decoder_logits(b, x, &d, embedding, "lm_head", true);
    b->graph->logits = b_scale(b, x, 1 / config_real_or(c, "logits_scaling", 1));
}

void build_bamba(struct builder *b) {
    struct decoder d = decoder_from_config(b);
    struct mamba2_spec mamba = hybrid_mamba2(b, &d);
    struct attention_spec attention = decoder_attention(b, &d, 10000);
    attention.rope = b_rope_from_config(b, decoder_rotary_dim(b, d.head_dim, 0.5), NULL, 10000);
    struct mlp_spec mlp = {d.intermediate_size, d.activation, config_bool_or(b->config, "mlp_bias", false)};
    const struct weight *embedding = decoder_embedding(b, &d, "model.embed_tokens");
    struct value x = b_embed(b, embedding);
    for (uint32_t i = 0; i < d.n_layers && !b->failed; i++) {
        builder_layer(b, "model.layers.%u", i);
        struct value n = b_rms_norm(b, x, "input_layernorm.weight", d.norm_eps, false);
        n = is_mamba_layer(b, i) ? block_mamba2(b, n, &mamba, "mamba") : block_attention(b, n, &attention, "self_attn");
        x = b_add(b, x, n);
        n = b_rms_norm(b, x, "pre_ff_layernorm.weight", d.norm_eps, false);
        x = b_add(b, x, block_gated_mlp(b, n, &mlp, "feed_forward"));
        builder_layer_end(b, x);
    }
    decoder_head(b, x, &d, embedding, "model.final_layernorm.weight", false, "lm_head", false);
}
