/* SPDX-License-Identifier: Apache-2.0 */
/* DiffusionGemma: Gemma 4 with experts, run in two ways: as a causal reader of prompts, and as a denoiser of a canvas that
 * sees the text before it and itself in both directions. The two differ in the factors on the layers' outputs; a canvas is
 * conditioned on the denoiser's last guess. */
#include "models/gemma_common.h"

#include <math.h>

/* norm(x + MLP(norm(guess))), where x and the guess are embeddings. */
static struct value conditioned(struct builder *b, struct value x, const struct decoder *d) {
    struct mlp_spec mlp = {.intermediate_size = d->intermediate_size, .activation = d->activation};
    struct value guess = b_condition(b, d->hidden_size);
    guess = b_rms_norm(b, guess, "model.self_conditioning.pre_norm.weight", d->norm_eps, false);
    guess = block_gated_mlp(b, guess, &mlp, "model.self_conditioning");
    return b_norm(b, b_add(b, x, guess), (struct norm_params){.kind = NORM_RMS, .eps = d->norm_eps});
}

/* The layer's factors: of prompts under the encoder's name, of a canvas under the decoder's. */
static struct value scaled(struct builder *b, struct value x, uint32_t layer) {
    const char *format = "/model.encoder.language_model.layers.%u.layer_scalar";
    const char *name = b->failed ? NULL : arena_printf(&b->graph->arena, format, layer);
    if (!name) {
        builder_fail(b, ERROR_MEMORY, "out of memory (names)");
        return x;
    }
    struct value ordinary = b_weigh(b, x, b_vector(b, name, 1));
    return b_choose(b, ordinary, b_weigh(b, x, b_vector(b, "layer_scalar", 1)));
}

void build_diffusion_gemma(struct builder *b) {
    struct gemma4 g = gemma4_from_config(b, true, config_bool_or(b->config, "attention_k_eq_v", true));
    const struct weight *embedding = decoder_embedding(b, &g.d, "model.embed_tokens");
    double factor = sqrt((double)g.d.hidden_size);
    struct value x = b_scale(b, b_embed(b, embedding), factor);
    x = b_choose(b, x, conditioned(b, x, &g.d));
    for (uint32_t i = 0; i < g.d.n_layers && !b->failed; i++) {
        builder_layer(b, "model.layers.%u", i);
        x = scaled(b, gemma4_layer(b, x, &g, value_none(), i), i);
        builder_layer_end(b, x);
    }
    builder_top(b);
    gemma_head(b, b_select_outputs(b, x), &g.d, embedding, 30);
    b->graph->diffusion = (struct block_diffusion){.kind = DIFFUSION_CANVAS,
                                                   .block_length = config_size_or(b->config, "canvas_length", 256),
                                                   .embedding = embedding,
                                                   .embedding_factor = (float)factor};
}
