/* SPDX-License-Identifier: Apache-2.0 */
/* SentencePiece's compiled normalization table ("precompiled_charsmap").
 *
 * Layout: u32 size of the trie in bytes, the trie, then the replacement strings, each ended by a NUL. The trie is a
 * double array as made by Darts-clone: units of 32 bits, of which a leaf's value is an offset into the strings. Keys
 * are byte strings. */
#ifndef MLXCEL_TEXT_CHARSMAP_H
#define MLXCEL_TEXT_CHARSMAP_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct charsmap {
    uint32_t *units;
    size_t n_units;
    char *strings;
    size_t strings_bytes;
    bool maps_byte[128]; /* an ASCII character alone is a key */
};

/* Copies the table. An empty table is an error. */
bool charsmap_load(struct charsmap *map, const unsigned char *bytes, size_t length, struct mx_error *err);
/* The same from base64, as tokenizer.json holds it. */
bool charsmap_load_base64(struct charsmap *map, const char *text, size_t length, struct mx_error *err);
void charsmap_free(struct charsmap *map);

/* The replacement for a key that begins text: of the shortest or the longest such key, whose length goes to *used.
 * NULL = none. */
const char *charsmap_find(const struct charsmap *map, const char *text, size_t length, bool longest, size_t *used);

#endif
