/* SPDX-License-Identifier: Apache-2.0 */
/* AVX2 products of quantised weights and quantised activations. */
#ifndef MLXCEL_KERNELS_AVX2_Q8_H
#define MLXCEL_KERNELS_AVX2_Q8_H

#include "kernels/kernels.h"

/* Sets to_q8 and the matmul entries of integer formats. */
void avx2_fill_q8(struct kernels *table);

void avx2_to_q8(const float *x, uint32_t n, enum activation_form order, void *out);
/* groups: scale groups in a block (1, 2 or 4). gemv reads the weights once for every four or eight activation rows; gemm unpacks a
 * panel of them first. */
void avx2_q8_gemv(const struct matmul_job *job, int groups);
void avx2_q8_gemm(const struct matmul_job *job, int groups);

#endif
