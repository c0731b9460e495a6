/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products by the 16-lane rule, in one of two ways.
 *
 * Few activation rows: the weights stream from memory straight into the tiles, in blocks of columns whose activations
 * stay in the first-level cache, and the weights of the next tile are prefetched meanwhile. More: panels of PANEL_ROWS
 * weight rows are widened into scratch, and multiplied in such blocks; meanwhile the next panel is prefetched.
 *
 * The bf16 rule is the same over planes (tile.h) with denormal numbers flushed. Only the sums over columns are made so,
 * the tree sums are not; therefore the mode is switched around functions that go from memory to memory. */
#ifndef MLXCEL_KERNELS_SIMD_MATMUL_H
#define MLXCEL_KERNELS_SIMD_MATMUL_H

#include "base/half.h"
#include "kernels/simd/product.h"
#include "kernels/simd/simd.h"

#include <string.h>

struct tile_set {
    const tile_function (*tiles)[TILE_ROWS];
    enum operand operand;
    uint32_t weights, rows; /* of the largest tile */
};

/* One product and the parts of its scratch. */
struct product {
    const struct matmul_job *job;
    enum rule rule;
    uint32_t n_elements; /* of 32 bits in a row of the panel, whole steps */
    float *sums;         /* [BATCH_ROWS][PANEL_ROWS] of 16 lanes */
    float *planes;       /* [BATCH_ROWS][PLANE_STRIDE], a block of the activations */
    float *panel;        /* [PANEL_ROWS][panel_stride], or planes of few whole activation rows */
    size_t panel_stride;
    const float *x[BATCH_ROWS];
    const unsigned char *prefetch, *prefetch_end; /* weights of the next panel that are still to be prefetched */
    uint32_t prefetch_step;
};

_Static_assert((BATCH_ROWS * PANEL_ROWS * 16 + BATCH_ROWS * PLANE_STRIDE) * 4 <= MATMUL_SCRATCH_FIXED &&
                   PANEL_ROWS * 4 <= MATMUL_PANEL * 2,
               "the parts of the scratch fit");

SIMD_INLINE struct product product_of(const struct matmul_job *job, enum rule rule) {
    uint32_t step = rule == RULE_F32 ? 16 : 32, n_cols = (job->weights->n_cols + step - 1) / step * step;
    struct product p = {.job = job, .rule = rule, .n_elements = rule == RULE_DOT ? n_cols / 2 : n_cols};
    p.sums = job->scratch;
    p.planes = p.sums + BATCH_ROWS * PANEL_ROWS * 16;
    p.panel = p.planes + BATCH_ROWS * PLANE_STRIDE;
    p.panel_stride = p.n_elements + 16;
    return p;
}

/* y of activation rows r .. r + n, weight rows first .. first + n_weights. */
static void product_end(const struct product *p, uint32_t r, uint32_t n, uint32_t first, uint32_t n_weights) {
    for (uint32_t j = 0; j < n; j++)
        reduce_sums(p->sums + (size_t)j * PANEL_ROWS * 16, n_weights, product_y(p->job, r + j) + first);
}

/* ---- bf16 ---- */

/* A whole row of n weights in planes (or as it is for DOT), zeros up to a multiple of 32. */
static void widen_bf16(enum rule rule, const unsigned char *row, uint32_t n, float *out) {
    uint32_t whole = n / 32 * 32;
    uint16_t tail[32] = {0};
    memcpy(tail, row + 2 * (size_t)whole, (n - whole) * sizeof *tail);
    if (rule == RULE_DOT) {
        memcpy(out, row, 2 * (size_t)whole);
        if (whole < n) memcpy(out + whole / 2, tail, sizeof tail);
    } else {
        planes_from_pairs(row, whole, out);
        if (whole < n) planes_from_pairs(tail, 32, out + whole);
    }
}

/* ---- few activation rows ---- */

/* The columns of a weight row that fill no step, widened, and zeros (of the sign that changes no sum, but for the bf16
 * rule, which adds plain ones). Returns how many times 16 there are. */
static uint32_t widen_tail(enum operand operand, const unsigned char *w, uint32_t n, float out[32]) {
    uint16_t half;
    for (uint32_t k = 0; k < 32; k++) out[k] = -0.0f;
    switch (operand) {
    case OPERAND_PAIRS: widen_bf16(RULE_PLANES, w, n, out); return 2;
    case OPERAND_DOT: widen_bf16(RULE_DOT, w, n, out); return 1;
    case OPERAND_F32: memcpy(out, w, n * sizeof *out); return 1;
    default:
        for (uint32_t k = 0; k < n; k++) {
            memcpy(&half, w + 2 * k, 2);
            out[k] = f16_to_f32(half);
        }
        return (n + 15) / 16;
    }
}

/* The last n columns of weight row w with all activation rows, whose elements for them begin at `at`. */
SIMD_NOINLINE void few_tail(const struct product *p, enum operand operand, const unsigned char *w, size_t at,
                            uint32_t n, float *sums) {
    float part[32];
    uint32_t groups = widen_tail(operand, w, n, part);
    for (uint32_t j = 0; j < p->job->n_rows; j++) {
        float *sum = sums + (size_t)j * PANEL_ROWS * 16;
        for (uint32_t g = 0; g < groups; g++) SIMD_UNROLL for (int v = 0; v < LANE_VECS; v++) {
                uint32_t l = 16 * g + (uint32_t)v * VEC_FLOATS;
                vec a = vec_load(part + l), b = vec_load(p->x[j] + at + l), s = vec_load(sum + v * VEC_FLOATS);
                if (operand == OPERAND_DOT)
                    vec_dot_pairs_to(&s, a, b);
                else
                    vec_fma_to(&s, a, b);
                vec_store(sum + v * VEC_FLOATS, s);
            }
    }
}

/* Where the weights of a tile lie. */
struct piece {
    const unsigned char *first;
    uint32_t n; /* rows; 0 = there is none */
};

/* The tiles of `passes` passes work on the same weights; each pass brings its share of the next piece near. */
static void share_prefetch(struct tile *t, struct piece next, uint32_t pass, uint32_t passes) {
    uint32_t row = next.n * pass / passes, end = next.n * (pass + 1) / passes, first_pass = pass, last_pass = pass;
    t->prefetch = next.first + row * t->weight_stride;
    t->n_prefetch = end - row;
    t->prefetch_step = 64;
    if (next.n == 0 || next.n >= passes) return;
    while (first_pass > 0 && next.n * (first_pass - 1) / passes == row) first_pass--;
    while (last_pass + 1 < passes && next.n * (last_pass + 1) / passes == row) last_pass++;
    t->n_prefetch = 1; /* several passes share a row */
    t->prefetch_step = 64 / (last_pass - first_pass + 1);
    t->prefetch += (size_t)(pass - first_pass) * t->prefetch_step * t->n_steps;
}

/* Beside so few activation rows weight rows are read one after another, and prefetched this far ahead: on a Zen 5, bf16
 * rows of 896 columns then stream at 88 % of the read wall, four rows at a time at 68 %. */
enum { STREAM_ALONE = 2, STREAM_AHEAD = 8192 };

struct few {
    const struct tile_set *set;
    uint32_t weights;           /* rows of a tile */
    uint32_t columns, elements; /* of a step */
    uint32_t n_steps, block;    /* whole steps of a row; of a block */
};

static struct few few_blocks(const struct product *p, const struct tile_set *set) {
    struct few f = {.set = set, .columns = set->operand == OPERAND_F32 ? 16 : 32};
    f.weights = p->job->n_rows <= STREAM_ALONE ? 1 : set->weights;
    f.elements = set->operand == OPERAND_DOT ? 16 : f.columns;
    f.n_steps = p->job->weights->n_cols / f.columns;
    f.block = p->job->n_rows > 1 ? FEW_ELEMENTS / f.elements / p->job->n_rows : f.n_steps;
    return f;
}

/* The weights that follow those of the tile of rows i .. i + n, steps s .. s + n_steps, in rows first .. end. */
static struct piece next_piece(const struct weight_rows *w, const struct few *f, uint32_t first, uint32_t end,
                               uint32_t i, uint32_t n, uint32_t s, uint32_t n_steps) {
    uint32_t row = i + n, column_step = s;
    if (row == end && s + n_steps < f->n_steps)
        row = first, column_step = s + n_steps;
    else if (row == end)
        column_step = 0;
    return (struct piece){w->codes + row * w->row_bytes + (size_t)column_step * 64,
                          w->n_rows - row < n ? w->n_rows - row : n};
}

/* Sums over steps s .. s + n of weight rows first .. end, at most PANEL_ROWS, with all activation rows. */
static void few_block(const struct product *p, const struct few *f, uint32_t first, uint32_t end, uint32_t s,
                      uint32_t n) {
    const struct weight_rows *w = p->job->weights;
    const struct tile_set *set = f->set;
    uint32_t n_x = p->job->n_rows, passes = (n_x + set->rows - 1) / set->rows;
    struct tile t = {.weight_stride = w->row_bytes,
                     .x_offset = (size_t)s * f->elements,
                     .n_steps = n,
                     .is_first = s == 0,
                     .sums_stride = PANEL_ROWS};
    for (uint32_t i = first, nw; i < end; i += nw) {
        nw = even_part(end - i, f->weights);
        t.weights = w->codes + i * w->row_bytes + (size_t)s * 64;
        struct piece next = next_piece(w, f, first, end, i, nw, s, n);
        for (uint32_t j = 0, pass = 0, nx; j < n_x; j += nx, pass++) {
            nx = even_part(n_x - j, set->rows);
            t.x = p->x + j;
            t.sums = p->sums + ((size_t)j * PANEL_ROWS + (i - first)) * 16;
            share_prefetch(&t, next, pass, passes);
            if (f->weights == 1) t.prefetch = t.weights + STREAM_AHEAD;
            set->tiles[nw - 1][nx - 1](&t);
        }
    }
}

/* Sums of weight rows first .. end, at most PANEL_ROWS, with all activation rows. */
SIMD_NOINLINE void few_sums(const struct product *p, const struct few *f, uint32_t first, uint32_t end) {
    const struct weight_rows *w = p->job->weights;
    uint32_t s = 0, tail = w->n_cols % f->columns;
    do { /* once for rows that are shorter than a step, too: the sums begin there */
        uint32_t n = f->n_steps - s < f->block ? f->n_steps - s : f->block;
        few_block(p, f, first, end, s, n);
        s += n;
    } while (s < f->n_steps);
    for (uint32_t i = first; i < end && tail; i++)
        few_tail(p, f->set->operand, w->codes + i * w->row_bytes + (size_t)s * 64, (size_t)s * f->elements, tail,
                 p->sums + (i - first) * 16);
}

/* The activations, at most FEW_ROWS, are in p->x as the tiles want them. */
static void multiply_few(const struct product *p, const struct tile_set *set) {
    uint32_t n_rows = p->job->weights->n_rows;
    struct few f = few_blocks(p, set);
    for (uint32_t first = 0; first < n_rows; first += PANEL_ROWS) {
        uint32_t n = n_rows - first < PANEL_ROWS ? n_rows - first : PANEL_ROWS;
        if (p->rule == RULE_PLANES) {
            simd_mode mode = simd_flush_on();
            few_sums(p, &f, first, first + n);
            simd_mode_restore(mode);
        } else {
            few_sums(p, &f, first, first + n);
        }
        product_end(p, 0, p->job->n_rows, first, n);
    }
}

/* ---- many activation rows ---- */

/* Elements k .. k + n of the panel's rows times those of the activations, at x_offset of x. */
static void panel_block(struct product *p, const struct tile_set *set, uint32_t n_weights, uint32_t n_x,
                        const float *const *x, uint32_t x_offset, uint32_t k, uint32_t n) {
    struct tile t = {.weight_stride = p->panel_stride * sizeof(float),
                     .x_offset = x_offset,
                     .n_steps = n / 16,
                     .is_first = k == 0,
                     .sums_stride = PANEL_ROWS};
    for (uint32_t i = 0, nw; i < n_weights; i += nw) {
        nw = even_part(n_weights - i, set->weights);
        t.weights = (const unsigned char *)(p->panel + i * p->panel_stride + k);
        for (uint32_t j = 0, nx; j < n_x; j += nx) {
            nx = even_part(n_x - j, set->rows);
            t.x = x + j;
            t.sums = p->sums + ((size_t)j * PANEL_ROWS + i) * 16;
            t.prefetch = p->prefetch;
            t.prefetch_step = p->prefetch < p->prefetch_end ? p->prefetch_step : 0;
            p->prefetch += (size_t)t.prefetch_step * t.n_steps;
            set->tiles[nw - 1][nx - 1](&t);
        }
    }
}

SIMD_NOINLINE void panel_sums(struct product *p, const struct tile_set *set, uint32_t n_weights, uint32_t n_x) {
    const float *planes[BATCH_ROWS];
    for (uint32_t j = 0; j < n_x; j++) planes[j] = p->planes + (size_t)j * PLANE_STRIDE;
    for (uint32_t k = 0; k < p->n_elements; k += BLOCK_COLUMNS) {
        uint32_t n = p->n_elements - k < BLOCK_COLUMNS ? p->n_elements - k : BLOCK_COLUMNS;
        if (p->rule != RULE_PLANES) {
            panel_block(p, set, n_weights, n_x, p->x, k, k, n);
            continue;
        }
        for (uint32_t j = 0; j < n_x; j++)
            planes_from_pairs((const char *)p->x[j] + 2 * (size_t)k, n, p->planes + (size_t)j * PLANE_STRIDE);
        panel_block(p, set, n_weights, n_x, planes, 0, k, n);
    }
}

/* Weight rows first .. first + n as rows of the panel. */
static void widen_panel(const struct product *p, uint32_t first, uint32_t n) {
    const struct weight_rows *w = p->job->weights;
    for (uint32_t i = 0; i < n; i++) {
        float *out = p->panel + i * p->panel_stride;
        if (p->rule == RULE_F32) {
            SIMD_NAME(dequantize_row)(w, first + i, out);
            for (uint32_t k = w->n_cols; k < p->n_elements; k++) out[k] = -0.0f; /* times +0: changes no sum */
        } else {
            widen_bf16(p->rule, w->codes + (first + i) * w->row_bytes, w->n_cols, out);
        }
    }
}

/* Spreads the bytes of the weight rows after first + n over the steps of a panel of n rows. */
static void plan_prefetch(struct product *p, const struct tile_set *set, uint32_t first, uint32_t n) {
    const struct weight_rows *w = p->job->weights;
    uint32_t left = w->n_rows - (first + n), n_next = left < PANEL_ROWS ? left : PANEL_ROWS;
    size_t tiles = (size_t)((n + set->weights - 1) / set->weights) * ((p->job->n_rows + set->rows - 1) / set->rows);
    size_t bytes = n_next * w->row_bytes, step = bytes / (tiles * (p->n_elements / 16)) + 1;
    p->prefetch = w->codes + (first + n) * w->row_bytes;
    p->prefetch_end = p->prefetch + bytes;
    p->prefetch_step = step < 64 ? (uint32_t)step : 64;
}

static void multiply_panels(struct product *p, const struct tile_set *set) {
    uint32_t n_rows = p->job->weights->n_rows, n_x = p->job->n_rows;
    for (uint32_t first = 0; first < n_rows; first += PANEL_ROWS) {
        uint32_t n = n_rows - first < PANEL_ROWS ? n_rows - first : PANEL_ROWS;
        widen_panel(p, first, n);
        plan_prefetch(p, set, first, n);
        for (uint32_t r = 0; r < n_x; r += BATCH_ROWS) {
            uint32_t batch = n_x - r < BATCH_ROWS ? n_x - r : BATCH_ROWS;
            for (uint32_t j = 0; j < batch; j++) p->x[j] = product_x(p->job, r + j);
            if (p->rule == RULE_PLANES) {
                simd_mode mode = simd_flush_on();
                panel_sums(p, set, n, batch);
                simd_mode_restore(mode);
            } else {
                panel_sums(p, set, n, batch);
            }
            product_end(p, r, batch, first, n);
        }
    }
}

#endif
