/* SPDX-License-Identifier: Apache-2.0 */
/* Command R (Cohere) and Command R7B: one LayerNorm without bias for both branches, which run in parallel; interleaved
 * rope; tied head, logits scaled. R7B has windows on three of four layers, and no rope on the full ones. */
#include "models/family.h"

static struct decoder_spec cohere(struct builder *b, double default_theta) {
    struct decoder_spec s = decoder_usual(b, default_theta);
    decoder_use_layer_norm(b, &s, 1e-5);
    s.layer.norm.has_bias = config_bool_or(b->config, "layer_norm_bias", false);
    s.layer.mlp_norm = NULL;
    s.layer.is_parallel = true;
    s.layer.attention.rope_interleaved = true;
    s.logit_factor = config_real_or(b->config, "logit_scale", 0.0625);
    s.tied_by_default = true;
    return s;
}

void build_cohere(struct builder *b) {
    struct decoder_spec s = cohere(b, 8e6);
    if (config_bool_or(b->config, "use_qk_norm", false)) s.layer.attention.qk_norm = QK_NORM_EACH;
    s.layer.attention.qk_norm_kind = NORM_LAYER;
    decoder_build(b, &s);
}

static void adapt_cohere2(struct builder *b, struct decoder_spec *s, uint32_t layer) {
    uint32_t pattern = config_size_or(b->config, "sliding_window_pattern", 4);
    bool slides = decoder_layer_slides(b, layer, pattern);
    s->layer.attention.has_rope = slides;
    decoder_set_window(&s->layer.attention, slides ? config_size_or(b->config, "sliding_window", 4096) : 0);
}

void build_cohere2(struct builder *b) {
    struct decoder_spec s = cohere(b, 50000);
    s.adapt = adapt_cohere2;
    decoder_build(b, &s);
}
