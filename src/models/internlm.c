/* SPDX-License-Identifier: Apache-2.0 */
/* InternLM 2 (fused projections by key heads, its own names) and InternLM 3; the first Qwen. */
#include "models/family.h"

void build_internlm2(struct builder *b) {
    struct decoder_spec s = decoder_usual(b, 10000);
    s.layer.attention.has_qkv_bias = s.layer.attention.has_o_bias = config_bool_or(b->config, "bias", false);
    s.layer.attention_norm = "attention_norm";
    s.layer.mlp_norm = "ffn_norm";
    s.layer.attention_module = "attention";
    s.layer.attention.qkv_proj = "wqkv";
    s.layer.attention.qkv_layout = QKV_BY_GROUP;
    s.layer.attention.o_proj = "wo";
    s.layer.mlp_module = "feed_forward";
    s.layer.mlp.gate_proj = "w1";
    s.layer.mlp.up_proj = "w3";
    s.layer.mlp.down_proj = "w2";
    s.embedding = "model.tok_embeddings";
    s.head = "output";
    decoder_build(b, &s);
}

void build_internlm3(struct builder *b) {
    struct decoder_spec s = decoder_usual(b, 10000);
    s.layer.attention.has_qkv_bias = config_bool_or(b->config, "qkv_bias", false);
    s.layer.attention.has_o_bias = s.layer.mlp.has_bias = config_bool_or(b->config, "bias", false);
    decoder_build(b, &s);
}

void build_qwen(struct builder *b) {
    struct decoder_spec s = decoder_usual(b, config_real_or(b->config, "rotary_emb_base", 10000));
    s.d.layer_format = "transformer.h.%u";
    s.embedding = "transformer.wte";
    s.final_norm = "transformer.ln_f";
    s.layer.attention_norm = "ln_1";
    s.layer.mlp_norm = "ln_2";
    s.layer.attention_module = "attn";
    s.layer.attention.qkv_proj = "c_attn";
    s.layer.attention.o_proj = "c_proj";
    s.layer.attention.has_qkv_bias = true;
    s.layer.mlp.intermediate_size = s.d.intermediate_size / 2;
    s.layer.mlp.gate_proj = "w2";
    s.layer.mlp.up_proj = "w1";
    s.layer.mlp.down_proj = "c_proj";
    decoder_build(b, &s);
}
