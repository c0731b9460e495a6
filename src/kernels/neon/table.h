/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the NEON tier; each sets its entries. */
#ifndef MLXCEL_KERNELS_NEON_TABLE_H
#define MLXCEL_KERNELS_NEON_TABLE_H

#include "kernels/kernels.h"

void neon_fill_float(struct kernels *table);

#endif
