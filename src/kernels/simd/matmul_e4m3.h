/* SPDX-License-Identifier: Apache-2.0 */
/* Products with e4m3 codes that have a scale for each block of columns (mxfp8: 32, e4m3: 128), and bf16 activations.
 *
 * Within a block the bf16 rule holds: a tile leaves the 16 lanes of each of 16 blocks. One transposing tree makes a
 * register of 16 block sums of them, which meet their 16 scales in one fused multiply-add: element b of the accumulator
 * takes block b of every 16, as the rule wants. Then the accumulator ends in the tree. */
#include "kernels/simd/e4m3.h"
#include "kernels/simd/product.h"
#include "kernels/simd/scales.h"
#include "kernels/simd/simd.h"

#include <string.h>

enum {
    E4M3_ROWS = 8,         /* activation rows of a batch */
    GROUP_BLOCKS = 16,     /* blocks that are reduced together */
    GROUP_COLUMNS = 2048,  /* of the larger blocks */
    NARROW_PANEL_ROWS = 4, /* for few activation rows: 32 KiB of 2,048 columns */
    E4M3_STRIDE = GROUP_COLUMNS + 16,
};

struct e4m3_product {
    const struct matmul_job *job;
    enum rule rule;
    uint32_t n_elements, panel_rows; /* elements of 32 bits in a row of the panel */
    uint32_t block_columns, block_elements;
    float *sums;   /* [E4M3_ROWS][PANEL_ROWS] of 16 lanes */
    float *blocks; /* [rows of a tile][weight rows of a tile][GROUP_BLOCKS] of 16 lanes */
    float *scales; /* [PANEL_ROWS][GROUP_BLOCKS] */
    float *planes; /* [E4M3_ROWS][E4M3_STRIDE] */
    float *panel;  /* [panel_rows][panel_stride] */
    size_t panel_stride;
    const float *x[E4M3_ROWS]; /* elements of the group of blocks at hand */
};

enum {
    E4M3_SUMS = E4M3_ROWS * PANEL_ROWS * 16,
    E4M3_BLOCKS = TILE_ROWS * TILE_WEIGHTS * GROUP_BLOCKS * 16,
    E4M3_SCALES = PANEL_ROWS * GROUP_BLOCKS,
    E4M3_FIXED = E4M3_SUMS + E4M3_BLOCKS + E4M3_SCALES + E4M3_ROWS * E4M3_STRIDE,
};
_Static_assert(E4M3_FIXED * 4 <= MATMUL_SCRATCH_FIXED, "the parts of the scratch fit");

/* ---- tiles ---- */

/* t->n_steps steps, of which each block has block_steps (the last may have fewer). The lanes of block b of (weight row
 * i, row j) go to blocks + ((j * TILE_WEIGHTS + i) * GROUP_BLOCKS + b) * 16; blocks that are not there are zeros. */
SIMD_INLINE void blocks_run(enum operand operand, uint32_t nw, uint32_t nx, const struct tile *t,
                            uint32_t block_steps) {
    const float *x[TILE_ROWS];
    SIMD_UNROLL for (uint32_t j = 0; j < nx; j++) x[j] = t->x[j];
    const unsigned char *w = t->weights;
    float *out = t->sums;
    size_t at = 0, end = (size_t)t->n_steps * 16;
    for (uint32_t b = 0; b < GROUP_BLOCKS; b++, out += 16) {
        lanes sums[TILE_WEIGHTS][TILE_ROWS];
        SIMD_UNROLL for (uint32_t i = 0; i < nw; i++) SIMD_UNROLL for (uint32_t j = 0; j < nx; j++) sums[i][j] =
            lanes_zero();
        size_t block_end = at + block_steps * 16 < end ? at + block_steps * 16 : end;
        for (; at < block_end; at += 16, w += 64) tile_step(operand, nw, nx, sums, w, t->weight_stride, x, at);
        SIMD_UNROLL for (uint32_t i = 0; i < nw; i++) SIMD_UNROLL for (uint32_t j = 0; j < nx; j++)
            lanes_store(out + (j * TILE_WEIGHTS + i) * GROUP_BLOCKS * 16, sums[i][j]);
    }
}

typedef void (*blocks_function)(const struct tile *t, uint32_t block_steps);

#define BLOCKS_FUNCTION(NAME, W, X)                                                                                    \
    SIMD_NOINLINE void blocks_##NAME##_##W##x##X(const struct tile *t, uint32_t block_steps) {                         \
        blocks_run(OPERAND_##NAME, W, X, t, block_steps);                                                              \
    }
#define BLOCKS_ENTRY(NAME, W, X) [W - 1][X - 1] = blocks_##NAME##_##W##x##X,
#define BLOCKS_TABLE(NAME)                                                                                             \
    TILE_PASTE(TILE_ALL_, TILE_WEIGHTS)                                                                                \
    (TILE_PASTE(TILE_LINE_, TILE_ROWS), BLOCKS_FUNCTION,                                                               \
     NAME) static const blocks_function blocks_##NAME[TILE_WEIGHTS][TILE_ROWS] = {                                     \
        TILE_PASTE(TILE_ALL_, TILE_WEIGHTS)(TILE_PASTE(TILE_LINE_, TILE_ROWS), BLOCKS_ENTRY, NAME)}

/* ---- preparing ---- */

/* Row `index` as planes, or as bf16 for DOT, zeros up to a multiple of 32 columns. */
static void widen_e4m3(const struct e4m3_product *p, uint32_t index, float *out) {
    const struct weight_rows *w = p->job->weights;
    const unsigned char *row = w->codes + index * w->row_bytes;
    unsigned char end[32] = {0};
    uint32_t step = p->rule == RULE_DOT ? 16 : 32;
    for (uint32_t k = 0; k < w->n_cols; k += 32, out += step) {
        const unsigned char *at = row + k;
        if (w->n_cols - k < 32) at = memcpy(end, at, w->n_cols - k);
        halves pairs = halves_load(at);
        lanes odd = lanes_from_e4m3(halves_shr(pairs, 8)), even = lanes_from_e4m3(pairs);
        if (p->rule == RULE_DOT) {
            ilanes upper = ilanes_and(lanes_bits(odd), ilanes_set1((int32_t)0xffff0000u));
            lanes_store(out, lanes_from_bits(ilanes_or(upper, ilanes_shr(lanes_bits(even), 16))));
        } else {
            lanes_store(out, odd);
            lanes_store(out + 16, even);
        }
    }
}

/* Scales of blocks block .. block + n for weight rows first .. first + rows; where there is no block, a scale that
 * changes no sum. */
static void load_scales(const struct e4m3_product *p, uint32_t first, uint32_t rows, uint32_t block, uint32_t n) {
    const struct weight_rows *w = p->job->weights;
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t b = 0; b < GROUP_BLOCKS; b++)
            p->scales[i * GROUP_BLOCKS + b] =
                b < n ? scale_at(w, w->scales + (first + i) * w->scale_row_bytes, block + b) : -0.0f;
}

/* ---- products ---- */

/* One group of blocks, n_steps steps from element `at` of the panel's rows on. */
static void multiply_group(struct e4m3_product *p, const blocks_function (*tiles)[TILE_ROWS], uint32_t n_weights,
                           uint32_t n_x, size_t at, uint32_t n_steps) {
    struct tile t = {.weight_stride = p->panel_stride * sizeof(float), .sums = p->blocks, .n_steps = n_steps};
    for (uint32_t i = 0, nw; i < n_weights; i += nw) {
        nw = even_part(n_weights - i, TILE_WEIGHTS);
        t.weights = (const unsigned char *)(p->panel + i * p->panel_stride + at);
        for (uint32_t j = 0, nx; j < n_x; j += nx) {
            nx = even_part(n_x - j, TILE_ROWS);
            t.x = p->x + j;
            simd_mode mode = p->rule == RULE_PLANES ? simd_flush_on() : 0;
            tiles[nw - 1][nx - 1](&t, p->block_elements / 16);
            if (p->rule == RULE_PLANES) simd_mode_restore(mode);
            for (uint32_t o = 0; o < nw * nx; o++) {
                uint32_t wi = o % nw, xj = o / nw;
                float *sum = p->sums + ((size_t)(j + xj) * PANEL_ROWS + i + wi) * 16;
                lanes block_sums = lanes_sum_16(p->blocks + (size_t)(xj * TILE_WEIGHTS + wi) * GROUP_BLOCKS * 16);
                lanes scale = lanes_load(p->scales + (i + wi) * GROUP_BLOCKS);
                lanes_store(sum, lanes_fma(scale, block_sums, lanes_load(sum)));
            }
        }
    }
}

/* Activation rows r .. r + n_x by the panel, which holds weight rows first .. first + n_weights. */
static void multiply_batch(struct e4m3_product *p, const blocks_function (*tiles)[TILE_ROWS], uint32_t first,
                           uint32_t n_weights, uint32_t r, uint32_t n_x) {
    uint32_t n_cols = (p->job->weights->n_cols + 31) / 32 * 32, group = p->block_columns * GROUP_BLOCKS;
    memset(p->sums, 0, (size_t)n_x * PANEL_ROWS * 16 * sizeof(float));
    for (uint32_t k = 0; k < n_cols; k += group) {
        uint32_t n = n_cols - k < group ? n_cols - k : group;
        load_scales(p, first, n_weights, k / p->block_columns, (n + p->block_columns - 1) / p->block_columns);
        for (uint32_t j = 0; j < n_x; j++) {
            const unsigned char *x = (const unsigned char *)product_x(p->job, r + j) + 2 * (size_t)k;
            p->x[j] = p->planes + (size_t)j * E4M3_STRIDE;
            if (p->rule == RULE_DOT)
                p->x[j] = (const float *)(const void *)x;
            else
                planes_from_pairs(x, n, p->planes + (size_t)j * E4M3_STRIDE);
        }
        if (p->rule == RULE_DOT)
            multiply_group(p, tiles, n_weights, n_x, k / 2, n / 32);
        else
            multiply_group(p, tiles, n_weights, n_x, k, n / 16);
    }
    for (uint32_t j = 0; j < n_x; j++)
        reduce_sums(p->sums + (size_t)j * PANEL_ROWS * 16, n_weights, product_y(p->job, r + j) + first);
}

static void multiply_e4m3(const struct matmul_job *job, enum rule rule, const blocks_function (*tiles)[TILE_ROWS]) {
    const struct weight_rows *w = job->weights;
    uint32_t n_cols = (w->n_cols + 31) / 32 * 32;
    struct e4m3_product p = {.job = job,
                             .rule = rule,
                             .n_elements = rule == RULE_DOT ? n_cols / 2 : n_cols,
                             .panel_rows = job->n_rows <= FEW_ROWS ? NARROW_PANEL_ROWS : PANEL_ROWS,
                             .block_columns = w->group,
                             .block_elements = rule == RULE_DOT ? w->group / 2 : w->group};
    p.sums = job->scratch;
    p.blocks = p.sums + E4M3_SUMS;
    p.scales = p.blocks + E4M3_BLOCKS;
    p.planes = p.scales + E4M3_SCALES;
    p.panel = p.planes + E4M3_ROWS * E4M3_STRIDE;
    p.panel_stride = p.n_elements + 16;
    for (uint32_t first = 0; first < w->n_rows; first += p.panel_rows) {
        uint32_t n = w->n_rows - first < p.panel_rows ? w->n_rows - first : p.panel_rows;
        for (uint32_t i = 0; i < n; i++) widen_e4m3(&p, first + i, p.panel + i * p.panel_stride);
        for (uint32_t r = 0; r < job->n_rows; r += E4M3_ROWS)
            multiply_batch(&p, tiles, first, n, r, job->n_rows - r < E4M3_ROWS ? job->n_rows - r : E4M3_ROWS);
    }
}
