/* SPDX-License-Identifier: Apache-2.0 */
/* Ids of words met before. Text repeats its words, so most of it is tokenised by one look-up per word.
 *
 * A table of pairs of 64-byte entries; a new word takes the place of the older one of its pair. One thread's. */
#ifndef MLXCEL_TEXT_WORDCACHE_H
#define MLXCEL_TEXT_WORDCACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WORDCACHE_MAX_BYTES 22
#define WORDCACHE_MAX_IDS   10

struct word {
    uint8_t length; /* 0 = free */
    uint8_t n_ids;
    char bytes[WORDCACHE_MAX_BYTES];
    uint32_t ids[WORDCACHE_MAX_IDS];
};

struct wordcache {
    struct word *words;
    size_t n_pairs; /* a power of two; 0 = nothing is remembered */
};

/* Makes it as large as texts of `length` bytes deserve. Memory that cannot be had only makes it slower. */
void wordcache_prepare(struct wordcache *cache, size_t length);
/* The word, of 1 to WORDCACHE_MAX_BYTES bytes; NULL when it is not known. */
const struct word *wordcache_find(const struct wordcache *cache, const char *bytes, size_t length);
void wordcache_add(struct wordcache *cache, const char *bytes, size_t length, const uint32_t *ids, size_t n_ids);
void wordcache_free(struct wordcache *cache);

#endif
