/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/avx2/table.h"

#include "kernels/avx2/q8.h"

void kernels_fill_avx2(struct kernels *table) {
    avx2_fill_float(table);
    avx2_fill_q8(table);
}
