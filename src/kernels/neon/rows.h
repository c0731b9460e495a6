/* SPDX-License-Identifier: Apache-2.0 */
/* Passes over a row of logits, for sampling. */
#ifndef MLXCEL_KERNELS_NEON_ROWS_H
#define MLXCEL_KERNELS_NEON_ROWS_H

#include "kernels/kernels.h"

/* Sets the entries for rows of logits. */
void neon_fill_rows(struct kernels *table);

#endif
