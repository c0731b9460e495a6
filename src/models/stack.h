/* SPDX-License-Identifier: Apache-2.0 */
/* The usual stack of decoder layers: a norm, attention (or another mixer), a residual sum; a norm, a feed-forward, a
 * residual sum. Families fill in what differs, and give functions for what differs from layer to layer. */
#ifndef MLXCEL_MODELS_STACK_H
#define MLXCEL_MODELS_STACK_H

#include "models/common.h"

struct stack {
    struct decoder d;
    struct norm_spec norm;           /* all norms of layers, and the final one */
    struct attention_spec attention; /* as `adjust` leaves it for the layer at hand */
    const char *attention_module;
    /* Norms before each branch and on each branch's result; NULL = none. */
    const char *attention_norm, *attention_post_norm, *ffn_norm, *ffn_post_norm;
    const char *embedding, *final_norm, *head;
    double embedding_factor, residual_factor, head_input_factor, logits_factor; /* 0 = 1 */
    bool
        is_parallel; /* both branches read the layer's input; without ffn_norm the second takes attention_norm's result */
    struct mlp_spec mlp; /* of stack_mlp */
    const char *mlp_module;
    bool has_no_attention, has_no_ffn; /* as `adjust` leaves them: the layer lacks that branch */
    float final_softcap;
    const char *embedding_norm;  /* module of a norm after the embedding, or NULL */
    const char *more_embeddings; /* module of a table of n_more_embeddings rows for ids beyond the embedding, or NULL */
    uint32_t n_more_embeddings;
    const char *positions; /* module of a table of n_positions learned positions, or NULL */
    uint32_t n_positions;
    bool tied_by_default;
    bool normalizes_head;           /* each column of the head is divided by its length */
    struct value shared_projection; /* room for families whose layers use keys and values of another */
    struct value (*embed)(struct builder *b, struct value x, struct stack *s); /* what follows the embedding, or NULL */
    /* A whole layer in place of the two branches, or NULL. */
    struct value (*layer)(struct builder *b, struct value x, struct stack *s, uint32_t layer);
    void (*adjust)(struct builder *b, struct stack *s, uint32_t layer); /* or NULL */
    struct value (*mix)(struct builder *b, struct value x, struct stack *s,
                        uint32_t layer); /* NULL = block_attention */
    struct value (*feed_forward)(struct builder *b, struct value x, struct stack *s, uint32_t layer); /* NULL = MLP */
    const void *own;                                                                                  /* the family's */
};

/* The usual names, norms and MLP, by the config, for families with a mixer of their own. */
struct stack stack_usual(struct builder *b);
/* The baseline, by the config; rope_theta defaults to theta. */
struct stack stack_from_config(struct builder *b, double theta);
/* Norms with mean, bias and the config's layer_norm_eps in place of RMS norms. */
void stack_use_layer_norm(struct builder *b, struct stack *s, double default_eps);
/* No norms before the branches but after them, under the usual names. */
void stack_use_post_norms(struct stack *s);
void stack_build(struct builder *b, struct stack *s);

/* The dense feed-forward by s->mlp. */
struct value stack_mlp(struct builder *b, struct value x, struct stack *s, uint32_t layer);

/* The growth of queries with the position: llama_4_scaling_beta of the rope parameters. */
struct position_scale stack_position_scale(struct builder *b);

/* Whether layer_types make the layer slide, or `otherwise` where the config has none. */
bool stack_is_sliding(struct builder *b, uint32_t layer, bool otherwise);

/* The even number of dimensions that a share of the head is; an error where it is none. */
uint32_t rotary_share(struct builder *b, uint32_t head_dim, double share);

/* A size from a list or object of the config, or the fallback where it is absent. */
uint32_t json_size(struct builder *b, const struct json *value, uint32_t fallback);

/* ---- experts as DeepSeek has them ---- */

/* Router and experts under "mlp", by n_routed_experts, num_experts_per_tok, moe_intermediate_size, n_group, topk_group,
 * norm_topk_prob and routed_scaling_factor. */
struct moe_spec routed_experts(struct builder *b, const struct decoder *d, enum router_kind kind);
/* Whether the layer has experts: by a list for all layers (mlp_layer_types, is_moe_layer or moe_layer_freq), else by
 * first_k_dense_replace and moe_layer_freq. */
bool has_routed_experts(struct builder *b, uint32_t layer);
/* Experts, and n_shared experts beside them as one MLP of n_shared times the width. */
struct value experts_with_shared(struct builder *b, struct value x, const struct moe_spec *moe, uint32_t n_shared,
                                 const char *shared_module);
/* The whole feed-forward with sigmoid scores (routed_sigmoid) or softmax scores. */
struct value routed_sigmoid(struct builder *b, struct value x, struct stack *s, uint32_t layer);
struct value routed_softmax(struct builder *b, struct value x, struct stack *s, uint32_t layer);

#endif
