/* SPDX-License-Identifier: Apache-2.0 */
/* What most decoder families share: the sizes, the embedding, the head, which layers slide. */
#ifndef MLXCEL_MODELS_COMMON_H
#define MLXCEL_MODELS_COMMON_H

#include "graph/blocks/blocks.h"

struct decoder {
    uint32_t hidden_size, n_layers, n_heads, n_kv_heads, head_dim, intermediate_size, vocab_size;
    float norm_eps;
    enum unary activation;
    const char *layer_format; /* "model.layers.%u" */
    bool head_has_bias;       /* for shapes only */
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

/* ---- whole decoders by specification ---- */

/* One layer: x + f(attention(norm(x))), then x + f(mlp(norm(x))), with up to four norms. */
struct layer_spec {
    struct norm_spec norm;
    /* modules of the norms before and after each branch; NULL = there is none */
    const char *attention_norm, *attention_out_norm, *mlp_norm, *mlp_out_norm;
    bool is_parallel; /* both branches read the layer's input; without mlp_norm the MLP takes the attention's norm */
    double branch_factor; /* of what is added to the residual */
    struct attention_spec attention;
    const char *attention_module;
    struct mlp_spec mlp;
    const char *mlp_module;
};

struct value decoder_layer(struct builder *b, struct value x, const struct layer_spec *layer);

struct decoder_spec {
    struct decoder d;
    struct layer_spec layer;
    const char *embedding, *final_norm, *head; /* modules */
    double embedding_factor, logit_factor, head_input_factor;
    float final_softcap;
    bool tied_by_default;
    const char *positions; /* module of a table of learned positions, or NULL */
    uint32_t n_positions;
    /* Changes the layer's specification for layer i; NULL = all layers are alike. */
    void (*adapt)(struct builder *b, struct decoder_spec *spec, uint32_t layer);
    const void *context; /* for adapt */
};

/* The baseline with the usual names and the config's sizes: pre-norms, grouped attention, gated MLP, untied head. */
struct decoder_spec decoder_usual(struct builder *b, double default_theta);
/* Norms with mean, bias and the config's layer_norm_eps in place of RMS norms. */
void decoder_use_layer_norm(struct builder *b, struct decoder_spec *spec, double default_eps);
/* No norms before the branches but after them, named as in the baseline's successors. */
void decoder_use_post_norms(struct decoder_spec *spec);
void decoder_build(struct builder *b, struct decoder_spec *spec);

/* The growth of queries with the position: llama_4_scaling_beta of the rope parameters. */
struct position_scale decoder_position_scale(struct builder *b);

/* Whether the layer slides: by layer_types, else on all layers but each pattern-th. */
bool decoder_layer_slides(struct builder *b, uint32_t layer, uint32_t pattern);

#endif
