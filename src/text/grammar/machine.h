/* SPDX-License-Identifier: Apache-2.0 */
/* The recogniser: a pushdown machine over bytes that follows all ways of reading the text at the same time.
 *
 *     state = set of (node, stacks)      node:   a place in the grammar, described by its source on demand
 *                                        stacks: a set of return stacks, shared and interned:
 *                                                stacks = { (node to return to, stacks below) ... } + is it the bottom?
 *
 * Stacks that share their top share one entry, so that ambiguous grammars need a number of entries that grows with the
 * depth, not with the number of stacks. States are interned too, and the state behind each byte is remembered: where the
 * grammar repeats itself, following a byte is one look-up, as in a deterministic automaton that is built while it runs.
 *
 * A machine serves one thread. */
#ifndef MLXCEL_TEXT_GRAMMAR_MACHINE_H
#define MLXCEL_TEXT_GRAMMAR_MACHINE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    STATE_DEAD = 0,
    STATE_UNKNOWN = UINT32_MAX,
    STACKS_BOTTOM = 0, /* the empty stack alone */
    STACKS_OPEN = 1,   /* an unknown stack: used to look at a node without its surroundings */
    STACKS_FAILED = UINT32_MAX,
    MACHINE_MAX_DEPTH = 2000, /* of return stacks; deeper nesting counts as a dead end */
};

struct node_edge {
    uint32_t first, last; /* bytes, inclusive */
    uint32_t target;
};

struct node_call {
    uint32_t start, next; /* first node of what is called, node to return to */
};

/* What can happen at a node. The arrays belong to the source. */
struct node_view {
    const struct node_edge *edges;
    const uint32_t *jumps; /* nodes that are reached without consuming */
    const struct node_call *calls;
    uint32_t n_edges, n_jumps, n_calls;
    bool is_final; /* returns */
};

/* Describes nodes. look fills the view of a node, which stays valid until the next call; false with the error set. */
struct node_source {
    void *context;
    bool (*look)(void *context, uint32_t node, struct node_view *view, struct mx_error *err);
    /* A node that allows the same tokens of at most `longest` bytes, preferably one that was met before. May be NULL. */
    uint32_t (*alike)(void *context, uint32_t node, uint32_t longest);
    void (*destroy)(void *context);
    uint32_t start;
};

struct state_item {
    uint32_t node, stacks;
};

struct machine;

/* Takes the source over. NULL with the error set (the source is destroyed then too). */
struct machine *machine_create(const struct node_source *source, struct mx_error *err);
void machine_destroy(struct machine *m);

/* The state at the start; STATE_DEAD when something failed. */
uint32_t machine_start(struct machine *m);
/* The state of one node on the given stacks. */
uint32_t machine_state_at(struct machine *m, uint32_t node, uint32_t stacks);
uint32_t machine_step(struct machine *m, uint32_t state, uint8_t byte);

bool machine_accepts(const struct machine *m, uint32_t state);
/* The state has returned below STACKS_OPEN: what comes next depends on the surroundings. */
bool machine_is_open(const struct machine *m, uint32_t state);
/* The places of a state; the array stays valid until the machine is used again. */
const struct state_item *machine_items(const struct machine *m, uint32_t state, uint32_t *n_items);
uint32_t machine_alike(struct machine *m, uint32_t node, uint32_t longest);

/* States in use are counted: held ones survive when the machine drops its states to save memory. */
void machine_hold(struct machine *m, uint32_t state);
void machine_release(struct machine *m, uint32_t state);
/* Drops states that nobody holds when there are too many. Invalidates all other state numbers: true when it did. */
bool machine_tidy(struct machine *m);

/* NULL, or why following the text had to be given up. */
const struct mx_error *machine_failure(const struct machine *m);

#endif
