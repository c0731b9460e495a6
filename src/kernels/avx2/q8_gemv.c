/* SPDX-License-Identifier: Apache-2.0 */
/* Products with up to four quantised activation rows, for every kind of weights. */
#include "kernels/avx2/q8.h"

#include "kernels/avx2/q8_codes.h"
#include "kernels/simd/q8_gemv.h"

Q8_KINDS(GEMV_DEFINE)

static const gemv_function functions[N_WEIGHT_FORMATS][3][GEMV_ROWS + 1] = {Q8_KINDS(GEMV_ENTRY)};

void avx2_q8_gemv(const struct matmul_job *job, int groups) {
    const gemv_function *of_kind = functions[job->weights->format][groups / 2];
    uint32_t step;
    for (uint32_t first = 0; first < job->n_rows; first += step) {
        uint32_t left = job->n_rows - first;
        step = left >= 4 ? 4 : left >= 2 ? 2 : 1;
        of_kind[step](job, first);
    }
}
