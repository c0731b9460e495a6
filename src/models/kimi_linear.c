/* SPDX-License-Identifier: Apache-2.0 */
/* Kimi Linear: delta attention with a decay for each channel in three of four layers, latent attention without rope in the
 * others; experts routed as DeepSeek V3 does. */
#include "models/stack.h"

#include "models/family.h"

/* Layers are counted from 1 in linear_attn_config. */
static bool is_delta_layer(struct builder *b, uint32_t layer) {
    const char *type = decoder_layer_type(b, layer);
    if (type) return !strcmp(type, "linear_attention");
    const struct json *list = json_get(config_get(b->config, "linear_attn_config"), "full_attn_layers");
    if (!json_is_array(list)) return (layer + 1) % 4 != 0;
    for (uint32_t i = 0; i < list->count; i++)
        if (json_integer(&list->items[i], -1) == (int64_t)layer + 1) return false;
    return true;
}

/* A size of linear_attn_config, or under a key of its own. */
static uint32_t delta_size(struct builder *b, const char *nested, const char *key, uint32_t fallback) {
    int64_t n = json_integer(json_get(config_get(b->config, "linear_attn_config"), nested), -1);
    return n > 0 && n < 1 << 20 ? (uint32_t)n : config_size_or(b->config, key, fallback);
}

static struct value mix(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    struct config *c = b->config;
    if (is_delta_layer(b, layer)) {
        struct channel_delta_spec delta = {.n_heads = delta_size(b, "num_heads", "linear_num_heads", s->d.n_heads),
                                           .head_dim = delta_size(b, "head_dim", "linear_head_dim", 128),
                                           .conv_taps =
                                               delta_size(b, "short_conv_kernel_size", "linear_conv_kernel_dim", 4),
                                           .norm_eps = s->d.norm_eps};
        return block_channel_delta(b, x, &delta, "self_attn");
    }
    struct mla_spec mla = {
        .n_heads = s->d.n_heads,
        .nope_dim = config_size_or(c, "qk_nope_head_dim", s->d.head_dim),
        .rope_dim = config_size(c, "qk_rope_head_dim"),
        .value_dim = config_size_or(c, "v_head_dim", s->d.head_dim),
        .q_rank = (uint32_t)config_integer_or(c, "q_lora_rank", 0, 0, 1 << 20),
        .kv_rank = config_size(c, "kv_lora_rank"),
        .latent_norm_eps = b->graph->weights.checkpoint && b->graph->weights.checkpoint->is_mlx ? s->d.norm_eps : 1e-6f,
    };
    if (!config_bool_or(c, "mla_use_nope", true))
        builder_fail(b, ERROR_UNSUPPORTED, "%s: mla_use_nope is false, which is not implemented", c->path);
    return block_mla(b, x, &mla, "self_attn");
}

static bool has_experts(struct builder *b, uint32_t layer) {
    const struct json *types = config_get(b->config, "mlp_layer_types");
    if (json_is_array(types)) return json_string_is(json_at(types, layer), "sparse");
    uint32_t first = (uint32_t)config_integer_or(b->config, "first_k_dense_replace", 0, 0, 4096);
    return layer >= first && layer % config_size_or(b->config, "moe_layer_freq", 1) == 0;
}

static struct value feed_forward(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    struct config *c = b->config;
    if (!has_experts(b, layer)) return stack_mlp(b, x, s, layer);
    struct moe_spec moe = {.router_module = "block_sparse_moe.gate|mlp.gate",
                           .correction = "block_sparse_moe.gate.e_score_correction_bias|mlp.e_score_correction_bias|"
                                         "mlp.gate.e_score_correction_bias",
                           .has_correction = true,
                           .activation = s->d.activation,
                           .intermediate_size = config_size(c, "moe_intermediate_size")};
    bool is_sigmoid = !strcmp(config_string_or(c, "moe_router_activation_func", "sigmoid"), "sigmoid");
    moe.router = (struct router_params){.kind = is_sigmoid ? ROUTER_SIGMOID : ROUTER_SOFTMAX_ALL,
                                        .n_experts = config_size(c, "num_experts"),
                                        .top_k = config_size_or(c, "num_experts_per_token", 8),
                                        .normalize = config_bool_or(c, "moe_renormalize", true),
                                        .normalize_epsilon = 1e-20f,
                                        .factor = (float)config_real_or(c, "routed_scaling_factor", 1),
                                        .n_groups = config_size_or(c, "num_expert_group", 1),
                                        .top_groups = config_size_or(c, "topk_group", 1)};
    moe_usual_sources(&moe, b, "block_sparse_moe|mlp");
    uint32_t n_shared = (uint32_t)config_integer_or(c, "num_shared_experts", 1, 0, 1024);
    return experts_with_shared(b, x, &moe, n_shared, "block_sparse_moe.shared_experts|mlp.shared_experts");
}

void build_kimi_linear(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    s.mix = mix;
    s.feed_forward = feed_forward;
    config_ignore(b->config, "moe_layer_freq");
    config_ignore(b->config, "first_k_dense_replace");
    stack_build(b, &s);
}
