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
    d.n_heads = decoder_layer_size(b, "num_attention_heads", 0, 1);
    d.n_kv_heads = decoder_layer_size(b, "num_key_value_heads", 0, d.n_heads);
    d.head_dim = config_size_or(c, "head_dim", d.hidden_size / d.n_heads ? d.hidden_size / d.n_heads : 1);
    d.intermediate_size = decoder_layer_size(b, "intermediate_size", 0, 1);
    d.vocab_size = config_size(c, "vocab_size");
    d.norm_eps = (float)config_real_or(c, "rms_norm_eps", 1e-6);
    d.activation = block_activation(b, config_string_or(c, "hidden_act", "silu"));
    if (d.n_layers > 4096 || d.n_heads > 65536 || d.head_dim > 65536 || d.hidden_size > 1 << 20 ||
        (uint64_t)d.n_heads * d.head_dim > 1 << 24 || d.vocab_size > 1 << 24)
        config_fail(c, ERROR_FORMAT, "%u layers of %u heads of %u over a hidden size of %u, %u tokens are not credible",
                    d.n_layers, d.n_heads, d.head_dim, d.hidden_size, d.vocab_size);
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
    return b_matrix(b, ROLE_EMBEDDING, module, d->n_embeddings ? d->n_embeddings : d->vocab_size, d->hidden_size);
}

struct value decoder_final_norm(struct builder *b, struct value x, const struct decoder *d, const char *norm_name,
                                bool plus_one) {
    builder_top(b);
    struct value last = b_rms_norm(b, b_select_outputs(b, x), norm_name, d->norm_eps, plus_one);
    b->graph->hidden = last;
    return last;
}

/* What the config says, or the fallback. A multimodal config and its text part may differ: then the head is its own. */
static bool says_tied(struct builder *b, bool fallback) {
    const char *key = "tie_word_embeddings";
    bool is_tied = config_bool_or(b->config, key, fallback);
    return is_tied && (b->config->text == b->config->root || json_bool(json_get(b->config->root, key), true));
}

bool decoder_is_tied(struct builder *b, const char *head_module, bool tied_by_default) {
    const char *weight_name = block_name(b, head_module, "weight");
    bool is_stated = config_has(b->config, "tie_word_embeddings");
    bool is_tied = says_tied(b, tied_by_default);
    if (!is_stated) return !b_has(b, weight_name, !tied_by_default);
    return is_tied || !b_has(b, weight_name, true);
}

bool decoder_is_wrapped(const struct builder *b) {
    const struct checkpoint *checkpoint = b->graph->weights.checkpoint;
    return b->config->text != b->config->root && checkpoint && !checkpoint->is_mlx;
}

struct value decoder_logits(struct builder *b, struct value x, const struct decoder *d, const struct weight *embedding,
                            const char *head_module, bool tied_by_default) {
    bool is_tied = decoder_is_tied(b, head_module, tied_by_default);
    const struct weight *head = embedding;
    if (!is_tied) head = b_matrix(b, ROLE_HEAD, head_module, d->vocab_size, d->hidden_size);
    if (!is_tied && d->head_has_unit_rows) b_unit_rows(b, head);
    const char *bias_name = block_name(b, head_module, "bias");
    const struct weight *bias = d->head_offset;
    if (!bias && b_has(b, bias_name, d->head_has_bias && !is_tied)) bias = b_vector(b, bias_name, d->vocab_size);
    struct value logits = b_linear(b, x, head, bias);
    b->graph->logits = logits;
    return logits;
}

void decoder_head(struct builder *b, struct value x, const struct decoder *d, const struct weight *embedding,
                  const char *norm_name, bool plus_one, const char *head_module, bool tied_by_default) {
    struct value last = decoder_final_norm(b, x, d, norm_name, plus_one);
    decoder_logits(b, last, d, embedding, head_module, tied_by_default);
}
