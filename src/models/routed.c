/* SPDX-License-Identifier: Apache-2.0 */
/* Grouped attention and DeepSeek's kind of experts: DeepSeek (first), dots.llm1, GLM 4.5, Solar Open, MiniMax M2,
 * EXAONE MoE, ERNIE 4.5 MoE. They differ in q/k norms, rotary share, scores of the router and which layers are dense. */
#include "models/family.h"
#include "models/stack.h"

void build_deepseek(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    config_ignore(b->config, "scoring_func");
    s.feed_forward = routed_softmax;
    stack_build(b, &s);
}

static void slide_late_layers(struct builder *b, struct stack *s, uint32_t layer) {
    uint32_t window = config_count_or(b->config, "sliding_window", 0);
    uint32_t first = config_count_or(b->config, "max_window_layers", 62);
    decoder_set_window(&s->attention, stack_is_sliding(b, layer, layer >= first) ? window : 0);
}

void build_dots1(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    s.attention.qk_norm = QK_NORM_HEAD;
    s.adjust = slide_late_layers;
    s.feed_forward = routed_sigmoid;
    stack_build(b, &s);
}

static void build_glm_experts(struct builder *b, bool rotates_half) {
    struct stack s = stack_from_config(b, 10000);
    s.attention.has_o_bias = false;
    s.attention.qk_norm = config_bool_or(b->config, "use_qk_norm", false) ? QK_NORM_HEAD : QK_NORM_NONE;
    s.attention.rope = b_rope_from_config(b, decoder_rotary_dim(b, s.d.head_dim, rotates_half ? 0.5 : 1), NULL, 10000);
    s.feed_forward = routed_sigmoid;
    stack_build(b, &s);
}

void build_glm4_moe(struct builder *b) { build_glm_experts(b, true); }

void build_solar_open(struct builder *b) { build_glm_experts(b, false); }

static struct value minimax_experts(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    (void)layer;
    struct moe_spec moe = {.router_module = "block_sparse_moe.gate",
                           .correction = "block_sparse_moe.e_score_correction_bias",
                           .has_correction = true,
                           .activation = s->d.activation,
                           .intermediate_size = s->d.intermediate_size};
    moe.router = (struct router_params){.kind = ROUTER_SIGMOID,
                                        .factor = 1,
                                        .n_experts = config_size(b->config, "num_local_experts"),
                                        .top_k = config_size(b->config, "num_experts_per_tok"),
                                        .normalize = true,
                                        .normalize_epsilon = 1e-20f};
    moe_usual_sources(&moe, b, "block_sparse_moe");
    return block_moe(b, x, &moe);
}

void build_minimax_m2(struct builder *b) {
    struct stack s = stack_from_config(b, 1000000);
    uint32_t rotary = config_size_or(b->config, "rotary_dim", decoder_rotary_dim(b, s.d.head_dim, 1));
    s.attention.rope = b_rope_from_config(b, rotary < s.d.head_dim ? rotary : s.d.head_dim, NULL, 1000000);
    s.attention.qk_norm = config_bool_or(b->config, "use_qk_norm", true) ? QK_NORM_ALL : QK_NORM_NONE;
    s.feed_forward = minimax_experts;
    stack_build(b, &s);
}

/* Windows have rope, full layers none. */
static void exaone_adjust(struct builder *b, struct stack *s, uint32_t layer) {
    uint32_t window = config_count_or(b->config, "sliding_window", 0);
    bool slides = window && stack_is_sliding(b, layer, (layer + 1) % 4 != 0);
    config_ignore(b->config, "sliding_window_pattern");
    s->attention.has_rope = slides || !window;
    decoder_set_window(&s->attention, slides ? window : 0);
}

static struct value exaone_feed_forward(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    if (!has_routed_experts(b, layer)) return stack_mlp(b, x, s, layer);
    struct moe_spec moe = routed_experts(b, &s->d, ROUTER_SIGMOID);
    uint32_t n_shared = (uint32_t)config_integer_or(b->config, "num_shared_experts", 1, 0, 1024);
    return experts_with_shared(b, x, &moe, n_shared, "mlp.shared_experts");
}

void build_exaone_moe(struct builder *b) {
    struct stack s = stack_from_config(b, 1000000);
    s.attention.qk_norm = QK_NORM_HEAD;
    s.adjust = exaone_adjust;
    s.feed_forward = exaone_feed_forward;
    stack_build(b, &s);
}

/* Experts from moe_layer_start_index to moe_layer_end_index, on every moe_layer_interval-th layer. */
static struct value ernie_feed_forward(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    struct config *c = b->config;
    int64_t first = config_integer_or(c, "moe_layer_start_index", 1, 0, INT32_MAX);
    int64_t last = config_integer_or(c, "moe_layer_end_index", -1, -1, INT32_MAX);
    if (last < 0) last = s->d.n_layers - 1;
    if (layer < first || layer > last || (layer + 1) % config_size_or(c, "moe_layer_interval", 1) != 0)
        return stack_mlp(b, x, s, layer);
    struct moe_spec moe = {.router_module = "mlp.gate",
                           .correction = "mlp.moe_statics.e_score_correction_bias",
                           .has_correction = true,
                           .activation = s->d.activation,
                           .intermediate_size = config_size_or(c, "moe_intermediate_size", s->d.intermediate_size)};
    moe.router = (struct router_params){.kind = ROUTER_SOFTMAX_ALL,
                                        .factor = 1,
                                        .normalize = true,
                                        .n_experts = config_size(c, "moe_num_experts"),
                                        .top_k = config_size_or(c, "moe_k", 2)};
    moe_usual_sources(&moe, b, "mlp");
    uint32_t n_shared = (uint32_t)config_integer_or(c, "moe_num_shared_experts", 0, 0, 1024);
    return experts_with_shared(b, x, &moe, n_shared, "mlp.shared_experts");
}

void build_ernie4_5_moe(struct builder *b) {
    struct stack s = stack_from_config(b, 500000);
    s.attention.rope_interleaved = true;
    s.attention.has_qkv_bias = s.attention.has_o_bias = config_bool_or(b->config, "use_bias", false);
    s.tied_by_default = true;
    s.feed_forward = ernie_feed_forward;
    stack_build(b, &s);
}
