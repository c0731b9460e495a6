/* SPDX-License-Identifier: Apache-2.0 */
/* Products with many quantised activation rows, for every kind of weights. */
#include "kernels/avx2/q8.h"

#include "base/memory.h"
#include "kernels/avx2/q8_tile.h"
#include "kernels/simd/q8_gemm.h"

Q8_KINDS(GEMM_DEFINE)

static const struct gemm_kind kinds[N_WEIGHT_FORMATS][3] = {Q8_KINDS(GEMM_ENTRY)};

void avx2_q8_gemm(const struct matmul_job *job, int groups) {
    gemm(&kinds[job->weights->format][groups / 2], job, groups);
}
