/* SPDX-License-Identifier: Apache-2.0 */
#include "models/common.h"

#include <string.h>

uint32_t decoder_layer_size(struct builder *b, const char *key, uint32_t layer, uint32_t fallback) {
    const struct json *value = config_get(b->config, key);
    if (!json_is_array(value)) return config_size_or(b->config, key, fallback);
    int64_t n = json_integer(json_at(value, layer), -1);
    if (n > 0 && n <= INT32_MAX) return (uint32_t)n;
    builder_fail(b, ERROR_FORMAT, "%s: '%s' has no size for layer %u", b->config->path, key, layer);
    return 1;
}

struct decoder decoder_from_config(struct builder *b) {
    return decoder_with_layers(b, config_size(b->config, "num_hidden_layers"));
}

struct decoder decoder_with_layers(struct builder *b, uint32_t n_layers) {
    struct config *c = b->config;
    struct decoder d = {.layer_format = "model.layers.%u"};
    d.hidden_size = config_size(c, "hidden_size");
    d.n_layers = n_layers;
    d.n_heads = config_size_or(c, "num_attention_heads", 1);
    d.n_kv_heads = config_size_or(c, "num_key_value_heads", d.n_heads);
    d.head_dim = config_size_or(c, "head_dim", d.hidden_size / d.n_heads ? d.hidden_size / d.n_heads : 1);
    d.intermediate_size = decoder_layer_size(b, "intermediate_size", 0, 1);
    d.vocab_size = config_size(c, "vocab_size");
    d.norm_eps = (float)config_real_or(c, "rms_norm_eps", 1e-6);
    d.activation = block_activation(b, config_string_or(c, "hidden_act", "silu"));
    if (d.n_layers > 4096 || d.n_heads > 65536 || d.head_dim > 65536 || d.hidden_size > 1 << 20)
        config_fail(c, ERROR_FORMAT, "%u layers of %u heads of %u over a hidden size of %u are not credible",
                    d.n_layers, d.n_heads, d.head_dim, d.hidden_size);
    if (c->error.code) builder_fail(b, c->error.code, "%s", c->error.message);
    b->graph->hidden_size = d.hidden_size;
    b->graph->vocab_size = d.vocab_size;
    b->graph->n_layers = d.n_layers;
    return d;
}

uint32_t decoder_rotary_dim(struct builder *b, uint32_t head_dim, double default_factor) {
    const struct json *parameters = config_get(b->config, "rope_parameters");
    double factor = config_real_or(b->config, "partial_rotary_factor", default_factor);
    factor = config_object_real_or(b->config, parameters, "rope_parameters", "partial_rotary_factor", factor);
    if (!(factor > 0 && factor <= 1)) {
        builder_fail(b, ERROR_FORMAT, "%s: partial_rotary_factor is %g, expected a share up to 1", b->config->path,
                     factor);
        return head_dim;
    }
    return (uint32_t)(head_dim * factor) & ~1u;
}

struct attention_spec decoder_attention(struct builder *b, const struct decoder *d, double theta) {
    struct attention_spec s = {.n_heads = d->n_heads,
                               .n_kv_heads = d->n_kv_heads,
                               .head_dim = d->head_dim,
                               .has_rope = true,
                               .qk_norm_eps = d->norm_eps};
    s.has_qkv_bias = s.has_o_bias = config_bool_or(b->config, "attention_bias", false);
    s.rope_interleaved = config_bool_or(b->config, "rope_traditional", false);
    s.rope = b_rope_from_config(b, decoder_rotary_dim(b, d->head_dim, 1), NULL, theta);
    return s;
}

const char *decoder_layer_type(struct builder *b, uint32_t layer) {
    const struct json *types = config_get(b->config, "layer_types");
    if (!json_is_array(types)) return NULL;
    const struct json *type = json_at(types, layer);
    const char *name = type ? json_string_copy(&b->graph->arena, type) : NULL;
    if (!name) builder_fail(b, ERROR_FORMAT, "%s: layer_types has no type for layer %u", b->config->path, layer);
    return name;
}

void decoder_set_window(struct attention_spec *s, uint32_t window) {
    s->policy = window ? CACHE_WINDOW : CACHE_FULL;
    s->window = window;
}

const struct weight *decoder_embedding(struct builder *b, const struct decoder *d, const char *module) {
    return b_matrix(b, ROLE_EMBEDDING, module, d->vocab_size, d->hidden_size);
}

struct value decoder_final_norm(struct builder *b, struct value x, const struct decoder *d, const char *norm_name,
                                bool plus_one) {
    builder_top(b);
    struct value last = b_rms_norm(b, b_select_outputs(b, x), norm_name, d->norm_eps, plus_one);
    b->graph->hidden = last;
    return last;
}

bool decoder_is_tied(struct builder *b, const char *head_module, bool tied_by_default) {
    const char *weight_name = block_name(b, head_module, "weight");
    bool is_stated = config_has(b->config, "tie_word_embeddings");
    bool is_tied = config_bool_or(b->config, "tie_word_embeddings", tied_by_default);
    if (!is_stated) return !b_has(b, weight_name, !tied_by_default);
    return is_tied || !b_has(b, weight_name, true);
}

struct value decoder_logits(struct builder *b, struct value x, const struct decoder *d, const struct weight *embedding,
                            const char *head_module, bool tied_by_default) {
    bool is_tied = decoder_is_tied(b, head_module, tied_by_default);
    const struct weight *head = embedding;
    if (!is_tied) head = b_matrix(b, ROLE_HEAD, head_module, d->vocab_size, d->hidden_size);
    const char *bias = block_name(b, head_module, "bias");
    struct value logits =
        b_linear(b, x, head, !is_tied && b_has(b, bias, d->head_has_bias) ? b_vector(b, bias, d->vocab_size) : NULL);
    b->graph->logits = logits;
    return logits;
}

void decoder_head(struct builder *b, struct value x, const struct decoder *d, const struct weight *embedding,
                  const char *norm_name, bool plus_one, const char *head_module, bool tied_by_default) {
    struct value last = decoder_final_norm(b, x, d, norm_name, plus_one);
    decoder_logits(b, last, d, embedding, head_module, tied_by_default);
}

/* ---- whole decoders ---- */

static struct value branch_out(struct builder *b, struct value x, const struct layer_spec *l, const char *norm) {
    if (norm) x = block_norm(b, x, &l->norm, norm);
    return b_scale(b, x, l->branch_factor);
}

struct value decoder_layer(struct builder *b, struct value x, const struct layer_spec *l) {
    struct value n = l->attention_norm ? block_norm(b, x, &l->norm, l->attention_norm) : x, attended, fed;
    attended = branch_out(b, block_attention(b, n, &l->attention, l->attention_module), l, l->attention_out_norm);
    struct value y = b_add(b, x, attended);
    if (!l->is_parallel)
        n = l->mlp_norm ? block_norm(b, y, &l->norm, l->mlp_norm) : y;
    else if (l->mlp_norm)
        n = block_norm(b, x, &l->norm, l->mlp_norm);
    fed = branch_out(b, block_mlp(b, n, &l->mlp, l->mlp_module), l, l->mlp_out_norm);
    return b_add(b, y, fed);
}

struct decoder_spec decoder_usual(struct builder *b, double default_theta) {
    struct decoder d = decoder_from_config(b);
    struct decoder_spec s = {.d = d,
                             .embedding = "model.embed_tokens",
                             .final_norm = "model.norm",
                             .head = "lm_head",
                             .embedding_factor = 1,
                             .logit_factor = 1,
                             .head_input_factor = 1};
    s.layer = (struct layer_spec){.norm = {.eps = d.norm_eps},
                                  .attention_norm = "input_layernorm",
                                  .mlp_norm = "post_attention_layernorm",
                                  .branch_factor = 1,
                                  .attention = decoder_attention(b, &d, default_theta),
                                  .attention_module = "self_attn",
                                  .mlp_module = "mlp"};
    s.layer.mlp = (struct mlp_spec){.intermediate_size = d.intermediate_size,
                                    .activation = d.activation,
                                    .has_bias = config_bool_or(b->config, "mlp_bias", false)};
    return s;
}

void decoder_use_layer_norm(struct builder *b, struct decoder_spec *s, double default_eps) {
    s->layer.norm.kind = NORM_LAYER;
    s->layer.norm.eps = (float)config_real_or(b->config, "layer_norm_eps", default_eps);
    s->layer.norm.has_bias = true;
    s->layer.attention.qk_norm_eps = s->layer.norm.eps;
}

void decoder_use_post_norms(struct decoder_spec *s) {
    s->layer.attention_norm = s->layer.mlp_norm = NULL;
    s->layer.attention_out_norm = "post_attention_layernorm";
    s->layer.mlp_out_norm = "post_feedforward_layernorm";
}

void decoder_build(struct builder *b, struct decoder_spec *s) {
    struct decoder *d = &s->d;
    const struct weight *embedding = decoder_embedding(b, d, s->embedding);
    struct value x = b_scale(b, b_embed(b, embedding), s->embedding_factor);
    if (s->positions)
        x = b_add(b, x, b_embed_position(b, b_matrix(b, ROLE_EMBEDDING, s->positions, s->n_positions, d->hidden_size)));
    for (uint32_t i = 0; i < d->n_layers && !b->failed; i++) {
        builder_layer(b, d->layer_format, i);
        if (s->adapt) s->adapt(b, s, i);
        x = decoder_layer(b, x, &s->layer);
        builder_layer_end(b, x);
    }
    builder_top(b);
    x = block_norm(b, b_select_outputs(b, x), &s->layer.norm, s->final_norm);
    b->graph->hidden = x;
    x = decoder_logits(b, b_scale(b, x, s->head_input_factor), d, embedding, s->head, s->tied_by_default);
    x = b_scale(b, x, s->logit_factor);
    if (s->final_softcap != 0) x = b_softcap(b, x, s->final_softcap);
    b->graph->logits = x;
}

bool decoder_layer_slides(struct builder *b, uint32_t layer, uint32_t pattern) {
    const char *type = decoder_layer_type(b, layer);
    if (type) return !strcmp(type, "sliding_attention");
    return pattern && (layer + 1) % pattern != 0;
}

struct position_scale decoder_position_scale(struct builder *b) {
    struct config *c = b->config;
    const struct json *rope = config_get(c, "rope_parameters");
    if (!rope) rope = config_get(c, "rope_scaling");
    struct position_scale scale = {
        .beta = config_object_real_or(c, rope, "rope_parameters", "llama_4_scaling_beta", 0),
        .length = config_object_real_or(c, rope, "rope_parameters", "original_max_position_embeddings", 8192),
    };
    if (!(scale.length >= 1))
        builder_fail(b, ERROR_FORMAT, "%s: original_max_position_embeddings is %g", c->path, scale.length);
    return scale;
}
