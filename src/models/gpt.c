/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2, GPT-BigCode (StarCoder 1, SantaCoder) and GPT-NeoX: LayerNorms and MLPs with biases and without gate, fused
 * projections; the first two with learned positions, the third with partial rope and parallel branches. */
#include "models/family.h"

#include <math.h>

static struct decoder_spec gpt(struct builder *b, const char *activation_key, const char *activation) {
    struct decoder_spec s = decoder_usual(b, 10000);
    struct layer_spec *l = &s.layer;
    decoder_use_layer_norm(b, &s, 1e-5);
    l->attention.has_qkv_bias = l->attention.has_o_bias = true;
    l->mlp = (struct mlp_spec){
        .intermediate_size = config_size_or(b->config, "intermediate_size", 4 * s.d.hidden_size),
        .activation = block_activation(b, config_string_or(b->config, activation_key, activation)),
        .has_no_gate = true,
        .has_bias = true,
    };
    return s;
}

/* Names and learned positions of GPT-2 and its relative. */
static struct decoder_spec gpt2(struct builder *b) {
    struct decoder_spec s = gpt(b, "activation_function", "gelu_new");
    s.d.layer_format = "model.h.%u";
    s.embedding = "model.wte";
    s.positions = "model.wpe";
    s.n_positions = config_size_or(b->config, "max_position_embeddings", 1024);
    s.final_norm = "model.ln_f";
    s.tied_by_default = true;
    s.layer.attention_norm = "ln_1";
    s.layer.mlp_norm = "ln_2";
    s.layer.attention_module = "attn";
    s.layer.attention.has_rope = false;
    s.layer.attention.qkv_proj = "c_attn";
    s.layer.attention.o_proj = "c_proj";
    s.layer.mlp.up_proj = "c_fc";
    s.layer.mlp.down_proj = "c_proj";
    if (!config_bool_or(b->config, "scale_attn_weights", true)) s.layer.attention.scale = 1;
    return s;
}

static void adapt_gpt2(struct builder *b, struct decoder_spec *s, uint32_t layer) {
    const double *scale = s->context;
    s->layer.attention.scale = *scale / (layer + 1);
    (void)b;
}

void build_gpt2(struct builder *b) {
    struct decoder_spec s = gpt2(b);
    double scale = s.layer.attention.scale != 0 ? s.layer.attention.scale : 1 / sqrt((double)s.d.head_dim);
    s.context = &scale;
    if (config_bool_or(b->config, "scale_attn_by_inverse_layer_idx", false)) s.adapt = adapt_gpt2;
    /* Released files hold [in, out] matrices, MLX files [out, in]; c_attn is never square. */
    builder_layer(b, s.d.layer_format, 0);
    const struct tensor *fused = weights_find(&b->graph->weights, b->scope, "attn.c_attn.weight");
    builder_top(b);
    s.layer.attention.is_transposed = s.layer.mlp.is_transposed = fused && fused->shape[0] == s.d.hidden_size;
    decoder_build(b, &s);
}

void build_gpt_bigcode(struct builder *b) {
    struct decoder_spec s = gpt2(b);
    bool is_multi_query = config_bool_or(b->config, "multi_query", true);
    s.layer.attention.n_kv_heads = is_multi_query ? 1 : s.d.n_heads;
    s.layer.attention.qkv_layout = QKV_BY_GROUP;
    decoder_build(b, &s);
}

void build_gpt_neox(struct builder *b) {
    struct decoder_spec s = gpt(b, "hidden_act", "gelu");
    struct config *c = b->config;
    struct layer_spec *l = &s.layer;
    double share = config_real_or(c, "rotary_pct", 0.25), theta = config_real_or(c, "rotary_emb_base", 10000);
    bool is_released = b_has(b, "gpt_neox.embed_in.weight", false);
    l->attention.rope = b_rope_from_config(b, decoder_rotary_dim(b, s.d.head_dim, share), NULL, theta);
    l->attention_module = "attention";
    l->attention.qkv_proj = "query_key_value";
    l->attention.qkv_layout = QKV_BY_GROUP;
    l->attention.o_proj = "dense";
    l->mlp.up_proj = "dense_h_to_4h";
    l->mlp.down_proj = "dense_4h_to_h";
    l->is_parallel = config_bool_or(c, "use_parallel_residual", true);
    s.d.layer_format = is_released ? "gpt_neox.layers.%u" : "model.h.%u";
    s.embedding = "model.embed_in|gpt_neox.embed_in";
    s.final_norm = is_released ? "gpt_neox.final_layer_norm" : "model.final_layer_norm";
    s.head = is_released ? "embed_out" : "model.embed_out";
    decoder_build(b, &s);
}
