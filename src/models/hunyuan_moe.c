/* SPDX-License-Identifier: Apache-2.0 */
/* Hunyuan with experts: A13B and its like (q and k normalised after the rotation, a shared MLP beside the experts; of
 * some releases every second layer takes the projected keys and values of the one before), and Hunyuan 3 (experts as DeepSeek
 * has them). */
#include "models/family.h"
#include "models/stack.h"

/* A number, or one for each layer. */
static uint32_t layer_size(struct builder *b, const char *key, uint32_t layer, uint32_t fallback) {
    const struct json *value = config_get(b->config, key);
    return json_size(b, json_is_array(value) ? json_at(value, layer) : value, fallback);
}

static struct value feed_forward(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    struct config *c = b->config;
    struct moe_spec moe = {.router_module = "mlp.gate.wg",
                           .activation = s->d.activation,
                           .intermediate_size = layer_size(b, "moe_intermediate_size", layer, s->d.intermediate_size)};
    moe.router = (struct router_params){.kind = ROUTER_SOFTMAX_ALL,
                                        .factor = 1,
                                        .n_experts = layer_size(b, "num_experts", layer, 1),
                                        .top_k = layer_size(b, "moe_topk", layer, 1),
                                        .normalize = config_bool_or(c, "norm_topk_prob", true)};
    moe_usual_sources(&moe, b, "mlp");
    struct value out = block_moe(b, x, &moe);
    struct mlp_spec shared = {.intermediate_size =
                                  s->d.intermediate_size * layer_size(b, "num_shared_expert", layer, 1),
                              .activation = s->d.activation};
    if (!config_bool_or(c, "use_mixed_mlp_moe", true)) return out;
    return b_add(b, out, block_shared_expert(b, x, &shared, "mlp.shared_mlp", NULL));
}

/* Of each run of cla_share_factor layers the first one projects keys and values for all. */
static void adjust(struct builder *b, struct stack *s, uint32_t layer) {
    uint32_t run = config_size_or(b->config, "cla_share_factor", 2);
    if (!config_bool_or(b->config, "use_cla", false)) return;
    if (layer % run == 0) s->shared_projection = value_none();
    s->attention.shared_projection = &s->shared_projection;
}

void build_hunyuan_moe(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    s.attention.qk_norm = config_bool_or(b->config, "use_qk_norm", true) ? QK_NORM_HEAD : QK_NORM_NONE;
    s.attention.qk_norm_after_rope = true;
    s.attention.q_norm = "query_layernorm";
    s.attention.k_norm = "key_layernorm";
    s.adjust = adjust;
    s.feed_forward = feed_forward;
    stack_build(b, &s);
}

static struct value v3_feed_forward(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    bool is_listed = config_has(b->config, "mlp_layer_types");
    if (is_listed ? !has_routed_experts(b, layer) : layer == 0) return stack_mlp(b, x, s, layer);
    struct moe_spec moe = routed_experts(b, &s->d, ROUTER_SIGMOID);
    moe.router_module = "mlp.router.gate|mlp.gate";
    moe.router.factor = (float)config_real_or(b->config, "router_scaling_factor", 1);
    uint32_t n_shared = (uint32_t)config_integer_or(b->config, "num_shared_experts", 1, 0, 1024);
    bool is_shared_mlp = b_has(b, "mlp.shared_mlp.gate_proj.weight", true);
    return experts_with_shared(b, x, &moe, n_shared, is_shared_mlp ? "mlp.shared_mlp" : "mlp.shared_experts");
}

void build_hunyuan_v3(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    s.attention.qk_norm = QK_NORM_HEAD;
    s.feed_forward = v3_feed_forward;
    stack_build(b, &s);
}
