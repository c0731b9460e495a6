/* SPDX-License-Identifier: Apache-2.0 */
/* MiniMax M3 (text): norms with 1 + w, an index that chooses blocks of cells for each key head on the sparse layers,
 * bounded gates in the dense MLP, the experts and the shared expert. */
#include "models/family.h"
#include "models/stack.h"

static const struct json *sparse_config(struct builder *b, const char *key) {
    return json_get(config_get(b->config, "sparse_attention_config"), key);
}

/* A size at the top, or under its older name in sparse_attention_config. */
static uint32_t index_size(struct builder *b, const char *key, const char *older, uint32_t fallback) {
    return config_size_or(b->config, key, json_size(b, sparse_config(b, older), fallback));
}

static void adjust(struct builder *b, struct stack *s, uint32_t layer) {
    const char *type = decoder_layer_type(b, layer);
    const struct json *flags = sparse_config(b, "sparse_attention_freq");
    bool is_sparse = json_is_array(flags) && json_integer(json_at(flags, layer), 0) != 0;
    if (type) is_sparse = !strcmp(type, "minimax_m3_sparse");
    s->attention.index = is_sparse ? s->own : NULL;
}

static struct value feed_forward(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    struct config *c = b->config;
    bool is_listed = config_has(c, "mlp_layer_types") || config_has(c, "moe_layer_freq");
    if (is_listed && !has_routed_experts(b, layer)) return stack_mlp(b, x, s, layer);
    struct moe_spec moe = {.router_module = "mlp.gate|block_sparse_moe.gate",
                           .correction = "mlp.gate.e_score_correction_bias|block_sparse_moe.e_score_correction_bias",
                           .has_correction = true,
                           .activation = s->mlp.activation,
                           .limits = s->mlp.limits,
                           .intermediate_size = s->d.intermediate_size};
    moe.router = (struct router_params){.kind = ROUTER_SIGMOID,
                                        .n_experts = config_size(c, "num_local_experts"),
                                        .top_k = config_size(c, "num_experts_per_tok"),
                                        .normalize = true,
                                        .factor = (float)config_real_or(c, "routed_scaling_factor", 2)};
    bool is_inside = b_has(b, "mlp.gate.weight", true);
    moe_usual_sources(&moe, b, is_inside ? "mlp" : "block_sparse_moe");
    struct mlp_spec shared = s->mlp;
    shared.intermediate_size = config_size_or(c, "shared_intermediate_size", s->d.intermediate_size);
    const char *module = is_inside ? "mlp.shared_experts" : "block_sparse_moe.shared_experts";
    return b_add(b, block_moe(b, x, &moe), block_shared_expert(b, x, &shared, module, NULL));
}

void build_minimax_m3(struct builder *b) {
    struct config *c = b->config;
    struct stack s = stack_from_config(b, 5000000);
    uint32_t share = decoder_rotary_dim(b, s.d.head_dim, 1), rotary = config_size_or(c, "rotary_dim", share);
    if (!json_is_null(json_get(config_get(c, "rope_parameters"), "partial_rotary_factor"))) rotary = share;
    if (config_real_or(c, "swiglu_alpha", 1.702) != 1.702)
        builder_fail(b, ERROR_UNSUPPORTED, "%s: 'swiglu_alpha' is not 1.702", c->path);
    s.norm.plus_one = true;
    s.attention.qk_norm = QK_NORM_HEAD;
    s.attention.qk_norm_plus_one = true;
    s.attention.rope = b_rope_from_config(b, rotary < s.d.head_dim ? rotary : s.d.head_dim, NULL, 5000000);
    s.mlp.intermediate_size = config_size_or(c, "dense_intermediate_size", s.d.intermediate_size);
    s.mlp.activation = UNARY_GELU_QUICK;
    s.mlp.limits = (struct gate_limits){.limit = config_real_or(c, "swiglu_limit", 7), .up_plus_one = true};
    s.mlp.gate_up_proj = "gate_up_proj";
    struct index_spec index = {.n_heads = index_size(b, "index_n_heads", "sparse_num_index_heads", 4),
                               .head_dim = index_size(b, "index_head_dim", "sparse_index_dim", 128),
                               .block = index_size(b, "index_block_size", "sparse_block_size", 128),
                               .top_k = index_size(b, "index_topk_blocks", "sparse_topk_blocks", 16),
                               .n_local = index_size(b, "index_local_blocks", "sparse_local_block", 1),
                               .norm_eps = s.d.norm_eps,
                               .norm_plus_one = true,
                               .rope = s.attention.rope};
    s.own = &index;
    s.adjust = adjust;
    s.feed_forward = feed_forward;
    stack_build(b, &s);
}
