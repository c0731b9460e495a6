/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-J: attention and an MLP without gate in parallel after one LayerNorm, rope in pairs on the first rotary_dim
 * dimensions of a head, biases in the MLP and on the head. */
#include "models/family.h"
#include "models/stack.h"

void build_gptj(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    struct config *c = b->config;
    stack_use_layer_norm(b, &s, 1e-5);
    s.d.layer_format = "model.h.%u";
    s.d.head_has_bias = true;
    s.embedding = "model.wte";
    s.final_norm = "model.ln_f";
    s.attention_norm = "ln_1";
    s.ffn_norm = NULL;
    s.is_parallel = true;
    s.attention_module = "attn";
    s.attention.o_proj = "out_proj";
    s.attention.rope_interleaved = true;
    uint32_t rotary = (uint32_t)config_integer_or(c, "rotary_dim", 64, 2, s.d.head_dim) & ~1u;
    s.attention.rope = b_rope_from_config(b, rotary, NULL, 10000);
    s.mlp = (struct mlp_spec){
        .intermediate_size = config_size_or(c, "intermediate_size", 4 * s.d.hidden_size),
        .activation = block_activation(b, config_string_or(c, "activation_function", "gelu_new")),
        .has_no_gate = true,
        .has_bias = true,
        .up_proj = "fc_in",
        .down_proj = "fc_out",
    };
    stack_build(b, &s);
}
