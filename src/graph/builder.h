/* SPDX-License-Identifier: Apache-2.0 */
/* The builder: what family files and blocks describe a network with.
 *
 * Errors are sticky: after the first one every call does nothing and returns an empty value, so that a description needs
 * no checks; its caller looks at builder.failed once. Names are relative to the current scope (a layer) and may list
 * alternatives, separated by '|'; a name that begins with '/' is a full one. */
#ifndef MLXCEL_GRAPH_BUILDER_H
#define MLXCEL_GRAPH_BUILDER_H

#include "graph/graph.h"

struct builder {
    struct graph *graph;
    struct config *config;
    struct mx_error *err;
    bool failed;
    char scope[256];
    uint16_t layer;
};

void builder_init(struct builder *b, struct graph *graph, struct config *config, struct mx_error *err);
/* Sets the error, unless one is set. */
void builder_fail(struct builder *b, enum error_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Layer i begins: names are relative to format with the number filled in, e.g. "model.layers.%u". */
void builder_layer(struct builder *b, const char *format, uint32_t index);
/* Names are relative to another format, with a number of its own; the layer stays. */
void builder_scope(struct builder *b, const char *format, uint32_t index);
/* The layer's output: a tap for comparison with references and for drafters. */
void builder_layer_end(struct builder *b, struct value x);
/* Outside layers. */
void builder_top(struct builder *b);

/* ---- weights ---- */
const struct weight *b_matrix(struct builder *b, enum weight_role role, const char *modules, uint32_t n_rows,
                              uint32_t n_cols);
const struct weight *b_matrix_from(struct builder *b, enum weight_role role, const struct matrix_source *sources,
                                   size_t n_sources, uint32_t n_rows, uint32_t n_cols);
const struct weight *b_experts(struct builder *b, const struct matrix_source *sources, size_t n_sources,
                               uint32_t n_experts, uint32_t n_rows, uint32_t n_cols);
/* A matrix for each head (weights_heads). */
const struct weight *b_heads(struct builder *b, struct matrix_source source, uint32_t n_heads, uint32_t n_rows,
                             uint32_t n_cols);
/* Vectors: full tensor names. */
const struct weight *b_vector(struct builder *b, const char *names, uint32_t n);
const struct weight *b_vector_rows(struct builder *b, const char *names, struct row_selection rows, uint32_t n);
/* v[i] = f(v[i]) on a bound vector. */
void b_transform(struct builder *b, const struct weight *vector, float (*f)(float));
/* Brings the rows of an unquantised matrix to unit length, in a copy of its own type; a quantised one stays as it is. */
void b_unit_rows(struct builder *b, const struct weight *matrix);
/* n equal values that no file holds. */
const struct weight *b_constant(struct builder *b, uint32_t n, double value);
/* 1 / (length + 1e-7) of each column of a matrix. */
const struct weight *b_inverse_column_lengths(struct builder *b, const struct weight *matrix);
bool b_has(struct builder *b, const char *names, bool fallback);

/* ---- values ---- */
struct value b_value(struct builder *b, uint32_t width);
static inline struct value value_columns(struct value v, uint32_t offset, uint32_t width) {
    return (struct value){v.id, v.offset + offset, width};
}
static inline struct value value_none(void) { return (struct value){.id = NO_VALUE}; }

/* ---- ops ---- */
struct value b_embed(struct builder *b, const struct weight *table);
/* Ids beyond the table take the rows of a second one. */
struct value b_embed_with(struct builder *b, const struct weight *table, const struct weight *more);
/* A row of the table for each position. */
struct value b_embed_position(struct builder *b, const struct weight *table);
/* Row numbers of n-gram tables (params.state is set here), and a table's row by a number. */
struct value b_ngram(struct builder *b, struct ngram_params params);
struct value b_embed_number(struct builder *b, const struct weight *table, struct value number);
struct value b_norm(struct builder *b, struct value x, struct norm_params norm);
/* RMS norm with a weight vector; plus_one: the file stores w - 1. */
struct value b_rms_norm(struct builder *b, struct value x, const char *name, float eps, bool plus_one);
struct value b_add(struct builder *b, struct value x, struct value y);
struct value b_multiply(struct builder *b, struct value x, struct value y);
/* x * weight vector; a narrower vector (or y in b_multiply) scales equal blocks of columns, one each. */
struct value b_weigh(struct builder *b, struct value x, const struct weight *weight);
/* n_streams results side by side: residual + coefficients [n_streams][streams of x] times the streams of x. */
struct value b_mix(struct builder *b, struct value x, struct value coefficients, struct value residual,
                   uint32_t n_streams);
/* x times each of the factors, side by side. */
struct value b_spread(struct builder *b, struct value x, const struct weight *factors);
/* x's slots, one for each head, through a matrix for each head; out's slots are slot_stride columns apart (0: packed). */
void b_multiply_heads(struct builder *b, struct value x, const struct weight *weight, bool is_transposed,
                      struct value out, uint32_t slot_stride);
struct value b_add_vector(struct builder *b, struct value x, const struct weight *vector);
/* The dot products of the blocks of x and y: n_blocks columns. */
struct value b_block_dot(struct builder *b, struct value x, struct value y, uint32_t n_blocks);
/* One value for ordinary rows, another for rows of a canvas. */
struct value b_choose(struct builder *b, struct value ordinary, struct value canvas);
/* The vector that conditions each row (backend.h), or zeros. */
struct value b_condition(struct builder *b, uint32_t width);
struct value b_weights_dot(struct builder *b, struct value x, const struct weight *weight, uint32_t n_blocks);
/* max(x - (mean + factor * standard deviation), 0) */
struct value b_threshold(struct builder *b, struct value x, double factor);
/* x scaled to the root mean square of the reference. */
struct value b_match_rms(struct builder *b, struct value x, struct value reference, float least_square);
/* A table of per-token extras: looked up by id also where a row is a vector; ids beyond the table take row 0. */
struct value b_embed_by_id(struct builder *b, const struct weight *table);
struct value b_scale(struct builder *b, struct value x, double factor); /* factor 1 adds no op */
struct value b_unary(struct builder *b, enum unary f, struct value x);
struct value b_gated(struct builder *b, enum unary f, struct value gate, struct value up);
struct value b_softcap(struct builder *b, struct value x, float cap);
struct value b_softmax(struct builder *b, struct value x);
/* Copies x into some columns of another value. */
void b_copy(struct builder *b, struct value x, struct value out);
struct value b_clip(struct builder *b, struct value x, double low, double high);
/* Rounds to multiples of a scalar weight, as 8-bit caches hold them. */
struct value b_grid(struct builder *b, struct value x, const struct weight *step);
/* A factor for each row (width 1) that grows with its position: 1 + beta log(1 + floor((position + offset) / length)). */
struct value b_position(struct builder *b, double beta, double length, uint32_t offset);
/* No value is wider than MAX_WIDTH; an error where n things ("heads") of `each` columns would be. */
enum { MAX_WIDTH = 1 << 26 };
bool b_check_width(struct builder *b, uint64_t n, uint64_t each, const char *what);
/* One product with several matrices: the result holds their outputs side by side, in order. */
struct value b_matmul(struct builder *b, struct value x, const struct matmul_part *parts, size_t n_parts);
struct value b_linear(struct builder *b, struct value x, const struct weight *weight, const struct weight *bias);
struct value b_select_outputs(struct builder *b, struct value x);

/* Head ops: n_units units, each with heads_per_unit heads of head_dim columns. */
struct value b_head_norm(struct builder *b, struct value x, struct head_params heads, struct norm_params norm);
/* f(gate) * x; the same as b_gated, but able to join a chain of head ops. */
struct value b_head_gated(struct builder *b, enum unary f, struct value gate, struct value x, struct head_params heads);
/* f(factors[h]) * head h of x. */
struct value b_head_scale(struct builder *b, enum unary f, struct value factors, struct value x,
                          struct head_params heads);
struct value b_rope(struct builder *b, struct value x, struct head_params heads, uint32_t rope, bool is_interleaved);
uint32_t b_cache(struct builder *b, enum cache_policy policy, uint32_t window, uint32_t n_heads, uint32_t key_dim,
                 uint32_t value_dim);
void b_cache_write(struct builder *b, uint32_t cache, struct value keys, struct value values, struct head_params heads);
struct value b_attend(struct builder *b, struct value q, struct head_params heads, struct attend_params attend);
/* The choice of blocks that `choose` describes, for queries q and head weights (or none). */
struct value b_index(struct builder *b, struct value q, struct value weights, struct index_params index);
struct value b_compress(struct builder *b, struct value x, struct value weights, struct compress_params params);
struct value b_hyper(struct builder *b, struct value raw, struct hyper_params params);
/* A table whose positions are taken down to a multiple of step. */
uint32_t b_rope_stepped(struct builder *b, uint32_t rope, uint32_t step);
/* The last dimensions of each head rotated. */
struct value b_rope_last(struct builder *b, struct value x, struct head_params heads, uint32_t rope,
                         bool is_interleaved);
/* b_attend over chosen cells. */
struct value b_attend_chosen(struct builder *b, struct value q, struct value chosen, struct head_params heads,
                             struct attend_params attend);
struct value b_head_op(struct builder *b, struct op op, uint32_t out_width);

/* f32s of the state slot; returns their offset. */
uint32_t b_state(struct builder *b, uint64_t floats);

/* Any op: appended with the current layer. The output value must exist. */
struct op *b_op(struct builder *b, struct op op);

/* ---- rope tables ---- */
/* The rope of the config (rope_theta, rope_scaling or rope_parameters, possibly by layer type), for rotary_dim
 * dimensions. layer_type NULL or "full_attention", "sliding_attention". Returns the table's number. */
uint32_t b_rope_from_config(struct builder *b, uint32_t rotary_dim, const char *layer_type, double default_theta);
/* Without scaling, whatever the config says. */
uint32_t b_rope_plain(struct builder *b, uint32_t rotary_dim, double theta);
/* A table that turns the other way. */
uint32_t b_rope_negated(struct builder *b, uint32_t rope);
/* A rope of that base, scaled as the object (or NULL) says. */
uint32_t b_rope_with(struct builder *b, uint32_t rotary_dim, double theta, const struct json *scaling);
/* The cos/sin value of a table, made once a step. */
struct value b_rope_table(struct builder *b, uint32_t rope);

#endif
