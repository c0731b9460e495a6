/* SPDX-License-Identifier: Apache-2.0 */
/* Products with bf16 weights and activations by fused multiply-adds. */
#include "kernels/simd/matmul.h"

TILE_TABLE(F32, TILE_WEIGHTS, TILE_ROWS);
TILE_TABLE(PAIRS, PAIRS_WEIGHTS, PAIRS_ROWS);

static const struct tile_set planes_set = {tiles_F32, TILE_WEIGHTS, TILE_ROWS, 16};
static const struct tile_set pairs_set = {tiles_PAIRS, PAIRS_WEIGHTS, PAIRS_ROWS, 32};

void SIMD_NAME(matmul_bf16)(const struct matmul_job *job) {
    struct product p = product_of(job, OPERAND_PAIRS);
    if (job->n_rows > FEW_ROWS) {
        multiply_panels(&p, &planes_set);
        return;
    }
    for (uint32_t r = 0; r < job->n_rows; r++) {
        float *planes = p.panel + r * p.panel_stride;
        planes_from_pairs(product_x(job, r), p.n_cols, planes);
        p.x[r] = planes;
    }
    multiply_few(&p, &pairs_set);
}
