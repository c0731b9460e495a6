/* SPDX-License-Identifier: Apache-2.0 */
/* EXAONE 3 is the baseline with other names; EXAONE 4 normalises after its branches and q, k by heads, and where it has
 * windows only these layers have rope. */
#include "models/family.h"
#include "models/stack.h"

void build_exaone(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    s.mlp.activation = block_activation(b, config_string_or(b->config, "activation_function", "silu"));
    s.d.layer_format = "transformer.h.%u";
    s.embedding = "transformer.wte";
    s.final_norm = "transformer.ln_f";
    s.attention_norm = "ln_1";
    s.ffn_norm = "ln_2";
    s.attention_module = "attn.attention";
    s.attention.o_proj = "out_proj";
    s.mlp.gate_proj = "c_fc_0";
    s.mlp.up_proj = "c_fc_1";
    s.mlp.down_proj = "c_proj";
    s.tied_by_default = true;
    stack_build(b, &s);
}

/* Whether layer i slides, by layer_types or by a pattern like "LLLG". */
static bool slides(struct builder *b, uint32_t layer, uint32_t window) {
    const struct json *pattern = config_get(b->config, "sliding_window_pattern");
    bool is_typed = decoder_layer_type(b, layer) != NULL;
    if (!window) return false;
    if (is_typed) return stack_is_sliding(b, layer, false);
    if (json_is_string(pattern) && pattern->count) return pattern->string[layer % pattern->count] == 'L';
    int64_t interval = json_integer(pattern, 0);
    return interval > 0 && (layer + 1) % interval != 0;
}

static void adapt_exaone4(struct builder *b, struct stack *s, uint32_t layer) {
    uint32_t window = config_count_or(b->config, "sliding_window", 0);
    bool is_local = slides(b, layer, window);
    s->attention.has_rope = is_local || !window;
    decoder_set_window(&s->attention, is_local ? window : 0);
}

void build_exaone4(struct builder *b) {
    struct stack s = stack_from_config(b, 1000000);
    stack_use_post_norms(&s);
    s.attention.qk_norm = QK_NORM_HEAD;
    s.adjust = adapt_exaone4;
    stack_build(b, &s);
}
