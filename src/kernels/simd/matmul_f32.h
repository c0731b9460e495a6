/* SPDX-License-Identifier: Apache-2.0 */
/* Products with f32 activations: f32 and f16 weights, and every format in precision exact. */
#include "kernels/simd/matmul.h"

TILE_TABLE(PANEL, TILE_WEIGHTS, TILE_ROWS);
TILE_TABLE(F32, STREAM_WEIGHTS, STREAM_ROWS);
TILE_TABLE(F16, STREAM_WEIGHTS, STREAM_ROWS);

static const struct tile_set panel_set = {tiles_PANEL, OPERAND_PANEL, TILE_WEIGHTS, TILE_ROWS};
static const struct tile_set f32_set = {tiles_F32, OPERAND_F32, STREAM_WEIGHTS, STREAM_ROWS};
static const struct tile_set f16_set = {tiles_F16, OPERAND_F16, STREAM_WEIGHTS, STREAM_ROWS};

/* stream is NULL for weights that must be widened first. */
static void multiply_f32(const struct matmul_job *job, const struct tile_set *stream) {
    struct product p = product_of(job, RULE_F32);
    if (!stream || job->n_rows > FEW_ROWS) {
        multiply_panels(&p, &panel_set);
        return;
    }
    for (uint32_t r = 0; r < job->n_rows; r++) p.x[r] = product_x(job, r);
    multiply_few(&p, stream);
}

void SIMD_NAME(matmul_f32)(const struct matmul_job *job) { multiply_f32(job, &f32_set); }
void SIMD_NAME(matmul_f16)(const struct matmul_job *job) { multiply_f32(job, &f16_set); }

void SIMD_NAME(matmul_exact)(const struct matmul_job *job) {
    switch (job->weights->format) {
    case WEIGHT_F32: SIMD_NAME(matmul_f32)(job); break;
    case WEIGHT_F16: SIMD_NAME(matmul_f16)(job); break;
    default: multiply_f32(job, NULL);
    }
}
