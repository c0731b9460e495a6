/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/builder.h"

#include "base/memory.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void builder_init(struct builder *b, struct graph *graph, struct config *config, struct mx_error *err) {
    *b = (struct builder){.graph = graph, .config = config, .err = err, .layer = 0xffff};
    graph->logits = graph->hidden = value_none();
}

void builder_fail(struct builder *b, enum error_code code, const char *format, ...) {
    if (b->failed) return;
    b->failed = true;
    va_list args;
    va_start(args, format);
    error_set_va(b->err, code, format, args);
    va_end(args);
}

static void *failed_memory(struct builder *b) {
    builder_fail(b, ERROR_MEMORY, "out of memory (model graph)");
    return NULL;
}

void builder_scope(struct builder *b, const char *format, uint32_t index) {
    const char *number = strstr(format, "%u");
    int n = number ? (int)(number - format) : (int)strlen(format);
    snprintf(b->scope, sizeof b->scope, "%.*s%u%s", n, format, index, number ? number + 2 : "");
}

void builder_layer(struct builder *b, const char *format, uint32_t index) {
    builder_scope(b, format, index);
    b->layer = (uint16_t)index;
}

void builder_top(struct builder *b) {
    b->scope[0] = '\0';
    b->layer = 0xffff;
}

void builder_layer_end(struct builder *b, struct value x) {
    b_op(b, (struct op){.kind = OP_TAP, .in = {x}, .out = value_none()});
    builder_top(b);
}

/* ---- weights ---- */

static const struct weight *taken(struct builder *b, const struct weight *weight) {
    if (!weight) b->failed = true;
    return weight;
}

const struct weight *b_matrix_from(struct builder *b, enum weight_role role, const struct matrix_source *sources,
                                   size_t n_sources, uint32_t n_rows, uint32_t n_cols) {
    if (b->failed) return NULL;
    return taken(b, weights_matrix(&b->graph->weights, b->scope, sources, n_sources, role, n_rows, n_cols, b->err));
}

const struct weight *b_matrix(struct builder *b, enum weight_role role, const char *modules, uint32_t n_rows,
                              uint32_t n_cols) {
    return b_matrix_from(b, role, &(struct matrix_source){.module = modules}, 1, n_rows, n_cols);
}

const struct weight *b_experts(struct builder *b, const struct matrix_source *sources, size_t n_sources,
                               uint32_t n_experts, uint32_t n_rows, uint32_t n_cols) {
    if (b->failed) return NULL;
    return taken(b,
                 weights_experts(&b->graph->weights, b->scope, sources, n_sources, n_experts, n_rows, n_cols, b->err));
}

const struct weight *b_heads(struct builder *b, struct matrix_source source, uint32_t n_heads, uint32_t n_rows,
                             uint32_t n_cols) {
    if (b->failed) return NULL;
    return taken(b, weights_heads(&b->graph->weights, b->scope, &source, n_heads, n_rows, n_cols, b->err));
}

const struct weight *b_vector_rows(struct builder *b, const char *names, struct row_selection rows, uint32_t n) {
    if (b->failed) return NULL;
    return taken(b, weights_vector(&b->graph->weights, b->scope, names, &rows, n, b->err));
}

const struct weight *b_vector(struct builder *b, const char *names, uint32_t n) {
    return b_vector_rows(b, names, (struct row_selection){0}, n);
}

void b_transform(struct builder *b, const struct weight *vector, float (*f)(float)) {
    if (b->failed || !vector->vector) return;
    for (uint32_t i = 0; i < vector->n_cols; i++) vector->vector[i] = f(vector->vector[i]);
}

void b_unit_rows(struct builder *b, const struct weight *matrix) {
    if (!b->failed && !weights_unit_rows(&b->graph->weights, matrix->matrices, b->err)) b->failed = true;
}

bool b_has(struct builder *b, const char *names, bool fallback) {
    return !b->failed && weights_has(&b->graph->weights, b->scope, names, fallback);
}

const struct weight *b_constant(struct builder *b, uint32_t n, double value) {
    struct arena *arena = &b->graph->arena;
    struct weight *weight = b->failed ? NULL : arena_calloc(arena, 1, sizeof *weight);
    float *vector = weight ? arena_calloc(arena, n, sizeof *vector) : NULL;
    if (!vector) return failed_memory(b);
    for (uint32_t i = 0; i < n; i++) vector[i] = (float)value;
    *weight = (struct weight){.name = "constant", .role = ROLE_NORM, .n_rows = 1, .n_cols = n, .vector = vector};
    return weight;
}

const struct weight *b_inverse_column_lengths(struct builder *b, const struct weight *matrix) {
    const struct kernels *kernels = kernels_for_tier(TIER_REF);
    const struct weight *result = b->failed ? NULL : b_constant(b, matrix->n_cols, 1);
    if (!result || !b->graph->weights.checkpoint) return result;
    double *squares = calloc(matrix->n_cols, sizeof *squares);
    float *row = calloc((size_t)matrix->n_cols + 64, sizeof *row);
    if (!squares || !row) failed_memory(b);
    for (uint32_t r = 0; r < matrix->n_rows && !b->failed; r++) {
        struct weight_rows run;
        matrix_run(matrix->matrices, r, 1, &run);
        kernels->dequantize_row(&run, 0, row);
        for (uint32_t k = 0; k < matrix->n_cols; k++) squares[k] += (double)row[k] * (double)row[k];
    }
    for (uint32_t k = 0; k < matrix->n_cols && !b->failed; k++)
        result->vector[k] = (float)(1 / (sqrt(squares[k]) + 1e-7));
    free(squares);
    free(row);
    return result;
}

/* ---- values and ops ---- */

static struct value new_value(struct builder *b, uint32_t width, bool is_output) {
    struct graph *g = b->graph;
    if (b->failed || !array_reserve(&g->values, &g->values_capacity, g->n_values + 1, sizeof *g->values)) {
        failed_memory(b);
        return value_none();
    }
    g->values[g->n_values] = (struct value_info){.width = width, .is_output_domain = is_output, .buffer = -1};
    return (struct value){.id = (int)g->n_values++, .width = width};
}

struct value b_value(struct builder *b, uint32_t width) {
    return new_value(b, width, false);
}

/* A value in the domain of another one. */
static struct value value_like(struct builder *b, struct value x, uint32_t width) {
    if (b->failed) return value_none();
    return new_value(b, width, b->graph->values[x.id].is_output_domain);
}

struct op *b_op(struct builder *b, struct op op) {
    struct graph *g = b->graph;
    if (b->failed) return NULL;
    if (!array_reserve(&g->ops, &g->ops_capacity, g->n_ops + 1, sizeof *g->ops)) return failed_memory(b);
    op.layer = b->layer;
    g->ops[g->n_ops] = op;
    return &g->ops[g->n_ops++];
}

/* Appends an op of up to two inputs whose output is as wide as the first. */
static struct value simple_op(struct builder *b, struct op op, struct value x, struct value y) {
    struct value out = value_like(b, x, x.width);
    op.in[0] = x;
    op.in[1] = y;
    op.out = out;
    b_op(b, op);
    return out;
}

struct value b_embed_with(struct builder *b, const struct weight *table, const struct weight *more) {
    if (b->failed) return value_none();
    struct value out = b_value(b, table->n_cols);
    b_op(b, (struct op){.kind = OP_EMBED, .in = {value_none()}, .out = out, .embed = {.weight = table, .more = more}});
    return out;
}

struct value b_embed(struct builder *b, const struct weight *table) {
    return b_embed_with(b, table, NULL);
}

struct value b_embed_position(struct builder *b, const struct weight *table) {
    if (b->failed) return value_none();
    struct value out = b_value(b, table->n_cols);
    b_op(b, (struct op){
                .kind = OP_EMBED, .in = {value_none()}, .out = out, .embed = {.weight = table, .by_position = true}});
    return out;
}

struct value b_ngram(struct builder *b, struct ngram_params params) {
    struct op op = {.kind = OP_NGRAM, .in = {value_none()}};
    if (!b->failed && (params.n < 2 || params.n > 16 || params.vocab_size > 1 << 24))
        builder_fail(b, ERROR_UNSUPPORTED, "%s: n-grams of %u tokens, of %u, are not supported", b->config->path,
                     params.n, params.vocab_size);
    if (b->failed) return value_none();
    params.state = b_state(b, params.n - 1);
    op.head.heads.n_units = 1;
    op.head.ngram = params;
    return b_head_op(b, op, (params.n - 1) * params.n_tables);
}

struct value b_embed_number(struct builder *b, const struct weight *table, struct value number) {
    if (b->failed) return value_none();
    struct value out = b_value(b, table->n_cols);
    b_op(b, (struct op){.kind = OP_EMBED, .in = {number}, .out = out, .embed = {.weight = table, .by_value = true}});
    return out;
}

struct value b_norm(struct builder *b, struct value x, struct norm_params norm) {
    return simple_op(b, (struct op){.kind = OP_NORM, .norm = norm}, x, value_none());
}

static float plus_one_f(float x) { return 1.0f + x; }

struct value b_rms_norm(struct builder *b, struct value x, const char *name, float eps, bool plus_one) {
    const struct weight *weight = b_vector(b, name, x.width);
    if (plus_one) b_transform(b, weight, plus_one_f);
    return b_norm(b, x, (struct norm_params){.kind = NORM_RMS, .weight = weight, .eps = eps});
}

struct value b_add(struct builder *b, struct value x, struct value y) {
    return simple_op(b, (struct op){.kind = OP_ADD}, x, y);
}

struct value b_multiply(struct builder *b, struct value x, struct value y) {
    return simple_op(b, (struct op){.kind = OP_MULTIPLY}, x, y);
}

struct value b_weigh(struct builder *b, struct value x, const struct weight *weight) {
    return simple_op(b, (struct op){.kind = OP_WEIGH, .weight = weight}, x, value_none());
}

struct value b_mix(struct builder *b, struct value x, struct value coefficients, struct value residual,
                   uint32_t n_streams) {
    if (b->failed) return value_none();
    uint32_t width = x.width / (coefficients.width / n_streams);
    struct op op = {.kind = OP_MIX,
                    .in = {x, coefficients, residual},
                    .n_streams = n_streams,
                    .out = value_like(b, x, n_streams * width)};
    b_op(b, op);
    return op.out;
}

struct value b_spread(struct builder *b, struct value x, const struct weight *factors) {
    if (b->failed) return value_none();
    struct op op = {
        .kind = OP_SPREAD, .in = {x}, .weight = factors, .out = value_like(b, x, factors->n_cols * x.width)};
    b_op(b, op);
    return op.out;
}

void b_multiply_heads(struct builder *b, struct value x, const struct weight *weight, bool is_transposed,
                      struct value out, uint32_t slot_stride) {
    struct op op = {.kind = OP_EXPERTS, .in = {x, value_none(), value_none()}, .out = out};
    if (b->failed) return;
    op.matmul.n_parts = 1;
    op.matmul.top_k = weight->n_experts;
    op.matmul.expert_input = true;
    op.matmul.factor = 1.0f;
    op.matmul.slot_stride = slot_stride;
    op.matmul.parts[0] = (struct matmul_part){.weight = weight, .is_transposed = is_transposed};
    b_op(b, op);
}

struct value b_add_vector(struct builder *b, struct value x, const struct weight *vector) {
    return simple_op(b, (struct op){.kind = OP_ADD, .weight = vector}, x, value_none());
}

struct value b_block_dot(struct builder *b, struct value x, struct value y, uint32_t n_blocks) {
    if (b->failed) return value_none();
    struct op op = {.kind = OP_BLOCK_DOT, .in = {x, y}, .out = value_like(b, x, n_blocks)};
    b_op(b, op);
    return op.out;
}

struct value b_choose(struct builder *b, struct value ordinary, struct value canvas) {
    return simple_op(b, (struct op){.kind = OP_CHOOSE}, ordinary, canvas);
}

struct value b_condition(struct builder *b, uint32_t width) {
    struct value out = b_value(b, width);
    b_op(b, (struct op){.kind = OP_CONDITION, .in = {value_none()}, .out = out});
    return out;
}

struct value b_weights_dot(struct builder *b, struct value x, const struct weight *weight, uint32_t n_blocks) {
    if (b->failed) return value_none();
    struct op op = {.kind = OP_BLOCK_DOT, .in = {x}, .out = value_like(b, x, n_blocks), .weight = weight};
    b_op(b, op);
    return op.out;
}

struct value b_threshold(struct builder *b, struct value x, double factor) {
    return simple_op(b, (struct op){.kind = OP_THRESHOLD, .factor = (float)factor}, x, value_none());
}

struct value b_match_rms(struct builder *b, struct value x, struct value reference, float least_square) {
    return simple_op(b, (struct op){.kind = OP_MATCH_RMS, .factor = least_square}, x, reference);
}

struct value b_embed_by_id(struct builder *b, const struct weight *table) {
    if (b->failed) return value_none();
    struct op op = {.kind = OP_EMBED, .in = {value_none()}, .out = b_value(b, table->n_cols)};
    op.embed.weight = table;
    op.embed.by_id = true;
    b_op(b, op);
    return op.out;
}

struct value b_scale(struct builder *b, struct value x, double factor) {
    if (factor == 1) return x;
    return simple_op(b, (struct op){.kind = OP_SCALE, .factor = (float)factor}, x, value_none());
}

/* An activation with parameters is no plain function. */
static void check_function(struct builder *b, enum unary f) {
    if (f >= N_UNARY)
        builder_fail(b, ERROR_UNSUPPORTED, "%s: its activation is not implemented for this model", b->config->path);
}

struct value b_unary(struct builder *b, enum unary f, struct value x) {
    check_function(b, f);
    return simple_op(b, (struct op){.kind = OP_UNARY, .unary = f}, x, value_none());
}

struct value b_gated(struct builder *b, enum unary f, struct value gate, struct value up) {
    check_function(b, f);
    return simple_op(b, (struct op){.kind = OP_GATED, .unary = f}, gate, up);
}

struct value b_softcap(struct builder *b, struct value x, float cap) {
    return simple_op(b, (struct op){.kind = OP_SOFTCAP, .factor = cap}, x, value_none());
}

struct value b_softmax(struct builder *b, struct value x) {
    return simple_op(b, (struct op){.kind = OP_SOFTMAX}, x, value_none());
}

void b_copy(struct builder *b, struct value x, struct value out) {
    b_op(b, (struct op){.kind = OP_COPY, .in = {x}, .out = out});
}

struct value b_clip(struct builder *b, struct value x, double low, double high) {
    return simple_op(b, (struct op){.kind = OP_CLIP, .clip = {(float)low, (float)high}}, x, value_none());
}

struct value b_grid(struct builder *b, struct value x, const struct weight *step) {
    return simple_op(b, (struct op){.kind = OP_GRID, .grid = {step}}, x, value_none());
}

struct value b_position(struct builder *b, double beta, double length, uint32_t offset) {
    struct value out = b_value(b, 1);
    b_op(b, (struct op){.kind = OP_POSITION, .in = {value_none()}, .out = out, .position = {beta, length, offset}});
    return out;
}

bool b_check_width(struct builder *b, uint64_t n, uint64_t each, const char *what) {
    if (!b->failed && (n > MAX_WIDTH || each > MAX_WIDTH || n * each > MAX_WIDTH))
        builder_fail(b, ERROR_FORMAT, "%s: %llu %s of %llu are not credible", b->config->path, (unsigned long long)n,
                     what, (unsigned long long)each);
    return !b->failed;
}

struct value b_matmul(struct builder *b, struct value x, const struct matmul_part *parts, size_t n_parts) {
    if (b->failed) return value_none();
    struct op op = {.kind = OP_MATMUL, .in = {x, value_none(), value_none()}};
    uint32_t width = 0;
    op.matmul.n_parts = (uint32_t)n_parts;
    op.matmul.factor = 1.0f;
    for (size_t i = 0; i < n_parts; i++) {
        op.matmul.parts[i] = parts[i];
        op.matmul.parts[i].out_offset = width;
        if (!b_check_width(b, 1, (uint64_t)width + parts[i].weight->n_rows, "row")) return value_none();
        width += parts[i].weight->n_rows;
    }
    op.out = value_like(b, x, width);
    b_op(b, op);
    return op.out;
}

struct value b_linear(struct builder *b, struct value x, const struct weight *weight, const struct weight *bias) {
    return b_matmul(b, x, &(struct matmul_part){.weight = weight, .bias = bias}, 1);
}

struct value b_select_outputs(struct builder *b, struct value x) {
    struct value out = new_value(b, x.width, true);
    b_op(b, (struct op){.kind = OP_SELECT, .in = {x}, .out = out});
    return out;
}

struct value b_head_op(struct builder *b, struct op op, uint32_t out_width) {
    op.out = b_value(b, out_width);
    b_op(b, op);
    return op.out;
}

struct value b_head_norm(struct builder *b, struct value x, struct head_params heads, struct norm_params norm) {
    struct op op = {.kind = OP_HEAD_NORM, .in = {x}};
    op.head.heads = heads;
    op.head.norm = norm;
    return b_head_op(b, op, x.width);
}

struct value b_head_gated(struct builder *b, enum unary f, struct value gate, struct value x,
                          struct head_params heads) {
    struct op op = {.kind = OP_HEAD_GATED, .in = {gate, x}};
    op.head.heads = heads;
    op.head.unary = f;
    return b_head_op(b, op, x.width);
}

struct value b_head_scale(struct builder *b, enum unary f, struct value factors, struct value x,
                          struct head_params heads) {
    struct op op = {.kind = OP_HEAD_SCALE, .in = {factors, x}};
    op.head.heads = heads;
    op.head.unary = f;
    return b_head_op(b, op, x.width);
}

struct value b_rope(struct builder *b, struct value x, struct head_params heads, uint32_t rope, bool is_interleaved) {
    if (!b->failed && b->graph->ropes[rope].rotary_dim > heads.head_dim)
        builder_fail(b, ERROR_FORMAT, "%s: %u rotary dimensions in heads of %u", b->config->path,
                     b->graph->ropes[rope].rotary_dim, heads.head_dim);
    if (b->failed) return value_none();
    struct op op = {.kind = OP_ROPE, .in = {x, b_rope_table(b, rope)}};
    op.head.heads = heads;
    op.head.rope = (struct rope_params){rope, b->graph->ropes[rope].rotary_dim, is_interleaved};
    return b_head_op(b, op, x.width);
}

uint32_t b_cache(struct builder *b, enum cache_policy policy, uint32_t window, uint32_t n_heads, uint32_t key_dim,
                 uint32_t value_dim) {
    struct graph *g = b->graph;
    if (b->failed) return 0;
    size_t group = 0;
    for (; group < g->n_groups; group++) {
        const struct cache_group *c = &g->groups[group];
        if (c->policy == policy && c->window == window && c->n_heads == n_heads && c->key_dim == key_dim &&
            c->value_dim == value_dim)
            break;
    }
    if (!array_reserve(&g->groups, &g->groups_capacity, group + 1, sizeof *g->groups) ||
        !array_reserve(&g->caches, &g->caches_capacity, g->n_caches + 1, sizeof *g->caches)) {
        failed_memory(b);
        return 0;
    }
    if (group == g->n_groups) {
        g->groups[g->n_groups++] = (struct cache_group){
            .policy = policy, .window = window, .n_heads = n_heads, .key_dim = key_dim, .value_dim = value_dim};
    }
    g->caches[g->n_caches] = (struct cache){.group = (uint32_t)group, .entry = g->groups[group].n_entries++};
    return (uint32_t)g->n_caches++;
}

void b_cache_write(struct builder *b, uint32_t cache, struct value keys, struct value values,
                   struct head_params heads) {
    struct op op = {.kind = OP_CACHE_WRITE, .in = {keys, values}, .out = value_none()};
    op.head.heads = heads;
    op.head.attend.cache = cache;
    b_op(b, op);
}

struct value b_attend(struct builder *b, struct value q, struct head_params heads, struct attend_params attend) {
    struct op op = {.kind = OP_ATTEND, .in = {q}};
    op.head.heads = heads;
    op.head.attend = attend;
    return b_head_op(b, op, heads.n_units * heads.heads_per_unit * attend.value_dim);
}

struct value b_index(struct builder *b, struct value q, struct value weights, struct index_params index) {
    struct op op = {.kind = OP_INDEX, .in = {q, weights}};
    op.head.heads.n_units = index.n_choices;
    op.head.index = index;
    return b_head_op(b, op, index.n_choices * choice_width(index.top_k));
}

struct value b_compress(struct builder *b, struct value x, struct value weights, struct compress_params params) {
    struct op op = {.kind = OP_COMPRESS, .in = {x, weights}};
    params.state = b_state(b, (uint64_t)params.width * (params.is_overlapped ? 9 : 3));
    op.head.heads.n_units = (params.width + COMPRESS_UNIT - 1) / COMPRESS_UNIT;
    op.head.compress = params;
    return b_head_op(b, op, params.width);
}

struct value b_hyper(struct builder *b, struct value raw, struct hyper_params params) {
    struct value out = b_value(b, raw.width);
    struct op op = {.kind = OP_HYPER, .in = {raw}, .out = out};
    op.hyper = params;
    b_op(b, op);
    return out;
}

struct value b_rope_last(struct builder *b, struct value x, struct head_params heads, uint32_t rope,
                         bool is_interleaved) {
    struct value out = b_rope(b, x, heads, rope, is_interleaved);
    if (b->failed) return out;
    struct rope_params *p = &b->graph->ops[b->graph->n_ops - 1].head.rope;
    p->first = heads.head_dim - p->rotary_dim;
    return out;
}

struct value b_attend_chosen(struct builder *b, struct value q, struct value chosen, struct head_params heads,
                             struct attend_params attend) {
    struct op op = {.kind = OP_ATTEND, .in = {q, chosen}};
    op.head.heads = heads;
    op.head.attend = attend;
    return b_head_op(b, op, heads.n_units * heads.heads_per_unit * attend.value_dim);
}

uint32_t b_state(struct builder *b, uint64_t floats) {
    uint64_t offset = b->graph->state_floats;
    floats = (floats + 15) / 16 * 16;
    if (offset + floats > UINT32_MAX) builder_fail(b, ERROR_UNSUPPORTED, "the recurrent state is larger than 16 GiB");
    b->graph->state_floats = offset + floats;
    return (uint32_t)offset;
}

/* ---- the graph's own functions ---- */

void graph_free(struct graph *g) {
    free(g->ops);
    free(g->values);
    free(g->caches);
    free(g->groups);
    free(g->ropes);
    weights_free(&g->weights);
    arena_free(&g->arena);
    *g = (struct graph){0};
}

const char *op_kind_name(enum op_kind kind) {
    static const char *const names[N_OP_KINDS] = {
        [OP_EMBED] = "embed",
        [OP_ROPE_TABLE] = "rope_table",
        [OP_NORM] = "norm",
        [OP_ADD] = "add",
        [OP_MULTIPLY] = "multiply",
        [OP_WEIGH] = "weigh",
        [OP_SCALE] = "scale",
        [OP_UNARY] = "unary",
        [OP_GATED] = "gated",
        [OP_SOFTCAP] = "softcap",
        [OP_CLIP] = "clip",
        [OP_HYPER] = "hyper",
        [OP_SOFTMAX] = "softmax",
        [OP_COPY] = "copy",
        [OP_POSITION] = "position",
        [OP_MIX] = "mix",
        [OP_BLOCK_DOT] = "block_dot",
        [OP_SPREAD] = "spread",
        [OP_THRESHOLD] = "threshold",
        [OP_MATCH_RMS] = "match_rms",
        [OP_GRID] = "grid",
        [OP_XIELU] = "xielu",
        [OP_CHOOSE] = "choose",
        [OP_CONDITION] = "condition",
        [OP_SELECT] = "select",
        [OP_TAP] = "tap",
        [OP_ROUTE] = "route",
        [OP_COMBINE] = "combine",
        [OP_MATMUL] = "matmul",
        [OP_MATMUL_GATED] = "matmul_gated",
        [OP_EXPERTS] = "experts",
        [OP_EXPERTS_GATED] = "experts_gated",
        [OP_HEAD_NORM] = "head_norm",
        [OP_ROPE] = "rope",
        [OP_CACHE_WRITE] = "cache_write",
        [OP_INDEX] = "index",
        [OP_ATTEND] = "attend",
        [OP_CONV] = "conv",
        [OP_MAMBA2] = "mamba2",
        [OP_MAMBA1] = "mamba1",
        [OP_LRU] = "lru",
        [OP_DPLR] = "dplr",
        [OP_COMPRESS] = "compress",
        [OP_NGRAM] = "ngram",
        [OP_DELTA] = "delta",
        [OP_HEAD_GATED] = "head_gated",
        [OP_HEAD_SCALE] = "head_scale",
        [OP_HEADS] = "heads",
    };
    return names[kind];
}

uint64_t cache_head_bytes(const struct cache_group *group, enum kv_format format) {
    return (uint64_t)PAGE_CELLS * (group->key_dim + group->value_dim) * (format == KV_F16 ? 2 : 4);
}

uint64_t cache_group_page_bytes(const struct cache_group *group, enum kv_format format) {
    return cache_head_bytes(group, format) * group->n_heads * group->n_entries;
}
