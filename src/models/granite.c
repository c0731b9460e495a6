/* SPDX-License-Identifier: Apache-2.0 */
/* Decoders with scaled embeddings, branches and logits (maximal-update parametrisation): Granite, its windowed
 * successor with a rope base for each layer, and MiniCPM. */
#include "models/family.h"
#include "models/stack.h"

#include <math.h>

static struct stack granite(struct builder *b) {
    struct config *c = b->config;
    struct stack s = stack_from_config(b, 10000);
    double logits = config_real_or(c, "logits_scaling", 1);
    if (!(logits > 0)) builder_fail(b, ERROR_FORMAT, "%s: logits_scaling is %g", c->path, logits);
    s.embedding_factor = config_real_or(c, "embedding_multiplier", 1);
    s.logits_factor = decoder_is_wrapped(b) ? 1 : 1 / logits;
    s.residual_factor = config_real_or(c, "residual_multiplier", 1);
    s.attention.scale = config_real_or(c, "attention_multiplier", 0);
    s.tied_by_default = true;
    return s;
}

void build_granite(struct builder *b) {
    struct stack s = granite(b);
    stack_build(b, &s);
}

/* The base of layer i: 0 = no rope on that layer. */
static double layer_theta(struct builder *b, uint32_t layer, double fallback) {
    const struct json *list = config_get(b->config, "layer_rope_theta");
    return json_is_array(list) ? json_number(json_at(list, layer), fallback) : fallback;
}

static void adapt_granite_swa(struct builder *b, struct stack *s, uint32_t layer) {
    struct attention_spec *a = &s->attention;
    double theta = layer_theta(b, layer, -1);
    bool slides = stack_is_sliding(b, layer, false);
    const struct json *scaling = config_get(b->config, "rope_parameters");
    if (!scaling) scaling = config_get(b->config, "rope_scaling");
    a->has_rope = theta != 0;
    if (theta > 0) a->rope = b_rope_with(b, s->d.head_dim, theta, scaling);
    a->sinks = b_has(b, "self_attn.sinks", true) ? "self_attn.sinks" : NULL;
    decoder_set_window(a, slides ? config_size_or(b->config, "sliding_window", 4096) : 0);
}

void build_granite_swa(struct builder *b) {
    struct stack s = granite(b);
    s.adjust = adapt_granite_swa;
    stack_build(b, &s);
}

void build_minicpm(struct builder *b) {
    struct config *c = b->config;
    struct stack s = stack_from_config(b, 10000);
    s.embedding_factor = config_real_or(c, "scale_emb", 1);
    s.residual_factor = config_real_or(c, "scale_depth", 1) / sqrt((double)s.d.n_layers);
    s.head_input_factor = (double)config_size_or(c, "dim_model_base", s.d.hidden_size) / s.d.hidden_size;
    stack_build(b, &s);
}
