/* SPDX-License-Identifier: Apache-2.0 */
/* GLM-4 (dense): interleaved rope on half of the head, gate and up in one tensor; the second generation also normalises
 * the branches' outputs. */
#include "models/family.h"

static struct decoder_spec glm(struct builder *b) {
    struct decoder_spec s = decoder_usual(b, 10000);
    s.layer.attention.has_o_bias = false;
    s.layer.attention.rope_interleaved = true;
    s.layer.attention.rope = b_rope_from_config(b, decoder_rotary_dim(b, s.d.head_dim, 0.5), NULL, 10000);
    s.layer.mlp.gate_up_proj = "gate_up_proj";
    return s;
}

void build_glm(struct builder *b) {
    struct decoder_spec s = glm(b);
    decoder_build(b, &s);
}

void build_glm4(struct builder *b) {
    struct decoder_spec s = glm(b);
    s.layer.attention_out_norm = "post_self_attn_layernorm";
    s.layer.mlp_out_norm = "post_mlp_layernorm";
    decoder_build(b, &s);
}
