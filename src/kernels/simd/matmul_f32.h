/* SPDX-License-Identifier: Apache-2.0 */
/* Products with f32 activations: f32 and f16 weights, and every format in precision exact. */
#include "kernels/simd/matmul.h"

TILE_TABLE(F32, TILE_WEIGHTS, TILE_ROWS);
TILE_TABLE(F16, TILE_WEIGHTS, TILE_ROWS);

static const struct tile_set f32_set = {tiles_F32, TILE_WEIGHTS, TILE_ROWS, 16};
static const struct tile_set f16_set = {tiles_F16, TILE_WEIGHTS, TILE_ROWS, 32};

static void multiply_f32(const struct matmul_job *job, enum operand operand, const struct tile_set *set) {
    struct product p = product_of(job, operand);
    for (uint32_t r = 0; r < job->n_rows && r < FEW_ROWS; r++) p.x[r] = product_x(job, r);
    if (set && job->n_rows <= FEW_ROWS) multiply_few(&p, set);
    else multiply_panels(&p, &f32_set);
}

void SIMD_NAME(matmul_f32)(const struct matmul_job *job) { multiply_f32(job, OPERAND_F32, &f32_set); }
void SIMD_NAME(matmul_f16)(const struct matmul_job *job) { multiply_f32(job, OPERAND_F16, &f16_set); }

void SIMD_NAME(matmul_exact)(const struct matmul_job *job) {
    switch (job->weights->format) {
    case WEIGHT_F32: SIMD_NAME(matmul_f32)(job); break;
    case WEIGHT_F16: SIMD_NAME(matmul_f16)(job); break;
    default: multiply_f32(job, OPERAND_F32, NULL);
    }
}
