/* SPDX-License-Identifier: Apache-2.0 */
#include "models/gemma_common.h"

#include <math.h>

struct gemma_sharing gemma_sharing(struct builder *b, const struct decoder *d, uint32_t pattern) {
    uint32_t n_shared = (uint32_t)config_integer_or(b->config, "num_kv_shared_layers", 0, 0, d->n_layers);
    struct gemma_sharing s = {.first_shared = d->n_layers - n_shared};
    s.pattern = config_size_or(b->config, "sliding_window_pattern", pattern);
    return s;
}

bool gemma_is_full(struct builder *b, const struct gemma_sharing *s, uint32_t layer) {
    const char *type = decoder_layer_type(b, layer);
    return type ? !strcmp(type, "full_attention") : (layer + 1) % s->pattern == 0;
}

struct value gemma_shared_attention(struct builder *b, struct value x, struct gemma_sharing *s,
                                    const struct attention_spec *full, const struct attention_spec *sliding,
                                    uint32_t layer) {
    bool is_full = gemma_is_full(b, s, layer);
    struct attention_spec attention = is_full ? *full : *sliding;
    uint32_t *cache = is_full ? &s->full_cache : &s->sliding_cache;
    if (layer >= s->first_shared) attention.shared_cache = cache;
    bool has_owner = false;
    for (uint32_t i = 0; i < s->first_shared && !has_owner; i++) has_owner = gemma_is_full(b, s, i) == is_full;
    if (!has_owner)
        builder_fail(b, ERROR_FORMAT, "%s: layer %u shares keys and values, but no layer of its kind has any",
                     b->config->path, layer);
    struct value out = block_attention(b, x, &attention, "self_attn");
    if (layer < s->first_shared) *cache = block_attention_cache(b);
    return out;
}

struct value gemma_layer_inputs(struct builder *b, struct value x, const struct decoder *d,
                                struct gemma_inputs *inputs) {
    struct config *c = b->config;
    inputs->width = (uint32_t)config_integer_or(c, "hidden_size_per_layer_input", 0, 0, 1 << 16);
    inputs->norm_eps = d->norm_eps;
    uint32_t all = inputs->width * d->n_layers;
    if (!all) return value_none();
    uint32_t n_ids = config_size_or(c, "vocab_size_per_layer_input", d->vocab_size);
    const struct weight *table = b_matrix(b, ROLE_EMBEDDING, "model.embed_tokens_per_layer", n_ids, all);
    struct value own = b_scale(b, b_embed_by_id(b, table), sqrt((double)inputs->width));
    struct value projected =
        b_linear(b, x, b_matrix(b, ROLE_MLP, "model.per_layer_model_projection", all, d->hidden_size), NULL);
    projected = b_scale(b, projected, 1 / sqrt((double)d->hidden_size));
    projected =
        b_norm(b, projected,
               (struct norm_params){.kind = NORM_RMS,
                                    .weight = b_vector(b, "model.per_layer_projection_norm.weight", inputs->width),
                                    .eps = d->norm_eps,
                                    .group = inputs->width});
    return b_scale(b, b_add(b, projected, own), 1 / sqrt(2));
}

struct value gemma_apply_input(struct builder *b, struct value x, const struct gemma_inputs *inputs, struct value all,
                               uint32_t layer, enum unary activation) {
    uint32_t width = inputs->width, hidden = x.width;
    struct value own = value_columns(all, layer * width, width);
    struct value gate = b_linear(b, x, b_matrix(b, ROLE_MLP, "per_layer_input_gate", width, hidden), NULL);
    struct value inner = b_gated(b, activation, gate, own);
    inner = b_linear(b, inner, b_matrix(b, ROLE_MLP, "per_layer_projection", hidden, width), NULL);
    return b_rms_norm(b, inner, "post_per_layer_input_norm.weight", inputs->norm_eps, false);
}

void gemma_head(struct builder *b, struct value x, const struct decoder *d, const struct weight *embedding,
                double default_softcap) {
    x = b_rms_norm(b, x, "model.norm.weight", d->norm_eps, false);
    b->graph->hidden = x;
    double cap = config_real_or(b->config, "final_logit_softcapping", default_softcap);
    x = decoder_logits(b, x, d, embedding, "lm_head", true);
    if (cap != 0) b->graph->logits = b_softcap(b, x, (float)cap);
}

/* The value that a share p of a normal distribution lies below (Newton's method on the error function). */
static double normal_quantile(double p) {
    double x = 0;
    for (int i = 0; i < 60; i++) {
        double value = 0.5 * erfc(-x / sqrt(2)), density = exp(-0.5 * x * x) / sqrt(6.283185307179586);
        double step = (value - p) / density;
        x -= step > 1 ? 1 : step < -1 ? -1 : step;
    }
    return x;
}

double gemma_sparsity_threshold(struct builder *b, uint32_t layer) {
    const struct json *pattern = config_get(b->config, "activation_sparsity_pattern");
    double p = json_is_array(pattern) ? json_number(json_at(pattern, layer), NAN) : json_number(pattern, 0);
    if (!(p >= 0 && p < 1))
        builder_fail(b, ERROR_FORMAT, "%s: activation_sparsity_pattern has no share below 1 for layer %u",
                     b->config->path, layer);
    if (b->failed || p == 0) return 0;
    double threshold = normal_quantile(p);
    return threshold == 0 ? 1e-30 : threshold;
}
