/* SPDX-License-Identifier: Apache-2.0 */
/* Qwen3-Next and Qwen 3.5 (text), dense and MoE: three gated delta nets, then one gated attention with a quarter of the
 * head rotated. Norm weights are stored as w - 1 in released files, as w in MLX files, which the layout of the
 * convolution tells apart; the norm of the delta net is plain in both. */
#include "models/family.h"

#include "models/common.h"

/* Released files have [channels, 1, taps], MLX files [channels, taps, 1]. */
static bool stores_minus_one(struct builder *b, uint32_t n_layers) {
    for (uint32_t i = 0; i < n_layers && !b->failed; i++) {
        builder_layer(b, "model.layers.%u", i);
        const struct tensor *conv = weights_find(&b->graph->weights, b->scope, "linear_attn.conv1d.weight");
        builder_top(b);
        if (conv) return conv->n_dims == 3 && conv->shape[2] != 1;
    }
    return false;
}

static bool is_full_layer(struct builder *b, uint32_t layer) {
    const char *type = decoder_layer_type(b, layer);
    uint32_t interval = config_size_or(b->config, "full_attention_interval", 4);
    return type ? !strcmp(type, "full_attention") : (layer + 1) % interval == 0;
}

static struct value feed_forward(struct builder *b, struct value x, const struct decoder *d, bool has_experts) {
    struct mlp_spec mlp = {d->intermediate_size, d->activation, false};
    if (!has_experts) return block_gated_mlp(b, x, &mlp, "mlp");
    struct moe_spec moe = qwen_experts(b, d, true);
    mlp.intermediate_size = config_size(b->config, "shared_expert_intermediate_size");
    struct value shared = block_shared_expert(b, x, &mlp, "mlp.shared_expert", "mlp.shared_expert_gate");
    return b_add(b, block_moe(b, x, &moe), shared);
}

static void build(struct builder *b, bool may_have_experts) {
    struct config *c = b->config;
    struct decoder d = decoder_from_config(b);
    bool plus_one = stores_minus_one(b, d.n_layers);
    mamba_require_silu(b);
    struct delta_spec delta = {
        .n_key_heads = config_size_or(c, "linear_num_key_heads", 16),
        .n_value_heads = config_size_or(c, "linear_num_value_heads", 32),
        .key_dim = config_size_or(c, "linear_key_head_dim", 128),
        .value_dim = config_size_or(c, "linear_value_head_dim", 128),
        .conv_taps = config_size_or(c, "linear_conv_kernel_dim", 4),
        .norm_eps = d.norm_eps,
    };
    struct attention_spec attention = decoder_attention(b, &d, 10000);
    attention.rope = b_rope_from_config(b, decoder_rotary_dim(b, d.head_dim, 0.25), NULL, 10000);
    attention.qk_norm = QK_NORM_HEAD;
    attention.qk_norm_plus_one = plus_one;
    attention.has_output_gate = config_bool_or(c, "attn_output_gate", true);
    const struct weight *embedding = decoder_embedding(b, &d, "model.embed_tokens");
    struct value x = b_embed(b, embedding);
    for (uint32_t i = 0; i < d.n_layers && !b->failed; i++) {
        builder_layer(b, "model.layers.%u", i);
        struct value n = b_rms_norm(b, x, "input_layernorm.weight", d.norm_eps, plus_one);
        n = is_full_layer(b, i) ? block_attention(b, n, &attention, "self_attn")
                                : block_delta_net(b, n, &delta, "linear_attn");
        x = b_add(b, x, n);
        n = b_rms_norm(b, x, "post_attention_layernorm.weight", d.norm_eps, plus_one);
        x = b_add(b, x, feed_forward(b, n, &d, may_have_experts && qwen_layer_is_sparse(b, i)));
        builder_layer_end(b, x);
    }
    decoder_head(b, x, &d, embedding, "model.norm.weight", plus_one, "lm_head", false);
}

void build_qwen3_next(struct builder *b) { build(b, true); }

void build_qwen3_5(struct builder *b) { build(b, config_has(b->config, "num_experts")); }
