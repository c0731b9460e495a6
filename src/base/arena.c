/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include "base/memory.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20 };

struct arena_block {
    struct arena_block *next;
    size_t size; /* of data */
    _Alignas(16) unsigned char data[];
};

void *arena_alloc(struct arena *arena, size_t size) {
    if (size > PTRDIFF_MAX - FIRST_BLOCK) return NULL; /* no object is larger */
    size = round_up(size ? size : 1, 16);
    if (!arena->blocks || arena->blocks->size - arena->used < size) {
        size_t wanted = arena->blocks ? arena->blocks->size * 2 : FIRST_BLOCK;
        if (wanted > LARGEST_BLOCK) wanted = LARGEST_BLOCK;
        if (wanted < size) wanted = size;
        struct arena_block *block = malloc(sizeof *block + wanted);
        if (!block) return NULL;
        block->next = arena->blocks;
        block->size = wanted;
        arena->blocks = block;
        arena->used = 0;
        arena->total_bytes += wanted;
    }
    void *result = arena->blocks->data + arena->used;
    arena->used += size;
    return result;
}

void *arena_calloc(struct arena *arena, size_t n, size_t size) {
    size_t bytes;
    if (!size_mul(n, size, &bytes)) return NULL;
    void *result = arena_alloc(arena, bytes);
    if (result) memset(result, 0, bytes);
    return result;
}

char *arena_copy(struct arena *arena, const char *text, size_t length) {
    if (length == SIZE_MAX) return NULL;
    char *copy = arena_alloc(arena, length + 1);
    if (!copy) return NULL;
    if (length) memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

char *arena_printf(struct arena *arena, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = length < 0 ? NULL : arena_alloc(arena, (size_t)length + 1);
    if (text) vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

void arena_free(struct arena *arena) {
    struct arena_block *block = arena->blocks;
    while (block) {
        struct arena_block *next = block->next;
        free(block);
        block = next;
    }
    *arena = (struct arena){0};
}
