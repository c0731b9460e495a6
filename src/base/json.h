/* SPDX-License-Identifier: Apache-2.0 */
/* JSON (RFC 8259): a reader that builds a tree over the input, and a writer.
 *
 * Strings without escapes point into the input, which must outlive the tree; everything else lies in the caller's
 * arena. Nesting is bounded, no recursion is used, UTF-8 is checked, lone surrogates are refused. Errors name line and
 * column (both from 1, columns in bytes). Of equal keys in an object the last one counts, as in Python, unless they are
 * refused. */
#ifndef MLXCEL_BASE_JSON_H
#define MLXCEL_BASE_JSON_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum json_type {
    JSON_NULL,
    JSON_FALSE,
    JSON_TRUE,
    JSON_INTEGER,
    JSON_REAL,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
    JSON_BIG_INTEGER, /* only with JSON_PYTHON_INTEGERS */
};

struct json_member;

struct json {
    enum json_type type;
    uint32_t count; /* bytes of a string or big integer, items of an array, members of an object */
    union {
        int64_t integer;    /* JSON_INTEGER: a literal without fraction and exponent that fits */
        double real;        /* JSON_REAL: every other number */
        const char *string; /* not NUL-terminated; of a big integer the literal */
        const struct json *items;
        const struct json_member *members;
    };
};

struct json_member {
    const char *key; /* not NUL-terminated */
    uint32_t key_length;
    struct json value;
};

enum {
    JSON_STRICT = 0,
    JSON_ALLOW_NAN = 1,         /* bare NaN, Infinity, -Infinity, as Python writes them */
    JSON_REJECT_DUPLICATES = 2, /* two equal keys in one object are an error */
    /* Literals without fraction and exponent stay integers, as in Python: -0 is 0, and one beyond 64 bits is kept as
     * text, a JSON_BIG_INTEGER (which counts as a number and is written back as it was). */
    JSON_PYTHON_INTEGERS = 4,
};

/* Parses text[0 .. length) as one value with nothing but white space (and a leading byte order mark) around it.
 * max_depth bounds the nesting of arrays and objects (at most 10,000). Returns NULL with the error set. */
const struct json *json_parse(struct arena *arena, const char *text, size_t length, int flags, int max_depth,
                              struct mx_error *err);

/* The member's value, or NULL when object is NULL, no object, or has no such key. */
const struct json *json_get(const struct json *object, const char *key);
/* The item, or NULL when array is NULL, no array, or too short. */
const struct json *json_at(const struct json *array, size_t index);

static inline bool json_is_number(const struct json *v) {
    return v && (v->type == JSON_INTEGER || v->type == JSON_REAL || v->type == JSON_BIG_INTEGER);
}
static inline bool json_is_bool(const struct json *v) { return v && (v->type == JSON_FALSE || v->type == JSON_TRUE); }
static inline bool json_is_string(const struct json *v) { return v && v->type == JSON_STRING; }
static inline bool json_is_array(const struct json *v) { return v && v->type == JSON_ARRAY; }
static inline bool json_is_object(const struct json *v) { return v && v->type == JSON_OBJECT; }
static inline bool json_is_null(const struct json *v) { return !v || v->type == JSON_NULL; } /* absent or null */

/* Value of a number (integers are converted); fallback when v is no number. */
double json_number(const struct json *v, double fallback);
/* Value of an integer, or of a real without fraction that fits; fallback otherwise. */
int64_t json_integer(const struct json *v, int64_t fallback);
bool json_bool(const struct json *v, bool fallback);
/* True when v is a string equal to text. */
bool json_string_is(const struct json *v, const char *text);
/* NUL-terminated copy of a string in the arena; NULL when v is no string, holds a NUL, or memory is out. */
char *json_string_copy(struct arena *arena, const struct json *v);
/* "null", "a number", ... for error messages. */
const char *json_type_name(const struct json *v);

/* ---- writing ---- */

/* Writes one document into a buffer, setting commas and, with indent > 0, line breaks. Errors are the buffer's. */
struct json_writer {
    struct buffer *out;
    int indent; /* spaces for each level; 0 = one line, separators as in "a":1,"b":2 */
    int depth;
    bool has_items; /* the innermost open container has one already */
    bool after_key;
};

void json_begin_object(struct json_writer *w);
void json_end_object(struct json_writer *w);
void json_begin_array(struct json_writer *w);
void json_end_array(struct json_writer *w);
void json_write_key(struct json_writer *w, const char *key);
void json_write_key_n(struct json_writer *w, const char *key, size_t length);
void json_write_string(struct json_writer *w, const char *text);
/* Invalid UTF-8 is replaced by U+FFFD, so the output is always well-formed. */
void json_write_string_n(struct json_writer *w, const char *text, size_t length);
void json_write_integer(struct json_writer *w, int64_t value);
/* The shortest decimal that reads back as the same double; null for NaN and infinities, which JSON cannot hold. */
void json_write_real(struct json_writer *w, double value);
/* As json_write_real with `format`, one printf conversion for a double, e.g. "%.9g". */
void json_write_real_as(struct json_writer *w, const char *format, double value);
void json_write_bool(struct json_writer *w, bool value);
void json_write_null(struct json_writer *w);
/* A whole parsed value. */
void json_write_value(struct json_writer *w, const struct json *value);
/* Text that is JSON already. */
void json_write_raw(struct json_writer *w, const char *text, size_t length);

/* A member: its key and its value. */
void json_add_string(struct json_writer *w, const char *key, const char *text); /* NULL is null */
void json_add_text(struct json_writer *w, const char *key, const char *text, size_t length);
void json_add_buffer(struct json_writer *w, const char *key, const struct buffer *text);
void json_add_integer(struct json_writer *w, const char *key, int64_t value);
void json_add_count(struct json_writer *w, const char *key, uint64_t value);
void json_add_real(struct json_writer *w, const char *key, double value);
void json_add_real_as(struct json_writer *w, const char *key, const char *format, double value);
void json_add_bool(struct json_writer *w, const char *key, bool value);
void json_add_null(struct json_writer *w, const char *key);
void json_add_value(struct json_writer *w, const char *key, const struct json *value);
void json_add_raw(struct json_writer *w, const char *key, const char *text, size_t length);

/* The quoted, escaped form of text, appended to out. */
void json_append_quoted(struct buffer *out, const char *text, size_t length);

#endif
