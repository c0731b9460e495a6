/* SPDX-License-Identifier: Apache-2.0 */
/* Ling (Bailing MoE) 1 and 2: fused projections, softmax or sigmoid scores, shared experts. Klear: the shared experts and
 * the routed ones are mixed by a softmax over two learned logits. */
#include "models/family.h"
#include "models/stack.h"

static struct value bailing_feed_forward(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    struct config *c = b->config;
    if (!has_routed_experts(b, layer)) return stack_mlp(b, x, s, layer);
    bool by_sigmoid = !strcmp(config_string_or(c, "score_function", "softmax"), "sigmoid");
    struct moe_spec moe = routed_experts(b, &s->d, by_sigmoid ? ROUTER_SIGMOID : ROUTER_SOFTMAX_ALL);
    moe.router_module = "mlp.gate.gate_proj|mlp.gate";
    moe.correction = "mlp.gate.expert_bias";
    moe.has_correction = config_bool_or(c, "moe_router_enable_expert_bias", false);
    struct value out = block_moe(b, x, &moe);
    uint32_t n_shared = (uint32_t)config_integer_or(c, "num_shared_experts", 0, 0, 1024);
    if (!n_shared || !config_bool_or(c, "moe_router_enable_shared_expert", true)) return out;
    struct mlp_spec shared = {.activation = s->d.activation};
    shared.intermediate_size =
        n_shared * config_size_or(c, "moe_shared_expert_intermediate_size", moe.intermediate_size);
    return b_add(b, out, block_shared_expert(b, x, &shared, "mlp.shared_experts", NULL));
}

void build_bailing_moe(struct builder *b) {
    struct config *c = b->config;
    struct stack s = stack_from_config(b, 10000);
    uint32_t rotary = config_size_or(c, "rotary_dim", decoder_rotary_dim(b, s.d.head_dim, 1));
    s.embedding = "model.word_embeddings";
    s.attention_module = "attention";
    s.attention.rope = b_rope_from_config(b, rotary < s.d.head_dim ? rotary : s.d.head_dim, NULL, 10000);
    s.attention.has_qkv_bias = config_bool_or(c, "use_qkv_bias", false);
    s.attention.has_o_bias = config_bool_or(c, "use_bias", false);
    s.attention.qk_norm = config_bool_or(c, "use_qk_norm", false) ? QK_NORM_HEAD : QK_NORM_NONE;
    s.attention.q_norm = "query_layernorm";
    s.attention.k_norm = "key_layernorm";
    s.attention.qkv_proj = "query_key_value";
    s.attention.o_proj = "dense";
    s.normalizes_head = config_bool_or(c, "norm_head", false);
    s.feed_forward = bailing_feed_forward;
    stack_build(b, &s);
}

static struct value klear_feed_forward(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    struct config *c = b->config;
    if (!qwen_layer_is_sparse(b, layer)) return stack_mlp(b, x, s, layer);
    struct moe_spec moe = routed_experts(b, &s->d, ROUTER_SIGMOID);
    struct mlp_spec shared = {.activation = s->d.activation};
    shared.intermediate_size = moe.intermediate_size * config_size_or(c, "n_shared_experts", 1);
    struct matmul_part part = {.weight = b_matrix(b, ROLE_ROUTER, "mlp.coefficient", 2, x.width), .is_exact = true};
    if (b_has(b, "mlp.coefficient.bias", true)) part.bias = b_vector(b, "mlp.coefficient.bias", 2);
    struct value share = b_softmax(b, b_matmul(b, x, &part, 1));
    struct value out = b_multiply(b, block_moe(b, x, &moe), value_columns(share, 0, 1));
    struct value beside = block_shared_expert(b, x, &shared, "mlp.shared_experts", NULL);
    return b_add(b, out, b_multiply(b, beside, value_columns(share, 1, 1)));
}

void build_klear(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    s.attention.qk_norm = QK_NORM_HEAD;
    s.feed_forward = klear_feed_forward;
    stack_build(b, &s);
}
