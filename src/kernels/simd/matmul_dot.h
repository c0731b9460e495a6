/* SPDX-License-Identifier: Apache-2.0 */
/* Products with bf16 weights and activations by the processor's dot products of pairs. */
#include "kernels/simd/matmul.h"

TILE_TABLE(DOT_PANEL, TILE_WEIGHTS, TILE_ROWS);
TILE_TABLE(DOT, STREAM_WEIGHTS, STREAM_ROWS);

static const struct tile_set panel_set = {tiles_DOT_PANEL, OPERAND_DOT_PANEL, TILE_WEIGHTS, TILE_ROWS};
static const struct tile_set stream_set = {tiles_DOT, OPERAND_DOT, STREAM_WEIGHTS, STREAM_ROWS};

void SIMD_NAME(matmul_bf16_dot)(const struct matmul_job *job) {
    struct product p = product_of(job, RULE_DOT);
    if (job->n_rows > FEW_ROWS) {
        multiply_panels(&p, &panel_set);
        return;
    }
    for (uint32_t r = 0; r < job->n_rows; r++) p.x[r] = product_x(job, r);
    multiply_few(&p, &stream_set);
}
