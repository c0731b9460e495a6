/* SPDX-License-Identifier: Apache-2.0 */
/* LFM 2, dense and MoE: most layers mix by a gated short convolution, some by attention with q/k norms. */
#include "models/family.h"

#include <math.h>

static bool is_attention_layer(struct builder *b, uint32_t layer) {
    const char *type = decoder_layer_type(b, layer);
    if (type) return !strcmp(type, "full_attention");
    const struct json *full = config_get(b->config, "full_attn_idxs");
    if (!json_is_array(full)) return true;
    for (uint32_t i = 0; i < full->count; i++)
        if (json_integer(&full->items[i], -1) == (int64_t)layer) return true;
    return false;
}

/* Two thirds of the configured width, rounded up, unless the config says not to adjust. */
static uint32_t feed_forward_width(struct builder *b) {
    struct config *c = b->config;
    uint32_t width = config_size_or(c, "block_ff_dim", config_size_or(c, "intermediate_size", 12288));
    if (!config_bool_or(c, "block_auto_adjust_ff_dim", true)) return width;
    uint32_t multiple = config_size_or(c, "block_multiple_of", 256);
    width = (uint32_t)(config_real_or(c, "block_ffn_dim_multiplier", 1) * (uint32_t)(2 * (uint64_t)width / 3));
    return (width + multiple - 1) / multiple * multiple;
}

static struct value experts(struct builder *b, struct value x, const struct decoder *d) {
    struct config *c = b->config;
    struct moe_spec moe = {.router_module = "feed_forward.gate",
                           .intermediate_size = config_size(c, "moe_intermediate_size"),
                           .activation = d->activation};
    moe.router = (struct router_params){.kind = ROUTER_SIGMOID,
                                        .n_experts = config_size(c, "num_experts"),
                                        .top_k = config_size(c, "num_experts_per_tok"),
                                        .normalize = config_bool_or(c, "norm_topk_prob", true),
                                        .normalize_epsilon = 1e-6f,
                                        .factor = (float)config_real_or(c, "routed_scaling_factor", 1)};
    if (config_bool_or(c, "use_expert_bias", true))
        moe.router.bias = b_vector(b, "feed_forward.expert_bias", moe.router.n_experts);
    moe_usual_sources(&moe, b, "feed_forward");
    return block_moe(b, x, &moe);
}

static void build(struct builder *b, const struct decoder *d, uint32_t n_dense_layers) {
    struct attention_spec attention = decoder_attention(b, d, 1000000);
    attention.qk_norm = QK_NORM_HEAD;
    struct short_conv_spec conv = {config_size_or(b->config, "conv_L_cache", 3),
                                   config_bool_or(b->config, "conv_bias", false)};
    struct mlp_spec mlp = {d->intermediate_size, d->activation, false};
    const struct weight *embedding = decoder_embedding(b, d, "model.embed_tokens");
    struct value x = b_embed(b, embedding);
    for (uint32_t i = 0; i < d->n_layers && !b->failed; i++) {
        builder_layer(b, "model.layers.%u", i);
        struct value n = b_rms_norm(b, x, "operator_norm.weight", d->norm_eps, false);
        x = b_add(b, x,
                  is_attention_layer(b, i) ? block_attention(b, n, &attention, "self_attn")
                                           : block_short_conv(b, n, &conv, "conv"));
        n = b_rms_norm(b, x, "ffn_norm.weight", d->norm_eps, false);
        x = b_add(b, x, i < n_dense_layers ? block_gated_mlp(b, n, &mlp, "feed_forward") : experts(b, n, d));
        builder_layer_end(b, x);
    }
    decoder_head(b, x, d, embedding, "model.embedding_norm.weight", false, "lm_head", true);
}

void build_lfm2_moe(struct builder *b) {
    struct decoder d = decoder_from_config(b);
    build(b, &d, (uint32_t)config_integer_or(b->config, "num_dense_layers", 2, 0, 4096));
}

/* Also the text part of the vision models, whose type does not tell whether it has experts. */
void build_lfm2(struct builder *b) {
    if (config_has(b->config, "num_experts")) {
        build_lfm2_moe(b);
        return;
    }
    struct decoder d = decoder_from_config(b);
    d.intermediate_size = feed_forward_width(b);
    build(b, &d, d.n_layers);
}
