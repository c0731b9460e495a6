/* SPDX-License-Identifier: Apache-2.0 */
#include "text/tokenizer/wordcache.h"

#include <stdlib.h>
#include <string.h>

#define MAX_PAIRS 8192u /* 1 MiB */

static size_t pair_of(const struct wordcache *cache, const char *bytes, size_t length) {
    uint64_t h = length, word;
    for (; length > 8; length -= 8, bytes += 8) {
        memcpy(&word, bytes, 8);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    word = 0;
    memcpy(&word, bytes, length);
    h = (h ^ word) * 0xd6e8feb86659fd93u;
    return (h >> 40) & (cache->n_pairs - 1);
}

void wordcache_prepare(struct wordcache *cache, size_t length) {
    size_t want = 64;
    if (length < 256) return;
    while (want < MAX_PAIRS && want * 32 < length) want *= 2;
    if (want <= cache->n_pairs) return;
    struct word *words = aligned_alloc(64, want * 2 * sizeof *words);
    if (!words) return;
    memset(words, 0, want * 2 * sizeof *words);
    free(cache->words);
    cache->words = words;
    cache->n_pairs = want;
}

const struct word *wordcache_find(const struct wordcache *cache, const char *bytes, size_t length) {
    if (!cache->n_pairs) return NULL;
    const struct word *pair = &cache->words[2 * pair_of(cache, bytes, length)];
    for (int i = 0; i < 2; i++)
        if (pair[i].length == length && !memcmp(pair[i].bytes, bytes, length)) return &pair[i];
    return NULL;
}

void wordcache_add(struct wordcache *cache, const char *bytes, size_t length, const uint32_t *ids, size_t n_ids) {
    if (!cache->n_pairs || n_ids > WORDCACHE_MAX_IDS) return;
    struct word *pair = &cache->words[2 * pair_of(cache, bytes, length)];
    pair[1] = pair[0];
    pair[0].length = (uint8_t)length;
    pair[0].n_ids = (uint8_t)n_ids;
    memcpy(pair[0].bytes, bytes, length);
    memcpy(pair[0].ids, ids, n_ids * sizeof *ids);
}

void wordcache_free(struct wordcache *cache) {
    free(cache->words);
    *cache = (struct wordcache){0};
}
