/* SPDX-License-Identifier: Apache-2.0 */
/* Products with few quantised activation rows, for every kind of weights. */
#include "kernels/avx2/q8.h"

#include "kernels/avx2/q8_dots.h"
#include "kernels/simd/q8_gemv.h"

Q8_KINDS(GEMV_DEFINE)

static const gemv_function functions[N_WEIGHT_FORMATS][3][9] = {Q8_KINDS(GEMV_ENTRY)};

void avx2_q8_gemv(const struct matmul_job *job, int groups) {
    gemv(functions[job->weights->format][groups / 2], job, groups);
}
