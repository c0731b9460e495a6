/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of the kernel table that the templates of this folder supply. */
#include "kernels/simd/simd.h"

static void simd_fill(struct kernels *table) {
#define SET(entry) KERNELS_SET(table, SIMD_TIER, entry, SIMD_NAME(entry))
    SET(to_f32);
    SET(to_bf16);
    SET(dequantize_row);
    SET(dot);
    SET(rms_norm);
    SET(layer_norm);
    SET(add);
    SET(multiply);
    SET(scale);
    SET(add_scaled);
    SET(softcap);
    SET(clip);
    SET(unary);
    SET(gated);
    SET(softmax);
    SET(rope_halves);
    SET(rope_pairs);
    SET(kv_store);
    SET(attention);
    SET(index_scores);
    SET(conv);
    SET(mamba2);
    SET(mamba1);
    SET(lru);
    SET(threshold);
    SET(dplr);
    SET(delta);
    SET(matmul_exact);
#undef SET
    KERNELS_SET_MATMUL(table, SIMD_TIER, WEIGHT_F32, SIMD_NAME(matmul_f32));
    KERNELS_SET_MATMUL(table, SIMD_TIER, WEIGHT_F16, SIMD_NAME(matmul_f16));
    KERNELS_SET_MATMUL(table, SIMD_TIER, WEIGHT_BF16, SIMD_NAME(matmul_bf16));
    KERNELS_SET_MATMUL(table, SIMD_TIER, WEIGHT_MXFP8, SIMD_NAME(matmul_e4m3));
    KERNELS_SET_MATMUL(table, SIMD_TIER, WEIGHT_E4M3, SIMD_NAME(matmul_e4m3));
}
