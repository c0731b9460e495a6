/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns compiled to a network of nodes over code points or bytes: each rule is a non-deterministic automaton whose
 * edges consume a range, jump, or call another rule. A program over bytes is what the recogniser runs; one over code
 * points is what automata are made from. */
#ifndef MLXCEL_TEXT_GRAMMAR_PROGRAM_H
#define MLXCEL_TEXT_GRAMMAR_PROGRAM_H

#include "text/grammar/pattern.h"

enum { PROGRAM_NONE = UINT32_MAX, PROGRAM_MAX_NODES = 300000 };

enum program_kind {
    PROGRAM_EDGES, /* consumes one symbol by one of the node's edges */
    PROGRAM_SPLIT, /* goes on at next and at other (either may be PROGRAM_NONE) */
    PROGRAM_CALL,  /* matches rule `other`, then goes on at next */
    PROGRAM_FINAL, /* the end of the rule */
    PROGRAM_BEGIN, /* passes at the start of the text */
    PROGRAM_END,   /* passes at the end of the text */
};

struct program_edge {
    uint32_t first, last, target;
};

struct program_node {
    uint8_t kind;
    bool is_dead; /* no text leads from here to the end of the rule */
    uint32_t next, other;
    uint32_t first_edge, n_edges;
};

struct program {
    struct program_node *nodes;
    size_t n_nodes, nodes_capacity;
    struct program_edge *edges;
    size_t n_edges, edges_capacity;
    uint32_t *starts; /* [n_rules] first node of each rule */
    uint32_t n_rules, root;
    bool is_bytes;
};

/* Compiles all rules. Refused are grammars whose root matches nothing, left recursion, and what grows over
 * PROGRAM_MAX_NODES. */
bool program_compile(struct program *program, const struct grammar_rules *rules, bool is_bytes, struct mx_error *err);
void program_free(struct program *program);

#endif
