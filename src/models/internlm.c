/* SPDX-License-Identifier: Apache-2.0 */
/* InternLM 2 (fused projections by key heads, its own names) and InternLM 3; the first Qwen. */
#include "models/family.h"
#include "models/stack.h"

void build_internlm2(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    s.attention.has_qkv_bias = s.attention.has_o_bias = config_bool_or(b->config, "bias", false);
    s.attention_norm = "attention_norm";
    s.ffn_norm = "ffn_norm";
    s.attention_module = "attention";
    s.attention.qkv_proj = "wqkv";
    s.attention.qkv_layout = QKV_BY_GROUP;
    s.attention.o_proj = "wo";
    s.mlp_module = "feed_forward";
    s.mlp.gate_proj = "w1";
    s.mlp.up_proj = "w3";
    s.mlp.down_proj = "w2";
    s.embedding = "model.tok_embeddings";
    s.head = "output";
    stack_build(b, &s);
}

void build_internlm3(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    s.attention.has_qkv_bias = config_bool_or(b->config, "qkv_bias", false);
    s.attention.has_o_bias = s.mlp.has_bias = config_bool_or(b->config, "bias", false);
    stack_build(b, &s);
}

void build_qwen(struct builder *b) {
    struct stack s = stack_from_config(b, config_real_or(b->config, "rotary_emb_base", 10000));
    s.d.layer_format = "transformer.h.%u";
    s.embedding = "transformer.wte";
    s.final_norm = "transformer.ln_f";
    s.attention_norm = "ln_1";
    s.ffn_norm = "ln_2";
    s.attention_module = "attn";
    s.attention.qkv_proj = "c_attn";
    s.attention.o_proj = "c_proj";
    s.attention.has_qkv_bias = true;
    s.mlp.intermediate_size = s.d.intermediate_size / 2;
    s.mlp.gate_proj = "w2";
    s.mlp.up_proj = "w1";
    s.mlp.down_proj = "c_proj";
    stack_build(b, &s);
}
