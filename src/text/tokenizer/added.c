/* SPDX-License-Identifier: Apache-2.0 */
#include "text/tokenizer/added.h"

#include "text/tokenizer/unicode.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <string.h>

bool added_set_add(struct added_set *set, const char *text, size_t length, uint32_t token, struct mx_error *err) {
    if (length > ADDED_MAX_BYTES)
        return error_set(err, ERROR_LIMIT, "added token of %zu bytes (at most %d)", length, ADDED_MAX_BYTES);
    if (!length) {
        if (!set->has_empty) set->empty_token = token;
        set->has_empty = true;
        return true;
    }
    if (!array_reserve(&set->patterns, &set->capacity, set->count + 1, sizeof *set->patterns))
        return error_memory(err, "added tokens");
    set->patterns[set->count] =
        (struct added_pattern){.text = text, .length = (uint32_t)length, .token = token, .order = (uint32_t)set->count};
    set->count++;
    return true;
}

static int compare_patterns(const void *a, const void *b) {
    const struct added_pattern *x = a, *y = b;
    size_t n = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->text, y->text, n);
    if (order) return order;
    if (x->length != y->length) return x->length < y->length ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

void added_set_finish(struct added_set *set) {
    if (!set->count) return;
    qsort(set->patterns, set->count, sizeof *set->patterns, compare_patterns);
    size_t kept = 1;
    for (size_t i = 1; i < set->count; i++) {
        const struct added_pattern *before = &set->patterns[kept - 1], *pattern = &set->patterns[i];
        if (before->length == pattern->length && !memcmp(before->text, pattern->text, pattern->length)) continue;
        set->patterns[kept++] = *pattern;
    }
    set->count = kept;
    size_t at = 0;
    for (unsigned byte = 0; byte < 256; byte++) {
        set->first_of[byte] = (uint32_t)at;
        while (at < set->count && (unsigned char)set->patterns[at].text[0] == byte) at++;
    }
    set->first_of[256] = (uint32_t)at;
}

void added_set_free(struct added_set *set) {
    free(set->patterns);
    *set = (struct added_set){0};
}

/* The first pattern in [low, high), all equal in their first `depth` bytes, whose byte at depth is at least `byte`. */
static size_t lower_bound(const struct added_set *set, size_t low, size_t high, size_t depth, unsigned byte) {
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct added_pattern *pattern = &set->patterns[middle];
        if (pattern->length <= depth || (unsigned char)pattern->text[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest pattern at the start of text. */
static const struct added_pattern *longest_match(const struct added_set *set, const char *text, size_t length) {
    const struct added_pattern *found = NULL;
    unsigned first = (unsigned char)text[0];
    size_t low = set->first_of[first], high = set->first_of[first + 1];
    for (size_t depth = 1; low < high; depth++) {
        if (set->patterns[low].length == depth) found = &set->patterns[low++];
        if (depth >= length || low >= high) break;
        unsigned byte = (unsigned char)text[depth];
        low = lower_bound(set, low, high, depth, byte);
        high = byte == 255 ? high : lower_bound(set, low, high, depth, byte + 1);
    }
    return found;
}

static size_t character_before(const char *text, size_t at, uint32_t *c) {
    size_t start = at - 1;
    while (start && ((unsigned char)text[start] & 0xc0) == 0x80) start--;
    utf8_decode(text + start, at - start, c);
    return start;
}

static bool is_single_word(const char *text, size_t length, size_t start, size_t end) {
    uint32_t c;
    if (start && (character_before(text, start, &c), unicode_is_word(c))) return false;
    return end >= length || !utf8_decode(text + end, length - end, &c) || !unicode_is_word(c);
}

/* The next place where a pattern lies, from search->at on; advances at to its end. */
static bool find_raw(struct added_search *s, size_t *start, size_t *end, uint32_t *token) {
    const struct added_set *set = s->set;
    while (s->at < s->length) {
        const char *text = s->text + s->at;
        unsigned first = (unsigned char)*text;
        const struct added_pattern *found =
            set->first_of[first] < set->first_of[first + 1] ? longest_match(set, text, s->length - s->at) : NULL;
        bool is_boundary = (first & 0xc0) != 0x80;
        if (found || (set->has_empty && is_boundary)) {
            *start = s->at;
            *end = s->at + (found ? found->length : 0);
            *token = found ? found->token : set->empty_token;
            s->at = found ? *end : s->at + 1;
            return true;
        }
        s->at++;
    }
    return false;
}

static bool find_token(struct added_search *s, struct added_match *match) {
    size_t start, end;
    uint32_t index;
    if (!s->set->count && !s->set->has_empty) return false;
    while (find_raw(s, &start, &end, &index)) {
        const struct added_token *token = &s->tokens[index];
        uint32_t c;
        if (s->skips_special && token->is_special) continue;
        if (token->single_word && !is_single_word(s->text, s->length, start, end)) continue;
        if (token->lstrip) {
            size_t left = start;
            while (left) {
                size_t before = character_before(s->text, left, &c);
                if (!unicode_is_space(c)) break;
                left = before;
            }
            start = left > s->done ? left : s->done; /* a match before may have taken those spaces */
        }
        while (token->rstrip && end < s->length) {
            size_t n = utf8_decode(s->text + end, s->length - end, &c);
            if (!n || !unicode_is_space(c)) break;
            end += n;
        }
        *match = (struct added_match){.start = start, .end = end, .token = token};
        return true;
    }
    return false;
}

void added_search_begin(struct added_search *search, const struct added_set *set, const struct added_token *tokens,
                        const char *text, size_t length, bool skips_special) {
    *search = (struct added_search){
        .set = set, .tokens = tokens, .text = text, .length = length, .skips_special = skips_special};
}

bool added_search_next(struct added_search *search, struct added_match *match) {
    if (search->has_next) {
        *match = search->next;
        search->has_next = false;
        search->done = match->end;
        return true;
    }
    size_t done = search->done;
    if (find_token(search, match)) {
        if (done >= match->start) {
            search->done = match->end;
            return true;
        }
        search->next = *match;
        search->has_next = true;
        *match = (struct added_match){.start = done, .end = search->next.start};
        search->done = search->next.start;
        return true;
    }
    if (done >= search->length) return false;
    *match = (struct added_match){.start = done, .end = search->length};
    search->done = search->length;
    return true;
}
