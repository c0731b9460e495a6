/* SPDX-License-Identifier: Apache-2.0 */
/* Jamba: Mamba-1 with norms on time step, B and C in most layers, attention without rope in the others; experts in place
 * of the MLP on every second layer or so. */
#include "models/family.h"

static struct value feed_forward(struct builder *b, struct value x, const struct decoder *d, bool has_experts) {
    struct config *c = b->config;
    struct mlp_spec mlp = {d->intermediate_size, d->activation, false};
    if (!has_experts) return block_gated_mlp(b, x, &mlp, "feed_forward");
    struct moe_spec moe = {
        .router_module = "feed_forward.router", .intermediate_size = d->intermediate_size, .activation = d->activation};
    moe.router = (struct router_params){.kind = ROUTER_SOFTMAX_ALL,
                                        .factor = 1,
                                        .n_experts = config_size(c, "num_experts"),
                                        .top_k = config_size_or(c, "num_experts_per_tok", 2)};
    moe_usual_sources(&moe, b, "feed_forward");
    return block_moe(b, x, &moe);
}

/* Whether the layer is one of those at `offset`, repeated every `period`. */
static bool is_layer_of(struct builder *b, uint32_t layer, const char *period_key, uint32_t period,
                        const char *offset_key, uint32_t offset) {
    period = config_size_or(b->config, period_key, period);
    offset = (uint32_t)config_integer_or(b->config, offset_key, offset, 0, 4096);
    return layer % period == offset;
}

void build_jamba(struct builder *b) {
    struct config *c = b->config;
    struct decoder d = decoder_from_config(b);
    mamba_require_silu(b);
    struct mamba1_spec mamba = {
        .inner_size = config_size_or(c, "mamba_expand", 2) * d.hidden_size,
        .state_dim = config_size_or(c, "mamba_d_state", 16),
        .dt_rank = time_step_rank(b, "mamba_dt_rank", d.hidden_size),
        .conv_taps = config_size_or(c, "mamba_d_conv", 4),
        .norms = MAMBA_NORMS_WEIGHTED,
        .norm_eps = d.norm_eps,
        .has_conv_bias = config_bool_or(c, "mamba_conv_bias", true),
        .has_proj_bias = config_bool_or(c, "mamba_proj_bias", false),
    };
    struct attention_spec attention = decoder_attention(b, &d, 10000);
    attention.has_rope = false;
    bool has_experts = config_integer_or(c, "num_experts", 16, 0, 65536) > 1;
    const struct weight *embedding = decoder_embedding(b, &d, "model.embed_tokens");
    struct value x = b_embed(b, embedding);
    for (uint32_t i = 0; i < d.n_layers && !b->failed; i++) {
        bool attends = is_layer_of(b, i, "attn_layer_period", 8, "attn_layer_offset", 4);
        bool routes = has_experts && is_layer_of(b, i, "expert_layer_period", 2, "expert_layer_offset", 1);
        builder_layer(b, "model.layers.%u", i);
        struct value n = b_rms_norm(b, x, "input_layernorm.weight", d.norm_eps, false);
        n = attends ? block_attention(b, n, &attention, "self_attn") : block_mamba1(b, n, &mamba, "mamba");
        x = b_add(b, x, n);
        n = b_rms_norm(b, x, "pre_ff_layernorm.weight", d.norm_eps, false);
        x = b_add(b, x, feed_forward(b, n, &d, routes));
        builder_layer_end(b, x);
    }
    decoder_head(b, x, &d, embedding, "model.final_layernorm.weight", false, "lm_head", true);
}
