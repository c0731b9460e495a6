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

#endif
