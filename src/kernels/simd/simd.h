/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels that the templates of this folder define, for the tier whose lanes.h stands before. */
#ifndef MLXCEL_KERNELS_SIMD_SIMD_H
#define MLXCEL_KERNELS_SIMD_SIMD_H

#include "kernels/kernels.h"

#define SIMD_DECLARE(name, result, arguments) result SIMD_NAME(name) arguments;
KERNELS(SIMD_DECLARE)
#undef SIMD_DECLARE

void SIMD_NAME(matmul_f32)(const struct matmul_job *job);
void SIMD_NAME(matmul_f16)(const struct matmul_job *job);
void SIMD_NAME(matmul_bf16)(const struct matmul_job *job);
void SIMD_NAME(matmul_e4m3)(const struct matmul_job *job); /* also mxfp8 */

#ifdef SIMD_HAS_DOT_PAIRS
void SIMD_NAME(matmul_bf16_dot)(const struct matmul_job *job);
void SIMD_NAME(matmul_e4m3_dot)(const struct matmul_job *job);
/* Whether the processor's dot product of bf16 pairs gives the bits of the bf16 rule. */
bool SIMD_NAME(dot_pairs_is_exact)(void);
#endif

#endif
