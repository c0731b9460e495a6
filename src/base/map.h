/* SPDX-License-Identifier: Apache-2.0 */
/* Hash map from byte strings to 64-bit values: open addressing, linear probing, at most half full.
 *
 * Keys are borrowed: the map keeps pointer and length, the bytes belong to the caller and must outlive the map. Keys
 * come from hostile files, so the hash is keyed with a seed per map (drawn from the address and a clock) against
 * crafted collisions. A zeroed struct map is empty. Entries cannot be removed. */
#ifndef MLXCEL_BASE_MAP_H
#define MLXCEL_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_entry {
    const char *key; /* NULL = free */
    uint32_t length;
    uint32_t hash;
    uint64_t value;
};

struct map {
    struct map_entry *entries; /* capacity of them, a power of two */
    size_t capacity;
    size_t count;
    uint64_t seed;
};

/* Room for n entries without growing; false when memory is out. */
bool map_reserve(struct map *map, size_t n);
/* Sets key to value. *was_present (may be NULL) tells whether the key was there before; false when memory is out. */
bool map_put(struct map *map, const char *key, size_t length, uint64_t value, bool *was_present);
bool map_get(const struct map *map, const char *key, size_t length, uint64_t *value);
void map_free(struct map *map);

#endif
