/* SPDX-License-Identifier: Apache-2.0 */
/* RecurrentGemma (Griffin): two recurrent blocks, then one of windowed attention with a single key head. Norms with 1 + w;
 * MLX conversions run those of the layers with an epsilon of 1e-5 whatever the config says. The embedding's factor is
 * rounded to bf16. */
#include "models/family.h"

#include "base/half.h"

#include <math.h>

static bool is_recurrent(struct builder *b, uint32_t layer) {
    const struct json *types = config_get(b->config, "block_types");
    if (!json_is_array(types)) types = config_get(b->config, "_block_types");
    if (!json_is_array(types) || !types->count) return layer % 3 != 2;
    return json_string_is(&types->items[layer % types->count], "recurrent");
}

void build_recurrent_gemma(struct builder *b) {
    struct config *c = b->config;
    struct decoder d = decoder_from_config(b);
    const struct checkpoint *file = b->graph->weights.checkpoint;
    float eps = file && file->is_mlx ? 1e-5f : d.norm_eps;
    struct lru_spec lru = {d.n_heads, config_size_or(c, "lru_width", d.hidden_size),
                           config_size_or(c, "conv1d_width", 4)};
    struct mlp_spec mlp = {.intermediate_size = d.intermediate_size / 2, .has_bias = true};
    mlp.activation = block_activation(b, config_string_or(c, "hidden_activation", "gelu_pytorch_tanh"));
    struct attention_spec attention = decoder_attention(b, &d, 10000);
    attention.has_o_bias = true;
    attention.rope = b_rope_from_config(b, decoder_rotary_dim(b, d.head_dim, 0.5), NULL, 10000);
    decoder_set_window(&attention, config_size_or(c, "attention_window_size", 2048));
    double scale = config_bool_or(c, "embeddings_scale_by_sqrt_dim", true) ? sqrt((double)d.hidden_size) : 1;
    const struct weight *embedding = decoder_embedding(b, &d, "model.embed_tokens");
    struct value x = b_scale(b, b_embed(b, embedding), (double)bf16_to_f32(f32_to_bf16((float)scale)));
    for (uint32_t i = 0; i < d.n_layers && !b->failed; i++) {
        builder_layer(b, "model.layers.%u", i);
        struct value n = b_rms_norm(b, x, "temporal_pre_norm.weight", eps, true);
        n = is_recurrent(b, i) ? block_lru(b, n, &lru, "temporal_block")
                               : block_attention(b, n, &attention, "temporal_block");
        x = b_add(b, x, n);
        n = b_rms_norm(b, x, "channel_pre_norm.weight", eps, true);
        x = b_add(b, x, block_gated_mlp(b, n, &mlp, "mlp_block"));
        builder_layer_end(b, x);
    }
    x = decoder_final_norm(b, x, &d, "model.final_norm.weight", true);
    x = decoder_logits(b, x, &d, embedding, "lm_head", true);
    double cap = config_real_or(c, "logits_soft_cap", 30);
    if (cap != 0) b->graph->logits = b_softcap(b, x, (float)cap);
}
