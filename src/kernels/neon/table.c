/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/neon/table.h"

void kernels_fill_neon(struct kernels *table) { neon_fill_float(table); }
