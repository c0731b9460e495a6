/* SPDX-License-Identifier: Apache-2.0 */
/* Llama, which is the baseline; Mistral, whose layers may all slide; Mixtral, with experts in the place of the MLP. */
#include "models/family.h"
#include "models/stack.h"

/* layer_types say which layers slide; where there are none, `otherwise`. */
static void slide(struct builder *b, struct stack *s, uint32_t layer, bool otherwise) {
    uint32_t window = config_count_or(b->config, "sliding_window", 0);
    decoder_set_window(&s->attention, stack_is_sliding(b, layer, otherwise) ? window : 0);
}

static void slide_listed(struct builder *b, struct stack *s, uint32_t layer) { slide(b, s, layer, false); }
static void slide_all(struct builder *b, struct stack *s, uint32_t layer) { slide(b, s, layer, true); }

void build_llama(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    s.tied_by_default = true;
    s.adjust = slide_listed;
    stack_build(b, &s);
}

void build_mistral(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    s.adjust = slide_all;
    stack_build(b, &s);
}

static struct value mixtral_experts(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    (void)layer;
    struct moe_spec moe = {.router_module = "block_sparse_moe.gate",
                           .intermediate_size = s->d.intermediate_size,
                           .activation = s->d.activation};
    moe.router = (struct router_params){.kind = ROUTER_SOFTMAX_TOP,
                                        .factor = 1,
                                        .n_experts = config_size_or(b->config, "num_local_experts", 8),
                                        .top_k = config_size_or(b->config, "num_experts_per_tok", 2)};
    moe_usual_sources(&moe, b, "block_sparse_moe");
    moe.gate[1].module = "block_sparse_moe.experts.%u.w1";
    moe.up[1].module = "block_sparse_moe.experts.%u.w3";
    moe.down[1].module = "block_sparse_moe.experts.%u.w2";
    return block_moe(b, x, &moe);
}

void build_mixtral(struct builder *b) {
    struct stack s = stack_from_config(b, 1000000);
    s.feed_forward = mixtral_experts;
    s.adjust = slide_all;
    stack_build(b, &s);
}
