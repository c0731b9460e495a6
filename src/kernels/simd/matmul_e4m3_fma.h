/* SPDX-License-Identifier: Apache-2.0 */
/* Products with e4m3 codes and block scales by fused multiply-adds. */
#include "kernels/simd/matmul_e4m3.h"

BLOCKS_TABLE(PANEL);

void SIMD_NAME(matmul_e4m3)(const struct matmul_job *job) { multiply_e4m3(job, RULE_PLANES, blocks_PANEL); }
