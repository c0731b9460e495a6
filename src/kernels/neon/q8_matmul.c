/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the two ways a product with quantised activations takes, and the entries of the table. */
#include "kernels/neon/q8.h"

/* From this many activation rows on, weights are unpacked into a panel. A guess, not measured. */
enum { PANEL_ROWS = 16 };

static void matmul_q8(const struct matmul_job *job) {
    int groups = job->weights->group == 32 ? 2 : job->weights->group == 16 ? 4 : 1;
    if (job->n_rows < PANEL_ROWS)
        neon_q8_gemv(job, groups);
    else
        neon_q8_gemm(job, groups);
}

void neon_fill_q8(struct kernels *table) {
    static const enum weight_format formats[] = {
        WEIGHT_AFFINE2, WEIGHT_AFFINE3, WEIGHT_AFFINE4, WEIGHT_AFFINE5, WEIGHT_AFFINE6,
        WEIGHT_AFFINE8, WEIGHT_MXFP4,   WEIGHT_NVFP4,   WEIGHT_TERNARY,
    };
    KERNELS_SET(table, TIER_NEON, to_q8, neon_to_q8);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        KERNELS_SET_MATMUL(table, TIER_NEON, formats[i], matmul_q8);
}
