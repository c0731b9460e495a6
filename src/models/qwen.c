/* SPDX-License-Identifier: Apache-2.0 */
/* Qwen 2 (biases on q, k and v) and Qwen 3 (q and k normalised by heads), dense and with experts. */
#include "models/family.h"
#include "models/stack.h"

/* Windows only with use_sliding_window: on the layers that layer_types name, or from max_window_layers on. */
static void adjust(struct builder *b, struct stack *s, uint32_t layer) {
    uint32_t window = config_count_or(b->config, "sliding_window", 0);
    int64_t first = config_integer_or(b->config, "max_window_layers", 28, 0, UINT32_MAX);
    bool slides = stack_is_sliding(b, layer, layer >= first);
    if (!config_bool_or(b->config, "use_sliding_window", false)) window = 0;
    decoder_set_window(&s->attention, slides ? window : 0);
}

static struct stack qwen(struct builder *b) {
    struct stack s = stack_from_config(b, 1000000);
    s.adjust = adjust;
    return s;
}

static struct stack qwen3(struct builder *b) {
    struct stack s = qwen(b);
    s.attention.qk_norm = config_bool_or(b->config, "use_qk_norm", true) ? QK_NORM_HEAD : QK_NORM_NONE;
    return s;
}

void build_qwen2(struct builder *b) {
    struct stack s = qwen(b);
    s.attention.has_qkv_bias = true;
    s.attention.has_o_bias = false;
    s.tied_by_default = true;
    stack_build(b, &s);
}

void build_qwen3(struct builder *b) {
    struct stack s = qwen3(b);
    stack_build(b, &s);
}

/* ---- experts ---- */

/* On every decoder_sparse_step-th layer, but for those in mlp_only_layers. */
bool qwen_layer_is_sparse(struct builder *b, uint32_t layer) {
    const struct json *dense = config_get(b->config, "mlp_only_layers");
    for (uint32_t i = 0; json_is_array(dense) && i < dense->count; i++)
        if (json_integer(&dense->items[i], -1) == (int64_t)layer) return false;
    uint32_t step = config_size_or(b->config, "decoder_sparse_step", 1);
    return (layer + 1) % step == 0 && config_integer_or(b->config, "num_experts", 1, 0, 65536) > 0;
}

struct moe_spec qwen_experts(struct builder *b, const struct decoder *d, bool normalize_by_default) {
    struct moe_spec moe = {.router_module = "mlp.gate",
                           .activation = d->activation,
                           .intermediate_size = config_size(b->config, "moe_intermediate_size")};
    moe.router = (struct router_params){.kind = ROUTER_SOFTMAX_ALL,
                                        .factor = 1,
                                        .n_experts = config_size(b->config, "num_experts"),
                                        .top_k = config_size(b->config, "num_experts_per_tok"),
                                        .normalize = config_bool_or(b->config, "norm_topk_prob", normalize_by_default)};
    moe_usual_sources(&moe, b, "mlp");
    return moe;
}

static struct value experts(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    if (!qwen_layer_is_sparse(b, layer)) return stack_mlp(b, x, s, layer);
    struct moe_spec moe = qwen_experts(b, &s->d, false);
    return block_moe(b, x, &moe);
}

/* The vision models' configs may leave norm_topk_prob out and mean true; released files have fused experts [in, out]. */
static struct value normalized_experts(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    if (!qwen_layer_is_sparse(b, layer)) return stack_mlp(b, x, s, layer);
    struct moe_spec moe = qwen_experts(b, &s->d, true);
    const struct tensor *down = weights_find(&b->graph->weights, b->scope, "mlp.experts.down_proj");
    bool is_transposed = down && down->n_dims == 3 && down->shape[1] == moe.intermediate_size &&
                         down->shape[2] == s->d.hidden_size && moe.intermediate_size != s->d.hidden_size;
    moe.gate[2].is_transposed = moe.up[2].is_transposed = moe.down[2].is_transposed = is_transposed;
    return block_moe(b, x, &moe);
}

static struct value experts_beside_shared(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    if (!qwen_layer_is_sparse(b, layer)) return stack_mlp(b, x, s, layer);
    struct moe_spec moe = qwen_experts(b, &s->d, false);
    struct mlp_spec shared = {config_size(b->config, "shared_expert_intermediate_size"), s->d.activation, false};
    struct value beside = block_shared_expert(b, x, &shared, "mlp.shared_expert", "mlp.shared_expert_gate");
    return b_add(b, block_moe(b, x, &moe), beside);
}

void build_qwen3_moe(struct builder *b) {
    struct stack s = qwen3(b);
    s.feed_forward = experts;
    stack_build(b, &s);
}

void build_qwen3_vl_moe(struct builder *b) {
    struct stack s = qwen3(b);
    s.feed_forward = normalized_experts;
    s.adjust = NULL;
    stack_build(b, &s);
}

void build_qwen2_moe(struct builder *b) {
    struct stack s = qwen(b);
    s.attention.has_qkv_bias = config_bool_or(b->config, "qkv_bias", true);
    s.attention.has_o_bias = false;
    s.feed_forward = experts_beside_shared;
    stack_build(b, &s);
}
