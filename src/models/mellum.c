/* SPDX-License-Identifier: Apache-2.0 */
/* Mellum 2: Qwen 3's layers with experts, windows on most layers, and a rope for each kind of layer. */
#include "models/family.h"
#include "models/stack.h"

struct ropes {
    uint32_t full, sliding;
};

static void adjust(struct builder *b, struct stack *s, uint32_t layer) {
    const struct ropes *ropes = s->own;
    bool slides = stack_is_sliding(b, layer, false);
    s->attention.rope = slides ? ropes->sliding : ropes->full;
    decoder_set_window(&s->attention, slides ? config_size_or(b->config, "sliding_window", 4096) : 0);
}

static struct value feed_forward(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    const struct json *types = config_get(b->config, "mlp_layer_types");
    bool is_sparse =
        json_is_array(types) ? json_string_is(json_at(types, layer), "sparse") : qwen_layer_is_sparse(b, layer);
    if (!is_sparse) return stack_mlp(b, x, s, layer);
    struct moe_spec moe = qwen_experts(b, &s->d, true);
    return block_moe(b, x, &moe);
}

void build_mellum(struct builder *b) {
    struct stack s = stack_from_config(b, 500000);
    struct ropes ropes = {.full = b_rope_from_config(b, s.d.head_dim, "full_attention", 500000),
                          .sliding = b_rope_from_config(b, s.d.head_dim, "sliding_attention", 10000)};
    s.attention.qk_norm = QK_NORM_HEAD;
    s.own = &ropes;
    s.adjust = adjust;
    s.feed_forward = feed_forward;
    stack_build(b, &s);
}
