/* SPDX-License-Identifier: Apache-2.0 */
/* The building blocks of decoder networks. Each describes one part of a layer to the builder, by a specification that the
 * family fills from its config. Module names default to the usual ones; a zeroed name means the default. */
#ifndef MLXCEL_GRAPH_BLOCKS_H
#define MLXCEL_GRAPH_BLOCKS_H

#include "graph/builder.h"

/* ---- norms ---- */

/* Zeroed but for eps: RMS norm with a weight. */
struct norm_spec {
    enum norm_kind kind;
    float eps;
    bool plus_one; /* the file stores w - 1 */
    bool is_plain; /* neither weight nor bias */
    bool has_bias; /* for shapes only; a file's bias is always used */
};

/* MODULE.weight and MODULE.bias over the whole width. */
struct value block_norm(struct builder *b, struct value x, const struct norm_spec *spec, const char *module);

/* ---- attention ---- */

enum qk_norm {
    QK_NORM_NONE,
    QK_NORM_HEAD, /* over each head, one weight of head_dim: q_norm.weight, k_norm.weight */
    QK_NORM_EACH, /* over each head, weights of its own: q_norm.weight [heads, head_dim], or q_norm.norms.N.weight */
    QK_NORM_ALL,  /* over all heads at once, a weight for each column */
};

/* How a fused tensor holds the rows of q, k and v. */
enum qkv_layout {
    QKV_IN_ORDER, /* all of q, all of k, all of v */
    QKV_BY_GROUP, /* for each key head: the q heads that read it, its k, its v */
};

struct attention_spec {
    uint32_t n_heads, n_kv_heads, head_dim;
    uint32_t value_dim;            /* of a value head; 0 = head_dim */
    bool has_qkv_bias, has_o_bias; /* for shapes only; a file's biases are always used */
    enum qk_norm qk_norm;
    enum norm_kind qk_norm_kind;
    float qk_norm_eps;
    bool qk_norm_plus_one; /* the file stores w - 1 */
    bool qk_norm_is_plain; /* without weights */
    bool qk_norm_after_rope;
    bool has_rope, rope_interleaved;
    uint32_t rope; /* table */
    enum cache_policy policy;
    uint32_t window;
    double scale; /* 0 = head_dim^-0.5 */
    float softcap;
    bool has_output_gate; /* q_proj holds query and gate inside each head; output times sigmoid(gate) */
    const char *sinks;    /* name of a tensor with one logit for each query head, or NULL */
    /* modules under the attention's; NULL: q_norm, q_proj and so on */
    const char *q_norm, *k_norm, *q_proj, *k_proj, *v_proj, *o_proj;
    const char *qkv_proj; /* a fused tensor, taken where the file has it and when shapes only; NULL: none */
    enum qkv_layout qkv_layout;
    bool is_transposed;  /* the file's matrices are [in, out] */
    double qkv_clip;     /* projections are clipped to +-qkv_clip, after a norm over all heads; 0 = not */
    bool value_norm;     /* RMS norm of each value head, without weights, eps as of q and k */
    bool keys_as_values; /* no v_proj: the values are the keys before norm and rope */
    /* keys and values of another layer are attended to: its cache. This layer then has no k_proj and v_proj */
    const uint32_t *shared_cache;
    /* where k and v as projected pass from one layer to the next: taken if there are any (the layer then has no k_proj and
     * v_proj, but norms and a cache of its own), else left there. NULL: not */
    struct value *shared_projection;
    double value_scale;                   /* multiplies the values; 0 = not */
    struct position_scale position_scale; /* of the queries */
    const struct index_spec *index;       /* "indexer": the cells that are attended to; NULL = all */
    /* A gate of its own on the output, f(gate_proj(x)): one value for each column, or for each head. NULL: none */
    const char *gate_proj;
    bool gate_is_per_head;
    enum unary gate_activation;
    bool is_strided;  /* query head j reads key head j mod n_kv_heads */
    uint32_t kv_taps; /* keys and values are filtered over this many positions, by conv_k and conv_v for each head */
    bool has_kv_grid; /* keys and values are rounded to multiples of quant_key_scale and quant_value_scale */
    struct block_pattern blocks;
    /* The result is mixed, head by head, with an attention of the same queries over an earlier cache, by the gate
     * sigmoid(weight . q + bias) of mix_gate: gate * earlier + (1 - gate) * own. NULL = not */
    const uint32_t *mixed_cache;
    const char *mix_gate;    /* full name of the gate's module */
    const char *output_norm; /* RMS norm before the output projection, or NULL */
};

/* The number of the cache that the last block_attention wrote, for layers that share it. */
uint32_t block_attention_cache(const struct builder *b);

/* module: "self_attn". Returns the output projection of the attention of x. */
struct value block_attention(struct builder *b, struct value x, const struct attention_spec *spec, const char *module);

/* Which cells an attention reads: the top_k blocks of `block` cells that small queries and keys find best. */
struct index_spec {
    uint32_t n_heads, head_dim, top_k, block;
    uint32_t n_local; /* blocks up to the query's own that are always read */
    /* One choice by the weighted sum over the heads (wq_b, wk, k_norm with bias, weights_proj); else a choice for each head
     * (q_proj, k_proj, q_norm, k_norm). */
    bool has_weights;
    float norm_eps;
    bool norm_plus_one; /* the file stores w - 1 */
    uint32_t rope;
    bool rope_interleaved;
};

/* The choice for b_attend_chosen; fills what attend must know of it. Queries come from q_input, keys from x. */
struct value block_index(struct builder *b, struct value x, struct value q_input, const struct index_spec *spec,
                         const char *module, struct attend_params *attend);

/* Latent attention: the cache holds a latent of kv_rank and a rotated key of rope_dim, for all heads together. */
struct mla_spec {
    uint32_t n_heads, nope_dim, rope_dim, value_dim;
    uint32_t q_rank, kv_rank; /* q_rank 0: queries come from the input itself */
    float latent_norm_eps;
    double q_latent_factor, kv_latent_factor; /* multiply the normalised latents; 0 = not */
    bool has_bias;                            /* of the projections to and from; for shapes only */
    bool has_rope, rope_interleaved;
    uint32_t rope; /* table of rope_dim */
    enum cache_policy policy;
    uint32_t window;
    double scale; /* 0 = (nope_dim + rope_dim)^-0.5 */
    struct position_scale position_scale;
    const struct index_spec *index; /* "indexer": the cells that are attended to; NULL = all */
};

struct value block_mla(struct builder *b, struct value x, const struct mla_spec *spec, const char *module);

/* Query heads that one task takes where all share one key head: a divisor, so that decoding finds work for threads. */
uint32_t block_heads_per_unit(uint32_t n_heads);

/* Attention over a window and compressed runs. One rope of the last dimensions, in pairs. */
struct compressed_spec {
    uint32_t n_heads, head_dim, q_rank, window;
    uint32_t n_groups, group_rank;          /* of the output projection */
    uint32_t run;                           /* tokens of a run; 0 = window only */
    bool is_overlapped;                     /* a run's mean includes the run before */
    uint32_t index_heads, index_dim, top_k; /* the index that chooses runs; index_heads 0 = all are seen */
    uint32_t rope;
    float norm_eps;
};

struct value block_compressed_attention(struct builder *b, struct value x, const struct compressed_spec *spec,
                                        const char *module);

/* ---- several residual streams ---- */

struct hyper_spec {
    uint32_t n, n_iterations;
    float epsilon, norm_eps;
};

/* A branch's place: what it reads, and where its result goes. */
struct hyper_site {
    struct value streams, weights, input;
    uint32_t n;
};

/* By the tensors NAME_fn, NAME_base and NAME_scale, or with points in the place of the underscores. */
struct hyper_site block_hyper_in(struct builder *b, struct value streams, const struct hyper_spec *spec,
                                 const char *name);
struct value block_hyper_out(struct builder *b, const struct hyper_site *site, struct value branch);
/* The streams as one. */
struct value block_hyper_head(struct builder *b, struct value streams, const struct hyper_spec *spec, const char *name);

/* ---- feed-forward ---- */

/* Bounds inside f(gate) * up. */
struct gate_limits {
    double limit;          /* the gate is kept below it, the other half within +-limit; 0 = not */
    bool after_activation; /* f(gate) is kept below it, not the gate */
    bool up_plus_one;      /* f(gate) * (up + 1) */
};

/* f(gate) * up within the limits. */
struct value block_limited_gate(struct builder *b, struct value gate, struct value up, enum unary f,
                                const struct gate_limits *limits);

struct mlp_spec {
    uint32_t intermediate_size;
    enum unary activation;
    bool has_bias; /* for shapes only */
    struct gate_limits limits;
    double gate_multiplier; /* of the gate before its activation; 0 = 1 */
    double gate_threshold;  /* the gate becomes what it exceeds mean + threshold * deviation by; 0 = not */
    const char *gate_proj, *up_proj, *down_proj; /* modules under the MLP's; NULL: gate_proj and so on */
    const char *gate_up_proj; /* a fused tensor, used where the file has no separate ones; NULL: none */
    bool up_is_first;         /* in the fused tensor */
    bool is_interleaved;      /* in the fused tensor: gate rows even, up rows odd */
    bool is_transposed;       /* the file's matrices are [in, out] */
    bool has_no_gate;         /* down(f(up(x))) */
    const char *xielu;        /* module of a trained activation in the place of f, without gate; or NULL */
    const char *inner_norm;   /* RMS norm before the down projection, or NULL */
    float inner_norm_eps;
};

/* down(f(gate(x)) * up(x)); module: "mlp". */
struct value block_gated_mlp(struct builder *b, struct value x, const struct mlp_spec *spec, const char *module);
/* The same, or without gate, as the specification says. */
struct value block_mlp(struct builder *b, struct value x, const struct mlp_spec *spec, const char *module);

/* down(f(up(x))), without a gate; module: "mlp". */
struct value block_plain_mlp(struct builder *b, struct value x, const struct mlp_spec *spec, const char *module);

struct moe_spec {
    struct router_params router;
    const char *router_module;
    const struct value *router_input; /* what the router reads; NULL = what the experts read */
    const char *expert_scale;         /* name of a factor for each expert's weight; NULL = none */
    const char *table;                /* name of a table of each token's experts, [table_rows][top_k]; NULL = none */
    uint32_t table_rows;
    const char *correction;  /* names of the bias that counts for the choice, where the file has it; NULL = none */
    bool has_correction;     /* for shapes only */
    bool has_no_router_bias; /* the router's "bias" is the correction */
    bool has_bias;           /* of experts and router; for shapes only: a file's biases are always used */
    /* experts that work in a narrower space: its size (0 = none), the modules into it and out of it */
    uint32_t latent_size;
    const char *latent_in, *latent_out;
    uint32_t intermediate_size; /* of one expert */
    enum unary activation;
    bool is_plain; /* experts without a gate: down(f(up(x))) */
    struct gate_limits limits;
    bool scales_input; /* the weight multiplies the expert's input in place of its output; top_k 1 only */
    /* where the matrices may lie: stacked, one module for each expert ("%u"), or gate and up fused ("gate_up") */
    struct matrix_source gate[4], up[4], down[4];
    uint32_t n_gate, n_up, n_down;
};

/* The sources of the usual layouts under `module`: MODULE.switch_mlp.NAME, MODULE.experts.%u.NAME, fused
 * MODULE.experts.gate_up_proj. is_plain and intermediate_size must be set. */
void moe_usual_sources(struct moe_spec *spec, struct builder *b, const char *module);

struct value block_moe(struct builder *b, struct value x, const struct moe_spec *spec);

/* An MLP beside the experts, its output times sigmoid(gate_module(x)) where gate_module is not NULL. */
struct value block_shared_expert(struct builder *b, struct value x, const struct mlp_spec *spec, const char *module,
                                 const char *gate_module);

/* ---- recurrent mixers ---- */

/* The end of a Mamba-2 mixer: norm(y * silu(gate)), norm(y) * silu(gate), y * silu(gate). */
enum gated_norm { GATED_NORM_LAST, GATED_NORM_FIRST, GATED_NORM_NONE };

struct mamba2_spec {
    uint32_t n_heads, head_dim, n_groups, state_dim, conv_taps;
    float dt_min, dt_max, norm_eps;
    bool has_conv_bias, has_proj_bias; /* for shapes only */
    enum gated_norm norm;
    uint32_t norm_groups; /* groups of channels that are normed each by itself; 0 = 1 */
    bool has_multipliers;
    float multipliers[5]; /* of in_proj's segments: gate, x, B, C, time step */
};

struct value block_mamba2(struct builder *b, struct value x, const struct mamba2_spec *spec, const char *module);

enum mamba_norms { MAMBA_NORMS_NONE, MAMBA_NORMS_PLAIN, MAMBA_NORMS_WEIGHTED };

struct mamba1_spec {
    uint32_t inner_size, state_dim, dt_rank, conv_taps;
    enum mamba_norms norms; /* of time step, B and C: none, without weight, dt_layernorm and the like */
    float norm_eps;
    bool has_conv_bias, has_proj_bias; /* for shapes only */
};

struct value block_mamba1(struct builder *b, struct value x, const struct mamba1_spec *spec, const char *module);

/* Gated linear recurrence behind a convolution, beside a GELU branch (Griffin; De et al. 2024). */
struct lru_spec {
    uint32_t n_heads, width, conv_taps;
};

struct value block_lru(struct builder *b, struct value x, const struct lru_spec *spec, const char *module);

struct short_conv_spec {
    uint32_t taps;
    bool has_bias; /* for shapes only */
};

/* out_proj(C * conv(B * x)) with B, C, x = in_proj; module: "conv". */
struct value block_short_conv(struct builder *b, struct value x, const struct short_conv_spec *spec,
                              const char *module);

/* Mamba whose time step, B and C come from the convolved channels through a normed bottleneck, with one decay rate for each
 * head; in_proj holds gate and input inside each head. */
struct mamba_bottleneck_spec {
    uint32_t n_heads, head_dim, state_dim, dt_rank, conv_taps;
    float norm_eps;
};

struct value block_mamba_bottleneck(struct builder *b, struct value x, const struct mamba_bottleneck_spec *spec,
                                    const char *module);

/* Linear attention with a constant decay for each head: S = S * decay + v k^T, y = S q; then a norm, times
 * sigmoid(gate(x)). */
struct linear_attention_spec {
    uint32_t n_heads, head_dim;
    double (*slope)(const void *context, uint32_t head); /* decay = exp(-slope) */
    const void *context;
    const char *qkv, *gate, *norm, *out; /* modules */
    bool qkv_by_head;                    /* q, k, v of a head lie together, else all of q come first */
    bool has_qkv_activation;
    enum unary qkv_activation;
    const char *q_norm, *k_norm; /* norms of each head; NULL = none */
    float qk_norm_eps;
    bool has_rope;
    uint32_t rope;
    double scale;         /* of the queries */
    uint32_t norm_groups; /* 0 = 1 */
    float norm_eps;
};

struct value block_linear_attention(struct builder *b, struct value x, const struct linear_attention_spec *spec,
                                    const char *module);

/* A recurrence with a diagonal plus rank-one transition for each head (kernels.h, dplr_job); all inputs but v have n_heads
 * times key_dim columns. */
struct value block_dplr(struct builder *b, uint32_t n_heads, uint32_t key_dim, uint32_t value_dim, struct value q,
                        struct value decay, struct value a, struct value bb, struct value k, struct value v);

/* Delta rule whose decay is a vector for each head (Kimi Delta Attention, 2025). */
struct channel_delta_spec {
    uint32_t n_heads, head_dim, conv_taps;
    float norm_eps;
};

/* Each head scaled to length `factor`; eps is added to the squared length. */
struct value block_l2_norm(struct builder *b, struct value x, struct head_params heads, double factor, double eps);

struct value block_channel_delta(struct builder *b, struct value x, const struct channel_delta_spec *spec,
                                 const char *module);

struct delta_spec {
    uint32_t n_key_heads, n_value_heads, key_dim, value_dim, conv_taps;
    float norm_eps;
    double beta_factor; /* 0 = 1; 2 lets the transition have negative eigenvalues */
};

struct value block_delta_net(struct builder *b, struct value x, const struct delta_spec *spec, const char *module);

enum { CHANNEL_UNIT = 64 }; /* channels of one unit of channel-wise ops */

/* Sizes from a file, before they are multiplied: channels of a mixer, values of its state for each channel, taps. An error
 * where they are not credible. */
bool block_check_mixer(struct builder *b, uint64_t channels, uint64_t state_dim, uint64_t taps);

/* Causal convolution of every channel of x; its history becomes part of the state. bias may be NULL. */
struct value block_conv(struct builder *b, struct value x, const struct weight *weight, const struct weight *bias,
                        uint32_t taps, bool silu);
/* The weights of one convolution from those of three, whatever channels each of the tensors holds. */
const struct weight *block_joined_conv(struct builder *b, const char *const names[3], const uint32_t channels[3],
                                       uint32_t taps);
/* The previous token's x; zero for the first. */
struct value block_previous(struct builder *b, struct value x);
/* -exp(vector) */
const struct weight *block_decay_rate(struct builder *b, const char *name, uint32_t n);
/* A vector where the file has it, or, without a file, where it is expected. */
const struct weight *block_optional_vector(struct builder *b, const char *name, bool expected, uint32_t n);

/* Convolution weights [channels, 1, taps] (released files) or [channels, taps, 1] (MLX): the same bytes either way. */
const struct weight *block_conv_weight(struct builder *b, const char *names, uint32_t channels, uint32_t taps);

/* A bias where the file has one or, for shapes only, where it is expected; else NULL. */
const struct weight *block_bias(struct builder *b, const char *name, struct row_selection rows, uint32_t n,
                                bool expected);

/* "module.name" in the graph's arena, for each pair of their alternatives ('|'); the name itself where module is NULL. */
const char *block_name(struct builder *b, const char *module, const char *name);

/* The activation that a config names; an unknown one is an error. */
enum unary block_activation(struct builder *b, const char *name);

#endif
