/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: JSON text. What is accepted survives writing and reading; a refusal has a message on one line; the
 * recogniser that follows tool calls byte by byte agrees about objects. */
#include "base/json.h"

#include "base/utf8.h"
#include "text/reply_scan.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DEPTH = 200 };

static void expect(bool claim) {
    if (!claim) abort();
}

/* The value written, read and written again gives the same text. */
static void check_round_trip(const struct json *value) {
    struct arena arena = {0};
    struct buffer first = {0}, second = {0};
    for (int indent = 0; indent <= 2; indent += 2) {
        buffer_clear(&first);
        buffer_clear(&second);
        json_write_value(&(struct json_writer){.out = &first, .indent = indent}, value);
        const struct json *again = json_parse(&arena, first.data, first.length, JSON_STRICT, DEPTH, NULL);
        expect(again != NULL);
        json_write_value(&(struct json_writer){.out = &second, .indent = indent}, again);
        expect(first.length == second.length && !memcmp(first.data, second.data, first.length));
    }
    buffer_free(&first);
    buffer_free(&second);
    arena_free(&arena);
}

/* The byte-wise recogniser does not look at UTF-8 and surrogates; apart from them both must agree on an object. */
static void compare_with_scan(const char *text, size_t size, bool accepted) {
    struct value_scan scan;
    value_scan_begin(&scan, false);
    value_scan_all(&scan, text, size);
    size_t rest = scan.position;
    while (rest < size && strchr(" \t\r\n", text[rest]) && text[rest]) rest++;
    bool recognised = scan.is_done && scan.is_json && rest == size;
    if (accepted) expect(recognised);
    if (recognised && utf8_valid_prefix(text, size) == size && !memmem(text, size, "\\u", 2)) expect(accepted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    struct arena arena = {0};
    struct mx_error err = {0};
    const char *text = (const char *)data + 1;
    size_t length = size - 1;
    const struct json *strict = json_parse(&arena, text, length, JSON_STRICT, DEPTH, &err);
    if (strict)
        check_round_trip(strict);
    else
        expect(err.code == ERROR_FORMAT && !strncmp(err.message, "line ", 5) && !strchr(err.message, '\n'));
    const struct json *loose = json_parse(&arena, text, length, data[0] & 3, DEPTH, NULL);
    if (strict && !(data[0] & JSON_REJECT_DUPLICATES)) expect(loose != NULL);
    if (length && text[0] == '{') compare_with_scan(text, length, strict != NULL);
    arena_free(&arena);
    return 0;
}
