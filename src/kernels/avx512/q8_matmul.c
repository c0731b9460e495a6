/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the two ways a product with quantised activations takes, and the entries of the table. */
#include "kernels/avx512/q8.h"

/* From this many activation rows on, weights are unpacked into a panel. Measured on a Zen 4. */
enum { PANEL_ROWS = 33 };

static void matmul_q8(const struct matmul_job *job) {
    int groups = job->weights->group == 32 ? 2 : job->weights->group == 16 ? 4 : 1;
    if (job->n_rows < PANEL_ROWS)
        avx512_q8_gemv(job, groups);
    else
        avx512_q8_gemm(job, groups);
}

void avx512_fill_q8(struct kernels *table) {
    static const enum weight_format formats[] = {
        WEIGHT_AFFINE2, WEIGHT_AFFINE3, WEIGHT_AFFINE4, WEIGHT_AFFINE5, WEIGHT_AFFINE6,
        WEIGHT_AFFINE8, WEIGHT_MXFP4,   WEIGHT_NVFP4,   WEIGHT_TERNARY,
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        KERNELS_SET_MATMUL(table, TIER_AVX512, formats[i], matmul_q8);
}
