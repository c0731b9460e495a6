/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels whose last result has a wrong last bit, and only in some calls: what a check must find. */
#include "tests/kernels/checkkern/check.h"

#include <string.h>

static const struct kernels *right;

static void flip(void *memory) { *(unsigned char *)memory ^= 1; }

static uint32_t last(uint32_t n) { return n - 1; }

static void bad_to_f32(const float *x, uint32_t n, void *out) {
    right->to_f32(x, n, out);
    flip((float *)out + last(n));
}
static void bad_to_bf16(const float *x, uint32_t n, void *out) {
    right->to_bf16(x, n, out);
    flip((uint16_t *)out + last(n));
}
static void bad_to_q8(const float *x, uint32_t n, enum activation_form order, void *out) {
    right->to_q8(x, n, order, out);
    flip((uint8_t *)out + last(q8_blocks(n) * 64));
}
static void bad_dequantize_row(const struct weight_rows *weights, uint32_t row, float *out) {
    right->dequantize_row(weights, row, out);
    flip(out + last(weights->n_cols));
}
static float bad_dot(const float *a, const float *b, uint32_t n) {
    float y = right->dot(a, b, n);
    if (n % 16 == 7) flip(&y);
    return y;
}
static void bad_rms_norm(const float *x, const float *weight, float eps, uint32_t n, float *y) {
    right->rms_norm(x, weight, eps, n, y);
    if (n % 16) flip(y + last(n));
}
static void bad_layer_norm(const float *x, const float *weight, const float *bias, float eps, uint32_t n, float *y) {
    right->layer_norm(x, weight, bias, eps, n, y);
    if (!weight && bias) flip(y + last(n));
}
static void bad_add(const float *a, const float *b, uint32_t n, float *y) {
    right->add(a, b, n, y);
    if (n == 33) flip(y + last(n));
}
static void bad_multiply(const float *a, const float *b, uint32_t n, float *y) {
    right->multiply(a, b, n, y);
    if (n == 1024) flip(y);
}
static void bad_scale(const float *x, float factor, uint32_t n, float *y) {
    right->scale(x, factor, n, y);
    flip(y + last(n));
}
static void bad_add_scaled(const float *x, float factor, uint32_t n, float *y) {
    right->add_scaled(x, factor, n, y);
    flip(y + last(n));
}
static void bad_grid(const float *x, float step, uint32_t n, float *y) {
    right->grid(x, step, n, y);
    flip(y + last(n));
}
static void bad_xielu(const float *x, float a_p, float a_n, float beta, float epsilon, uint32_t n, float *y) {
    right->xielu(x, a_p, a_n, beta, epsilon, n, y);
    if (n % 16 == 3) flip(y + last(n));
}
static void bad_softcap(const float *x, float cap, uint32_t n, float *y) {
    right->softcap(x, cap, n, y);
    flip(y + last(n));
}
static void bad_clip(const float *x, float low, float high, uint32_t n, float *y) {
    right->clip(x, low, high, n, y);
    flip(y + last(n));
}
static void bad_unary(enum unary kind, const float *x, uint32_t n, float *y) {
    right->unary(kind, x, n, y);
    if (kind == UNARY_SOFTPLUS) flip(y);
}
static void bad_gated(enum unary kind, const float *gate, const float *up, uint32_t n, float *y) {
    right->gated(kind, gate, up, n, y);
    if (kind == UNARY_RELU2 && n > 16) flip(y + last(n));
}
static void bad_softmax(float *x, uint32_t n) {
    right->softmax(x, n);
    flip(x + last(n));
}
static void bad_rope_halves(const float *x, const float *cosine, const float *sine, uint32_t n, float *y) {
    right->rope_halves(x, cosine, sine, n, y);
    flip(y + n / 2);
}
static void bad_rope_pairs(const float *x, const float *cosine, const float *sine, uint32_t n, float *y) {
    right->rope_pairs(x, cosine, sine, n, y);
    flip(y + n / 2);
}
static void bad_rope_angles(float position, const float *inverse_frequency, uint32_t n, float factor, float *cosine,
                            float *sine) {
    right->rope_angles(position, inverse_frequency, n, factor, cosine, sine);
    flip(sine + last(n));
}
static void bad_kv_store(enum kv_format format, const float *key, uint32_t key_dim, const float *value,
                         uint32_t value_dim, uint32_t cell, void *key_page, void *value_page) {
    right->kv_store(format, key, key_dim, value, value_dim, cell, key_page, value_page);
    if (cell == 63 && format == KV_F16) flip((uint16_t *)value_page + last(64 * value_dim));
}
static void bad_index_scores(const struct index_job *job) {
    right->index_scores(job);
    if (job->n_heads > 4) flip(job->scores + 63);
}
static void bad_attention(const struct attention_job *job) {
    right->attention(job);
    if (job->sinks) flip(job->out[last(job->n_queries)] + last(job->value_dim));
}
static void bad_conv(const struct conv_job *job) {
    right->conv(job);
    if (job->taps > 1) flip(job->state + (size_t)(job->taps - 2) * job->n_channels + job->end - 1);
}
static void bad_mamba2(const struct mamba2_job *job) {
    right->mamba2(job);
    flip(job->state + last(job->head_dim * job->state_dim));
}
static void bad_mamba1(const struct mamba1_job *job) {
    right->mamba1(job);
    flip(job->state + last(job->n_channels * job->state_dim));
}
static void bad_lru(const struct lru_job *job) {
    right->lru(job);
    if (!job->is_first) flip(job->y + last(job->n_channels));
}
static void bad_dplr(const struct dplr_job *job) {
    right->dplr(job);
    if (job->key_dim == 64) flip(job->y + last(job->value_dim));
}
static void bad_threshold(const float *x, float factor, uint32_t n, float *y) {
    right->threshold(x, factor, n, y);
    flip(y + last(n));
}
static void bad_delta(const struct delta_job *job) {
    right->delta(job);
    if (job->key_dim == 64) flip(job->y + last(job->value_dim));
}

static void bad_row_load(const float *logits, uint32_t n, float *x) {
    right->row_load(logits, n, x);
    flip(x + last(n));
}
static void bad_row_maxima(const float *x, uint32_t n, float *maxima) {
    right->row_maxima(x, n, maxima);
    flip(maxima + last(row_chunks(n) * ROW_LANES));
}
static void bad_row_weights(const float *x, float shift, float scale, uint32_t n, float *w, double *sums) {
    right->row_weights(x, shift, scale, n, w, sums);
    flip(sums + last(row_chunks(n)));
}
static void bad_row_split(const float *key, const float *w, uint32_t n, float high, float low,
                          struct row_split *split) {
    right->row_split(key, w, n, high, low, split);
    flip(&split->from_low);
}
static uint32_t bad_row_find(const float *key, uint32_t first, uint32_t end, float high, float low, uint32_t *found) {
    uint32_t n = right->row_find(key, first, end, high, low, found);
    if (n > 1) flip(found + 1);
    return n;
}
static void bad_row_keep(const float *key, float value, uint32_t n, float *x) {
    right->row_keep(key, value, n, x);
    flip(x);
}

static void spoil_product(const struct matmul_job *job) {
    uint32_t r = last(job->n_rows);
    flip(job->y + (job->y_ids ? job->y_ids[r] : r) * job->y_stride + last(job->weights->n_rows));
}
static void bad_matmul_exact(const struct matmul_job *job) {
    right->matmul_exact(job);
    if (job->weights->format == WEIGHT_AFFINE5 && job->n_rows > 4) spoil_product(job);
}
static void bad_matmul(const struct matmul_job *job) {
    right->matmul[job->weights->format](job);
    if (job->n_rows > 1) spoil_product(job);
}

void mutant_table(struct kernels *table, const struct kernels *ref, int id) {
    right = ref;
    *table = *ref;
    if (id >= KERNEL_matmul) {
        table->matmul[id - KERNEL_matmul] = bad_matmul;
        return;
    }
    switch (id) {
#define SPOIL(name, result, arguments)                                                                                 \
    case KERNEL_##name: table->name = bad_##name; break;
        KERNELS(SPOIL)
#undef SPOIL
    default: break;
    }
}
