/* SPDX-License-Identifier: Apache-2.0 */
/* The numeric kernels: one table of function pointers, filled once for the processor at hand.
 *
 * ref/ defines every kernel in plain C; a faster tier (avx2/, avx512/, neon/) replaces the entries that it has. All tiers
 * compute the same bits: the order of every rounding is fixed in ref/ (docs/architecture.md, section 3, says by which
 * rules), and tests/kernels/checkkern compares each overlay with ref exactly.
 *
 * Conventions. f32 buffers hold rows; `n` is the length of a row. "Dot" is the 16-lane rule: lane l takes the products
 * k = l mod 16, ascending, by fma; the lanes end in the tree (l, l+8), (l, l+4), (l, l+2), (l, l+1). Buffers need no
 * alignment unless a comment says so. Kernels allocate nothing; scratch is the caller's. */
#ifndef MLXCEL_KERNELS_KERNELS_H
#define MLXCEL_KERNELS_KERNELS_H

#include "format/matrix.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- activations as matmul kernels want them ---- */

enum activation_form {
    ACTIVATION_F32,     /* f32 [n], then zeros to a multiple of 16 */
    ACTIVATION_BF16,    /* bf16 [n], then zeros to a multiple of 32 */
    ACTIVATION_BYTES,   /* struct q8 below, codes of a block in column order */
    ACTIVATION_NIBBLES, /* q8, codes of a block: the 32 even columns, then the 32 odd ones */
    ACTIVATION_CRUMBS,  /* q8, codes of a block: columns 0 4 8 .. 60, then 1 5 .. 61, 2 6 .. 62, 3 7 .. 63 */
    N_ACTIVATION_FORMS,
};

/* A row quantised in blocks of 64 columns: code = rint(x * (127 / absmax)), ties to even, scale = absmax / 127. A block
 * whose absmax is below 2^-100 gets scale 0 and codes 0; one that holds an infinity or NaN gets scale NaN and codes 0.
 * In memory, with B = blocks and P = B rounded up to 16:
 *   int8 codes[64 * B]   f32 scale[P]   f32 sum64[P]   f32 sum32[2][P]   f32 sum16[4][P]
 * sumG[s][b] is the sum of the codes of columns s*G .. s*G+G-1 of block b. Entries b >= B are zero. */
struct q8 {
    const int8_t *codes;
    const float *scale, *sum64, *sum32, *sum16;
    uint32_t n_blocks, n_padded; /* B and P */
};

static inline uint32_t q8_blocks(uint32_t n) { return (n + 63) / 64; }
static inline uint32_t q8_padded(uint32_t n) { return (q8_blocks(n) + 15) / 16 * 16; }

/* Bytes of one row of n columns in a form, a multiple of 64. */
static inline size_t activation_row_bytes(enum activation_form form, uint32_t n) {
    switch (form) {
    case ACTIVATION_F32: return ((size_t)n + 15) / 16 * 64;
    case ACTIVATION_BF16: return ((size_t)n + 31) / 32 * 64;
    default: return (size_t)q8_blocks(n) * 64 + (size_t)q8_padded(n) * 32;
    }
}

static inline struct q8 q8_view(const void *row, uint32_t n) {
    struct q8 q = {.codes = (const int8_t *)row, .n_blocks = q8_blocks(n), .n_padded = q8_padded(n)};
    q.scale = (const float *)(const void *)((const char *)row + (size_t)q.n_blocks * 64);
    q.sum64 = q.scale + q.n_padded;
    q.sum32 = q.sum64 + q.n_padded;
    q.sum16 = q.sum32 + 2 * q.n_padded;
    return q;
}

/* ---- matrix products ---- */

/* y[r][o] = sum over k of weight[o][k] * x[r][k], for every row o of the run and every activation row r. */
struct matmul_job {
    const struct weight_rows *weights;
    const void *x; /* rows in the form that the kernel wants, 64-byte aligned */
    size_t x_row_bytes;
    const uint32_t *x_ids; /* row r is x row x_ids[r]; NULL = r */
    float *y;              /* result (r, o) goes to y[y_ids[r] * y_stride + o] */
    size_t y_stride;
    const uint32_t *y_ids; /* NULL = r */
    uint32_t n_rows;       /* activation rows */
    void *scratch;         /* matmul_scratch_bytes(n_cols), 64-byte aligned */
    /* What the thread's last job with this scratch has done already; a kernel may do it again. */
    bool is_packed; /* it had the same x, n_rows and shape and format of weights */
    bool is_begun;  /* its weights ended where these begin, or these have been fetched */
};

/* No kernel decodes more weight rows than MATMUL_PANEL (as 16-bit numbers) into scratch at a time. */
enum { MATMUL_PANEL = 64, MATMUL_SCRATCH_FIXED = 136 << 10 };

static inline size_t matmul_scratch_bytes(uint32_t n_cols) {
    return (size_t)MATMUL_PANEL * (((size_t)n_cols + 127) / 64 * 64) * 2 + MATMUL_SCRATCH_FIXED;
}

/* ---- attention ---- */

enum { PAGE_CELLS = 64 };

enum kv_format { KV_F16, KV_F32, N_KV_FORMATS };

/* Attention of several queries that read the same key head. A page holds 64 cells of one key head:
 *   keys   [key_dim][64]     one row for each dimension, so that cells lie in lanes
 *   values [64][value_dim]
 * Query i sees the cells c with first_cell[i] <= c < end_cell[i], cell c lying in page c / 64; pages[c / 64] may be NULL
 * where no query sees it. With masks[i], one word for each page, it sees of them only those whose bit c % 64 is set.
 *
 * For each page that a query sees, ascending: s_c = dot(q, k_c) * scale, then softcap * tanh(s_c / softcap) if softcap is
 * not 0; m_p = max s_c; e_c = exp(s_c - m_p), 0 for cells not seen; l_p = sum of e by the 16-lane rule; o_p = sum of
 * e_c * v_c, c ascending, by fma from 0. Merge: m' = max(m, m_p), a = exp(m - m'), b = exp(m_p - m'),
 * l = fma(l, a, l_p * b), o = fma(o, a, o_p * b). Start: m = -inf, l = 0, o = 0, or with a sink m = sink, l = 1, o = 0.
 * Result: o / l, or 0 where l is 0. */
struct attention_job {
    enum kv_format format;
    uint32_t n_queries, key_dim, value_dim;
    const float *const *q;                 /* [n_queries] pointers to key_dim values */
    float *const *out;                     /* [n_queries] pointers to value_dim results */
    const uint32_t *first_cell, *end_cell; /* [n_queries] */
    const uint64_t *const *masks;          /* [n_queries], each may be NULL; NULL = none */
    const void *const *key_pages;          /* indexed by cell / 64 */
    const void *const *value_pages;
    const float *sinks; /* [n_queries]; NULL = none */
    float scale, softcap;
    void *scratch; /* attention_scratch_bytes, 64-byte aligned */
};

enum { ATTENTION_MAX_QUERIES = 64 };

static inline uint32_t lowest_bit(uint64_t bits) { return (uint32_t)__builtin_ctzll(bits); }
static inline uint32_t highest_bit(uint64_t bits) { return 63u - (uint32_t)__builtin_clzll(bits); }

/* The cells of a page that query i sees, one bit each. */
static inline uint64_t attention_seen(const struct attention_job *job, uint32_t i, uint32_t page) {
    uint32_t base = page * PAGE_CELLS, first = job->first_cell[i], end = job->end_cell[i];
    if (first >= end || end <= base || first >= base + PAGE_CELLS) return 0;
    uint64_t bits = ~0ull;
    if (end - base < PAGE_CELLS) bits = (1ull << (end - base)) - 1;
    if (first > base) bits &= ~0ull << (first - base);
    return job->masks && job->masks[i] ? bits & job->masks[i][page] : bits;
}

static inline size_t attention_scratch_bytes(uint32_t key_dim, uint32_t value_dim) {
    return (size_t)PAGE_CELLS * (key_dim + value_dim) * 4 +
           (size_t)ATTENTION_MAX_QUERIES * ((size_t)key_dim + 2 * (size_t)value_dim + 2 * PAGE_CELLS + 64) * 4;
}

/* Scores of the 64 cells of a page of index keys [dim][64]: for each head s_h = sum of q_h[d] * k[d], d ascending, by fma
 * from 0; score = sum over the heads, ascending, of fma(weight_h, max(s_h, 0), score) from 0, or, without weights, s_0. */
struct index_job {
    enum kv_format format;
    uint32_t n_heads, dim;
    const float *q;       /* [n_heads][dim] */
    const float *weights; /* [n_heads]; NULL: n_heads is 1 */
    const void *keys;
    float *scores; /* [64] */
};

/* ---- recurrences ---- */

/* Causal depthwise convolution over rows of one sequence, channels [first, end):
 * y = bias + w[0] x[-taps+1] + ... + w[taps-1] x[0], by fma in that order, then SiLU if wanted. */
struct conv_job {
    uint32_t n_rows, first, end, n_channels, taps;
    const float *x; /* row r at x + r * x_stride */
    size_t x_stride;
    float *y;
    size_t y_stride;
    const float *weight; /* [n_channels][taps] */
    const float *bias;   /* [n_channels] or NULL */
    float *state;        /* [taps - 1][n_channels], the inputs before the first row, oldest first; updated */
    bool silu;
};

/* One token of Mamba-2 for one head: decay = exp(dt * a); S = fma(dt * x_p, B_n, S * decay);
 * y_p = fma(d, x_p, dot(S_p, C)). */
struct mamba2_job {
    uint32_t head_dim, state_dim;
    const float *x;     /* [head_dim] */
    const float *b, *c; /* [state_dim] */
    float dt, a, d;
    float *state; /* [head_dim][state_dim] */
    float *y;     /* [head_dim] */
};

/* One token of Mamba-1 for some channels: S = fma(dt_c * x_c, B_n, S * exp(dt_c * a_cn));
 * y_c = fma(d_c, x_c, dot(S_c, C)). */
struct mamba1_job {
    uint32_t n_channels, state_dim;
    const float *x, *dt, *d; /* [n_channels] */
    const float *a;          /* [n_channels][state_dim] */
    const float *b, *c;      /* [state_dim] */
    float *state;            /* [n_channels][state_dim] */
    float *y;                /* [n_channels] */
};

/* One token of a gated linear recurrence: S = fma(exp(log_a), S, sqrt(1 - exp(2 log_a)) * x), y = S; the first token of a
 * sequence comes in whole: S = x. */
struct lru_job {
    uint32_t n_channels;
    bool is_first;
    const float *x, *log_a;
    float *state, *y;
};

/* One token of a recurrence whose transition is a diagonal plus a rank-one matrix, for one head: e = dot(S_i, a);
 * S_in = fma(v_i, k_n, fma(e, b_n, S_in * decay_n)); y_i = dot(S_i, q). */
struct dplr_job {
    uint32_t key_dim, value_dim;
    const float *q, *decay, *a, *b, *k; /* [key_dim] */
    const float *v;                     /* [value_dim] */
    float *state;                       /* [value_dim][key_dim] */
    float *y;                           /* [value_dim] */
};

/* One token of the gated delta rule for one value head: S = S * decay; e = beta * (v_i - dot(S_i, k));
 * S_i = fma(e, k, S_i); y_i = dot(S_i, q). */
struct delta_job {
    uint32_t key_dim, value_dim;
    const float *q, *k; /* [key_dim] */
    const float *v;     /* [value_dim] */
    float decay, beta;
    float *state; /* [value_dim][key_dim] */
    float *y;     /* [value_dim] */
};

/* ---- element-wise ---- */

enum unary {
    UNARY_SILU,      /* x / (1 + exp(-x)) */
    UNARY_GELU_TANH, /* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
    UNARY_GELU_ERF,  /* 0.5 x (1 + erf(x / sqrt 2)) */
    UNARY_RELU,
    UNARY_RELU2, /* max(x, 0)^2 */
    UNARY_SIGMOID,
    UNARY_SOFTPLUS, /* log(1 + exp(x)) */
    UNARY_EXP,
    UNARY_TANH,
    UNARY_GELU_QUICK, /* x / (1 + exp(-1.702 x)) */
    N_UNARY,
};

/* ---- rows of logits, for sampling ---- */

/* Work on a row is counted in chunks of 512 values; a chunk holds 16 interleaved blocks of 32: block l takes the
 * indices l mod 16. */
enum { ROW_CHUNK = 512, ROW_LANES = 16 };

static inline uint32_t row_chunks(uint32_t n) { return (n + ROW_CHUNK - 1) / ROW_CHUNK; }

struct row_split {
    double above, from_low; /* sums of the weights with key > high, and with key >= low */
    uint32_t n_above, n_from_low;
};

/* ---- the table ---- */

enum kernel_tier { TIER_REF, TIER_AVX2, TIER_AVX512, TIER_NEON, N_TIERS };

/* KERNEL(name, result, arguments): one row for each entry; arrays of matmul kernels follow the list. */
#define KERNELS(KERNEL)                                                                                                \
    /* x[n] to a row of the form; out is 64-byte aligned */                                                            \
    KERNEL(to_f32, void, (const float *x, uint32_t n, void *out))                                                      \
    KERNEL(to_bf16, void, (const float *x, uint32_t n, void *out))                                                     \
    KERNEL(to_q8, void, (const float *x, uint32_t n, enum activation_form order, void *out))                           \
    /* weight row `row` of a run, widened: affine fma(scale, code, bias), others exact products */                     \
    KERNEL(dequantize_row, void, (const struct weight_rows *weights, uint32_t row, float *out))                        \
    KERNEL(dot, float, (const float *a, const float *b, uint32_t n))                                                   \
    /* y = x * (1 / sqrt(dot(x, x) / n + eps)) * weight; weight may be NULL (ones) */                                  \
    KERNEL(rms_norm, void, (const float *x, const float *weight, float eps, uint32_t n, float *y))                     \
    /* mean and variance by the 16-lane rule, d = x - mean; y = d / sqrt(var + eps) * weight + bias (either NULL) */   \
    KERNEL(layer_norm, void,                                                                                           \
           (const float *x, const float *weight, const float *bias, float eps, uint32_t n, float *y))                  \
    KERNEL(add, void, (const float *a, const float *b, uint32_t n, float *y))                                          \
    KERNEL(multiply, void, (const float *a, const float *b, uint32_t n, float *y))                                     \
    KERNEL(scale, void, (const float *x, float factor, uint32_t n, float *y))                                          \
    KERNEL(add_scaled, void, (const float *x, float factor, uint32_t n, float *y))    /* y = fma(x, factor, y) */      \
    KERNEL(softcap, void, (const float *x, float cap, uint32_t n, float *y))          /* cap * tanh(x / cap) */        \
    KERNEL(clip, void, (const float *x, float low, float high, uint32_t n, float *y)) /* NaN stays */                  \
    /* rint(x / step), ties to even, within [-128, 127], times step */                                                 \
    KERNEL(grid, void, (const float *x, float step, uint32_t n, float *y))                                             \
    /* x > 0: fma(a_p x, x, beta x); else fma(exp(m) - 1 - x, a_n, beta x), m = min(x, epsilon) */                     \
    KERNEL(xielu, void, (const float *x, float a_p, float a_n, float beta, float epsilon, uint32_t n, float *y))       \
    KERNEL(unary, void, (enum unary kind, const float *x, uint32_t n, float *y))                                       \
    KERNEL(gated, void, (enum unary kind, const float *gate, const float *up, uint32_t n, float *y)) /* f(gate) up */  \
    /* in place, exp(x - max) / sum, the sum by the 16-lane rule */                                                    \
    KERNEL(softmax, void, (float *x, uint32_t n))                                                                      \
    /* pairs (i, i + n/2) or (2i, 2i + 1) of x[0 .. n): a' = fma(-b, sin, a * cos), b' = fma(a, sin, b * cos) */       \
    KERNEL(rope_halves, void, (const float *x, const float *cosine, const float *sine, uint32_t n, float *y))          \
    KERNEL(rope_pairs, void, (const float *x, const float *cosine, const float *sine, uint32_t n, float *y))           \
    /* cos and sin of the f32 angles position * inverse_frequency[i], times factor, i < n */                           \
    KERNEL(rope_angles, void,                                                                                          \
           (float position, const float *inverse_frequency, uint32_t n, float factor, float *cosine, float *sine))     \
    /* one cell of a page: key[key_dim] into column `cell` of [key_dim][64], value[value_dim] into row `cell` */       \
    KERNEL(kv_store, void,                                                                                             \
           (enum kv_format format, const float *key, uint32_t key_dim, const float *value, uint32_t value_dim,         \
            uint32_t cell, void *key_page, void *value_page))                                                          \
    KERNEL(index_scores, void, (const struct index_job *job))                                                          \
    KERNEL(attention, void, (const struct attention_job *job))                                                         \
    KERNEL(conv, void, (const struct conv_job *job))                                                                   \
    KERNEL(mamba2, void, (const struct mamba2_job *job))                                                               \
    KERNEL(mamba1, void, (const struct mamba1_job *job))                                                               \
    KERNEL(lru, void, (const struct lru_job *job))                                                                     \
    KERNEL(dplr, void, (const struct dplr_job *job))                                                                   \
    /* max(x - fma(factor, sqrt(var), mean), 0), mean and variance as in layer_norm */                                 \
    KERNEL(threshold, void, (const float *x, float factor, uint32_t n, float *y))                                      \
    KERNEL(delta, void, (const struct delta_job *job))                                                                 \
    KERNEL(matmul_exact, void, (const struct matmul_job *job)) /* any format; x f32, weights as dequantize_row */      \
    /* x = logits, but -inf for NaN and the largest finite number for +inf */                                          \
    KERNEL(row_load, void, (const float *logits, uint32_t n, float *x))                                                \
    /* the largest value of each block: maxima[16 * chunk + block], -inf for empty blocks; x holds no NaN */           \
    KERNEL(row_maxima, void, (const float *x, uint32_t n, float *maxima))                                              \
    /* w = exp((x - shift) * scale), sums[chunk] = their sum in f64 */                                                 \
    KERNEL(row_weights, void, (const float *x, float shift, float scale, uint32_t n, float *w, double *sums))          \
    KERNEL(row_split, void,                                                                                            \
           (const float *key, const float *w, uint32_t n, float high, float low, struct row_split *split))             \
    /* the indices from first to below end with low <= key <= high, ascending; their number */                         \
    KERNEL(row_find, uint32_t,                                                                                         \
           (const float *key, uint32_t first, uint32_t end, float high, float low, uint32_t *found))                   \
    /* x = -inf where key < value */                                                                                   \
    KERNEL(row_keep, void, (const float *key, float value, uint32_t n, float *x))

enum kernel_id {
#define KERNEL_ID(name, result, arguments) KERNEL_##name,
    KERNELS(KERNEL_ID)
#undef KERNEL_ID
        KERNEL_matmul, /* + the weight format */
    N_KERNELS = KERNEL_matmul + N_WEIGHT_FORMATS,
};

struct kernels {
#define KERNEL_POINTER(name, result, arguments) result(*name) arguments;
    KERNELS(KERNEL_POINTER)
#undef KERNEL_POINTER
    void (*matmul[N_WEIGHT_FORMATS])(const struct matmul_job *job); /* precision fast */
    uint8_t tier[N_KERNELS];                                        /* enum kernel_tier: who supplied each entry */
};

/* Sets an entry and remembers its tier; for the tiers' own fill functions. */
#define KERNELS_SET(table, TIER, entry, function) ((table)->entry = (function), (table)->tier[KERNEL_##entry] = (TIER))
#define KERNELS_SET_MATMUL(table, TIER, format, function)                                                              \
    ((table)->matmul[format] = (function), (table)->tier[KERNEL_matmul + (format)] = (TIER))

/* The form of activations that matmul[format] wants (precision fast); matmul_exact always wants ACTIVATION_F32. */
enum activation_form matmul_activation_form(enum weight_format format);

/* The table for a tier: its entries over ref's. NULL when this build or this processor does not have the tier. */
const struct kernels *kernels_for_tier(enum kernel_tier tier);
/* The best tier of this processor. */
enum kernel_tier kernels_best_tier(void);
const char *kernel_tier_name(enum kernel_tier tier);
bool kernel_tier_from_name(const char *name, enum kernel_tier *tier);
/* "matmul affine-4", "rms_norm", ... */
const char *kernel_name(int id);

/* Fill functions of the tiers; each sets what it has. */
void kernels_fill_ref(struct kernels *table);
void kernels_fill_ref_fma(struct kernels *table);
void kernels_fill_avx2(struct kernels *table);
void kernels_fill_avx512(struct kernels *table);
void kernels_fill_neon(struct kernels *table);

#endif
