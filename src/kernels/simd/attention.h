/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over pages. A page is read once for all queries of a call:
 *
 *   scores   cells in lanes; the 16 sums of the 16-lane rule are made one after another in bit-reversed order, so that
 *            each meets its partner in the tree soon and at most four partial sums of a cell wait
 *   softmax  of each query's cells; a cell that the query does not see counts as exact zero
 *   values   dimensions in lanes, cells ascending; then the page is merged into the query's running result
 *
 * Scores and values are both sums of rows times scalars, and share the inner step. Tiles hold the sums of some queries
 * in registers. f16 pages that several tiles read are widened into scratch first. */
#include "kernels/simd/math.h"
#include "kernels/simd/simd.h"
#include "kernels/simd/tile.h"

#include <string.h>

/* Lanes (16 cells or dimensions) beside nq queries in a tile, and the largest tiles: when all queries are one tile, and
 * when there are several. */
#define ATTENTION_LANES(nq)                                                                                            \
    ((nq) == 1 ? ATTENTION_LANES_1 : (nq) == 2 ? ATTENTION_LANES_2 : (nq) == 3 ? ATTENTION_LANES_3 : ATTENTION_LANES_4)

/* What queries and pages of one call come to. */
struct attending {
    const struct attention_job *job;
    float *keys, *values;                              /* scratch: the page widened */
    float *e;                                          /* [queries][PAGE_CELLS]: scores, then exponentials */
    float *o;                                          /* [queries][o_stride]: running results */
    float *partial;                                    /* sums of scores that wait */
    float *m, *l;                                      /* [queries], of the pages before */
    float *page_m, *page_l, *old_factor, *page_factor; /* [queries that see the page] */
    size_t o_stride;                                   /* value_dim rounded up to 16 */
    uint32_t n_active, active[ATTENTION_MAX_QUERIES];  /* the queries that see the page */
    uint64_t seen[ATTENTION_MAX_QUERIES];              /* the cells of it that they see, one bit each */
    uint32_t first[ATTENTION_MAX_QUERIES], end[ATTENTION_MAX_QUERIES]; /* the lowest, and one beyond the highest */
};

/* Where a page's rows lie as the tiles read them. */
struct page {
    enum kv_format key_format, value_format;
    const unsigned char *keys, *values;
    size_t value_stride;                          /* elements */
    const unsigned char *next_keys, *next_values; /* to be prefetched; NULL when there are none */
};

/* Bytes that will be read soon, `step` of them to be prefetched at each row. */
struct nearing {
    const unsigned char *at;
    uint32_t step;
};

SIMD_INLINE void bring_near(struct nearing *next) {
    for (uint32_t b = 0; b < next->step; b += 64) __builtin_prefetch(next->at + b, 0, 2);
    next->at += next->step;
}

/* sums[i] += s[i][at] * row: one dimension of keys, or one cell of values. */
SIMD_INLINE void outer_step(enum kv_format format, uint32_t nq, uint32_t n, const float *const *s, size_t at,
                            const unsigned char *row, lanes (*sums)[4]) {
    vec factor[ATTENTION_MOST];
    SIMD_UNROLL for (uint32_t i = 0; i < nq; i++) {
        factor[i] = vec_set1(s[i][at]);
        SIMD_KEEP(factor[i]);
    }
    SIMD_UNROLL for (uint32_t c = 0; c < n; c++) SIMD_UNROLL for (int v = 0; v < LANE_VECS; v++) {
        uint32_t element = c * 16 + (uint32_t)v * VEC_FLOATS;
        vec x =
            format == KV_F16 ? vec_load_f16(row + element * 2) : vec_load((const float *)(const void *)row + element);
        SIMD_KEEP(x);
        SIMD_UNROLL for (uint32_t i = 0; i < nq; i++) vec_fma_to(&sums[i][c].v[v], factor[i], x);
    }
}

SIMD_INLINE size_t element_bytes(enum kv_format format) { return format == KV_F16 ? 2 : 4; }

/* ---- scores ---- */

struct score_tile {
    const float *const *q;
    const unsigned char *keys; /* at the first cell of the tile */
    float *scores;             /* [nq] rows of PAGE_CELLS, at the first cell */
    float *partial;
    uint32_t key_dim;
    struct nearing next;
};

SIMD_INLINE void score_run(enum kv_format format, uint32_t nq, uint32_t n, const struct score_tile *t) {
    static const unsigned char order[16] = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};
    const size_t row_bytes = PAGE_CELLS * element_bytes(format);
    struct nearing next = t->next;
    uint32_t key_dim = t->key_dim;
    for (uint32_t turn = 0; turn < 16; turn++) {
        lanes sums[ATTENTION_MOST][4];
        SIMD_UNROLL for (uint32_t i = 0; i < nq; i++) SIMD_UNROLL for (uint32_t c = 0; c < n; c++) sums[i][c] =
            lanes_zero();
        for (uint32_t d = order[turn]; d < key_dim; d += 16) {
            bring_near(&next);
            outer_step(format, nq, n, t->q, d, t->keys + d * row_bytes, sums);
        }
        float *partial = t->partial;
        for (uint32_t rest = turn; rest & 1; rest >>= 1, partial += nq * n * 16)
            SIMD_UNROLL for (uint32_t i = 0; i < nq; i++) SIMD_UNROLL for (uint32_t c = 0; c < n; c++) sums[i][c] =
                lanes_add(lanes_load(partial + (i * n + c) * 16), sums[i][c]);
        SIMD_UNROLL for (uint32_t i = 0; i < nq; i++) SIMD_UNROLL for (uint32_t c = 0; c < n; c++) {
            if (turn == 15)
                lanes_store(t->scores + i * PAGE_CELLS + c * 16, sums[i][c]);
            else
                lanes_store(partial + (i * n + c) * 16, sums[i][c]);
        }
    }
}

/* ---- values ---- */

struct value_tile {
    const float *const *e;       /* [nq] rows of PAGE_CELLS */
    const unsigned char *values; /* at the first dimension of the tile */
    size_t row_bytes;
    const uint32_t *first, *end;           /* cells of each query */
    const float *old_factor, *page_factor; /* [nq] */
    float *const *o;                       /* [nq], at the first dimension */
    struct nearing next;
};

SIMD_INLINE void value_run(enum kv_format format, uint32_t nq, uint32_t n, const struct value_tile *t) {
    lanes sums[ATTENTION_MOST][4];
    uint32_t all_first = 0, all_end = PAGE_CELLS; /* cells that all queries of the tile see */
    SIMD_UNROLL for (uint32_t i = 0; i < nq; i++) {
        all_first = t->first[i] > all_first ? t->first[i] : all_first;
        all_end = t->end[i] < all_end ? t->end[i] : all_end;
        SIMD_UNROLL for (uint32_t c = 0; c < n; c++) sums[i][c] = lanes_zero();
    }
    if (all_first >= all_end) all_first = all_end = PAGE_CELLS;
    SIMD_UNROLL for (uint32_t i = 0; i < nq; i++) for (uint32_t cell = t->first[i];
                                                       cell < all_first && cell < t->end[i]; cell++)
        outer_step(format, 1, n, t->e + i, cell, t->values + cell * t->row_bytes, sums + i);
    struct nearing next = t->next;
    for (uint32_t cell = all_first; cell < all_end; cell++) {
        bring_near(&next);
        outer_step(format, nq, n, t->e, cell, t->values + cell * t->row_bytes, sums);
    }
    SIMD_UNROLL for (uint32_t i = 0; i < nq; i++) for (uint32_t cell = all_end; cell < t->end[i]; cell++)
        outer_step(format, 1, n, t->e + i, cell, t->values + cell * t->row_bytes, sums + i);
    SIMD_UNROLL for (uint32_t i = 0; i < nq; i++) {
        lanes old = lanes_set1(t->old_factor[i]), page = lanes_set1(t->page_factor[i]);
        SIMD_UNROLL for (uint32_t c = 0; c < n; c++) {
            float *o = t->o[i] + c * 16;
            lanes_store(o, lanes_fma(lanes_load(o), old, lanes_mul(sums[i][c], page)));
        }
    }
}

/* ---- one function for each size of tile ---- */

typedef void (*score_function)(const struct score_tile *t);
typedef void (*value_function)(const struct value_tile *t);

#define ATTENTION_TILE(FORMAT, NQ)                                                                                     \
    SIMD_NOINLINE void score_##FORMAT##_##NQ(const struct score_tile *t) {                                             \
        score_run(FORMAT, NQ, ATTENTION_LANES(NQ), t);                                                                 \
    }                                                                                                                  \
    SIMD_NOINLINE void value_##FORMAT##_##NQ(const struct value_tile *t) {                                             \
        value_run(FORMAT, NQ, ATTENTION_LANES(NQ), t);                                                                 \
    }                                                                                                                  \
    SIMD_NOINLINE void value_narrow_##FORMAT##_##NQ(const struct value_tile *t) { value_run(FORMAT, NQ, 1, t); }
ATTENTION_FOR_TILES(ATTENTION_TILE, KV_F16)
ATTENTION_FOR_TILES(ATTENTION_TILE, KV_F32)

#define SCORE_ENTRY(FORMAT, NQ)  [FORMAT][NQ - 1] = score_##FORMAT##_##NQ,
#define VALUE_ENTRY(FORMAT, NQ)  [FORMAT][NQ - 1] = value_##FORMAT##_##NQ,
#define NARROW_ENTRY(FORMAT, NQ) [FORMAT][NQ - 1] = value_narrow_##FORMAT##_##NQ,
static const score_function score_tiles[N_KV_FORMATS][ATTENTION_MOST] = {ATTENTION_FOR_TILES(SCORE_ENTRY, KV_F16)
                                                                             ATTENTION_FOR_TILES(SCORE_ENTRY, KV_F32)};
static const value_function value_tiles[N_KV_FORMATS][ATTENTION_MOST] = {ATTENTION_FOR_TILES(VALUE_ENTRY, KV_F16)
                                                                             ATTENTION_FOR_TILES(VALUE_ENTRY, KV_F32)};
static const value_function narrow_tiles[N_KV_FORMATS][ATTENTION_MOST] = {
    ATTENTION_FOR_TILES(NARROW_ENTRY, KV_F16) ATTENTION_FOR_TILES(NARROW_ENTRY, KV_F32)};

/* Queries of the next tile when n are left of `all`: all at once where they fit, else by the best size. */
static uint32_t tile_queries(uint32_t n, uint32_t all) {
    return all <= ATTENTION_MOST ? n : even_part(n, ATTENTION_BEST);
}

/* n bytes spread over so many steps; nothing where several tiles go over the page. */
static struct nearing spread(const unsigned char *at, size_t bytes, uint32_t steps) {
    return (struct nearing){at, at && steps ? (uint32_t)((bytes + steps - 1) / steps) : 0};
}

static void all_scores(struct attending *a, const struct page *page) {
    const struct attention_job *job = a->job;
    for (uint32_t i = 0, nq; i < a->n_active; i += nq) {
        const float *q[ATTENTION_MOST];
        nq = tile_queries(a->n_active - i, a->n_active);
        for (uint32_t k = 0; k < nq; k++) q[k] = job->q[a->active[i + k]];
        uint32_t cells = ATTENTION_LANES(nq) * 16, n_tiles = PAGE_CELLS / cells;
        size_t key_bytes = PAGE_CELLS * element_bytes(job->format) * job->key_dim;
        struct score_tile t = {.q = q, .partial = a->partial, .key_dim = job->key_dim};
        t.next = spread(page->next_keys, key_bytes, job->key_dim * n_tiles);
        for (uint32_t cell = 0; cell < PAGE_CELLS; cell += cells) {
            t.keys = page->keys + cell * element_bytes(page->key_format);
            t.scores = a->e + (size_t)i * PAGE_CELLS + cell;
            score_tiles[page->key_format][nq - 1](&t);
            t.next.at += (size_t)t.next.step * job->key_dim;
        }
    }
}

static void all_values(struct attending *a, const struct page *page) {
    const struct attention_job *job = a->job;
    for (uint32_t i = 0, nq; i < a->n_active; i += nq) {
        const float *e[ATTENTION_MOST];
        float *o[ATTENTION_MOST];
        nq = tile_queries(a->n_active - i, a->n_active);
        uint32_t wide = ATTENTION_LANES(nq) * 16, n_tiles = (job->value_dim + wide - 1) / wide;
        struct value_tile t = {.e = e,
                               .o = o,
                               .row_bytes = page->value_stride * element_bytes(page->value_format),
                               .first = a->first + i,
                               .end = a->end + i,
                               .old_factor = a->old_factor + i,
                               .page_factor = a->page_factor + i};
        t.next =
            spread(page->next_values, PAGE_CELLS * element_bytes(job->format) * job->value_dim, PAGE_CELLS * n_tiles);
        for (uint32_t d = 0, n; d < job->value_dim; d += n) {
            n = job->value_dim - d >= wide ? wide : 16;
            for (uint32_t k = 0; k < nq; k++) {
                e[k] = a->e + (size_t)(i + k) * PAGE_CELLS;
                o[k] = a->o + a->active[i + k] * a->o_stride + d;
            }
            t.values = page->values + d * element_bytes(page->value_format);
            (n == wide ? value_tiles : narrow_tiles)[page->value_format][nq - 1](&t);
            t.next.at += (size_t)t.next.step * PAGE_CELLS;
        }
    }
}

/* ---- softmax and merging ---- */

/* Scale, softcap and mask of 16 scores from cell `cell` on. */
SIMD_INLINE lanes finish_scores(const struct attention_job *job, lanes s, lanes_mask is_seen) {
    s = lanes_mul(s, lanes_set1(job->scale));
    if (job->softcap != 0.0f) {
        lanes cap = lanes_set1(job->softcap);
        s = lanes_mul(cap, lanes_tanh(lanes_div(s, cap)));
    }
    return lanes_select(is_seen, s, lanes_set1(-__builtin_inff()));
}

/* Whether cells from `cell` on lie in first .. end. */
SIMD_INLINE lanes_mask cells_seen(uint32_t cell, uint32_t first, uint32_t end) {
    lanes place = lanes_add(lanes_places(), lanes_set1((float)cell));
    lanes_mask before = lanes_less(place, lanes_set1((float)first)), inside = lanes_less(place, lanes_set1((float)end));
    lanes one = lanes_select(before, lanes_zero(), lanes_select(inside, lanes_set1(1.0f), lanes_zero()));
    return lanes_less(lanes_zero(), one);
}

/* The cells from `cell` on whose bit is set, for masks that are no range. */
static lanes_mask cells_set(uint32_t cell, uint64_t seen) {
    float flags[16];
    for (uint32_t c = 0; c < 16; c++) flags[c] = (float)(seen >> (cell + c) & 1);
    return lanes_less(lanes_zero(), lanes_load(flags));
}

/* The scores of active query k become exponentials; a NaN among them makes everything NaN whatever the maximum is. */
static void softmax_page(struct attending *a, uint32_t k) {
    float *e = a->e + (size_t)k * PAGE_CELLS;
    lanes s[PAGE_CELLS / 16], most, sum = lanes_zero();
    lanes_mask seen[PAGE_CELLS / 16];
    SIMD_UNROLL for (uint32_t c = 0; c < PAGE_CELLS / 16; c++) {
        seen[c] = a->job->masks ? cells_set(c * 16, a->seen[k]) : cells_seen(c * 16, a->first[k], a->end[k]);
        s[c] = finish_scores(a->job, lanes_load(e + c * 16), seen[c]);
        most = c == 0 ? s[0] : lanes_max(s[c], most);
    }
    float m = lanes_largest(most);
    SIMD_UNROLL for (uint32_t c = 0; c < PAGE_CELLS / 16; c++) {
        lanes x = lanes_select(seen[c], lanes_exp(lanes_sub(s[c], lanes_set1(m))), lanes_zero());
        lanes_store(e + c * 16, x);
        sum = lanes_add(sum, x);
    }
    a->page_m[k] = m;
    a->page_l[k] = lanes_sum(sum);
}

/* The factors by which running results and this page's are brought to their common maximum. */
static void merge_factors(struct attending *a) {
    float old_m[ATTENTION_MAX_QUERIES] = {0}, old_l[ATTENTION_MAX_QUERIES] = {0};
    for (uint32_t k = 0; k < a->n_active; k++) old_m[k] = a->m[a->active[k]], old_l[k] = a->l[a->active[k]];
    for (uint32_t k = 0; k < a->n_active; k += 16) {
        lanes m = lanes_load(old_m + k), page_m = lanes_load(a->page_m + k), merged = lanes_max(page_m, m);
        lanes old = lanes_exp(lanes_sub(m, merged)), page = lanes_exp(lanes_sub(page_m, merged));
        lanes l = lanes_fma(lanes_load(old_l + k), old, lanes_mul(lanes_load(a->page_l + k), page));
        lanes_store(old_m + k, merged);
        lanes_store(old_l + k, l);
        lanes_store(a->old_factor + k, old);
        lanes_store(a->page_factor + k, page);
    }
    for (uint32_t k = 0; k < a->n_active; k++) a->m[a->active[k]] = old_m[k], a->l[a->active[k]] = old_l[k];
}

/* ---- pages ---- */

/* Rows [0, n) of `width` f16 or f32 at `from`, as f32 rows that are `stride` apart. */
static void widen_rows(enum kv_format format, const unsigned char *from, uint32_t n, uint32_t width, size_t stride,
                       float *to) {
    for (uint32_t r = 0; r < n; r++, to += stride, from += width * element_bytes(format)) {
        uint32_t k = 0;
        for (; k + 16 <= width; k += 16)
            lanes_store(to + k, format == KV_F16 ? lanes_load_f16(from + 2 * k)
                                                 : lanes_load((const float *)(const void *)from + k));
        float tail[16] = {0};
        uint16_t half_tail[16] = {0};
        if (k == width) continue;
        memcpy(format == KV_F16 ? (void *)half_tail : (void *)tail, from + k * element_bytes(format),
               (width - k) * element_bytes(format));
        lanes_store(to + k, format == KV_F16 ? lanes_load_f16(half_tail) : lanes_load(tail));
    }
}

/* The page as the tiles read it: widened where several tiles read it, or where a row of values ends within 16. */
static struct page prepare_page(struct attending *a, uint32_t number, uint32_t n_pages) {
    const struct attention_job *job = a->job;
    bool several = a->n_active > ATTENTION_MOST && job->format == KV_F16, is_ragged = job->value_dim % 16 != 0;
    struct page page = {job->format, job->format, job->key_pages[number], job->value_pages[number], job->value_dim,
                        NULL,        NULL};
    if (several) {
        widen_rows(KV_F16, page.keys, job->key_dim, PAGE_CELLS, PAGE_CELLS, a->keys);
        page.keys = (const unsigned char *)a->keys;
        page.key_format = KV_F32;
    }
    if (several || is_ragged) {
        uint32_t first = PAGE_CELLS, end = 0; /* only cells that some query sees hold numbers */
        for (uint32_t k = 0; k < a->n_active; k++) {
            first = a->first[k] < first ? a->first[k] : first;
            end = a->end[k] > end ? a->end[k] : end;
        }
        size_t skip = (size_t)first * job->value_dim * element_bytes(job->format);
        widen_rows(job->format, page.values + skip, end - first, job->value_dim, a->o_stride,
                   a->values + first * a->o_stride);
        page.values = (const unsigned char *)a->values;
        page.value_format = KV_F32;
        page.value_stride = a->o_stride;
    }
    if (a->n_active <= ATTENTION_MOST && number + 1 < n_pages && job->key_pages[number + 1]) {
        page.next_keys = job->key_pages[number + 1];
        page.next_values = job->value_pages[number + 1];
    }
    return page;
}

static void find_active(struct attending *a, uint32_t number) {
    a->n_active = 0;
    for (uint32_t i = 0; i < a->job->n_queries; i++) {
        uint64_t seen = attention_seen(a->job, i, number);
        uint32_t k = a->n_active;
        if (!seen) continue;
        a->active[k] = i;
        a->seen[k] = seen;
        a->first[k] = lowest_bit(seen);
        a->end[k] = highest_bit(seen) + 1;
        a->n_active++;
    }
}

static struct attending begin_attention(const struct attention_job *job) {
    struct attending a = {.job = job, .o_stride = (job->value_dim + 15) / 16 * 16};
    float *at = job->scratch;
    a.keys = at, at += PAGE_CELLS * job->key_dim;
    a.values = at, at += PAGE_CELLS * a.o_stride;
    a.e = at, at += ATTENTION_MAX_QUERIES * PAGE_CELLS;
    a.o = at, at += ATTENTION_MAX_QUERIES * a.o_stride;
    a.m = at, at += ATTENTION_MAX_QUERIES;
    a.l = at, at += ATTENTION_MAX_QUERIES;
    a.page_m = at, at += ATTENTION_MAX_QUERIES;
    a.page_l = at, at += ATTENTION_MAX_QUERIES;
    a.old_factor = at, at += ATTENTION_MAX_QUERIES;
    a.page_factor = at, at += ATTENTION_MAX_QUERIES;
    a.partial = at;
    for (uint32_t i = 0; i < job->n_queries; i++) {
        a.m[i] = job->sinks ? job->sinks[i] : -__builtin_inff();
        a.l[i] = job->sinks ? 1.0f : 0.0f;
        memset(a.o + i * a.o_stride, 0, a.o_stride * sizeof *a.o);
    }
    memset(a.page_m, 0, 2 * ATTENTION_MAX_QUERIES * sizeof *a.page_m); /* elements past the active queries are read */
    return a;
}

static void end_attention(const struct attending *a) {
    for (uint32_t i = 0; i < a->job->n_queries; i++)
        for (uint32_t d = 0; d < a->job->value_dim; d += 16) {
            lanes l = lanes_set1(a->l[i]), o = lanes_load(a->o + i * a->o_stride + d);
            if (a->l[i] == 0.0f)
                o = lanes_zero();
            else
                o = lanes_div(o, l);
            lanes_store_some(a->job->out[i] + d, o, a->job->value_dim - d);
        }
}

void SIMD_NAME(attention)(const struct attention_job *job) {
    struct attending a = begin_attention(job);
    uint32_t first = UINT32_MAX, end = 0;
    for (uint32_t i = 0; i < job->n_queries; i++) {
        if (job->first_cell[i] >= job->end_cell[i]) continue;
        first = job->first_cell[i] < first ? job->first_cell[i] : first;
        end = job->end_cell[i] > end ? job->end_cell[i] : end;
    }
    uint32_t n_pages = (end + PAGE_CELLS - 1) / PAGE_CELLS;
    for (uint32_t number = first / PAGE_CELLS; number < n_pages; number++) {
        find_active(&a, number);
        if (!a.n_active) continue;
        struct page page = prepare_page(&a, number, n_pages);
        all_scores(&a, &page);
        for (uint32_t k = 0; k < a.n_active; k++) softmax_page(&a, k);
        merge_factors(&a);
        all_values(&a, &page);
    }
    end_attention(&a);
}

/* ---- index scores ---- */

enum { INDEX_HEADS = 4 }; /* heads whose sums are in registers at a time */

/* Adds n heads' share to the scores of 16 cells. */
SIMD_INLINE lanes index_heads(const struct index_job *job, uint32_t first, uint32_t n, const unsigned char *keys,
                              lanes score) {
    lanes sums[INDEX_HEADS];
    size_t row_bytes = PAGE_CELLS * element_bytes(job->format);
    const float *q = job->q + (size_t)first * job->dim;
    for (uint32_t h = 0; h < n; h++) sums[h] = lanes_zero();
    for (uint32_t d = 0; d < job->dim; d++, keys += row_bytes) {
        lanes k = job->format == KV_F16 ? lanes_load_f16(keys) : lanes_load((const float *)(const void *)keys);
        for (uint32_t h = 0; h < n; h++) sums[h] = lanes_fma(lanes_set1(q[(size_t)h * job->dim + d]), k, sums[h]);
    }
    if (!job->weights) return sums[0];
    for (uint32_t h = 0; h < n; h++) score = lanes_fma(lanes_set1(job->weights[first + h]), lanes_relu(sums[h]), score);
    return score;
}

void SIMD_NAME(index_scores)(const struct index_job *job) {
    for (uint32_t cell = 0; cell < PAGE_CELLS; cell += 16) {
        const unsigned char *keys = (const unsigned char *)job->keys + cell * element_bytes(job->format);
        lanes score = lanes_zero();
        uint32_t h = 0;
        for (; h + INDEX_HEADS <= job->n_heads; h += INDEX_HEADS) score = index_heads(job, h, INDEX_HEADS, keys, score);
        for (; h < job->n_heads; h++) score = index_heads(job, h, 1, keys, score);
        lanes_store(job->scores + cell, score);
    }
}
