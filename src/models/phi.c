/* SPDX-License-Identifier: Apache-2.0 */
/* Phi 1 and 2: both branches in parallel after one LayerNorm, biases everywhere, partial rope, no gate. Phi 3 and 4:
 * the baseline with fused projections, a window, and longrope in the long variants. */
#include "models/family.h"
#include "models/stack.h"

void build_phi(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    struct attention_spec *a = &s.attention;
    stack_use_layer_norm(b, &s, 1e-5);
    a->rope = b_rope_from_config(b, decoder_rotary_dim(b, s.d.head_dim, 0.5), NULL, 10000);
    a->has_qkv_bias = a->has_o_bias = true;
    a->o_proj = "dense";
    if (config_bool_or(b->config, "qk_layernorm", false)) {
        a->qk_norm = QK_NORM_HEAD;
        a->qk_norm_kind = NORM_LAYER;
        a->q_norm = "q_layernorm";
        a->k_norm = "k_layernorm";
    }
    s.ffn_norm = NULL;
    s.is_parallel = true;
    s.mlp.activation = block_activation(b, config_string_or(b->config, "hidden_act", "gelu_new"));
    s.mlp.has_no_gate = s.mlp.has_bias = true;
    s.mlp.up_proj = "fc1";
    s.mlp.down_proj = "fc2";
    s.final_norm = "model.final_layernorm";
    s.d.head_has_bias = true;
    stack_build(b, &s);
}

void build_phi3(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    s.attention.qkv_proj = "qkv_proj";
    s.mlp.gate_up_proj = "gate_up_proj";
    decoder_set_window(&s.attention, config_count_or(b->config, "sliding_window", 0));
    stack_build(b, &s);
}
