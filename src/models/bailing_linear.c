/* SPDX-License-Identifier: Apache-2.0 */
/* Ring and Ling linear (Bailing): lightning attention, which is linear attention with a constant decay for each head and
 * layer, softmax attention in some layers, experts. LLaDA 2 has the same layers with softmax attention only. */
#include "models/stack.h"

#include "models/family.h"

#include <math.h>

/* A decay of head h: 2^(-8 (h + 1) / heads), as ALiBi has it, times a factor that falls with the layer. */
struct slopes {
    uint32_t n_heads;
    double layer_factor;
};

static double power_of_two_slope(uint32_t n, uint32_t head) { return exp2(-8.0 / n * (head + 1)); }

static double slope(const void *context, uint32_t head) {
    const struct slopes *s = context;
    uint32_t power = 1;
    while (power * 2 <= s->n_heads) power *= 2;
    double value = head < power ? power_of_two_slope(power, head) : power_of_two_slope(2 * power, 2 * (head - power));
    return value * s->layer_factor;
}

/* ---- Bailing (Ring, Ling linear) ---- */

static bool is_global(struct builder *b, const struct stack *s, uint32_t layer) {
    uint32_t group = config_size_or(b->config, "layer_group_size", 4);
    return (layer + 1) % group == 0 || layer >= s->d.n_layers / group * group;
}

static struct value bailing_mix(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    struct config *c = b->config;
    if (is_global(b, s, layer)) return block_attention(b, x, &s->attention, "attention");
    uint32_t n = s->d.n_layers, place = layer ? layer - 1 : 0;
    struct slopes slopes = {s->d.n_heads, 1 - (double)place / (n > 1 ? n - 1 : 1) + 1e-5};
    bool has_norm = s->attention.qk_norm != QK_NORM_NONE;
    struct linear_attention_spec linear = {
        .n_heads = s->d.n_heads,
        .head_dim = s->d.hidden_size / s->d.n_heads,
        .slope = slope,
        .context = &slopes,
        .qkv = "query_key_value",
        .gate = "g_proj",
        .norm = "g_norm",
        .out = "dense",
        .q_norm = has_norm ? "query_layernorm" : NULL,
        .k_norm = has_norm ? "key_layernorm" : NULL,
        .qk_norm_eps = s->d.norm_eps,
        .has_rope = true,
        .norm_groups = config_size_or(c, "group_norm_size", 1),
        .norm_eps = s->d.norm_eps,
    };
    linear.rope = b_rope_from_config(b, decoder_rotary_dim(b, linear.head_dim, 1), NULL, 10000);
    linear.scale = 1 / sqrt((double)linear.head_dim);
    return block_linear_attention(b, x, &linear, "attention");
}

static struct value bailing_feed_forward(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    struct config *c = b->config;
    if (layer < (uint32_t)config_integer_or(c, "first_k_dense_replace", 0, 0, 4096) || !config_has(c, "num_experts"))
        return stack_mlp(b, x, s, layer);
    struct moe_spec moe = {.router_module = "mlp.gate.gate_proj|mlp.gate",
                           .correction = "mlp.gate.expert_bias|mlp.expert_bias",
                           .has_correction = config_bool_or(c, "moe_router_enable_expert_bias", true),
                           .activation = s->d.activation,
                           .intermediate_size = config_size(c, "moe_intermediate_size")};
    bool is_sigmoid = !strcmp(config_string_or(c, "score_function", "softmax"), "sigmoid");
    moe.router = (struct router_params){.kind = is_sigmoid ? ROUTER_SIGMOID : ROUTER_SOFTMAX_ALL,
                                        .n_experts = config_size(c, "num_experts"),
                                        .top_k = config_size(c, "num_experts_per_tok"),
                                        .normalize = config_bool_or(c, "norm_topk_prob", true),
                                        .factor = (float)config_real_or(c, "routed_scaling_factor", 1),
                                        .n_groups = config_size_or(c, "n_group", 1),
                                        .top_groups = config_size_or(c, "topk_group", 1)};
    moe_usual_sources(&moe, b, "mlp");
    struct value out = block_moe(b, x, &moe);
    uint32_t n_shared = (uint32_t)config_integer_or(c, "num_shared_experts", 0, 0, 1024);
    if (!n_shared) return out;
    struct mlp_spec shared = {.activation = s->d.activation};
    shared.intermediate_size =
        n_shared * config_size_or(c, "moe_shared_expert_intermediate_size", moe.intermediate_size);
    return b_add(b, out, block_gated_mlp(b, x, &shared, "mlp.shared_experts"));
}

static struct stack bailing_stack(struct builder *b) {
    struct config *c = b->config;
    struct stack s = stack_from_config(b, 10000);
    config_ignore(c, "rotary_dim"); /* partial_rotary_factor says the same */
    s.embedding = "model.word_embeddings|model.embed_tokens";
    s.attention_module = "attention";
    s.attention.qkv_proj = "query_key_value";
    s.attention.o_proj = "dense";
    s.attention.q_norm = "query_layernorm";
    s.attention.k_norm = "key_layernorm";
    s.attention.qk_norm = config_bool_or(c, "use_qk_norm", false) ? QK_NORM_HEAD : QK_NORM_NONE;
    s.attention.has_qkv_bias = config_bool_or(c, "use_qkv_bias", false);
    s.attention.has_o_bias = config_bool_or(c, "use_bias", false);
    s.feed_forward = bailing_feed_forward;
    if (config_bool_or(c, "norm_head", false))
        builder_fail(b, ERROR_UNSUPPORTED, "%s: norm_head is not implemented", c->path);
    return s;
}

void build_bailing_linear(struct builder *b) {
    struct stack s = bailing_stack(b);
    s.mix = bailing_mix;
    stack_build(b, &s);
}

/* ---- LLaDA 2: the same family with softmax attention only, which fills blocks of masked tokens ---- */

void build_llada2(struct builder *b) {
    struct config *c = b->config;
    struct stack s = bailing_stack(b);
    stack_build(b, &s);
    b->graph->diffusion = (struct block_diffusion){
        .kind = DIFFUSION_MASK,
        .block_length = config_size_or(c, "block_length", 32),
        .mask_id = config_count_or(c, "mask_token_id", 156895),
    };
    if (b->graph->diffusion.mask_id >= s.d.vocab_size)
        builder_fail(b, ERROR_FORMAT, "%s: mask_token_id %u is outside the vocabulary of %u", c->path,
                     b->graph->diffusion.mask_id, s.d.vocab_size);
}
