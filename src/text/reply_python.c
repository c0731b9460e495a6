/* SPDX-License-Identifier: Apache-2.0 */
/* Python literals, as ast.literal_eval reads them, to JSON as json.dumps would write them. */
#include "text/reply_values.h"

#include "base/json.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 128 };

struct reader {
    const char *at, *end;
};

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_word_char(char c) {
    return is_digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' || (unsigned char)c >= 0x80;
}

static char peek(const struct reader *r) { return r->at < r->end ? *r->at : '\0'; }

static void skip_space(struct reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r')) r->at++;
}

static bool take(struct reader *r, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) return false;
    r->at += n;
    return true;
}

/* ---- strings ---- */

static int hex_value(char c) {
    if (is_digit(c)) return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hex(struct reader *r, int n, uint32_t *value) {
    *value = 0;
    if (r->end - r->at < n) return false;
    for (int i = 0; i < n; i++) {
        int digit = hex_value(r->at[i]);
        if (digit < 0) return false;
        *value = *value << 4 | (uint32_t)digit;
    }
    r->at += n;
    return true;
}

static void append_code_point(struct buffer *out, uint32_t c) {
    char bytes[4];
    size_t n = utf8_encode(c, bytes);
    if (n)
        buffer_append(out, bytes, n);
    else
        buffer_puts(out, "\xef\xbf\xbd");
}

/* After a backslash and 'x', 'u' or 'U'. Two \u escapes that are a surrogate pair are one character. */
static bool read_code_point(struct reader *r, int digits, struct buffer *out) {
    uint32_t c, low;
    if (!read_hex(r, digits, &c)) return false;
    if (c >= 0xd800 && c < 0xdc00) {
        struct reader ahead = *r;
        if (take(&ahead, "\\u") && read_hex(&ahead, 4, &low) && low >= 0xdc00 && low < 0xe000) {
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
            *r = ahead;
        }
    }
    append_code_point(out, c);
    return true;
}

static bool read_escape(struct reader *r, struct buffer *out) {
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    char c = peek(r);
    if (r->at == r->end) return false;
    const char *found = c ? strchr(from, c) : NULL;
    if (found) {
        r->at++;
        return buffer_putc(out, to[found - from]);
    }
    if (c == '\n') {
        r->at++;
        return true;
    }
    if (c == 'x' || c == 'u' || c == 'U') {
        r->at++;
        return read_code_point(r, c == 'x' ? 2 : c == 'u' ? 4 : 8, out);
    }
    if (c >= '0' && c <= '7') {
        uint32_t value = 0;
        for (int i = 0; i < 3 && peek(r) >= '0' && peek(r) <= '7'; i++) value = value * 8 + (uint32_t)(*r->at++ - '0');
        append_code_point(out, value);
        return true;
    }
    return buffer_putc(out, '\\'); /* an unknown escape stands for itself */
}

/* One string literal, its text appended to `out`; the reader stands at the prefix or the quote. */
static bool read_one_string(struct reader *r, struct buffer *out) {
    bool is_raw = false;
    while (peek(r) != '"' && peek(r) != '\'') is_raw |= (*r->at++ | 32) == 'r';
    char quote = *r->at;
    const char triple[] = {quote, quote, quote, '\0'};
    const char single[] = {quote, '\0'};
    const char *close = take(r, triple) ? triple : single;
    if (close == single) r->at++;
    while (r->at < r->end) {
        if (take(r, close)) return true;
        char c = *r->at++;
        if (c != '\\')
            buffer_putc(out, c);
        else if (!is_raw) {
            if (!read_escape(r, out)) return false;
        } else {
            buffer_putc(out, c);
            if (r->at < r->end) buffer_putc(out, *r->at++);
        }
    }
    return false;
}

static bool at_string(const struct reader *r) {
    const char *at = r->at;
    for (int i = 0; i < 2 && at < r->end && *at && strchr("rRuUbB", *at); i++) at++;
    return at < r->end && (*at == '"' || *at == '\'');
}

/* Adjacent literals are one string. */
static bool read_string(struct reader *r, struct buffer *out) {
    struct buffer text = {0};
    bool ok = true;
    while (ok && at_string(r)) {
        ok = read_one_string(r, &text);
        struct reader ahead = *r;
        skip_space(&ahead);
        if (at_string(&ahead)) *r = ahead;
    }
    if (ok) json_append_quoted(out, text.data ? text.data : "", text.length);
    out->failed |= text.failed;
    ok = ok && !text.failed;
    buffer_free(&text);
    return ok;
}

/* ---- numbers ---- */

static bool read_digits(struct reader *r, struct buffer *out) {
    const char *first = r->at;
    while (is_digit(peek(r)) || (peek(r) == '_' && r->at > first && r->at + 1 < r->end && is_digit(r->at[1]))) {
        if (*r->at != '_') buffer_putc(out, *r->at);
        r->at++;
    }
    return r->at > first;
}

static bool read_based(struct reader *r, struct buffer *out) {
    int base = (r->at[1] | 32) == 'x' ? 16 : (r->at[1] | 32) == 'o' ? 8 : 2;
    uint64_t value = 0;
    const char *first = r->at += 2;
    for (; r->at < r->end && is_word_char(*r->at); r->at++) {
        if (*r->at == '_') continue;
        int digit = hex_value(*r->at);
        if (digit < 0 || digit >= base || value > UINT64_MAX / 16) return false;
        value = value * (uint64_t)base + (uint64_t)digit;
    }
    return r->at > first && buffer_printf(out, "%llu", (unsigned long long)value);
}

static bool read_number(struct reader *r, struct buffer *out) {
    if (peek(r) == '-') buffer_putc(out, '-');
    if (peek(r) == '-' || peek(r) == '+') r->at++;
    if (r->end - r->at > 2 && *r->at == '0' && strchr("xXoObB", r->at[1]) && r->at[1]) return read_based(r, out);
    const char *first = r->at;
    while (r->at + 1 < r->end && *r->at == '0' && is_digit(r->at[1])) r->at++; /* JSON has no leading zeros */
    bool has_zeros = r->at > first, has_whole = read_digits(r, out), is_real = false;
    if (!has_whole) buffer_putc(out, '0');
    if (peek(r) == '.') {
        r->at++;
        is_real = true;
        buffer_putc(out, '.');
        bool has_fraction = read_digits(r, out);
        if (!has_fraction) buffer_putc(out, '0');
        if (!has_whole && !has_fraction) return false;
    } else if (!has_whole) {
        return false;
    }
    if ((peek(r) | 32) == 'e') {
        r->at++;
        is_real = true;
        buffer_putc(out, 'e');
        if (peek(r) == '-' || peek(r) == '+') buffer_putc(out, *r->at++);
        if (!read_digits(r, out)) return false;
    }
    return (is_real || !has_zeros) && !is_word_char(peek(r));
}

static bool read_word(struct reader *r, struct buffer *out) {
    static const char *const words[][2] = {{"None", "null"}, {"True", "true"}, {"False", "false"},
                                           {"null", "null"}, {"true", "true"}, {"false", "false"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!take(r, words[i][0])) continue;
        return !is_word_char(peek(r)) && buffer_puts(out, words[i][1]);
    }
    return false;
}

static bool read_scalar(struct reader *r, struct buffer *out) {
    if (at_string(r)) return read_string(r, out);
    char c = peek(r);
    if (is_digit(c) || c == '-' || c == '+' || c == '.') return read_number(r, out);
    return read_word(r, out);
}

/* A dictionary's key: a scalar, quoted where it is no string. */
static bool read_key(struct reader *r, struct buffer *out) {
    struct buffer key = {0};
    bool ok = read_scalar(r, &key) && !key.failed;
    if (ok && key.data[0] == '"')
        buffer_append(out, key.data, key.length);
    else if (ok)
        json_append_quoted(out, key.data, key.length);
    buffer_free(&key);
    return ok;
}

/* ---- containers ---- */

struct frame {
    char open;
    bool has_comma, wants_comma, has_key;
    size_t n_items, start; /* start: where in `out` the container begins */
};

static bool closes(const struct frame *f, char c) { return c == (f->open == '(' ? ')' : f->open == '[' ? ']' : '}'); }

static bool insert_bracket(struct buffer *out, size_t at) {
    if (!buffer_putc(out, '[')) return false;
    memmove(out->data + at + 1, out->data + at, out->length - 1 - at);
    out->data[at] = '[';
    return true;
}

/* Parentheses make a tuple only with a comma or nothing in them. */
static bool close_frame(const struct frame *f, struct buffer *out) {
    if (f->open == '{') return buffer_putc(out, '}');
    if (f->open == '(' && f->n_items == 1 && !f->has_comma) return true;
    if (f->open == '(' && !insert_bracket(out, f->start)) return false;
    return buffer_putc(out, ']');
}

/* After a value within f: a colon, a comma or the closing bracket. Sets *closed. */
static bool after_item(struct reader *r, struct frame *f, struct buffer *out, bool *closed) {
    skip_space(r);
    char c = peek(r);
    *closed = false;
    if (r->at == r->end) return false;
    r->at++;
    if (f->open == '{' && !f->has_key) {
        f->has_key = true;
        return c == ':' && buffer_putc(out, ':');
    }
    f->has_key = false;
    f->n_items++;
    if (c == ',') return f->has_comma = f->wants_comma = true;
    *closed = closes(f, c);
    return *closed && close_frame(f, out);
}

static bool read_value(struct reader *r, struct buffer *out) {
    struct frame stack[MAX_DEPTH];
    size_t depth = 0;
    for (;;) {
        struct frame *f = depth ? &stack[depth - 1] : NULL;
        bool closed = false;
        skip_space(r);
        char c = peek(r);
        if (f && !f->has_key && (f->wants_comma || !f->n_items) && closes(f, c)) {
            r->at++;
            if (!close_frame(f, out)) return false;
            closed = true;
        } else {
            if (f && f->wants_comma) buffer_putc(out, ',');
            if (f) f->wants_comma = false;
            bool is_key = f && f->open == '{' && !f->has_key;
            if (c && !is_key && strchr("([{", c)) {
                if (depth == MAX_DEPTH) return false;
                stack[depth++] = (struct frame){.open = c, .start = out->length};
                if (c != '(') buffer_putc(out, c);
                r->at++;
                continue;
            }
            if (!(is_key ? read_key(r, out) : read_scalar(r, out))) return false;
        }
        if (closed) depth--;
        do {
            if (!depth) return !out->failed;
            if (!after_item(r, &stack[depth - 1], out, &closed)) return false;
            if (closed) depth--;
        } while (closed);
    }
}

bool reply_python_value(struct buffer *out, const char *text, size_t length) {
    struct reader r = {text, text + length};
    if (!read_value(&r, out)) return false;
    skip_space(&r);
    return r.at == r.end;
}

bool reply_python_arguments(struct buffer *out, const char *text, size_t length) {
    struct reader r = {text, text + length};
    bool wants_comma = false;
    if (!take(&r, "(")) return false;
    buffer_putc(out, '{');
    for (;;) {
        skip_space(&r);
        if (take(&r, ")")) break;
        const char *key = r.at;
        while (r.at < r.end && is_word_char(*r.at)) r.at++;
        size_t n = (size_t)(r.at - key);
        skip_space(&r);
        if (!n || is_digit(*key) || !take(&r, "=")) return false;
        if (wants_comma) buffer_putc(out, ',');
        json_append_quoted(out, key, n);
        buffer_putc(out, ':');
        if (!read_value(&r, out)) return false;
        skip_space(&r);
        wants_comma = take(&r, ",");
        if (!wants_comma && peek(&r) != ')') return false;
    }
    return r.at == r.end && buffer_putc(out, '}');
}
