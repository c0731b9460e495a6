/* SPDX-License-Identifier: Apache-2.0 */
/* OLMoE and FlexOlmo: q and k normalised over all heads at once, experts by softmax. OLMoE has pre-norms and may clip
 * q, k and v; FlexOlmo normalises the results of the branches instead. */
#include "models/family.h"
#include "models/stack.h"

static struct value feed_forward(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    (void)layer;
    struct moe_spec moe = {
        .router_module = "mlp.gate", .activation = s->d.activation, .intermediate_size = s->d.intermediate_size};
    moe.router = (struct router_params){.kind = ROUTER_SOFTMAX_ALL,
                                        .factor = 1,
                                        .n_experts = config_size_or(b->config, "num_experts", 64),
                                        .top_k = config_size_or(b->config, "num_experts_per_tok", 8),
                                        .normalize = config_bool_or(b->config, "norm_topk_prob", false)};
    moe_usual_sources(&moe, b, "mlp");
    return block_moe(b, x, &moe);
}

static struct stack olmo_stack(struct builder *b, double theta) {
    struct stack s = stack_from_config(b, theta);
    s.attention.qk_norm = QK_NORM_ALL;
    s.attention.qkv_clip = config_real_or(b->config, "clip_qkv", 0);
    s.feed_forward = feed_forward;
    return s;
}

void build_olmoe(struct builder *b) {
    struct stack s = olmo_stack(b, 10000);
    stack_build(b, &s);
}

void build_flex_olmo(struct builder *b) {
    struct stack s = olmo_stack(b, 500000);
    s.attention_norm = s.ffn_norm = NULL;
    s.attention_post_norm = "post_attention_layernorm";
    s.ffn_post_norm = "post_feedforward_layernorm";
    stack_build(b, &s);
}
