/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of kernels/ref share. The names carry a prefix for the two builds of this folder (REF_NAME). */
#ifndef MLXCEL_KERNELS_REF_REF_H
#define MLXCEL_KERNELS_REF_REF_H

#include "kernels/kernels.h"
#include "kernels/ref/math.h"

#define REF_DECLARE(name, result, arguments) result REF_NAME(name) arguments;
KERNELS(REF_DECLARE)
#undef REF_DECLARE

/* Precision fast, one for each class of formats. */
void REF_NAME(matmul_float)(const struct matmul_job *job); /* f32, f16 weights; f32 activations */
void REF_NAME(matmul_bf16)(const struct matmul_job *job);  /* bf16 weights; bf16 activations */
void REF_NAME(matmul_e4m3)(const struct matmul_job *job);  /* e4m3 codes with block scales; bf16 activations */
void REF_NAME(matmul_q8)(const struct matmul_job *job);    /* integer codes; q8 activations */

/* Scale or bias number `group` of a row of scales, widened. */
float REF_NAME(weight_scale)(const struct weight_rows *weights, const unsigned char *row, uint32_t group);
/* The code of one column, as stored. */
unsigned REF_NAME(weight_code)(const struct weight_rows *weights, const unsigned char *row, uint32_t column);

#endif
