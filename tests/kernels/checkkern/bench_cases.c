/* SPDX-License-Identifier: Apache-2.0 */
/* What --bench runs: matrix products on matrices that fit in no cache (few rows) or on panels (many), attention over
 * long caches and over blocks of a prompt, and the other kernels on rows of 4,096. */
#include "tests/kernels/checkkern/bench.h"

#include "tests/kernels/checkkern/check.h"

#include "base/half.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 64 };

/* Random numbers of any size; f32 within [-1, 1) when is_float. */
static void *random_memory(size_t bytes, bool is_float) {
    unsigned char *memory = aligned_calloc(bytes + 64, 1);
    struct check c = {.random = 5};
    if (!memory) return NULL;
    if (!is_float) check_bytes(&c, memory, bytes);
    for (size_t i = 0; is_float && i < bytes / 4; i++)
        ((float *)(void *)memory)[i] = 0.5f * check_value(&c, VALUES_PLAIN);
    return memory;
}

/* ---- products ---- */

struct product_bench {
    struct weight_rows rows;
    void (*multiply)(const struct matmul_job *job);
    const void *x;
    size_t x_row_bytes;
    float *y;
    uint32_t n_x, rows_per_task;
    void *scratch[MOST_THREADS];
};

static void run_product(const struct bench_case *bench, uint32_t task, int thread) {
    const struct product_bench *p = bench->context;
    struct weight_rows rows = p->rows;
    uint32_t first = task * p->rows_per_task;
    rows.n_rows = p->rows_per_task;
    rows.codes += first * rows.row_bytes;
    if (rows.scales) rows.scales += first * rows.scale_row_bytes;
    if (rows.biases) rows.biases += first * rows.scale_row_bytes;
    struct matmul_job job = {.weights = &rows,
                             .x = p->x,
                             .x_row_bytes = p->x_row_bytes,
                             .y = p->y + first,
                             .y_stride = p->rows.n_rows,
                             .n_rows = p->n_x,
                             .scratch = p->scratch[thread]};
    p->multiply(&job);
}

static void put_scales(unsigned char *scales, size_t n, enum dtype dtype) {
    for (size_t i = 0; i < n; i++) {
        float value = 0.01f + 0.0001f * (float)(i % 64);
        uint16_t half = dtype == DTYPE_F16 ? f32_to_f16(value) : f32_to_bf16(value);
        if (dtype == DTYPE_U8)
            scales[i] = (unsigned char)(118 + i % 8);
        else if (dtype == DTYPE_F8_E4M3)
            scales[i] = (unsigned char)(40 + i % 8);
        else
            memcpy(scales + 2 * i, &half, 2);
    }
}

/* Bytes of codes and scales that a product reads. */
static double make_weights(struct weight_rows *rows, const struct weights_case *w) {
    size_t bits = w->format == WEIGHT_TERNARY ? 8 : (size_t)weight_formats[w->format].bits,
           groups = w->group ? w->n_cols / w->group : 0;
    size_t scale_bytes = groups * dtype_bytes(w->scale_dtype), code_bytes = w->n_rows * (w->n_cols * bits / 8);
    *rows = (struct weight_rows){.format = w->format,
                                 .scale_dtype = w->scale_dtype,
                                 .n_rows = w->n_rows,
                                 .n_cols = w->n_cols,
                                 .group = w->group,
                                 .row_bytes = w->n_cols * bits / 8,
                                 .scale_row_bytes = w->format == WEIGHT_E4M3 ? 0 : scale_bytes,
                                 .tensor_scale = 0.1f};
    unsigned char *codes = random_memory(code_bytes, w->format == WEIGHT_F32);
    if (w->format == WEIGHT_F16 || w->format == WEIGHT_BF16)
        for (size_t i = 1; i < code_bytes; i += 2) codes[i] = (codes[i] & 0x83) | 0x38; /* no NaN, no denormals */
    if (w->format == WEIGHT_MXFP8 || w->format == WEIGHT_E4M3)
        for (size_t i = 0; i < code_bytes; i++) codes[i] &= 0xbf;
    rows->codes = codes;
    double bytes = (double)code_bytes;
    for (int which = 0; groups && which < (weight_formats[w->format].has_biases ? 2 : 1); which++) {
        size_t all = w->format == WEIGHT_E4M3 ? scale_bytes : scale_bytes * w->n_rows;
        unsigned char *scales = random_memory(all, false);
        put_scales(scales, all / dtype_bytes(w->scale_dtype), w->scale_dtype);
        if (which)
            rows->biases = scales;
        else
            rows->scales = scales;
        bytes += (double)all;
    }
    return bytes;
}

static void bench_products(struct measuring *m, struct bench_case *bench, const struct kernels *table,
                           enum weight_format format, bool is_exact, int n_threads) {
    static const uint32_t row_counts[] = {1, 2, 4, 8, 16, 64, 256};
    struct weights_case w = {.format = format, .n_cols = 2048};
    check_weight_kind(&w, 0);
    size_t row_bytes = w.n_cols * (size_t)weight_formats[format].bits / 8;
    w.n_rows = (uint32_t)((96 << 20) / row_bytes / 512 * 512);
    struct product_bench p = {.multiply = is_exact ? table->matmul_exact : table->matmul[format]};
    enum activation_form form = is_exact ? ACTIVATION_F32 : matmul_activation_form(format);
    double bytes = make_weights(&p.rows, &w);
    float *x = random_memory(256 * (size_t)w.n_cols * 4, true);
    p.x_row_bytes = activation_row_bytes(form, w.n_cols);
    unsigned char *forms = random_memory(256 * p.x_row_bytes, false);
    for (uint32_t r = 0; r < 256; r++) {
        const float *row = x + (size_t)r * w.n_cols;
        if (form == ACTIVATION_F32)
            table->to_f32(row, w.n_cols, forms + r * p.x_row_bytes);
        else if (form == ACTIVATION_BF16)
            table->to_bf16(row, w.n_cols, forms + r * p.x_row_bytes);
        else
            table->to_q8(row, w.n_cols, form, forms + r * p.x_row_bytes);
    }
    p.x = forms;
    p.y = random_memory(256 * (size_t)w.n_rows * 4, true);
    for (int t = 0; t < n_threads; t++) p.scratch[t] = random_memory(matmul_scratch_bytes(w.n_cols), false);
    for (unsigned i = 0; i < sizeof row_counts / sizeof *row_counts; i++) {
        p.n_x = row_counts[i];
        p.rows_per_task = p.n_x > 16 ? 64 : 256;
        uint32_t n_rows = p.n_x > 16 ? 2048 : w.n_rows;
        bench->context = &p;
        bench->run = run_product;
        bench->n_tasks = n_rows / p.rows_per_task;
        bench->n_calls = 1;
        bench->has_wall = true;
        bench->is_int8 = !is_exact && form >= ACTIVATION_BYTES;
        bench->bytes = bytes;
        bench->flops = p.n_x > 16 ? 2.0 * p.n_x * n_rows * w.n_cols : 0;
        snprintf(bench->label, sizeof bench->label, "%s, %u rows x %u x %u", weight_formats[format].name, p.n_x,
                 w.n_cols, n_rows);
        bench_run(m, bench);
    }
    for (int t = 0; t < n_threads; t++) free(p.scratch[t]);
    free(x), free(forms), free(p.y);
    free((void *)(uintptr_t)p.rows.codes), free((void *)(uintptr_t)p.rows.scales),
        free((void *)(uintptr_t)p.rows.biases);
}

/* ---- attention ---- */

struct attention_bench {
    void (*attention)(const struct attention_job *job);
    struct attention_job job;
    uint32_t n_pages, n_heads; /* key heads, each with pages of its own */
    const unsigned char *keys, *values;
    size_t key_bytes, value_bytes; /* of a page */
    float *all_q, *all_out;
    void *scratch[MOST_THREADS];
};

/* One task is one key head: the queries over all of its pages. */
static void run_attention(const struct bench_case *bench, uint32_t task, int thread) {
    const struct attention_bench *a = bench->context;
    const void *keys[256], *values[256];
    const float *q[ATTENTION_MAX_QUERIES];
    float *out[ATTENTION_MAX_QUERIES];
    struct attention_job job = a->job;
    for (uint32_t page = 0; page < a->n_pages; page++) {
        keys[page] = a->keys + ((size_t)task * a->n_pages + page) * a->key_bytes;
        values[page] = a->values + ((size_t)task * a->n_pages + page) * a->value_bytes;
    }
    for (uint32_t i = 0; i < job.n_queries; i++) {
        q[i] = a->all_q + (size_t)i * job.key_dim;
        out[i] = a->all_out + ((size_t)task * job.n_queries + i) * job.value_dim;
    }
    job.q = q;
    job.out = out;
    job.key_pages = keys;
    job.value_pages = values;
    job.scratch = a->scratch[thread];
    a->attention(&job);
}

static void bench_attention_shape(struct measuring *m, struct bench_case *bench, struct attention_bench *a,
                                  uint32_t dim, uint32_t n_queries, enum kv_format format, int n_threads) {
    uint32_t first[ATTENTION_MAX_QUERIES] = {0}, end[ATTENTION_MAX_QUERIES];
    bool is_prefill = n_queries > 8;
    size_t cell = format == KV_F16 ? 2 : 4;
    a->job = (struct attention_job){.format = format,
                                    .n_queries = n_queries,
                                    .key_dim = dim,
                                    .value_dim = dim,
                                    .first_cell = first,
                                    .end_cell = end,
                                    .scale = 0.1f};
    a->n_pages = is_prefill ? 16 : 64;
    a->key_bytes = a->value_bytes = PAGE_CELLS * dim * cell;
    a->n_heads = (uint32_t)(is_prefill ? 8 : (size_t)(96 << 20) / (2 * a->key_bytes * a->n_pages));
    for (uint32_t i = 0; i < n_queries; i++)
        end[i] = a->n_pages * PAGE_CELLS - (is_prefill ? (n_queries - 1 - i) / 4 : 0);
    size_t all = a->key_bytes * a->n_pages * a->n_heads;
    uint16_t *pages = random_memory(2 * all, format == KV_F32);
    for (size_t i = 0; format == KV_F16 && i < all; i++) pages[i] = (pages[i] & 0x87ff) | 0x3000;
    a->keys = (const unsigned char *)pages;
    a->values = a->keys + all;
    a->all_q = random_memory((size_t)n_queries * dim * 4, true);
    a->all_out = random_memory((size_t)n_queries * dim * 4 * a->n_heads, true);
    for (int t = 0; t < n_threads; t++) a->scratch[t] = random_memory(attention_scratch_bytes(dim, dim), false);
    bench->context = a;
    bench->run = run_attention;
    bench->n_tasks = a->n_heads;
    bench->n_calls = a->n_heads;
    bench->has_wall = true;
    bench->bytes = 2.0 * (double)all;
    bench->flops = is_prefill ? 4.0 * n_queries * dim * a->n_pages * PAGE_CELLS * a->n_heads : 0;
    snprintf(bench->label, sizeof bench->label, "%s, dim %u, %u queries, %u cells", format == KV_F16 ? "f16" : "f32",
             dim, n_queries, a->n_pages * PAGE_CELLS);
    bench_run(m, bench);
    for (int t = 0; t < n_threads; t++) free(a->scratch[t]);
    free(pages), free(a->all_q), free(a->all_out);
}

static void bench_attention(struct measuring *m, struct bench_case *bench, const struct kernels *table, int n_threads) {
    static const uint32_t dims[] = {64, 128, 256}, queries[] = {1, 2, 4, 8, 64};
    struct attention_bench a = {.attention = table->attention};
    for (unsigned d = 0; d < 3; d++)
        for (unsigned i = 0; i < 5; i++)
            for (int format = 0; format < N_KV_FORMATS; format++)
                bench_attention_shape(m, bench, &a, dims[d], queries[i], (enum kv_format)format, n_threads);
}

/* ---- rows ---- */

enum { ROW = 4096, ROWS_A_TASK = 64 };

struct row_bench {
    const struct kernels *table;
    int kind;
    float *x[MOST_THREADS], *y[MOST_THREADS], *z[MOST_THREADS];
    struct weight_rows weights;
};

static void run_row(const struct bench_case *bench, uint32_t task, int thread) {
    const struct row_bench *b = bench->context;
    const struct kernels *k = b->table;
    float *x = b->x[thread], *y = b->y[thread], *z = b->z[thread];
    (void)task;
    for (int i = 0; i < ROWS_A_TASK; i++) switch (bench->id) {
        case KERNEL_to_f32: k->to_f32(x, ROW, y); break;
        case KERNEL_to_bf16: k->to_bf16(x, ROW, y); break;
        case KERNEL_to_q8: k->to_q8(x, ROW, (enum activation_form)b->kind, y); break;
        case KERNEL_dequantize_row: k->dequantize_row(&b->weights, 0, y); break;
        case KERNEL_dot: y[0] = k->dot(x, z, ROW); break;
        case KERNEL_rms_norm: k->rms_norm(x, z, 1e-5f, ROW, y); break;
        case KERNEL_layer_norm: k->layer_norm(x, z, z, 1e-5f, ROW, y); break;
        case KERNEL_add: k->add(x, z, ROW, y); break;
        case KERNEL_multiply: k->multiply(x, z, ROW, y); break;
        case KERNEL_scale: k->scale(x, 1.5f, ROW, y); break;
        case KERNEL_add_scaled: k->add_scaled(x, 1e-9f, ROW, y); break;
        case KERNEL_softcap: k->softcap(x, 30.0f, ROW, y); break;
        case KERNEL_clip: k->clip(x, -1.0f, 1.0f, ROW, y); break;
        case KERNEL_grid: k->grid(x, 0.5f, ROW, y); break;
        case KERNEL_xielu: k->xielu(x, 0.8f, 0.9f, 0.5f, -1e-6f, ROW, y); break;
        case KERNEL_unary: k->unary((enum unary)b->kind, x, ROW, y); break;
        case KERNEL_gated: k->gated((enum unary)b->kind, x, z, ROW, y); break;
        case KERNEL_softmax: k->softmax(y, ROW); break;
        case KERNEL_rope_halves: k->rope_halves(x, z, z, 128, y); break;
        case KERNEL_rope_pairs: k->rope_pairs(x, z, z, 128, y); break;
        case KERNEL_rope_angles: k->rope_angles(1000, z, 64, 1, y, y + 64); break;
        case KERNEL_kv_store: k->kv_store(KV_F16, x, 128, z, 128, (uint32_t)i, y, y + 8192); break;
        case KERNEL_conv:
            k->conv(&(struct conv_job){.n_rows = 1,
                                       .end = ROW,
                                       .n_channels = ROW,
                                       .taps = 4,
                                       .x = x,
                                       .x_stride = ROW,
                                       .y = y,
                                       .y_stride = ROW,
                                       .weight = z,
                                       .state = z + 4 * ROW,
                                       .silu = true});
            break;
        case KERNEL_mamba2:
            k->mamba2(&(struct mamba2_job){.head_dim = 64,
                                           .state_dim = 128,
                                           .x = x,
                                           .b = x,
                                           .c = x + 256,
                                           .dt = 0.01f,
                                           .a = -1,
                                           .d = 1,
                                           .state = z,
                                           .y = y});
            break;
        case KERNEL_mamba1:
            k->mamba1(&(struct mamba1_job){.n_channels = 64,
                                           .state_dim = 16,
                                           .x = x,
                                           .dt = x + 64,
                                           .d = x + 128,
                                           .a = x + 256,
                                           .b = x + 192,
                                           .c = x + 208,
                                           .state = z,
                                           .y = y});
            break;
        case KERNEL_lru: k->lru(&(struct lru_job){.n_channels = ROW, .x = x, .log_a = x, .state = z, .y = y}); break;
        case KERNEL_threshold: k->threshold(x, 1.5f, ROW, y); break;
        case KERNEL_dplr:
            k->dplr(&(struct dplr_job){.key_dim = 128,
                                       .value_dim = 128,
                                       .q = x,
                                       .decay = x + 384,
                                       .a = x + 512,
                                       .b = x + 640,
                                       .k = x + 128,
                                       .v = x + 256,
                                       .state = z,
                                       .y = y});
            break;
        default:
            k->delta(&(struct delta_job){.key_dim = 128,
                                         .value_dim = 128,
                                         .q = x,
                                         .k = x + 128,
                                         .v = x + 256,
                                         .decay = 0.9f,
                                         .beta = 0.01f,
                                         .state = z,
                                         .y = y});
        }
}

static const char *row_shape(int id) {
    switch (id) {
    case KERNEL_rope_halves:
    case KERNEL_rope_pairs: return "128";
    case KERNEL_rope_angles: return "64 angles";
    case KERNEL_kv_store: return "f16, dims 128";
    case KERNEL_conv: return "1 row, 4096 channels, 4 taps, silu";
    case KERNEL_mamba2: return "head 64, state 128";
    case KERNEL_mamba1: return "64 channels, state 16";
    case KERNEL_dplr:
    case KERNEL_delta: return "key 128, value 128";
    default: return "4096";
    }
}

static void bench_row(struct measuring *m, struct bench_case *bench, const struct kernels *table, int kind,
                      int n_threads) {
    struct row_bench b = {.table = table, .kind = kind};
    struct weights_case w = {.format = (enum weight_format)kind, .n_rows = 1, .n_cols = ROW};
    check_weight_kind(&w, 0);
    if (bench->id == KERNEL_dequantize_row) make_weights(&b.weights, &w);
    for (int t = 0; t < n_threads; t++) {
        b.x[t] = random_memory(ROW * 8 * 4, true);
        b.y[t] = random_memory(ROW * 8 * 4, true);
        b.z[t] = random_memory(ROW * 8 * 4, true);
    }
    bench->context = &b;
    bench->run = run_row;
    bench->n_tasks = (uint32_t)n_threads * 4;
    bench->n_calls = bench->n_tasks * ROWS_A_TASK / (double)n_threads; /* the time of a call on one thread */
    bench->bytes = bench->n_tasks * (double)ROWS_A_TASK * ROW * 4;
    bench->has_wall = false;
    snprintf(bench->label, sizeof bench->label, "%s%s%s", row_shape(bench->id), kind >= 0 ? ", " : "",
             kind < 0                             ? ""
             : bench->id == KERNEL_dequantize_row ? weight_formats[kind].name
                                                  : (const char[]){(char)('0' + kind), 0});
    bench_run(m, bench);
    for (int t = 0; t < n_threads; t++) free(b.x[t]), free(b.y[t]), free(b.z[t]);
    free((void *)(uintptr_t)b.weights.codes), free((void *)(uintptr_t)b.weights.scales);
    free((void *)(uintptr_t)b.weights.biases);
}

void bench_kernel(struct measuring *m, const struct kernels *table, enum kernel_tier tier, int id, int n_threads) {
    struct bench_case bench = {.tier = tier, .id = id};
    if (n_threads > MOST_THREADS) n_threads = MOST_THREADS;
    if (id >= KERNEL_matmul) {
        bench_products(m, &bench, table, (enum weight_format)(id - KERNEL_matmul), false, n_threads);
    } else if (id == KERNEL_matmul_exact) {
        for (int format = WEIGHT_BF16; format < N_WEIGHT_FORMATS; format++)
            bench_products(m, &bench, table, (enum weight_format)format, true, n_threads);
    } else if (id == KERNEL_attention) {
        bench_attention(m, &bench, table, n_threads);
    } else if (id == KERNEL_unary || id == KERNEL_gated) {
        for (int kind = 0; kind < N_UNARY; kind++) bench_row(m, &bench, table, kind, n_threads);
    } else if (id == KERNEL_dequantize_row) {
        for (int format = 0; format < N_WEIGHT_FORMATS; format++) bench_row(m, &bench, table, format, n_threads);
    } else if (id == KERNEL_to_q8) {
        for (int form = ACTIVATION_BYTES; form < N_ACTIVATION_FORMS; form++)
            bench_row(m, &bench, table, form, n_threads);
    } else {
        bench_row(m, &bench, table, -1, n_threads);
    }
}
