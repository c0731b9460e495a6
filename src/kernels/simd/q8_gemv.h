/* SPDX-License-Identifier: Apache-2.0 */
/* Products with few activation rows: lanes are consecutive blocks of one weight row, so that weights stream from memory
 * once, in order. A chunk is Q8_LANES blocks. Its codes are transposed into quads (four codes of every lane's block), the
 * activations were packed in the same order before, so that products add up in their lanes and nothing is summed across;
 *   t = scale * dot, then fma(bias, sum, t), group by group; acc = fma(scale_x, t, acc)
 * is done for all lanes at once.
 *
 *   pack  [chunk][row]: quads [16][Q8_LANES][4] i8, scale f32 [Q8_LANES], sums f32 [groups][Q8_LANES]
 *
 * A file that includes this has included its tier's q8_dots.h, which gives GEMV_ROWS, the most rows of one pass. */
#ifndef MLXCEL_KERNELS_SIMD_Q8_GEMV_H
#define MLXCEL_KERNELS_SIMD_Q8_GEMV_H

#include "kernels/simd/q8_chunk.h"

enum { GEMV_HALVES = 16 / Q8_LANES };

/* Bytes ahead of the codes and scales in use, into the second-level cache: its misses in flight are more than those of the
 * first-level cache, which bound the speed. Measured on a Zen 4, two threads, huge pages: without prefetch 37 GB/s, into
 * the first level 46 (2 to 8 KiB equal), into the second from 4 KiB 46, from 8 to 16 KiB 64; on a Zen 5 all from 6 KiB on are
 * equal. */
enum { GEMV_PREFETCH = 8192, GEMV_PREFETCH_SCALES = 2048 };

/* ---- activations ---- */

/* Bytes of one row in a chunk of the pack. */
Q8_INLINE size_t gemv_pack_step(int groups) { return (size_t)Q8_LANES * (64 + 4 + 4 * (size_t)groups); }

/* Packs one row; `step` bytes from chunk to chunk. */
static void gemv_pack_row(const char *x, uint32_t n_cols, int groups, size_t step, unsigned char *pack) {
    const uint32_t n_blocks = q8_blocks(n_cols), padded = q8_padded(n_cols);
    const float *scale = (const float *)(const void *)(x + (size_t)n_blocks * 64);
    const float *sum = scale + (size_t)padded * (groups == 1 ? 1 : groups == 2 ? 2 : 4);
    for (uint32_t block = 0; block < n_blocks; block += Q8_LANES, pack += step) {
        gemv_pack_codes(x + (size_t)block * 64, n_blocks - block, pack);
        float *numbers = (float *)(void *)(pack + (size_t)Q8_LANES * 64);
        uint32_t n = n_blocks - block < Q8_LANES ? n_blocks - block : Q8_LANES;
        v_store(numbers, v_first(n, v_load(scale + block), v_zero()));
        for (int g = 0; g < groups; g++)
            v_store(numbers + (g + 1) * Q8_LANES, v_first(n, v_load(sum + (size_t)g * padded + block), v_zero()));
    }
}

/* ---- a chunk, a weight row ---- */

/* The first n blocks of a chunk. With is_tail nothing is read behind them, and a group may end within the last block. */
Q8_INLINE void gemv_chunk(enum weight_format format, int groups, int n_rows, bool is_tail, uint32_t n,
                          const struct weight_rows *w, struct q8_chunk chunk, const unsigned char *pack,
                          q8_floats acc[]) {
    const size_t step = gemv_pack_step(groups);
    q8_floats scale[4], bias[4];
    q8_ints dots[GEMV_ROWS][4];
    chunk_dots(format, groups, n_rows, is_tail ? n : Q8_LANES, chunk.codes, w->shift, pack, step, dots);
    q8_scales(format, groups, w, chunk.scales, scale);
    if (q8_is_affine(format)) q8_scales(format, groups, w, chunk.biases, bias);
    if (!is_tail && n < Q8_LANES) /* what follows the row is read, and counts as nothing */
#pragma GCC unroll 4
        for (int g = 0; g < groups; g++) {
            scale[g] = v_first(n, scale[g], v_zero());
            if (q8_is_affine(format)) bias[g] = v_first(n, bias[g], v_zero());
        }
#pragma GCC unroll 8
    for (int r = 0; r < n_rows; r++) {
        const float *numbers = (const float *)(const void *)(pack + (size_t)r * step + (size_t)Q8_LANES * 64);
        q8_floats t = v_zero();
#pragma GCC unroll 4
        for (int g = 0; g < groups; g++) {
            q8_floats sum = v_load(numbers + (g + 1) * Q8_LANES), dot = v_convert(dots[r][g]);
            if (dot_offset(format)) dot = v_fma(v_splat((float)-dot_offset(format)), sum, dot);
            q8_floats next = g ? v_fma(scale[g], dot, t) : v_mul(scale[g], dot);
            if (q8_is_affine(format)) next = v_fma(bias[g], sum, next);
            t = is_tail && g ? v_first(q8_blocks_with_group(w->n_cols, n, groups, g), next, t) : next;
        }
        q8_floats next = v_fma(v_load(numbers), t, acc[r]);
        acc[r] = is_tail ? v_first(n, next, acc[r]) : next;
    }
}

/* The last chunk of row o, n blocks from `block` on, which is no whole one. */
Q8_INLINE void gemv_tail(enum weight_format format, int groups, int n_rows, const struct weight_rows *w, uint32_t o,
                         uint32_t block, struct q8_chunk chunk, const unsigned char *pack, q8_floats acc[]) {
    struct q8_chunk_copy copy;
    uint32_t n = q8_blocks(w->n_cols) - block;
    chunk = q8_last_chunk(format, groups, w, o, block, n, chunk, &copy);
    gemv_chunk(format, groups, n_rows, true, n, w, chunk, pack, acc);
}

typedef void (*gemv_tail_function)(const struct weight_rows *w, uint32_t o, uint32_t block, struct q8_chunk chunk,
                                   const unsigned char *pack, q8_floats acc[]);

/* Sums of one weight row and each packed row: of the lanes of this chunk, and with 8 lanes those of the next one. */
struct gemv_sums {
    q8_floats acc[GEMV_ROWS], other[GEMV_ROWS];
};

/* Adds blocks [begin, end) of weight row o, where begin is a multiple of 16 and so is end but for the row's; begin 0 starts
 * from zeros. The last chunk is taken like the others if what lies behind a short one can be read, `is_roomy`. */
Q8_INLINE void gemv_span(enum weight_format format, int groups, int n_rows, gemv_tail_function tail,
                         const struct weight_rows *w, uint32_t o, uint32_t begin, uint32_t end, bool is_roomy,
                         const unsigned char *pack, struct gemv_sums *sums) {
    const uint32_t code_step = Q8_LANES * q8_block_bytes(format), scale_step = q8_scale_bytes(w, groups, Q8_LANES);
    struct q8_chunk chunk = q8_row_start(format, w, o);
    q8_floats acc[GEMV_ROWS], other[GEMV_ROWS];
#pragma GCC unroll 8
    for (int r = 0; r < n_rows; r++) {
        acc[r] = begin ? sums->acc[r] : v_zero();
        if (GEMV_HALVES > 1) other[r] = begin ? sums->other[r] : v_zero();
    }
    pack += (size_t)(begin / Q8_LANES) * (size_t)n_rows * gemv_pack_step(groups);
    chunk.codes += (size_t)(begin / Q8_LANES) * code_step;
    if (format != WEIGHT_TERNARY) chunk.scales += (size_t)(begin / Q8_LANES) * scale_step;
    if (q8_is_affine(format)) chunk.biases += (size_t)(begin / Q8_LANES) * scale_step;
    uint32_t block = begin, whole = w->n_cols / 64; /* the last chunk may have its full number and yet be short */
    whole = is_roomy || end <= whole ? end : whole;
    if (!is_roomy) whole = whole / Q8_LANES * Q8_LANES;
    for (; block < whole; block += Q8_LANES) {
        uint32_t n = whole - block < Q8_LANES ? whole - block : Q8_LANES;
        for (uint32_t line = 0; line < code_step; line += 64)
            _mm_prefetch((const char *)chunk.codes + GEMV_PREFETCH + line, _MM_HINT_T1);
        if (q8_is_affine(format)) {
            _mm_prefetch((const char *)chunk.scales + GEMV_PREFETCH_SCALES, _MM_HINT_T1);
            _mm_prefetch((const char *)chunk.biases + GEMV_PREFETCH_SCALES, _MM_HINT_T1);
        }
        gemv_chunk(format, groups, n_rows, false, n, w, chunk, pack, acc);
        pack += (size_t)n_rows * gemv_pack_step(groups);
        chunk.codes += code_step;
        if (format != WEIGHT_TERNARY) chunk.scales += scale_step;
        if (q8_is_affine(format)) chunk.biases += scale_step;
        if (GEMV_HALVES == 1) continue;
#pragma GCC unroll 8
        for (int r = 0; r < n_rows; r++) {
            q8_floats swap = acc[r];
            acc[r] = other[r];
            other[r] = swap;
        }
    }
    if (block < end) {
        q8_floats last[GEMV_ROWS]; /* not acc: its address must not be taken */
#pragma GCC unroll 8
        for (int r = 0; r < n_rows; r++) last[r] = acc[r];
        tail(w, o, block, chunk, pack, last);
#pragma GCC unroll 8
        for (int r = 0; r < n_rows; r++) acc[r] = last[r];
    }
#pragma GCC unroll 8
    for (int r = 0; r < n_rows; r++) {
        sums->acc[r] = acc[r];
        if (GEMV_HALVES > 1) sums->other[r] = other[r];
    }
}

/* Blocks of a row before the next row is begun. Several packed rows of many columns are more than the first-level cache
 * holds, so eight weight rows pass by one part of them after another: 8 rows of 8,192 columns took twice as long without.
 * Beside one packed row weights are read straight on. */
enum { GEMV_SPAN_BYTES = 20 << 10 };
Q8_INLINE uint32_t gemv_span_blocks(int groups, int n_rows) {
    uint32_t n = (uint32_t)(GEMV_SPAN_BYTES / (gemv_pack_step(groups) / Q8_LANES * (size_t)n_rows)) / 16 * 16;
    return n ? n : 16;
}

/* How many weight rows are followed by as many bytes as their last chunk, read whole, takes from what comes after. */
static uint32_t gemv_roomy_rows(enum weight_format format, int groups, const struct weight_rows *w) {
    const uint32_t missing = (0u - q8_blocks(w->n_cols)) % Q8_LANES;
    if (w->n_cols % 64) return 0;
    if (!missing) return w->n_rows;
    uint32_t rows = missing * q8_block_bytes(format) / (uint32_t)w->row_bytes + 1;
    if (w->scale_row_bytes) {
        uint32_t of_scales = q8_scale_bytes(w, groups, Q8_LANES) / (uint32_t)w->scale_row_bytes + 1;
        if (of_scales > rows) rows = of_scales;
    }
    return w->n_rows > rows ? w->n_rows - rows : 0;
}

/* One packed row. */
Q8_INLINE void gemv_one(enum weight_format format, int groups, gemv_tail_function tail, const struct weight_rows *w,
                        const unsigned char *pack, float *y) {
    const uint32_t n_roomy = gemv_roomy_rows(format, groups, w);
    __m256 folded[8]; /* (l, l + 8); the lanes of eight weight rows end in the tree together */
    for (uint32_t o = 0; o < w->n_rows; o++) {
        struct gemv_sums sums;
        gemv_span(format, groups, 1, tail, w, o, 0, q8_blocks(w->n_cols), o < n_roomy, pack, &sums);
        folded[o % 8] = v_fold(sums.acc[0], GEMV_HALVES > 1 ? sums.other[0] : sums.acc[0]);
        if (o % 8 == 7) _mm256_storeu_ps(y + o - 7, fold_eight(folded));
    }
    for (uint32_t o = w->n_rows / 8 * 8; o < w->n_rows; o++) y[o] = fold_one(folded[o % 8]);
}

/* n_rows packed rows; y[r] is where the results of row r go. */
Q8_INLINE void gemv_rows(enum weight_format format, int groups, int n_rows, gemv_tail_function tail,
                         const struct weight_rows *w, const unsigned char *pack, float *const y[]) {
    const uint32_t n_blocks = q8_blocks(w->n_cols), step = gemv_span_blocks(groups, n_rows);
    const uint32_t n_roomy = gemv_roomy_rows(format, groups, w);
    if (n_rows == 1) {
        gemv_one(format, groups, tail, w, pack, y[0]);
        return;
    }
    for (uint32_t o = 0; o < w->n_rows; o += 8) {
        struct gemv_sums sums[8];
        uint32_t n = w->n_rows - o < 8 ? w->n_rows - o : 8;
        for (uint32_t begin = 0; begin < n_blocks; begin += step)
            for (uint32_t i = 0; i < n; i++)
                gemv_span(format, groups, n_rows, tail, w, o + i, begin,
                          n_blocks - begin < step ? n_blocks : begin + step, o + i < n_roomy, pack, &sums[i]);
        for (int r = 0; r < n_rows; r++) {
            __m256 folded[8] = {0};
            for (uint32_t i = 0; i < n; i++)
                folded[i] = v_fold(sums[i].acc[r], GEMV_HALVES > 1 ? sums[i].other[r] : sums[i].acc[r]);
            if (n == 8)
                _mm256_storeu_ps(y[r] + o, fold_eight(folded));
            else
                for (uint32_t i = 0; i < n; i++) y[r][o + i] = fold_one(folded[i]);
        }
    }
}

/* ---- the whole product ---- */

/* Functions for 1, 2, 4 and 8 activation rows of each kind. */
typedef void (*gemv_function)(const struct weight_rows *w, const unsigned char *pack, float *const y[]);

/* Weights of one strip stay in the second-level cache while group after group of activation rows passes. */
enum { GEMV_STRIP_BYTES = 160 << 10 };

/* Rows of the next pass. A pass over the weights costs about as much as two rows: three rows are done as four (one of
 * them twice), six and seven as eight. */
static uint32_t gemv_pass(uint32_t left) {
    if (GEMV_ROWS >= 8 && left >= 6) return 8;
    return left >= 3 ? 4 : left;
}

/* Rows of the pass, at most GEMV_ROWS from `first` on; the last row again where there are fewer. */
static uint32_t gemv_pass_row(const struct matmul_job *job, uint32_t first, uint32_t r) {
    return first + r < job->n_rows ? first + r : job->n_rows - 1;
}

/* Begins to fetch the first weights, while the activations are packed. */
static void gemv_begin(const struct weight_rows *w) {
    const size_t codes = w->n_rows * w->row_bytes, scales = w->n_rows * w->scale_row_bytes;
    for (size_t at = 0; at < codes && at < GEMV_PREFETCH; at += 64)
        _mm_prefetch((const char *)w->codes + at, _MM_HINT_T1);
    for (size_t at = 0; at < scales && at < GEMV_PREFETCH_SCALES; at += 64) {
        _mm_prefetch((const char *)w->scales + at, _MM_HINT_T1);
        if (w->biases) _mm_prefetch((const char *)w->biases + at, _MM_HINT_T1);
    }
}

static void gemv(const gemv_function of_kind[9], const struct matmul_job *job, int groups) {
    const struct weight_rows *w = job->weights;
    const size_t row_bytes = (q8_blocks(w->n_cols) + Q8_LANES - 1) / Q8_LANES * gemv_pack_step(groups);
    uint32_t strip = w->n_rows, rows;
    unsigned char *pack = job->scratch;
    if (!job->is_begun) gemv_begin(w);
    for (uint32_t first = 0; first < job->n_rows && !job->is_packed; first += rows, pack += rows * row_bytes) {
        rows = gemv_pass(job->n_rows - first);
        for (uint32_t r = 0; r < rows; r++)
            gemv_pack_row(job_x(job, gemv_pass_row(job, first, r)), w->n_cols, groups, rows * gemv_pack_step(groups),
                          pack + r * gemv_pack_step(groups));
    }
    if (job->n_rows > GEMV_ROWS) strip = (uint32_t)(GEMV_STRIP_BYTES / (w->row_bytes + 1) + 8) / 8 * 8;
    for (uint32_t o = 0; o < w->n_rows; o += strip) {
        struct weight_rows part = *w;
        part.n_rows = w->n_rows - o < strip ? w->n_rows - o : strip;
        part.codes += o * w->row_bytes;
        if (part.scales) part.scales += o * w->scale_row_bytes;
        if (part.biases) part.biases += o * w->scale_row_bytes;
        pack = job->scratch;
        for (uint32_t first = 0; first < job->n_rows; first += rows, pack += rows * row_bytes) {
            float *y[GEMV_ROWS];
            rows = gemv_pass(job->n_rows - first);
            for (uint32_t r = 0; r < rows; r++) y[r] = job_y(job, gemv_pass_row(job, first, r)) + o;
            of_kind[rows](&part, pack, y);
        }
    }
}

#define GEMV_DEFINE(name, format, groups)                                                                              \
    GEMV_DEFINE_ROWS(name, format, groups, 1)                                                                          \
    GEMV_DEFINE_ROWS(name, format, groups, 2)                                                                          \
    GEMV_DEFINE_ROWS(name, format, groups, 4)                                                                          \
    GEMV_DEFINE_EIGHT(name, format, groups)
#define GEMV_DEFINE_ROWS(name, format, groups, rows)                                                                   \
    __attribute__((noinline)) static void gemv_##name##_##rows##_tail(const struct weight_rows *w, uint32_t o,         \
                                                                      uint32_t block, struct q8_chunk chunk,           \
                                                                      const unsigned char *pack, q8_floats acc[]) {    \
        gemv_tail(format, groups, rows, w, o, block, chunk, pack, acc);                                                \
    }                                                                                                                  \
    static void gemv_##name##_##rows(const struct weight_rows *w, const unsigned char *pack, float *const y[]) {       \
        gemv_rows(format, groups, rows, gemv_##name##_##rows##_tail, w, pack, y);                                      \
    }
#define GEMV_ENTRY(name, format, groups)                                                                               \
    [format][(groups) / 2] = {                                                                                         \
        [1] = gemv_##name##_1, [2] = gemv_##name##_2, [4] = gemv_##name##_4, [8] = GEMV_EIGHT(name)},

#endif
