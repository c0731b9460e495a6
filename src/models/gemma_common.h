/* SPDX-License-Identifier: Apache-2.0 */
/* What Gemma 3n and 4 share: layers that use the keys and values of others, and inputs of each layer's own. */
#ifndef MLXCEL_MODELS_GEMMA_COMMON_H
#define MLXCEL_MODELS_GEMMA_COMMON_H

#include "models/family.h"

/* Layers from first_shared on use the cache of the last layer of their kind before it. */
struct gemma_sharing {
    uint32_t first_shared; /* n_layers = none shares */
    uint32_t pattern;      /* layer i is full where (i + 1) % pattern == 0, unless layer_types say */
    uint32_t full_cache, sliding_cache;
};

struct gemma_sharing gemma_sharing(struct builder *b, const struct decoder *d, uint32_t pattern);
bool gemma_is_full(struct builder *b, const struct gemma_sharing *sharing, uint32_t layer);
/* self_attn of the layer, by its kind. */
struct value gemma_shared_attention(struct builder *b, struct value x, struct gemma_sharing *sharing,
                                    const struct attention_spec *full, const struct attention_spec *sliding,
                                    uint32_t layer);

/* Per-layer inputs: of each layer `width` columns (0 = the model has none). */
struct gemma_inputs {
    uint32_t width;
    float norm_eps;
};

/* (table row * sqrt(width) + norm(projection of x / sqrt(hidden size))) / sqrt(2), all layers side by side. */
struct value gemma_layer_inputs(struct builder *b, struct value x, const struct decoder *d,
                                struct gemma_inputs *inputs);
/* norm(projection(f(gate(x)) * the layer's input)) */
struct value gemma_apply_input(struct builder *b, struct value x, const struct gemma_inputs *inputs, struct value all,
                               uint32_t layer, enum unary activation);

/* What the gate of a sparse layer must exceed, in standard deviations above its mean; 0 where the layer is dense. */
double gemma_sparsity_threshold(struct builder *b, uint32_t layer);

/* ---- Gemma 4 ---- */

struct gemma4 {
    struct decoder d;
    struct gemma_sharing sharing;
    struct attention_spec full, sliding;
    struct gemma_inputs inputs;
    bool has_experts, is_double_wide;
};

struct gemma4 gemma4_from_config(struct builder *b, bool has_experts, bool keys_as_values);
/* A layer but for the factor on its output. */
struct value gemma4_layer(struct builder *b, struct value x, struct gemma4 *g, struct value inputs, uint32_t number);

/* Final norm of rows that are outputs already, tied head, softcap. */
void gemma_head(struct builder *b, struct value x, const struct decoder *d, const struct weight *embedding,
                double default_softcap);

#endif
