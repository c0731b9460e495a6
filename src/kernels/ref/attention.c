/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over pages, by the rule at struct attention_job. */
#include "kernels/ref/ref.h"

#include "kernels/ref/math.h"

static float kv_read(enum kv_format format, const void *page, size_t index) {
    return format == KV_F16 ? f16_to_f32(((const uint16_t *)page)[index]) : ((const float *)page)[index];
}

static void kv_write(enum kv_format format, void *page, size_t index, float value) {
    if (format == KV_F16)
        ((uint16_t *)page)[index] = f32_to_f16(value);
    else
        ((float *)page)[index] = value;
}

void REF_NAME(kv_store)(enum kv_format format, const float *key, uint32_t key_dim, const float *value,
                        uint32_t value_dim, uint32_t cell, void *key_page, void *value_page) {
    for (uint32_t d = 0; d < key_dim; d++) kv_write(format, key_page, (size_t)d * PAGE_CELLS + cell, key[d]);
    for (uint32_t d = 0; d < value_dim; d++) kv_write(format, value_page, (size_t)cell * value_dim + d, value[d]);
}

static float score(const struct attention_job *job, const float *q, const void *keys, uint32_t cell) {
    float lanes[16] = {0};
    for (uint32_t d = 0; d < job->key_dim; d++)
        lanes[d & 15] = fused(q[d], kv_read(job->format, keys, (size_t)d * PAGE_CELLS + cell), lanes[d & 15]);
    float s = lanes_sum(lanes) * job->scale;
    return job->softcap != 0.0f ? job->softcap * math_tanh(s / job->softcap) : s;
}

void REF_NAME(index_scores)(const struct index_job *job) {
    for (uint32_t c = 0; c < PAGE_CELLS; c++) {
        float score = 0.0f;
        for (uint32_t h = 0; h < job->n_heads; h++) {
            const float *q = job->q + (size_t)h * job->dim;
            float s = 0.0f;
            for (uint32_t d = 0; d < job->dim; d++)
                s = fused(q[d], kv_read(job->format, job->keys, (size_t)d * PAGE_CELLS + c), s);
            score = job->weights ? fused(job->weights[h], s < 0.0f ? 0.0f : s, score) : s;
        }
        job->scores[c] = score;
    }
}

struct running {
    float m, l;
    float *o;
};

static bool is_set(uint64_t bits, uint32_t c) { return bits >> c & 1; }

/* Merges one page, of which the query sees the cells of `seen`, the lowest and the highest of which are first and
 * end - 1; those between that it does not see count with weight 0. */
static void visit_page(const struct attention_job *job, const float *q, uint32_t page, uint64_t seen, uint32_t first,
                       uint32_t end, float *page_o, struct running *run) {
    const void *values = job->value_pages[page];
    float e[PAGE_CELLS] = {0}, m = 0.0f, lanes[16] = {0};
    for (uint32_t c = first; c < end; c++) {
        if (!is_set(seen, c)) continue;
        e[c] = score(job, q, job->key_pages[page], c);
        m = c == first || e[c] > m ? e[c] : m;
    }
    for (uint32_t c = 0; c < PAGE_CELLS; c++) {
        e[c] = is_set(seen, c) ? math_exp(e[c] - m) : 0.0f;
        lanes[c & 15] = lanes[c & 15] + e[c];
    }
    for (uint32_t d = 0; d < job->value_dim; d++) {
        page_o[d] = 0.0f;
        for (uint32_t c = first; c < end; c++)
            page_o[d] = fused(e[c], kv_read(job->format, values, (size_t)c * job->value_dim + d), page_o[d]);
    }
    float merged = m > run->m ? m : run->m, a = math_exp(run->m - merged), b = math_exp(m - merged);
    run->l = fused(run->l, a, lanes_sum(lanes) * b);
    for (uint32_t d = 0; d < job->value_dim; d++) run->o[d] = fused(run->o[d], a, page_o[d] * b);
    run->m = merged;
}

void REF_NAME(attention)(const struct attention_job *job) {
    float *page_o = job->scratch;
    for (uint32_t i = 0; i < job->n_queries; i++) {
        struct running run = {.m = -__builtin_inff(), .l = 0.0f, .o = job->out[i]};
        if (job->sinks) run = (struct running){.m = job->sinks[i], .l = 1.0f, .o = run.o};
        for (uint32_t d = 0; d < job->value_dim; d++) run.o[d] = 0.0f;
        uint32_t first = job->first_cell[i], end = job->end_cell[i];
        for (uint32_t page = first / PAGE_CELLS; page * PAGE_CELLS < end; page++) {
            uint64_t seen = attention_seen(job, i, page);
            if (seen) visit_page(job, job->q[i], page, seen, lowest_bit(seen), highest_bit(seen) + 1, page_o, &run);
        }
        for (uint32_t d = 0; d < job->value_dim; d++) run.o[d] = run.l != 0.0f ? run.o[d] / run.l : 0.0f;
    }
}
