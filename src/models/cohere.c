/* SPDX-License-Identifier: Apache-2.0 */
/* Command R (Cohere) and Command R7B: one LayerNorm without bias for both branches, which run in parallel; interleaved
 * rope; tied head, logits scaled. R7B has windows on three of four layers, and no rope on the full ones. */
#include "models/family.h"
#include "models/stack.h"

static struct stack cohere(struct builder *b, double default_theta) {
    struct stack s = stack_from_config(b, default_theta);
    stack_use_layer_norm(b, &s, 1e-5);
    s.norm.has_bias = config_bool_or(b->config, "layer_norm_bias", false);
    s.ffn_norm = NULL;
    s.is_parallel = true;
    s.attention.rope_interleaved = true;
    double scale = config_real_or(b->config, "logit_scale", 0.0625);
    s.logits_factor = decoder_is_wrapped(b) ? 1 : scale;
    s.tied_by_default = true;
    return s;
}

void build_cohere(struct builder *b) {
    struct stack s = cohere(b, 8e6);
    if (config_bool_or(b->config, "use_qk_norm", false)) s.attention.qk_norm = QK_NORM_EACH;
    s.attention.qk_norm_kind = NORM_LAYER;
    stack_build(b, &s);
}

static void adapt_cohere2(struct builder *b, struct stack *s, uint32_t layer) {
    uint32_t pattern = config_size_or(b->config, "sliding_window_pattern", 4);
    bool slides = stack_is_sliding(b, layer, (layer + 1) % pattern != 0);
    s->attention.has_rope = slides;
    decoder_set_window(&s->attention, slides ? config_size_or(b->config, "sliding_window", 4096) : 0);
}

void build_cohere2(struct builder *b) {
    struct stack s = cohere(b, 50000);
    s.adjust = adapt_cohere2;
    stack_build(b, &s);
}
