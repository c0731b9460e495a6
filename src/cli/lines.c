/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lines.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_INPUT_BYTES ((size_t)1 << 30)

bool read_standard_input(struct buffer *text, struct mx_error *err) {
    for (;;) {
        if (!buffer_reserve(text, 65536)) return error_memory(err, "standard input");
        size_t n = fread(text->data + text->length, 1, 65536, stdin);
        text->length += n;
        text->data[text->length] = '\0';
        if (text->length > MAX_INPUT_BYTES) return error_set(err, ERROR_LIMIT, "standard input is larger than 1 GiB");
        if (n == 65536) continue;
        return !ferror(stdin) || error_set(err, ERROR_IO, "standard input: %s", strerror(errno));
    }
}

static bool answer_line(const char *line, size_t length, line_handler handle, void *context, struct buffer *out,
                        struct mx_error *err) {
    struct arena arena = {0};
    struct mx_error failure = {0};
    struct json_writer writer = {.out = out};
    buffer_clear(out);
    const struct json *value = json_parse(&arena, line, length, JSON_STRICT, 1000, &failure);
    if (!value || !handle(context, value, &writer, &failure)) {
        buffer_clear(out);
        writer = (struct json_writer){.out = out};
        json_begin_object(&writer);
        json_add_string(&writer, "error", failure.message);
        json_end_object(&writer);
    }
    arena_free(&arena);
    if (!buffer_putc(out, '\n')) return error_memory(err, "output");
    if (fwrite(out->data, 1, out->length, stdout) == out->length) return true;
    return error_set(err, ERROR_IO, "standard output: %s", strerror(errno));
}

bool for_each_json_line(line_handler handle, void *context, struct mx_error *err) {
    struct buffer out = {0};
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    bool ok = true;
    while (ok && (length = getline(&line, &room, stdin)) >= 0) {
        size_t n = (size_t)length;
        while (n && (line[n - 1] == '\n' || line[n - 1] == '\r')) n--;
        if (n) ok = answer_line(line, n, handle, context, &out, err);
    }
    if (ok && ferror(stdin)) ok = error_set(err, ERROR_IO, "standard input: %s", strerror(errno));
    if (ok && fflush(stdout) != 0) ok = error_set(err, ERROR_IO, "standard output: %s", strerror(errno));
    free(line);
    buffer_free(&out);
    return ok;
}
