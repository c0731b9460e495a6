/* SPDX-License-Identifier: Apache-2.0 */
/* Functions over 16 lanes, made of the tier's functions over registers. Included by the tier's lanes.h. */
#ifndef MLXCEL_KERNELS_SIMD_LANES_H
#define MLXCEL_KERNELS_SIMD_LANES_H

typedef struct {
    vec v[LANE_VECS];
} lanes;
typedef struct {
    ivec v[LANE_VECS];
} ilanes;
typedef struct {
    vec_mask v[LANE_VECS];
} lanes_mask;

#define LANES_EACH(expression)                                                                                         \
    SIMD_UNROLL for (int i = 0; i < LANE_VECS; i++) y.v[i] = (expression);                                             \
    return y

SIMD_INLINE lanes lanes_zero(void) {
    lanes y;
    LANES_EACH(vec_zero());
}
SIMD_INLINE lanes lanes_set1(float x) {
    lanes y;
    LANES_EACH(vec_set1(x));
}
SIMD_INLINE lanes lanes_load(const float *p) {
    lanes y;
    LANES_EACH(vec_load(p + i * VEC_FLOATS));
}
SIMD_INLINE lanes lanes_load_f16(const void *p) {
    lanes y;
    LANES_EACH(vec_load_f16((const char *)p + i * VEC_FLOATS * 2));
}
SIMD_INLINE void lanes_store(float *p, lanes a) {
    SIMD_UNROLL for (int i = 0; i < LANE_VECS; i++) vec_store(p + i * VEC_FLOATS, a.v[i]);
}
SIMD_INLINE lanes lanes_add(lanes a, lanes b) {
    lanes y;
    LANES_EACH(vec_add(a.v[i], b.v[i]));
}
SIMD_INLINE lanes lanes_sub(lanes a, lanes b) {
    lanes y;
    LANES_EACH(vec_sub(a.v[i], b.v[i]));
}
SIMD_INLINE lanes lanes_mul(lanes a, lanes b) {
    lanes y;
    LANES_EACH(vec_mul(a.v[i], b.v[i]));
}
SIMD_INLINE lanes lanes_sqrt(lanes a) {
    lanes y;
    LANES_EACH(vec_sqrt(a.v[i]));
}
SIMD_INLINE lanes lanes_div(lanes a, lanes b) {
    lanes y;
    LANES_EACH(vec_div(a.v[i], b.v[i]));
}
SIMD_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) {
    lanes y;
    LANES_EACH(vec_fma(a.v[i], b.v[i], c.v[i]));
}
SIMD_INLINE lanes lanes_fnma(lanes a, lanes b, lanes c) {
    lanes y;
    LANES_EACH(vec_fnma(a.v[i], b.v[i], c.v[i]));
}
SIMD_INLINE lanes lanes_min(lanes a, lanes b) {
    lanes y;
    LANES_EACH(vec_min(a.v[i], b.v[i]));
}
SIMD_INLINE lanes lanes_max(lanes a, lanes b) {
    lanes y;
    LANES_EACH(vec_max(a.v[i], b.v[i]));
}
SIMD_INLINE lanes lanes_and(lanes a, lanes b) {
    lanes y;
    LANES_EACH(vec_and(a.v[i], b.v[i]));
}
SIMD_INLINE lanes lanes_or(lanes a, lanes b) {
    lanes y;
    LANES_EACH(vec_or(a.v[i], b.v[i]));
}
SIMD_INLINE lanes_mask lanes_less(lanes a, lanes b) {
    lanes_mask y;
    LANES_EACH(vec_less(a.v[i], b.v[i]));
}
SIMD_INLINE lanes lanes_select(lanes_mask mask, lanes yes, lanes no) {
    lanes y;
    LANES_EACH(vec_select(mask.v[i], yes.v[i], no.v[i]));
}

SIMD_INLINE ilanes ilanes_set1(int32_t x) {
    ilanes y;
    LANES_EACH(ivec_set1(x));
}
SIMD_INLINE ilanes ilanes_add(ilanes a, ilanes b) {
    ilanes y;
    LANES_EACH(ivec_add(a.v[i], b.v[i]));
}
SIMD_INLINE ilanes ilanes_and(ilanes a, ilanes b) {
    ilanes y;
    LANES_EACH(ivec_and(a.v[i], b.v[i]));
}
SIMD_INLINE ilanes ilanes_or(ilanes a, ilanes b) {
    ilanes y;
    LANES_EACH(ivec_or(a.v[i], b.v[i]));
}
SIMD_INLINE ilanes ilanes_shl(ilanes a, int n) {
    ilanes y;
    LANES_EACH(ivec_shl(a.v[i], n));
}
SIMD_INLINE ilanes ilanes_shr(ilanes a, int n) {
    ilanes y;
    LANES_EACH(ivec_shr(a.v[i], n));
}
SIMD_INLINE ilanes ilanes_select(lanes_mask mask, ilanes yes, ilanes no) {
    ilanes y;
    LANES_EACH(ivec_select(mask.v[i], yes.v[i], no.v[i]));
}
SIMD_INLINE lanes_mask ilanes_greater(ilanes a, ilanes b) {
    lanes_mask y;
    LANES_EACH(ivec_greater(a.v[i], b.v[i]));
}
SIMD_INLINE ilanes lanes_bits(lanes a) {
    ilanes y;
    LANES_EACH(vec_bits(a.v[i]));
}
SIMD_INLINE lanes lanes_from_bits(ilanes a) {
    lanes y;
    LANES_EACH(vec_from_bits(a.v[i]));
}
SIMD_INLINE lanes lanes_from_int(ilanes a) {
    lanes y;
    LANES_EACH(vec_from_int(a.v[i]));
}
/* 16 bytes, each to 32 bits without sign. */
SIMD_INLINE ilanes ilanes_from_bytes(const unsigned char *p) {
    ilanes y;
    LANES_EACH(ivec_from_bytes(p + i * VEC_FLOATS));
}

#undef LANES_EACH

/* ---- the ends of rows ---- */

/* Up to 16 floats, then `pad`. */
SIMD_INLINE lanes lanes_load_part(const float *p, uint32_t n, float pad) {
    float part[16];
    for (uint32_t i = 0; i < 16; i++) part[i] = i < n ? p[i] : pad;
    return lanes_load(part);
}
SIMD_INLINE void lanes_store_part(float *p, lanes a, uint32_t n) {
    float part[16];
    lanes_store(part, a);
    for (uint32_t i = 0; i < n; i++) p[i] = part[i];
}
/* min(n, 16) floats, then zeros. */
SIMD_INLINE lanes lanes_load_some(const float *p, uint32_t n) {
    return n >= 16 ? lanes_load(p) : lanes_load_part(p, n, 0.0f);
}
SIMD_INLINE void lanes_store_some(float *p, lanes a, uint32_t n) {
    if (n >= 16)
        lanes_store(p, a);
    else
        lanes_store_part(p, a, n);
}
/* 0, 1, .. 15 */
SIMD_INLINE lanes lanes_places(void) {
    static const float places[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return lanes_load(places);
}
/* The first min(n, 16) lanes, the others zero. */
SIMD_INLINE lanes lanes_keep(lanes a, uint32_t n) {
    return n >= 16 ? a : lanes_select(lanes_less(lanes_places(), lanes_set1((float)n)), a, lanes_zero());
}
/* The first n lanes, the others -0: their products with +0 change no sum. */
SIMD_INLINE lanes lanes_neutral(lanes a, uint32_t n) {
    return lanes_select(lanes_less(lanes_places(), lanes_set1((float)n)), a, lanes_set1(-0.0f));
}

#endif
