/* SPDX-License-Identifier: Apache-2.0 */
/* Growable byte string, for text that is put together piece by piece.
 *
 * A zeroed struct buffer is empty. The first failed allocation sets `failed`, after which every append does nothing
 * and returns false: a writer may check once at the end. data is NUL-terminated whenever it is not NULL. */
#ifndef MLXCEL_BASE_BUFFER_H
#define MLXCEL_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

struct buffer {
    char *data;
    size_t length;
    size_t capacity;
    bool failed;
};

bool buffer_reserve(struct buffer *buffer, size_t extra);
bool buffer_append(struct buffer *buffer, const void *bytes, size_t length);
bool buffer_puts(struct buffer *buffer, const char *text);
bool buffer_putc(struct buffer *buffer, char c);
bool buffer_printf(struct buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Drops the content and keeps the memory. */
void buffer_clear(struct buffer *buffer);
void buffer_free(struct buffer *buffer);
/* Hands the NUL-terminated text over to the caller, who frees it; NULL if an append failed. */
char *buffer_take(struct buffer *buffer);

#endif
