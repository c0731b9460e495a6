/* SPDX-License-Identifier: Apache-2.0 */
/* The wall of f32 arithmetic: fused multiply-adds in registers (kernels/walls.h). */
#include "kernels/walls.h"

enum { WALL_CHAINS = 12 }; /* enough for two pipes of four or five steps */

_Static_assert(WALL_CHAINS * 32 % VEC_FLOATS == 0, "whole rounds");

uint64_t SIMD_NAME(wall_fma)(uint64_t rounds) {
    vec sums[WALL_CHAINS], x = vec_set1(0.5f), y = vec_set1(0.25f);
    SIMD_UNROLL for (int i = 0; i < WALL_CHAINS; i++) sums[i] = vec_set1((float)i);
    for (uint64_t r = 0; r < rounds * (32 / VEC_FLOATS); r++)
        SIMD_UNROLL for (int i = 0; i < WALL_CHAINS; i++) sums[i] = vec_fma(sums[i], x, y);
    SIMD_UNROLL for (int i = 1; i < WALL_CHAINS; i++) sums[0] = vec_add(sums[0], sums[i]);
    float all[VEC_FLOATS];
    vec_store(all, sums[0]);
    return (uint64_t)all[0];
}
