/* SPDX-License-Identifier: Apache-2.0 */
#include "text/jinja/run.h"

#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char JINJA_SYNTAX[] = "syntax", JINJA_RAISED[] = "raise_exception", JINJA_LIMIT[] = "limit",
           JINJA_TYPE[] = "TypeError", JINJA_VALUE[] = "ValueError", JINJA_KEY[] = "KeyError",
           JINJA_INDEX[] = "IndexError", JINJA_UNDEFINED[] = "UndefinedError", JINJA_SECURITY[] = "SecurityError",
           JINJA_RUNTIME[] = "TemplateRuntimeError", JINJA_ZERO[] = "ZeroDivisionError",
           JINJA_OVERFLOW[] = "OverflowError", JINJA_FILTER_ARGUMENT[] = "FilterArgumentError",
           JINJA_UNSUPPORTED[] = "unsupported", JINJA_ATTRIBUTE[] = "AttributeError",
           JINJA_ASSERTION[] = "AssertionError";

const struct jinja_limits jinja_default_limits = {
    .max_steps = 20000000, .max_output_bytes = (size_t)64 << 20, .max_memory_bytes = (size_t)256 << 20};

void jinja_failure_free(struct jinja_failure *failure) {
    buffer_free(&failure->message);
    *failure = (struct jinja_failure){0};
}

bool jinja_raise_text(struct jinja_run *run, const char *kind, const char *text, size_t length) {
    struct jinja_failure *f = run->failure;
    f->kind = kind;
    f->line = run->line;
    buffer_clear(&f->message);
    buffer_append(&f->message, text, length);
    return false;
}

bool jinja_raise(struct jinja_run *run, const char *kind, const char *format, ...) {
    char text[1000];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t n = length < 0 ? 0 : (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
    return jinja_raise_text(run, kind, text, n);
}

bool jinja_out_of_memory(struct jinja_run *run) { return jinja_raise(run, JINJA_LIMIT, "out of memory"); }

bool jinja_spend(struct jinja_run *run, uint64_t n) {
    if (n > run->steps_left) {
        run->steps_left = 0;
        return jinja_raise(run, JINJA_LIMIT, "the template takes too many steps");
    }
    run->steps_left -= n;
    return true;
}

void *jinja_alloc(struct jinja_run *run, size_t n, size_t size) {
    size_t bytes;
    if (!size_mul(n, size, &bytes) || bytes > run->max_memory_bytes ||
        run->arena->total_bytes - run->arena_start > run->max_memory_bytes - bytes) {
        jinja_raise(run, JINJA_LIMIT, "the template needs more than %zu MiB of memory", run->max_memory_bytes >> 20);
        return NULL;
    }
    void *memory = arena_alloc(run->arena, bytes);
    if (!memory) jinja_out_of_memory(run);
    return memory;
}

bool jinja_write(struct jinja_run *run, const char *text, size_t length) {
    if (length > run->max_output_bytes || run->out->length - run->out_start > run->max_output_bytes - length)
        return jinja_raise(run, JINJA_LIMIT, "the output exceeds %zu MiB", run->max_output_bytes >> 20);
    if (length > 256 && !jinja_spend_bytes(run, length)) return false;
    return buffer_append(run->out, text, length) || jinja_out_of_memory(run);
}

bool jinja_put(struct jinja_run *run, struct buffer *out, const char *text, size_t length) {
    if (length > run->max_memory_bytes || out->length > run->max_memory_bytes - length)
        return jinja_raise(run, JINJA_LIMIT, "the template needs more than %zu MiB of memory",
                           run->max_memory_bytes >> 20);
    if (length > 64 ? !jinja_spend_bytes(run, length) : !jinja_step(run)) return false;
    return buffer_append(out, text, length) || jinja_out_of_memory(run);
}

locale_t jinja_locale(struct jinja_run *run) {
    if (!run->c_locale) run->c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return run->c_locale;
}
