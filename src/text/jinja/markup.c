/* SPDX-License-Identifier: Apache-2.0 */
#include "text/jinja/markup.h"

#include "text/jinja/print.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

bool jinja_escape_into(struct jinja_run *run, const char *text, size_t length, struct buffer *out) {
    size_t plain = 0;
    for (size_t i = 0; i < length; i++) {
        const char *entity;
        switch (text[i]) {
        case '&': entity = "&amp;"; break;
        case '<': entity = "&lt;"; break;
        case '>': entity = "&gt;"; break;
        case '\'': entity = "&#39;"; break;
        case '"': entity = "&#34;"; break;
        default: continue;
        }
        if (!jinja_put(run, out, text + plain, i - plain) || !jinja_puts(run, out, entity)) return false;
        plain = i + 1;
    }
    return jinja_put(run, out, text + plain, length - plain);
}

bool jinja_escape(struct jinja_run *run, struct jv v, struct jv *result) {
    if (v.type == JV_STRING && v.is_markup) {
        *result = v;
        return true;
    }
    struct jv text;
    struct buffer out = {0};
    bool ok = jinja_to_str(run, v, &text) && jinja_escape_into(run, text.text->data, text.text->length, &out) &&
              jinja_string_take(run, &out, 0, result);
    buffer_free(&out);
    if (ok) result->is_markup = true;
    return ok;
}

bool jinja_markup_add(struct jinja_run *run, struct jv a, struct jv b, struct jv *result) {
    if (!jinja_escape(run, a, &a) || !jinja_escape(run, b, &b) || !jinja_text_concat(run, a.text, b.text, result))
        return false;
    result->is_markup = true;
    return true;
}

/* The entities that HTML shares with XML, and a few that texts are full of; numbers are resolved for every character. */
static const struct {
    const char *name, *text;
} entities[] = {{"amp;", "&"},
                {"lt;", "<"},
                {"gt;", ">"},
                {"quot;", "\""},
                {"apos;", "'"},
                {"nbsp;", "\xc2\xa0"},
                {"copy;", "\xc2\xa9"},
                {"reg;", "\xc2\xae"},
                {"laquo;", "\xc2\xab"},
                {"raquo;", "\xc2\xbb"},
                {"mdash;", "\xe2\x80\x94"},
                {"ndash;", "\xe2\x80\x93"},
                {"hellip;", "\xe2\x80\xa6"},
                {"lsquo;", "\xe2\x80\x98"},
                {"rsquo;", "\xe2\x80\x99"},
                {"ldquo;", "\xe2\x80\x9c"},
                {"rdquo;", "\xe2\x80\x9d"},
                {"euro;", "\xe2\x82\xac"},
                {"times;", "\xc3\x97"},
                {"middot;", "\xc2\xb7"},
                {"bull;", "\xe2\x80\xa2"},
                {"amp", "&"},
                {"lt", "<"},
                {"gt", ">"},
                {"quot", "\""}};

/* &#123; &#x7b; : the length of the reference behind the '&', or 0. */
static size_t read_number(const char *text, size_t length, uint32_t *value) {
    size_t at = 1;
    if (length < 2 || text[0] != '#') return 0;
    uint32_t base = (text[1] | 32) == 'x' ? 16 : 10;
    if (base == 16) at++;
    size_t first = at;
    for (*value = 0; at < length; at++) {
        char c = text[at];
        uint32_t digit = c >= '0' && c <= '9'                 ? (uint32_t)(c - '0')
                         : (c | 32) >= 'a' && (c | 32) <= 'f' ? (uint32_t)((c | 32) - 'a') + 10
                                                              : 99;
        if (digit >= base) break;
        if (*value < 0x1000000) *value = *value * base + digit;
    }
    if (at == first) return 0;
    return at + (at < length && text[at] == ';');
}

static size_t resolve_entity(const char *text, size_t length, struct buffer *out) {
    uint32_t value;
    size_t n = read_number(text, length, &value);
    if (n) {
        bool is_bad = !value || value > 0x10ffff || (value >= 0xd800 && value < 0xe000);
        jinja_append_char(out, is_bad ? 0xfffd : value);
        return n;
    }
    for (size_t i = 0; i < sizeof entities / sizeof *entities; i++) {
        n = strlen(entities[i].name);
        if (n > length || memcmp(text, entities[i].name, n) != 0) continue;
        buffer_puts(out, entities[i].text);
        return n;
    }
    return 0;
}

bool jinja_unescape(struct jinja_run *run, struct jv text, struct jv *result) {
    struct buffer out = {0};
    const char *data = text.text->data;
    size_t length = text.text->length, plain = 0;
    bool ok = true;
    for (size_t i = 0; i < length && ok; i++) {
        if (data[i] != '&') continue;
        ok = jinja_put(run, &out, data + plain, i - plain);
        plain = i;
        size_t n = resolve_entity(data + i + 1, length - i - 1, &out);
        if (n) {
            plain = i + 1 + n;
            i += n;
        }
    }
    ok = ok && jinja_put(run, &out, data + plain, length - plain) && jinja_string_take(run, &out, 0, result);
    buffer_free(&out);
    return ok;
}

/* Copies text without <tags> and <!--comments-->; an unclosed one ends the search. */
static bool without_tags(struct jinja_run *run, const char *data, size_t length, struct buffer *out) {
    size_t at = 0, start;
    while ((start = jinja_find(data, at, length, "<", 1)) != SIZE_MAX) {
        bool is_comment = length - start >= 4 && !memcmp(data + start, "<!--", 4);
        size_t end = is_comment ? jinja_find(data, start + 4 < length ? start + 4 : length, length, "-->", 3)
                                : jinja_find(data, start, length, ">", 1);
        if (end == SIZE_MAX) break;
        if (!jinja_put(run, out, data + at, start - at)) return false;
        at = end + (is_comment ? 3 : 1);
    }
    return jinja_put(run, out, data + at, length - at);
}

bool jinja_strip_tags(struct jinja_run *run, struct jv text, struct jv *result) {
    struct buffer bare = {0}, out = {0};
    bool ok = without_tags(run, text.text->data, text.text->length, &bare), in_word = false;
    for (size_t at = 0; ok && at < bare.length;) {
        size_t start = at;
        bool is_space = jinja_is_space(jinja_next_char(bare.data, &at));
        if (!is_space && !in_word && out.length) buffer_putc(&out, ' ');
        if (!is_space) buffer_append(&out, bare.data + start, at - start);
        in_word = !is_space;
    }
    struct jv plain;
    ok = ok && jinja_string_take(run, &out, 0, &plain) && jinja_unescape(run, plain, result);
    buffer_free(&bare);
    buffer_free(&out);
    return ok;
}
