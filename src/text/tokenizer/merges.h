/* SPDX-License-Identifier: Apache-2.0 */
/* The merges of a BPE model, and the algorithm: of all neighbours that a merge joins, the one of lowest rank (the
 * leftmost of equals) is joined, until none is left. */
#ifndef MLXCEL_TEXT_MERGES_H
#define MLXCEL_TEXT_MERGES_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MERGE_NONE UINT32_MAX

struct merge {
    uint64_t pair; /* left id << 32 | right id; UINT64_MAX = free */
    uint32_t rank;
    uint32_t result;
};

/* Open addressing, at most half full, hash seeded per table. */
struct merges {
    struct merge *table;
    size_t n_slots, count;
    uint64_t seed;
};

bool merges_reserve(struct merges *merges, size_t n, struct mx_error *err);
/* A pair that is there already gets the new rank and result. */
bool merges_add(struct merges *merges, uint32_t left, uint32_t right, uint32_t rank, uint32_t result,
                struct mx_error *err);
/* A hint that the pair will be added or looked up. */
void merges_prefetch(const struct merges *merges, uint32_t left, uint32_t right);
/* NULL = the two do not merge. */
const struct merge *merges_find(const struct merges *merges, uint32_t left, uint32_t right);
void merges_free(struct merges *merges);

/* A symbol of the text being merged; length in bytes of the text. */
struct symbol {
    uint32_t id;
    uint32_t length;
};

struct merge_scratch {
    void *nodes, *heap; /* for long pieces */
    size_t node_capacity, heap_capacity;
};

/* Merges symbols[0 .. *n) in place; *n becomes the number left. False when memory is out. */
bool merges_apply(const struct merges *merges, struct merge_scratch *scratch, struct symbol *symbols, size_t *n);
void merge_scratch_free(struct merge_scratch *scratch);

#endif
