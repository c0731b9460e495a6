/* SPDX-License-Identifier: Apache-2.0 */
/* The 3 B on-device model of Apple's 2025 report: the last layers have queries only and read the keys and values of the
 * last layer before them; keys and values lie on a grid of 8 bits; interleaved rope, then q/k norms. */
#include "models/family.h"
#include "models/stack.h"

struct reuse {
    uint32_t first; /* layer that reads another's cache */
    uint32_t *cache;
};

static void adjust(struct builder *b, struct stack *s, uint32_t layer) {
    const struct reuse *reuse = s->own;
    if (layer < reuse->first || b->failed) return;
    if (layer == reuse->first) *reuse->cache = block_attention_cache(b);
    builder_scope(b, "model.kv_reuse_layers.%u", layer - reuse->first);
    s->attention.shared_cache = reuse->cache;
    s->attention.qkv_proj = NULL;
}

void build_afm7(struct builder *b) {
    struct config *c = b->config;
    struct stack s = stack_from_config(b, 50000);
    uint32_t cache = 0, n = (uint32_t)config_integer_or(c, "num_kv_reuse_layers", 0, 0, (int64_t)s.d.n_layers - 1);
    struct reuse reuse = {s.d.n_layers - n, &cache};
    double factor = config_real_or(c, "hidden_dim_scale_factor", 3.25);
    if (!(factor > 0 && factor < 1000))
        builder_fail(b, ERROR_FORMAT, "%s: hidden_dim_scale_factor is %g", c->path, factor);
    if (b->failed) return;
    s.own = &reuse;
    s.adjust = adjust;
    s.mlp.intermediate_size = (uint32_t)(s.d.hidden_size * factor);
    s.attention.rope_interleaved = s.attention.qk_norm_after_rope = s.attention.has_kv_grid = true;
    s.attention.qk_norm = QK_NORM_HEAD;
    s.attention.qk_norm_eps = 1e-5f;
    s.attention.qkv_proj = "qkv_proj";
    s.attention.o_proj = "out_proj";
    s.embedding = "model.embedding";
    s.final_norm = "model.output_norm";
    s.tied_by_default = true;
    stack_build(b, &s);
}
