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
    while (pool_take(c->pool, thread, n_rows, &r)) prepare_row(c, op, forms, r, t->row, c->shared_forms);
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
        job.is_packed = true;
        job.is_begun = false;
    }
}

/* ---- tasks ---- */

/* With so few activation rows weights stream from memory. A task then has at least STREAM_BYTES of them. */
enum { STREAM_ROWS = 8, STREAM_BYTES = 64 << 10 };

/* Rows of weights that one task takes: few enough that all threads have several tasks, panels when rows are many. */
static uint32_t rows_per_task(const struct compiled *c, const struct op *op, uint32_t p, uint32_t n_rows) {
    const struct weight *weight = op->matmul.parts[p].weight;
    uint32_t n_threads = (uint32_t)pool_n_threads(c->pool), n_out = weight->n_rows, share = n_out / (n_threads * 4);
    uint32_t most = n_rows > STREAM_ROWS ? MATMUL_PANEL : 4 * MATMUL_PANEL;
    if (share > most) share = most;
    if (n_rows <= STREAM_ROWS) {
        uint64_t row_bytes = matrix_code_bytes(weight->matrices) / (n_out ? n_out : 1) + 1;
        uint64_t wanted = STREAM_BYTES / row_bytes, each = n_out / n_threads;
        if (wanted > each) wanted = each;
        if (wanted > share) share = (uint32_t)wanted;
    }
    if (op->kind == OP_MATMUL_GATED && share > MATMUL_PANEL) share = MATMUL_PANEL;
    return share < 16 ? 16 : share / 16 * 16;
}

/* A block of weight rows of one part. */
struct block {
    uint32_t part, first, n_rows;
};

/* The parts whose rows are dealt out; those of the second half of a gated product go with the first. */
static uint32_t dealt_parts(const struct op *op) { return op->kind == OP_MATMUL_GATED ? 1 : op->matmul.n_parts; }

static uint32_t count_tasks(const struct compiled *c, const struct op *op, uint32_t n_rows) {
    uint32_t n = 0;
    for (uint32_t p = 0; p < dealt_parts(op); p++) {
        uint32_t per_task = rows_per_task(c, op, p, n_rows);
        n += (op->matmul.parts[p].weight->n_rows + per_task - 1) / per_task;
    }
    return n;
}

static struct block task_block(const struct compiled *c, const struct op *op, uint32_t n_rows, uint32_t task) {
    for (uint32_t p = 0;; p++) {
        uint32_t per_task = rows_per_task(c, op, p, n_rows), n_out = op->matmul.parts[p].weight->n_rows;
        uint32_t n_tasks = (n_out + per_task - 1) / per_task, first = task * per_task;
        if (task < n_tasks) return (struct block){p, first, n_out - first < per_task ? n_out - first : per_task};
        task -= n_tasks;
    }
}

static void fetch(const void *from, size_t n) {
    for (size_t at = 0; at < n && from; at += 64) __builtin_prefetch((const char *)from + at, 0, 2);
}

/* The first weights of a block: what memory can deliver while the threads meet. Measured on a Zen 5 with 1 MiB of
 * second-level cache a core: 16 KiB were worth 3 % of a decode step, 64 KiB 5 %. */
enum { AHEAD_BYTES = 64 << 10 };

static void fetch_block(const struct matrix *matrix, uint32_t first, uint32_t n) {
    struct weight_rows run;
    matrix_run(matrix, first, n, &run);
    size_t codes = run.n_rows * run.row_bytes, scales = run.n_rows * run.scale_row_bytes;
    fetch(run.codes, codes < AHEAD_BYTES ? codes : AHEAD_BYTES);
    fetch(run.scales, scales < AHEAD_BYTES / 8 ? scales : AHEAD_BYTES / 8);
    fetch(run.biases, scales < AHEAD_BYTES / 8 ? scales : AHEAD_BYTES / 8);
}

void cpu_matmul_ahead(const struct compiled *c, const struct op *op, int thread) {
    uint32_t n_rows = value_rows(c, op->in[0]);
    if (!n_rows || n_rows > STREAM_ROWS) return;
    uint32_t n_tasks = count_tasks(c, op, n_rows), task = pool_first_task(c->pool, thread, n_tasks);
    if (task == n_tasks) return;
    struct block block = task_block(c, op, n_rows, task);
    fetch_block(op->matmul.parts[block.part].weight->matrices, block.first, block.n_rows);
}

static void add_bias(const struct compiled *c, const struct matmul_part *part, uint32_t first, uint32_t n, float *y) {
    if (part->bias) c->kernels->add(y, part->bias->vector + first, n, y);
}

/* A matmul op as one thread goes through it. */
struct walk {
    struct compiled *c;
    const struct op *op;
    struct thread_scratch *scratch;
    unsigned char *const *forms; /* the prepared activations */
    uint32_t n_rows;             /* of them */
    const struct matrix *last;   /* what the thread multiplied by last, NULL at first */
    enum activation_form form;   /* and with what */
    uint32_t last_row;           /* where its last task ended */
};

/* y = the block's rows of a part times the activations. */
static void multiply(struct walk *w, uint32_t p, const struct block *block, float *y, size_t y_stride) {
    const struct matmul_part *part = &w->op->matmul.parts[p];
    const struct matrix *matrix = part->weight->matrices, *last = w->last;
    enum activation_form form = cpu_part_form(w->c, part);
    uint32_t n_cols = w->op->in[0].width;
    bool is_packed = last && last->format == matrix->format && last->group == matrix->group && w->form == form;
    struct matmul_job job = {.x = w->forms[form],
                             .x_row_bytes = activation_row_bytes(form, n_cols),
                             .y = y,
                             .y_stride = y_stride,
                             .n_rows = w->n_rows,
                             .scratch = w->scratch->matmul,
                             .is_packed = is_packed,
                             .is_begun = block->first == w->last_row};
    cpu_matmul_rows(w->c, part, matrix, block->first, block->n_rows, job);
    w->last = matrix;
    w->form = form;
}

static void run_part_task(struct walk *w, const struct block *block) {
    const struct compiled *c = w->c;
    const struct op *op = w->op;
    const struct matmul_part *part = &op->matmul.parts[block->part];
    size_t stride = value_stride(c, op->out);
    float *y = value_row(c, op->out, 0) + part->out_offset + block->first;
    multiply(w, block->part, block, y, stride);
    for (uint32_t r = 0; r < w->n_rows && (part->bias || op->matmul.has_residual); r++) {
        add_bias(c, part, block->first, block->n_rows, y + r * stride);
        if (op->matmul.has_residual)
            c->kernels->add(value_row(c, op->in[1], r) + block->first, y + r * stride, block->n_rows, y + r * stride);
    }
}

static void run_gated_task(struct walk *w, const struct block *block) {
    const struct compiled *c = w->c;
    const struct op *op = w->op;
    size_t stride = value_stride(c, op->out);
    uint32_t first = block->first, n = block->n_rows;
    float *y = value_row(c, op->out, 0) + first, *tile = w->scratch->tile;
    multiply(w, 0, block, y, stride);
    multiply(w, 1, block, tile, MATMUL_PANEL);
    for (uint32_t r = 0; r < w->n_rows; r++) {
        add_bias(c, &op->matmul.parts[0], first, n, y + r * stride);
        add_bias(c, &op->matmul.parts[1], first, n, tile + (size_t)r * MATMUL_PANEL);
        c->kernels->gated(op->matmul.unary, y + r * stride, tile + (size_t)r * MATMUL_PANEL, n, y + r * stride);
    }
}

void cpu_matmul_op(struct compiled *c, const struct op *op, int thread) {
    uint32_t n_rows = value_rows(c, op->in[0]), task;
    if (!n_rows) return;
    struct walk walk = {.c = c, .op = op, .scratch = &c->threads[thread], .n_rows = n_rows, .last_row = UINT32_MAX};
    walk.forms = prepare(c, op, thread, n_rows);
    uint32_t n_tasks = count_tasks(c, op, n_rows);
    while (pool_take(c->pool, thread, n_tasks, &task)) {
        struct block block = task_block(c, op, n_rows, task);
        if (op->kind == OP_MATMUL_GATED)
            run_gated_task(&walk, &block);
        else
            run_part_task(&walk, &block);
        walk.last_row = block.first + block.n_rows;
    }
}
