/* SPDX-License-Identifier: Apache-2.0 */
/* Llama and what differs from it by a few switches: Mistral, Qwen 2, Qwen 3, Mixtral, Qwen 3 MoE. Pre-norm layers of
 * grouped attention and a gated MLP, or experts in its place. */
#include "models/family.h"

#include "models/common.h"

/* The window of layer i, 0 = full. layer_types decide where the config has them; else layers from `first` on slide. */
static uint32_t layer_window(struct builder *b, uint32_t layer, uint32_t window, uint32_t first) {
    const char *type = decoder_layer_type(b, layer);
    if (type) return !strcmp(type, "sliding_attention") ? window : 0;
    return layer >= first ? window : 0;
}

typedef struct value (*feed_forward)(struct builder *b, struct value x, const struct decoder *d, uint32_t layer);

static struct value dense_mlp(struct builder *b, struct value x, const struct decoder *d, uint32_t layer) {
    (void)layer;
    struct mlp_spec mlp = {d->intermediate_size, d->activation, config_bool_or(b->config, "mlp_bias", false)};
    return block_gated_mlp(b, x, &mlp, "mlp");
}

static void build_decoder(struct builder *b, const struct decoder *d, struct attention_spec attention, uint32_t window,
                          uint32_t first_window_layer, feed_forward ffn, bool tied_by_default) {
    const struct weight *embedding = decoder_embedding(b, d, "model.embed_tokens");
    struct value x = b_embed(b, embedding);
    for (uint32_t i = 0; i < d->n_layers && !b->failed; i++) {
        builder_layer(b, "model.layers.%u", i);
        decoder_set_window(&attention, layer_window(b, i, window, first_window_layer));
        struct value n = b_rms_norm(b, x, "input_layernorm.weight", d->norm_eps, false);
        x = b_add(b, x, block_attention(b, n, &attention, "self_attn"));
        n = b_rms_norm(b, x, "post_attention_layernorm.weight", d->norm_eps, false);
        x = b_add(b, x, ffn(b, n, d, i));
        builder_layer_end(b, x);
    }
    decoder_head(b, x, d, embedding, "model.norm.weight", false, "lm_head|model.lm_head", tied_by_default);
}

void build_llama(struct builder *b) {
    struct decoder d = decoder_from_config(b);
    uint32_t window = (uint32_t)config_integer_or(b->config, "sliding_window", 0, 0, INT32_MAX);
    /* Llama itself slides only where layer_types say so. */
    build_decoder(b, &d, decoder_attention(b, &d, 10000), window, UINT32_MAX, dense_mlp, true);
}

void build_mistral(struct builder *b) {
    struct decoder d = decoder_from_config(b);
    uint32_t window = (uint32_t)config_integer_or(b->config, "sliding_window", 0, 0, INT32_MAX);
    build_decoder(b, &d, decoder_attention(b, &d, 10000), window, 0, dense_mlp, false);
}

/* Qwen: windows only with use_sliding_window, on the layers from max_window_layers on. */
static uint32_t qwen_window(struct builder *b, uint32_t *first) {
    uint32_t window = (uint32_t)config_integer_or(b->config, "sliding_window", 0, 0, INT32_MAX);
    *first = (uint32_t)config_integer_or(b->config, "max_window_layers", 28, 0, UINT32_MAX);
    return config_bool_or(b->config, "use_sliding_window", false) ? window : 0;
}

void build_qwen2(struct builder *b) {
    struct decoder d = decoder_from_config(b);
    struct attention_spec attention = decoder_attention(b, &d, 1000000);
    attention.has_qkv_bias = true;
    uint32_t first, window = qwen_window(b, &first);
    build_decoder(b, &d, attention, window, first, dense_mlp, true);
}

static struct attention_spec qwen3_attention(struct builder *b, const struct decoder *d) {
    struct attention_spec attention = decoder_attention(b, d, 1000000);
    attention.qk_norm = config_bool_or(b->config, "use_qk_norm", true) ? QK_NORM_HEAD : QK_NORM_NONE;
    return attention;
}

void build_qwen3(struct builder *b) {
    struct decoder d = decoder_from_config(b);
    uint32_t first, window = qwen_window(b, &first);
    build_decoder(b, &d, qwen3_attention(b, &d), window, first, dense_mlp, false);
}

static struct value mixtral_experts(struct builder *b, struct value x, const struct decoder *d, uint32_t layer) {
    (void)layer;
    struct moe_spec moe = {.router_module = "block_sparse_moe.gate",
                           .intermediate_size = d->intermediate_size,
                           .activation = d->activation};
    moe.router = (struct router_params){.kind = ROUTER_SOFTMAX_TOP,
                                        .factor = 1,
                                        .n_experts = config_size_or(b->config, "num_local_experts", 8),
                                        .top_k = config_size_or(b->config, "num_experts_per_tok", 2)};
    moe_usual_sources(&moe, b, "block_sparse_moe");
    moe.gate[1].module = "block_sparse_moe.experts.%u.w1";
    moe.up[1].module = "block_sparse_moe.experts.%u.w3";
    moe.down[1].module = "block_sparse_moe.experts.%u.w2";
    return block_moe(b, x, &moe);
}

void build_mixtral(struct builder *b) {
    struct decoder d = decoder_from_config(b);
    uint32_t window = (uint32_t)config_integer_or(b->config, "sliding_window", 0, 0, INT32_MAX);
    build_decoder(b, &d, decoder_attention(b, &d, 1000000), window, 0, mixtral_experts, false);
}

/* Experts on every decoder_sparse_step-th layer, but for those in mlp_only_layers. */
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

static struct value qwen3_moe_ffn(struct builder *b, struct value x, const struct decoder *d, uint32_t layer) {
    if (!qwen_layer_is_sparse(b, layer)) return dense_mlp(b, x, d, layer);
    struct moe_spec moe = qwen_experts(b, d, false);
    return block_moe(b, x, &moe);
}

void build_qwen3_moe(struct builder *b) {
    struct decoder d = decoder_from_config(b);
    uint32_t first, window = qwen_window(b, &first);
    build_decoder(b, &d, qwen3_attention(b, &d), window, first, qwen3_moe_ffn, false);
}

static struct value qwen3_vl_moe_ffn(struct builder *b, struct value x, const struct decoder *d, uint32_t layer) {
    if (!qwen_layer_is_sparse(b, layer)) return dense_mlp(b, x, d, layer);
    struct moe_spec moe = qwen_experts(b, d, true);
    /* Released files have fused experts as [in, out]. */
    const struct tensor *down = weights_find(&b->graph->weights, b->scope, "mlp.experts.down_proj");
    bool is_transposed = down && down->n_dims == 3 && down->shape[1] == moe.intermediate_size &&
                         down->shape[2] == d->hidden_size && moe.intermediate_size != d->hidden_size;
    moe.gate[2].is_transposed = moe.up[2].is_transposed = moe.down[2].is_transposed = is_transposed;
    return block_moe(b, x, &moe);
}

void build_qwen3_vl_moe(struct builder *b) {
    struct decoder d = decoder_from_config(b);
    build_decoder(b, &d, qwen3_attention(b, &d), 0, 0, qwen3_vl_moe_ffn, false);
}

static struct value qwen2_moe_ffn(struct builder *b, struct value x, const struct decoder *d, uint32_t layer) {
    if (!qwen_layer_is_sparse(b, layer)) return dense_mlp(b, x, d, layer);
    struct moe_spec moe = qwen_experts(b, d, false);
    struct mlp_spec shared = {config_size(b->config, "shared_expert_intermediate_size"), d->activation, false};
    struct value beside = block_shared_expert(b, x, &shared, "mlp.shared_expert", "mlp.shared_expert_gate");
    return b_add(b, block_moe(b, x, &moe), beside);
}

void build_qwen2_moe(struct builder *b) {
    struct decoder d = decoder_from_config(b);
    struct attention_spec attention = decoder_attention(b, &d, 1000000);
    attention.has_qkv_bias = config_bool_or(b->config, "qkv_bias", true);
    uint32_t first, window = qwen_window(b, &first);
    build_decoder(b, &d, attention, window, first, qwen2_moe_ffn, false);
}
