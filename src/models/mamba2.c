/* SPDX-License-Identifier: Apache-2.0 */
/* Mamba-2 (Dao and Gu 2024): one norm and one state-space mixer in each layer, nothing else. MLX conversions run the norm
 * before the mixer with an epsilon of 1e-5 whatever the config says, transformers with layer_norm_epsilon. */
#include "models/family.h"

#include <math.h>

static void read_time_step_limit(struct builder *b, struct mamba2_spec *s) {
    const struct json *limit = config_get(b->config, "time_step_limit");
    s->dt_min = 0;
    s->dt_max = INFINITY;
    if (!limit) return;
    double bounds[2];
    for (size_t i = 0; i < 2; i++) {
        const struct json *bound = json_at(limit, i);
        const struct json *word = json_get(bound, "__float__");
        bounds[i] = json_string_is(word, "Infinity") ? INFINITY : json_number(bound, NAN);
    }
    if (!(bounds[0] <= bounds[1]))
        builder_fail(b, ERROR_FORMAT, "%s: time_step_limit is no pair of ascending numbers", b->config->path);
    s->dt_min = (float)bounds[0];
    s->dt_max = (float)bounds[1];
}

void build_mamba2(struct builder *b) {
    struct config *c = b->config;
    struct decoder d = decoder_from_config(b);
    struct mamba2_spec mixer = {
        .n_heads = config_size(c, "num_heads"),
        .head_dim = config_size(c, "head_dim"),
        .n_groups = config_size_or(c, "n_groups", 1),
        .state_dim = config_size(c, "state_size"),
        .conv_taps = config_size_or(c, "conv_kernel", 4),
        .has_conv_bias = config_bool_or(c, "use_conv_bias", true),
        .has_proj_bias = config_bool_or(c, "use_bias", false),
        .norm_eps = (float)config_real_or(c, "layer_norm_epsilon", 1e-5),
    };
    d.norm_eps = mixer.norm_eps;
    float block_eps = b->graph->weights.checkpoint && b->graph->weights.checkpoint->is_mlx ? 1e-5f : mixer.norm_eps;
    read_time_step_limit(b, &mixer);
    const struct weight *embedding = decoder_embedding(b, &d, "backbone.embeddings|backbone.embedding");
    struct value x = b_embed(b, embedding);
    for (uint32_t i = 0; i < d.n_layers && !b->failed; i++) {
        builder_layer(b, "backbone.layers.%u", i);
        struct value n = b_rms_norm(b, x, "norm.weight", block_eps, false);
        x = b_add(b, x, block_mamba2(b, n, &mixer, "mixer"));
        builder_layer_end(b, x);
    }
    decoder_head(b, x, &d, embedding, "backbone.norm_f.weight", false, "lm_head", true);
}
