/* SPDX-License-Identifier: Apache-2.0 */
/* Products with many quantised activation rows, for every kind of weights. */
#include "kernels/neon/q8.h"

#include "base/memory.h"
#include "kernels/neon/q8_tile.h"
#include "kernels/simd/q8_gemm.h"

Q8_KINDS(GEMM_DEFINE_PANEL)
TILE_KINDS(GEMM_DEFINE_TILES)

static const panel_function panels[N_WEIGHT_FORMATS][3] = {Q8_KINDS(GEMM_PANEL)};
static const struct gemm_tiles tiles[N_WEIGHT_FORMATS][3] = {TILE_KINDS(GEMM_TILES)};

void neon_q8_gemm(const struct matmul_job *job, int groups) {
    enum weight_format format = job->weights->format;
    gemm(panels[format][groups / 2], &tiles[tile_format(format, groups)][groups / 2], job, groups);
}
