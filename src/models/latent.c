/* SPDX-License-Identifier: Apache-2.0 */
/* Families of multi-head latent attention: DeepSeek V2 and V3 (and Kimi, JoyAI), GLM-4.7-Flash, Mistral 4 with experts;
 * MiniCPM3 and Youtu without. */
#include "models/family.h"
#include "models/latent.h"

#include <math.h>

static const struct json *rope_object(struct builder *b) {
    const struct json *parameters = config_get(b->config, "rope_parameters");
    return json_is_object(parameters) ? parameters : config_get(b->config, "rope_scaling");
}

/* YaRN in DeepSeek's form sharpens the scores by the square of its scale for all dimensions. */
static double sharpness(struct builder *b) {
    const struct json *rope = rope_object(b);
    double factor = config_object_real_or(b->config, rope, "rope_scaling", "factor", 1);
    double mscale = config_object_real_or(b->config, rope, "rope_scaling", "mscale_all_dim", 0);
    const struct json *kind = json_get(rope, "rope_type");
    if (json_is_null(kind)) kind = json_get(rope, "type");
    if (json_is_null(kind) || json_string_is(kind, "default") || mscale == 0 || factor <= 1) return 1;
    double m = 0.1 * mscale * log(factor) + 1;
    return m * m;
}

struct mla_spec mla_from_config(struct builder *b, const struct decoder *d, double theta, uint32_t default_value_dim) {
    struct config *c = b->config;
    struct mla_spec s = {.n_heads = d->n_heads,
                         .nope_dim = config_size_or(c, "qk_nope_head_dim", 128),
                         .rope_dim = config_size_or(c, "qk_rope_head_dim", 64),
                         .value_dim = config_size_or(c, "v_head_dim", default_value_dim),
                         .q_rank = config_count_or(c, "q_lora_rank", 0),
                         .kv_rank = config_size_or(c, "kv_lora_rank", 512),
                         .latent_norm_eps = 1e-6f, /* in whatever norm the layers have */
                         .has_bias = config_bool_or(c, "attention_bias", false),
                         .has_rope = true,
                         .rope_interleaved = config_bool_or(c, "rope_interleave", true)};
    config_ignore(c, "head_dim");
    config_ignore(c, "partial_rotary_factor");
    config_ignore(c, "rope_traditional");
    s.rope = b_rope_from_config(b, s.rope_dim, NULL, theta);
    s.scale = sharpness(b) / sqrt((double)(s.nope_dim + s.rope_dim));
    return s;
}

static struct value mix(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    (void)layer;
    return block_mla(b, x, s->own, "self_attn");
}

void latent_build(struct builder *b, struct stack *s, const struct mla_spec *mla) {
    s->own = mla;
    s->mix = mix;
    stack_build(b, s);
}

static struct value v2_feed_forward(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    if (!has_routed_experts(b, layer)) return stack_mlp(b, x, s, layer);
    struct moe_spec moe = routed_experts(b, &s->d, ROUTER_SOFTMAX_ALL);
    bool by_group = !strcmp(config_string_or(b->config, "topk_method", "greedy"), "group_limited_greedy");
    if (!by_group) moe.router.n_groups = 1;
    moe.router.normalize = false; /* whatever norm_topk_prob says, in both references */
    moe.router.group_by_best = true;
    moe.router.group_to_lowest = false;
    uint32_t n_shared = (uint32_t)config_integer_or(b->config, "n_shared_experts", 0, 0, 1024);
    return experts_with_shared(b, x, &moe, n_shared, "mlp.shared_experts");
}

void build_deepseek_v2(struct builder *b) {
    if (!config_bool_or(b->config, "use_mla", true)) { /* DeepSeek-OCR: ordinary attention */
        build_deepseek(b);
        return;
    }
    struct stack s = stack_usual(b);
    struct mla_spec mla = mla_from_config(b, &s.d, 10000, 128);
    s.feed_forward = v2_feed_forward;
    latent_build(b, &s, &mla);
}

void build_deepseek_v3(struct builder *b) {
    struct stack s = stack_usual(b);
    /* Kimi K2.5 as transformers writes it */
    if (b_has(b, "model.blocks.0.input_layernorm.weight", false)) s.d.layer_format = "model.blocks.%u";
    struct mla_spec mla = mla_from_config(b, &s.d, 10000, 128);
    s.feed_forward = routed_sigmoid;
    latent_build(b, &s, &mla);
}

static void build_sparse(struct builder *b, bool is_interleaved, double theta) {
    struct config *c = b->config;
    struct stack s = stack_usual(b);
    struct mla_spec mla = mla_from_config(b, &s.d, theta, 128);
    struct index_spec index = {.n_heads = config_size_or(c, "index_n_heads", 64),
                               .head_dim = config_size_or(c, "index_head_dim", 128),
                               .top_k = config_size_or(c, "index_topk", 2048),
                               .block = 1,
                               .has_weights = true,
                               .norm_eps = 1e-6f,
                               .rope = mla.rope,
                               .rope_interleaved = is_interleaved};
    config_ignore(c, "layer_types");
    mla.index = &index;
    s.feed_forward = routed_sigmoid;
    latent_build(b, &s, &mla);
}

void build_deepseek_v32(struct builder *b) { build_sparse(b, false, 10000); }

void build_glm_moe_dsa(struct builder *b) {
    build_sparse(b, config_bool_or(b->config, "indexer_rope_interleave", true), 1000000);
}

/* mlx-lm norms the latents with the config's epsilon where transformers has 1e-6. */
static float latent_eps(struct builder *b, const struct stack *s) {
    const struct checkpoint *checkpoint = b->graph->weights.checkpoint;
    return checkpoint && checkpoint->is_mlx ? s->d.norm_eps : 1e-6f;
}

void build_glm4_moe_lite(struct builder *b) {
    struct stack s = stack_usual(b);
    struct mla_spec mla = mla_from_config(b, &s.d, 1000000, 128);
    mla.latent_norm_eps = latent_eps(b, &s);
    s.feed_forward = routed_sigmoid;
    latent_build(b, &s, &mla);
}

void build_mistral4(struct builder *b) {
    struct stack s = stack_usual(b);
    struct mla_spec mla = mla_from_config(b, &s.d, 10000, 128);
    const struct json *rope = rope_object(b);
    mla.position_scale.beta = config_object_real_or(b->config, rope, "rope_parameters", "llama_4_scaling_beta", 0);
    mla.position_scale.length =
        config_object_real_or(b->config, rope, "rope_parameters", "original_max_position_embeddings", 8192);
    s.feed_forward = routed_softmax;
    latent_build(b, &s, &mla);
}

void build_youtu(struct builder *b) {
    struct stack s = stack_usual(b);
    struct mla_spec mla = mla_from_config(b, &s.d, 1600000, 128);
    mla.latent_norm_eps = latent_eps(b, &s);
    s.tied_by_default = true;
    latent_build(b, &s, &mla);
}

/* The embedding, both branches and the head's input are scaled (MiniCPM, 2024). */
void build_minicpm3(struct builder *b) {
    struct config *c = b->config;
    struct stack s = stack_usual(b);
    struct mla_spec mla = mla_from_config(b, &s.d, 10000, s.d.hidden_size / s.d.n_heads);
    mla.rope_interleaved = false;
    mla.scale = 0;
    s.embedding_factor = config_real_or(c, "scale_emb", 1);
    s.residual_factor = config_real_or(c, "scale_depth", 1) / sqrt((double)s.d.n_layers);
    s.head_input_factor = config_real_or(c, "dim_model_base", s.d.hidden_size) / s.d.hidden_size;
    latent_build(b, &s, &mla);
}
