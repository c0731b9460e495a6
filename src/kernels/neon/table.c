/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/neon/table.h"

#include "kernels/neon/q8.h"
#include "kernels/neon/rows.h"

void kernels_fill_neon(struct kernels *table) {
    neon_fill_float(table);
    neon_fill_q8(table);
    neon_fill_rows(table);
}
