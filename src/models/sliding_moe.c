/* SPDX-License-Identifier: Apache-2.0 */
/* Windows and full attention in turn, with experts as DeepSeek has them: Trinity (AFMoE), Laguna, MiMo V2 Flash, Step 3.5.
 * They differ in gates on the attention's output, in heads, rope and windows by the type of the layer. */
#include "models/family.h"
#include "models/stack.h"

#include <math.h>

static uint32_t window_of(struct builder *b) { return config_count_or(b->config, "sliding_window", 0); }

/* ---- Trinity: rope on windows only, a gate on each column, norms around both branches ---- */

static void afmoe_adjust(struct builder *b, struct stack *s, uint32_t layer) {
    uint32_t every = config_size_or(b->config, "global_attn_every_n_layers", 4);
    s->attention.has_rope = stack_is_sliding(b, layer, (layer + 1) % every != 0);
    decoder_set_window(&s->attention, s->attention.has_rope ? window_of(b) : 0);
}

static struct value afmoe_feed_forward(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    struct config *c = b->config;
    if (layer < config_count_or(c, "num_dense_layers", 1)) return stack_mlp(b, x, s, layer);
    bool by_sigmoid = !strcmp(config_string_or(c, "score_func", "sigmoid"), "sigmoid");
    struct moe_spec moe = routed_experts(b, &s->d, by_sigmoid ? ROUTER_SIGMOID : ROUTER_SOFTMAX_ALL);
    moe.has_correction = true;
    moe.router.normalize = config_bool_or(c, "route_norm", true);
    moe.router.factor = (float)config_real_or(c, "route_scale", 1);
    uint32_t n_shared = (uint32_t)config_integer_or(c, "num_shared_experts", 1, 0, 1024);
    return experts_with_shared(b, x, &moe, n_shared, "mlp.shared_experts");
}

void build_afmoe(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    s.attention.qk_norm = QK_NORM_HEAD;
    s.attention.gate_proj = "gate_proj";
    s.attention.gate_activation = UNARY_SIGMOID;
    s.attention_post_norm = "post_attention_layernorm";
    s.ffn_norm = "pre_mlp_layernorm";
    s.ffn_post_norm = "post_mlp_layernorm";
    if (config_bool_or(b->config, "mup_enabled", false)) s.embedding_factor = sqrt((double)s.d.hidden_size);
    s.adjust = afmoe_adjust;
    s.feed_forward = afmoe_feed_forward;
    stack_build(b, &s);
}

/* ---- Laguna: heads and rope by layer, a softplus gate on each head ---- */

static void laguna_adjust(struct builder *b, struct stack *s, uint32_t layer) {
    bool slides = stack_is_sliding(b, layer, false);
    const char *type = slides ? "sliding_attention" : "full_attention";
    const struct json *heads = config_get(b->config, "num_attention_heads_per_layer");
    const struct json *rope = json_get(config_get(b->config, "rope_parameters"), type);
    if (json_is_array(heads)) s->attention.n_heads = json_size(b, json_at(heads, layer), s->d.n_heads);
    double share = config_object_real_or(b->config, rope, "rope_parameters", "partial_rotary_factor", slides ? 1 : 0.5);
    double theta = config_object_real_or(b->config, rope, "rope_parameters", "rope_theta", slides ? 10000 : 500000);
    s->attention.rope = b_rope_with(b, rotary_share(b, s->d.head_dim, share), theta, rope);
    decoder_set_window(&s->attention, slides ? window_of(b) : 0);
}

static struct value laguna_feed_forward(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    if (!has_routed_experts(b, layer)) return stack_mlp(b, x, s, layer);
    struct moe_spec moe = routed_experts(b, &s->d, ROUTER_SIGMOID);
    moe.correction = "mlp.gate.e_score_correction_bias|mlp.experts.e_score_correction_bias";
    moe.router.factor = (float)config_real_or(b->config, "moe_routed_scaling_factor", 1);
    struct mlp_spec shared = {.activation = s->d.activation};
    shared.intermediate_size = config_size_or(b->config, "shared_expert_intermediate_size", moe.intermediate_size);
    return b_add(b, block_moe(b, x, &moe), block_shared_expert(b, x, &shared, "mlp.shared_expert", NULL));
}

void build_laguna(struct builder *b) {
    struct config *c = b->config;
    struct stack s = stack_from_config(b, 500000);
    const struct json *gating = config_get(c, "gating");
    s.attention.qk_norm = QK_NORM_HEAD;
    s.attention.gate_proj = "g_proj";
    s.attention.gate_activation = UNARY_SOFTPLUS;
    s.attention.gate_is_per_head = !json_string_is(gating, "per-element") && json_bool(gating, true);
    if (config_bool_or(c, "moe_apply_router_weight_on_input", false) ||
        config_real_or(c, "moe_router_logit_softcapping", 0) != 0)
        builder_fail(b, ERROR_UNSUPPORTED, "%s: router weights on the input or capped router logits are not supported",
                     c->path);
    s.adjust = laguna_adjust;
    s.feed_forward = laguna_feed_forward;
    stack_build(b, &s);
}

/* ---- MiMo V2 Flash: windows have other key heads and a sink, values are narrower than keys ---- */

static void mimo_adjust(struct builder *b, struct stack *s, uint32_t layer) {
    struct config *c = b->config;
    const struct json *pattern = config_get(c, "hybrid_layer_pattern");
    bool slides = layer != 0 && (layer + 1) % 6 != 0;
    if (json_is_array(pattern)) slides = json_integer(json_at(pattern, layer), 0) != 0;
    slides = stack_is_sliding(b, layer, slides);
    struct attention_spec *a = &s->attention;
    a->n_heads = slides ? config_size_or(c, "swa_num_attention_heads", s->d.n_heads) : s->d.n_heads;
    a->n_kv_heads = slides ? config_size_or(c, "swa_num_key_value_heads", 2 * s->d.n_kv_heads) : s->d.n_kv_heads;
    a->head_dim = slides ? config_size_or(c, "swa_head_dim", s->d.head_dim) : s->d.head_dim;
    uint32_t value_dim = config_size_or(c, "v_head_dim", s->d.head_dim);
    a->value_dim = slides ? config_size_or(c, "swa_v_head_dim", value_dim) : value_dim;
    const struct json *rope =
        json_get(config_get(c, "rope_parameters"), slides ? "sliding_attention" : "full_attention");
    double theta = slides ? config_real_or(c, "swa_rope_theta", 10000) : config_real_or(c, "rope_theta", 5000000);
    double share = config_real_or(c, "partial_rotary_factor", 0.334);
    theta = config_object_real_or(c, rope, "rope_parameters", "rope_theta", theta);
    share = config_object_real_or(c, rope, "rope_parameters", "partial_rotary_factor", share);
    a->rope = b_rope_with(b, rotary_share(b, a->head_dim, share), theta, rope);
    bool has_sink = config_bool_or(c, slides ? "add_swa_attention_sink_bias" : "add_full_attention_sink_bias", slides);
    a->sinks = has_sink ? "self_attn.attention_sink_bias" : NULL;
    decoder_set_window(a, slides ? window_of(b) : 0);
}

void build_mimo_v2_flash(struct builder *b) {
    struct stack s = stack_from_config(b, 5000000);
    s.d.norm_eps = s.norm.eps = (float)config_real_or(b->config, "layernorm_epsilon", s.d.norm_eps);
    s.attention.has_o_bias = false;
    s.attention.value_scale = config_real_or(b->config, "attention_value_scale", 0);
    s.adjust = mimo_adjust;
    s.feed_forward = routed_sigmoid;
    stack_build(b, &s);
}
