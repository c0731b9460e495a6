/* SPDX-License-Identifier: Apache-2.0 */
/* Llama 4 (text). Of four layers three rotate, normalise q and k after that, and attend inside chunks; the fourth has
 * neither rope nor chunks, but queries that grow with the position. One expert a token, its input scaled by the sigmoid
 * of the logit, and a shared expert. */
#include "models/family.h"
#include "models/stack.h"

/* no_rope_layers has 0 where a layer has no rope; absent or empty: every fourth one, or a number that says how many. */
static bool has_rope(struct builder *b, uint32_t layer) {
    const struct json *flags = config_get(b->config, "no_rope_layers");
    uint32_t every = config_size_or(b->config, "no_rope_layer_interval", 4);
    if (json_is_array(flags) && flags->count) return json_integer(json_at(flags, layer), 1) != 0;
    if (json_integer(flags, 0) > 1 && json_integer(flags, 0) < 4096) every = (uint32_t)json_integer(flags, 4);
    return (layer + 1) % every != 0;
}

static void adjust(struct builder *b, struct stack *s, uint32_t layer) {
    struct config *c = b->config;
    struct attention_spec *a = &s->attention;
    const char *type = decoder_layer_type(b, layer);
    uint32_t chunk = config_count_or(c, "attention_chunk_size", 0);
    a->has_rope = has_rope(b, layer);
    bool is_chunked = chunk && (type ? !strcmp(type, "chunked_attention") : a->has_rope);
    a->policy = is_chunked ? CACHE_CHUNK : CACHE_FULL;
    a->window = is_chunked ? chunk : 0;
    /* Mobile models normalise before the rotation, and in every layer. */
    bool is_mobile = !config_integer_or(c, "num_local_experts", 1, 0, 65536);
    a->qk_norm = config_bool_or(c, "use_qk_norm", true) && (a->has_rope || is_mobile) ? QK_NORM_HEAD : QK_NORM_NONE;
    a->qk_norm_after_rope = !is_mobile;
    const struct json *tuning = config_get(c, "attn_temperature_tuning");
    bool is_tuned = !is_mobile && !a->has_rope && !(json_is_bool(tuning) && !json_bool(tuning, true)) &&
                    json_integer(tuning, 1) != 0;
    a->position_scale = (struct position_scale){.beta = is_tuned ? config_real_or(c, "attn_scale", 0.1) : 0,
                                                .length = config_real_or(c, "floor_scale", 8192),
                                                .offset = 1};
}

static struct value feed_forward(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    struct config *c = b->config;
    uint32_t step = config_size_or(c, "interleave_moe_layer_step", 1), n = s->d.intermediate_size;
    int64_t n_experts = config_integer_or(c, "num_local_experts", 16, 0, 65536);
    const struct json *list = config_get(c, "moe_layers");
    bool has_experts = n_experts && layer % step == step - 1;
    if (json_is_array(list)) {
        has_experts = false;
        for (uint32_t i = 0; i < list->count; i++)
            if (json_integer(&list->items[i], -1) == (int64_t)layer) has_experts = true;
    }
    struct mlp_spec mlp = {.intermediate_size = config_size_or(c, "intermediate_size_mlp", n),
                           .activation = s->d.activation};
    if (!has_experts) return block_gated_mlp(b, x, &mlp, "feed_forward");
    struct moe_spec moe = {.router_module = "feed_forward.router",
                           .activation = s->d.activation,
                           .scales_input = true,
                           .intermediate_size = n};
    moe.router = (struct router_params){.kind = ROUTER_SIGMOID,
                                        .factor = 1,
                                        .n_experts = (uint32_t)n_experts,
                                        .top_k = config_size_or(c, "num_experts_per_tok", 1)};
    moe_usual_sources(&moe, b, "feed_forward");
    /* fused, the experts' matrices are [in, out] */
    bool is_transposed = b_has(b, "feed_forward.experts.gate_up_proj", false);
    moe.gate[2].is_transposed = moe.up[2].is_transposed = moe.down[2].is_transposed = is_transposed;
    mlp.intermediate_size = n;
    return b_add(b, block_moe(b, x, &moe), block_shared_expert(b, x, &mlp, "feed_forward.shared_expert", NULL));
}

/* Whether the experts' matrices are apart, as in MLX files: their q/k norms have an epsilon of 1e-6, whatever the config
 * says of the other norms. */
static bool is_converted(struct builder *b, uint32_t n_layers) {
    bool found = false;
    for (uint32_t i = 0; i < n_layers && !found && !b->failed; i++) {
        builder_layer(b, "model.layers.%u", i);
        found = b_has(b, "feed_forward.experts.gate_proj.weight", false);
        builder_top(b);
    }
    return found;
}

void build_llama4(struct builder *b) {
    struct stack s = stack_from_config(b, 500000);
    if (is_converted(b, s.d.n_layers)) s.attention.qk_norm_eps = 1e-6f;
    s.attention.rope_interleaved = true;
    s.attention.qk_norm_is_plain = true;
    if (b_has(b, "output.weight", false)) s.head = "output";
    config_ignore(b->config, "layer_types");
    s.adjust = adjust;
    s.feed_forward = feed_forward;
    stack_build(b, &s);
}
