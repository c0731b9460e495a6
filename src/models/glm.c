/* SPDX-License-Identifier: Apache-2.0 */
/* GLM-4 (dense): interleaved rope on half of the head, gate and up in one tensor; the second generation also normalises
 * the branches' outputs. */
#include "models/family.h"
#include "models/stack.h"

static struct stack glm(struct builder *b, double rotary_share) {
    struct stack s = stack_from_config(b, 10000);
    s.attention.has_o_bias = false;
    s.attention.rope_interleaved = true;
    s.attention.rope = b_rope_from_config(b, decoder_rotary_dim(b, s.d.head_dim, rotary_share), NULL, 10000);
    s.mlp.gate_up_proj = "gate_up_proj";
    return s;
}

void build_glm(struct builder *b) {
    struct stack s = glm(b, 0.5);
    stack_build(b, &s);
}

static void build_four_norms(struct builder *b, double rotary_share) {
    struct stack s = glm(b, rotary_share);
    s.attention_post_norm = "post_self_attn_layernorm";
    s.ffn_post_norm = "post_mlp_layernorm";
    stack_build(b, &s);
}

void build_glm4(struct builder *b) { build_four_norms(b, 0.5); }

void build_glm_ocr(struct builder *b) { build_four_norms(b, 1); }
