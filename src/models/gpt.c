/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2, GPT-BigCode (StarCoder 1, SantaCoder) and GPT-NeoX: LayerNorms and MLPs with biases and without gate, fused
 * projections; the first two with learned positions, the third with partial rope and parallel branches. */
#include "models/family.h"
#include "models/stack.h"

#include <math.h>

static struct stack gpt(struct builder *b, const char *activation_key, const char *activation) {
    struct stack s = stack_from_config(b, 10000);
    stack_use_layer_norm(b, &s, 1e-5);
    s.attention.has_qkv_bias = s.attention.has_o_bias = true;
    s.mlp = (struct mlp_spec){
        .intermediate_size = config_size_or(b->config, "intermediate_size", 4 * s.d.hidden_size),
        .activation = block_activation(b, config_string_or(b->config, activation_key, activation)),
        .has_no_gate = true,
        .has_bias = true,
    };
    return s;
}

/* Names and learned positions of GPT-2 and its relative. */
static struct stack gpt2(struct builder *b) {
    struct stack s = gpt(b, "activation_function", "gelu_new");
    s.d.layer_format = "model.h.%u";
    s.embedding = "model.wte";
    s.positions = "model.wpe";
    s.n_positions = config_size_or(b->config, "max_position_embeddings", 1024);
    s.final_norm = "model.ln_f";
    s.tied_by_default = true;
    s.attention_norm = "ln_1";
    s.ffn_norm = "ln_2";
    s.attention_module = "attn";
    s.attention.has_rope = false;
    s.attention.qkv_proj = "c_attn";
    s.attention.o_proj = "c_proj";
    s.mlp.up_proj = "c_fc";
    s.mlp.down_proj = "c_proj";
    if (!config_bool_or(b->config, "scale_attn_weights", true)) s.attention.scale = 1;
    return s;
}

static void adapt_gpt2(struct builder *b, struct stack *s, uint32_t layer) {
    const double *scale = s->own;
    s->attention.scale = *scale / (layer + 1);
    (void)b;
}

void build_gpt2(struct builder *b) {
    struct stack s = gpt2(b);
    double scale = s.attention.scale != 0 ? s.attention.scale : 1 / sqrt((double)s.d.head_dim);
    s.own = &scale;
    if (config_bool_or(b->config, "scale_attn_by_inverse_layer_idx", false)) s.adjust = adapt_gpt2;
    /* Released files hold [in, out] matrices, MLX files [out, in]; c_attn is never square. */
    builder_layer(b, s.d.layer_format, 0);
    const struct tensor *fused = weights_find(&b->graph->weights, b->scope, "attn.c_attn.weight");
    builder_top(b);
    s.attention.is_transposed = s.mlp.is_transposed = fused && fused->shape[0] == s.d.hidden_size;
    stack_build(b, &s);
}

void build_gpt_bigcode(struct builder *b) {
    struct stack s = gpt2(b);
    bool is_multi_query = config_bool_or(b->config, "multi_query", true);
    s.attention.n_kv_heads = is_multi_query ? 1 : s.d.n_heads;
    s.attention.qkv_layout = QKV_BY_GROUP;
    stack_build(b, &s);
}

void build_gpt_neox(struct builder *b) {
    struct stack s = gpt(b, "hidden_act", "gelu");
    struct config *c = b->config;
    double share = config_real_or(c, "rotary_pct", 0.25), theta = config_real_or(c, "rotary_emb_base", 10000);
    bool is_released = b_has(b, "gpt_neox.embed_in.weight", false);
    s.attention.rope = b_rope_from_config(b, decoder_rotary_dim(b, s.d.head_dim, share), NULL, theta);
    s.attention_module = "attention";
    s.attention.qkv_proj = "query_key_value";
    s.attention.qkv_layout = QKV_BY_GROUP;
    s.attention.o_proj = "dense";
    s.mlp.up_proj = "dense_h_to_4h";
    s.mlp.down_proj = "dense_4h_to_h";
    s.is_parallel = config_bool_or(c, "use_parallel_residual", true);
    s.d.layer_format = is_released ? "gpt_neox.layers.%u" : "model.h.%u";
    s.embedding = "model.embed_in|gpt_neox.embed_in";
    s.final_norm = is_released ? "gpt_neox.final_layer_norm" : "model.final_layer_norm";
    s.head = is_released ? "embed_out" : "model.embed_out";
    stack_build(b, &s);
}
