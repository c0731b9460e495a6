/* SPDX-License-Identifier: Apache-2.0 */
/* The sequence of the last request that asked to be kept: a conversation goes on exactly where it stopped, while the
 * prefix cache keeps full pages only. One at a time; it goes when its pages are needed. */
#ifndef MLXCEL_ENGINE_KEPT_H
#define MLXCEL_ENGINE_KEPT_H

#include "engine/sequence.h"

struct kept {
    struct sequence sequence; /* model NULL = none */
    uint32_t *tokens;         /* of its cells */
    uint32_t rope_limit;      /* as in prefix_cache.h */
};

/* Takes the sequence and its tokens over from an ended choice (they are then empty). */
void kept_put(struct kept *kept, struct sequence *sequence, uint32_t **tokens, size_t n_prompt);
/* Cells that a prompt of n tokens has in common with it, so that at least one is left to compute. */
uint32_t kept_common(const struct kept *kept, const uint32_t *tokens, size_t n);
/* Exchanges *sequence for the kept one, cut to n_cells or fewer; false (and nothing is kept any more) when fewer than
 * `at_least` would be left of it. */
bool kept_take(struct kept *kept, struct sequence *sequence, uint32_t n_cells, uint32_t at_least);
/* Gives it up; false when there was none. */
bool kept_drop(struct kept *kept);

#endif
