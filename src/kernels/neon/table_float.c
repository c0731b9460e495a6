/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/neon/lanes.h"

#include "kernels/neon/table.h"
#include "kernels/simd/fill.h"

void neon_fill_float(struct kernels *table) { simd_fill(table); }
