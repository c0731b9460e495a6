/* SPDX-License-Identifier: Apache-2.0 */
/* Mamba, Falcon Mamba and Mamba-2: one norm and one state-space mixer in each layer, nothing else. MLX conversions run the
 * norm before the mixer with an epsilon of 1e-5 whatever the config says, transformers with layer_norm_epsilon. */
#include "models/family.h"

#include <math.h>

void read_time_step_limit(struct builder *b, struct mamba2_spec *s) {
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

void mamba_require_silu(struct builder *b) {
    const char *name = config_string_or(b->config, "hidden_act", "silu");
    if (block_activation(b, name) != UNARY_SILU)
        builder_fail(b, ERROR_UNSUPPORTED, "%s: 'hidden_act' is %s, which is not implemented for recurrent mixers",
                     b->config->path, name);
}

struct mamba2_spec hybrid_mamba2(struct builder *b, const struct decoder *d) {
    struct config *c = b->config;
    struct mamba2_spec s = {
        .n_heads = config_size(c, "mamba_n_heads"),
        .n_groups = config_size_or(c, "mamba_n_groups", 1),
        .state_dim = config_size_or(c, "mamba_d_state", 256),
        .conv_taps = config_size_or(c, "mamba_d_conv", 4),
        .has_conv_bias = config_bool_or(c, "mamba_conv_bias", true),
        .has_proj_bias = config_bool_or(c, "mamba_proj_bias", false),
        .norm_eps = d->norm_eps,
    };
    uint32_t inner = config_size_or(c, "mamba_expand", 2) * d->hidden_size;
    inner = config_size_or(c, "mamba_d_ssm", inner);
    bool is_auto = json_is_string(config_get(c, "mamba_d_head"));
    uint32_t derived = inner / s.n_heads ? inner / s.n_heads : 1;
    s.head_dim = is_auto ? derived : config_size_or(c, "mamba_d_head", derived);
    read_time_step_limit(b, &s);
    mamba_require_silu(b);
    return s;
}

uint32_t time_step_rank(struct builder *b, const char *key, uint32_t hidden_size) {
    uint32_t derived = (hidden_size + 15) / 16;
    return json_is_string(config_get(b->config, key)) ? derived : config_size_or(b->config, key, derived);
}

/* The layers around a mixer; `mix` reads its specification. */
static void build(struct builder *b, const struct decoder *d, const void *mixer,
                  struct value (*mix)(struct builder *b, struct value x, const void *mixer)) {
    const struct checkpoint *file = b->graph->weights.checkpoint;
    float block_eps = file && file->is_mlx ? 1e-5f : d->norm_eps;
    mamba_require_silu(b);
    const struct weight *embedding = decoder_embedding(b, d, "backbone.embeddings|backbone.embedding");
    struct value x = b_embed(b, embedding);
    for (uint32_t i = 0; i < d->n_layers && !b->failed; i++) {
        builder_layer(b, "backbone.layers.%u", i);
        struct value n = b_rms_norm(b, x, "norm.weight", block_eps, false);
        x = b_add(b, x, mix(b, n, mixer));
        builder_layer_end(b, x);
    }
    decoder_head(b, x, d, embedding, "backbone.norm_f.weight", false, "lm_head", true);
}

static struct value mix_mamba1(struct builder *b, struct value x, const void *mixer) {
    return block_mamba1(b, x, mixer, "mixer");
}

static struct value mix_mamba2(struct builder *b, struct value x, const void *mixer) {
    return block_mamba2(b, x, mixer, "mixer");
}

static void build_mamba1(struct builder *b, bool has_norms) {
    struct config *c = b->config;
    struct decoder d = decoder_from_config(b);
    d.norm_eps = (float)config_real_or(c, "layer_norm_epsilon", 1e-5);
    struct mamba1_spec mixer = {
        .inner_size = config_size_or(c, "intermediate_size", config_size_or(c, "expand", 2) * d.hidden_size),
        .state_dim = config_size_or(c, "state_size", 16),
        .dt_rank = time_step_rank(b, "time_step_rank", d.hidden_size),
        .conv_taps = config_size_or(c, "conv_kernel", 4),
        .norms = config_bool_or(c, "use_bcdt_rms", has_norms) ? MAMBA_NORMS_PLAIN : MAMBA_NORMS_NONE,
        .norm_eps = (float)config_real_or(c, "mixer_rms_eps", 1e-6),
        .has_conv_bias = config_bool_or(c, "use_conv_bias", true),
        .has_proj_bias = config_bool_or(c, "use_bias", false),
    };
    build(b, &d, &mixer, mix_mamba1);
}

void build_mamba(struct builder *b) { build_mamba1(b, false); }

void build_falcon_mamba(struct builder *b) { build_mamba1(b, true); }

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
    read_time_step_limit(b, &mixer);
    build(b, &d, &mixer, mix_mamba2);
}
