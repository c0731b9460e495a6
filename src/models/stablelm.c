/* SPDX-License-Identifier: Apache-2.0 */
/* Decoders with LayerNorms and rope: StableLM, StarCoder 2, Nemotron. */
#include "models/family.h"
#include "models/stack.h"

void build_stablelm(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    struct attention_spec *a = &s.attention;
    stack_use_layer_norm(b, &s, 1e-5);
    a->has_qkv_bias = config_bool_or(b->config, "use_qkv_bias", false);
    a->rope = b_rope_from_config(b, decoder_rotary_dim(b, s.d.head_dim, 0.25), NULL, 10000);
    a->qk_norm = config_bool_or(b->config, "qk_layernorm", false) ? QK_NORM_EACH : QK_NORM_NONE;
    a->qk_norm_kind = NORM_LAYER;
    a->q_norm = "q_layernorm";
    a->k_norm = "k_layernorm";
    s.is_parallel = config_bool_or(b->config, "use_parallel_residual", false);
    if (s.is_parallel) s.ffn_norm = NULL;
    stack_build(b, &s);
}

void build_starcoder2(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    stack_use_layer_norm(b, &s, 1e-5);
    bool has_bias = config_bool_or(b->config, "use_bias", true);
    s.attention.has_qkv_bias = s.attention.has_o_bias = s.mlp.has_bias = has_bias;
    s.mlp.activation = block_activation(b, config_string_or(b->config, "hidden_act", "gelu_pytorch_tanh"));
    s.mlp.has_no_gate = true;
    s.mlp.up_proj = "c_fc";
    s.mlp.down_proj = "c_proj";
    s.tied_by_default = true;
    decoder_set_window(&s.attention, config_count_or(b->config, "sliding_window", 0));
    stack_build(b, &s);
}

void build_nemotron(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    stack_use_layer_norm(b, &s, 1e-5);
    s.norm.plus_one = true;
    s.attention.rope = b_rope_from_config(b, decoder_rotary_dim(b, s.d.head_dim, 0.5), NULL, 10000);
    s.mlp.activation = block_activation(b, config_string_or(b->config, "hidden_act", "relu2"));
    s.mlp.has_no_gate = true;
    stack_build(b, &s);
}
