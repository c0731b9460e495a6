/* SPDX-License-Identifier: Apache-2.0 */
/* Families with LayerNorm and experts: Phi-3.5-MoE (biases, sparsemixer), Phixtral (experts of Phi's MLP beside the
 * attention), DBRX (fused and clipped projections), Command A with experts (one norm for both branches, full layers
 * without rope). */
#include "models/family.h"
#include "models/stack.h"

static void phimoe_adjust(struct builder *b, struct stack *s, uint32_t layer) {
    (void)layer;
    decoder_set_window(&s->attention, config_count_or(b->config, "sliding_window", 0));
}

static struct value phimoe_experts(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    (void)layer;
    struct moe_spec moe = {.router_module = "block_sparse_moe.gate",
                           .activation = s->d.activation,
                           .intermediate_size = s->d.intermediate_size};
    moe.router = (struct router_params){.kind = ROUTER_SPARSEMIXER,
                                        .jitter = (float)config_real_or(b->config, "router_jitter_noise", 0.01),
                                        .n_experts = config_size_or(b->config, "num_local_experts", 16),
                                        .top_k = config_size_or(b->config, "num_experts_per_tok", 2)};
    moe_usual_sources(&moe, b, "block_sparse_moe");
    return block_moe(b, x, &moe);
}

void build_phimoe(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    s.norm = (struct norm_spec){.kind = NORM_LAYER, .eps = s.d.norm_eps, .has_bias = true};
    config_ignore(b->config, "lm_head_bias");
    s.adjust = phimoe_adjust;
    s.feed_forward = phimoe_experts;
    stack_build(b, &s);
}

static struct value phixtral_experts(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    (void)layer;
    struct moe_spec moe = {.router_module = "moe.gate",
                           .is_plain = true,
                           .has_bias = true,
                           .activation = s->d.activation,
                           .intermediate_size = config_size_or(b->config, "n_inner", 4 * s->d.hidden_size)};
    moe.router = (struct router_params){.kind = ROUTER_SOFTMAX_TOP,
                                        .factor = 1,
                                        .n_experts = config_size_or(b->config, "num_local_experts", 4),
                                        .top_k = config_size_or(b->config, "num_experts_per_tok", 2)};
    moe_usual_sources(&moe, b, "moe");
    moe.up[1].module = "moe.mlp.%u.fc1";
    moe.down[1].module = "moe.mlp.%u.fc2";
    return block_moe(b, x, &moe);
}

void build_phixtral(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    uint32_t rotary = config_size_or(b->config, "rotary_dim", 32);
    s.d.layer_format = "transformer.h.%u";
    s.embedding = "transformer.embd.wte";
    s.attention_module = "mixer";
    s.attention_norm = "ln";
    s.final_norm = "lm_head.ln";
    s.head = "lm_head.linear";
    s.norm = (struct norm_spec){.kind = NORM_LAYER, .eps = s.d.norm_eps, .has_bias = true};
    s.d.activation = block_activation(b, config_string_or(b->config, "activation_function", "gelu_new"));
    s.attention.has_qkv_bias = s.attention.has_o_bias = true;
    s.attention.qkv_proj = "Wqkv";
    s.attention.o_proj = "out_proj";
    s.attention.rope = b_rope_with(b, rotary < s.d.head_dim ? rotary : s.d.head_dim, 10000, NULL);
    s.is_parallel = true;
    s.ffn_norm = NULL;
    s.feed_forward = phixtral_experts;
    stack_build(b, &s);
}

static struct value dbrx_experts(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    (void)layer;
    const struct json *ffn = config_get(b->config, "ffn_config");
    struct moe_spec moe = {.router_module = "ffn.router.layer",
                           .activation = s->d.activation,
                           .intermediate_size = json_size(b, json_get(ffn, "ffn_hidden_size"), 10752)};
    moe.router = (struct router_params){.kind = ROUTER_SOFTMAX_ALL,
                                        .factor = 1,
                                        .n_experts = json_size(b, json_get(ffn, "moe_num_experts"), 16),
                                        .top_k = json_size(b, json_get(ffn, "moe_top_k"), 4),
                                        .normalize = true};
    moe_usual_sources(&moe, b, "ffn");
    moe.gate[1].module = "ffn.experts.%u.w1";
    moe.up[1].module = "ffn.experts.%u.v1";
    moe.down[1].module = "ffn.experts.%u.w2";
    return block_moe(b, x, &moe);
}

void build_dbrx(struct builder *b) {
    struct config *c = b->config;
    const struct json *attention = config_get(c, "attn_config");
    struct stack s = stack_usual(b);
    s.d.layer_format = "transformer.blocks.%u";
    s.embedding = "transformer.wte";
    s.final_norm = "transformer.norm_f";
    s.attention_module = "norm_attn_norm.attn";
    s.attention_norm = "norm_attn_norm.norm_1";
    s.ffn_norm = "norm_attn_norm.norm_2";
    s.norm = (struct norm_spec){.kind = NORM_LAYER, .eps = 1e-5f};
    s.attention = (struct attention_spec){
        .n_heads = s.d.n_heads,
        .n_kv_heads = json_size(b, json_get(attention, "kv_n_heads"), s.d.n_heads),
        .head_dim = s.d.head_dim,
        .has_rope = true,
        .rope = b_rope_with(b, s.d.head_dim, config_object_real_or(c, attention, "attn_config", "rope_theta", 500000),
                            NULL),
        .qkv_proj = "Wqkv",
        .o_proj = "out_proj",
        .qkv_clip = config_object_real_or(c, attention, "attn_config", "clip_qkv", 0)};
    s.feed_forward = dbrx_experts;
    stack_build(b, &s);
}

static void cohere_adjust(struct builder *b, struct stack *s, uint32_t layer) {
    struct config *c = b->config;
    uint32_t n_dense = config_count_or(c, "first_k_dense_replace", 0);
    uint32_t dense_pattern = config_size_or(c, "prefix_dense_sliding_window_pattern", 1);
    uint32_t pattern = config_size_or(c, "sliding_window_pattern", 4);
    bool slides = layer < n_dense ? (layer + 1) % dense_pattern != 0 : (layer - n_dense + 1) % pattern != 0;
    slides = stack_is_sliding(b, layer, slides);
    s->attention.has_rope = slides || (!has_routed_experts(b, layer) && dense_pattern == 1);
    decoder_set_window(&s->attention, slides ? config_size_or(c, "sliding_window", 4096) : 0);
}

static struct value cohere_feed_forward(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    struct config *c = b->config;
    uint32_t n = s->d.intermediate_size;
    struct mlp_spec mlp = {.intermediate_size = config_size_or(c, "prefix_dense_intermediate_size", n),
                           .activation = s->d.activation};
    if (!has_routed_experts(b, layer)) return block_gated_mlp(b, x, &mlp, "mlp");
    bool by_sigmoid = !strcmp(config_string_or(c, "expert_selection_fn", "softmax"), "sigmoid");
    bool normalize = config_bool_or(c, "norm_topk_prob", true);
    struct moe_spec moe = {.router_module = "mlp.gate", .activation = s->d.activation, .intermediate_size = n};
    moe.router = (struct router_params){.kind = by_sigmoid ? ROUTER_SIGMOID : ROUTER_SOFTMAX_TOP,
                                        .factor = 1,
                                        .n_experts = config_size(c, "num_experts"),
                                        .top_k = config_size(c, "num_experts_per_tok"),
                                        .normalize = by_sigmoid && normalize};
    moe_usual_sources(&moe, b, "mlp");
    uint32_t n_shared = (uint32_t)config_integer_or(c, "num_shared_experts", 0, 0, 1024);
    struct value out = experts_with_shared(b, x, &moe, n_shared, "mlp.shared_experts");
    bool is_average = !strcmp(config_string_or(c, "shared_expert_combination_strategy", "average"), "average");
    return b_scale(b, out, n_shared && is_average ? 0.5 : 1);
}

void build_cohere2_moe(struct builder *b) {
    struct config *c = b->config;
    struct stack s = stack_from_config(b, 10000);
    s.norm = (struct norm_spec){.eps = s.d.norm_eps};
    if (!config_has(c, "rms_norm_eps"))
        s.norm = (struct norm_spec){.kind = NORM_LAYER, .eps = (float)config_real_or(c, "layer_norm_eps", 1e-5)};
    s.attention.rope_interleaved = true;
    s.logits_factor = config_real_or(c, "logit_scale", 0.0625);
    s.is_parallel = true;
    s.ffn_norm = NULL;
    s.tied_by_default = true;
    s.adjust = cohere_adjust;
    s.feed_forward = cohere_feed_forward;
    stack_build(b, &s);
}
