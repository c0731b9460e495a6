/* SPDX-License-Identifier: Apache-2.0 */
/* Activations in the forms that matrix products want, and weight rows widened to f32. */
#include "kernels/ref/ref.h"

#include "kernels/ref/math.h"

void REF_NAME(to_f32)(const float *x, uint32_t n, void *out) {
    float *row = out;
    uint32_t padded = (n + 15) / 16 * 16;
    for (uint32_t k = 0; k < padded; k++) row[k] = k < n ? x[k] : 0.0f;
}

void REF_NAME(to_bf16)(const float *x, uint32_t n, void *out) {
    uint16_t *row = out;
    uint32_t padded = (n + 31) / 32 * 32;
    for (uint32_t k = 0; k < padded; k++) row[k] = k < n ? f32_to_bf16(x[k]) : 0;
}

/* Where column k of a block stands. */
static uint32_t place_in_block(enum activation_form order, uint32_t k) {
    switch (order) {
    case ACTIVATION_NIBBLES: return (k & 1) * 32 + k / 2;
    case ACTIVATION_CRUMBS: return (k & 3) * 16 + k / 4;
    default: return k;
    }
}

void REF_NAME(to_q8)(const float *x, uint32_t n, enum activation_form order, void *out) {
    struct q8 q = q8_view(out, n);
    int8_t *codes = (int8_t *)out;
    float *scale = (float *)(uintptr_t)q.scale, *sum64 = (float *)(uintptr_t)q.sum64;
    float *sum32 = (float *)(uintptr_t)q.sum32, *sum16 = (float *)(uintptr_t)q.sum16;
    memset(scale, 0, (size_t)q.n_padded * 32);
    for (uint32_t b = 0; b < q.n_blocks; b++) {
        uint32_t first = b * 64, count = n - first < 64 ? n - first : 64, largest = 0;
        for (uint32_t k = 0; k < count; k++) {
            uint32_t magnitude = f32_to_bits(x[first + k]) & 0x7fffffffu;
            if (magnitude > largest) largest = magnitude;
        }
        float absmax = f32_from_bits(largest);
        memset(codes + first, 0, 64);
        if (largest >= 0x7f800000u) {
            scale[b] = f32_from_bits(0x7fc00000u);
            continue;
        }
        if (absmax < Q8_SMALLEST) continue;
        float inverse = 127.0f / absmax;
        scale[b] = absmax / 127.0f;
        int sums[4] = {0};
        for (uint32_t k = 0; k < count; k++) {
            int code = (int)(f32_to_bits(round_magic(x[first + k] * inverse)) - ROUND_MAGIC_BITS);
            codes[first + place_in_block(order, k)] = (int8_t)code;
            sums[k / 16] += code;
        }
        for (uint32_t s = 0; s < 4; s++) sum16[s * q.n_padded + b] = (float)sums[s];
        for (uint32_t s = 0; s < 2; s++) sum32[s * q.n_padded + b] = (float)(sums[2 * s] + sums[2 * s + 1]);
        sum64[b] = (float)(sums[0] + sums[1] + sums[2] + sums[3]);
    }
}

float REF_NAME(weight_scale)(const struct weight_rows *w, const unsigned char *row, uint32_t group) {
    uint16_t half;
    float value;
    switch (w->scale_dtype) {
    case DTYPE_U8: return e8m0_to_f32(row[group]);
    case DTYPE_F8_E4M3: return e4m3_to_f32(row[group]);
    case DTYPE_F16: memcpy(&half, row + 2 * (size_t)group, 2); return f16_to_f32(half);
    case DTYPE_BF16: memcpy(&half, row + 2 * (size_t)group, 2); return bf16_to_f32(half);
    default: memcpy(&value, row + 4 * (size_t)group, 4); return value;
    }
}

unsigned REF_NAME(weight_code)(const struct weight_rows *w, const unsigned char *row, uint32_t column) {
    unsigned bits = (unsigned)weight_formats[w->format].bits;
    if (w->format == WEIGHT_TERNARY) return row[column] >> w->shift & 3;
    uint64_t at = (uint64_t)column * bits;
    unsigned word = row[at / 8];
    if (at % 8 + bits > 8) word |= (unsigned)row[at / 8 + 1] << 8;
    return word >> at % 8 & ((1u << bits) - 1);
}

void REF_NAME(dequantize_row)(const struct weight_rows *w, uint32_t index, float *out) {
    const unsigned char *codes = w->codes + (size_t)index * w->row_bytes;
    const unsigned char *scales = w->scales ? w->scales + (size_t)index * w->scale_row_bytes : NULL;
    const unsigned char *biases = w->biases ? w->biases + (size_t)index * w->scale_row_bytes : NULL;
    for (uint32_t k = 0; k < w->n_cols; k++) {
        uint32_t group = w->group ? k / w->group : 0;
        uint16_t half;
        switch (w->format) {
        case WEIGHT_F32: memcpy(&out[k], codes + 4 * (size_t)k, 4); break;
        case WEIGHT_F16:
            memcpy(&half, codes + 2 * (size_t)k, 2);
            out[k] = f16_to_f32(half);
            break;
        case WEIGHT_BF16:
            memcpy(&half, codes + 2 * (size_t)k, 2);
            out[k] = bf16_to_f32(half);
            break;
        case WEIGHT_MXFP4:
        case WEIGHT_NVFP4:
            out[k] = 0.5f * (float)e2m1_doubled(REF_NAME(weight_code)(w, codes, k)) *
                     REF_NAME(weight_scale)(w, scales, group);
            break;
        case WEIGHT_MXFP8:
        case WEIGHT_E4M3: out[k] = e4m3_to_f32(codes[k]) * REF_NAME(weight_scale)(w, scales, group); break;
        case WEIGHT_TERNARY: out[k] = (float)((int)REF_NAME(weight_code)(w, codes, k) - 1) * w->tensor_scale; break;
        default:
            out[k] = fused(REF_NAME(weight_scale)(w, scales, group), (float)REF_NAME(weight_code)(w, codes, k),
                           REF_NAME(weight_scale)(w, biases, group));
        }
    }
}
