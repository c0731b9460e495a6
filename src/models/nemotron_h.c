/* SPDX-License-Identifier: Apache-2.0 */
/* Nemotron-H: one norm and one part in each layer, by a pattern: Mamba-2 (M), attention without rope (*), an MLP without
 * gate (-), or experts of that kind with a shared one (E). Activations are relu squared. */
#include "models/family.h"

#include <math.h>

/* One letter for each layer, from a string, a list of letters or a list of names. NULL with the error set. */
static const char *layer_pattern(struct builder *b, uint32_t *n_layers) {
    static const char *const names[][2] = {{"mamba", "M"},     {"linear_attention", "M"},
                                           {"attention", "*"}, {"full_attention", "*"},
                                           {"mlp", "-"},       {"moe", "E"}};
    static const char *const keys[] = {"hybrid_override_pattern", "layers_block_type", "layer_types"};
    const struct json *list = NULL;
    for (size_t k = 0; k < 3 && !list; k++) list = config_get(b->config, keys[k]);
    if (json_is_string(list)) {
        const char *pattern = json_string_copy(&b->graph->arena, list);
        *n_layers = pattern ? (uint32_t)strlen(pattern) : 0;
        if (*n_layers) return pattern;
    }
    char *pattern = json_is_array(list) ? arena_calloc(&b->graph->arena, list->count + 1, 1) : NULL;
    for (uint32_t i = 0; pattern && i < list->count; i++) {
        const struct json *item = &list->items[i];
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            if (json_string_is(item, names[k][0])) pattern[i] = *names[k][1];
        if (json_is_string(item) && item->count == 1) pattern[i] = item->string[0];
    }
    *n_layers = pattern ? (uint32_t)strlen(pattern) : 0;
    if (!*n_layers || *n_layers != list->count)
        builder_fail(b, ERROR_FORMAT, "%s: no pattern of layers in hybrid_override_pattern or layers_block_type",
                     b->config->path);
    return b->failed ? NULL : pattern;
}

static struct mamba2_spec mamba_from_config(struct builder *b, const struct decoder *d) {
    struct config *c = b->config;
    struct mamba2_spec s = {
        .n_heads = config_size(c, "mamba_num_heads"),
        .head_dim = config_size(c, "mamba_head_dim"),
        .n_groups = config_size_or(c, "n_groups", 1),
        .state_dim = config_size(c, "ssm_state_size"),
        .conv_taps = config_size_or(c, "conv_kernel", 4),
        .has_conv_bias = config_bool_or(c, "use_conv_bias", true),
        .has_proj_bias = config_bool_or(c, "mamba_proj_bias", false) || config_bool_or(c, "use_bias", false),
        .norm_eps = d->norm_eps,
    };
    s.norm_groups = s.n_groups;
    read_time_step_limit(b, &s);
    float least = (float)config_real_or(c, "time_step_min", 0);
    if (least > s.dt_min) s.dt_min = least;
    return s;
}

static struct value experts(struct builder *b, struct value x, struct mlp_spec mlp) {
    struct config *c = b->config;
    struct moe_spec moe = {.is_plain = true,
                           .router_module = "mixer.gate",
                           .intermediate_size = config_size(c, "moe_intermediate_size"),
                           .latent_size = (uint32_t)config_integer_or(c, "moe_latent_size", 0, 0, 1 << 20),
                           .latent_in = "mixer.fc1_latent_proj",
                           .latent_out = "mixer.fc2_latent_proj",
                           .activation = mlp.activation};
    uint32_t n_experts = config_size(c, "n_routed_experts");
    moe.router = (struct router_params){.kind = ROUTER_SIGMOID,
                                        .n_experts = n_experts,
                                        .top_k = config_size(c, "num_experts_per_tok"),
                                        .normalize = config_bool_or(c, "norm_topk_prob", true),
                                        .normalize_epsilon = 1e-20f,
                                        .factor = (float)config_real_or(c, "routed_scaling_factor", 1),
                                        .bias = b_vector(b, "mixer.gate.e_score_correction_bias", n_experts),
                                        .n_groups = config_size_or(c, "n_group", 1),
                                        .top_groups = config_size_or(c, "topk_group", 1)};
    moe_usual_sources(&moe, b, "mixer");
    struct value out = block_moe(b, x, &moe);
    if (!config_integer_or(c, "n_shared_experts", 1, 0, 1024)) return out;
    mlp.intermediate_size = config_size_or(c, "moe_shared_expert_intermediate_size", moe.intermediate_size);
    return b_add(b, out, block_plain_mlp(b, x, &mlp, "mixer.shared_experts"));
}

void build_nemotron_h(struct builder *b) {
    struct config *c = b->config;
    uint32_t n_layers = 0;
    const char *pattern = layer_pattern(b, &n_layers);
    if (!pattern) return;
    struct decoder d = decoder_with_layers(b, n_layers);
    d.activation = block_activation(b, config_string_or(c, "mlp_hidden_act", "relu2"));
    d.norm_eps = (float)config_real_or(c, "layer_norm_epsilon", 1e-5);
    d.head_dim = config_size_or(c, "attention_head_dim", d.head_dim);
    struct mamba2_spec mamba = mamba_from_config(b, &d);
    struct mlp_spec mlp = {d.intermediate_size, d.activation, config_bool_or(c, "mlp_bias", false)};
    struct attention_spec attention = decoder_attention(b, &d, 10000);
    attention.has_rope = false;
    const struct weight *embedding = decoder_embedding(b, &d, "backbone.embeddings|backbone.embedding");
    struct value x = b_embed(b, embedding);
    for (uint32_t i = 0; i < d.n_layers && !b->failed; i++) {
        builder_layer(b, "backbone.layers.%u", i);
        struct value n = b_rms_norm(b, x, "norm.weight", d.norm_eps, false);
        switch (pattern[i]) {
        case 'M': n = block_mamba2(b, n, &mamba, "mixer"); break;
        case '*': n = block_attention(b, n, &attention, "mixer"); break;
        case '-': n = block_plain_mlp(b, n, &mlp, "mixer"); break;
        case 'E': n = experts(b, n, mlp); break;
        default: builder_fail(b, ERROR_UNSUPPORTED, "%s: layer kind '%c' is not known", c->path, pattern[i]);
        }
        x = b_add(b, x, n);
        builder_layer_end(b, x);
    }
    decoder_head(b, x, &d, embedding, "backbone.norm_f.weight", false, "lm_head", false);
}
