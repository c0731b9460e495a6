/* SPDX-License-Identifier: Apache-2.0 */
/* A weight row widened to f32, 16 columns at a time.
 *
 * 16 codes of B bits lie in 2 B bytes, so 16 bytes always hold them. These are repeated over the register; a byte pick
 * brings to each lane the two bytes that its code lies in, a shift by the lane and a mask leave the code. */
#include "kernels/simd/e4m3.h"
#include "kernels/simd/math.h"
#include "kernels/simd/scales.h"
#include "kernels/simd/simd.h"

#include <string.h>

#define PLACES(B, j)      (j) * (B) / 8, (j) * (B) / 8 + 1, 0x80, 0x80 /* 0x80 picks a zero */
#define FOUR_PLACES(B, j) PLACES(B, j), PLACES(B, (j) + 1), PLACES(B, (j) + 2), PLACES(B, (j) + 3)
#define SHIFTS(B, j)      (j) * (B) % 8, ((j) + 1) * (B) % 8, ((j) + 2) * (B) % 8, ((j) + 3) * (B) % 8
#define UNPACKING(B)                                                                                                   \
    [B] = {{FOUR_PLACES(B, 0), FOUR_PLACES(B, 4), FOUR_PLACES(B, 8), FOUR_PLACES(B, 12)},                              \
           {SHIFTS(B, 0), SHIFTS(B, 4), SHIFTS(B, 8), SHIFTS(B, 12)}}

static const struct unpacking {
    unsigned char places[64];
    int32_t shifts[16];
} unpackings[9] = {UNPACKING(2), UNPACKING(3), UNPACKING(4), UNPACKING(5), UNPACKING(6), UNPACKING(8)};

struct unpacker {
    ilanes places, shifts, mask;
    uint32_t bits;
};

SIMD_INLINE struct unpacker unpacker_for(uint32_t bits) {
    struct unpacker u = {.bits = bits, .mask = ilanes_set1((1 << bits) - 1)};
    SIMD_UNROLL for (int i = 0; i < LANE_VECS; i++) {
        u.places.v[i] = ivec_load(unpackings[bits].places + i * VEC_FLOATS * 4);
        u.shifts.v[i] = ivec_load(unpackings[bits].shifts + i * VEC_FLOATS);
    }
    return u;
}

/* Codes k .. k + 15 of a row of row_bytes bytes. Nothing past its end is read. */
SIMD_INLINE ilanes unpack(const struct unpacker *u, const unsigned char *row, size_t row_bytes, uint32_t k) {
    size_t at = (size_t)k * u->bits / 8, left = row_bytes - at;
    unsigned char end[16] = {0};
    const unsigned char *p = row + at;
    if (left < 16) p = memcpy(end, p, left);
    ivec all = ivec_repeat16(p);
    ilanes codes;
    SIMD_UNROLL for (int i = 0; i < LANE_VECS; i++) codes.v[i] =
        ivec_shr_each(ivec_pick_bytes(all, u->places.v[i]), u->shifts.v[i]);
    return ilanes_and(codes, u->mask);
}

/* ---- rows ---- */

/* Where row `index` lies. */
struct row {
    const unsigned char *codes, *scales, *biases;
    size_t bytes;
};

static struct row find_row(const struct weight_rows *w, uint32_t index) {
    struct row row = {.codes = w->codes + (size_t)index * w->row_bytes};
    row.bytes = ((size_t)w->n_cols * (size_t)weight_formats[w->format].bits + 7) / 8;
    if (w->scales) row.scales = w->scales + (size_t)index * w->scale_row_bytes;
    if (w->biases) row.biases = w->biases + (size_t)index * w->scale_row_bytes;
    return row;
}

/* bits is a constant; columns are a multiple of 32. */
SIMD_INLINE void affine_row(const struct weight_rows *w, const struct row *row, uint32_t bits, float *out) {
    struct unpacker u = unpacker_for(bits);
    for (uint32_t k = 0, group = 0; k < w->n_cols; group++) {
        lanes scale = lanes_set1(scale_at(w, row->scales, group)), bias = lanes_set1(scale_at(w, row->biases, group));
        for (uint32_t end = k + w->group; k < end; k += 16)
            lanes_store(out + k, lanes_fma(scale, lanes_from_int(unpack(&u, row->codes, row->bytes, k)), bias));
    }
}

#define DEFINE_AFFINE(B)                                                                                               \
    SIMD_NOINLINE void affine_row_##B(const struct weight_rows *w, const struct row *row, float *out) {                \
        affine_row(w, row, B, out);                                                                                    \
    }
/* clang-format off: calls without semicolons */
DEFINE_AFFINE(2)
DEFINE_AFFINE(3)
DEFINE_AFFINE(4)
DEFINE_AFFINE(5)
DEFINE_AFFINE(6)
DEFINE_AFFINE(8)
/* clang-format on */

/* e2m1: a byte pick gives twice the value plus 12. Columns are a multiple of 16. */
SIMD_NOINLINE void fp4_row(const struct weight_rows *w, const struct row *row, float *out) {
    static const unsigned char values[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
    struct unpacker u = unpacker_for(4);
    ivec table = ivec_repeat16(values);
    ilanes zeros = ilanes_set1((int32_t)0x80808000u);
    for (uint32_t k = 0, group = 0; k < w->n_cols; group++) {
        lanes scale = lanes_set1(scale_at(w, row->scales, group));
        for (uint32_t end = k + w->group; k < end; k += 16) {
            ilanes codes = ilanes_or(unpack(&u, row->codes, row->bytes, k), zeros), twelve_up;
            SIMD_UNROLL for (int i = 0; i < LANE_VECS; i++) twelve_up.v[i] = ivec_pick_bytes(table, codes.v[i]);
            lanes value = lanes_fma(lanes_from_int(twelve_up), lanes_set1(0.5f), lanes_set1(-6.0f));
            lanes_store(out + k, lanes_mul(value, scale));
        }
    }
}

/* 16 bytes of a row of n columns from k on, zeros after its end. */
SIMD_INLINE const unsigned char *bytes_at(const unsigned char *row, uint32_t k, uint32_t n, unsigned char *end) {
    if (n - k >= 16) return row + k;
    for (uint32_t i = 0; i < 16; i++) end[i] = k + i < n ? row[k + i] : 0;
    return end;
}

SIMD_NOINLINE void e4m3_row(const struct weight_rows *w, const struct row *row, float *out) {
    unsigned char end[16];
    for (uint32_t k = 0; k < w->n_cols; k += 16) {
        lanes value = lanes_from_e4m3(halves_from_bytes(bytes_at(row->codes, k, w->n_cols, end)));
        lanes scale = lanes_set1(scale_at(w, row->scales, k / w->group));
        lanes_store_some(out + k, lanes_mul(value, scale), w->n_cols - k);
    }
}

SIMD_NOINLINE void ternary_row(const struct weight_rows *w, const struct row *row, float *out) {
    lanes scale = lanes_set1(w->tensor_scale), one = lanes_set1(1.0f);
    unsigned char end[16];
    for (uint32_t k = 0; k < w->n_cols; k += 16) {
        ilanes bytes = ilanes_from_bytes(bytes_at(row->codes, k, w->n_cols, end));
        ilanes codes = ilanes_and(ilanes_shr(bytes, (int)w->shift), ilanes_set1(3));
        lanes_store_some(out + k, lanes_mul(lanes_sub(lanes_from_int(codes), one), scale), w->n_cols - k);
    }
}

SIMD_NOINLINE void f32_row(const struct weight_rows *w, const struct row *row, float *out) {
    memcpy(out, row->codes, (size_t)w->n_cols * sizeof *out);
}

SIMD_NOINLINE void f16_row(const struct weight_rows *w, const struct row *row, float *out) {
    uint32_t k = 0;
    uint16_t end[16] = {0};
    for (; k + 16 <= w->n_cols; k += 16) lanes_store(out + k, lanes_load_f16(row->codes + 2 * (size_t)k));
    memcpy(end, row->codes + 2 * (size_t)k, (w->n_cols - k) * sizeof *end);
    if (k < w->n_cols) lanes_store_part(out + k, lanes_load_f16(end), w->n_cols - k);
}

SIMD_NOINLINE void bf16_row(const struct weight_rows *w, const struct row *row, float *out) {
    uint32_t k = 0;
    uint16_t end[16] = {0};
    for (; k + 16 <= w->n_cols; k += 16) lanes_store(out + k, lanes_load_bf16(row->codes + 2 * (size_t)k));
    memcpy(end, row->codes + 2 * (size_t)k, (w->n_cols - k) * sizeof *end);
    if (k < w->n_cols) lanes_store_part(out + k, lanes_load_bf16(end), w->n_cols - k);
}

void SIMD_NAME(dequantize_row)(const struct weight_rows *w, uint32_t index, float *out) {
    static void (*const rows[N_WEIGHT_FORMATS])(const struct weight_rows *, const struct row *, float *) = {
        [WEIGHT_F32] = f32_row,          [WEIGHT_F16] = f16_row,          [WEIGHT_BF16] = bf16_row,
        [WEIGHT_AFFINE2] = affine_row_2, [WEIGHT_AFFINE3] = affine_row_3, [WEIGHT_AFFINE4] = affine_row_4,
        [WEIGHT_AFFINE5] = affine_row_5, [WEIGHT_AFFINE6] = affine_row_6, [WEIGHT_AFFINE8] = affine_row_8,
        [WEIGHT_MXFP4] = fp4_row,        [WEIGHT_NVFP4] = fp4_row,        [WEIGHT_MXFP8] = e4m3_row,
        [WEIGHT_E4M3] = e4m3_row,        [WEIGHT_TERNARY] = ternary_row,
    };
    struct row row = find_row(w, index);
    rows[w->format](w, &row, out);
}
