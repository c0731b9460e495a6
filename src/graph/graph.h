/* SPDX-License-Identifier: Apache-2.0 */
/* The description of a model: a flat list of ops over values.
 *
 * A value is a table of f32 with one row for each row of a step ("row domain"), or for each row whose output is wanted
 * ("output domain"). Ops read values and write values; each op names its weights, caches and parameters. The list is
 * made once by a family file through graph/builder.h and graph/blocks; graph/lower.c fuses ops and plans buffers; a
 * backend executes it.
 *
 * Three classes of ops, by how their work divides:
 *   row ops    a row's result needs that row only            (embed, norm, element-wise, routing)
 *   matmuls    row blocks x blocks of weight rows
 *   head ops   one unit (key head and its query heads, SSM group, ...) of one span, rows in order
 * Consecutive head ops with equal unit counts may run as one OP_HEADS: each unit goes through the whole chain alone. */
#ifndef MLXCEL_GRAPH_GRAPH_H
#define MLXCEL_GRAPH_GRAPH_H

#include "graph/weights.h"
#include "kernels/kernels.h"

enum { NO_VALUE = -1 };

/* A value, or some columns of one. */
struct value {
    int id; /* NO_VALUE = none */
    uint32_t offset, width;
};

struct value_info {
    uint32_t width;
    bool is_output_domain;
    int buffer; /* set by planning */
};

enum op_kind {
    /* row ops */
    OP_EMBED,      /* out = embedding row of the token, or the row's vector */
    OP_ROPE_TABLE, /* out = cos, sin of one rope table at the row's position */
    OP_NORM,       /* out = norm(in0), over groups of `norm.group` columns */
    OP_ADD,        /* out = in0 + in1, or + weight vector where in1 is missing */
    OP_MULTIPLY,   /* out = in0 * in1; a narrower in1 scales equal blocks of columns, one each */
    OP_WEIGH,      /* out = in0 * weight vector; a narrower one scales equal blocks of columns, one each */
    OP_SCALE,      /* out = in0 * factor */
    OP_UNARY,      /* out = f(in0) */
    OP_GATED,      /* out = f(in0) * in1 */
    OP_SOFTCAP,    /* out = factor * tanh(in0 / factor) */
    OP_CLIP,       /* out = in0 within [low, high] */
    OP_HYPER,      /* out = weights of hyper-connections, by their raw logits in0 */
    OP_SOFTMAX,    /* out = softmax of in0 */
    OP_COPY,       /* out = in0 */
    OP_POSITION,   /* out [1] = the factor of the row's position */
    OP_MIX,        /* streams side by side: out_i = in2_i + sum over j of in1[i][j] * in0_j (in2 may be missing) */
    OP_BLOCK_DOT,  /* out[i] = dot of the blocks i of in0 and in1, or the weight vector */
    OP_SPREAD,     /* out block i = in0 * weight[i] */
    OP_THRESHOLD,  /* out = max(in0 - (mean + factor * standard deviation), 0) */
    OP_MATCH_RMS,  /* out = in0 scaled to the root mean square of in1; `factor` bounds in0's mean square from below */
    OP_GRID,       /* out = in0 rounded to `step` times an integer in [-128, 127] */
    OP_XIELU,      /* out = in0 through an activation with trained parameters */
    OP_CHOOSE,     /* out = in0 for ordinary rows, in1 for those of a canvas */
    OP_CONDITION,  /* out = the vector that conditions the row, or zeros */
    OP_SELECT,     /* out (output domain) = rows of in0 whose output is wanted */
    OP_TAP,        /* copies in0 to the step's tap buffer of the layer, where it asks for it */
    OP_ROUTE,      /* in0 = router logits; out = top-k expert numbers and weights */
    OP_COMBINE, /* out = sum over the row's experts of weight * in0[slot]; in1 = route, in2 = what identities return */
    /* matmuls */
    OP_MATMUL,       /* out columns = in0 x parts */
    OP_MATMUL_GATED, /* out = f(in0 x parts[0]) * (in0 x parts[1]) */
    OP_EXPERTS, /* as OP_MATMUL for each of the row's experts: out and in0 (if `expert_input`) have k slots. Without a
                      * route slot s goes to matrix s: one matrix for each head */
    OP_EXPERTS_GATED,
    /* head ops */
    OP_HEAD_NORM,   /* out = norm of each head of in0 */
    OP_ROPE,        /* out = rotated heads of in0; in1 = rope table */
    OP_CACHE_WRITE, /* in0 = keys, in1 = values into the row's cell */
    OP_INDEX, /* out = the blocks of cells whose keys in the cache fit in0 best; in1 = weights of in0's heads or none */
    OP_ATTEND,   /* out = attention of the queries in0 over the cache, or the cells that in1 (OP_INDEX) names */
    OP_CONV,     /* out = causal convolution of in0's channels */
    OP_MAMBA2,   /* out = scan; in0 = x, in1 = B, in2 = C, in3 = dt (raw; missing: 1) */
    OP_MAMBA1,   /* out = selective scan; in0 = x, in1 = B, in2 = C, in3 = dt */
    OP_LRU,      /* out = gated linear recurrence; in0 = x, in1 = log of the decay */
    OP_DPLR,     /* out = recurrence with a diagonal plus rank-one transition; in0 = q, in1 = decay, in2 = a,
                       in3 = b, in4 = k, in5 = v */
    OP_COMPRESS, /* out = a softmax-weighted mean of in0 over the tokens of a run, at its last token; in1 = raw weights */
    OP_NGRAM,    /* out = row numbers of n-gram tables, by the row's token and those before it, as u32 bits */
    OP_DELTA,    /* out = gated delta rule; in0 = q, in1 = k, in2 = v, in3 = b, in4 = a (raw) */
    OP_HEAD_GATED, /* out = f(in0) * in1, by heads */
    OP_HEAD_SCALE, /* out = f(in0) * in1, in0 with one value for each head */
    OP_HEADS,      /* a chain of the head ops above */
    N_OP_KINDS,
};

enum { MAX_PARTS = 8, MAX_INPUTS = 6, MAX_CHAIN = 10 };

struct matmul_part {
    const struct weight *weight;
    const struct weight *bias; /* NULL = none */
    uint32_t out_offset;       /* first column in the op's output */
    bool is_exact;             /* f32 activations and weights in every precision: routers, decay gates */
    bool is_transposed; /* slots only: the product goes along the rows, out has n_cols columns. The input is f32, each
                                * column one accumulator, rows ascending by fma */
};

enum norm_kind { NORM_RMS, NORM_LAYER };

struct norm_params {
    enum norm_kind kind;
    const struct weight *weight, *bias; /* NULL = none */
    float eps;
    uint32_t group; /* columns of one norm; 0 = the whole width */
    bool per_group; /* the weight covers all groups or heads (else each uses the same weights) */
};

enum router_kind {
    ROUTER_SOFTMAX_ALL,   /* softmax over all experts, then the k best, renormalised if wanted */
    ROUTER_SOFTMAX_TOP,   /* the k best logits, softmax over them */
    ROUTER_SIGMOID,       /* scores sigmoid(logit), chosen by score + bias, weights without the bias */
    ROUTER_SQRT_SOFTPLUS, /* scores sqrt(log(1 + exp(logit))), else as ROUTER_SIGMOID */
    ROUTER_SPARSEMIXER,   /* k times: the best logit, its softmax among those within 2 * jitter of it, relatively */
};

struct router_params {
    enum router_kind kind;
    uint32_t n_experts, top_k;
    bool normalize;                    /* divide by the sum of the chosen weights */
    float normalize_epsilon;           /* added to that sum */
    float factor;                      /* multiplies the weights */
    const struct weight *bias;         /* for the choice only */
    const struct weight *expert_scale; /* multiplies the weights, one factor for each expert; NULL = none */
    uint32_t n_groups, top_groups;
    bool group_by_best;   /* a group's score is its best expert's, else the sum of its two best */
    bool group_to_lowest; /* experts of the other groups are out, else their score is 0 */
    float jitter;
    const struct weight *table; /* [vocabulary][top_k]: the experts of each token, in place of a choice; NULL = none */
    uint32_t n_identity;        /* numbers from n_experts on: experts that return their input */
};

/* A head op's unit u covers heads [u * heads_per_unit, (u + 1) * heads_per_unit) of its input and output. */
struct head_params {
    uint32_t n_units, heads_per_unit, head_dim;
    bool is_channelwise; /* units are blocks of channels that cut across heads */
    bool is_strided;     /* unit u covers heads u, u + n_units, u + 2 n_units, ... in place of consecutive ones */
};

/* The number of head i of a unit. */
static inline uint32_t head_number(const struct head_params *heads, uint32_t unit, uint32_t i) {
    return heads->is_strided ? unit + i * heads->n_units : unit * heads->heads_per_unit + i;
}

/* Blocks of cells that a query sees: the nearest `local` ones, and every stride-th, shifted by the head:
 * (block + head + 1) mod stride = 0. */
struct block_pattern {
    uint32_t size, local, stride; /* size 0 = all cells */
};

/* A choice of top_k blocks of `block` cells for each of n_choices groups of index heads. A cell's score is the sum of
 * weight * max(q k, 0) over the group's heads, or, without weights, the product with the one head; a block's score is that
 * of its best visible cell. The query's own block and the n_local - 1 before it always win; of equal blocks the later
 * does. The result is, for each choice, a count and that many block numbers, ascending, as u32 bits; the count is
 * UINT32_MAX where all blocks are chosen. */
struct index_params {
    uint32_t cache, key_dim, n_choices, heads_per_choice, top_k, block, n_local;
    bool at_end; /* a block has one key, in its last cell, and can be chosen when that is visible */
};

static inline uint32_t choice_width(uint32_t top_k) { return top_k + 1; }

struct attend_params {
    uint32_t cache; /* index into graph.caches */
    uint32_t key_dim, value_dim;
    float scale, softcap;
    const struct weight *sinks; /* [query heads] or NULL */
    struct block_pattern blocks;
    /* A second cache whose cells are seen, too, before those of the first: the last one of each `run` cells, of those that
     * in1 chooses where there is a choice. run 0 = none. Both caches have one head and equal dimensions. */
    uint32_t more_cache, run;
    uint32_t n_choices, top_k, block; /* of in1; the heads are shared out evenly among the choices */
};

/* A factor that grows with the position: 1 + beta log(1 + floor((position + offset) / length)). */
struct position_scale {
    double beta, length; /* beta 0 = none */
    uint32_t offset;
};

struct rope_params {
    uint32_t table;      /* index into graph.ropes */
    uint32_t rotary_dim; /* of head_dim; the rest passes */
    bool is_interleaved;
    uint32_t first;                 /* of the rotated dimensions */
    uint32_t in_stride, out_stride; /* columns from head to head; 0 = head_dim */
};

struct conv_params {
    const struct weight *weight, *bias; /* [channels][taps]; [channels] */
    uint32_t taps, n_channels;
    uint32_t state; /* offset in f32s of the state slot: [taps - 1][n_channels] */
    bool silu;
    /* unit u covers these channel ranges: range i is first[i] + u * count[i] .. + count[i] */
    uint32_t n_ranges, first[3], count[3];
};

struct mamba2_params {
    uint32_t n_heads, head_dim, state_dim, heads_per_group;
    const struct weight *a, *d, *dt_bias; /* a = -exp(A_log); d and dt_bias may be missing */
    float dt_min, dt_max;
    uint32_t state; /* offset: [heads][head_dim][state_dim] */
};

/* Unit u has the channels [u * unit_channels, (u + 1) * unit_channels) of n_channels. */
struct scan_params {
    uint32_t n_channels, unit_channels, state_dim;
    const struct weight *a, *d; /* [channels][state_dim], [channels]; OP_MAMBA1 only */
    uint32_t state;             /* offset: [channels][state_dim] */
};

struct dplr_params {
    uint32_t key_dim, value_dim;
    uint32_t state; /* offset: [heads][value_dim][key_dim] */
};

/* Tables for the last 2, 3, .. n tokens, n_tables of each kind. Table t, counted through, has first_size + 2 t rows; the
 * number is the sum of the tokens times powers of the vocabulary's size, the last token first, modulo that. */
enum { COMPRESS_UNIT = 64 }; /* channels of one unit */

struct compress_params {
    uint32_t run, width;         /* width of the result */
    bool is_overlapped;          /* in0 and in1 have two halves: a run's first half counts in the next run, too */
    const struct weight *biases; /* [run][width of in1]: added to the raw weights by the place in the run */
    uint32_t state;              /* offset: [3 or 9][width]: largest weight, sum, weighted sum (of each series) */
};

/* Weights of n streams, by raw[(2 + n) n] = in0 * scale + base: pre [n] = sigmoid + epsilon, post [n] = 2 sigmoid, and a
 * matrix [n][n], softmax of each row + epsilon, made nearly doubly stochastic by dividing columns, rows, .. by their sums;
 * it is stored with its rows as columns. Scales are for the three parts. Only pre where n_parts is 1. */
enum { HYPER_STREAMS = 16 }; /* at most */

struct hyper_params {
    uint32_t n, n_iterations, n_parts;
    float epsilon;
    const struct weight *base, *scale;
};

struct ngram_params {
    uint32_t n, n_tables, first_size, vocab_size;
    uint32_t state; /* offset: [n - 1], the tokens before, the last one last */
};

struct delta_params {
    uint32_t n_key_heads, n_value_heads, key_dim, value_dim;
    const struct weight *a, *dt_bias; /* a = -exp(A_log) */
    float beta_factor;                /* beta = factor * sigmoid(raw) */
    uint32_t state;                   /* offset: [value heads][value_dim][key_dim] */
};

struct op {
    enum op_kind kind;
    uint16_t layer; /* 0xffff = outside the layers */
    struct value in[MAX_INPUTS];
    struct value out;
    union {
        struct {
            const struct weight *weight;
            const struct weight *more; /* rows for the ids beyond the table, or NULL */
            bool by_id;                /* also where the row has a vector; ids beyond the table, and none, take row 0 */
            bool by_value;             /* row number by in0, as u32 bits; numbers beyond the table take row 0 */
            bool by_position; /* row number position, or the last one beyond the table, in place of the token */
        } embed;
        const struct weight *weight; /* OP_WEIGH, OP_SPREAD, OP_ADD */
        struct {
            const struct weight *step; /* one value */
        } grid;
        struct {
            const struct weight *positive, *negative; /* one value each, ready for use */
            float beta, epsilon;
        } xielu;
        struct norm_params norm;
        enum unary unary;
        float factor;
        struct router_params router;
        struct hyper_params hyper;
        struct {
            float low, high;
        } clip;
        struct position_scale position;
        struct {
            uint32_t n_parts;
            struct matmul_part parts[MAX_PARTS];
            enum unary unary;     /* gated forms */
            uint32_t top_k;       /* experts */
            bool expert_input;    /* in0 has one row of columns for each slot */
            uint32_t slot_stride; /* columns from slot to slot of the output; 0 = as many as a slot has */
            bool has_norm;        /* fused: in0 goes through `norm` first */
            struct norm_params norm;
            bool has_residual; /* fused: in1 is added to the result, after scaling by `factor` if not 1 */
            float factor;
        } matmul; /* in0 = x, in1 = residual, in2 = route */
        struct {
            struct head_params heads;
            union {
                struct norm_params norm;
                enum unary unary;
                struct rope_params rope;
                struct attend_params attend;
                struct index_params index;
                struct conv_params conv;
                struct mamba2_params mamba2;
                struct scan_params scan;
                struct dplr_params dplr;
                struct delta_params delta;
                struct ngram_params ngram;
                struct compress_params compress;
            };
        } head;
        struct {
            uint32_t n_units;
            uint32_t n_ops;
            struct op *ops[MAX_CHAIN];
        } chain;
        uint32_t rope_table;
        struct {
            uint32_t top_k, n_experts;
        } combine;
        uint32_t n_streams; /* OP_MIX: of the output */
    };
};

/* ---- caches and state ---- */

enum cache_policy { CACHE_FULL, CACHE_WINDOW, CACHE_CHUNK };

/* Caches with the same geometry and policy share pages and page tables. */
struct cache_group {
    enum cache_policy policy;
    uint32_t window; /* cells a query sees, with its own (window), or cells of a chunk */
    uint32_t n_heads, key_dim, value_dim;
    uint32_t n_entries; /* (layer, cache) pairs */
};

struct cache {
    uint32_t group, entry;
};

/* ---- rope ---- */

enum rope_kind { ROPE_PLAIN, ROPE_DYNAMIC, ROPE_LONG };

struct rope {
    enum rope_kind kind;
    uint32_t rotary_dim;
    float *inverse_frequency;                      /* [rotary_dim / 2] */
    float *long_inverse_frequency;                 /* ROPE_LONG: beyond original_length */
    float attention_factor, long_attention_factor; /* multiply cos and sin */
    double base, factor;                           /* ROPE_DYNAMIC */
    uint32_t original_length;
    uint32_t step; /* positions are taken down to a multiple of it; 0 = as they are */
};

/* ---- block diffusion ---- */

/* How a model that fills blocks of text in both directions is decoded. */
enum diffusion_kind {
    DIFFUSION_NONE,
    DIFFUSION_CANVAS, /* a canvas of random tokens is denoised; the final text is then read as a prompt is */
    DIFFUSION_MASK,   /* masked tokens of a block are revealed step by step; every block sees itself both ways */
};

struct block_diffusion {
    enum diffusion_kind kind;
    uint32_t block_length, mask_id;
    const struct weight
        *embedding; /* DIFFUSION_CANVAS: a row's condition is the expected embedding of its last guess */
    float embedding_factor;
};

/* ---- the graph ---- */

struct graph {
    struct op *ops;
    size_t n_ops, ops_capacity;
    struct value_info *values;
    size_t n_values, values_capacity;
    struct cache *caches;
    size_t n_caches, caches_capacity;
    struct cache_group *groups;
    size_t n_groups, groups_capacity;
    struct rope *ropes;
    size_t n_ropes, ropes_capacity;
    uint64_t state_floats; /* of one state slot */
    struct block_diffusion diffusion;
    struct value logits, hidden; /* output domain; hidden = what the head reads */
    uint32_t vocab_size, hidden_size, n_layers, context_length;
    struct weights weights;
    struct arena arena;
};

void graph_free(struct graph *graph);

const char *op_kind_name(enum op_kind kind);
static inline bool op_is_head(enum op_kind kind) { return kind >= OP_HEAD_NORM; }
static inline bool op_is_matmul(enum op_kind kind) { return kind >= OP_MATMUL && kind <= OP_EXPERTS_GATED; }

/* Bytes of one page of a group: all entries, heads, 64 cells, keys and values. */
uint64_t cache_group_page_bytes(const struct cache_group *group, enum kv_format format);
uint64_t cache_head_bytes(const struct cache_group *group, enum kv_format format);

#endif
