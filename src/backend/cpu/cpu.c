/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling a plan for the CPU (which is mostly memory), and running steps. */
#include "backend/cpu/cpu.h"

#include "base/memory.h"

#include <string.h>
#include <sys/mman.h>

/* Zeroed memory that the compiled plan owns. */
static void *own(struct compiled *c, size_t n, size_t size) {
    if (!array_reserve(&c->allocations, &c->allocations_capacity, c->n_allocations + 1, sizeof *c->allocations))
        return NULL;
    void *memory = aligned_calloc(n, size);
    if (memory) c->allocations[c->n_allocations++] = memory;
    return memory;
}

/* Large pools come from the kernel page by page, when they are first touched. */
static void *map_pool(size_t bytes) {
    if (!bytes) return NULL;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

struct needs {
    bool has_masks; /* an attention sees a choice of cells */
    uint32_t widest_input, widest_tile, most_experts, most_slots, gated_slots, attention_key, attention_value;
    bool has_index;
    size_t form_bytes[N_ACTIVATION_FORMS]; /* all rows of the largest input in that form */
    size_t form_row_bytes[N_ACTIVATION_FORMS];
};

static void use_kernel(struct compiled *c, int id) { c->kernel_used[id] = true; }

static void need_matmul(struct compiled *c, const struct op *op, struct needs *needs) {
    const struct matmul_part *parts = op->matmul.parts;
    uint32_t n_cols = parts[0].weight->n_cols, slots = op->matmul.expert_input ? op->matmul.top_k : 1;
    if (n_cols > needs->widest_input) needs->widest_input = n_cols;
    if (op->matmul.top_k > needs->most_slots) needs->most_slots = op->matmul.top_k;
    if (op->kind == OP_EXPERTS_GATED && op->matmul.top_k > needs->gated_slots) needs->gated_slots = op->matmul.top_k;
    if (parts[0].is_transposed) {
        use_kernel(c, KERNEL_dequantize_row);
        use_kernel(c, KERNEL_add_scaled);
        return;
    }
    for (uint32_t p = 0; p < op->matmul.n_parts; p++) {
        enum activation_form form = cpu_part_form(c, &parts[p]);
        size_t row = activation_row_bytes(form, n_cols), all = row * c->max_rows * slots;
        if (all > needs->form_bytes[form]) needs->form_bytes[form] = all;
        /* locally: one row of any width, or LOCAL_VALUES values in narrower rows, with the padding of each */
        size_t local = activation_row_bytes(form, n_cols) * (LOCAL_VALUES / n_cols + 1);
        if (local > needs->form_row_bytes[form]) needs->form_row_bytes[form] = local;
        bool is_exact = c->precision == PRECISION_EXACT || parts[p].is_exact;
        use_kernel(c,
                   is_exact ? (int)KERNEL_matmul_exact : (int)KERNEL_matmul + (int)parts[p].weight->matrices->format);
        use_kernel(c, form == ACTIVATION_F32 ? KERNEL_to_f32 : form == ACTIVATION_BF16 ? KERNEL_to_bf16 : KERNEL_to_q8);
        if (parts[p].weight->n_experts > needs->most_experts) needs->most_experts = parts[p].weight->n_experts;
    }
    if (op->kind == OP_MATMUL_GATED || op->kind == OP_EXPERTS_GATED) use_kernel(c, KERNEL_gated);
    if (op->matmul.has_norm) use_kernel(c, op->matmul.norm.kind == NORM_RMS ? KERNEL_rms_norm : KERNEL_layer_norm);
}

static void need_op(struct compiled *c, const struct op *op, struct needs *needs) {
    switch (op->kind) {
    case OP_HEADS:
        for (uint32_t i = 0; i < op->chain.n_ops; i++) need_op(c, op->chain.ops[i], needs);
        break;
    case OP_MATMUL:
    case OP_MATMUL_GATED:
    case OP_EXPERTS:
    case OP_EXPERTS_GATED: need_matmul(c, op, needs); break;
    case OP_ATTEND:
        if (op->head.attend.key_dim > needs->attention_key) needs->attention_key = op->head.attend.key_dim;
        if (op->head.attend.value_dim > needs->attention_value) needs->attention_value = op->head.attend.value_dim;
        if (op->head.attend.blocks.size || op->head.attend.n_choices || op->head.attend.run) needs->has_masks = true;
        use_kernel(c, KERNEL_attention);
        break;
    case OP_INDEX:
        needs->has_index = true;
        use_kernel(c, KERNEL_index_scores);
        break;
    case OP_CACHE_WRITE: use_kernel(c, KERNEL_kv_store); break;
    case OP_ROPE: use_kernel(c, op->head.rope.is_interleaved ? KERNEL_rope_pairs : KERNEL_rope_halves); break;
    case OP_ROPE_TABLE: use_kernel(c, KERNEL_rope_angles); break;
    case OP_EMBED: use_kernel(c, KERNEL_dequantize_row); break;
    case OP_NORM: use_kernel(c, op->norm.kind == NORM_RMS ? KERNEL_rms_norm : KERNEL_layer_norm); break;
    case OP_HEAD_NORM: use_kernel(c, op->head.norm.kind == NORM_RMS ? KERNEL_rms_norm : KERNEL_layer_norm); break;
    case OP_ADD: use_kernel(c, KERNEL_add); break;
    case OP_MULTIPLY:
    case OP_WEIGH: use_kernel(c, KERNEL_multiply); break;
    case OP_SPREAD: use_kernel(c, KERNEL_scale); break;
    case OP_MIX: use_kernel(c, KERNEL_add_scaled); break;
    case OP_THRESHOLD: use_kernel(c, KERNEL_threshold); break;
    case OP_BLOCK_DOT:
    case OP_MATCH_RMS: use_kernel(c, KERNEL_dot); break;
    case OP_SCALE: use_kernel(c, KERNEL_scale); break;
    case OP_UNARY: use_kernel(c, KERNEL_unary); break;
    case OP_GATED:
    case OP_HEAD_GATED: use_kernel(c, KERNEL_gated); break;
    case OP_SOFTCAP: use_kernel(c, KERNEL_softcap); break;
    case OP_HYPER:
        use_kernel(c, KERNEL_unary);
        use_kernel(c, KERNEL_softmax);
        break;
    case OP_COMPRESS: use_kernel(c, KERNEL_unary); break;
    case OP_SOFTMAX: use_kernel(c, KERNEL_softmax); break;
    case OP_CLIP: use_kernel(c, KERNEL_clip); break;
    case OP_HEAD_SCALE:
        use_kernel(c, KERNEL_unary);
        use_kernel(c, KERNEL_scale);
        break;
    case OP_GRID: use_kernel(c, KERNEL_grid); break;
    case OP_XIELU: use_kernel(c, KERNEL_xielu); break;
    case OP_ROUTE: use_kernel(c, op->router.kind == ROUTER_SIGMOID ? KERNEL_unary : KERNEL_softmax); break;
    case OP_COMBINE: use_kernel(c, KERNEL_add_scaled); break;
    case OP_CONV: use_kernel(c, KERNEL_conv); break;
    case OP_MAMBA2: use_kernel(c, KERNEL_mamba2); break;
    case OP_MAMBA1: use_kernel(c, KERNEL_mamba1); break;
    case OP_LRU: use_kernel(c, KERNEL_lru); break;
    case OP_DPLR: use_kernel(c, KERNEL_dplr); break;
    case OP_DELTA: use_kernel(c, KERNEL_delta); break;
    default: break;
    }
}

static bool make_thread(struct compiled *c, struct thread_scratch *t, const struct needs *needs) {
    size_t entries = (size_t)c->max_rows * (needs->most_slots ? needs->most_slots : 1);
    t->row = own(c, needs->widest_input, sizeof *t->row);
    t->matmul = own(c, matmul_scratch_bytes(needs->widest_input), 1);
    t->tile =
        own(c, (size_t)c->max_rows * (needs->gated_slots ? needs->gated_slots : 1) * MATMUL_PANEL, sizeof *t->tile);
    t->attention = own(c, attention_scratch_bytes(needs->attention_key, needs->attention_value), 1);
    t->key_pages = own(c, 2 * (size_t)c->max_pages, sizeof *t->key_pages);
    t->value_pages = own(c, 2 * (size_t)c->max_pages, sizeof *t->value_pages);
    if (needs->has_index) {
        size_t cells = (size_t)c->max_pages * PAGE_CELLS;
        t->cell_scores = own(c, cells, sizeof *t->cell_scores);
        t->block_scores = own(c, cells, sizeof *t->block_scores);
        t->sorted = own(c, cells, sizeof *t->sorted);
        if (!t->cell_scores || !t->block_scores || !t->sorted) return false;
    }
    bool ok = t->row && t->matmul && t->tile && t->attention && t->key_pages && t->value_pages;
    if (needs->has_masks && ok)
        ok = (t->masks = own(c, (size_t)ATTENTION_MAX_QUERIES * 2 * c->max_pages, sizeof *t->masks)) != NULL;
    for (int form = 0; form < N_ACTIVATION_FORMS && ok; form++)
        if (needs->form_row_bytes[form]) ok = (t->forms[form] = own(c, needs->form_row_bytes[form], 1)) != NULL;
    if (!ok || !needs->most_experts) return ok;
    t->expert_first = own(c, needs->most_experts + 2, sizeof *t->expert_first);
    t->chosen = own(c, needs->most_experts, sizeof *t->chosen);
    t->expert_rows = own(c, entries, sizeof *t->expert_rows);
    t->expert_slots = own(c, entries, sizeof *t->expert_slots);
    t->x_ids = own(c, entries, sizeof *t->x_ids);
    t->y_ids = own(c, entries, sizeof *t->y_ids);
    return t->expert_first && t->chosen && t->expert_rows && t->expert_slots && t->x_ids && t->y_ids;
}

static bool make_pools(struct compiled *c, const struct backend_options *o) {
    const struct graph *g = c->graph;
    size_t n = g->n_groups;
    c->page_pools = own(c, n, sizeof *c->page_pools);
    c->page_pool_bytes = own(c, n, sizeof *c->page_pool_bytes);
    c->page_bytes = own(c, n, sizeof *c->page_bytes);
    c->entry_bytes = own(c, n, sizeof *c->entry_bytes);
    c->head_bytes = own(c, n, sizeof *c->head_bytes);
    if (!c->page_pools || !c->page_pool_bytes || !c->page_bytes || !c->entry_bytes || !c->head_bytes) return false;
    c->n_groups = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        c->head_bytes[i] = cache_head_bytes(&g->groups[i], c->kv_format);
        c->entry_bytes[i] = c->head_bytes[i] * g->groups[i].n_heads;
        c->page_bytes[i] = c->entry_bytes[i] * g->groups[i].n_entries;
        if (!size_mul(c->page_bytes[i], o->n_pages[i], &c->page_pool_bytes[i])) return false;
        c->page_pools[i] = map_pool(c->page_pool_bytes[i]);
        if (!c->page_pools[i]) return false;
        if (o->n_pages[i] > c->max_pages) c->max_pages = o->n_pages[i];
    }
    if (!size_mul((size_t)g->state_floats * sizeof(float), o->n_state_slots, &c->state_pool_bytes)) return false;
    c->n_state_slots = o->n_state_slots;
    if (c->state_pool_bytes) c->states = map_pool(c->state_pool_bytes);
    return !c->state_pool_bytes || c->states;
}

static bool make_memory(struct compiled *c, const struct backend_options *o) {
    struct needs needs = {.widest_input = 16};
    for (size_t i = 0; i < c->plan->n_ops; i++) need_op(c, c->plan->ops[i], &needs);
    if (!make_pools(c, o)) return false;
    c->buffers = own(c, c->plan->n_buffers, sizeof *c->buffers);
    c->blocks = own(c, c->max_rows, sizeof *c->blocks);
    size_t n_threads = (size_t)pool_n_threads(c->pool);
    c->threads = own(c, n_threads, sizeof *c->threads);
    if (!c->buffers || !c->blocks || !c->threads) return false;
    for (size_t i = 0; i < c->plan->n_buffers; i++) {
        const struct buffer_plan *b = &c->plan->buffers[i];
        size_t rows = b->is_output_domain ? c->max_outputs : c->max_rows, values;
        if (!size_mul(rows, b->width, &values) || !(c->buffers[i] = own(c, values, sizeof(float)))) return false;
    }
    for (int form = 0; form < N_ACTIVATION_FORMS; form++)
        if (needs.form_bytes[form] && !(c->shared_forms[form] = own(c, needs.form_bytes[form], 1))) return false;
    for (size_t t = 0; t < n_threads; t++)
        if (!make_thread(c, &c->threads[t], &needs)) return false;
    return true;
}

static void release(struct compiled *c) {
    if (!c) return;
    for (uint32_t i = 0; i < c->n_groups; i++)
        if (c->page_pools[i]) munmap(c->page_pools[i], c->page_pool_bytes[i]);
    if (c->states) munmap(c->states, c->state_pool_bytes);
    for (size_t i = 0; i < c->n_allocations; i++) free(c->allocations[i]);
    free(c->allocations);
    free(c);
}

static struct compiled *compile(const struct plan *plan, const struct backend_options *o, struct mx_error *err) {
    const struct kernels *kernels = kernels_for_tier(o->tier);
    if (!kernels) {
        error_set(err, ERROR_USAGE, "kernel tier '%s' is not available on this processor", kernel_tier_name(o->tier));
        return NULL;
    }
    struct compiled *c = calloc(1, sizeof *c);
    if (c) {
        c->plan = plan;
        c->graph = plan->graph;
        c->kernels = kernels;
        c->precision = o->precision;
        c->kv_format = o->precision == PRECISION_EXACT ? KV_F32 : KV_F16;
        c->pool = o->pool;
        c->max_rows = o->max_rows;
        c->max_outputs = o->max_outputs;
    }
    if (c && make_memory(c, o)) return c;
    release(c);
    error_memory(err, "buffers, key/value pages and state slots");
    return NULL;
}

/* ---- running ---- */

static bool is_dense(enum op_kind kind) { return op_is_matmul(kind) && kind != OP_EXPERTS && kind != OP_EXPERTS_GATED; }

static void run_op(struct compiled *c, const struct op *op, int thread) {
    if (is_dense(op->kind))
        cpu_matmul_op(c, op, thread);
    else if (op_is_matmul(op->kind))
        cpu_experts_op(c, op, thread);
    else if (op_is_head(op->kind))
        cpu_head_op(c, op, thread);
    else
        cpu_row_op(c, op, thread);
}

static void run_job(void *context, int thread) {
    struct compiled *c = context;
    for (size_t i = 0; i < c->plan->n_ops; i++) {
        const struct op *op = c->plan->ops[i];
        if (op->kind == OP_TAP && !c->step->taps) continue;
        run_op(c, op, thread);
        if (i + 1 < c->plan->n_ops && is_dense(c->plan->ops[i + 1]->kind))
            cpu_matmul_ahead(c, c->plan->ops[i + 1], thread);
        pool_barrier(c->pool);
    }
}

/* Each span's state starts in its out slot. */
static void place_states(struct compiled *c, const struct step *step) {
    size_t bytes = c->graph->state_floats * sizeof(float);
    for (uint32_t i = 0; i < step->n_spans && bytes; i++) {
        const struct step_span *span = &step->spans[i];
        float *out = c->states + (size_t)span->state_out * c->graph->state_floats;
        if (span->is_fresh)
            memset(out, 0, bytes);
        else if (span->state_in != span->state_out)
            memcpy(out, c->states + (size_t)span->state_in * c->graph->state_floats, bytes);
    }
}

static void cut_blocks(struct compiled *c, const struct step *step) {
    c->n_blocks = 0;
    c->has_long_span = false;
    for (uint32_t i = 0; i < step->n_spans; i++) {
        const struct step_span *span = &step->spans[i];
        if (span->n_rows > 1) c->has_long_span = true;
        for (uint32_t r = 0; r < span->n_rows; r += ROW_BLOCK)
            c->blocks[c->n_blocks++] =
                (struct row_block){.span = i,
                                   .first_row = span->first_row + r,
                                   .n_rows = span->n_rows - r < ROW_BLOCK ? span->n_rows - r : ROW_BLOCK};
    }
}

static void run(struct compiled *c, const struct step *step) {
    c->step = step;
    place_states(c, step);
    cut_blocks(c, step);
    pool_run(c->pool, run_job, c);
    c->step = NULL;
}

static const float *result_row(const struct compiled *c, struct value v, uint32_t output) {
    return value_row(c, v, output);
}

static const float *logits(const struct compiled *c, uint32_t output) {
    return result_row(c, c->graph->logits, output);
}
static const float *hidden(const struct compiled *c, uint32_t output) {
    return result_row(c, c->graph->hidden, output);
}

static void copy_page(struct compiled *c, uint32_t group, uint32_t to, uint32_t from) {
    size_t n = c->page_bytes[group];
    memcpy(c->page_pools[group] + to * n, c->page_pools[group] + from * n, n);
}

static void copy_state(struct compiled *c, uint32_t to, uint32_t from) {
    size_t n = c->graph->state_floats;
    if (n && to != from) memcpy(c->states + to * n, c->states + from * n, n * sizeof(float));
}

static int tier_of(const struct compiled *c, int id) { return c->kernel_used[id] ? c->kernels->tier[id] : -1; }

static uint64_t pool_bytes(const struct compiled *c) {
    uint64_t bytes = c->state_pool_bytes;
    for (uint32_t i = 0; i < c->n_groups; i++) bytes += c->page_pool_bytes[i];
    return bytes;
}

struct mixing {
    struct compiled *compiled;
    const struct weight *table;
    const float *const *weights;
    uint32_t n;
    float factor;
    float *const *out;
};

/* Rows are dealt to the threads; each widens every row of the table for itself. */
static void mix_job(void *context, int thread) {
    const struct mixing *m = context;
    struct compiled *c = m->compiled;
    uint32_t step = (uint32_t)pool_n_threads(c->pool), n_cols = m->table->n_cols;
    float *row = c->threads[thread].row;
    for (uint32_t i = (uint32_t)thread; i < m->n; i += step) memset(m->out[i], 0, n_cols * sizeof *row);
    for (uint32_t t = 0; t < m->table->n_rows; t++) {
        cpu_widen_row(c, m->table->matrices, t, row);
        for (uint32_t i = (uint32_t)thread; i < m->n; i += step)
            c->kernels->add_scaled(row, m->weights[i][t], n_cols, m->out[i]);
    }
    for (uint32_t i = (uint32_t)thread; i < m->n; i += step) c->kernels->scale(m->out[i], m->factor, n_cols, m->out[i]);
}

static void mix_table(struct compiled *c, const struct weight *table, const float *const *weights, uint32_t n,
                      float factor, float *const *out) {
    struct mixing mixing = {c, table, weights, n, factor, out};
    pool_run(c->pool, mix_job, &mixing);
}

const struct backend cpu_backend = {"cpu",     compile,    release, run,        logits,   hidden,
                                    copy_page, copy_state, tier_of, pool_bytes, mix_table};
