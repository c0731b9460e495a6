/* SPDX-License-Identifier: Apache-2.0 */
/* OLMo 1 to 3. The first has LayerNorm without weights and may clip its projections; it comes with transformers' names
 * or with those of its own code (fused projections). OLMo 2 normalises after the branches and q, k over all heads at
 * once; OLMo 3 adds windows on three of four layers, whose rope is plain while the full layers' is scaled. */
#include "models/family.h"
#include "models/stack.h"

static void use_own_names(struct builder *b, struct stack *s) {
    struct config *c = b->config;
    uint32_t both = config_size_or(c, "mlp_hidden_size", config_size_or(c, "mlp_ratio", 4) * s->d.hidden_size);
    s->d.vocab_size = config_size_or(c, "embedding_size", s->d.vocab_size);
    s->d.layer_format = "model.transformer.blocks.%u";
    s->embedding = "model.transformer.wte";
    s->head = "model.transformer.ff_out";
    s->attention_module = s->mlp_module = NULL;
    s->attention.qkv_proj = "att_proj";
    s->attention.o_proj = "attn_out";
    s->mlp = (struct mlp_spec){.intermediate_size = both / 2,
                               .activation = UNARY_SILU,
                               .gate_up_proj = "ff_proj",
                               .up_is_first = true,
                               .down_proj = "ff_out"};
    b->graph->vocab_size = s->d.vocab_size;
}

void build_olmo(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    s.norm = (struct norm_spec){.kind = NORM_LAYER, .eps = 1e-5f, .is_plain = true};
    s.attention.qkv_clip = config_real_or(b->config, "clip_qkv", 0);
    s.tied_by_default = true;
    if (config_has(b->config, "d_model")) use_own_names(b, &s);
    stack_build(b, &s);
}

static struct stack olmo2(struct builder *b, double default_theta) {
    struct stack s = stack_from_config(b, default_theta);
    stack_use_post_norms(&s);
    s.attention.qk_norm = QK_NORM_ALL;
    return s;
}

void build_olmo2(struct builder *b) {
    struct stack s = olmo2(b, 10000);
    stack_build(b, &s);
}

struct ropes {
    uint32_t full, sliding;
};

static void adapt_olmo3(struct builder *b, struct stack *s, uint32_t layer) {
    const struct ropes *ropes = s->own;
    bool slides = stack_is_sliding(b, layer, (layer + 1) % 4 != 0);
    s->attention.rope = slides ? ropes->sliding : ropes->full;
    decoder_set_window(&s->attention, slides ? config_size_or(b->config, "sliding_window", 4096) : 0);
}

void build_olmo3(struct builder *b) {
    struct stack s = olmo2(b, 500000);
    const struct json *parameters = config_get(b->config, "rope_parameters");
    double theta = config_real_or(b->config, "rope_theta", 500000);
    theta = config_object_real_or(b->config, parameters, "rope_parameters", "rope_theta", theta);
    struct ropes ropes = {.full = s.attention.rope};
    ropes.sliding = json_get(parameters, "sliding_attention")
                        ? b_rope_from_config(b, s.d.head_dim, "sliding_attention", theta)
                        : b_rope_plain(b, s.d.head_dim, theta);
    s.own = &ropes;
    s.adjust = adapt_olmo3;
    stack_build(b, &s);
}
