/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products by the 16-lane rule, in one of two ways.
 *
 * Few activation rows: the weights stream from memory once, straight into the tiles, and the rows of the next tile are
 * prefetched meanwhile. Many: panels of PANEL_ROWS weight rows are widened to f32 in scratch, and blocks of columns of
 * panel and activations are multiplied while they lie in the first-level cache.
 *
 * The bf16 rule is the same over planes (tile.h) with denormal numbers flushed. Only the sums over columns are made so,
 * the tree sums are not; therefore the mode is switched around functions that go from memory to memory. */
#ifndef MLXCEL_KERNELS_SIMD_MATMUL_H
#define MLXCEL_KERNELS_SIMD_MATMUL_H

#include "base/half.h"
#include "kernels/simd/simd.h"
#include "kernels/simd/tile.h"

#include <string.h>

enum {
    FEW_ROWS = 8,
    PANEL_ROWS = 32,
    BATCH_ROWS = 32 / TILE_ROWS * TILE_ROWS, /* activation rows whose sums wait in scratch */
    BLOCK_COLUMNS = 512,                     /* 2 KiB of a row */
    SUB_WEIGHTS = 3 * TILE_WEIGHTS,          /* weight rows that stay in the first-level cache with a tile's rows */
    PLANE_STRIDE = BLOCK_COLUMNS + 16,       /* no multiple of a page: rows must not meet in one set of the cache */
};

/* One product and the parts of its scratch. */
struct product {
    const struct matmul_job *job;
    enum operand operand;
    uint32_t n_cols;         /* rounded up to the tiles' step */
    float *sums;             /* [BATCH_ROWS][PANEL_ROWS] of 16 lanes */
    float *planes;           /* [BATCH_ROWS][PLANE_STRIDE], a block of the activations (bf16) */
    float *panel;            /* [PANEL_ROWS][panel_stride], or [FEW_ROWS][panel_stride] planes of whole rows */
    size_t panel_stride;     /* floats */
    const float *x[BATCH_ROWS];
};

SIMD_INLINE struct product product_of(const struct matmul_job *job, enum operand operand) {
    uint32_t step = operand == OPERAND_PAIRS ? 32 : 16;
    struct product p = {.job = job, .operand = operand, .n_cols = (job->weights->n_cols + step - 1) / step * step};
    p.sums = job->scratch;
    p.planes = p.sums + BATCH_ROWS * PANEL_ROWS * 16;
    p.panel = p.planes + BATCH_ROWS * PLANE_STRIDE;
    p.panel_stride = p.n_cols + 16;
    return p;
}

_Static_assert((BATCH_ROWS * PANEL_ROWS * 16 + BATCH_ROWS * PLANE_STRIDE) * 4 <= MATMUL_SCRATCH_FIXED &&
                   PANEL_ROWS * 4 <= MATMUL_PANEL * 2,
               "the parts of the scratch fit");

SIMD_INLINE const void *product_x(const struct matmul_job *job, uint32_t r) {
    return (const char *)job->x + (size_t)(job->x_ids ? job->x_ids[r] : r) * job->x_row_bytes;
}

/* y of activation rows r .. r + n, weight rows first .. first + n_weights. */
static void product_end(const struct product *p, uint32_t r, uint32_t n, uint32_t first, uint32_t n_weights) {
    for (uint32_t j = 0; j < n; j++) {
        float *y = p->job->y + (p->job->y_ids ? p->job->y_ids[r + j] : r + j) * p->job->y_stride;
        reduce_sums(p->sums + (size_t)j * PANEL_ROWS * 16, n_weights, y + first);
    }
}

/* ---- bf16 in planes ---- */

/* Columns [0, n) of a row, n a multiple of 32. */
SIMD_INLINE void planes_from_pairs(const unsigned char *row, uint32_t n, float *out) {
    for (uint32_t k = 0; k < n; k += 32)
        SIMD_UNROLL for (int v = 0; v < LANE_VECS; v++) {
            ivec pairs = ivec_load(row + 2 * (size_t)k + v * VEC_FLOATS * 4);
            vec_store(out + k + v * VEC_FLOATS, vec_from_bits(ivec_and(pairs, ivec_set1((int32_t)0xffff0000u))));
            vec_store(out + k + 16 + v * VEC_FLOATS, vec_from_bits(ivec_shl(pairs, 16)));
        }
}

/* The last n < 32 columns of a row of weights, then zeros. */
SIMD_INLINE void planes_from_tail(const unsigned char *tail, uint32_t n, float *out) {
    uint16_t part[32] = {0};
    memcpy(part, tail, n * sizeof *part);
    planes_from_pairs((const unsigned char *)part, 32, out);
}

/* ---- few activation rows ---- */

/* The columns of a weight row that fill no step, widened; zeros of the sign that changes no sum follow (in planes the
 * rule adds plain zeros). Returns how many times 16 there are. */
static uint32_t widen_tail(enum operand operand, const unsigned char *w, uint32_t n, float out[32]) {
    uint16_t half;
    for (uint32_t k = 0; k < 32; k++) out[k] = -0.0f;
    switch (operand) {
    case OPERAND_PAIRS: planes_from_tail(w, n, out); return 2;
    case OPERAND_F32: memcpy(out, w, n * sizeof *out); return 1;
    default:
        for (uint32_t k = 0; k < n; k++) {
            memcpy(&half, w + 2 * k, 2);
            out[k] = f16_to_f32(half);
        }
        return (n + 15) / 16;
    }
}

SIMD_NOINLINE void few_tail(const struct product *p, const unsigned char *w, uint32_t at, uint32_t n, float *sums) {
    float part[32];
    uint32_t groups = widen_tail(p->operand, w, n, part);
    for (uint32_t j = 0; j < p->job->n_rows; j++) {
        float *sum = sums + (size_t)j * PANEL_ROWS * 16;
        for (uint32_t g = 0; g < groups; g++)
            lanes_store(sum, lanes_fma(lanes_load(part + 16 * g), lanes_load(p->x[j] + at + 16 * g), lanes_load(sum)));
    }
}

struct tile_set {
    const tile_function (*tiles)[TILE_ROWS];
    uint32_t weights, rows; /* of the largest tile */
    uint32_t columns;       /* a step */
};

/* Sums of weight rows first .. first + n, n <= PANEL_ROWS, with all activation rows. */
SIMD_NOINLINE void few_sums(const struct product *p, const struct tile_set *set, uint32_t first, uint32_t n) {
    const struct weight_rows *w = p->job->weights;
    uint32_t n_x = p->job->n_rows, steps = w->n_cols / set->columns, tail = w->n_cols % set->columns;
    uint32_t passes = (n_x + set->rows - 1) / set->rows;
    for (uint32_t i = 0, nw; i < n; i += nw) {
        nw = even_part(n - i, set->weights);
        const unsigned char *rows = w->codes + (first + i) * w->row_bytes, *next = rows + nw * w->row_bytes;
        uint32_t n_next = w->n_rows - (first + i + nw) < nw ? w->n_rows - (first + i + nw) : nw;
        struct tile t = {.weights = rows, .weight_stride = w->row_bytes, .n_steps = steps, .is_first = true,
                         .sums_stride = PANEL_ROWS};
        for (uint32_t j = 0, pass = 0, nx; j < n_x; j += nx, pass++) {
            uint32_t begin = n_next * pass / passes, end = n_next * (pass + 1) / passes;
            nx = even_part(n_x - j, set->rows);
            t.x = p->x + j;
            t.sums = p->sums + ((size_t)j * PANEL_ROWS + i) * 16;
            t.prefetch = next + begin * w->row_bytes;
            t.n_prefetch = end - begin;
            set->tiles[nw - 1][nx - 1](&t);
        }
        for (uint32_t o = 0; o < nw && tail; o++)
            few_tail(p, rows + o * w->row_bytes + (size_t)steps * 64, steps * set->columns, tail, p->sums + (i + o) * 16);
    }
}

/* x in the form of the tiles is in p->x; job->n_rows <= FEW_ROWS. */
static void multiply_few(const struct product *p, const struct tile_set *set) {
    uint32_t n_rows = p->job->weights->n_rows;
    for (uint32_t first = 0; first < n_rows; first += PANEL_ROWS) {
        uint32_t n = n_rows - first < PANEL_ROWS ? n_rows - first : PANEL_ROWS;
        if (p->operand == OPERAND_PAIRS) {
            simd_mode mode = simd_flush_on();
            few_sums(p, set, first, n);
            simd_mode_restore(mode);
        } else {
            few_sums(p, set, first, n);
        }
        product_end(p, 0, p->job->n_rows, first, n);
    }
}

/* ---- many activation rows ---- */

/* The block of columns k .. k + n of the panel times that of the activations. */
static void panel_block(const struct product *p, const struct tile_set *set, uint32_t n_weights, uint32_t n_x,
                        const float *const *x, uint32_t x_offset, uint32_t k, uint32_t n) {
    struct tile t = {.weight_stride = p->panel_stride * sizeof(float), .x_offset = x_offset, .n_steps = n / 16,
                     .is_first = k == 0, .sums_stride = PANEL_ROWS};
    for (uint32_t sub = 0; sub < n_weights; sub += SUB_WEIGHTS) {
        uint32_t sub_end = n_weights - sub < SUB_WEIGHTS ? n_weights : sub + SUB_WEIGHTS;
        for (uint32_t j = 0, nx; j < n_x; j += nx) {
            nx = even_part(n_x - j, set->rows);
            t.x = x + j;
            for (uint32_t i = sub, nw; i < sub_end; i += nw) {
                nw = even_part(sub_end - i, set->weights);
                t.weights = (const unsigned char *)(p->panel + i * p->panel_stride + k);
                t.sums = p->sums + ((size_t)j * PANEL_ROWS + i) * 16;
                set->tiles[nw - 1][nx - 1](&t);
            }
        }
    }
}

SIMD_NOINLINE void panel_sums(const struct product *p, const struct tile_set *set, uint32_t n_weights, uint32_t n_x) {
    const float *x[BATCH_ROWS];
    for (uint32_t j = 0; j < n_x; j++) x[j] = p->operand == OPERAND_PAIRS ? p->planes + (size_t)j * PLANE_STRIDE : p->x[j];
    for (uint32_t k = 0; k < p->n_cols; k += BLOCK_COLUMNS) {
        uint32_t n = p->n_cols - k < BLOCK_COLUMNS ? p->n_cols - k : BLOCK_COLUMNS;
        if (p->operand == OPERAND_PAIRS) {
            for (uint32_t j = 0; j < n_x; j++)
                planes_from_pairs((const unsigned char *)p->x[j] + 2 * (size_t)k, n, p->planes + (size_t)j * PLANE_STRIDE);
            panel_block(p, set, n_weights, n_x, x, 0, k, n);
        } else {
            panel_block(p, set, n_weights, n_x, x, k, k, n);
        }
    }
}

/* Weight rows first .. first + n as rows of the panel, filled up to whole steps. */
static void widen_panel(const struct product *p, uint32_t first, uint32_t n) {
    const struct weight_rows *w = p->job->weights;
    for (uint32_t i = 0; i < n; i++) {
        float *out = p->panel + i * p->panel_stride;
        if (p->operand == OPERAND_PAIRS) {
            const unsigned char *row = w->codes + (first + i) * w->row_bytes;
            uint32_t whole = w->n_cols / 32 * 32;
            planes_from_pairs(row, whole, out);
            if (whole < w->n_cols) planes_from_tail(row + 2 * (size_t)whole, w->n_cols - whole, out + whole);
        } else {
            SIMD_NAME(dequantize_row)(w, first + i, out);
            for (uint32_t k = w->n_cols; k < p->n_cols; k++) out[k] = -0.0f; /* times +0: changes no sum */
        }
    }
}

/* set holds the F32 tiles. */
static void multiply_panels(struct product *p, const struct tile_set *set) {
    uint32_t n_rows = p->job->weights->n_rows, n_x = p->job->n_rows;
    for (uint32_t first = 0; first < n_rows; first += PANEL_ROWS) {
        uint32_t n = n_rows - first < PANEL_ROWS ? n_rows - first : PANEL_ROWS;
        widen_panel(p, first, n);
        for (uint32_t r = 0; r < n_x; r += BATCH_ROWS) {
            uint32_t batch = n_x - r < BATCH_ROWS ? n_x - r : BATCH_ROWS;
            for (uint32_t j = 0; j < batch; j++) p->x[j] = product_x(p->job, r + j);
            if (p->operand == OPERAND_PAIRS) {
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
