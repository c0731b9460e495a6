/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include "base/memory.h"

#include <string.h>
#include <time.h>

static uint64_t read_tail(const unsigned char *bytes, size_t n) {
    uint64_t word = 0;
    memcpy(&word, bytes, n);
    return word;
}

static uint64_t mix(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Multiply-and-fold over 8-byte words, in the manner of wyhash. */
static uint32_t hash_bytes(const char *key, size_t length, uint64_t seed) {
    const unsigned char *bytes = (const unsigned char *)key;
    uint64_t h = seed ^ (length * 0x9e3779b97f4a7c15u);
    size_t left = length;
    for (; left >= 8; left -= 8, bytes += 8) h = mix(h ^ read_tail(bytes, 8), 0xd6e8feb86659fd93u);
    if (left) h = mix(h ^ read_tail(bytes, left), 0xa0761d6478bd642fu);
    h = mix(h, 0xe7037ed1a0b428dbu);
    return (uint32_t)(h ^ (h >> 32));
}

static struct map_entry *find(const struct map *map, const char *key, size_t length, uint32_t hash) {
    size_t mask = map->capacity - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        struct map_entry *entry = &map->entries[i];
        if (!entry->key) return entry;
        if (entry->hash == hash && entry->length == length && !memcmp(entry->key, key, length)) return entry;
    }
}

bool map_reserve(struct map *map, size_t n) {
    if (n > SIZE_MAX / 4) return false;
    if (map->capacity >= 2 * n && map->capacity) return true;
    size_t capacity = map->capacity ? map->capacity : 16;
    while (capacity < 2 * n) capacity *= 2;
    struct map_entry *entries = array_calloc(capacity, sizeof *entries);
    if (!entries) return false;
    struct map grown = {.entries = entries, .capacity = capacity, .count = map->count, .seed = map->seed};
    if (!map->capacity) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        grown.seed = mix((uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 32, (uint64_t)(uintptr_t)entries | 1);
    }
    for (size_t i = 0; i < map->capacity; i++) {
        const struct map_entry *old = &map->entries[i];
        if (old->key) *find(&grown, old->key, old->length, old->hash) = *old;
    }
    free(map->entries);
    *map = grown;
    return true;
}

bool map_put(struct map *map, const char *key, size_t length, uint64_t value, bool *was_present) {
    if (length > UINT32_MAX || !map_reserve(map, map->count + 1)) return false;
    uint32_t hash = hash_bytes(key, length, map->seed);
    struct map_entry *entry = find(map, key, length, hash);
    if (was_present) *was_present = entry->key != NULL;
    if (!entry->key) {
        *entry = (struct map_entry){.key = key, .length = (uint32_t)length, .hash = hash};
        map->count++;
    }
    entry->value = value;
    return true;
}

bool map_get(const struct map *map, const char *key, size_t length, uint64_t *value) {
    if (!map->count || length > UINT32_MAX) return false;
    const struct map_entry *entry = find(map, key, length, hash_bytes(key, length, map->seed));
    if (!entry->key) return false;
    if (value) *value = entry->value;
    return true;
}

void map_free(struct map *map) {
    free(map->entries);
    *map = (struct map){0};
}
