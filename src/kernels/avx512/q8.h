/* SPDX-License-Identifier: Apache-2.0 */
/* AVX-512 (VNNI) products of quantised weights and quantised activations. */
#ifndef MLXCEL_KERNELS_AVX512_Q8_H
#define MLXCEL_KERNELS_AVX512_Q8_H

#include "kernels/kernels.h"

/* Sets the matmul entries of integer formats. */
void avx512_fill_q8(struct kernels *table);

/* groups: scale groups in a block (1, 2 or 4). gemv reads the weights once for every four or eight activation rows; gemm unpacks a
 * panel of them first. */
void avx512_q8_gemv(const struct matmul_job *job, int groups);
void avx512_q8_gemm(const struct matmul_job *job, int groups);

#endif
