/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ref/ref.h"

#ifdef REF_WITH_FMA
void kernels_fill_ref_fma(struct kernels *table) {
#else
void kernels_fill_ref(struct kernels *table) {
#endif
#define FILL(name, result, arguments) KERNELS_SET(table, TIER_REF, name, REF_NAME(name));
    KERNELS(FILL)
#undef FILL
    for (int format = 0; format < N_WEIGHT_FORMATS; format++)
        KERNELS_SET_MATMUL(table, TIER_REF, format, REF_NAME(matmul_q8));
    KERNELS_SET_MATMUL(table, TIER_REF, WEIGHT_F32, REF_NAME(matmul_float));
    KERNELS_SET_MATMUL(table, TIER_REF, WEIGHT_F16, REF_NAME(matmul_float));
    KERNELS_SET_MATMUL(table, TIER_REF, WEIGHT_BF16, REF_NAME(matmul_bf16));
    KERNELS_SET_MATMUL(table, TIER_REF, WEIGHT_MXFP8, REF_NAME(matmul_e4m3));
    KERNELS_SET_MATMUL(table, TIER_REF, WEIGHT_E4M3, REF_NAME(matmul_e4m3));
}
