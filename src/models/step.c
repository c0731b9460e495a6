/* SPDX-License-Identifier: Apache-2.0 */
/* Step 3.5: windows and full layers with heads, rope base and rotary share of their own, a sigmoid gate on each head;
 * experts as DeepSeek has them, some layers' gates bounded after the activation. */
#include "models/family.h"
#include "models/stack.h"

#include <stdlib.h>

/* Element `layer` of a list, or the value that stands for all layers. */
static double layer_real(struct builder *b, const char *key, uint32_t layer, double fallback) {
    const struct json *value = config_get(b->config, key);
    if (json_is_array(value)) value = json_at(value, layer);
    return json_number(value, fallback);
}

static bool stores_minus_one(struct builder *b) {
    return b_has(b,
                 "model.layers.0.moe.gate.weight|model.layers.1.moe.gate.weight|model.layers.3.moe.gate.weight|"
                 "model.layers.4.moe.gate.weight",
                 false);
}

static void adjust(struct builder *b, struct stack *s, uint32_t layer) {
    struct config *c = b->config;
    const char *type = decoder_layer_type(b, layer);
    bool slides = type ? !strcmp(type, "sliding_attention") : layer % 2 == 0;
    const struct json *other = slides ? config_get(c, "attention_other_setting") : NULL;
    struct attention_spec *a = &s->attention;
    a->n_heads = json_size(b, json_get(other, "num_attention_heads"), s->d.n_heads);
    a->n_kv_heads = json_size(b, json_get(other, "num_attention_groups"), s->d.n_kv_heads);
    const struct json *scaling = config_get(c, "rope_scaling"), *only = config_get(c, "yarn_only_types");
    bool is_scaled = !json_is_array(only) || !only->count;
    for (uint32_t i = 0; json_is_array(only) && i < only->count; i++)
        if (json_string_is(&only->items[i], type ? type : "full_attention")) is_scaled = true;
    uint32_t rotary = rotary_share(b, s->d.head_dim, layer_real(b, "partial_rotary_factors", layer, 1));
    a->rope = b_rope_with(b, rotary, layer_real(b, "rope_theta", layer, 10000), is_scaled ? scaling : NULL);
    decoder_set_window(a, slides ? config_size_or(c, "sliding_window", 512) : 0);
}

/* "3,4,5": layers with experts; absent = all but the first. */
static bool has_experts(struct builder *b, uint32_t layer) {
    const char *list = config_string_or(b->config, "moe_layers_enum", "");
    if (!*list) return layer > 0;
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strtoul(at, NULL, 10) == layer) return true;
    return false;
}

static struct value feed_forward(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    struct config *c = b->config;
    struct mlp_spec dense = {.intermediate_size = s->d.intermediate_size,
                             .activation = s->d.activation,
                             .limits = {layer_real(b, "swiglu_limits_shared", layer, 0), true, false}};
    if (!has_experts(b, layer)) return block_gated_mlp(b, x, &dense, "mlp");
    struct moe_spec moe = {.router_module = "mlp.gate.gate|moe.gate",
                           .correction = "mlp.gate.router_bias|moe.router_bias",
                           .has_correction = true,
                           .activation = s->d.activation,
                           .limits = {layer_real(b, "swiglu_limits", layer, 0), true, false},
                           .intermediate_size = config_size_or(c, "moe_intermediate_size", 1280)};
    moe.router = (struct router_params){.kind = ROUTER_SIGMOID,
                                        .n_experts = config_size_or(c, "moe_num_experts", 288),
                                        .top_k = config_size_or(c, "moe_top_k", 8),
                                        .normalize = config_bool_or(c, "norm_expert_weight", true),
                                        .normalize_epsilon = 1e-20f,
                                        .factor = (float)config_real_or(c, "moe_router_scaling_factor", 3)};
    moe_usual_sources(&moe, b, "mlp");
    moe.gate[3].module = "moe.gate_proj";
    moe.up[3].module = "moe.up_proj";
    moe.down[3].module = "moe.down_proj";
    moe.n_gate = moe.n_up = moe.n_down = 4;
    dense.intermediate_size = config_size_or(c, "share_expert_dim", 1280);
    bool is_inside = b_has(b, "mlp.share_expert.gate_proj.weight", true);
    struct value shared = block_gated_mlp(b, x, &dense, is_inside ? "mlp.share_expert" : "share_expert");
    return b_add(b, block_moe(b, x, &moe), shared);
}

void build_step3p5(struct builder *b) {
    struct config *c = b->config;
    struct stack s = stack_usual(b);
    s.d.n_kv_heads = config_size_or(c, "num_attention_groups", s.d.n_kv_heads);
    s.norm.plus_one = stores_minus_one(b);
    s.attention_module = "self_attn";
    s.attention = (struct attention_spec){.head_dim = s.d.head_dim,
                                          .has_rope = true,
                                          .qk_norm = QK_NORM_HEAD,
                                          .qk_norm_eps = s.d.norm_eps,
                                          .qk_norm_plus_one = s.norm.plus_one,
                                          .gate_is_per_head = true,
                                          .gate_activation = UNARY_SIGMOID};
    if (config_bool_or(c, "use_head_wise_attn_gate", true)) s.attention.gate_proj = "g_proj";
    s.adjust = adjust;
    s.feed_forward = feed_forward;
    stack_build(b, &s);
}
