/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of kernels/walls.h. */
#include "kernels/walls.h"

#include <arm_neon.h>

static inline void prefetch_line(const uint8_t *p, size_t distance) {
    if (distance >= WALL_FAR)
        __builtin_prefetch(p + distance, 0, 2);
    else if (distance)
        __builtin_prefetch(p + distance);
}

static inline uint64_t fold(const uint8x16_t sum[4]) {
    uint64x2_t all = vreinterpretq_u64_u8(veorq_u8(veorq_u8(sum[0], sum[1]), veorq_u8(sum[2], sum[3])));
    return vgetq_lane_u64(all, 0) ^ vgetq_lane_u64(all, 1);
}

static uint64_t read_16(const void *memory, size_t bytes, size_t prefetch) {
    uint8x16_t sum[4] = {vdupq_n_u8(0), vdupq_n_u8(0), vdupq_n_u8(0), vdupq_n_u8(0)};
    for (const uint8_t *p = memory, *end = p + bytes; p < end; p += 64) {
        prefetch_line(p, prefetch);
        for (int j = 0; j < 4; j++) sum[j] = veorq_u8(sum[j], vld1q_u8(p + 16 * j));
    }
    return fold(sum);
}

/* Two registers with one instruction. */
static uint64_t read_32(const void *memory, size_t bytes, size_t prefetch) {
    uint8x16_t sum[4] = {vdupq_n_u8(0), vdupq_n_u8(0), vdupq_n_u8(0), vdupq_n_u8(0)};
    for (const uint8_t *p = memory, *end = p + bytes; p < end; p += 128) {
        prefetch_line(p, prefetch);
        prefetch_line(p + 64, prefetch);
        for (int j = 0; j < 4; j++) {
            uint8x16x2_t x = vld1q_u8_x2(p + 32 * j);
            sum[j] = veorq_u8(sum[j], veorq_u8(x.val[0], x.val[1]));
        }
    }
    return fold(sum);
}

/* Chains of operations, enough for four pipes of four steps. The empty statements keep the compiler from seeing that the
 * factors are always the same. */
enum { CHAINS = 24 };

static uint64_t multiply(uint64_t rounds) {
    int8x16_t a = vdupq_n_s8(15), b = vdupq_n_s8(-127);
    int32x4_t sums[CHAINS];
    for (int i = 0; i < CHAINS; i++) sums[i] = vdupq_n_s32(0);
    for (uint64_t r = 0; r < rounds; r++) {
        __asm__ volatile("" : "+w"(b));
#pragma GCC unroll 24
        for (int i = 0; i < CHAINS; i++) sums[i] = vdotq_s32(sums[i], a, b);
    }
    for (int i = 1; i < CHAINS; i++) sums[0] = vaddq_s32(sums[0], sums[i]);
    return (uint32_t)vaddvq_s32(sums[0]);
}

_Static_assert(FMA_FLOPS % (CHAINS * 4 * 2) == 0, "whole rounds");

static uint64_t fuse(uint64_t rounds) {
    float32x4_t sums[CHAINS], x = vdupq_n_f32(0.5f), y = vdupq_n_f32(0.25f);
    for (int i = 0; i < CHAINS; i++) sums[i] = vdupq_n_f32((float)i);
    for (uint64_t r = 0; r < rounds * (FMA_FLOPS / (CHAINS * 4 * 2)); r++) {
        __asm__ volatile("" : "+w"(y));
#pragma GCC unroll 24
        for (int i = 0; i < CHAINS; i++) sums[i] = vfmaq_f32(sums[i], x, y);
    }
    for (int i = 1; i < CHAINS; i++) sums[0] = vaddq_f32(sums[0], sums[i]);
    return (uint64_t)vgetq_lane_f32(sums[0], 0);
}

const struct wall_loops wall_loops_neon = {{16, 32}, {read_16, read_32}, multiply, (uint64_t)CHAINS * 16 * 2, fuse};
