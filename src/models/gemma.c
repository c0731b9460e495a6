/* SPDX-License-Identifier: Apache-2.0 */
/* Gemma 1 to 3 (text): norms with 1 + w before and after each branch, embedding times sqrt(hidden size), tanh GELU.
 * Gemma 2 caps attention scores and logits and slides on even layers; Gemma 3 normalises q and k and has a rope base of
 * its own for the sliding layers, five of six. */
#include "models/family.h"
#include "models/stack.h"

#include "models/common.h"

#include <math.h>

static bool is_sliding(struct builder *b, uint32_t layer, uint32_t pattern) {
    const char *type = decoder_layer_type(b, layer);
    if (type) return !strcmp(type, "sliding_attention");
    return (layer + 1) % pattern != 0;
}

struct gemma {
    struct decoder d;
    struct attention_spec full, sliding;
    uint32_t pattern; /* layer i is full where (i + 1) % pattern == 0 */
    float final_softcap;
};

static struct value gemma_layer(struct builder *b, struct value x, const struct gemma *g, uint32_t layer) {
    float eps = g->d.norm_eps;
    const struct attention_spec *attention = is_sliding(b, layer, g->pattern) ? &g->sliding : &g->full;
    struct mlp_spec mlp = {g->d.intermediate_size, g->d.activation, false};
    struct value n = b_rms_norm(b, x, "input_layernorm.weight", eps, true);
    n = block_attention(b, n, attention, "self_attn");
    x = b_add(b, x, b_rms_norm(b, n, "post_attention_layernorm.weight", eps, true));
    n = b_rms_norm(b, x, "pre_feedforward_layernorm.weight", eps, true);
    n = block_gated_mlp(b, n, &mlp, "mlp");
    return b_add(b, x, b_rms_norm(b, n, "post_feedforward_layernorm.weight", eps, true));
}

static void build_sandwich(struct builder *b, const struct gemma *g) {
    const struct weight *embedding = decoder_embedding(b, &g->d, "model.embed_tokens");
    struct value x = b_scale(b, b_embed(b, embedding), (double)sqrtf((float)g->d.hidden_size));
    for (uint32_t i = 0; i < g->d.n_layers && !b->failed; i++) {
        builder_layer(b, "model.layers.%u", i);
        x = gemma_layer(b, x, g, i);
        builder_layer_end(b, x);
    }
    x = decoder_final_norm(b, x, &g->d, "model.norm.weight", true);
    x = decoder_logits(b, x, &g->d, embedding, "lm_head", true);
    if (g->final_softcap != 0) b->graph->logits = b_softcap(b, x, g->final_softcap);
}

/* Sizes; what a config leaves out is that of the family's usual release. */
static struct gemma gemma_from_config(struct builder *b, double default_scalar) {
    struct config *c = b->config;
    struct gemma g = {.d = decoder_from_config(b)};
    g.d.activation = block_activation(b, config_string_or(c, "hidden_activation", "gelu_pytorch_tanh"));
    g.full = decoder_attention(b, &g.d, 10000);
    double scalar = config_real_or(c, "query_pre_attn_scalar", default_scalar);
    if (!(scalar > 0)) builder_fail(b, ERROR_FORMAT, "%s: query_pre_attn_scalar is %g", c->path, scalar);
    g.full.scale = 1 / sqrt(scalar);
    return g;
}

/* Gemma 1: the baseline with 1 + w norms. A config of the first release says "gelu" and means the tanh form; one with
 * hidden_activation means what it says. */
void build_gemma(struct builder *b) {
    struct stack s = stack_from_config(b, 10000);
    const char *activation = config_string_or(b->config, "hidden_act", "gelu_pytorch_tanh");
    if (!strcmp(activation, "gelu")) activation = "gelu_pytorch_tanh";
    s.mlp.activation = block_activation(b, config_string_or(b->config, "hidden_activation", activation));
    s.norm.plus_one = true;
    s.embedding_factor = (double)sqrtf((float)s.d.hidden_size);
    s.tied_by_default = true;
    stack_build(b, &s);
}

void build_gemma2(struct builder *b) {
    struct gemma g = gemma_from_config(b, 256);
    g.full.softcap = (float)config_real_or(b->config, "attn_logit_softcapping", 50);
    g.final_softcap = (float)config_real_or(b->config, "final_logit_softcapping", 30);
    g.sliding = g.full;
    g.pattern = 2;
    decoder_set_window(&g.sliding, config_size_or(b->config, "sliding_window", 4096));
    build_sandwich(b, &g);
}

void build_gemma3(struct builder *b) {
    struct config *c = b->config;
    struct gemma g = gemma_from_config(b, 256);
    g.full.softcap = (float)config_real_or(c, "attn_logit_softcapping", 0);
    g.final_softcap = (float)config_real_or(c, "final_logit_softcapping", 0);
    g.full.qk_norm = QK_NORM_HEAD;
    g.full.qk_norm_plus_one = true;
    g.full.rope = b_rope_from_config(b, g.d.head_dim, "full_attention", 1e6);
    g.sliding = g.full;
    g.sliding.rope = b_rope_from_config(b, g.d.head_dim, "sliding_attention", 1e4);
    g.pattern = config_size_or(c, "sliding_window_pattern", config_size_or(c, "_sliding_window_pattern", 6));
    decoder_set_window(&g.sliding, config_size_or(c, "sliding_window", 4096));
    build_sandwich(b, &g);
}
