/* SPDX-License-Identifier: Apache-2.0 */
/* Choices of cells by an index: every visible cell is scored against small keys of its own, and the best blocks are kept
 * (sparse attention of DeepSeek-V3.2, 2025; by blocks: MiniMax M3). */
#include "backend/cpu/cpu.h"

#include <math.h>
#include <string.h>

static uint32_t read_u32(const float *at) {
    uint32_t n;
    memcpy(&n, at, sizeof n);
    return n;
}

static void write_u32(float *at, uint32_t n) { memcpy(at, &n, sizeof n); }

/* The k-th largest of n values, k >= 1; reorders them. */
static float kth_largest(float *x, uint32_t n, uint32_t k) {
    uint32_t low = 0, high = n;
    while (high - low > 1) {
        float pivot = x[low + (high - low) / 2];
        uint32_t above = low, at = low,
                 below = high; /* [low, above) larger, [above, at) equal, [below, high) smaller */
        while (at < below) {
            float value = x[at];
            if (value > pivot) {
                x[at++] = x[above];
                x[above++] = value;
            } else if (value < pivot) {
                x[at] = x[--below];
                x[below] = value;
            } else {
                at++;
            }
        }
        if (k - 1 < above)
            high = above;
        else if (k - 1 >= at)
            low = at;
        else
            return pivot;
    }
    return x[low];
}

/* Blocks that can be chosen. */
static uint32_t count_blocks(const struct choice_job *job) {
    uint32_t block = job->params->block;
    return job->params->at_end ? job->end_cell / block : (job->end_cell + block - 1) / block;
}

/* Scores of the blocks that hold cells below end_cell; NaN counts as the lowest. */
static void score_blocks(const struct compiled *c, const struct choice_job *job, struct thread_scratch *t) {
    const struct index_params *p = job->params;
    uint32_t n_blocks = count_blocks(job), own = (job->end_cell - 1) / p->block;
    for (uint32_t page = 0; page * PAGE_CELLS < job->end_cell; page++)
        c->kernels->index_scores(&(struct index_job){.format = c->kv_format,
                                                     .n_heads = p->heads_per_choice,
                                                     .dim = p->key_dim,
                                                     .q = job->q,
                                                     .weights = job->weights,
                                                     .keys = job->key_pages[page],
                                                     .scores = t->cell_scores + (size_t)page * PAGE_CELLS});
    for (uint32_t b = 0; b < n_blocks; b++) {
        float best = -INFINITY;
        uint32_t first = p->at_end ? (b + 1) * p->block - 1 : b * p->block;
        for (uint32_t cell = first; cell < (b + 1) * p->block && cell < job->end_cell; cell++)
            if (t->cell_scores[cell] > best) best = t->cell_scores[cell];
        t->block_scores[b] = b + p->n_local > own ? INFINITY : best;
    }
}

void cpu_index(const struct compiled *c, const struct choice_job *job, struct thread_scratch *t, float *out) {
    const struct index_params *p = job->params;
    uint32_t n_blocks = count_blocks(job), n_above = 0, n_equal = 0, n = 0;
    if (n_blocks <= p->top_k) {
        write_u32(out, UINT32_MAX);
        return;
    }
    score_blocks(c, job, t);
    memcpy(t->sorted, t->block_scores, n_blocks * sizeof *t->sorted);
    float border = kth_largest(t->sorted, n_blocks, p->top_k);
    for (uint32_t b = 0; b < n_blocks; b++) {
        n_above += t->block_scores[b] > border;
        n_equal += t->block_scores[b] == border;
    }
    uint32_t n_left_out = n_above + n_equal - p->top_k; /* the earliest of those at the border */
    for (uint32_t b = 0; b < n_blocks; b++) {
        if (t->block_scores[b] < border) continue;
        if (t->block_scores[b] == border && n_left_out)
            n_left_out--;
        else
            write_u32(out + 1 + n++, b);
    }
    write_u32(out, n);
}

bool cpu_choice_mask(const float *choice, uint32_t block, uint32_t end_cell, uint64_t *mask) {
    uint32_t n = read_u32(choice);
    if (n == UINT32_MAX) return false;
    memset(mask, 0, (end_cell + PAGE_CELLS - 1) / PAGE_CELLS * sizeof *mask);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t first = read_u32(choice + 1 + i) * block;
        for (uint32_t cell = first; cell < first + block && cell < end_cell; cell++)
            mask[cell / PAGE_CELLS] |= UINT64_C(1) << cell % PAGE_CELLS;
    }
    return true;
}
