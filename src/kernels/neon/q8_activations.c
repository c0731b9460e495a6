/* SPDX-License-Identifier: Apache-2.0 */
/* Activations quantised in blocks of 64 columns. */
#include "kernels/neon/q8.h"

#include "kernels/constants.h"

#include <arm_neon.h>
#include <string.h>

/* Where the parts of a row lie that is being written. */
struct q8_row {
    int8_t *codes;
    float *scale, *sum64, *sum32, *sum16;
    size_t padded;
};

static struct q8_row row_at(void *out, uint32_t n) {
    size_t padded = q8_padded(n);
    float *scale = (float *)(void *)((char *)out + (size_t)q8_blocks(n) * 64);
    return (struct q8_row){out, scale, scale + padded, scale + 2 * padded, scale + 4 * padded, padded};
}

/* The largest magnitude, as bits. */
static uint32_t largest_of_64(const float *x) {
    uint32x4_t largest = vdupq_n_u32(0);
    for (int i = 0; i < 64; i += 4)
        largest = vmaxq_u32(largest, vandq_u32(vreinterpretq_u32_f32(vld1q_f32(x + i)), vdupq_n_u32(0x7fffffff)));
    return vmaxvq_u32(largest);
}

/* 16 codes in column order: rounded to the nearest, ties to even. */
static int8x16_t codes_of_16(const float *x, float inverse) {
    int32x4_t code[4];
    for (int i = 0; i < 4; i++) code[i] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * i), inverse));
    int16x8_t low = vmovn_high_s32(vmovn_s32(code[0]), code[1]), high = vmovn_high_s32(vmovn_s32(code[2]), code[3]);
    return vmovn_high_s16(vmovn_s16(low), high);
}

static void store_block(int8_t *out, enum activation_form order, int8x16_t c[4]) {
    if (order == ACTIVATION_NIBBLES || order == ACTIVATION_CRUMBS) {
        int8x16_t even[2] = {vuzp1q_s8(c[0], c[1]), vuzp1q_s8(c[2], c[3])};
        int8x16_t odd[2] = {vuzp2q_s8(c[0], c[1]), vuzp2q_s8(c[2], c[3])};
        bool is_crumbs = order == ACTIVATION_CRUMBS;
        c[0] = is_crumbs ? vuzp1q_s8(even[0], even[1]) : even[0];
        c[1] = is_crumbs ? vuzp1q_s8(odd[0], odd[1]) : even[1];
        c[2] = is_crumbs ? vuzp2q_s8(even[0], even[1]) : odd[0];
        c[3] = is_crumbs ? vuzp2q_s8(odd[0], odd[1]) : odd[1];
    }
    for (int i = 0; i < 4; i++) vst1q_s8(out + 16 * i, c[i]);
}

static void quantize_block(const float *x, enum activation_form order, const struct q8_row *row, uint32_t b) {
    uint32_t largest = largest_of_64(x);
    int8_t *codes = row->codes + (size_t)b * 64;
    float absmax;
    memcpy(&absmax, &largest, sizeof absmax);
    if (largest >= 0x7f800000u || absmax < Q8_SMALLEST) {
        uint32_t nan = 0x7fc00000u;
        memset(codes, 0, 64);
        if (largest >= 0x7f800000u) memcpy(&row->scale[b], &nan, sizeof nan);
        return;
    }
    float inverse = 127.0f / absmax;
    int8x16_t c[4];
    int sums[4];
    for (int i = 0; i < 4; i++) {
        c[i] = codes_of_16(x + 16 * i, inverse);
        sums[i] = vaddlvq_s8(c[i]);
    }
    store_block(codes, order, c);
    row->scale[b] = absmax / 127.0f;
    for (uint32_t s = 0; s < 4; s++) row->sum16[s * row->padded + b] = (float)sums[s];
    row->sum32[b] = (float)(sums[0] + sums[1]);
    row->sum32[row->padded + b] = (float)(sums[2] + sums[3]);
    row->sum64[b] = (float)(sums[0] + sums[1] + sums[2] + sums[3]);
}

void neon_to_q8(const float *x, uint32_t n, enum activation_form order, void *out) {
    struct q8_row row = row_at(out, n);
    memset(row.scale, 0, row.padded * 32);
    uint32_t whole = n / 64;
    for (uint32_t b = 0; b < whole; b++) quantize_block(x + (size_t)b * 64, order, &row, b);
    if (n % 64) {
        float last[64] = {0};
        memcpy(last, x + (size_t)whole * 64, n % 64 * sizeof *x);
        quantize_block(last, order, &row, whole);
    }
}
