/* SPDX-License-Identifier: Apache-2.0 */
/* PLaMo 2: Mamba with a normed bottleneck and attention by turns, four norms around the branches whose weights are stored
 * less an offset. */
#include "models/family.h"

#include <math.h>

static struct value offset_norm(struct builder *b, struct value x, const char *name, float eps, double offset) {
    const struct weight *weight = b_vector(b, name, x.width);
    for (uint32_t i = 0; i < x.width && !b->failed && weight->vector; i++) weight->vector[i] += (float)offset;
    return b_norm(b, x, (struct norm_params){.kind = NORM_RMS, .weight = weight, .eps = eps});
}

static bool is_mamba_layer(struct builder *b, uint32_t layer, uint32_t n_layers) {
    if (!config_bool_or(b->config, "mamba_enabled", true)) return false;
    uint32_t step = config_size_or(b->config, "mamba_step", 2);
    return n_layers <= step / 2 ? layer != n_layers - 1 : layer % step != step / 2;
}

static struct attention_spec attention_from_config(struct builder *b, const struct decoder *d) {
    struct attention_spec s = decoder_attention(b, d, 10000);
    s.qk_norm = QK_NORM_EACH;
    s.qk_norm_eps = 1e-6f;
    s.q_norm = "q_weight";
    s.k_norm = "k_weight";
    s.qkv_proj = "qkv_proj";
    decoder_set_window(&s, config_count_or(b->config, "attention_window_size", 2048));
    return s;
}

void build_plamo2(struct builder *b) {
    struct config *c = b->config;
    struct decoder d = decoder_from_config(b);
    d.head_dim = config_size_or(c, "hidden_size_per_head", 128);
    float eps = d.norm_eps;
    struct mamba_bottleneck_spec mamba = {
        .n_heads = config_size_or(c, "mamba_num_heads", 64),
        .head_dim = d.head_dim,
        .state_dim = config_size_or(c, "mamba_d_state", 64),
        .dt_rank = d.hidden_size / 16 > 64 ? d.hidden_size / 16 : 64,
        .conv_taps = config_size_or(c, "mamba_d_conv", 4),
        .norm_eps = eps,
    };
    struct attention_spec attention = attention_from_config(b, &d);
    struct mlp_spec mlp = {
        .intermediate_size = d.intermediate_size, .activation = d.activation, .gate_up_proj = "gate_up_proj"};
    const struct weight *embedding = decoder_embedding(b, &d, "model.embed_tokens");
    struct value x = b_embed(b, embedding);
    for (uint32_t i = 0; i < d.n_layers && !b->failed; i++) {
        builder_layer(b, "model.layers.layers.%u", i);
        struct value n = offset_norm(b, x, "pre_mixer_norm.weight", eps, 1);
        n = is_mamba_layer(b, i, d.n_layers) ? block_mamba_bottleneck(b, n, &mamba, "mixer")
                                             : block_attention(b, n, &attention, "mixer");
        x = b_add(b, x, offset_norm(b, n, "post_mixer_norm.weight", eps, 1.0 / 5));
        n = block_gated_mlp(b, offset_norm(b, x, "pre_mlp_norm.weight", eps, 1), &mlp, "mlp");
        x = b_add(b, x, offset_norm(b, n, "post_mlp_norm.weight", eps, 1 / pow(5, 1.5)));
        builder_layer_end(b, x);
    }
    decoder_head(b, x, &d, embedding, "model.norm.weight", true, "lm_head", true);
}
