/* SPDX-License-Identifier: Apache-2.0 */
/* Prefix cache: pages of earlier sequences, found again by their tokens.
 *
 * A radix tree whose edges are pages: a node stands for 64 tokens after its parent's, and holds a reference to the page of
 * each cache group without windows. For models with windows or recurrent state, nodes at chosen borders also hold a
 * snapshot, and only there can a sequence be taken up again. For the others a hit may end within a page: the sequence
 * shares the page that begins as the prompt goes on, and copies it before it writes the cells that differ (as a fork
 * does). Whole pages are never copied, and no page of the cache is ever written. What a hit gives is equal to the bit to
 * what computing would give. Least recently used leaves go first when pages or slots are needed.
 *
 * Cells whose rope depends on the request's length (dynamic NTK, longrope) are kept only as far as the length has no
 * effect. */
#ifndef MLXCEL_ENGINE_PREFIX_CACHE_H
#define MLXCEL_ENGINE_PREFIX_CACHE_H

#include "engine/cache_finding.h"
#include "engine/sequence.h"

struct prefix_node;

enum { N_REMEMBERED_EVICTIONS = 1024 };

struct prefix_cache {
    struct model *model;
    struct prefix_node *root;
    bool needs_snapshots;
    bool within_pages;   /* hits may end within a page; never with needs_snapshots */
    uint32_t rope_limit; /* cells from here on, and longer prompts, are not kept */
    uint64_t clock;      /* of uses */
    size_t n_nodes, n_snapshots, max_nodes;
    uint32_t **found; /* [groups] scratch: pages of a lookup */
    uint64_t
        evicted[N_REMEMBERED_EVICTIONS]; /* keys of the nodes that were given up last, to name the cause of a miss */
    size_t n_evicted;                    /* so far */
};

/* max_nodes: pages (of each group) kept at most; 0 = none: the cache does nothing. within_pages: hits may end within a
 * page where the model allows it. */
bool prefix_cache_init(struct prefix_cache *cache, struct model *model, size_t max_nodes, bool within_pages,
                       struct mx_error *err);
void prefix_cache_free(struct prefix_cache *cache);

/* Fills the empty sequence with the longest known beginning of tokens[0 .. n) that leaves at least one token to compute.
 * Returns the number of cells (0 = nothing was found); *finding says why they are not more. */
uint32_t prefix_cache_lookup(struct prefix_cache *cache, const uint32_t *tokens, size_t n, struct sequence *sequence,
                             struct cache_finding *finding);

/* Keeps the sequence's full pages; tokens are those of its cells, n_prompt the length of its request's prompt. With
 * `snapshot`, and at a page border, also a snapshot where the model needs one. What does not fit is left out. */
void prefix_cache_insert(struct prefix_cache *cache, const uint32_t *tokens, size_t n_prompt,
                         const struct sequence *sequence, bool snapshot);

/* Drops the snapshot at n_cells cells of these tokens, if there is one. */
void prefix_cache_forget_snapshot(struct prefix_cache *cache, const uint32_t *tokens, uint32_t n_cells);

/* Gives up the least recently used leaf, or (only_snapshot) snapshot. False when there is none. */
bool prefix_cache_evict(struct prefix_cache *cache, bool only_snapshot);
void prefix_cache_clear(struct prefix_cache *cache);

#endif
