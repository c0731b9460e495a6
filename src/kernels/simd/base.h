/* SPDX-License-Identifier: Apache-2.0 */
/* The templates of kernels/simd: kernels written once over 16 lanes of f32.
 *
 * A tier is kernels/<tier>/lanes.h, the only place with intrinsics, and one small source file for each template, which
 * includes that header and then the template. lanes.h gives
 *
 *   vec, ivec        a register of VEC_FLOATS f32 or i32; LANE_VECS of them are 16 lanes
 *   halves           16 numbers of 16 bits
 *   SIMD_NAME(name)  the tier's prefix for functions that other files see
 *   TILE_WEIGHTS, TILE_ROWS    outputs whose 16 lanes the register file holds at once, for matrix products
 *
 * and one-instruction functions over them; simd/lanes.h makes functions over 16 lanes of these. Comparisons and minima
 * with a NaN go as in C: vec_min(a, b) is a < b ? a : b, vec_max(a, b) is a > b ? a : b. */
#ifndef MLXCEL_KERNELS_SIMD_BASE_H
#define MLXCEL_KERNELS_SIMD_BASE_H

#include <stdint.h>

#define SIMD_INLINE   static inline __attribute__((always_inline))
#define SIMD_NOINLINE static __attribute__((noinline))

/* Before a loop of constant length, of which nothing may be left: its arrays are registers. */
#ifdef __clang__
#define SIMD_UNROLL _Pragma("clang loop unroll(full)")
#else
#define SIMD_UNROLL _Pragma("GCC unroll 64")
#endif

#endif
