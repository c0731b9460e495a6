/* SPDX-License-Identifier: Apache-2.0 */
/* Text parts of Molmo 1 and 2 (fused projections, the gate in the second half, a second table for added tokens) and of
 * Moondream 2 (Phi's layers with fused projections). */
#include "models/family.h"
#include "models/stack.h"

static struct stack molmo(struct builder *b) {
    struct config *c = b->config;
    struct stack s = stack_from_config(b, 1000000);
    bool is_released = b_has(b, "model.transformer.wte.embedding", false);
    if (config_bool_or(c, "norm_after", false))
        builder_fail(b, ERROR_UNSUPPORTED, "%s: 'norm_after' changes the network and is not implemented", c->path);
    s.d.layer_format = is_released ? "model.transformer.blocks.%u" : "model.blocks.%u";
    s.embedding = is_released ? "model.transformer.wte.embedding" : "model.wte.embedding";
    s.more_embeddings = is_released ? "model.transformer.wte.new_embedding" : "model.wte.new_embedding";
    s.n_more_embeddings = config_size_or(c, "additional_vocab_size", 128);
    s.final_norm = is_released ? "model.transformer.ln_f" : "model.ln_f";
    s.attention_norm = "attn_norm";
    s.ffn_norm = "ff_norm";
    s.attention.has_qkv_bias = config_bool_or(c, "qkv_bias", false);
    s.attention.has_o_bias = false;
    s.attention.qkv_proj = "att_proj";
    s.attention.o_proj = "attn_out";
    s.mlp.gate_up_proj = "ff_proj";
    s.mlp.up_is_first = true;
    s.mlp.down_proj = "ff_out";
    s.norm.eps = s.attention.qk_norm_eps = (float)config_real_or(c, "layer_norm_eps", 1e-6);
    return s;
}

void build_molmo(struct builder *b) {
    struct config *c = b->config;
    struct stack s = molmo(b);
    const char *norm = config_string_or(c, "layer_norm_type", "rms"), *rope = config_string_or(c, "rope_impl", "llama");
    if (strcmp(norm, "rms") != 0)
        builder_fail(b, ERROR_UNSUPPORTED, "%s: layer_norm_type '%s' is not implemented", c->path, norm);
    s.d.vocab_size = config_size_or(c, "embedding_size", s.d.vocab_size);
    s.d.activation = UNARY_SILU;
    s.attention.rope_interleaved = !strcmp(rope, "interleave");
    s.attention_module = s.mlp_module = NULL;
    s.mlp.intermediate_size = s.d.intermediate_size / 2;
    s.head = "model.ff_out|model.transformer.ff_out";
    b->graph->vocab_size = s.d.vocab_size;
    stack_build(b, &s);
}

void build_molmo2(struct builder *b) {
    struct stack s = molmo(b);
    bool is_per_head = !strcmp(config_string_or(b->config, "qk_norm_type", "qwen3"), "qwen3");
    if (config_bool_or(b->config, "use_qk_norm", true)) s.attention.qk_norm = is_per_head ? QK_NORM_HEAD : QK_NORM_ALL;
    stack_build(b, &s);
}

void build_moondream2(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    stack_use_layer_norm(b, &s, 1e-5);
    if (b_has(b, "model.text.wte", false)) {
        s.d.layer_format = "model.text.blocks.%u";
        s.embedding = "model.text.wte";
        s.head = "model.text.lm_head";
    }
    s.attention.rope = b_rope_from_config(b, decoder_rotary_dim(b, s.d.head_dim, 0.5), NULL, 10000);
    s.attention.has_qkv_bias = s.attention.has_o_bias = s.d.head_has_bias = true;
    s.attention_module = "attn";
    s.attention.qkv_proj = "qkv";
    s.attention.o_proj = "proj";
    s.attention_norm = "ln";
    s.ffn_norm = NULL;
    s.is_parallel = true;
    s.mlp.activation = block_activation(b, config_string_or(b->config, "hidden_act", "gelu_pytorch_tanh"));
    s.mlp.has_no_gate = s.mlp.has_bias = true;
    s.mlp.up_proj = "fc1";
    s.mlp.down_proj = "fc2";
    s.final_norm = b_has(b, "model.text.wte", false) ? "model.text.post_ln" : "model.post_ln";
    stack_build(b, &s);
}
