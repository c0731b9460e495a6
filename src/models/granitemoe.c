/* SPDX-License-Identifier: Apache-2.0 */
/* Granite 3 MoE: multipliers on the embedding, attention scores, branches and logits; experts by a softmax over the
 * chosen logits, in some releases with a shared MLP beside them. */
#include "models/family.h"
#include "models/stack.h"

static struct value feed_forward(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    (void)layer;
    struct moe_spec moe = {.router_module = "block_sparse_moe.router.layer",
                           .activation = s->d.activation,
                           .intermediate_size = s->d.intermediate_size};
    moe.router = (struct router_params){.kind = ROUTER_SOFTMAX_TOP,
                                        .factor = 1,
                                        .n_experts = config_size(b->config, "num_local_experts"),
                                        .top_k = config_size(b->config, "num_experts_per_tok")};
    moe_usual_sources(&moe, b, "block_sparse_moe");
    struct value out = block_moe(b, x, &moe);
    struct mlp_spec shared = {.activation = s->d.activation};
    shared.intermediate_size = config_count_or(b->config, "shared_intermediate_size", 0);
    return shared.intermediate_size ? b_add(b, out, block_shared_expert(b, x, &shared, "shared_mlp", NULL)) : out;
}

void build_granitemoe(struct builder *b) {
    struct config *c = b->config;
    struct stack s = stack_from_config(b, 10000);
    s.embedding_factor = config_real_or(c, "embedding_multiplier", 1);
    s.attention.scale = config_real_or(c, "attention_multiplier", 1);
    s.residual_factor = config_real_or(c, "residual_multiplier", 1);
    double scaling = config_real_or(c, "logits_scaling", 1);
    if (scaling == 0) config_fail(c, ERROR_FORMAT, "'logits_scaling' is 0");
    s.logits_factor = 1 / scaling;
    s.tied_by_default = true;
    s.feed_forward = feed_forward;
    stack_build(b, &s);
}
