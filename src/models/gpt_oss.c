/* SPDX-License-Identifier: Apache-2.0 */
/* gpt-oss: attention with a learned sink for each head, windows on every other layer, biases everywhere; experts whose
 * gate and other half are bounded. Released files interleave gate and up rows, bf16 ones also exchange rows and columns. */
#include "models/family.h"
#include "models/stack.h"

static void adjust(struct builder *b, struct stack *s, uint32_t layer) {
    bool slides = stack_is_sliding(b, layer, layer % 2 == 0);
    decoder_set_window(&s->attention, slides ? config_size_or(b->config, "sliding_window", 128) : 0);
}

static struct value feed_forward(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    (void)layer;
    uint32_t n = s->d.intermediate_size;
    struct moe_spec moe = {.router_module = "mlp.router",
                           .has_bias = true,
                           .activation = UNARY_GELU_QUICK,
                           .limits = {.limit = config_real_or(b->config, "swiglu_limit", 7), .up_plus_one = true},
                           .intermediate_size = n};
    moe.router = (struct router_params){.kind = ROUTER_SOFTMAX_TOP,
                                        .factor = 1,
                                        .n_experts = config_size_or(b->config, "num_local_experts", 128),
                                        .top_k = config_size_or(b->config, "num_experts_per_tok", 4)};
    moe_usual_sources(&moe, b, "mlp");
    const char *fused = "mlp.experts.gate_up_proj";
    /* in bf16 the columns of [in, 2 n] alternate; a view of MXFP4 blocks has the rows in place */
    bool is_transposed = b_has(b, fused, false);
    moe.gate[2] = (struct matrix_source){fused, {2 * n, 0, 1, 2}, is_transposed};
    moe.up[2] = (struct matrix_source){fused, {2 * n, 1, 1, 2}, is_transposed};
    moe.down[2].is_transposed = is_transposed;
    return block_moe(b, x, &moe);
}

void build_gpt_oss(struct builder *b) {
    struct stack s = stack_from_config(b, 150000);
    s.attention.has_qkv_bias = s.attention.has_o_bias = config_bool_or(b->config, "attention_bias", true);
    s.attention.sinks = "self_attn.sinks";
    s.adjust = adjust;
    s.feed_forward = feed_forward;
    stack_build(b, &s);
}
