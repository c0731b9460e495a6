/* SPDX-License-Identifier: Apache-2.0 */
/* Added tokens: texts that are found in the input before the model sees the rest.
 *
 * There are two sets: tokens searched in the raw text, and "normalized" ones, whose normalized spelling is searched in
 * the normalized text. Of the matches the leftmost counts, of those at one place the longest. */
#ifndef MLXCEL_TEXT_ADDED_H
#define MLXCEL_TEXT_ADDED_H

#include "base/arena.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ADDED_MAX_BYTES 1024

struct added_token {
    const char *content;
    uint32_t length;
    uint32_t id;
    bool has_id; /* set by the owner; else it is given one: the vocabulary's, or the next free one */
    bool is_special, is_normalized;
    bool single_word, lstrip, rstrip;
};

/* One spelling to search for, and the token that it means. */
struct added_pattern {
    const char *text;
    uint32_t length;
    uint32_t token; /* index in the list of tokens */
    uint32_t order; /* of equal patterns the lowest counts */
};

/* Patterns sorted by their bytes; a match is found by narrowing a range of them byte by byte. */
struct added_set {
    struct added_pattern *patterns;
    size_t count, capacity;
    uint32_t first_of[257]; /* range of patterns by first byte */
    bool has_empty;         /* a pattern that became empty by normalization: it matches between any two characters */
    uint32_t empty_token;
};

/* text is borrowed. */
bool added_set_add(struct added_set *set, const char *text, size_t length, uint32_t token, struct mx_error *err);
/* After the last pattern. Of equal patterns the one added first counts. */
void added_set_finish(struct added_set *set);
void added_set_free(struct added_set *set);

/* A piece of the text, or a token in it. */
struct added_match {
    size_t start, end;
    const struct added_token *token; /* NULL = text between tokens */
};

/* Walks through a text: gives its pieces and tokens in order. */
struct added_search {
    const struct added_set *set;
    const struct added_token *tokens;
    const char *text;
    size_t length;
    bool skips_special; /* special tokens are ordinary text */
    size_t at;          /* where to search on */
    size_t done;        /* everything before was given out */
    struct added_match next;
    bool has_next;
};

void added_search_begin(struct added_search *search, const struct added_set *set, const struct added_token *tokens,
                        const char *text, size_t length, bool skips_special);
/* False at the end. */
bool added_search_next(struct added_search *search, struct added_match *match);

#endif
