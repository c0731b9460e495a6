/* SPDX-License-Identifier: Apache-2.0 */
/* OLMo Hybrid: gated delta nets whose transitions may have negative eigenvalues, with norms before the branches; attention
 * with q/k norms over all heads, with norms after them. */
#include "models/family.h"

static bool is_linear(struct builder *b, uint32_t layer) {
    const char *type = decoder_layer_type(b, layer);
    return type ? !strcmp(type, "linear_attention") : (layer + 1) % 4 != 0;
}

static struct value linear_layer(struct builder *b, struct value x, const struct decoder *d,
                                 const struct delta_spec *delta, const struct mlp_spec *mlp) {
    struct value n = b_rms_norm(b, x, "attention_layer_norm.weight|input_layernorm.weight", d->norm_eps, false);
    x = b_add(b, x, block_delta_net(b, n, delta, "linear_attn"));
    n = b_rms_norm(b, x, "feedforward_layer_norm.weight|post_attention_layernorm.weight", d->norm_eps, false);
    return b_add(b, x, block_gated_mlp(b, n, mlp, "mlp"));
}

static struct value full_layer(struct builder *b, struct value x, const struct decoder *d,
                               const struct attention_spec *attention, const struct mlp_spec *mlp) {
    struct value n = block_attention(b, x, attention, "self_attn");
    x = b_add(b, x,
              b_rms_norm(b, n, "feedforward_layer_norm.weight|post_attention_layernorm.weight", d->norm_eps, false));
    n = block_gated_mlp(b, x, mlp, "mlp");
    return b_add(b, x, b_rms_norm(b, n, "post_feedforward_layernorm.weight", d->norm_eps, false));
}

void build_olmo_hybrid(struct builder *b) {
    struct config *c = b->config;
    struct decoder d = decoder_from_config(b);
    struct delta_spec delta = {
        .n_key_heads = config_size_or(c, "linear_num_key_heads", d.n_heads),
        .n_value_heads = config_size_or(c, "linear_num_value_heads", d.n_heads),
        .key_dim = config_size_or(c, "linear_key_head_dim", d.hidden_size * 3 / 4 / d.n_heads),
        .value_dim = config_size_or(c, "linear_value_head_dim", d.hidden_size * 3 / 2 / d.n_heads),
        .conv_taps = config_size_or(c, "linear_conv_kernel_dim", 4),
        .norm_eps = 1e-5f,
        .beta_factor = config_bool_or(c, "linear_allow_neg_eigval", true) ? 2 : 1,
    };
    struct attention_spec attention = decoder_attention(b, &d, 500000);
    attention.qk_norm = QK_NORM_ALL;
    const struct json *rope = config_get(c, "rope_parameters");
    attention.has_rope = config_has(c, "rope_theta") || (json_is_object(rope) && json_get(rope, "rope_theta"));
    struct mlp_spec mlp = {.intermediate_size = d.intermediate_size, .activation = d.activation};
    mamba_require_silu(b);
    const struct weight *embedding = decoder_embedding(b, &d, "model.embed_tokens");
    struct value x = b_embed(b, embedding);
    for (uint32_t i = 0; i < d.n_layers && !b->failed; i++) {
        builder_layer(b, "model.layers.%u", i);
        x = is_linear(b, i) ? linear_layer(b, x, &d, &delta, &mlp) : full_layer(b, x, &d, &attention, &mlp);
        builder_layer_end(b, x);
    }
    decoder_head(b, x, &d, embedding, "model.norm.weight", false, "lm_head", false);
}
