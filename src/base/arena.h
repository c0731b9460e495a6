/* SPDX-License-Identifier: Apache-2.0 */
/* Arena: many small objects with one lifetime.
 *
 * Memory comes from blocks that double in size up to 1 MiB; nothing is freed before arena_free, which releases all.
 * A zeroed struct arena is a valid empty arena. */
#ifndef MLXCEL_BASE_ARENA_H
#define MLXCEL_BASE_ARENA_H

#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *blocks; /* newest first */
    size_t used;                /* bytes taken from the newest block */
    size_t total_bytes;         /* bytes obtained from malloc so far */
};

/* size bytes, aligned to 16, uninitialised; NULL when memory is out. */
void *arena_alloc(struct arena *arena, size_t size);
/* n * size bytes, zeroed; NULL on overflow or when memory is out. */
void *arena_calloc(struct arena *arena, size_t n, size_t size);
/* A NUL-terminated copy of text[0 .. length). */
char *arena_copy(struct arena *arena, const char *text, size_t length);
char *arena_printf(struct arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
void arena_free(struct arena *arena);

#endif
