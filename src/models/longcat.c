/* SPDX-License-Identifier: Apache-2.0 */
/* LongCat Flash: each layer has two latent attentions and two dense MLPs; experts, some of which return their input, read
 * what the first MLP reads and are added at the layer's end. The n-gram release adds table rows of the last tokens to the
 * embedding. */
#include "models/family.h"
#include "models/latent.h"

#include <math.h>

static struct value experts(struct builder *b, struct value x, const struct decoder *d) {
    struct config *c = b->config;
    struct moe_spec moe = {.router_module = "mlp.router.classifier",
                           .correction = "mlp.router.e_score_correction_bias",
                           .has_correction = true,
                           .activation = d->activation,
                           .intermediate_size = config_size(c, "expert_ffn_hidden_size")};
    moe.router = (struct router_params){.kind = ROUTER_SOFTMAX_ALL,
                                        .n_experts = config_size(c, "n_routed_experts"),
                                        .n_identity = (uint32_t)config_integer_or(c, "zero_expert_num", 0, 0, 1024),
                                        .top_k = config_size(c, "moe_topk"),
                                        .normalize = config_bool_or(c, "norm_topk_prob", false),
                                        .normalize_epsilon = 1e-20f,
                                        .factor = (float)config_real_or(c, "routed_scaling_factor", 1)};
    const char *kind = config_string_or(c, "zero_expert_type", "identity");
    if (strcmp(kind, "identity") != 0)
        builder_fail(b, ERROR_UNSUPPORTED, "%s: zero experts of type '%s' are not supported", c->path, kind);
    moe_usual_sources(&moe, b, "mlp");
    return block_moe(b, x, &moe);
}

static struct value layer(struct builder *b, struct value x, struct stack *s, uint32_t number) {
    static const char *const names[2][4] = {
        {"input_layernorm.0", "self_attn.0", "post_attention_layernorm.0", "mlps.0"},
        {"input_layernorm.1", "self_attn.1", "post_attention_layernorm.1", "mlps.1"}};
    struct value shortcut = value_none();
    (void)number;
    for (int half = 0; half < 2; half++) {
        struct value n = block_norm(b, x, &s->norm, names[half][0]);
        x = b_add(b, x, block_mla(b, n, s->own, names[half][1]));
        n = block_norm(b, x, &s->norm, names[half][2]);
        if (half == 0) shortcut = experts(b, n, &s->d);
        x = b_add(b, x, block_mlp(b, n, &s->mlp, names[half][3]));
    }
    return b_add(b, x, shortcut);
}

static const char *numbered(struct builder *b, const char *list, uint32_t number) {
    const char *name = arena_printf(&b->graph->arena, "model.ngram_embeddings.%s.%u", list, number);
    if (!name) builder_fail(b, ERROR_MEMORY, "out of memory (names)");
    return name ? name : "";
}

static struct value embed_ngrams(struct builder *b, struct value x, struct stack *s) {
    struct config *c = b->config;
    struct ngram_params p = {.n = config_size_or(c, "emb_neighbor_num", 4),
                             .n_tables = config_size_or(c, "emb_split_num", 4),
                             .vocab_size = s->d.vocab_size};
    double first = config_real_or(c, "ngram_vocab_size_ratio", 78) * s->d.vocab_size + 1;
    uint32_t n_all = p.n_tables * (p.n - 1);
    if (!(first >= 1 && first < 1 << 30) || p.n < 2 || n_all > 256)
        builder_fail(b, ERROR_FORMAT, "%s: %u n-gram tables of %g rows", c->path, n_all, first);
    if (b->failed) return value_none();
    p.first_size = (uint32_t)first;
    struct value numbers = b_ngram(b, p);
    for (uint32_t t = 0; t < n_all && !b->failed; t++) {
        const struct weight *table =
            b_matrix(b, ROLE_EMBEDDING, numbered(b, "embedders", t), p.first_size + 2 * t, s->d.hidden_size / n_all);
        struct value row = b_embed_number(b, table, value_columns(numbers, t, 1));
        x = b_add(b, x,
                  b_linear(b, row,
                           b_matrix(b, ROLE_EMBEDDING, numbered(b, "post_projs", t), s->d.hidden_size,
                                    s->d.hidden_size / n_all),
                           NULL));
    }
    return b_scale(b, x, 1.0 / (1 + n_all));
}

static void build(struct builder *b, bool has_ngrams) {
    struct config *c = b->config;
    struct stack s = stack_usual(b);
    b->graph->n_layers = s.d.n_layers = config_size_or(c, "num_layers", s.d.n_layers);
    s.mlp.intermediate_size = config_size_or(c, "ffn_hidden_size", s.d.intermediate_size);
    struct mla_spec mla = mla_from_config(b, &s.d, 10000000, 128);
    if (mla.q_rank && config_bool_or(c, "mla_scale_q_lora", true))
        mla.q_latent_factor = sqrt((double)s.d.hidden_size / mla.q_rank);
    if (config_bool_or(c, "mla_scale_kv_lora", true))
        mla.kv_latent_factor = sqrt((double)s.d.hidden_size / mla.kv_rank);
    s.own = &mla;
    s.layer = layer;
    if (has_ngrams) {
        s.embedding = "model.ngram_embeddings.word_embeddings";
        s.embed = embed_ngrams;
    }
    stack_build(b, &s);
}

void build_longcat_flash(struct builder *b) { build(b, false); }

void build_longcat_flash_ngram(struct builder *b) { build(b, true); }
