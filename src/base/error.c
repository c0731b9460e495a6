/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <stdio.h>
#include <string.h>

static void keep_one_line(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f) *text = '?';
}

bool error_set_va(struct mx_error *err, enum error_code code, const char *format, va_list args) {
    if (!err) return false;
    err->code = code;
    vsnprintf(err->message, sizeof err->message, format, args);
    keep_one_line(err->message);
    return false;
}

bool error_set(struct mx_error *err, enum error_code code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    error_set_va(err, code, format, args);
    va_end(args);
    return false;
}

bool error_memory(struct mx_error *err, const char *what) {
    return error_set(err, ERROR_MEMORY, "out of memory (%s)", what);
}

bool error_prefix(struct mx_error *err, const char *format, ...) {
    if (!err) return false;
    char rest[sizeof err->message];
    memcpy(rest, err->message, sizeof rest);
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    size_t used = strlen(err->message);
    snprintf(err->message + used, sizeof err->message - used, ": %s", rest);
    keep_one_line(err->message);
    return false;
}
