/* SPDX-License-Identifier: Apache-2.0 */
/* Ids of single characters: a table of pages of 256 code points, made as needed. */
#ifndef MLXCEL_TEXT_CHARACTERS_H
#define MLXCEL_TEXT_CHARACTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHARACTER_NONE UINT32_MAX

struct character_pages {
    uint32_t *pages[0x110000 / 256];
};

struct character_pages *characters_create(void);
void characters_destroy(struct character_pages *characters);
bool characters_set(struct character_pages *characters, uint32_t code_point, uint32_t id);
static inline uint32_t characters_get(const struct character_pages *characters, uint32_t code_point) {
    const uint32_t *page = characters->pages[code_point >> 8];
    return page ? page[code_point & 255] : CHARACTER_NONE;
}

#endif
