/* SPDX-License-Identifier: Apache-2.0 */
/* Products with bf16 weights and activations by fused multiply-adds. */
#include "kernels/simd/matmul.h"

TILE_TABLE(PANEL, TILE_WEIGHTS, TILE_ROWS);
TILE_TABLE(PAIRS, STREAM_WEIGHTS, STREAM_ROWS);

static const struct tile_set panel_set = {tiles_PANEL, OPERAND_PANEL, TILE_WEIGHTS, TILE_ROWS};
static const struct tile_set pairs_set = {tiles_PAIRS, OPERAND_PAIRS, STREAM_WEIGHTS, STREAM_ROWS};

void SIMD_NAME(matmul_bf16)(const struct matmul_job *job) {
    struct product p = product_of(job, RULE_PLANES);
    if (job->n_rows > FEW_ROWS) {
        multiply_panels(&p, &panel_set);
        return;
    }
    for (uint32_t r = 0; r < job->n_rows; r++) {
        float *planes = p.panel + r * p.panel_stride;
        planes_from_pairs(product_x(job, r), p.n_elements, planes);
        p.x[r] = planes;
    }
    multiply_few(&p, &pairs_set);
}
