/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/avx2/table.h"

#include "kernels/avx2/q8.h"
#include "kernels/avx2/rows.h"

void kernels_fill_avx2(struct kernels *table) {
    avx2_fill_float(table);
    avx2_fill_q8(table);
    KERNELS_SET(table, TIER_AVX2, row_load, avx2_row_load);
    KERNELS_SET(table, TIER_AVX2, row_maxima, avx2_row_maxima);
    KERNELS_SET(table, TIER_AVX2, row_weights, avx2_row_weights);
    KERNELS_SET(table, TIER_AVX2, row_split, avx2_row_split);
    KERNELS_SET(table, TIER_AVX2, row_find, avx2_row_find);
    KERNELS_SET(table, TIER_AVX2, row_keep, avx2_row_keep);
}
