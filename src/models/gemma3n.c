/* SPDX-License-Identifier: Apache-2.0 */
/* Gemma 3n (text): several AltUp streams (Baykal et al. 2023) of which one goes through the layer, a low-rank residual
 * (LAuReL) beside the attention, an input of its own for each layer, sparse activations in the first layers; the last
 * layers attend to the keys and values of the last layer of their kind before them. Norm weights are plain. */
#include "models/gemma_common.h"

#include <math.h>

struct gemma3n {
    struct decoder d;
    struct gemma_sharing sharing;
    struct attention_spec full, sliding;
    uint32_t n_streams, active, laurel_rank;
    struct gemma_inputs inputs;
};

/* tanh(router(norm(x) / hidden size)): what the coefficients of prediction and correction are computed from. */
static struct value modalities(struct builder *b, struct value x, const struct gemma3n *g) {
    struct value n = b_rms_norm(b, x, "altup.router_norm.weight", g->d.norm_eps, false);
    struct matmul_part router = {.weight = b_matrix(b, ROLE_ROUTER, "altup.modality_router", g->n_streams, x.width),
                                 .is_exact = true};
    return b_unary(b, UNARY_TANH, b_matmul(b, b_scale(b, n, 1 / (double)x.width), &router, 1));
}

static struct value coefficients(struct builder *b, struct value x, const struct gemma3n *g, const char *module,
                                 uint32_t n, const struct weight *bias) {
    struct matmul_part part = {
        .weight = b_matrix(b, ROLE_ROUTER, module, n, g->n_streams), .bias = bias, .is_exact = true};
    return b_matmul(b, modalities(b, x, g), &part, 1);
}

static struct value stream(struct value streams, const struct gemma3n *g, uint32_t i) {
    return value_columns(streams, i * g->d.hidden_size, g->d.hidden_size);
}

static struct value laurel(struct builder *b, struct value x, const struct gemma3n *g) {
    struct value low = b_linear(b, x, b_matrix(b, ROLE_MLP, "laurel.linear_left", g->laurel_rank, x.width), NULL);
    low = b_linear(b, low, b_matrix(b, ROLE_MLP, "laurel.linear_right", x.width, g->laurel_rank), NULL);
    return b_add(b, x, b_rms_norm(b, low, "laurel.post_laurel_norm.weight", g->d.norm_eps, false));
}

/* The layer proper, from the active stream's prediction. */
static struct value activate(struct builder *b, struct value x, struct gemma3n *g, uint32_t layer) {
    float eps = g->d.norm_eps;
    struct mlp_spec mlp = {.intermediate_size = decoder_layer_size(b, "intermediate_size", layer, 16384),
                           .activation = g->d.activation};
    mlp.gate_threshold = gemma_sparsity_threshold(b, layer);
    struct value n = b_rms_norm(b, x, "input_layernorm.weight", eps, false), low = laurel(b, n, g);
    n = gemma_shared_attention(b, n, &g->sharing, &g->full, &g->sliding, layer);
    x = b_add(b, x, b_rms_norm(b, n, "post_attention_layernorm.weight", eps, false));
    x = b_scale(b, b_add(b, x, low), 1 / sqrt(2));
    n = b_rms_norm(b, x, "pre_feedforward_layernorm.weight", eps, false);
    n = block_gated_mlp(b, n, &mlp, "mlp");
    return b_add(b, x, b_rms_norm(b, n, "post_feedforward_layernorm.weight", eps, false));
}

/* Factors: 0 for the first stream, 1 for the others. */
static const struct weight *others(struct builder *b, uint32_t n) {
    const struct weight *w = b_constant(b, n, 1);
    if (!b->failed && w->vector) w->vector[0] = 0;
    return w;
}

static struct value layer(struct builder *b, struct value streams, struct gemma3n *g, struct value inputs,
                          uint32_t number) {
    uint32_t n = g->n_streams;
    struct value c = coefficients(b, stream(streams, g, g->active), g, "altup.prediction_coefs", n * n, NULL);
    struct value predicted = b_mix(b, streams, c, streams, n);
    struct value active = activate(b, stream(predicted, g, g->active), g, number);
    struct value news = b_add(b, active, b_scale(b, stream(predicted, g, g->active), -1));
    c = coefficients(b, active, g, "altup.correction_coefs", n, b_constant(b, n, 1));
    streams = b_mix(b, news, c, predicted, n);
    struct value first = stream(streams, g, g->active);
    if (config_bool_or(b->config, "altup_correct_scale", true))
        first = b_weigh(b, first, b_vector(b, "altup.correct_output_scale", g->d.hidden_size));
    first = gemma_apply_input(b, first, &g->inputs, inputs, number, g->d.activation);
    return b_add(b, streams, b_spread(b, first, others(b, n)));
}

/* Stream i > 0: MODULE.(i - 1) of it, as large as stream 0. */
static struct value project_stream(struct builder *b, struct value x, struct value reference, const char *module,
                                   uint32_t i) {
    const char *name = b->failed ? "" : arena_printf(&b->graph->arena, "%s.%u", module, i - 1);
    if (!name) builder_fail(b, ERROR_MEMORY, "out of memory (names)");
    x = b_linear(b, x, b_matrix(b, ROLE_MLP, name, x.width, x.width), NULL);
    return b_match_rms(b, x, reference, 1e-5f);
}

/* Streams side by side, each a value of its own before. */
static struct value first_streams(struct builder *b, struct value x, const struct gemma3n *g) {
    struct value all = value_none();
    for (uint32_t i = 0; i < g->n_streams && !b->failed; i++) {
        struct value one = i ? project_stream(b, x, x, "model.altup_projections", i) : x;
        const struct weight *place = b_constant(b, g->n_streams, 0);
        if (!b->failed && place->vector) place->vector[i] = 1;
        one = b_spread(b, one, place);
        all = i ? b_add(b, all, one) : one;
    }
    return all;
}

void build_gemma3n(struct builder *b) {
    struct config *c = b->config;
    struct gemma3n g = {.d = decoder_from_config(b)};
    g.d.activation = block_activation(b, config_string_or(c, "hidden_activation", "gelu_pytorch_tanh"));
    g.sharing = gemma_sharing(b, &g.d, 5);
    g.n_streams = config_size_or(c, "altup_num_inputs", 4);
    g.active = (uint32_t)config_integer_or(c, "altup_active_idx", 0, 0, 15);
    g.laurel_rank = config_size_or(c, "laurel_rank", 64);
    if (g.n_streams > 16 || g.active >= g.n_streams)
        builder_fail(b, ERROR_FORMAT, "%s: %u AltUp streams, stream %u active", c->path, g.n_streams, g.active);
    g.full = decoder_attention(b, &g.d, 1e6);
    config_ignore(c, "query_pre_attn_scalar"); /* some files carry it; the norms of q and k take its place */
    g.full.scale = 1;
    g.full.qk_norm = QK_NORM_HEAD;
    g.full.value_norm = true;
    g.full.rope = b_rope_from_config(b, g.d.head_dim, "full_attention", 1e6);
    g.sliding = g.full;
    g.sliding.rope = b_rope_from_config(b, g.d.head_dim, "sliding_attention", 1e4);
    decoder_set_window(&g.sliding, config_size_or(c, "sliding_window", 512));
    const struct weight *embedding = decoder_embedding(b, &g.d, "model.embed_tokens");
    struct value x = b_scale(b, b_embed(b, embedding), sqrt((double)g.d.hidden_size));
    struct value inputs = gemma_layer_inputs(b, x, &g.d, &g.inputs);
    x = first_streams(b, x, &g);
    for (uint32_t i = 0; i < g.d.n_layers && !b->failed; i++) {
        builder_layer(b, "model.layers.%u", i);
        x = layer(b, x, &g, inputs, i);
        builder_top(b);
    }
    x = b_select_outputs(b, x);
    struct value sum = stream(x, &g, 0);
    for (uint32_t i = 1; i < g.n_streams && !b->failed; i++)
        sum =
            b_add(b, sum, project_stream(b, stream(x, &g, i), stream(x, &g, 0), "model.altup_unembed_projections", i));
    gemma_head(b, b_scale(b, sum, 1 / (double)g.n_streams), &g.d, embedding, 30);
}
