/* SPDX-License-Identifier: Apache-2.0 */
/* Small decoders with habits of their own: nanochat, Lille, OpenELM, PLaMo 1. */
#include "models/family.h"
#include "models/stack.h"

#include <math.h>

/* Norms without weights, also after the embedding; rope turns the other way; q and k are normalised after it. */
void build_nanochat(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    s.norm = (struct norm_spec){.eps = 1e-5f, .is_plain = true};
    s.embedding_norm = "";
    s.d.layer_format = "transformer.h.%u";
    s.embedding = "transformer.wte";
    s.attention_module = "attn";
    s.attention.rope = b_rope_negated(b, s.attention.rope);
    s.attention.qk_norm = QK_NORM_HEAD;
    s.attention.qk_norm_is_plain = s.attention.qk_norm_after_rope = true;
    s.attention.qk_norm_eps = 1e-5f;
    s.attention.q_proj = "c_q";
    s.attention.k_proj = "c_k";
    s.attention.v_proj = "c_v";
    s.attention.o_proj = "c_proj";
    s.mlp.activation = block_activation(b, config_string_or(b->config, "hidden_act", "relu2"));
    s.mlp.has_no_gate = true;
    s.mlp.up_proj = "c_fc";
    s.mlp.down_proj = "c_proj";
    s.final_softcap = (float)config_real_or(b->config, "logits_soft_cap", 15);
    stack_build(b, &s);
}

void build_lille(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    s.norm.eps = (float)config_real_or(b->config, "layer_norm_eps", 1e-5);
    s.d.layer_format = "transformer.layers.%u";
    s.embedding = "transformer.tok_embeddings";
    s.final_norm = "transformer.norm";
    s.attention_module = "attention";
    s.attention_norm = "attention.norm";
    s.attention.rope_interleaved = true;
    s.attention.qkv_proj = "qkv_proj";
    s.attention.o_proj = "out_proj";
    s.ffn_norm = "feed_forward.norm";
    s.mlp_module = "feed_forward";
    s.mlp.intermediate_size = 256 * (uint32_t)nearbyint(floor(8.0 * s.d.hidden_size / 3) / 256);
    s.tied_by_default = true;
    stack_build(b, &s);
}

/* OpenELM: numbers of heads and the MLP's width change from layer to layer (Mehta et al. 2024). */
static uint32_t divisible(double value, uint32_t divisor) {
    uint32_t rounded = (uint32_t)((value + divisor / 2.0) / divisor) * divisor;
    if (rounded < divisor) rounded = divisor;
    return rounded < 0.9 * value ? rounded + divisor : rounded;
}

static void adjust_openelm(struct builder *b, struct stack *s, uint32_t layer) {
    const struct json *multipliers = config_get(b->config, "ffn_multipliers");
    double multiplier = json_number(json_at(multipliers, layer), NAN);
    if (!(multiplier > 0 && multiplier < 1000))
        builder_fail(b, ERROR_FORMAT, "%s: 'ffn_multipliers' has no number for layer %u", b->config->path, layer);
    if (b->failed) return;
    s->attention.n_heads = decoder_layer_size(b, "num_query_heads", layer, 1);
    s->attention.n_kv_heads = decoder_layer_size(b, "num_kv_heads", layer, 1);
    s->mlp.intermediate_size =
        divisible(multiplier * s->d.hidden_size, config_size_or(b->config, "ffn_dim_divisor", 256));
}

void build_openelm(struct builder *b) {
    struct stack s = stack_usual(b);
    struct config *c = b->config;
    double theta = config_real_or(c, "rope_freq_constant", 10000);
    s.attention = (struct attention_spec){.head_dim = s.d.head_dim,
                                          .has_rope = true,
                                          .rope = b_rope_plain(b, s.d.head_dim, theta),
                                          .qk_norm_eps = s.d.norm_eps,
                                          .qkv_proj = "qkv_proj",
                                          .o_proj = "out_proj"};
    s.attention.qk_norm = config_bool_or(c, "normalize_qk_projections", true) ? QK_NORM_HEAD : QK_NORM_NONE;
    s.d.layer_format = "transformer.layers.%u";
    s.embedding = "transformer.token_embeddings";
    s.final_norm = "transformer.norm";
    s.attention_module = "attn";
    s.attention_norm = "attn_norm";
    s.ffn_norm = "ffn_norm";
    s.mlp_module = "ffn";
    s.mlp.gate_up_proj = "proj_1";
    s.mlp.down_proj = "proj_2";
    s.mlp.activation = block_activation(b, config_string_or(c, "activation_fn_name", "swish"));
    s.tied_by_default = config_bool_or(c, "share_input_output_layers", true);
    s.adjust = adjust_openelm;
    stack_build(b, &s);
}

/* PLaMo 1: parallel branches; query head j reads key head j mod n, not j div n. */
void build_plamo(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    uint32_t shared = config_size_or(b->config, "n_shared_head", 8);
    s.attention.n_kv_heads = (s.d.n_heads + shared - 1) / shared;
    s.attention.is_strided = true;
    s.d.layer_format = "model.layers.layers.%u";
    s.attention_norm = "norm";
    s.ffn_norm = NULL;
    s.is_parallel = true;
    stack_build(b, &s);
}
