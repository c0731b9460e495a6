/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buffer.h"

#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool buffer_reserve(struct buffer *buffer, size_t extra) {
    if (buffer->failed) return false;
    size_t want;
    if (!size_add(buffer->length, extra, &want) || !size_add(want, 1, &want) ||
        !array_reserve(&buffer->data, &buffer->capacity, want, 1)) {
        buffer->failed = true;
        return false;
    }
    return true;
}

bool buffer_append(struct buffer *buffer, const void *bytes, size_t length) {
    if (!buffer_reserve(buffer, length)) return false;
    if (length) memcpy(buffer->data + buffer->length, bytes, length);
    buffer->length += length;
    buffer->data[buffer->length] = '\0';
    return true;
}

bool buffer_puts(struct buffer *buffer, const char *text) { return buffer_append(buffer, text, strlen(text)); }

bool buffer_putc(struct buffer *buffer, char c) { return buffer_append(buffer, &c, 1); }

bool buffer_printf(struct buffer *buffer, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    bool ok = length >= 0 && buffer_reserve(buffer, (size_t)length);
    if (ok) {
        vsnprintf(buffer->data + buffer->length, (size_t)length + 1, format, again);
        buffer->length += (size_t)length;
    }
    va_end(again);
    return ok;
}

void buffer_clear(struct buffer *buffer) {
    buffer->length = 0;
    buffer->failed = false;
    if (buffer->data) buffer->data[0] = '\0';
}

void buffer_free(struct buffer *buffer) {
    free(buffer->data);
    *buffer = (struct buffer){0};
}

char *buffer_take(struct buffer *buffer) {
    if (!buffer->data) buffer_append(buffer, "", 0);
    if (buffer->failed) {
        buffer_free(buffer);
        return NULL;
    }
    char *text = buffer->data;
    *buffer = (struct buffer){0};
    return text;
}
