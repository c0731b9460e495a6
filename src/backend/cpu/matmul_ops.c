/* SPDX-License-Identifier: Apache-2.0 */
/* Dense matmuls: activations are brought into the form that each weight format wants, then tasks take blocks of weight
 * rows and multiply all activation rows by them. */
#include "backend/cpu/cpu.h"

enum activation_form cpu_part_form(const struct compiled *c, const struct matmul_part *part) {
    if (c->precision == PRECISION_EXACT || part->is_exact) return ACTIVATION_F32;
    return matmul_activation_form(part->weight->matrices->format);
}

void cpu_form_row(const struct compiled *c, enum activation_form form, const float *x, uint32_t n, void *out) {
    switch (form) {
    case ACTIVATION_F32: c->kernels->to_f32(x, n, out); break;
    case ACTIVATION_BF16: c->kernels->to_bf16(x, n, out); break;
    default: c->kernels->to_q8(x, n, form, out); break;
    }
}

static unsigned wanted_forms(const struct compiled *c, const struct op *op) {
    unsigned forms = 0;
    for (uint32_t p = 0; p < op->matmul.n_parts; p++) forms |= 1u << cpu_part_form(c, &op->matmul.parts[p]);
    return forms;
}

/* Prepares row r of the op's input in every wanted form. */
static void prepare_row(const struct compiled *c, const struct op *op, unsigned forms, uint32_t r, float *normalized,
                        unsigned char *const *out) {
    const float *x = value_row(c, op->in[0], r);
    uint32_t n = op->in[0].width;
    if (op->matmul.has_norm) {
        cpu_normalize(c, &op->matmul.norm, x, n, normalized);
        x = normalized;
    }
    for (int form = 0; form < N_ACTIVATION_FORMS; form++)
        if (forms & 1u << form)
            cpu_form_row(c, (enum activation_form)form, x, n,
                         out[form] + r * activation_row_bytes((enum activation_form)form, n));
}

/* Returns where the prepared rows lie, for each form. */
static unsigned char *const *prepare(struct compiled *c, const struct op *op, int thread, uint32_t n_rows) {
    struct thread_scratch *t = &c->threads[thread];
    unsigned forms = wanted_forms(c, op);
    if (n_rows == 1 || (size_t)n_rows * op->in[0].width <= LOCAL_VALUES) {
        for (uint32_t r = 0; r < n_rows; r++) prepare_row(c, op, forms, r, t->row, t->forms);
        return t->forms;
    }
    uint32_t r;
    while ((r = pool_next_task(c->pool)) < n_rows) prepare_row(c, op, forms, r, t->row, c->shared_forms);
    pool_barrier(c->pool);
    return c->shared_forms;
}

/* FP4 files of a kind have a factor for the whole tensor, which the kernels do not know. */
static bool has_factor(const struct matrix *m) { return m->format == WEIGHT_NVFP4 && m->tensor_scale != 1.0f; }

void cpu_widen_row(const struct compiled *c, const struct matrix *matrix, uint32_t row, float *out) {
    struct weight_rows run;
    matrix_run(matrix, row, 1, &run);
    c->kernels->dequantize_row(&run, 0, out);
    if (has_factor(matrix)) c->kernels->scale(out, matrix->tensor_scale, matrix->n_cols, out);
}

static void apply_factor(const struct compiled *c, const struct matmul_job *job, float factor, uint32_t n) {
    for (uint32_t r = 0; r < job->n_rows; r++) {
        float *y = job->y + (size_t)(job->y_ids ? job->y_ids[r] : r) * job->y_stride;
        c->kernels->scale(y, factor, n, y);
    }
}

void cpu_matmul_rows(const struct compiled *c, const struct matmul_part *part, const struct matrix *matrix,
                     uint32_t first, uint32_t n, struct matmul_job job) {
    bool is_exact = c->precision == PRECISION_EXACT || part->is_exact;
    struct weight_rows run;
    for (uint32_t done = 0; done < n; done += run.n_rows) {
        matrix_run(matrix, first + done, n - done, &run);
        struct matmul_job sub = job;
        sub.weights = &run;
        sub.y = job.y + done;
        if (is_exact)
            c->kernels->matmul_exact(&sub);
        else
            c->kernels->matmul[matrix->format](&sub);
        if (has_factor(matrix)) apply_factor(c, &sub, matrix->tensor_scale, run.n_rows);
    }
}

/* Where few activation rows make weights stream from memory, a task has at least so many bytes of them, since each begins
 * with weights that are far. */
enum { STREAM_BYTES = 128 << 10 };

/* Rows of weights that one task takes: few enough that all threads have several tasks, panels when rows are many. */
static uint32_t rows_per_task(const struct compiled *c, const struct weight *weight, uint32_t n_rows) {
    uint32_t n_threads = (uint32_t)pool_n_threads(c->pool), n_out = weight->n_rows, share = n_out / (n_threads * 4);
    uint32_t most = n_rows > 8 ? MATMUL_PANEL : 4 * MATMUL_PANEL;
    if (share > most) share = most;
    if (n_rows <= 8) {
        uint64_t row_bytes = matrix_code_bytes(weight->matrices) / (n_out ? n_out : 1) + 1;
        uint64_t wanted = STREAM_BYTES / row_bytes, each = n_out / n_threads;
        if (wanted > each) wanted = each;
        if (wanted > share) share = (uint32_t)wanted;
    }
    return share < 16 ? 16 : share / 16 * 16;
}

static void add_bias(const struct compiled *c, const struct matmul_part *part, uint32_t first, uint32_t n, float *y) {
    if (part->bias) c->kernels->add(y, part->bias->vector + first, n, y);
}

static void run_part_task(struct compiled *c, const struct op *op, const struct matmul_part *part, uint32_t first,
                          uint32_t n, uint32_t n_rows, unsigned char *const *forms, int thread) {
    enum activation_form form = cpu_part_form(c, part);
    uint32_t n_cols = op->in[0].width;
    size_t stride = value_stride(c, op->out);
    float *y = value_row(c, op->out, 0) + part->out_offset + first;
    struct matmul_job job = {.x = forms[form],
                             .x_row_bytes = activation_row_bytes(form, n_cols),
                             .y = y,
                             .y_stride = stride,
                             .n_rows = n_rows,
                             .scratch = c->threads[thread].matmul};
    cpu_matmul_rows(c, part, part->weight->matrices, first, n, job);
    for (uint32_t r = 0; r < n_rows && (part->bias || op->matmul.has_residual); r++) {
        add_bias(c, part, first, n, y + r * stride);
        if (op->matmul.has_residual)
            c->kernels->add(value_row(c, op->in[1], r) + first, y + r * stride, n, y + r * stride);
    }
}

static void run_gated_task(struct compiled *c, const struct op *op, uint32_t first, uint32_t n, uint32_t n_rows,
                           unsigned char *const *forms, int thread) {
    struct thread_scratch *t = &c->threads[thread];
    const struct matmul_part *gate = &op->matmul.parts[0], *up = &op->matmul.parts[1];
    uint32_t n_cols = op->in[0].width;
    size_t stride = value_stride(c, op->out);
    float *y = value_row(c, op->out, 0) + first;
    enum activation_form gate_form = cpu_part_form(c, gate), up_form = cpu_part_form(c, up);
    struct matmul_job job = {.x = forms[gate_form],
                             .x_row_bytes = activation_row_bytes(gate_form, n_cols),
                             .y = y,
                             .y_stride = stride,
                             .n_rows = n_rows,
                             .scratch = t->matmul};
    cpu_matmul_rows(c, gate, gate->weight->matrices, first, n, job);
    job.x = forms[up_form];
    job.x_row_bytes = activation_row_bytes(up_form, n_cols);
    job.y = t->tile;
    job.y_stride = MATMUL_PANEL;
    cpu_matmul_rows(c, up, up->weight->matrices, first, n, job);
    for (uint32_t r = 0; r < n_rows; r++) {
        add_bias(c, gate, first, n, y + r * stride);
        add_bias(c, up, first, n, t->tile + (size_t)r * MATMUL_PANEL);
        c->kernels->gated(op->matmul.unary, y + r * stride, t->tile + (size_t)r * MATMUL_PANEL, n, y + r * stride);
    }
}

void cpu_matmul_op(struct compiled *c, const struct op *op, int thread) {
    uint32_t n_rows = value_rows(c, op->in[0]), first_task = 0;
    bool is_gated = op->kind == OP_MATMUL_GATED;
    if (!n_rows) return;
    unsigned char *const *forms = prepare(c, op, thread, n_rows);
    uint32_t n_parts = is_gated ? 1 : op->matmul.n_parts, task = pool_next_task(c->pool);
    for (uint32_t p = 0; p < n_parts; p++) {
        const struct matmul_part *part = &op->matmul.parts[p];
        uint32_t n_out = part->weight->n_rows, per_task = rows_per_task(c, part->weight, n_rows);
        if (is_gated && per_task > MATMUL_PANEL) per_task = MATMUL_PANEL;
        uint32_t n_tasks = (n_out + per_task - 1) / per_task;
        for (; task < first_task + n_tasks; task = pool_next_task(c->pool)) {
            uint32_t first = (task - first_task) * per_task, n = n_out - first < per_task ? n_out - first : per_task;
            if (is_gated)
                run_gated_task(c, op, first, n, n_rows, forms, thread);
            else
                run_part_task(c, op, part, first, n, n_rows, forms, thread);
        }
        first_task += n_tasks;
    }
}
