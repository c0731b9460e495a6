/* SPDX-License-Identifier: Apache-2.0 */
/* Gemma 4 (text): windows and full layers with heads of different widths, values that are normed keys in the full layers
 * of some releases, layers that share keys and values, per-layer inputs in the small ones, experts beside the MLP in the
 * MoE. Norm weights are plain; every layer's output is scaled. */
#include "models/gemma_common.h"

#include <math.h>
#include <stdio.h>

/* A value of the first full layer in per_layer_config, else under an older key. */
static uint32_t full_size(struct builder *b, const struct gemma4 *g, const char *key, const char *older,
                          uint32_t fallback) {
    const struct json *layers = config_get(b->config, "per_layer_config");
    for (uint32_t i = 0; i < g->d.n_layers && json_is_object(layers); i++) {
        char number[16];
        snprintf(number, sizeof number, "%u", i);
        if (!gemma_is_full(b, &g->sharing, i)) continue;
        int64_t n = json_integer(json_get(json_get(layers, number), key), -1);
        if (n > 0 && n < 65536) return (uint32_t)n;
    }
    return config_size_or(b->config, older, fallback);
}

static void read_attention(struct builder *b, struct gemma4 *g, bool keys_as_values) {
    struct config *c = b->config;
    g->sliding = decoder_attention(b, &g->d, 1e4);
    g->sliding.scale = 1;
    g->sliding.qk_norm = QK_NORM_HEAD;
    g->sliding.value_norm = true;
    g->full = g->sliding;
    g->sliding.rope = b_rope_from_config(b, g->d.head_dim, "sliding_attention", 1e4);
    decoder_set_window(&g->sliding, config_size_or(c, "sliding_window", 512));
    g->full.head_dim = full_size(b, g, "head_dim", "global_head_dim", 512);
    g->full.keys_as_values = keys_as_values;
    uint32_t n_kv = full_size(b, g, "num_key_value_heads", "num_global_key_value_heads", g->d.n_kv_heads);
    /* The older key counts only where keys are values. */
    if (keys_as_values || json_is_object(config_get(c, "per_layer_config"))) g->full.n_kv_heads = n_kv;
    g->full.rope = b_rope_from_config(b, g->full.head_dim, "full_attention", 1e6);
    const struct json *both_ways = config_get(c, "use_bidirectional_attention");
    if (both_ways && !json_string_is(both_ways, "vision") && json_bool(both_ways, true))
        builder_fail(b, ERROR_UNSUPPORTED, "%s: use_bidirectional_attention other than for images", c->path);
}

static struct value experts(struct builder *b, struct value x, const struct gemma4 *g) {
    struct config *c = b->config;
    uint32_t n = config_size(c, "moe_intermediate_size"), hidden = x.width;
    struct norm_params norm = {.kind = NORM_RMS, .eps = g->d.norm_eps, .weight = b_vector(b, "router.scale", hidden)};
    if (!b->failed && norm.weight->vector)
        for (uint32_t i = 0; i < hidden; i++) norm.weight->vector[i] /= sqrtf((float)hidden);
    struct value routed = b_norm(b, x, norm);
    struct moe_spec moe = {.router_module = "router.proj",
                           .router_input = &routed,
                           .expert_scale = "router.per_expert_scale",
                           .intermediate_size = n,
                           .activation = g->d.activation};
    moe.router = (struct router_params){.kind = ROUTER_SOFTMAX_TOP,
                                        .factor = 1,
                                        .n_experts = config_size(c, "num_experts"),
                                        .top_k = config_size_or(c, "top_k_experts", 8)};
    const char *fused = "experts.gate_up_proj|experts.switch_glu.gate_up_proj";
    moe.gate[0].module = "experts.switch_glu.gate_proj|experts.%u.gate_proj";
    moe.gate[1] = (struct matrix_source){fused, {.tensor_rows = 2 * n}};
    moe.up[0].module = "experts.switch_glu.up_proj|experts.%u.up_proj";
    moe.up[1] = (struct matrix_source){fused, {.tensor_rows = 2 * n, .first_row = n}};
    moe.down[0].module = "experts.switch_glu.down_proj|experts.%u.down_proj|experts.down_proj";
    moe.n_gate = moe.n_up = 2;
    moe.n_down = 1;
    x = b_rms_norm(b, x, "pre_feedforward_layernorm_2.weight", g->d.norm_eps, false);
    return b_rms_norm(b, block_moe(b, x, &moe), "post_feedforward_layernorm_2.weight", g->d.norm_eps, false);
}

struct value gemma4_layer(struct builder *b, struct value x, struct gemma4 *g, struct value inputs, uint32_t number) {
    float eps = g->d.norm_eps;
    bool is_wide = g->is_double_wide && number >= g->sharing.first_shared;
    struct mlp_spec mlp = {.intermediate_size =
                               decoder_layer_size(b, "intermediate_size", number, 1) * (is_wide ? 2 : 1),
                           .activation = g->d.activation};
    struct value n = b_rms_norm(b, x, "input_layernorm.weight", eps, false);
    n = gemma_shared_attention(b, n, &g->sharing, &g->full, &g->sliding, number);
    x = b_add(b, x, b_rms_norm(b, n, "post_attention_layernorm.weight", eps, false));
    n = b_rms_norm(b, x, "pre_feedforward_layernorm.weight", eps, false);
    n = block_gated_mlp(b, n, &mlp, "mlp");
    if (g->has_experts)
        n = b_add(b, b_rms_norm(b, n, "post_feedforward_layernorm_1.weight", eps, false), experts(b, x, g));
    x = b_add(b, x, b_rms_norm(b, n, "post_feedforward_layernorm.weight", eps, false));
    if (g->inputs.width) x = b_add(b, x, gemma_apply_input(b, x, &g->inputs, inputs, number, g->d.activation));
    return x;
}

struct gemma4 gemma4_from_config(struct builder *b, bool has_experts, bool keys_as_values) {
    struct config *c = b->config;
    struct gemma4 g = {.d = decoder_from_config(b), .has_experts = has_experts};
    if (!has_experts) config_ignore(c, "num_experts");
    g.d.activation = block_activation(b, config_string_or(c, "hidden_activation", "gelu_pytorch_tanh"));
    g.sharing = gemma_sharing(b, &g.d, 6);
    g.is_double_wide = config_bool_or(c, "use_double_wide_mlp", false);
    read_attention(b, &g, keys_as_values);
    return g;
}

void build_gemma4(struct builder *b) {
    struct config *c = b->config;
    struct gemma4 g = gemma4_from_config(b, config_bool_or(c, "enable_moe_block", false),
                                         config_bool_or(c, "attention_k_eq_v", false));
    const struct weight *embedding = decoder_embedding(b, &g.d, "model.embed_tokens");
    struct value x = b_scale(b, b_embed(b, embedding), sqrt((double)g.d.hidden_size));
    struct value inputs = gemma_layer_inputs(b, x, &g.d, &g.inputs);
    for (uint32_t i = 0; i < g.d.n_layers && !b->failed; i++) {
        builder_layer(b, "model.layers.%u", i);
        x = gemma4_layer(b, x, &g, inputs, i);
        const struct weight *scalar = block_optional_vector(b, "layer_scalar", true, 1);
        if (scalar) x = b_weigh(b, x, scalar);
        builder_layer_end(b, x);
    }
    builder_top(b);
    gemma_head(b, b_select_outputs(b, x), &g.d, embedding, 30);
}
