/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: chat templates. Up to the first NUL byte the input is a template, behind it a context as JSON (a fixed
 * conversation where there is none). Beside memory errors it finds renderings that differ when repeated, output that is
 * no UTF-8, output after an error, errors without a line to show. */
#include "text/jinja.h"

#include "base/arena.h"
#include "base/utf8.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char conversation[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"a <b> \\u00e9\\n\"},"
    "{\"role\":\"assistant\",\"content\":\"c\",\"tool_calls\":[{\"id\":\"1\",\"function\":{\"name\":\"f\","
    "\"arguments\":"
    "{\"x\":1,\"y\":[2.5,null,true]}}}]},{\"role\":\"tool\",\"content\":\"r\"}],\"tools\":null,\"documents\":null,"
    "\"add_generation_prompt\":true,\"bos_token\":\"<s>\",\"eos_token\":\"</"
    "s>\",\"n\":3,\"big\":123456789012345678901}";

static void expect(bool claim) {
    if (!claim) abort();
}

static const struct json *read_context(struct arena *arena, const char *text, size_t length) {
    const int flags = JSON_ALLOW_NAN | JSON_PYTHON_INTEGERS;
    const struct json *context = length ? json_parse(arena, text, length, flags, 400, NULL) : NULL;
    return json_is_object(context) ? context
                                   : json_parse(arena, conversation, sizeof conversation - 1, flags, 20, NULL);
}

static bool render(const struct jinja_template *t, const struct json *context, struct buffer *out) {
    static const struct tm now = {.tm_year = 126, .tm_mday = 15, .tm_hour = 12, .tm_wday = 4, .tm_yday = 14};
    struct jinja_limits limits = {
        .max_steps = 100000, .max_output_bytes = 1 << 20, .max_memory_bytes = 16 << 20, .now = &now};
    struct jinja_failure failure = {0};
    struct mx_error err = {0};
    bool ok = jinja_render_explained(t, context, &limits, out, &failure, &err);
    if (!ok) {
        expect(!out->length && failure.kind && err.code && err.message[0] &&
               !memchr(err.message, '\n', strlen(err.message)));
    } else {
        expect(!failure.kind && out->length <= limits.max_output_bytes);
    }
    jinja_failure_free(&failure);
    return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data, *end = size ? memchr(text, '\0', size) : NULL;
    size_t length = end ? (size_t)(end - text) : size;
    struct arena arena = {0};
    struct buffer first = {0}, again = {0};
    struct mx_error err = {0};
    struct jinja_template *t = jinja_compile(text, length, &err);
    if (!t) {
        expect(err.code && err.message[0]);
        return 0;
    }
    const struct json *context = read_context(&arena, end ? end + 1 : text, end ? size - length - 1 : 0);
    bool ok = render(t, context, &first);
    expect(render(t, context, &again) == ok && first.length == again.length &&
           (!first.length || !memcmp(first.data, again.data, first.length)));
    if (ok && utf8_valid_prefix(text, length) == length)
        expect(!first.length || utf8_valid_prefix(first.data, first.length) == first.length);
    jinja_free(t);
    buffer_free(&first);
    buffer_free(&again);
    arena_free(&arena);
    return 0;
}
