/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/avx512/lanes.h"

#include "kernels/avx512/table.h"
#include "kernels/simd/fill.h"

void avx512_fill_float(struct kernels *table) {
    simd_fill(table);
    if (!__builtin_cpu_supports("avx512bf16") || !avx512_dot_pairs_is_exact()) return;
    KERNELS_SET_MATMUL(table, TIER_AVX512, WEIGHT_BF16, avx512_matmul_bf16_dot);
    KERNELS_SET_MATMUL(table, TIER_AVX512, WEIGHT_MXFP8, avx512_matmul_e4m3_dot);
    KERNELS_SET_MATMUL(table, TIER_AVX512, WEIGHT_E4M3, avx512_matmul_e4m3_dot);
}
