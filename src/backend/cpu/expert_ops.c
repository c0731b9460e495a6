/* SPDX-License-Identifier: Apache-2.0 */
/* Expert matmuls, and products with one matrix for each head: (row, slot) entries are sorted by expert, then tasks take one expert's block of weight rows and
 * multiply all of its entries. Each entry's result lands in its own slot, so the order of the work does not show. */
#include "backend/cpu/cpu.h"

#include <string.h>

/* The matrix of a slot: by the row's route, or the slot's own. */
static uint32_t slot_matrix(const struct compiled *c, const struct op *op, uint32_t row, uint32_t slot) {
    uint32_t e = slot;
    if (op->in[2].id != NO_VALUE) memcpy(&e, value_row(c, op->in[2], row) + slot, sizeof e);
    return e;
}

/* Whether a slot's expert has matrices (others return their input). */
static bool has_matrices(const struct op *op, uint32_t expert) {
    return expert < op->matmul.parts[0].weight->n_experts;
}

/* Counting sort of the entries; every thread does it for itself. */
static void sort_entries(const struct compiled *c, const struct op *op, struct thread_scratch *t, uint32_t n_rows) {
    uint32_t k = op->matmul.top_k, n_experts = op->matmul.parts[0].weight->n_experts;
    memset(t->expert_first, 0, (n_experts + 2) * sizeof *t->expert_first);
    for (uint32_t r = 0; r < n_rows; r++)
        for (uint32_t s = 0; s < k; s++) {
            uint32_t e = slot_matrix(c, op, r, s);
            if (has_matrices(op, e)) t->expert_first[e + 2]++;
        }
    for (uint32_t e = 2; e < n_experts + 2; e++) t->expert_first[e] += t->expert_first[e - 1];
    for (uint32_t r = 0; r < n_rows; r++)
        for (uint32_t s = 0; s < k; s++) {
            uint32_t e = slot_matrix(c, op, r, s);
            if (!has_matrices(op, e)) continue;
            uint32_t at = t->expert_first[e + 1]++;
            t->expert_rows[at] = r;
            t->expert_slots[at] = s;
        }
}

/* Activations: one row for each row of the step, or for each (row, slot). */
static void prepare(struct compiled *c, const struct op *op, uint32_t n_rows, uint32_t n_cols, int thread) {
    uint32_t per_row = op->matmul.expert_input ? op->matmul.top_k : 1, n = n_rows * per_row, i;
    while (pool_take(c->pool, thread, n, &i)) {
        const float *x = value_row(c, op->in[0], i / per_row) + (size_t)(i % per_row) * n_cols;
        unsigned done = 0;
        for (uint32_t p = 0; p < op->matmul.n_parts; p++) {
            enum activation_form form = cpu_part_form(c, &op->matmul.parts[p]);
            if (done & 1u << form) continue;
            done |= 1u << form;
            cpu_form_row(c, form, x, n_cols, c->shared_forms[form] + i * activation_row_bytes(form, n_cols));
        }
    }
    pool_barrier(c->pool);
}

/* Entries of one expert: where their activations lie and where their results go (in f32s from the first row). */
static uint32_t gather(const struct compiled *c, const struct op *op, struct thread_scratch *t, uint32_t expert,
                       uint32_t n_out, uint32_t offset) {
    uint32_t first = t->expert_first[expert], n = t->expert_first[expert + 1] - first;
    size_t stride = value_stride(c, op->out);
    if (op->matmul.slot_stride) n_out = op->matmul.slot_stride;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t row = t->expert_rows[first + i], slot = t->expert_slots[first + i];
        t->x_ids[i] = op->matmul.expert_input ? row * op->matmul.top_k + slot : row;
        t->y_ids[i] = (uint32_t)(row * stride + offset + (size_t)slot * n_out);
    }
    return n;
}

static void multiply(struct compiled *c, const struct matmul_part *part, uint32_t expert, uint32_t first, uint32_t n,
                     uint32_t n_entries, uint32_t n_cols, struct thread_scratch *t, float *y, size_t y_stride,
                     const uint32_t *y_ids) {
    enum activation_form form = cpu_part_form(c, part);
    struct matmul_job job = {.x = c->shared_forms[form],
                             .x_row_bytes = activation_row_bytes(form, n_cols),
                             .x_ids = t->x_ids,
                             .y = y,
                             .y_stride = y_stride,
                             .y_ids = y_ids,
                             .n_rows = n_entries,
                             .scratch = t->matmul};
    cpu_matmul_rows(c, part, &part->weight->matrices[expert], first, n, job);
    if (!part->bias) return;
    const float *bias = part->bias->vector + (size_t)expert * part->weight->n_rows + first;
    for (uint32_t i = 0; i < n_entries; i++) {
        float *out = y + (y_ids ? y_ids[i] : i) * y_stride;
        c->kernels->add(out, bias, n, out);
    }
}

static void run_task(struct compiled *c, const struct op *op, uint32_t expert, uint32_t first, uint32_t n,
                     uint32_t n_cols, struct thread_scratch *t) {
    float *y = value_row(c, op->out, 0) + first;
    if (op->kind == OP_EXPERTS) {
        for (uint32_t p = 0; p < op->matmul.n_parts; p++) {
            const struct matmul_part *part = &op->matmul.parts[p];
            uint32_t n_entries = gather(c, op, t, expert, part->weight->n_rows, part->out_offset);
            multiply(c, part, expert, first, n, n_entries, n_cols, t, y, 1, t->y_ids);
        }
        return;
    }
    uint32_t n_entries = gather(c, op, t, expert, op->matmul.parts[0].weight->n_rows, 0);
    multiply(c, &op->matmul.parts[0], expert, first, n, n_entries, n_cols, t, y, 1, t->y_ids);
    multiply(c, &op->matmul.parts[1], expert, first, n, n_entries, n_cols, t, t->tile, MATMUL_PANEL, NULL);
    for (uint32_t i = 0; i < n_entries; i++)
        c->kernels->gated(op->matmul.unary, y + t->y_ids[i], t->tile + (size_t)i * MATMUL_PANEL, n, y + t->y_ids[i]);
}

/* Along the rows of each slot's matrix: a task is a slot. */
static void transposed_op(struct compiled *c, const struct op *op, int thread) {
    struct thread_scratch *t = &c->threads[thread];
    const struct weight *w = op->matmul.parts[0].weight;
    uint32_t n_rows = value_rows(c, op->in[0]), slot, n = w->n_cols;
    uint32_t stride = op->matmul.slot_stride ? op->matmul.slot_stride : n;
    while (pool_take(c->pool, thread, op->matmul.top_k, &slot)) {
        for (uint32_t r = 0; r < n_rows; r++)
            memset(value_row(c, op->out, r) + (size_t)slot * stride, 0, n * sizeof(float));
        for (uint32_t k = 0; k < w->n_rows; k++) {
            cpu_widen_row(c, &w->matrices[slot], k, t->row);
            for (uint32_t r = 0; r < n_rows; r++)
                c->kernels->add_scaled(t->row, value_row(c, op->in[0], r)[(size_t)slot * w->n_rows + k], n,
                                       value_row(c, op->out, r) + (size_t)slot * stride);
        }
    }
}

/* The experts that have entries, to t->chosen; returns their number. */
static uint32_t chosen_experts(struct thread_scratch *t, uint32_t n_experts) {
    uint32_t n = 0;
    for (uint32_t e = 0; e < n_experts; e++)
        if (t->expert_first[e] != t->expert_first[e + 1]) t->chosen[n++] = e;
    return n;
}

void cpu_experts_op(struct compiled *c, const struct op *op, int thread) {
    struct thread_scratch *t = &c->threads[thread];
    const struct weight *w = op->matmul.parts[0].weight;
    if (op->matmul.parts[0].is_transposed) {
        transposed_op(c, op, thread);
        return;
    }
    uint32_t n_rows = value_rows(c, op->in[0]), n_cols = w->n_cols, n_out = w->n_rows, task;
    if (!n_rows) return;
    prepare(c, op, n_rows, n_cols, thread);
    sort_entries(c, op, t, n_rows);
    /* Blocks of a panel; with few entries finer ones, so that every thread finds work. */
    uint32_t per_task = n_rows * op->matmul.top_k < 32 ? 32 : MATMUL_PANEL;
    uint32_t n_chosen = chosen_experts(t, w->n_experts), blocks = (n_out + per_task - 1) / per_task;
    while (pool_take(c->pool, thread, n_chosen * blocks, &task)) {
        uint32_t first = task % blocks * per_task, n = n_out - first < per_task ? n_out - first : per_task;
        run_task(c, op, t->chosen[task / blocks], first, n, n_cols, t);
    }
}
