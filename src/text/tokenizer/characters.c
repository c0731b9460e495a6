/* SPDX-License-Identifier: Apache-2.0 */
#include "text/tokenizer/characters.h"

#include <stdlib.h>
#include <string.h>

struct character_pages *characters_create(void) {
    return calloc(1, sizeof(struct character_pages));
}

void characters_destroy(struct character_pages *characters) {
    if (!characters) return;
    for (size_t i = 0; i < sizeof characters->pages / sizeof *characters->pages; i++) free(characters->pages[i]);
    free(characters);
}

bool characters_set(struct character_pages *characters, uint32_t code_point, uint32_t id) {
    if (code_point >= 0x110000) return false;
    uint32_t **page = &characters->pages[code_point >> 8];
    if (!*page) {
        *page = malloc(256 * sizeof **page);
        if (!*page) return false;
        memset(*page, 0xff, 256 * sizeof **page);
    }
    (*page)[code_point & 255] = id;
    return true;
}
