/* SPDX-License-Identifier: Apache-2.0 */
/* Falcon H1: attention and Mamba-2 side by side on one norm, then a gated MLP, with a multiplier at nearly every edge.
 * MLX conversions have folded the multipliers into the weights, which the layout of the convolution tells. */
#include "models/family.h"

#include <math.h>

/* Released files have [channels, 1, taps], MLX files [channels, taps, 1]. */
static bool is_folded(struct builder *b) {
    builder_layer(b, "model.layers.%u", 0);
    const struct tensor *conv = weights_find(&b->graph->weights, b->scope, "mamba.conv1d.weight");
    builder_top(b);
    return conv && conv->n_dims == 3 && conv->shape[2] == 1;
}

struct multipliers {
    double embedding, head, attention_in, attention_out, key, ssm_in, ssm_out, gate, down;
};

static double element(struct builder *b, const char *key, uint32_t index) {
    const struct json *list = config_get(b->config, key), *item = json_at(list, index);
    double x = item ? json_number(item, NAN) : list ? NAN : 1;
    if (!isfinite(x)) builder_fail(b, ERROR_FORMAT, "%s: '%s' has no number at place %u", b->config->path, key, index);
    return x;
}

static struct multipliers read_multipliers(struct builder *b, struct mamba2_spec *mamba) {
    struct config *c = b->config;
    struct multipliers m = {
        .embedding = config_real_or(c, "embedding_multiplier", 1),
        .head = config_real_or(c, "lm_head_multiplier", 1),
        .attention_in = config_real_or(c, "attention_in_multiplier", 1),
        .attention_out = config_real_or(c, "attention_out_multiplier", 1),
        .key = config_real_or(c, "key_multiplier", 1),
        .ssm_in = config_real_or(c, "ssm_in_multiplier", 1),
        .ssm_out = config_real_or(c, "ssm_out_multiplier", 1),
        .gate = element(b, "mlp_multipliers", 0),
        .down = element(b, "mlp_multipliers", 1),
    };
    mamba->has_multipliers = true;
    for (uint32_t i = 0; i < 5; i++) mamba->multipliers[i] = (float)element(b, "ssm_multipliers", i);
    return m;
}

static struct value feed_forward(struct builder *b, struct value x, const struct decoder *d,
                                 const struct multipliers *m) {
    struct mlp_spec mlp = {d->intermediate_size, d->activation, config_bool_or(b->config, "mlp_bias", false)};
    mlp.gate_multiplier = m->gate;
    return b_scale(b, block_gated_mlp(b, x, &mlp, "feed_forward"), m->down);
}

void build_falcon_h1(struct builder *b) {
    struct config *c = b->config;
    struct decoder d = decoder_from_config(b);
    struct mamba2_spec mamba = hybrid_mamba2(b, &d);
    mamba.norm_groups = mamba.n_groups;
    mamba.norm = !config_bool_or(c, "mamba_rms_norm", false)         ? GATED_NORM_NONE
                 : config_bool_or(c, "mamba_norm_before_gate", true) ? GATED_NORM_FIRST
                                                                     : GATED_NORM_LAST;
    struct multipliers m = read_multipliers(b, &mamba);
    double tied_head = 1;
    if (is_folded(b)) {
        tied_head = m.head / m.embedding;
        m = (struct multipliers){1, 1, 1, 1, 1, 1, 1, 1, 1};
        mamba.has_multipliers = false;
    }
    struct attention_spec attention = decoder_attention(b, &d, 1e11);
    attention.scale = m.key / sqrt((double)d.head_dim);
    const struct weight *embedding = decoder_embedding(b, &d, "model.embed_tokens");
    struct value x = b_scale(b, b_embed(b, embedding), m.embedding);
    for (uint32_t i = 0; i < d.n_layers && !b->failed; i++) {
        builder_layer(b, "model.layers.%u", i);
        struct value n = b_rms_norm(b, x, "input_layernorm.weight", d.norm_eps, false);
        struct value mixed = block_mamba2(b, b_scale(b, n, m.ssm_in), &mamba, "mamba");
        struct value attended = block_attention(b, b_scale(b, n, m.attention_in), &attention, "self_attn");
        n = b_add(b, b_scale(b, mixed, m.ssm_out), b_scale(b, attended, m.attention_out));
        x = b_add(b, x, n);
        n = b_rms_norm(b, x, "pre_ff_layernorm.weight", d.norm_eps, false);
        x = b_add(b, x, feed_forward(b, n, &d, &m));
        builder_layer_end(b, x);
    }
    x = decoder_final_norm(b, x, &d, "model.final_layernorm.weight", false);
    x = decoder_logits(b, x, &d, embedding, "lm_head", false);
    b->graph->logits = b_scale(b, x, m.head * (decoder_is_tied(b, "lm_head", false) ? tied_head : 1));
}
