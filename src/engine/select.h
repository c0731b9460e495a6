/* SPDX-License-Identifier: Apache-2.0 */
/* Selection without sorting: quickselect by rank and by weight. */
#ifndef MLXCEL_ENGINE_SELECT_H
#define MLXCEL_ENGINE_SELECT_H

#include <stddef.h>
#include <stdint.h>

struct weighted;

/* The k-th largest of values[0 .. n), 1 <= k <= n; the values are reordered. No NaN. */
float select_largest(float *values, size_t n, size_t k);

/* By descending key: the key at which the sum of w first passes target (the least key when it never does). *above
 * receives the sum of the weights with a larger key. n >= 1; the items are reordered. */
float select_by_mass(struct weighted *items, size_t n, double target, double *above);

#endif
