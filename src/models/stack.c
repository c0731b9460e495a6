/* SPDX-License-Identifier: Apache-2.0 */
#include "models/stack.h"

#include <string.h>

struct stack stack_usual(struct builder *b) {
    struct stack s = {.d = decoder_from_config(b),
                      .attention_module = "self_attn",
                      .attention_norm = "input_layernorm",
                      .ffn_norm = "post_attention_layernorm",
                      .embedding = "model.embed_tokens",
                      .final_norm = "model.norm",
                      .head = "lm_head|model.lm_head",
                      .mlp_module = "mlp"};
    s.norm.eps = s.d.norm_eps;
    s.mlp = (struct mlp_spec){.intermediate_size = s.d.intermediate_size,
                              .activation = s.d.activation,
                              .has_bias = config_bool_or(b->config, "mlp_bias", false)};
    return s;
}

struct stack stack_from_config(struct builder *b, double theta) {
    struct stack s = stack_usual(b);
    s.attention = decoder_attention(b, &s.d, theta);
    return s;
}

void stack_use_layer_norm(struct builder *b, struct stack *s, double default_eps) {
    s->norm.kind = NORM_LAYER;
    s->norm.eps = (float)config_real_or(b->config, "layer_norm_eps", default_eps);
    s->norm.has_bias = true;
    s->attention.qk_norm_eps = s->norm.eps;
}

void stack_use_post_norms(struct stack *s) {
    s->attention_norm = s->ffn_norm = NULL;
    s->attention_post_norm = "post_attention_layernorm";
    s->ffn_post_norm = "post_feedforward_layernorm";
}

struct position_scale stack_position_scale(struct builder *b) {
    struct config *c = b->config;
    const struct json *rope = config_get(c, "rope_parameters");
    if (!rope) rope = config_get(c, "rope_scaling");
    struct position_scale scale = {
        .beta = config_object_real_or(c, rope, "rope_parameters", "llama_4_scaling_beta", 0),
        .length = config_object_real_or(c, rope, "rope_parameters", "original_max_position_embeddings", 8192),
    };
    if (!(scale.length >= 1))
        builder_fail(b, ERROR_FORMAT, "%s: original_max_position_embeddings is %g", c->path, scale.length);
    return scale;
}

uint32_t rotary_share(struct builder *b, uint32_t head_dim, double share) {
    uint32_t n = share > 0 && share <= 1 ? (uint32_t)(head_dim * share) & ~1u : 0;
    if (!n) builder_fail(b, ERROR_FORMAT, "%s: a share of %g of the head cannot rotate", b->config->path, share);
    return n ? n : 2;
}

uint32_t json_size(struct builder *b, const struct json *value, uint32_t fallback) {
    if (!value || json_is_null(value)) return fallback;
    int64_t n = json_integer(value, 0);
    if (n >= 1 && n <= 65536) return (uint32_t)n;
    builder_fail(b, ERROR_FORMAT, "%s: a list or object of sizes holds no size from 1 to 65536", b->config->path);
    return fallback;
}

struct value stack_mlp(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    (void)layer;
    return block_mlp(b, x, &s->mlp, s->mlp_module);
}

bool stack_is_sliding(struct builder *b, uint32_t layer, bool otherwise) {
    const char *type = decoder_layer_type(b, layer);
    return type ? !strcmp(type, "sliding_attention") : otherwise;
}

static struct value normalized(struct builder *b, struct value x, const struct stack *s, const char *module) {
    return module ? block_norm(b, x, &s->norm, module) : x;
}

static struct value branch_sum(struct builder *b, struct value x, struct value branch, const struct stack *s,
                               const char *post_norm) {
    branch = normalized(b, branch, s, post_norm);
    return b_add(b, x, b_scale(b, branch, s->residual_factor != 0 ? s->residual_factor : 1));
}

static struct value build_layer(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    struct value input = x, n = x, normed = x;
    if (!s->has_no_attention) {
        n = normed = normalized(b, x, s, s->attention_norm);
        n = s->mix ? s->mix(b, n, s, layer) : block_attention(b, n, &s->attention, s->attention_module);
        x = branch_sum(b, x, n, s, s->attention_post_norm);
    }
    if (s->has_no_ffn) return x;
    n = s->is_parallel && !s->ffn_norm ? normed : normalized(b, s->is_parallel ? input : x, s, s->ffn_norm);
    n = (s->feed_forward ? s->feed_forward : stack_mlp)(b, n, s, layer);
    return branch_sum(b, x, n, s, s->ffn_post_norm);
}

void stack_build(struct builder *b, struct stack *s) {
    const struct weight *embedding = decoder_embedding(b, &s->d, s->embedding);
    const struct weight *more = NULL;
    if (s->more_embeddings)
        more = b_matrix(b, ROLE_EMBEDDING, s->more_embeddings, s->n_more_embeddings, s->d.hidden_size);
    struct value x = b_scale(b, b_embed_with(b, embedding, more), s->embedding_factor != 0 ? s->embedding_factor : 1);
    if (s->embed) x = s->embed(b, x, s);
    if (s->embedding_norm) x = block_norm(b, x, &s->norm, s->embedding_norm);
    if (s->positions) {
        const struct weight *table = b_matrix(b, ROLE_EMBEDDING, s->positions, s->n_positions, s->d.hidden_size);
        x = b_add(b, x, b_embed_position(b, table));
    }
    for (uint32_t i = 0; i < s->d.n_layers && !b->failed; i++) {
        builder_layer(b, s->d.layer_format, i);
        if (s->adjust) s->adjust(b, s, i);
        x = (s->layer ? s->layer : build_layer)(b, x, s, i);
        builder_layer_end(b, x);
    }
    builder_top(b);
    x = block_norm(b, b_select_outputs(b, x), &s->norm, s->final_norm);
    x = b_scale(b, x, s->head_input_factor != 0 ? s->head_input_factor : 1);
    b->graph->hidden = x;
    if (s->normalizes_head) {
        const struct weight *head = b_matrix(b, ROLE_HEAD, s->head, s->d.vocab_size, s->d.hidden_size);
        x = b_linear(b, b_weigh(b, x, b_inverse_column_lengths(b, head)), head, NULL);
    } else {
        x = decoder_logits(b, x, &s->d, embedding, s->head, s->tied_by_default);
    }
    x = b_scale(b, x, s->logits_factor != 0 ? s->logits_factor : 1);
    if (s->final_softcap != 0) x = b_softcap(b, x, s->final_softcap);
    b->graph->logits = x;
}

/* ---- experts as DeepSeek has them ---- */

struct moe_spec routed_experts(struct builder *b, const struct decoder *d, enum router_kind kind) {
    struct config *c = b->config;
    struct moe_spec moe = {
        .router_module = "mlp.gate|mlp.router.gate|mlp.router",
        .correction =
            "mlp.gate.e_score_correction_bias|mlp.e_score_correction_bias|mlp.expert_bias|mlp.gate.expert_bias",
        .has_correction = kind == ROUTER_SIGMOID,
        .activation = d->activation,
        .intermediate_size = config_size(c, "moe_intermediate_size"),
    };
    moe.router = (struct router_params){.kind = kind,
                                        .n_experts = config_size(c, "num_experts"),
                                        .top_k = config_size_or(c, "num_experts_per_tok", 8),
                                        .n_groups = config_size_or(c, "n_group", 1),
                                        .top_groups = config_size_or(c, "topk_group", 1),
                                        .normalize = config_bool_or(c, "norm_topk_prob", kind == ROUTER_SIGMOID),
                                        .group_to_lowest = true,
                                        .normalize_epsilon = kind == ROUTER_SIGMOID ? 1e-20f : 0,
                                        .factor = (float)config_real_or(c, "routed_scaling_factor", 1)};
    moe_usual_sources(&moe, b, "mlp");
    return moe;
}

bool has_routed_experts(struct builder *b, uint32_t layer) {
    struct config *c = b->config;
    const struct json *types = config_get(c, "mlp_layer_types"), *flags = config_get(c, "is_moe_layer");
    const struct json *steps = config_get(c, "moe_layer_freq");
    config_ignore(c, "n_routed_experts"); /* all layers may be dense */
    config_ignore(c, "num_experts");
    uint32_t first = config_count_or(c, "first_k_dense_replace", 0);
    if (json_is_array(types)) return json_string_is(json_at(types, layer), "sparse");
    if (json_is_array(flags)) return json_bool(json_at(flags, layer), false);
    if (json_is_array(steps)) return json_integer(json_at(steps, layer), 0) != 0;
    return layer >= first && layer % config_size_or(c, "moe_layer_freq", 1) == 0;
}

struct value experts_with_shared(struct builder *b, struct value x, const struct moe_spec *moe, uint32_t n_shared,
                                 const char *shared_module) {
    struct value out = block_moe(b, x, moe);
    if (!n_shared) return out;
    struct mlp_spec shared = {.intermediate_size = n_shared * moe->intermediate_size, .activation = moe->activation};
    return b_add(b, out, block_shared_expert(b, x, &shared, shared_module, NULL));
}

static struct value routed(struct builder *b, struct value x, struct stack *s, uint32_t layer, enum router_kind kind) {
    if (!has_routed_experts(b, layer)) return stack_mlp(b, x, s, layer);
    struct moe_spec moe = routed_experts(b, &s->d, kind);
    uint32_t n_shared = (uint32_t)config_integer_or(b->config, "n_shared_experts", 0, 0, 1024);
    return experts_with_shared(b, x, &moe, n_shared, "mlp.shared_experts");
}

struct value routed_sigmoid(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    return routed(b, x, s, layer, ROUTER_SIGMOID);
}

struct value routed_softmax(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    return routed(b, x, s, layer, ROUTER_SOFTMAX_ALL);
}
