/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the AVX-512 tier; each sets its entries. */
#ifndef MLXCEL_KERNELS_AVX512_TABLE_H
#define MLXCEL_KERNELS_AVX512_TABLE_H

#include "kernels/kernels.h"

void avx512_fill_float(struct kernels *table);

#endif
