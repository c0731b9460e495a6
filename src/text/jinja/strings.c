/* SPDX-License-Identifier: Apache-2.0 */
/* What methods of strings and filters share. The results of a Markup are Markup. */
#include "text/jinja/builtins.h"

#include "text/jinja/operate.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

/* The text in `out` as the result; frees out. */
static bool finish(struct jinja_run *run, struct buffer *out, bool ok, struct jv like, struct jv *result) {
    ok = ok && jinja_string_take(run, out, 0, result);
    buffer_free(out);
    if (ok) result->is_markup = like.is_markup;
    return ok;
}

static bool is_cased(uint32_t c) { return jinja_is_upper(c) || jinja_is_lower(c) || jinja_is_title(c); }

/* Upper or lower case of ASCII letters alone. */
static bool change_ascii_case(struct jinja_run *run, bool to_upper, struct jv text, struct jv *result) {
    size_t length = text.text->length;
    const char *data = text.text->data;
    char *out = jinja_alloc(run, length + 1, 1);
    if (!out || !jinja_spend_bytes(run, length)) return false;
    char first = to_upper ? 'a' : 'A';
    for (size_t i = 0; i < length; i++) {
        bool changes = (unsigned char)(data[i] - first) < 26;
        out[i] = (char)(changes ? data[i] ^ 0x20 : data[i]);
    }
    out[length] = '\0';
    if (!jinja_borrowed(run, out, length, result)) return false;
    result->is_markup = text.is_markup;
    return true;
}

bool jinja_change_case(struct jinja_run *run, enum jinja_case to, struct jv text, struct jv *result) {
    const char *data = text.text->data;
    size_t length = text.text->length;
    struct buffer out = {0};
    bool in_word = false;
    if ((to == JINJA_UPPER || to == JINJA_LOWER) && jinja_text_is_ascii(text.text))
        return change_ascii_case(run, to == JINJA_UPPER, text, result);
    if (!jinja_spend(run, length / 2 + 1)) return false;
    for (size_t at = 0; at < length;) {
        size_t start = at;
        uint32_t c = jinja_next_char(data, &at);
        switch (to) {
        case JINJA_UPPER: jinja_append_upper(&out, c); break;
        case JINJA_LOWER: jinja_append_lower(&out, data, length, start); break;
        case JINJA_FOLD: jinja_append_folded(&out, c); break;
        case JINJA_SWAP:
            if (jinja_is_upper(c))
                jinja_append_lower(&out, data, length, start);
            else if (jinja_is_lower(c))
                jinja_append_upper(&out, c);
            else
                jinja_append_char(&out, c);
            break;
        default:
            if (in_word)
                jinja_append_lower(&out, data, length, start);
            else
                jinja_append_title(&out, c);
            in_word = to == JINJA_CAPITALIZE || is_cased(c);
        }
    }
    return finish(run, &out, true, text, result);
}

static bool has_char(const struct jinja_text *chars, const char *data, size_t n) {
    return jinja_find(chars->data, 0, chars->length, data, n) != SIZE_MAX;
}

bool jinja_strip(struct jinja_run *run, struct jv text, const struct jinja_text *chars, bool left, bool right,
                 struct jv *result) {
    const char *data = text.text->data;
    size_t from = 0, to = text.text->length;
    while (left && from < to) {
        size_t at = from;
        uint32_t c = jinja_next_char(data, &at);
        if (chars ? !has_char(chars, data + from, at - from) : !jinja_is_space(c)) break;
        from = at;
    }
    while (right && from < to) {
        size_t at = to;
        uint32_t c = jinja_previous_char(data, &at);
        if (chars ? !has_char(chars, data + at, to - at) : !jinja_is_space(c)) break;
        to = at;
    }
    if (!jinja_spend_bytes(run, (text.text->length - (to - from)) * (chars ? 4 * chars->length + 8 : 4)) ||
        !jinja_text_part(run, text.text, from, to, result))
        return false;
    result->is_markup = text.is_markup;
    return true;
}

/* An empty `old` stands before every character and at the end. */
static bool interleave(struct jinja_run *run, struct jv text, const struct jinja_text *new, int64_t count,
                       struct buffer *out) {
    size_t at = 0;
    for (; count != 0; count--) {
        if (!jinja_put(run, out, new->data, new->length)) return false;
        if (at == text.text->length) return true;
        size_t n = jinja_char_length(text.text->data + at);
        if (!jinja_put(run, out, text.text->data + at, n)) return false;
        at += n;
    }
    return jinja_put(run, out, text.text->data + at, text.text->length - at);
}

bool jinja_replace(struct jinja_run *run, struct jv text, const struct jinja_text *old, const struct jinja_text *new,
                   int64_t count, struct jv *result) {
    const char *data = text.text->data;
    size_t length = text.text->length, at = 0, found;
    struct buffer out = {0};
    bool ok = jinja_spend_search(run, length);
    if (!old->length) return finish(run, &out, ok && interleave(run, text, new, count, &out), text, result);
    for (; ok && count != 0 && (found = jinja_find(data, at, length, old->data, old->length)) != SIZE_MAX; count--) {
        ok = jinja_put(run, &out, data + at, found - at) && jinja_put(run, &out, new->data, new->length);
        at = found + old->length;
    }
    if (ok && !at) { /* nothing found: the same string */
        *result = text;
        return true;
    }
    return finish(run, &out, ok && jinja_put(run, &out, data + at, length - at), text, result);
}

/* ---- splitting ---- */

static bool add_part(struct jinja_run *run, struct jinja_list *list, struct jv text, size_t from, size_t to) {
    struct jv part;
    if (!jinja_text_part(run, text.text, from, to, &part)) return false;
    part.is_markup = text.is_markup;
    return jinja_list_append(run, list, part);
}

static void reverse(struct jinja_list *list) {
    for (size_t i = 0, j = list->n; i + 1 < j; i++) {
        struct jv item = list->items[i];
        list->items[i] = list->items[--j];
        list->items[j] = item;
    }
}

/* Moves `at` over white space (or over anything else) and stops at `end`. */
static size_t run_of(const char *data, size_t at, size_t end, bool spaces) {
    while (at < end) {
        size_t next = at;
        if (jinja_is_space(jinja_next_char(data, &next)) != spaces) break;
        at = next;
    }
    return at;
}

static size_t run_back(const char *data, size_t at, bool spaces) {
    while (at) {
        size_t next = at;
        if (jinja_is_space(jinja_previous_char(data, &next)) != spaces) break;
        at = next;
    }
    return at;
}

static bool split_words(struct jinja_run *run, struct jv text, int64_t max, bool from_right, struct jinja_list *list) {
    const char *data = text.text->data;
    size_t length = text.text->length, at = from_right ? length : 0;
    for (;; max--) {
        if (from_right) {
            size_t to = run_back(data, at, true), from = max ? run_back(data, to, false) : 0;
            if (!to) return true;
            if (!add_part(run, list, text, from, to)) return false;
            at = from;
            if (!max) return true;
        } else {
            size_t from = run_of(data, at, length, true), to = max ? run_of(data, from, length, false) : length;
            if (from == length) return true;
            if (!add_part(run, list, text, from, to)) return false;
            at = to;
            if (!max) return true;
        }
    }
}

static bool split_at(struct jinja_run *run, struct jv text, const struct jinja_text *sep, int64_t max, bool from_right,
                     struct jinja_list *list) {
    const char *data = text.text->data;
    size_t from = 0, to = text.text->length, found;
    for (; max != 0; max--) {
        found = from_right ? jinja_find_last(data, from, to, sep->data, sep->length)
                           : jinja_find(data, from, to, sep->data, sep->length);
        if (found == SIZE_MAX) break;
        if (from_right ? !add_part(run, list, text, found + sep->length, to) : !add_part(run, list, text, from, found))
            return false;
        if (from_right)
            to = found;
        else
            from = found + sep->length;
    }
    return add_part(run, list, text, from, to);
}

struct jinja_list *jinja_split(struct jinja_run *run, struct jv text, const struct jinja_text *separator,
                               int64_t max_splits, bool from_right) {
    struct jinja_list *list = jinja_list_new(run, 0);
    if (!list || !jinja_spend_search(run, text.text->length)) return NULL;
    if (separator && !separator->length) {
        jinja_raise(run, JINJA_VALUE, "empty separator");
        return NULL;
    }
    if (max_splits < 0) max_splits = -1;
    if (separator ? !split_at(run, text, separator, max_splits, from_right, list)
                  : !split_words(run, text, max_splits, from_right, list))
        return NULL;
    if (from_right) reverse(list);
    return list;
}

struct jinja_list *jinja_splitlines(struct jinja_run *run, struct jv text, bool keeps_ends) {
    const char *data = text.text->data;
    size_t length = text.text->length, start = 0, at = 0;
    struct jinja_list *list = jinja_list_new(run, 0);
    if (!list || !jinja_spend_bytes(run, length)) return NULL;
    while (at < length) {
        size_t end = at;
        uint32_t c = jinja_next_char(data, &at);
        if (!jinja_is_line_break(c)) continue;
        if (c == '\r' && at < length && data[at] == '\n') at++;
        if (!add_part(run, list, text, start, keeps_ends ? at : end)) return NULL;
        start = at;
    }
    return start == length || add_part(run, list, text, start, length) ? list : NULL;
}

/* ---- padding ---- */

bool jinja_pad(struct jinja_run *run, struct jv text, int64_t left, int64_t right, const char *fill, size_t fill_length,
               struct jv *result) {
    if (left < 0) left = 0;
    if (right < 0) right = 0;
    if (left > (int64_t)run->max_memory_bytes || right > (int64_t)run->max_memory_bytes)
        return jinja_raise(run, JINJA_LIMIT, "a padded string is too long");
    struct buffer out = {0};
    bool ok = jinja_spend_bytes(run, (size_t)(left + right));
    for (int64_t i = 0; i < left && ok; i++) ok = buffer_append(&out, fill, fill_length);
    ok = ok && jinja_put(run, &out, text.text->data, text.text->length);
    for (int64_t i = 0; i < right && ok; i++) ok = buffer_append(&out, fill, fill_length);
    return finish(run, &out, ok, text, result);
}

bool jinja_center(struct jinja_run *run, struct jv text, int64_t width, const char *fill, size_t fill_length,
                  struct jv *result) {
    int64_t n = (int64_t)jinja_text_count(text.text), room = width > n ? width - n : 0;
    int64_t left = room / 2 + (room & width & 1);
    return jinja_pad(run, text, left, room - left, fill, fill_length, result);
}
