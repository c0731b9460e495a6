/* SPDX-License-Identifier: Apache-2.0 */
#include "text/tokenizer/charsmap.h"

#include "text/tokenizer/base64.h"

#include "base/memory.h"

#include <string.h>

/* Darts-clone's units: bit 31 and the low byte are the label (a leaf's value unit has bit 31 set), bit 8 says that a
 * leaf hangs at this node, bits 10.. hold the offset to the children, bit 9 scales it by 256. */
static uint32_t unit_label(uint32_t unit) { return unit & (1u << 31 | 0xff); }
static bool unit_has_leaf(uint32_t unit) { return unit >> 8 & 1; }
static uint32_t unit_value(uint32_t unit) { return unit & ~(1u << 31); }
static uint32_t unit_offset(uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); }

bool charsmap_load(struct charsmap *map, const unsigned char *bytes, size_t length, struct mx_error *err) {
    uint32_t trie_bytes;
    if (length < 4) return error_set(err, ERROR_FORMAT, "normalization table of %zu bytes", length);
    memcpy(&trie_bytes, bytes, 4);
    if (trie_bytes > length - 4 || trie_bytes < 4 || trie_bytes % 4)
        return error_set(err, ERROR_FORMAT, "normalization table: a trie of %u bytes in a table of %zu", trie_bytes,
                         length);
    map->n_units = trie_bytes / 4;
    map->strings_bytes = length - 4 - trie_bytes;
    map->units = array_alloc(map->n_units, 4);
    map->strings = array_alloc(map->strings_bytes + 1, 1);
    if (!map->units || !map->strings) {
        charsmap_free(map);
        return error_memory(err, "normalization table");
    }
    memcpy(map->units, bytes + 4, trie_bytes);
    memcpy(map->strings, bytes + 4 + trie_bytes, map->strings_bytes);
    map->strings[map->strings_bytes] = '\0';
    for (unsigned i = 0; i < 128; i++) {
        char text = (char)i;
        size_t used;
        map->maps_byte[i] = charsmap_find(map, &text, 1, false, &used) != NULL;
    }
    return true;
}

bool charsmap_load_base64(struct charsmap *map, const char *text, size_t length, struct mx_error *err) {
    struct buffer bytes = {0};
    bool ok = base64_append(&bytes, text, length);
    if (bytes.failed)
        error_memory(err, "normalization table");
    else if (!ok)
        error_set(err, ERROR_FORMAT, "precompiled_charsmap is not base64");
    ok = ok && charsmap_load(map, (const unsigned char *)bytes.data, bytes.length, err);
    buffer_free(&bytes);
    return ok;
}

void charsmap_free(struct charsmap *map) {
    free(map->units);
    free(map->strings);
    *map = (struct charsmap){0};
}

const char *charsmap_find(const struct charsmap *map, const char *text, size_t length, bool longest, size_t *used) {
    const char *found = NULL;
    if (!map->n_units) return NULL;
    size_t node = unit_offset(map->units[0]);
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (!byte) break;
        node ^= byte;
        if (node >= map->n_units || unit_label(map->units[node]) != byte) break;
        uint32_t unit = map->units[node];
        node ^= unit_offset(unit);
        if (!unit_has_leaf(unit)) continue;
        if (node >= map->n_units) break;
        uint32_t value = unit_value(map->units[node]);
        if (value > map->strings_bytes) break;
        found = map->strings + value;
        *used = i + 1;
        if (!longest) break;
    }
    return found;
}
