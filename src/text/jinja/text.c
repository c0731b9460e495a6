/* SPDX-License-Identifier: Apache-2.0 */
#include "text/jinja/text.h"

#include "base/memory.h"
#include "base/utf8.h"

/* Room for the growing string that starts with this one; strings shorter than this are simply copied. */
#define SHARE_FROM 256

struct jinja_text *jinja_text_borrow(struct jinja_run *run, const char *data, size_t length) {
    struct jinja_text *text = jinja_alloc(run, 1, sizeof *text);
    if (text) *text = (struct jinja_text){.data = data, .length = length, .n_chars = JINJA_UNCOUNTED};
    return text;
}

struct jinja_text *jinja_text_copy(struct jinja_run *run, const char *data, size_t length) {
    if (length > 1024 && !jinja_spend_bytes(run, length)) return NULL;
    char *copy = jinja_alloc(run, length + 1, 1);
    if (!copy) return NULL;
    if (length) memcpy(copy, data, length);
    copy[length] = '\0';
    return jinja_text_borrow(run, copy, length);
}

bool jinja_string(struct jinja_run *run, const char *data, size_t length, struct jv *result) {
    struct jinja_text *text = jinja_text_copy(run, data, length);
    *result = jv_text(text);
    return text != NULL;
}

bool jinja_borrowed(struct jinja_run *run, const char *data, size_t length, struct jv *result) {
    struct jinja_text *text = jinja_text_borrow(run, data, length);
    *result = jv_text(text);
    return text != NULL;
}

bool jinja_string_take(struct jinja_run *run, struct buffer *buffer, size_t start, struct jv *result) {
    if (buffer->failed) return jinja_out_of_memory(run);
    struct jinja_text *text = jinja_text_copy(run, buffer->data ? buffer->data + start : "", buffer->length - start);
    buffer->length = start;
    if (buffer->data) buffer->data[start] = '\0';
    *result = jv_text(text);
    return text != NULL;
}

bool jinja_literal(struct jinja_run *run, const char *text, struct jv *result) {
    return jinja_borrowed(run, text, strlen(text), result);
}

size_t jinja_text_count(struct jinja_text *text) {
    if (text->n_chars == JINJA_UNCOUNTED) text->n_chars = utf8_count(text->data, text->length);
    return text->n_chars;
}

size_t jinja_text_offset(struct jinja_text *text, size_t index) {
    if (jinja_text_is_ascii(text)) return index;
    size_t at = 0;
    if (index > text->n_chars / 2) { /* from the nearer end */
        at = text->length;
        for (size_t left = text->n_chars - index; left; left--) do
                at--;
            while (((unsigned char)text->data[at] & 0xc0) == 0x80);
        return at;
    }
    while (index--) at += jinja_char_length(text->data + at);
    return at;
}

size_t jinja_text_index(struct jinja_text *text, size_t offset) {
    return jinja_text_is_ascii(text) ? offset : utf8_count(text->data, offset);
}

uint32_t jinja_next_char(const char *data, size_t *at) {
    uint32_t c = (unsigned char)data[*at];
    size_t n = jinja_char_length(data + *at);
    if (n > 1) {
        c &= 0xffu >> (n + 1);
        for (size_t i = 1; i < n; i++) c = c << 6 | ((unsigned char)data[*at + i] & 0x3f);
    }
    *at += n;
    return c;
}

uint32_t jinja_previous_char(const char *data, size_t *at) {
    do --*at;
    while (((unsigned char)data[*at] & 0xc0) == 0x80);
    size_t start = *at;
    return jinja_next_char(data, &start);
}

uint64_t jinja_text_hash(struct jinja_text *text, uint64_t seed) {
    if (text->hash) return text->hash;
    uint64_t h = seed ^ text->length;
    size_t i = 0;
    for (; i + 8 <= text->length; i += 8) {
        uint64_t word;
        memcpy(&word, text->data + i, 8);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    uint64_t last = 0;
    memcpy(&last, text->data + i, text->length - i);
    h = (h ^ last) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
    text->hash = h ? h : 1;
    return text->hash;
}

int jinja_text_compare(const struct jinja_text *a, const struct jinja_text *b) {
    size_t n = a->length < b->length ? a->length : b->length;
    int order = n ? memcmp(a->data, b->data, n) : 0;
    if (order) return order < 0 ? -1 : 1;
    return (a->length > b->length) - (a->length < b->length);
}

bool jinja_text_concat(struct jinja_run *run, struct jinja_text *a, struct jinja_text *b, struct jv *result) {
    size_t length;
    if (!size_add(a->length, b->length, &length)) return jinja_out_of_memory(run);
    if (!jinja_spend_bytes(run, b->length)) return false;
    struct jinja_text *sum = jinja_text_borrow(run, NULL, length);
    if (!sum) return false;
    if (a->n_chars != JINJA_UNCOUNTED && b->n_chars != JINJA_UNCOUNTED) sum->n_chars = a->n_chars + b->n_chars;
    struct jinja_tail *tail = a->tail;
    if (!tail || tail->used != a->length || tail->capacity - tail->used < b->length) {
        size_t capacity = length < SHARE_FROM ? length : length * 2;
        if (!jinja_spend_bytes(run, a->length)) return false;
        tail = jinja_alloc(run, 1, sizeof *tail + capacity);
        if (!tail) return false;
        *tail = (struct jinja_tail){.capacity = capacity};
        if (a->length) memcpy(tail + 1, a->data, a->length);
    }
    char *data = (char *)(tail + 1);
    if (b->length) memcpy(data + a->length, b->data, b->length);
    tail->used = length;
    sum->data = data;
    sum->tail = tail;
    *result = jv_text(sum);
    return true;
}

bool jinja_text_part(struct jinja_run *run, const struct jinja_text *text, size_t from, size_t to, struct jv *result) {
    struct jinja_text *part = jinja_text_borrow(run, text->data + from, to - from);
    if (!part) return false;
    if (text->n_chars == text->length) part->n_chars = part->length;
    *result = jv_text(part);
    return true;
}

size_t jinja_find(const char *haystack, size_t from, size_t to, const char *needle, size_t length) {
    if (from > to || length > to - from) return SIZE_MAX;
    if (!length) return from;
    const char *at = haystack + from,
               *found = length == 1 ? memchr(at, *needle, to - from) : memmem(at, to - from, needle, length);
    return found ? (size_t)(found - haystack) : SIZE_MAX;
}

#define HASH_PRIME (((uint64_t)1 << 61) - 1)

static uint64_t hash_step(uint64_t hash, uint64_t factor, uint64_t add) {
    unsigned __int128 x = (unsigned __int128)hash * factor + add;
    uint64_t folded = (uint64_t)(x & HASH_PRIME) + (uint64_t)(x >> 61);
    return folded >= HASH_PRIME ? folded - HASH_PRIME : folded;
}

/* Compares hashes of windows, from the end to the start: linear even where every window begins like the needle. */
static size_t find_last_long(const char *haystack, size_t from, size_t to, const char *needle, size_t length) {
    const uint64_t base = 0x1b873593cc9e2d51u % HASH_PRIME;
    uint64_t wanted = 0, hash = 0, power = 1; /* base^(length - 1) */
    size_t at = to - length;
    for (size_t i = length; i-- > 0;) {
        wanted = hash_step(wanted, base, (unsigned char)needle[i]);
        hash = hash_step(hash, base, (unsigned char)haystack[at + i]);
        if (i) power = hash_step(power, base, 0);
    }
    for (;; at--) {
        if (hash == wanted && !memcmp(haystack + at, needle, length)) return at;
        if (at == from) return SIZE_MAX;
        uint64_t gone = hash_step(power, (unsigned char)haystack[at + length - 1], 0);
        hash = hash_step(hash + HASH_PRIME - gone, base, (unsigned char)haystack[at - 1]);
    }
}

size_t jinja_find_last(const char *haystack, size_t from, size_t to, const char *needle, size_t length) {
    if (from > to || length > to - from) return SIZE_MAX;
    if (length > 16) return find_last_long(haystack, from, to, needle, length);
    for (size_t at = to - length + 1; at-- > from;)
        if (!length || (haystack[at] == *needle && !memcmp(haystack + at, needle, length))) return at;
    return SIZE_MAX;
}
