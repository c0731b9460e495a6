/* SPDX-License-Identifier: Apache-2.0 */
/* DeepSeek V4: hyper-connections between several residual streams; attention over a window and, by the layer's type, over
 * compressed runs, chosen by an index or not; experts by sqrt(softplus), of the first layers by the token. */
#include "models/family.h"
#include "models/stack.h"

#include <math.h>

/* As released, and as in MLX files. */
struct names {
    const char *embedding, *layer, *attention_streams, *ffn_streams, *head_streams, *norm, *head;
};
static const struct names released = {"embed", "layers.%u", "hc_attn", "hc_ffn", "hc_head", "norm", "head"};
static const struct names converted = {"model.embed_tokens", "model.layers.%u", "attn_hc", "ffn_hc",
                                       "model.hc_head",      "model.norm",      "lm_head"};

struct v4 {
    const struct names *names;
    struct decoder d;
    struct norm_spec norm;
    struct hyper_spec hyper;
    struct compressed_spec attention;
    uint32_t near_rope, far_rope, index_heads, short_run, long_run;
    const struct json *ratios; /* tokens of a run for each layer, the older spelling of layer_types */
};

/* Runs, and whether an index chooses them, by the layer's type. */
static struct compressed_spec layer_attention(struct builder *b, const struct v4 *v, uint32_t layer) {
    struct compressed_spec a = v->attention;
    const char *type = decoder_layer_type(b, layer);
    bool is_sparse = layer >= 2 && layer % 2 == 1, is_near = false;
    if (json_is_array(v->ratios)) {
        int64_t ratio = json_integer(json_at(v->ratios, layer), 0);
        is_near = ratio == 0;
        is_sparse = ratio == (int64_t)v->short_run;
    }
    if (type) {
        is_near = !strcmp(type, "sliding_attention");
        is_sparse = !strcmp(type, "compressed_sparse_attention");
    }
    a.rope = is_near ? v->near_rope : v->far_rope;
    a.run = is_near ? 0 : is_sparse ? v->short_run : v->long_run;
    a.is_overlapped = is_sparse;
    a.index_heads = is_sparse ? v->index_heads : 0;
    return a;
}

static struct value experts(struct builder *b, struct value x, const struct v4 *v, uint32_t layer) {
    struct config *c = b->config;
    const struct json *types = config_get(c, "mlp_layer_types");
    bool by_token = layer < config_count_or(c, "num_hash_layers", 3);
    if (json_is_array(types)) by_token = json_string_is(json_at(types, layer), "hash_moe");
    struct moe_spec moe = {.router_module = "ffn.gate",
                           .activation = v->d.activation,
                           .limits = {.limit = config_real_or(c, "swiglu_limit", 10)},
                           .intermediate_size = config_size_or(c, "moe_intermediate_size", 2048)};
    moe.router = (struct router_params){.kind = ROUTER_SQRT_SOFTPLUS,
                                        .n_experts = config_size(c, "n_routed_experts"),
                                        .top_k = config_size_or(c, "num_experts_per_tok", 6),
                                        .normalize = true,
                                        .normalize_epsilon = 1e-20f,
                                        .factor = (float)config_real_or(c, "routed_scaling_factor", 1.5)};
    if (strcmp(config_string_or(c, "scoring_func", "sqrtsoftplus"), "sqrtsoftplus") != 0)
        builder_fail(b, ERROR_UNSUPPORTED, "%s: 'scoring_func' is not sqrtsoftplus", c->path);
    config_ignore(c, "norm_topk_prob");
    if (by_token) {
        moe.table = "ffn.gate.tid2eid";
        moe.table_rows = v->d.vocab_size;
    }
    moe.correction = "ffn.gate.bias|ffn.gate.e_score_correction_bias";
    moe.has_correction = !by_token;
    moe.has_no_router_bias = true;
    moe_usual_sources(&moe, b, "ffn");
    struct mlp_spec shared = {.activation = v->d.activation, .limits = moe.limits};
    shared.intermediate_size = moe.intermediate_size * config_size_or(c, "n_shared_experts", 1);
    return b_add(b, block_moe(b, x, &moe), block_shared_expert(b, x, &shared, "ffn.shared_experts", NULL));
}

static struct value build_layer(struct builder *b, struct value streams, const struct v4 *v, uint32_t layer) {
    struct compressed_spec attention = layer_attention(b, v, layer);
    struct hyper_site site = block_hyper_in(b, streams, &v->hyper, v->names->attention_streams);
    struct value n = block_norm(b, site.input, &v->norm, "attn_norm");
    streams = block_hyper_out(b, &site, block_compressed_attention(b, n, &attention, "attn"));
    site = block_hyper_in(b, streams, &v->hyper, v->names->ffn_streams);
    n = block_norm(b, site.input, &v->norm, "ffn_norm");
    return block_hyper_out(b, &site, experts(b, n, v, layer));
}

/* Windows rotate plainly; layers with runs have a base and a scaling of their own, without YaRN's factor on q and k. */
static void read_ropes(struct builder *b, struct v4 *v) {
    struct config *c = b->config;
    const struct json *parameters = config_get(c, "rope_parameters"), *far = json_get(parameters, "compress");
    const struct json *near = json_get(parameters, "main");
    if (!json_is_object(far)) far = json_is_object(parameters) ? parameters : config_get(c, "rope_scaling");
    double share = config_real_or(c, "partial_rotary_factor", 64.0 / 512);
    uint32_t rotary = config_size_or(c, "qk_rope_head_dim", rotary_share(b, v->attention.head_dim, share));
    double near_theta =
        config_object_real_or(c, near, "rope_parameters", "rope_theta", config_real_or(c, "rope_theta", 10000));
    double far_theta = config_real_or(c, "compress_rope_theta", 160000);
    if (rotary > v->attention.head_dim) builder_fail(b, ERROR_FORMAT, "%s: qk_rope_head_dim is %u", c->path, rotary);
    v->near_rope = b_rope_with(b, rotary, near_theta, NULL);
    v->far_rope = b_rope_with(b, rotary, far_theta, far);
    if (!b->failed && json_is_null(json_get(far, "attention_factor")))
        b->graph->ropes[v->far_rope].attention_factor = 1;
}

static void read_config(struct builder *b, struct v4 *v) {
    struct config *c = b->config;
    const struct json *rates = config_get(c, "compress_rates");
    v->d = decoder_from_config(b);
    v->norm.eps = v->d.norm_eps;
    v->hyper = (struct hyper_spec){.n = config_size_or(c, "hc_mult", 4),
                                   .n_iterations = config_size_or(c, "hc_sinkhorn_iters", 20),
                                   .epsilon = (float)config_real_or(c, "hc_eps", 1e-6),
                                   .norm_eps = v->d.norm_eps};
    v->attention = (struct compressed_spec){.n_heads = v->d.n_heads,
                                            .head_dim = v->d.head_dim,
                                            .q_rank = config_size_or(c, "q_lora_rank", 1024),
                                            .window = config_size_or(c, "sliding_window", 128),
                                            .n_groups = config_size_or(c, "o_groups", 8),
                                            .group_rank = config_size_or(c, "o_lora_rank", 1024),
                                            .index_dim = config_size_or(c, "index_head_dim", 128),
                                            .top_k = config_size_or(c, "index_topk", 512),
                                            .norm_eps = v->d.norm_eps};
    v->index_heads = config_size_or(c, "index_n_heads", 64);
    v->short_run =
        config_size_or(c, "compress_rate_csa", json_size(b, json_get(rates, "compressed_sparse_attention"), 4));
    v->long_run =
        config_size_or(c, "compress_rate_hca", json_size(b, json_get(rates, "heavily_compressed_attention"), 128));
    v->ratios = config_get(c, "compress_ratios");
    read_ropes(b, v);
}

void build_deepseek_v4(struct builder *b) {
    struct v4 v = {0};
    read_config(b, &v);
    v.names = b_has(b, "model.embed_tokens.weight", false) ? &converted : &released;
    const struct weight *embedding = decoder_embedding(b, &v.d, v.names->embedding);
    struct value x = b_embed(b, embedding), streams = value_none();
    if (!b->failed) streams = b_value(b, v.hyper.n * v.d.hidden_size);
    for (uint32_t i = 0; i < v.hyper.n && !b->failed; i++)
        b_copy(b, x, value_columns(streams, i * v.d.hidden_size, v.d.hidden_size));
    for (uint32_t i = 0; i < v.d.n_layers && !b->failed; i++) {
        builder_layer(b, v.names->layer, i);
        streams = build_layer(b, streams, &v, i);
        builder_layer_end(b, value_columns(streams, 0, v.d.hidden_size));
    }
    builder_top(b);
    x = b_select_outputs(b, block_hyper_head(b, streams, &v.hyper, v.names->head_streams));
    x = block_norm(b, x, &v.norm, v.names->norm);
    b->graph->hidden = x;
    decoder_logits(b, x, &v.d, embedding, v.names->head, false);
}
