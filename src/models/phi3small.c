/* SPDX-License-Identifier: Apache-2.0 */
/* Phi-3-small: LayerNorms, projections fused by key heads, a gated MLP whose tensor interleaves gate and up and clips
 * both, scaled embeddings and logits; every second layer sees nearby blocks of cells and, head by head, others. */
#include "models/family.h"
#include "models/stack.h"

#include <math.h>

static void adjust(struct builder *b, struct stack *s, uint32_t layer) {
    struct config *c = b->config;
    uint32_t every = config_size_or(c, "dense_attention_every_n_layers", 2);
    struct block_pattern blocks = {.size = config_size_or(c, "blocksparse_block_size", 64),
                                   .local = config_size_or(c, "blocksparse_num_local_blocks", 16),
                                   .stride = config_size_or(c, "blocksparse_vert_stride", 8)};
    s->attention.blocks = blocks;
    if ((layer + 1) % every == 0) s->attention.blocks = (struct block_pattern){0};
}

/* Ids that no text has: their logits are minus infinity. */
static const struct weight *suppressed_ids(struct builder *b, uint32_t vocab_size) {
    static const uint32_t singles[] = {100256, 100258, 100259, 100260, 100264, 100265};
    const struct weight *offset = b_constant(b, vocab_size, 0);
    const struct json *list = config_get(b->config, "dummy_token_indices");
    if (b->failed) return NULL;
    for (uint32_t i = 0; json_is_array(list) && i < list->count; i++) {
        int64_t id = json_integer(&list->items[i], -1);
        if (id >= 0 && id < vocab_size) offset->vector[id] = -INFINITY;
    }
    if (json_is_array(list)) return offset;
    for (size_t i = 0; i < sizeof singles / sizeof *singles; i++)
        if (singles[i] < vocab_size) offset->vector[singles[i]] = -INFINITY;
    for (uint32_t id = 100267; id < vocab_size && id < 100352; id++) offset->vector[id] = -INFINITY;
    return offset;
}

void build_phi3small(struct builder *b) {
    struct config *c = b->config;
    struct stack s = stack_from_config(b, 10000);
    stack_use_layer_norm(b, &s, 1e-5);
    double width = config_real_or(c, "mup_width_multiplier", 8);
    double position_scale = config_real_or(c, "rope_position_scale", 1);
    if (config_bool_or(c, "blocksparse_homo_head_pattern", false) || position_scale != 1)
        builder_fail(b, ERROR_UNSUPPORTED,
                     "%s: equal block patterns of all heads and scaled positions are not implemented", c->path);
    s.attention.has_qkv_bias = s.attention.has_o_bias = true;
    s.attention.qkv_proj = "query_key_value";
    s.attention.qkv_layout = QKV_BY_GROUP;
    s.attention.o_proj = "dense";
    s.attention.rope = b_rope_plain(b, s.d.head_dim, config_real_or(c, "rope_embedding_base", 1e6));
    if (config_bool_or(c, "mup_use_scaling", true))
        s.attention.scale = config_real_or(c, "mup_attn_multiplier", 1) / s.d.head_dim;
    s.mlp = (struct mlp_spec){.intermediate_size = config_size(c, "ff_intermediate_size"),
                              .activation = UNARY_GELU_QUICK,
                              .has_bias = true,
                              .gate_up_proj = "up_proj",
                              .is_interleaved = true,
                              .limits = {.limit = config_real_or(c, "gegelu_limit", 20), .up_plus_one = true}};
    s.embedding_factor = config_real_or(c, "mup_embedding_multiplier", 10);
    s.logits_factor = width > 0 ? 1 / width : 1;
    s.final_norm = "model.final_layernorm";
    s.tied_by_default = true;
    s.d.head_offset = suppressed_ids(b, s.d.vocab_size);
    s.adjust = adjust;
    stack_build(b, &s);
}
