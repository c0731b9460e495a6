/* SPDX-License-Identifier: Apache-2.0 */
/* Baichuan-M1: keys and values pass a causal filter of two taps for each head before rope; windowed layers have other
 * numbers of heads; the rows of an unquantised head are brought to unit length. */
#include "models/family.h"
#include "models/stack.h"

static bool is_windowed(struct builder *b, uint32_t layer) {
    const struct json *list = config_get(b->config, "sliding_window_layers");
    for (uint32_t i = 0; json_is_array(list) && i < list->count; i++)
        if (json_integer(&list->items[i], -1) == (int64_t)layer) return true;
    return false;
}

static void adjust(struct builder *b, struct stack *s, uint32_t layer) {
    struct config *c = b->config;
    struct attention_spec *a = &s->attention;
    bool windowed = is_windowed(b, layer);
    uint32_t window = config_size_or(c, "sliding_window", 8192), n_heads = s->d.n_heads, n_kv_heads = s->d.n_kv_heads;
    uint32_t swa_heads = config_size_or(c, "num_swa_attention_heads", n_heads);
    uint32_t swa_kv_heads = config_size_or(c, "num_swa_key_value_heads", n_kv_heads);
    a->n_heads = windowed ? swa_heads : n_heads;
    a->n_kv_heads = windowed ? swa_kv_heads : n_kv_heads;
    a->head_dim = s->d.hidden_size / a->n_heads;
    a->rope = b_rope_from_config(b, a->head_dim, NULL, 100000);
    decoder_set_window(a, windowed ? window : 0);
}

void build_baichuan_m1(struct builder *b) {
    struct stack s = stack_from_config(b, 100000);
    s.attention.qkv_proj = "W_pack";
    s.attention.kv_taps = config_size_or(b->config, "conv_window", 2);
    if (s.attention.kv_taps < 2 || s.attention.kv_taps > 16)
        builder_fail(b, ERROR_UNSUPPORTED, "%s: a conv_window of %u is not implemented", b->config->path,
                     s.attention.kv_taps);
    s.d.head_has_unit_rows = true;
    s.adjust = adjust;
    stack_build(b, &s);
}
