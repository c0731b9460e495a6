/* SPDX-License-Identifier: Apache-2.0 */
/* Jinja templates as chat templates use them: compiled once, rendered many times.
 *
 * The language is that of jinja2 3.1.6 in the set-up of transformers' apply_chat_template: immutable sandbox,
 * trim_blocks, lstrip_blocks, loop controls, the `generation` tag, a `tojson` that is Python's json.dumps, the globals
 * raise_exception and strftime_now, autoescape off, no loader (include, import and extends fail when reached). Values
 * behave as Python's: strings count code points, integers are unbounded, numbers and containers print as repr.
 *
 * A template is immutable after compilation; any number of threads may render it at the same time. Rendering is bounded
 * in steps, depth, memory and output; a template or a context can never make it hang or crash. */
#ifndef MLXCEL_TEXT_JINJA_H
#define MLXCEL_TEXT_JINJA_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct jinja_template;

struct jinja_limits {
    uint64_t max_steps; /* evaluated nodes; work on long texts and lists counts in proportion */
    size_t max_output_bytes;
    size_t max_memory_bytes; /* values alive or not: memory is given back when the rendering ends */
    const struct tm *now;    /* what strftime_now sees; NULL = the clock, local time */
};

/* 20 million steps (under 2 s), 64 MiB of output, 256 MiB of values, the clock. */
extern const struct jinja_limits jinja_default_limits;

/* Why a template failed, in the words of the reference: `kind` is "syntax" (found when compiling), "raise_exception"
 * (the template's own refusal), the name of the Python exception that jinja2 would raise, or "limit". The message is
 * exact and may hold line breaks, unlike the one in struct mx_error. jinja_failure_free releases it. */
struct jinja_failure {
    const char *kind; /* NULL = no failure */
    struct buffer message;
    unsigned line; /* of the template, from 1; 0 = unknown */
};

void jinja_failure_free(struct jinja_failure *failure);

/* Compiles text[0 .. length), UTF-8 of at most 2 MiB. The text is copied. NULL with the error set on failure;
 * `failure` may be NULL, or zeroed and owned by the caller. */
struct jinja_template *jinja_compile(const char *text, size_t length, struct mx_error *err);
struct jinja_template *jinja_compile_explained(const char *text, size_t length, struct jinja_failure *failure,
                                               struct mx_error *err);
void jinja_free(struct jinja_template *template);

/* Appends the rendering to out. `context` is an object that holds every variable (parsed with JSON_PYTHON_INTEGERS to
 * keep integers beyond 64 bits); `limits` may be NULL. On failure out is as it was before. */
bool jinja_render(const struct jinja_template *template, const struct json *context, const struct jinja_limits *limits,
                  struct buffer *out, struct mx_error *err);
bool jinja_render_explained(const struct jinja_template *template, const struct json *context,
                            const struct jinja_limits *limits, struct buffer *out, struct jinja_failure *failure,
                            struct mx_error *err);

/* True when the template's code uses this variable (not in comments, strings or text). */
bool jinja_mentions(const struct jinja_template *template, const char *name);

#endif
