/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/plan.h"

#include "base/memory.h"

#include <string.h>

bool fusion_from_name(const char *name, size_t length, unsigned *fusion) {
    static const char *const names[] = {"parts", "gated", "residual", "norm", "heads"};
    for (unsigned i = 0; i < 5; i++)
        if (strlen(names[i]) == length && !memcmp(names[i], name, length)) {
            *fusion = 1u << i;
            return true;
        }
    return false;
}

/* ---- which ops read a value ---- */

/* The ops of a chain, or the op itself. */
static const struct op *inner_op(const struct op *op, uint32_t i) {
    return op->kind == OP_HEADS ? op->chain.ops[i] : op;
}
static uint32_t n_inner(const struct op *op) { return op->kind == OP_HEADS ? op->chain.n_ops : 1; }

static bool reads(const struct op *op, int id) {
    for (uint32_t i = 0; i < n_inner(op); i++)
        for (uint32_t j = 0; j < MAX_INPUTS; j++)
            if (inner_op(op, i)->in[j].width && inner_op(op, i)->in[j].id == id) return true;
    return false;
}

static uint32_t count_readers(const struct plan *plan, int id) {
    uint32_t n = 0;
    for (size_t i = 0; i < plan->n_ops; i++)
        if (plan->ops[i] && reads(plan->ops[i], id)) n++;
    return n + (plan->graph->logits.id == id) + (plan->graph->hidden.id == id);
}

static bool is_whole(const struct plan *plan, struct value v) {
    return v.id != NO_VALUE && v.offset == 0 && v.width == plan->graph->values[v.id].width;
}

static bool same_value(struct value a, struct value b) {
    return a.id == b.id && a.offset == b.offset && a.width == b.width;
}

/* The op after number i that is still there; NULL at the end. */
static struct op *next_op(struct plan *plan, size_t i, size_t *index) {
    for (i++; i < plan->n_ops; i++)
        if (plan->ops[i]) {
            *index = i;
            return plan->ops[i];
        }
    return NULL;
}

/* ---- fusions: each turns ops that it takes up into NULL ---- */

static void fuse_gated(struct plan *plan) {
    for (size_t i = 0; i < plan->n_ops; i++) {
        struct op *op = plan->ops[i];
        size_t j = 0;
        if (!op || (op->kind != OP_MATMUL && op->kind != OP_EXPERTS) || op->matmul.n_parts != 2) continue;
        struct op *gate = next_op(plan, i, &j);
        uint32_t half = op->out.width / 2;
        if (!gate || gate->kind != OP_GATED || count_readers(plan, op->out.id) != 1 ||
            !same_value(gate->in[0], (struct value){op->out.id, 0, half}) ||
            !same_value(gate->in[1], (struct value){op->out.id, half, half}))
            continue;
        op->kind = op->kind == OP_MATMUL ? OP_MATMUL_GATED : OP_EXPERTS_GATED;
        op->matmul.unary = gate->unary;
        op->matmul.parts[1].out_offset = 0;
        op->out = gate->out;
        plan->ops[j] = NULL;
    }
}

static void fuse_residual(struct plan *plan) {
    for (size_t i = 0; i < plan->n_ops; i++) {
        struct op *op = plan->ops[i];
        size_t j = 0;
        if (!op || op->kind != OP_MATMUL || op->matmul.n_parts != 1 || op->matmul.has_residual) continue;
        struct op *add = next_op(plan, i, &j);
        if (!add || add->kind != OP_ADD || !add->in[1].width || count_readers(plan, op->out.id) != 1 ||
            !is_whole(plan, op->out))
            continue;
        bool is_second = same_value(add->in[1], op->out);
        if (!is_second && !same_value(add->in[0], op->out)) continue;
        struct value residual = add->in[is_second ? 0 : 1];
        if (residual.id == op->out.id) continue;
        op->in[1] = residual;
        op->matmul.has_residual = true;
        op->out = add->out;
        plan->ops[j] = NULL;
    }
}

static void fuse_norm(struct plan *plan) {
    for (size_t i = 0; i < plan->n_ops; i++) {
        struct op *norm = plan->ops[i];
        size_t j = 0;
        if (!norm || norm->kind != OP_NORM || norm->norm.group || count_readers(plan, norm->out.id) != 1) continue;
        struct op *op = next_op(plan, i, &j);
        if (!op || (op->kind != OP_MATMUL && op->kind != OP_MATMUL_GATED) || !same_value(op->in[0], norm->out))
            continue;
        op->in[0] = norm->in[0];
        op->matmul.has_norm = true;
        op->matmul.norm = norm->norm;
        plan->ops[i] = NULL;
    }
}

static bool fuse_heads(struct plan *plan) {
    for (size_t i = 0; i < plan->n_ops; i++) {
        struct op *first = plan->ops[i];
        if (!first || !op_is_head(first->kind)) continue;
        size_t end = i + 1;
        while (end < plan->n_ops && plan->ops[end] && op_is_head(plan->ops[end]->kind) && end - i < MAX_CHAIN &&
               plan->ops[end]->head.heads.n_units == first->head.heads.n_units &&
               plan->ops[end]->head.heads.is_channelwise == first->head.heads.is_channelwise)
            end++;
        if (end - i < 2) continue;
        struct op *chain = arena_calloc(&plan->arena, 1, sizeof *chain);
        if (!chain) return false;
        *chain = (struct op){.kind = OP_HEADS, .layer = first->layer, .out = {.id = NO_VALUE}};
        chain->chain.n_units = first->head.heads.n_units;
        for (size_t j = i; j < end; j++) {
            chain->chain.ops[chain->chain.n_ops++] = plan->ops[j];
            plan->ops[j] = NULL;
        }
        plan->ops[i] = chain;
        i = end - 1;
    }
    return true;
}

/* Puts rope tables first, so that they do not stand between head ops. */
static void hoist_rope_tables(struct plan *plan) {
    size_t n = 0;
    for (size_t i = 0; i < plan->n_ops; i++) {
        struct op *op = plan->ops[i];
        if (op->kind != OP_ROPE_TABLE) continue;
        memmove(plan->ops + n + 1, plan->ops + n, (i - n) * sizeof *plan->ops);
        plan->ops[n++] = op;
    }
}

/* Without FUSE_PARTS a matmul of several parts becomes one for each part, writing its columns of the same value. */
static bool copy_ops(struct plan *plan, const struct graph *graph, bool split) {
    size_t n = 0;
    for (size_t i = 0; i < graph->n_ops; i++)
        n += split && graph->ops[i].kind == OP_MATMUL ? graph->ops[i].matmul.n_parts : 1;
    plan->ops = arena_calloc(&plan->arena, n, sizeof *plan->ops);
    struct op *copies = arena_calloc(&plan->arena, n, sizeof *copies);
    if (!plan->ops || !copies) return false;
    for (size_t i = 0; i < graph->n_ops; i++) {
        const struct op *op = &graph->ops[i];
        uint32_t parts = split && op->kind == OP_MATMUL ? op->matmul.n_parts : 1;
        for (uint32_t p = 0; p < parts; p++) {
            struct op *copy = &copies[plan->n_ops];
            *copy = *op;
            if (parts > 1) {
                copy->matmul.n_parts = 1;
                copy->matmul.parts[0] = op->matmul.parts[p];
                copy->matmul.parts[0].out_offset = 0;
                copy->out = (struct value){op->out.id, op->out.offset + op->matmul.parts[p].out_offset,
                                           op->matmul.parts[p].weight->n_rows};
            }
            plan->ops[plan->n_ops++] = copy;
        }
    }
    return true;
}

static void drop_fused(struct plan *plan) {
    size_t n = 0;
    for (size_t i = 0; i < plan->n_ops; i++)
        if (plan->ops[i]) plan->ops[n++] = plan->ops[i];
    plan->n_ops = n;
}

/* ---- buffers ---- */

struct life {
    size_t first, last;
    bool is_used;
};

static void touch(struct life *lives, struct value v, size_t op) {
    if (v.id == NO_VALUE || !v.width) return;
    struct life *life = &lives[v.id];
    if (!life->is_used) *life = (struct life){op, op, true};
    life->last = op;
}

/* The narrowest free buffer of the domain that is wide enough, else a new one; -1 when memory is out. */
static int take_buffer(struct plan *plan, bool *is_taken, uint32_t width, bool is_output) {
    int best = -1;
    for (size_t i = 0; i < plan->n_buffers; i++) {
        const struct buffer_plan *b = &plan->buffers[i];
        if (is_taken[i] || b->is_output_domain != is_output || b->width < width) continue;
        if (best < 0 || b->width < plan->buffers[best].width) best = (int)i;
    }
    if (best >= 0 && plan->buffers[best].width <= 2 * width + 64) return best;
    if (!array_reserve(&plan->buffers, &plan->buffers_capacity, plan->n_buffers + 1, sizeof *plan->buffers)) return -1;
    plan->buffers[plan->n_buffers] = (struct buffer_plan){width, is_output};
    return (int)plan->n_buffers++;
}

/* Values get buffers in the order of their first use; a buffer is free again after its value's last one. All values that
 * one op touches are alive together, so no op reads what it writes. */
static bool plan_buffers(struct plan *plan, struct graph *graph) {
    struct life *lives = arena_calloc(&plan->arena, graph->n_values, sizeof *lives);
    bool *is_taken = arena_calloc(&plan->arena, graph->n_values + 1, sizeof *is_taken);
    if (!lives || !is_taken) return false;
    for (size_t i = 0; i < plan->n_ops; i++)
        for (uint32_t k = 0; k < n_inner(plan->ops[i]); k++) {
            const struct op *op = inner_op(plan->ops[i], k);
            touch(lives, op->out, i);
            for (uint32_t j = 0; j < MAX_INPUTS; j++) touch(lives, op->in[j], i);
        }
    touch(lives, graph->logits, plan->n_ops);
    touch(lives, graph->hidden, plan->n_ops);
    for (size_t i = 0; i < plan->n_ops; i++) {
        for (size_t v = 0; v < graph->n_values; v++) {
            struct value_info *info = &graph->values[v];
            if (!lives[v].is_used || lives[v].first != i) continue;
            info->buffer = take_buffer(plan, is_taken, (uint32_t)round_up(info->width, 16), info->is_output_domain);
            if (info->buffer < 0) return false;
            is_taken[info->buffer] = true;
        }
        for (size_t v = 0; v < graph->n_values; v++)
            if (lives[v].is_used && lives[v].last == i) is_taken[graph->values[v].buffer] = false;
    }
    return true;
}

bool plan_create(struct plan *plan, struct graph *graph, unsigned fusions, struct mx_error *err) {
    *plan = (struct plan){.graph = graph};
    bool ok = copy_ops(plan, graph, !(fusions & FUSE_PARTS));
    if (ok) hoist_rope_tables(plan);
    if (ok && fusions & FUSE_GATED) fuse_gated(plan);
    if (ok && fusions & FUSE_RESIDUAL) fuse_residual(plan);
    if (ok && fusions & FUSE_NORM) fuse_norm(plan);
    if (ok) drop_fused(plan);
    if (ok && fusions & FUSE_HEADS) ok = fuse_heads(plan);
    if (ok) drop_fused(plan);
    ok = ok && plan_buffers(plan, graph);
    if (ok) return true;
    plan_free(plan);
    return error_memory(err, "execution plan");
}

void plan_free(struct plan *plan) {
    free(plan->buffers);
    arena_free(&plan->arena);
    *plan = (struct plan){0};
}
