/* SPDX-License-Identifier: Apache-2.0 */
/* GLM-4 (dense): interleaved rope on half of the head, gate and up in one tensor; the second generation also normalises
 * the branches' outputs. */
#include "models/family.h"
#include "models/stack.h"

static struct stack glm(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    s.attention.has_o_bias = false;
    s.attention.rope_interleaved = true;
    s.attention.rope = b_rope_from_config(b, decoder_rotary_dim(b, s.d.head_dim, 0.5), NULL, 10000);
    s.mlp.gate_up_proj = "gate_up_proj";
    return s;
}

void build_glm(struct builder *b) {
    struct stack s = glm(b);
    stack_build(b, &s);
}

void build_glm4(struct builder *b) {
    struct stack s = glm(b);
    s.attention_post_norm = "post_self_attn_layernorm";
    s.ffn_post_norm = "post_mlp_layernorm";
    stack_build(b, &s);
}
