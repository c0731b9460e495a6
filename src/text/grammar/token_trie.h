/* SPDX-License-Identifier: Apache-2.0 */
/* The vocabulary as a trie: its nodes in depth-first order, so that a walk is a loop over an array in which a dead branch
 * is skipped by one jump. */
#ifndef MLXCEL_TEXT_GRAMMAR_TOKEN_TRIE_H
#define MLXCEL_TEXT_GRAMMAR_TOKEN_TRIE_H

#include "text/token_mask.h"

enum { TRIE_PLAIN_CHARACTERS = 16 }; /* longer tokens do not count as plain */

struct trie_node {
    uint32_t next;                               /* the first node that is not below this one */
    uint32_t first_token, end_token, last_token; /* tokens that end here: [first, end), here or below: [first, last) */
    uint16_t depth;                              /* 1 = first byte */
    uint8_t byte;
};

struct trie_nodes {
    struct trie_node *data;
    uint32_t n;
};

struct token_trie {
    size_t n_ids;   /* one more than the highest id */
    uint32_t n;     /* tokens in the trie, sorted by their bytes */
    size_t longest; /* bytes of the longest token */
    uint32_t *ids;  /* [n] */
    size_t *starts; /* [n + 1] where each token's bytes begin */
    char *bytes;
    uint32_t *order; /* [n_ids] place of an id, UINT32_MAX = none */
    struct trie_nodes all;
    /* Tokens of plain text: up to TRIE_PLAIN_CHARACTERS whole characters (the last may be cut) that stand for themselves in
     * a JSON string. */
    uint32_t *plain;        /* a bit for each id */
    struct trie_nodes rest; /* all others */
};

#endif
