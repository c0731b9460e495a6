/* SPDX-License-Identifier: Apache-2.0 */
/* NEON products of quantised weights and quantised activations, by the dot products of signed bytes. */
#ifndef MLXCEL_KERNELS_NEON_Q8_H
#define MLXCEL_KERNELS_NEON_Q8_H

#include "kernels/kernels.h"

/* Sets to_q8 and the matmul entries of integer formats. */
void neon_fill_q8(struct kernels *table);

void neon_to_q8(const float *x, uint32_t n, enum activation_form order, void *out);
/* groups: scale groups in a block (1, 2 or 4). gemv reads the weights once for every four activation rows; gemm unpacks a
 * panel of them first. */
void neon_q8_gemv(const struct matmul_job *job, int groups);
void neon_q8_gemm(const struct matmul_job *job, int groups);

#endif
