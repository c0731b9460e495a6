/* SPDX-License-Identifier: Apache-2.0 */
/* Loop stop: a text whose end is one short block over and over. */
#ifndef MLXCEL_ENGINE_LOOP_STOP_H
#define MLXCEL_ENGINE_LOOP_STOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOOP_LONGEST_PATTERN = 64 };

/* True when for some p from max(min_pattern, 1) to min(max_pattern, 64) the last p * min_count of tokens[0 .. n) are
 * one block of p tokens min_count times. False when max_pattern is 0 or min_count is below 2. */
bool loop_stop(const uint32_t *tokens, size_t n, uint64_t min_pattern, uint64_t max_pattern, uint64_t min_count);

/* How many tokens loop_stop looks at. */
uint64_t loop_stop_window(uint64_t max_pattern, uint64_t min_count);

#endif
