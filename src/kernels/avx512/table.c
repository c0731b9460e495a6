/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/avx512/table.h"

#include "kernels/avx512/q8.h"

void kernels_fill_avx512(struct kernels *table) {
    avx512_fill_float(table);
    avx512_fill_q8(table);
}
