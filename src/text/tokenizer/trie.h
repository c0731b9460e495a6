/* SPDX-License-Identifier: Apache-2.0 */
/* A set of byte strings with a number each, walked byte by byte: a double array (Aoe 1989).
 *
 * The child of node n for byte b is n's base + b, if that node's parent is n. */
#ifndef MLXCEL_TEXT_TRIE_H
#define MLXCEL_TEXT_TRIE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRIE_NONE UINT32_MAX

struct trie_node {
    uint32_t base;   /* of the children; 0 = none */
    uint32_t parent; /* TRIE_NONE = a free node */
    uint32_t value;  /* TRIE_NONE = no string ends here */
};

struct trie {
    struct trie_node *nodes; /* the root is node 0 */
    size_t n_nodes, capacity;
};

struct trie_key {
    const char *text; /* not empty */
    uint32_t length;
    uint32_t value;
};

/* Sorts keys. Of equal keys the one with the highest value counts. */
bool trie_build(struct trie *trie, struct trie_key *keys, size_t n_keys, struct mx_error *err);
void trie_free(struct trie *trie);

/* The child of a node, TRIE_NONE = none. */
static inline uint32_t trie_child(const struct trie *trie, uint32_t node, unsigned char byte) {
    uint32_t base = trie->nodes[node].base, child = base + byte;
    return base && trie->nodes[child].parent == node ? child : TRIE_NONE;
}

/* The longest string of the set that begins text; its length goes to *used. TRIE_NONE = none. */
uint32_t trie_longest(const struct trie *trie, const char *text, size_t length, size_t *used);

#endif
