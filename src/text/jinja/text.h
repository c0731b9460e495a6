/* SPDX-License-Identifier: Apache-2.0 */
/* Strings: made, joined, measured and cut by code points. */
#ifndef MLXCEL_TEXT_JINJA_TEXT_H
#define MLXCEL_TEXT_JINJA_TEXT_H

#include "text/jinja/run.h"

#include <string.h>

/* A string that copies data, or that points to bytes which outlive the rendering; NULL with the failure set. */
struct jinja_text *jinja_text_copy(struct jinja_run *run, const char *data, size_t length);
struct jinja_text *jinja_text_borrow(struct jinja_run *run, const char *data, size_t length);

/* As values. The last takes what stands in a buffer after `start` and cuts it off there; false when the buffer failed. */
bool jinja_string(struct jinja_run *run, const char *data, size_t length, struct jv *result);
bool jinja_borrowed(struct jinja_run *run, const char *data, size_t length, struct jv *result);
bool jinja_string_take(struct jinja_run *run, struct buffer *buffer, size_t start, struct jv *result);
/* A static NUL-terminated text. */
bool jinja_literal(struct jinja_run *run, const char *text, struct jv *result);

size_t jinja_text_count(struct jinja_text *text);
static inline bool jinja_text_is_ascii(struct jinja_text *text) { return jinja_text_count(text) == text->length; }
/* Byte offset of code point `index` (at most the count). */
size_t jinja_text_offset(struct jinja_text *text, size_t index);
/* Number of code points in front of a byte offset. */
size_t jinja_text_index(struct jinja_text *text, size_t offset);
/* Length in bytes of the character that starts at text[0]; text is valid UTF-8. */
static inline size_t jinja_char_length(const char *text) {
    unsigned char c = (unsigned char)*text;
    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}
/* The code point at data[*at], which moves on. */
uint32_t jinja_next_char(const char *data, size_t *at);
/* The code point before data[*at], which moves back. */
uint32_t jinja_previous_char(const char *data, size_t *at);

uint64_t jinja_text_hash(struct jinja_text *text, uint64_t seed);
static inline bool jinja_text_equal(const struct jinja_text *a, const struct jinja_text *b) {
    return a == b || (a->length == b->length && (a->data == b->data || !memcmp(a->data, b->data, a->length)));
}
static inline bool jinja_text_is(const struct jinja_text *text, const char *literal) {
    return strlen(literal) == text->length && !memcmp(text->data, literal, text->length);
}
/* By code points, as bytes: UTF-8 keeps the order. */
int jinja_text_compare(const struct jinja_text *a, const struct jinja_text *b);

/* a followed by b, in a's storage where a ends it. */
bool jinja_text_concat(struct jinja_run *run, struct jinja_text *a, struct jinja_text *b, struct jv *result);
/* text.data[from .. to), sharing the bytes. */
bool jinja_text_part(struct jinja_run *run, const struct jinja_text *text, size_t from, size_t to, struct jv *result);

/* First place of needle in haystack[from .. to), as byte offset; SIZE_MAX when it is not there. */
size_t jinja_find(const char *haystack, size_t from, size_t to, const char *needle, size_t length);
size_t jinja_find_last(const char *haystack, size_t from, size_t to, const char *needle, size_t length);

#endif
