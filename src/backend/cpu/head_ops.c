/* SPDX-License-Identifier: Apache-2.0 */
/* Head ops: a task is one unit (a key head with its query heads, ...) of a block of rows, or of a whole span where the op
 * goes token by token. A chain runs all of its ops for one unit before the next, with a barrier only where attention
 * would read keys of rows that another task writes. */
#include "backend/cpu/unit.h"

#include <string.h>

/* ---- heads one by one ---- */

static void each_head(const struct compiled *c, const struct op *op, const struct unit *u,
                      void (*apply)(const struct compiled *, const struct op *, uint32_t row, uint32_t head)) {
    const struct head_params *h = &op->head.heads;
    for (uint32_t r = u->first_row; r < u->first_row + u->n_rows; r++)
        for (uint32_t i = 0; i < h->heads_per_unit; i++) apply(c, op, r, head_number(h, u->unit, i));
}

static void norm_head(const struct compiled *c, const struct op *op, uint32_t row, uint32_t head) {
    const struct norm_params *norm = &op->head.norm;
    uint32_t width = op->head.heads.head_dim;
    size_t at = (size_t)head * width;
    cpu_normalize_at(c, norm, norm->per_group ? at : 0, value_row(c, op->in[0], row) + at, width,
                     value_row(c, op->out, row) + at);
}

static void rope_head(const struct compiled *c, const struct op *op, uint32_t row, uint32_t head) {
    const struct rope_params *p = &op->head.rope;
    uint32_t width = op->head.heads.head_dim, n = p->rotary_dim, rest = width - n - p->first;
    const float *x = value_row(c, op->in[0], row) + (size_t)head * (p->in_stride ? p->in_stride : width);
    float *y = value_row(c, op->out, row) + (size_t)head * (p->out_stride ? p->out_stride : width);
    const float *cosine = n ? value_row(c, op->in[1], row) : NULL, *sine = cosine + n / 2;
    memcpy(y, x, p->first * sizeof *y);
    x += p->first;
    y += p->first;
    if (n) (p->is_interleaved ? c->kernels->rope_pairs : c->kernels->rope_halves)(x, cosine, sine, n, y);
    memcpy(y + n, x + n, rest * sizeof *y);
}

static void gate_head(const struct compiled *c, const struct op *op, uint32_t row, uint32_t head) {
    uint32_t width = op->head.heads.head_dim;
    size_t at = (size_t)head * width;
    c->kernels->gated(op->head.unary, value_row(c, op->in[0], row) + at, value_row(c, op->in[1], row) + at, width,
                      value_row(c, op->out, row) + at);
}

static void scale_head(const struct compiled *c, const struct op *op, uint32_t row, uint32_t head) {
    uint32_t width = op->head.heads.head_dim;
    size_t at = (size_t)head * width;
    float factor;
    c->kernels->unary(op->head.unary, value_row(c, op->in[0], row) + head, 1, &factor);
    c->kernels->scale(value_row(c, op->in[1], row) + at, factor, width, value_row(c, op->out, row) + at);
}

/* ---- caches ---- */

/* The keys of one head in a page; its values follow them. */
static unsigned char *page_head(const struct compiled *c, const struct cache *cache, uint32_t page, uint32_t head) {
    uint32_t g = cache->group;
    return c->page_pools[g] + page * c->page_bytes[g] + cache->entry * c->entry_bytes[g] + head * c->head_bytes[g];
}

static size_t key_bytes(const struct compiled *c, const struct cache_group *group) {
    return (size_t)PAGE_CELLS * group->key_dim * (c->kv_format == KV_F16 ? 2 : 4);
}

static void cache_write(const struct compiled *c, const struct op *op, const struct unit *u) {
    const struct cache *cache = &c->graph->caches[op->head.attend.cache];
    const struct cache_group *group = &c->graph->groups[cache->group];
    const uint32_t *table = c->step->spans[u->span].page_tables[cache->group];
    for (uint32_t r = u->first_row; r < u->first_row + u->n_rows; r++) {
        uint32_t cell = c->step->rows[r].cell;
        unsigned char *keys = page_head(c, cache, table[cell / PAGE_CELLS], u->unit);
        c->kernels->kv_store(c->kv_format, value_row(c, op->in[0], r) + (size_t)u->unit * group->key_dim,
                             group->key_dim, value_row(c, op->in[1], r) + (size_t)u->unit * group->value_dim,
                             group->value_dim, cell % PAGE_CELLS, keys, keys + key_bytes(c, group));
    }
}

/* Cells that the row sees: first <= cell < end. */
static void visible_cells(const struct compiled *c, const struct cache_group *group, const struct step_span *span,
                          uint32_t row, uint32_t *first, uint32_t *end) {
    const struct step_row *first_row = &c->step->rows[span->first_row];
    uint32_t cell = c->step->rows[row].cell;
    *end = (span->is_atomic ? c->step->rows[span->first_row + span->n_rows - 1].cell : cell) + 1;
    *first = 0;
    if (first_row->is_canvas) cell = first_row->cell;
    if (group->policy == CACHE_WINDOW && cell + 1 > group->window) *first = cell + 1 - group->window;
    if (group->policy == CACHE_CHUNK) *first = cell / group->window * group->window;
    if (span->is_atomic && first_row->cell < *first) *first = first_row->cell;
}

/* The cells below `end` that a query at `cell` sees of its blocks. */
static void mask_blocks(const struct block_pattern *blocks, uint32_t head, uint32_t cell, uint32_t end,
                        uint64_t *mask) {
    memset(mask, 0, (end + PAGE_CELLS - 1) / PAGE_CELLS * sizeof *mask);
    uint32_t last = cell / blocks->size;
    for (uint32_t block = 0; block * blocks->size < end; block++) {
        bool is_near = block > last || last - block < blocks->local;
        if (!is_near && (block + head + 1) % blocks->stride != 0) continue;
        for (uint32_t c = block * blocks->size; c < (block + 1) * blocks->size && c < end; c++)
            mask[c / PAGE_CELLS] |= 1ull << c % PAGE_CELLS;
    }
}

/* Points key_pages (and value_pages) at a head's pages of the cells first .. end. */
static void find_pages(const struct compiled *c, const struct cache *cache, const struct unit *u, uint32_t head,
                       uint32_t first, uint32_t end) {
    const struct cache_group *group = &c->graph->groups[cache->group];
    const uint32_t *table = c->step->spans[u->span].page_tables[cache->group];
    size_t values_at = key_bytes(c, group);
    for (uint32_t p = first / PAGE_CELLS; p * PAGE_CELLS < end; p++) {
        const unsigned char *keys = page_head(c, cache, table[p], head);
        u->scratch->key_pages[p] = keys;
        u->scratch->value_pages[p] = keys + values_at;
    }
}

static void index_cells(const struct compiled *c, const struct op *op, const struct unit *u) {
    const struct index_params *p = &op->head.index;
    const struct cache *cache = &c->graph->caches[p->cache];
    size_t first_head = (size_t)u->unit * p->heads_per_choice;
    for (uint32_t r = u->first_row; r < u->first_row + u->n_rows; r++) {
        struct choice_job job = {.params = p, .key_pages = u->scratch->key_pages};
        visible_cells(c, &c->graph->groups[cache->group], &c->step->spans[u->span], r, &job.first_cell, &job.end_cell);
        find_pages(c, cache, u, 0, 0, job.end_cell);
        job.q = value_row(c, op->in[0], r) + first_head * p->key_dim;
        if (op->in[1].id != NO_VALUE) job.weights = value_row(c, op->in[1], r) + first_head;
        cpu_index(c, &job, u->scratch, value_row(c, op->out, r) + (size_t)u->unit * choice_width(p->top_k));
    }
}

/* The mask of a row's queries, NULL where the row chose all cells. It serves all heads of a unit. */
static const uint64_t *choice_mask(const struct compiled *c, const struct op *op, const struct unit *u, uint32_t row,
                                   uint32_t end, uint32_t number) {
    const struct attend_params *a = &op->head.attend;
    uint64_t *mask = u->scratch->masks + (size_t)number * c->max_pages;
    uint32_t choice = u->unit * a->n_choices / op->head.heads.n_units;
    const float *chosen = value_row(c, op->in[1], row) + (size_t)choice * choice_width(a->top_k);
    return cpu_choice_mask(chosen, a->block, end, mask) ? mask : NULL;
}

/* ---- attention ---- */

/* Rows and heads that are attended to together. */
struct queries {
    uint32_t n, first_cell[ATTENTION_MAX_QUERIES], end_cell[ATTENTION_MAX_QUERIES];
    const float *q[ATTENTION_MAX_QUERIES];
    const uint64_t *masks[ATTENTION_MAX_QUERIES];
    float *out[ATTENTION_MAX_QUERIES], sinks[ATTENTION_MAX_QUERIES];
};

/* One more, which sees the cells first .. end, or those of them that are in the mask. */
static void add_query(const struct compiled *c, const struct op *op, struct queries *s, uint32_t row, uint32_t head,
                      uint32_t first, uint32_t end, const uint64_t *mask) {
    const struct attend_params *a = &op->head.attend;
    s->q[s->n] = value_row(c, op->in[0], row) + (size_t)head * a->key_dim;
    s->out[s->n] = value_row(c, op->out, row) + (size_t)head * a->value_dim;
    s->first_cell[s->n] = first;
    s->end_cell[s->n] = end;
    s->masks[s->n] = mask;
    s->sinks[s->n] = a->sinks ? a->sinks->vector[head] : 0.0f;
    s->n++;
}

/* Over the pages that were found; has_masks: some query has one. */
static void run_queries(const struct compiled *c, const struct op *op, const struct unit *u, const struct queries *s,
                        bool has_masks) {
    const struct attend_params *a = &op->head.attend;
    c->kernels->attention(&(struct attention_job){.format = c->kv_format,
                                                  .n_queries = s->n,
                                                  .key_dim = a->key_dim,
                                                  .value_dim = a->value_dim,
                                                  .q = s->q,
                                                  .out = s->out,
                                                  .first_cell = s->first_cell,
                                                  .end_cell = s->end_cell,
                                                  .masks = has_masks ? s->masks : NULL,
                                                  .key_pages = u->scratch->key_pages,
                                                  .value_pages = u->scratch->value_pages,
                                                  .sinks = a->sinks ? s->sinks : NULL,
                                                  .scale = a->scale,
                                                  .softcap = a->softcap,
                                                  .scratch = u->scratch->attention});
}

/* Attention of the rows [row, row + n_rows) for the unit's query heads; n_rows * heads <= ATTENTION_MAX_QUERIES. */
static void attend_rows(const struct compiled *c, const struct op *op, const struct unit *u, uint32_t row,
                        uint32_t n_rows, uint32_t first_head, uint32_t n_heads) {
    const struct attend_params *a = &op->head.attend;
    const struct cache *cache = &c->graph->caches[a->cache];
    const struct cache_group *group = &c->graph->groups[cache->group];
    const struct step_span *span = &c->step->spans[u->span];
    bool is_chosen = a->n_choices > 0;
    uint32_t lowest = UINT32_MAX, highest = 0;
    struct queries s;
    s.n = 0;
    for (uint32_t r = row; r < row + n_rows; r++) {
        uint32_t first, end;
        visible_cells(c, group, span, r, &first, &end);
        if (first < lowest) lowest = first;
        if (end > highest) highest = end;
        const uint64_t *mask = is_chosen ? choice_mask(c, op, u, r, end, r - row) : NULL;
        for (uint32_t h = 0; h < n_heads; h++) {
            uint32_t head = head_number(&op->head.heads, u->unit, first_head + h);
            if (a->blocks.size) {
                uint64_t *pattern = u->scratch->masks + (size_t)s.n * c->max_pages;
                mask_blocks(&a->blocks, head, c->step->rows[r].cell, end, pattern);
                mask = pattern;
            }
            add_query(c, op, &s, r, head, first, end, mask);
        }
    }
    /* several units may share a key head */
    find_pages(c, cache, u, u->unit * group->n_heads / op->head.heads.n_units, lowest, highest);
    run_queries(c, op, u, &s, a->blocks.size || is_chosen);
}

/* Cells of the second cache that a row sees below `end`, as mask words. */
static void mask_runs(const struct compiled *c, const struct op *op, uint32_t row, uint32_t end, uint64_t *mask) {
    const struct attend_params *a = &op->head.attend;
    uint32_t n_pages = (end + PAGE_CELLS - 1) / PAGE_CELLS;
    bool is_chosen = a->n_choices && cpu_choice_mask(value_row(c, op->in[1], row), a->block, end, mask);
    if (!is_chosen) memset(mask, 0xff, n_pages * sizeof *mask);
    for (uint32_t p = 0; p < n_pages; p++) {
        uint64_t last = 0;
        for (uint32_t i = 0; i < PAGE_CELLS; i++) {
            uint32_t cell = p * PAGE_CELLS + i;
            if (cell < end && cell % a->run == a->run - 1) last |= UINT64_C(1) << i;
        }
        mask[p] &= last;
    }
}

/* Attention over two caches as over one: the pages of the second come first, then those of the first that any row sees.
 * Masks tell what each row sees of them. */
static void attend_joined(const struct compiled *c, const struct op *op, const struct unit *u, uint32_t row,
                          uint32_t n_rows, uint32_t first_head, uint32_t n_heads) {
    const struct attend_params *a = &op->head.attend;
    const struct cache *near = &c->graph->caches[a->cache], *far = &c->graph->caches[a->more_cache];
    const struct step_span *span = &c->step->spans[u->span];
    uint32_t first[ATTENTION_MAX_QUERIES], end[ATTENTION_MAX_QUERIES], lowest = UINT32_MAX, highest = 0;
    struct queries s;
    s.n = 0;
    for (uint32_t r = 0; r < n_rows; r++) {
        visible_cells(c, &c->graph->groups[near->group], span, row + r, &first[r], &end[r]);
        if (first[r] < lowest) lowest = first[r];
        if (end[r] > highest) highest = end[r];
    }
    uint32_t n_far = (highest + PAGE_CELLS - 1) / PAGE_CELLS, first_near = lowest / PAGE_CELLS;
    find_pages(c, near, u, 0, lowest, highest);
    for (uint32_t p = n_far; p-- > first_near;) {
        u->scratch->key_pages[n_far + p - first_near] = u->scratch->key_pages[p];
        u->scratch->value_pages[n_far + p - first_near] = u->scratch->value_pages[p];
    }
    find_pages(c, far, u, 0, 0, highest);
    for (uint32_t r = 0; r < n_rows; r++) {
        uint64_t *mask = u->scratch->masks + (size_t)r * 2 * c->max_pages;
        memset(mask, 0, (size_t)(2 * n_far - first_near) * sizeof *mask);
        mask_runs(c, op, row + r, end[r], mask);
        for (uint32_t cell = first[r]; cell < end[r]; cell++)
            mask[n_far + cell / PAGE_CELLS - first_near] |= UINT64_C(1) << cell % PAGE_CELLS;
        for (uint32_t h = 0; h < n_heads; h++)
            add_query(c, op, &s, row + r, head_number(&op->head.heads, u->unit, first_head + h), 0,
                      (2 * n_far - first_near) * PAGE_CELLS, mask);
    }
    run_queries(c, op, u, &s, true);
}

static void attend(const struct compiled *c, const struct op *op, const struct unit *u) {
    uint32_t heads = op->head.heads.heads_per_unit, most = ATTENTION_MAX_QUERIES;
    uint32_t rows = heads < most ? most / heads : 1;
    for (uint32_t r = 0; r < u->n_rows; r += rows)
        for (uint32_t h = 0; h < heads; h += most)
            (op->head.attend.run ? attend_joined : attend_rows)(c, op, u, u->first_row + r,
                                                                u->n_rows - r < rows ? u->n_rows - r : rows, h,
                                                                heads - h < most ? heads - h : most);
}

/* ---- tasks ---- */

static void run_unit(const struct compiled *c, const struct op *op, const struct unit *u) {
    switch (op->kind) {
    case OP_HEAD_NORM: each_head(c, op, u, norm_head); break;
    case OP_ROPE: each_head(c, op, u, rope_head); break;
    case OP_HEAD_GATED: each_head(c, op, u, gate_head); break;
    case OP_HEAD_SCALE: each_head(c, op, u, scale_head); break;
    case OP_CACHE_WRITE: cache_write(c, op, u); break;
    case OP_INDEX: index_cells(c, op, u); break;
    case OP_ATTEND: attend(c, op, u); break;
    default: cpu_recurrent_unit(c, op, u); break;
    }
}

static bool is_sequential(enum op_kind kind) { return kind >= OP_CONV && kind <= OP_DELTA; }

/* Runs ops [begin, end) of a chain for every unit. */
static void run_ops(struct compiled *c, struct op *const *ops, uint32_t begin, uint32_t end, uint32_t n_units,
                    bool whole_spans, int thread) {
    uint32_t n_groups = whole_spans ? c->step->n_spans : c->n_blocks, task;
    while (pool_take(c->pool, thread, n_groups * n_units, &task)) {
        struct unit u = {.unit = task % n_units, .scratch = &c->threads[thread]};
        uint32_t group = task / n_units;
        if (whole_spans) {
            const struct step_span *span = &c->step->spans[group];
            u.span = group;
            u.first_row = span->first_row;
            u.n_rows = span->n_rows;
        } else {
            u.span = c->blocks[group].span;
            u.first_row = c->blocks[group].first_row;
            u.n_rows = c->blocks[group].n_rows;
        }
        for (uint32_t i = begin; i < end; i++) run_unit(c, ops[i], &u);
    }
}

/* Whether the op reads cells, which other tasks may write in the same chain. */
static bool reads_cells(enum op_kind kind) { return kind == OP_ATTEND || kind == OP_INDEX; }

void cpu_head_op(struct compiled *c, const struct op *op, int thread) {
    struct op *single = (struct op *)(uintptr_t)op, *const *ops = &single;
    uint32_t n_ops = 1, n_units = op->head.heads.n_units, begin = 0;
    if (op->kind == OP_HEADS) {
        ops = op->chain.ops;
        n_ops = op->chain.n_ops;
        n_units = op->chain.n_units;
    }
    bool whole_spans = false;
    for (uint32_t i = 0; i < n_ops; i++)
        if (is_sequential(ops[i]->kind)) whole_spans = true;
    for (uint32_t i = 1; i < n_ops && c->has_long_span; i++) {
        if (!reads_cells(ops[i]->kind)) continue;
        run_ops(c, ops, begin, i, n_units, whole_spans, thread);
        pool_barrier(c->pool);
        begin = i;
    }
    run_ops(c, ops, begin, n_ops, n_units, whole_spans, thread);
}
