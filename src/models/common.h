/* SPDX-License-Identifier: Apache-2.0 */
/* What most decoder families share: the sizes, the embedding, the head, which layers slide. */
#ifndef MLXCEL_MODELS_COMMON_H
#define MLXCEL_MODELS_COMMON_H

#include "graph/blocks/blocks.h"

struct decoder {
    uint32_t hidden_size, n_layers, n_heads, n_kv_heads, head_dim, intermediate_size, vocab_size;
    float norm_eps;
    enum unary activation;
    const char *layer_format;         /* "model.layers.%u" */
    uint32_t n_embeddings;            /* rows of the embedding; 0 = vocab_size */
    bool head_has_bias;               /* for shapes only */
    const struct weight *head_offset; /* added to the logits; NULL = none */
    bool head_has_unit_rows;          /* the rows of a head that is not quantised are brought to unit length */
};

/* Reads the sizes under their usual keys. n_kv_heads defaults to n_heads, head_dim to hidden_size / n_heads. */
struct decoder decoder_from_config(struct builder *b);
/* The same for families that count their layers otherwise. */
struct decoder decoder_with_layers(struct builder *b, uint32_t n_layers);

/* A size that the config gives once, or for each layer in a list. */
uint32_t decoder_layer_size(struct builder *b, const char *key, uint32_t layer, uint32_t fallback);

/* The attention of the baseline: grouped heads, rope over the whole head, no windows. rope_theta defaults to theta. */
struct attention_spec decoder_attention(struct builder *b, const struct decoder *d, double theta);

/* The rotary share of a head: partial_rotary_factor, at the top or inside rope_parameters. */
uint32_t decoder_rotary_dim(struct builder *b, uint32_t head_dim, double default_factor);

/* The type of layer i by the config's layer_types, or NULL where it has none. */
const char *decoder_layer_type(struct builder *b, uint32_t layer);

/* Sets the window of an attention. window 0 = full. */
void decoder_set_window(struct attention_spec *attention, uint32_t window);

/* Whether a released multimodal file holds the model as its text part. Its head is the wrapper's, and leaves out factors
 * that the text model by itself puts on its logits. */
bool decoder_is_wrapped(const struct builder *b);

/* Looks tokens up in model.embed_tokens. */
const struct weight *decoder_embedding(struct builder *b, const struct decoder *d, const char *module);

/* Final norm and head, on the rows whose output is wanted. The head is the embedding when the config says tied, when the
 * file holds no head, or, without a file and without the key, when tied_by_default. */
void decoder_head(struct builder *b, struct value x, const struct decoder *d, const struct weight *embedding,
                  const char *norm_name, bool plus_one, const char *head_module, bool tied_by_default);

bool decoder_is_tied(struct builder *b, const char *head_module, bool tied_by_default);

/* The same in two steps, for families that do something between norm and head or after the head. */
struct value decoder_final_norm(struct builder *b, struct value x, const struct decoder *d, const char *norm_name,
                                bool plus_one);
struct value decoder_logits(struct builder *b, struct value x, const struct decoder *d, const struct weight *embedding,
                            const char *head_module, bool tied_by_default);

#endif
