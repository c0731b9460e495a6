/* SPDX-License-Identifier: Apache-2.0 */
/* IQuest-Coder Loop: all layers run twice with the same weights. In the second pass each layer attends to a window of
 * its own keys and, by a gate on each head, to its keys of the first pass. */
#include "models/family.h"
#include "models/stack.h"

static struct value layer(struct builder *b, struct value x, const struct stack *s,
                          const struct attention_spec *attention) {
    struct value n = block_norm(b, x, &s->norm, s->attention_norm);
    x = b_add(b, x, block_attention(b, n, attention, s->attention_module));
    n = block_norm(b, x, &s->norm, s->ffn_norm);
    return b_add(b, x, block_mlp(b, n, &s->mlp, s->mlp_module));
}

void build_iquest_loop(struct builder *b) {
    struct stack s = stack_from_config(b, 500000);
    uint32_t n = s.d.n_layers, window = config_size_or(b->config, "loop_window_size", 64);
    if (config_integer_or(b->config, "loop_num", 2, 0, INT32_MAX) != 2)
        builder_fail(b, ERROR_UNSUPPORTED, "%s: 'loop_num' other than 2 is not implemented", b->config->path);
    if (b->failed) return;
    uint32_t *caches = arena_calloc(&b->graph->arena, n, sizeof *caches);
    if (!caches) builder_fail(b, ERROR_MEMORY, "out of memory (layers)");
    const struct weight *embedding = decoder_embedding(b, &s.d, s.embedding);
    struct value x = b_embed(b, embedding);
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < n && !b->failed; i++) {
            struct attention_spec attention = s.attention;
            builder_layer(b, s.d.layer_format, i);
            b->graph->weights.is_repeat = pass == 1;
            if (pass) {
                decoder_set_window(&attention, window);
                attention.mixed_cache = &caches[i];
                attention.mix_gate = arena_printf(&b->graph->arena, "/model.gate_projections.%u", i);
            }
            x = layer(b, x, &s, &attention);
            if (!pass) caches[i] = block_attention_cache(b);
            if (pass)
                builder_layer_end(b, x);
            else
                builder_top(b);
        }
    b->graph->weights.is_repeat = false;
    decoder_head(b, x, &s.d, embedding, "model.norm.weight", false, s.head, false);
}
