/* SPDX-License-Identifier: Apache-2.0 */
/* Products with e4m3 codes and block scales by the processor's dot products of pairs. */
#include "kernels/simd/matmul_e4m3.h"

BLOCKS_TABLE(DOT_PANEL);

void SIMD_NAME(matmul_e4m3_dot)(const struct matmul_job *job) { multiply_e4m3(job, RULE_DOT, blocks_DOT_PANEL); }
