/* SPDX-License-Identifier: Apache-2.0 */
#include "text/tokenizer/aligned.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <string.h>

static bool reserve(struct aligned *aligned, size_t extra) {
    if (aligned->failed) return false;
    size_t want;
    bool ok = size_add(aligned->length, extra, &want) && array_reserve(&aligned->text, &aligned->capacity, want, 1) &&
              (!aligned->is_tracked ||
               array_reserve(&aligned->origin, &aligned->origin_capacity, want, sizeof *aligned->origin));
    if (!ok) aligned->failed = true;
    return ok;
}

void aligned_begin(struct aligned *aligned, size_t expected, bool is_tracked) {
    aligned->length = 0;
    aligned->is_tracked = is_tracked;
    aligned->failed = false;
    reserve(aligned, expected + 16);
}

/* Bytes of the character at text[at], which is valid UTF-8. */
static size_t character_length(const char *text) {
    unsigned char c = (unsigned char)*text;
    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

void aligned_set(struct aligned *aligned, const char *text, size_t length, uint32_t shift, bool is_tracked) {
    aligned_begin(aligned, length, is_tracked);
    if (aligned->failed) return;
    memcpy(aligned->text, text, length);
    aligned->length = length;
    for (size_t i = 0; is_tracked && i < length;) {
        size_t n = character_length(text + i);
        struct origin origin = {shift + (uint32_t)i, shift + (uint32_t)(i + n)};
        for (size_t k = 0; k < n && i < length; k++) aligned->origin[i++] = origin;
    }
}

void aligned_copy(struct aligned *aligned, const struct aligned *from, size_t start, size_t end) {
    size_t n = end - start;
    if (!n || !reserve(aligned, n)) return;
    memcpy(aligned->text + aligned->length, from->text + start, n);
    if (aligned->is_tracked)
        memcpy(aligned->origin + aligned->length, from->origin + start, n * sizeof *aligned->origin);
    aligned->length += n;
}

void aligned_put(struct aligned *aligned, const char *bytes, size_t length, struct origin origin) {
    if (!length || !reserve(aligned, length)) return;
    memcpy(aligned->text + aligned->length, bytes, length);
    for (size_t i = 0; aligned->is_tracked && i < length; i++) aligned->origin[aligned->length + i] = origin;
    aligned->length += length;
}

void aligned_free(struct aligned *aligned) {
    free(aligned->text);
    free(aligned->origin);
    *aligned = (struct aligned){0};
}

void rewrite_begin(struct rewrite *rewrite, struct aligned *to, const struct aligned *from, size_t start, size_t end,
                   struct origin before) {
    *rewrite = (struct rewrite){.to = to, .from = from, .start = start, .at = start, .end = end, .before = before};
}

void rewrite_skip(struct rewrite *rewrite, size_t n) {
    for (; n && rewrite->at < rewrite->end; n--) rewrite->at += character_length(rewrite->from->text + rewrite->at);
}

void rewrite_put(struct rewrite *rewrite, uint32_t code_point, long change) {
    const struct aligned *from = rewrite->from;
    struct origin origin = rewrite->before;
    if (from->is_tracked) {
        if (change > 0 && rewrite->at > rewrite->start)
            origin = from->origin[rewrite->at - 1];
        else if (change <= 0 && rewrite->at < rewrite->end)
            origin = from->origin[rewrite->at];
    }
    char bytes[4];
    aligned_put(rewrite->to, bytes, utf8_encode(code_point, bytes), origin);
    if (change <= 0) rewrite_skip(rewrite, (size_t)(1 - change));
}

void rewrite_keep(struct rewrite *rewrite) {
    if (rewrite->at >= rewrite->end) return;
    size_t n = character_length(rewrite->from->text + rewrite->at);
    aligned_copy(rewrite->to, rewrite->from, rewrite->at, rewrite->at + n);
    rewrite->at += n;
}
