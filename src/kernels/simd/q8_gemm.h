/* SPDX-License-Identifier: Apache-2.0 */
/* Products with many activation rows: lanes are weight rows. A panel of weight rows is unpacked into scratch, a tile of
 * activation rows is packed beside it, and tile_block() of the tier multiplies a tile of both, block by block.
 *
 * Lane l of the sum takes the blocks b = l mod 16, and the lanes end in the tree (l, l+8), (l, l+4), (l, l+2), (l, l+1).
 * With the lanes in bit-reversed order, 0 8 4 12 2 10 6 14 1 ..., neighbours meet as the digits of a binary counter carry:
 * after lane number i as many additions follow as i ends in ones, and at most four finished tiles wait. Panel and packed
 * activations hold the blocks in this order, so both are read straight on.
 *
 *   panel  [tile of weight rows][block]: quads of codes [16 * planes][TILE_VECTORS][Q8_LANES][4], group by group
 *                                        (q8_quad), scales f32 [groups][TILE_VECTORS][Q8_LANES], biases likewise
 *   pack   [block]: codes [rows][64], scale f32 [rows], sums f32 [groups][rows]
 *
 * A file that includes this has included its tier's q8_tile.h. */
#ifndef MLXCEL_KERNELS_SIMD_Q8_GEMM_H
#define MLXCEL_KERNELS_SIMD_Q8_GEMM_H

#include "kernels/simd/q8_chunk.h"

enum { TILE_OUTPUTS = TILE_VECTORS * Q8_LANES, TILE_LEVELS = 5 };

/* The most that a panel takes. Larger panels pack activations less often; on a Zen 3 with 512 KiB of second-level cache
 * 640 KiB was faster by half than 288 at 8,192 columns and equal at 2,048. */
enum { PANEL_BYTES = 640 * 1024 };

/* Where blocks lie in visiting order: lane l's first block has place first[l], its next one the place after that. */
struct gemm_order {
    uint32_t first[16], count[16]; /* count: by position in the order, not by lane */
};

/* Lane number i in the order. */
Q8_INLINE uint32_t gemm_lane(uint32_t i) { return (i & 1) << 3 | (i & 2) << 1 | (i & 4) >> 1 | i >> 3; }

Q8_INLINE struct gemm_order gemm_order(uint32_t n_blocks) {
    struct gemm_order order;
    uint32_t place = 0;
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t lane = gemm_lane(i);
        order.first[lane] = place;
        order.count[i] = n_blocks > lane ? (n_blocks - lane + 15) / 16 : 0;
        place += order.count[i];
    }
    return order;
}

Q8_INLINE size_t gemm_place(const struct gemm_order *order, uint32_t block) {
    return order->first[block % 16] + block / 16;
}

/* ---- the panel ---- */

/* Codes of block `block` of Q8_LANES weight rows, transposed into the panel; `vector` of the tile. */
Q8_INLINE void panel_codes(enum weight_format format, int groups, const struct weight_rows *w,
                           const struct q8_chunk rows[Q8_LANES], uint32_t block, int vector, unsigned char *out) {
    const uint32_t step = q8_block_bytes(format), planes = (uint32_t)tile_planes(format);
    const unsigned char *codes[Q8_LANES];
    unsigned char copy[Q8_LANES][64];
    uint32_t left = w->n_cols - block * 64;
    for (int l = 0; l < Q8_LANES; l++) {
        codes[l] = rows[l].codes + (size_t)block * step;
        if (left >= 64) continue;
        memset(copy[l], 0, sizeof copy[l]);
        memcpy(copy[l], codes[l], format == WEIGHT_TERNARY ? left : left * step / 64);
        codes[l] = copy[l];
    }
    q8_ints quads[16];
    codes_transposed(format, codes, w->shift, quads);
#pragma GCC unroll 4
    for (int g = 0; g < groups; g++)
#pragma GCC unroll 16
        for (int q = 0; q < 16 / groups; q++)
#pragma GCC unroll 2
            for (uint32_t p = 0; p < planes; p++) {
                uint32_t slot = ((uint32_t)g * planes + p) * (16 / (uint32_t)groups) + (uint32_t)q;
                v_store_ints(out + (slot * TILE_VECTORS + (uint32_t)vector) * Q8_LANES * 4,
                             tile_plane(format, (int)p, quads[q8_quad(format, groups, g, q)]));
            }
}

/* Scales (or biases) of the n blocks from `block` on, transposed into the panel at `offset` of each block. */
static void panel_scales(const struct weight_rows *w, int groups, const unsigned char *const scales[Q8_LANES],
                         uint32_t block, uint32_t n, int vector, const struct gemm_order *order, size_t offset,
                         unsigned char *panel) {
    const size_t block_bytes = tile_panel_bytes(w->format, groups);
    q8_floats in[Q8_LANES][4];
    for (int l = 0; l < Q8_LANES; l++) q8_scales(w->format, groups, w, scales[l], in[l]);
    for (int g = 0; g < groups; g++) {
        q8_ints t[Q8_LANES];
        for (int l = 0; l < Q8_LANES; l++) t[l] = v_ints_from_floats(in[l][g]);
        v_transpose(t);
        for (uint32_t i = 0; i < n; i++)
            v_store_ints(panel + gemm_place(order, block + i) * block_bytes + offset +
                             (size_t)(g * TILE_VECTORS + vector) * Q8_LANES * 4,
                         t[i]);
    }
}

/* The weight row of lane l of vector v; the last row again where there are fewer. */
Q8_INLINE uint32_t panel_row(const struct weight_rows *w, uint32_t first, int v, uint32_t l) {
    uint32_t o = first + (uint32_t)v * Q8_LANES + l;
    return o < w->n_rows ? o : w->n_rows - 1;
}

/* Codes of weight rows first .. first + TILE_OUTPUTS - 1. */
Q8_INLINE void panel_tile_codes(enum weight_format format, int groups, const struct weight_rows *w, uint32_t first,
                                const struct gemm_order *order, unsigned char *panel) {
    const size_t block_bytes = tile_panel_bytes(format, groups);
    const uint32_t n_blocks = q8_blocks(w->n_cols);
    for (int v = 0; v < TILE_VECTORS; v++) {
        struct q8_chunk rows[Q8_LANES];
        for (uint32_t l = 0; l < Q8_LANES; l++) rows[l] = q8_row_start(format, w, panel_row(w, first, v, l));
        for (uint32_t b = 0; b < n_blocks; b++)
            panel_codes(format, groups, w, rows, b, v, panel + gemm_place(order, b) * block_bytes);
    }
}

/* Their scales and biases, for any kind. */
static void panel_tile_scales(const struct weight_rows *w, int groups, uint32_t first, const struct gemm_order *order,
                              unsigned char *panel) {
    const enum weight_format format = w->format;
    const size_t offset = tile_codes_bytes(format), bias_offset = offset + (size_t)groups * TILE_OUTPUTS * 4;
    const uint32_t n_blocks = q8_blocks(w->n_cols);
    struct q8_chunk_copy copies[Q8_LANES];
    for (int v = 0; v < TILE_VECTORS; v++)
        for (uint32_t b = 0; b < n_blocks; b += Q8_LANES) {
            uint32_t n = n_blocks - b < Q8_LANES ? n_blocks - b : Q8_LANES;
            const unsigned char *scales[Q8_LANES], *biases[Q8_LANES];
            for (uint32_t l = 0; l < Q8_LANES; l++) {
                uint32_t o = panel_row(w, first, v, l);
                struct q8_chunk chunk = q8_row_start(format, w, o);
                chunk.codes += (size_t)b * q8_block_bytes(format);
                if (format != WEIGHT_TERNARY) chunk.scales += q8_scale_bytes(w, groups, b);
                if (q8_is_affine(format)) chunk.biases += q8_scale_bytes(w, groups, b);
                if (b + Q8_LANES > w->n_cols / 64) chunk = q8_last_chunk(format, groups, w, o, b, n, chunk, &copies[l]);
                scales[l] = chunk.scales;
                biases[l] = chunk.biases;
            }
            panel_scales(w, groups, scales, b, n, v, order, offset, panel);
            if (q8_is_affine(format)) panel_scales(w, groups, biases, b, n, v, order, bias_offset, panel);
        }
}

/* ---- a tile ---- */

/* A lane starts from these: to clear it first would cost as much as half a block, since its sums would be read again while
 * the stores are under way. */
static const float zeros[TILE_ROWS * TILE_OUTPUTS] __attribute__((aligned(64)));

/* levels: TILE_LEVELS tiles [rows][TILE_OUTPUTS]; the result is in the first. spare: two
 * tiles more. */
Q8_INLINE void gemm_tile(enum weight_format format, int groups, int rows, const unsigned char *panel,
                         const unsigned char *pack, const struct gemm_order *order, float *levels, void *spare) {
    const size_t panel_step = tile_panel_bytes(format, groups), pack_step = tile_pack_bytes(groups, rows);
    const size_t n_floats = (size_t)rows * TILE_OUTPUTS;
    float *acc = levels;
    for (uint32_t i = 0; i < 16; i++, acc += n_floats) {
        const float *before = zeros;
        if (!order->count[i]) memcpy(acc, zeros, n_floats * sizeof *acc);
        for (uint32_t n = order->count[i]; n > 0; n--, panel += panel_step, pack += pack_step) {
            tile_block(format, groups, rows, panel, pack, before, acc, spare);
            before = acc;
            __asm__ volatile("" : : : "memory"); /* keeps gcc from holding acc in registers, that is, on the stack */
        }
        for (uint32_t carry = i; carry & 1; carry >>= 1, acc -= n_floats)
            for (size_t k = 0; k < n_floats; k += Q8_LANES) {
                float *waiting = acc - n_floats + k;
                v_store(waiting, v_add(v_load(waiting), v_load(acc + k)));
            }
    }
}

/* ---- the whole product ---- */

typedef void (*panel_function)(const struct weight_rows *w, uint32_t first, const struct gemm_order *order,
                               unsigned char *panel);
typedef void (*tile_function)(const unsigned char *panel, const unsigned char *pack, const struct gemm_order *order,
                              float *levels, void *spare);

/* Panels differ from kind to kind; tiles are shared by kinds that look the same in a panel (tile_format). */
struct gemm_tiles {
    tile_function large, small; /* for TILE_ROWS and TILE_FEW_ROWS activation rows */
};

/* Packs activation rows first .. first + rows - 1 of the job, the last row again where there are fewer. They are read
 * straight on, since they come from far caches, and written in the order. */
Q8_INLINE void pack_rows(const struct matmul_job *job, int groups, uint32_t first, uint32_t rows,
                         const struct gemm_order *order, unsigned char *pack) {
    const uint32_t n_cols = job->weights->n_cols, n_blocks = q8_blocks(n_cols);
    const size_t padded = q8_padded(n_cols), first_sum = padded * (groups == 1 ? 1 : groups == 2 ? 2 : 4);
    const size_t step = tile_pack_bytes(groups, (int)rows);
    const char *x[TILE_ROWS];
    for (uint32_t m = 0; m < rows; m++) x[m] = job_x(job, first + m < job->n_rows ? first + m : job->n_rows - 1);
    for (uint32_t b = 0; b < n_blocks; b++) {
        unsigned char *to = pack + gemm_place(order, b) * step;
        float *numbers = (float *)(void *)(to + (size_t)rows * 64);
        for (uint32_t m = 0; m < rows; m++) {
            const float *scale = (const float *)(const void *)(x[m] + (size_t)n_blocks * 64) + b;
            memcpy(to + (size_t)m * 64, x[m] + (size_t)b * 64, 64);
            numbers[m] = scale[0];
            for (int g = 0; g < groups; g++)
                numbers[(uint32_t)(g + 1) * rows + m] = scale[first_sum + (size_t)g * padded];
        }
    }
}

static void pack_tile(const struct matmul_job *job, int groups, uint32_t first, uint32_t rows,
                      const struct gemm_order *order, unsigned char *pack) {
    if (groups == 1 && rows == TILE_ROWS)
        pack_rows(job, 1, first, TILE_ROWS, order, pack);
    else
        pack_rows(job, groups, first, rows, order, pack);
}

/* Writes the outputs that the job has of a tile. */
static void store_tile(const struct matmul_job *job, uint32_t first, uint32_t rows, uint32_t output,
                       const float *tile) {
    uint32_t n = job->weights->n_rows - output;
    for (uint32_t m = 0; m < rows && first + m < job->n_rows; m++) {
        float *y = job_y(job, first + m) + output;
        const float *from = tile + (size_t)m * TILE_OUTPUTS;
        if (n < TILE_OUTPUTS)
            memcpy(y, from, n * sizeof *y);
        else
            memcpy(y, from, TILE_OUTPUTS * sizeof *y);
    }
}

/* Rows of the next tile: as few as possible are computed in vain. */
static uint32_t tile_rows(uint32_t left) {
    bool is_small = left <= TILE_FEW_ROWS || (left > TILE_ROWS && left <= 2 * TILE_FEW_ROWS);
    return is_small ? TILE_FEW_ROWS : TILE_ROWS;
}

static void gemm(panel_function panel_codes_of, const struct gemm_tiles *tiles, const struct matmul_job *job,
                 int groups) {
    const struct weight_rows *w = job->weights;
    const uint32_t n_blocks = q8_blocks(w->n_cols), n_tiles = (w->n_rows + TILE_OUTPUTS - 1) / TILE_OUTPUTS;
    const struct gemm_order order = gemm_order(n_blocks);
    const size_t tile_bytes = n_blocks * tile_panel_bytes(w->format, groups);
    const size_t pack_bytes = round_up(n_blocks * tile_pack_bytes(groups, TILE_ROWS), 64);
    float *levels = job->scratch;
    void *spare = levels + (size_t)TILE_LEVELS * TILE_ROWS * TILE_OUTPUTS;
    unsigned char *pack = (unsigned char *)spare + (size_t)2 * TILE_ROWS * TILE_OUTPUTS * 4;
    unsigned char *panel = pack + pack_bytes;
    size_t room = matmul_scratch_bytes(w->n_cols) - (size_t)(panel - (unsigned char *)job->scratch);
    uint32_t most = (uint32_t)((room < PANEL_BYTES ? room : PANEL_BYTES) / tile_bytes);
    if (most == 0) most = 1;
    uint32_t n_panels = (n_tiles + most - 1) / most, per_panel = (n_tiles + n_panels - 1) / n_panels;
    for (uint32_t t0 = 0; t0 < n_tiles; t0 += per_panel) {
        uint32_t n = n_tiles - t0 < per_panel ? n_tiles - t0 : per_panel, rows;
        for (uint32_t t = 0; t < n; t++) {
            panel_codes_of(w, (t0 + t) * TILE_OUTPUTS, &order, panel + t * tile_bytes);
            panel_tile_scales(w, groups, (t0 + t) * TILE_OUTPUTS, &order, panel + t * tile_bytes);
        }
        for (uint32_t r = 0; r < job->n_rows; r += rows) {
            rows = tile_rows(job->n_rows - r);
            pack_tile(job, groups, r, rows, &order, pack);
            for (uint32_t t = 0; t < n; t++) {
                (rows == TILE_ROWS ? tiles->large : tiles->small)(panel + t * tile_bytes, pack, &order, levels, spare);
                store_tile(job, r, rows, (t0 + t) * TILE_OUTPUTS, levels);
            }
        }
    }
}

#define GEMM_DEFINE_PANEL(name, format, groups)                                                                        \
    static void panel_##name(const struct weight_rows *w, uint32_t first, const struct gemm_order *order,              \
                             unsigned char *panel) {                                                                   \
        panel_tile_codes(format, groups, w, first, order, panel);                                                      \
    }
#define GEMM_DEFINE_TILES(name, format, groups)                                                                        \
    GEMM_DEFINE_TILE(large_##name, format, groups, TILE_ROWS)                                                          \
    GEMM_DEFINE_TILE(small_##name, format, groups, TILE_FEW_ROWS)
#define GEMM_DEFINE_TILE(name, format, groups, rows)                                                                   \
    static void name(const unsigned char *panel, const unsigned char *pack, const struct gemm_order *order,            \
                     float *levels, void *spare) {                                                                     \
        gemm_tile(format, groups, rows, panel, pack, order, levels, spare);                                            \
    }
#define GEMM_PANEL(name, format, groups) [format][(groups) / 2] = panel_##name,
#define GEMM_TILES(name, format, groups) [format][(groups) / 2] = {large_##name, small_##name},

#endif
