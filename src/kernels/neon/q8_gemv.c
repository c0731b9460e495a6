/* SPDX-License-Identifier: Apache-2.0 */
/* Products with few quantised activation rows, for every kind of weights.
 *
 * A chunk is 4 blocks of a weight row. Each block's codes are unpacked once and multiplied with up to four activation
 * rows, by dot products of bytes; pairwise additions bring the sums of the four blocks into the lanes of one register,
 * where scales and biases meet them, group by group:
 *   t = scale * dot, then fma(bias, sum, t); acc = fma(scale_x, t, acc), block b in lane b mod 16.
 * The 16 lanes of each activation row wait in memory. */
#include "kernels/neon/q8.h"

#include "kernels/neon/q8_codes.h"
#include "kernels/simd/q8_chunk.h"

enum { GEMV_ROWS = 4 };

/* Weights of one strip stay in the second-level cache while the activation rows pass. */
enum { GEMV_STRIP_BYTES = 128 << 10 };

/* How the sums of a block lie after its dot products: in one or two registers. Either each is one group, or the lower
 * half of it is a group and the upper half the next one. */
Q8_INLINE bool is_paired(enum weight_format format, int groups) {
    return groups == 4 || (groups == 2 && q8_order(format) == ACTIVATION_CRUMBS);
}
Q8_INLINE int n_sums(enum weight_format format, int groups) { return is_paired(format, groups) ? groups / 2 : groups; }
/* The register that quarter k of a block's codes is summed in. */
Q8_INLINE int sum_of_quarter(enum weight_format format, int groups, int k) {
    if (n_sums(format, groups) == 1) return 0;
    return q8_order(format) == ACTIVATION_NIBBLES ? k & 1 : k >> 1;
}

Q8_INLINE void block_dots(enum weight_format format, int groups, struct q8_codes c, const int8_t *x, q8_ints sums[2]) {
    sums[0] = sums[1] = vdupq_n_s32(0);
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        int s = sum_of_quarter(format, groups, k);
        sums[s] = vdotq_s32(sums[s], c.quarter[k], vld1q_s8(x + 16 * k));
    }
}

/* dots[r][g]: of group g of 4 blocks (the first n with is_tail, else all), block in lane, with row r of x. */
Q8_INLINE void chunk_dots(enum weight_format format, int groups, int n_rows, bool is_tail, uint32_t n,
                          const unsigned char *codes, uint32_t shift, const struct q8 x[], uint32_t block,
                          q8_ints dots[GEMV_ROWS][4]) {
    const uint32_t step = q8_block_bytes(format);
    q8_ints pairs[2][GEMV_ROWS][2];
#pragma GCC unroll 2
    for (uint32_t pair = 0; pair < 2; pair++) {
        struct q8_codes c[2];
#pragma GCC unroll 2
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t b = 2 * pair + i;
            if (!is_tail || b < n)
                c[i] = codes_load(format, codes + b * step, shift);
            else
                memset(&c[i], 0, sizeof c[i]); /* what comes of them is left out */
        }
#pragma GCC unroll 4
        for (int r = 0; r < n_rows; r++) {
            const int8_t *at = x[r].codes + (size_t)(block + 2 * pair) * 64;
            q8_ints a[2], b[2];
            block_dots(format, groups, c[0], at, a);
            block_dots(format, groups, c[1], at + 64, b);
#pragma GCC unroll 2
            for (int s = 0; s < n_sums(format, groups); s++) pairs[pair][r][s] = vpaddq_s32(a[s], b[s]);
            __asm__ volatile("" : : : "memory"); /* else gcc loads the activations of all rows first, onto the stack */
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++)
#pragma GCC unroll 2
        for (int s = 0; s < n_sums(format, groups); s++) {
            q8_ints a = pairs[0][r][s], b = pairs[1][r][s];
            if (is_paired(format, groups)) {
                dots[r][2 * s] = vuzp1q_s32(a, b);
                dots[r][2 * s + 1] = vuzp2q_s32(a, b);
            } else {
                dots[r][s] = vpaddq_s32(a, b);
            }
        }
}

/* One chunk from `block` on, or with is_tail its first n blocks, the last ones of the row. */
Q8_INLINE void gemv_chunk(enum weight_format format, int groups, int n_rows, bool is_tail, uint32_t n,
                          const struct weight_rows *w, struct q8_chunk chunk, const struct q8 x[], uint32_t block,
                          float acc[GEMV_ROWS][16]) {
    q8_floats scale[4], bias[4];
    q8_ints dots[GEMV_ROWS][4];
    chunk_dots(format, groups, n_rows, is_tail, n, chunk.codes, w->shift, x, block, dots);
    q8_scales(format, groups, w, chunk.scales, scale);
    if (q8_is_affine(format)) q8_scales(format, groups, w, chunk.biases, bias);
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++) {
        const float *sums = groups == 1 ? x[r].sum64 : groups == 2 ? x[r].sum32 : x[r].sum16;
        float *lanes = acc[r] + block % 16;
        q8_floats t = v_zero(), old = v_load(lanes);
#pragma GCC unroll 4
        for (int g = 0; g < groups; g++) {
            q8_floats sum = v_load(sums + (size_t)g * x[r].n_padded + block), dot = v_convert(dots[r][g]);
            if (dot_offset(format)) dot = v_fma(v_splat((float)-dot_offset(format)), sum, dot);
            q8_floats next = g ? v_fma(scale[g], dot, t) : v_mul(scale[g], dot);
            if (q8_is_affine(format)) next = v_fma(bias[g], sum, next);
            t = is_tail && g ? v_first(q8_blocks_with_group(w->n_cols, n, groups, g), next, t) : next;
        }
        q8_floats next = v_fma(v_load(x[r].scale + block), t, old);
        v_store(lanes, is_tail ? v_first(n, next, old) : next);
    }
}

/* The last chunk of row o, n blocks from `block` on, which is no whole one. */
Q8_INLINE void gemv_tail(enum weight_format format, int groups, int n_rows, const struct weight_rows *w, uint32_t o,
                         uint32_t block, struct q8_chunk chunk, const struct q8 x[], float acc[GEMV_ROWS][16]) {
    struct q8_chunk_copy copy;
    uint32_t n = q8_blocks(w->n_cols) - block;
    chunk = q8_last_chunk(format, groups, w, o, block, n, chunk, &copy);
    gemv_chunk(format, groups, n_rows, true, n, w, chunk, x, block, acc);
}

typedef void (*gemv_tail_function)(const struct weight_rows *w, uint32_t o, uint32_t block, struct q8_chunk chunk,
                                   const struct q8 x[], float acc[GEMV_ROWS][16]);

/* The end of the 16-lane rule. */
Q8_INLINE float lanes_sum(const float lanes[16]) {
    q8_floats four = v_add(v_add(v_load(lanes), v_load(lanes + 8)), v_add(v_load(lanes + 4), v_load(lanes + 12)));
    float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

/* Weight rows first .. end with n_rows rows of activations; y[r] is where the results of row r go. */
Q8_INLINE void gemv_rows(enum weight_format format, int groups, int n_rows, gemv_tail_function tail,
                         const struct weight_rows *w, uint32_t first, uint32_t end, const struct q8 x[],
                         float *const y[]) {
    const uint32_t code_step = Q8_LANES * q8_block_bytes(format), n_blocks = q8_blocks(w->n_cols);
    const uint32_t scale_step = q8_scale_bytes(w, groups, Q8_LANES), n_whole = w->n_cols / 64;
    for (uint32_t o = first; o < end; o++) {
        struct q8_chunk chunk = q8_row_start(format, w, o);
        float acc[GEMV_ROWS][16];
        memset(acc, 0, (size_t)n_rows * sizeof *acc);
        uint32_t block = 0;
        for (; block + Q8_LANES <= n_whole; block += Q8_LANES) {
            gemv_chunk(format, groups, n_rows, false, Q8_LANES, w, chunk, x, block, acc);
            chunk.codes += code_step;
            if (format != WEIGHT_TERNARY) chunk.scales += scale_step;
            if (q8_is_affine(format)) chunk.biases += scale_step;
        }
        if (block < n_blocks) tail(w, o, block, chunk, x, acc);
        for (int r = 0; r < n_rows; r++) y[r][o] = lanes_sum(acc[r]);
    }
}

/* ---- functions for 1, 2 and 4 activation rows of each kind ---- */

typedef void (*gemv_function)(const struct weight_rows *w, uint32_t first, uint32_t end, const struct q8 x[],
                              float *const y[]);

#define GEMV_DEFINE(name, format, groups)                                                                              \
    GEMV_DEFINE_ROWS(name, format, groups, 1)                                                                          \
    GEMV_DEFINE_ROWS(name, format, groups, 2)                                                                          \
    GEMV_DEFINE_ROWS(name, format, groups, 4)
#define GEMV_DEFINE_ROWS(name, format, groups, rows)                                                                   \
    __attribute__((noinline)) static void gemv_##name##_##rows##_tail(const struct weight_rows *w, uint32_t o,         \
                                                                      uint32_t block, struct q8_chunk chunk,           \
                                                                      const struct q8 x[], float acc[GEMV_ROWS][16]) { \
        gemv_tail(format, groups, rows, w, o, block, chunk, x, acc);                                                   \
    }                                                                                                                  \
    static void gemv_##name##_##rows(const struct weight_rows *w, uint32_t first, uint32_t end, const struct q8 x[],   \
                                     float *const y[]) {                                                               \
        gemv_rows(format, groups, rows, gemv_##name##_##rows##_tail, w, first, end, x, y);                             \
    }
#define GEMV_ENTRY(name, format, groups)                                                                               \
    [format][(groups) / 2] = {[1] = gemv_##name##_1, [2] = gemv_##name##_2, [4] = gemv_##name##_4},

Q8_KINDS(GEMV_DEFINE)

static const gemv_function functions[N_WEIGHT_FORMATS][3][GEMV_ROWS + 1] = {Q8_KINDS(GEMV_ENTRY)};

void neon_q8_gemv(const struct matmul_job *job, int groups) {
    const struct weight_rows *w = job->weights;
    const gemv_function *of_kind = functions[w->format][groups / 2];
    uint32_t strip = w->n_rows;
    if (job->n_rows > GEMV_ROWS) strip = (uint32_t)(GEMV_STRIP_BYTES / (w->row_bytes + 1) + 1);
    for (uint32_t o = 0, end; o < w->n_rows; o = end) {
        end = w->n_rows - o < strip ? w->n_rows : o + strip;
        for (uint32_t first = 0, rows; first < job->n_rows; first += rows) {
            struct q8 x[GEMV_ROWS];
            float *y[GEMV_ROWS];
            rows = job->n_rows - first >= 3 ? 4 : job->n_rows - first;
            for (uint32_t r = 0; r < rows; r++) { /* the last row again where there are three */
                uint32_t row = first + r < job->n_rows ? first + r : job->n_rows - 1;
                x[r] = q8_view(job_x(job, row), w->n_cols);
                y[r] = job_y(job, row);
            }
            of_kind[rows](w, o, end, x, y);
        }
    }
}
