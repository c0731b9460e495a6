/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the AVX2 tier; each sets its entries. */
#ifndef MLXCEL_KERNELS_AVX2_TABLE_H
#define MLXCEL_KERNELS_AVX2_TABLE_H

#include "kernels/kernels.h"

void avx2_fill_float(struct kernels *table);

#endif
