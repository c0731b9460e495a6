/* SPDX-License-Identifier: Apache-2.0 */
/* Families that differ from the baseline by a switch or two. */
#include "models/family.h"
#include "models/stack.h"

void build_arcee(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    s.mlp.activation = block_activation(b, config_string_or(b->config, "hidden_act", "relu2"));
    s.mlp.has_no_gate = true;
    stack_build(b, &s);
}

/* Helium and ERNIE 4.5: interleaved rope. */
void build_helium(struct builder *b) {
    struct stack s = stack_from_config(b, 100000);
    s.attention.rope_interleaved = true;
    s.attention.has_o_bias = false;
    stack_build(b, &s);
}

void build_ernie4_5(struct builder *b) {
    struct stack s = stack_from_config(b, 500000);
    bool has_bias = config_bool_or(b->config, "use_bias", false);
    s.attention.rope_interleaved = true;
    s.attention.has_qkv_bias = s.attention.has_o_bias = s.mlp.has_bias = has_bias;
    s.tied_by_default = true;
    stack_build(b, &s);
}

/* SmolLM 3: no rope where no_rope_layers says 0, every fourth layer by default. */
static void adapt_smollm3(struct builder *b, struct stack *s, uint32_t layer) {
    const struct json *list = config_get(b->config, "no_rope_layers");
    uint32_t interval = config_size_or(b->config, "no_rope_layer_interval", 4);
    bool is_listed = json_is_array(list) && list->count;
    s->attention.has_rope = is_listed ? json_integer(json_at(list, layer), 1) != 0 : (layer + 1) % interval != 0;
    decoder_set_window(&s->attention,
                       stack_is_sliding(b, layer, false) ? config_size_or(b->config, "sliding_window", 4096) : 0);
}

void build_smollm3(struct builder *b) {
    struct stack s = stack_from_config(b, 2000000);
    config_ignore(b->config, "use_sliding_window"); /* layer_types decide */
    config_ignore(b->config, "sliding_window");
    s.tied_by_default = true;
    s.adjust = adapt_smollm3;
    stack_build(b, &s);
}

void build_seed_oss(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    s.attention.has_qkv_bias = config_bool_or(b->config, "attention_bias", true);
    s.attention.has_o_bias = config_bool_or(b->config, "attention_out_bias", false);
    stack_build(b, &s);
}

/* MiMo: biases on q, k and v; the layers that predict further tokens are left out. */
void build_mimo(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    s.attention.has_qkv_bias = config_bool_or(b->config, "attention_bias", true);
    s.attention.has_o_bias = false;
    if (!config_bool_or(b->config, "use_sliding_window", false)) config_ignore(b->config, "sliding_window");
    stack_build(b, &s);
}

void build_hunyuan_v1_dense(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    struct attention_spec *a = &s.attention;
    a->qk_norm = config_bool_or(b->config, "use_qk_norm", true) ? QK_NORM_HEAD : QK_NORM_NONE;
    a->qk_norm_after_rope = true;
    a->q_norm = "query_layernorm";
    a->k_norm = "key_layernorm";
    stack_build(b, &s);
}

void build_apertus(struct builder *b) {
    struct stack s = stack_from_config(b, 12000000);
    config_ignore(b->config, "qk_norm");
    s.attention.qk_norm = QK_NORM_HEAD;
    s.attention_norm = "attention_layernorm";
    s.ffn_norm = "feedforward_layernorm";
    s.mlp.has_no_gate = true;
    s.mlp.xielu = "act_fn";
    stack_build(b, &s);
}

/* BitNet b1.58: norms inside both branches, squared ReLU; the ternary matrices are a matter of the format. */
void build_bitnet(struct builder *b) {
    struct stack s = stack_from_config(b, 500000);
    s.mlp.activation = block_activation(b, config_string_or(b->config, "hidden_act", "relu2"));
    s.attention.output_norm = "attn_sub_norm";
    s.mlp.inner_norm = "ffn_sub_norm";
    s.mlp.inner_norm_eps = s.d.norm_eps;
    s.tied_by_default = true;
    stack_build(b, &s);
}

/* Ministral: windows where layer_types say so. Ministral 3: queries grow with the position. */
static void adapt_ministral(struct builder *b, struct stack *s, uint32_t layer) {
    uint32_t window = config_count_or(b->config, "sliding_window", 0);
    bool is_full = decoder_layer_type(b, layer) && !stack_is_sliding(b, layer, false);
    decoder_set_window(&s->attention, is_full ? 0 : window);
}

void build_ministral(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    s.adjust = adapt_ministral;
    stack_build(b, &s);
}

void build_ministral3(struct builder *b) {
    struct stack s = stack_from_config(b, 1000000);
    s.attention.position_scale = stack_position_scale(b);
    s.adjust = adapt_ministral;
    stack_build(b, &s);
}

/* PaddleOCR-VL's text part: ERNIE 4.5 with half-split rope. */
void build_paddleocr_text(struct builder *b) {
    struct stack s = stack_from_config(b, 500000);
    bool has_bias = config_bool_or(b->config, "use_bias", false);
    s.attention.has_qkv_bias = s.attention.has_o_bias = s.mlp.has_bias = has_bias;
    stack_build(b, &s);
}
