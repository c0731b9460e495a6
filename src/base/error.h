/* SPDX-License-Identifier: Apache-2.0 */
/* One error per failed call: a code for the program and one line for people.
 *
 * A function that can fail returns bool or a pointer and fills a struct mx_error that its caller owns. The line names
 * the file, tensor, key or option concerned, what was found and what was expected; it is lower case, without a final
 * full stop, and never holds a line break. */
#ifndef MLXCEL_BASE_ERROR_H
#define MLXCEL_BASE_ERROR_H

#include <stdbool.h>
#include <stdarg.h>

enum error_code {
    ERROR_NONE = 0,
    ERROR_USAGE,       /* the caller asked for something that makes no sense: exit 2 */
    ERROR_IO,          /* the operating system refused: open, read, map, write */
    ERROR_FORMAT,      /* a file or message is not what its format says */
    ERROR_UNSUPPORTED, /* well-formed, but mlxcel does not implement it */
    ERROR_MEMORY,      /* an allocation failed or a budget is too small */
    ERROR_LIMIT,       /* a bound on size, depth, steps or time was reached */
    ERROR_CANCELLED,   /* stopped on request */
};

struct mx_error {
    enum error_code code;
    char message[1000];
};

/* Fills err (which may be NULL) and returns false, so that `return error_set(...)` reads well. Control characters in
 * the formatted text become '?', so the message stays one line whatever a hostile file put into a name. */
bool error_set(struct mx_error *err, enum error_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool error_set_va(struct mx_error *err, enum error_code code, const char *format, va_list args);

/* The one message for a failed allocation; `what` says what the memory was for. Returns false. */
bool error_memory(struct mx_error *err, const char *what);

/* Puts "prefix: " in front of an error that is set already, e.g. the file name around a parser's message. */
bool error_prefix(struct mx_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
