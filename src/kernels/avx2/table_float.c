/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/avx2/lanes.h"

#include "kernels/avx2/table.h"
#include "kernels/simd/fill.h"

void avx2_fill_float(struct kernels *table) { simd_fill(table); }
