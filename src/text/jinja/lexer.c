/* SPDX-License-Identifier: Apache-2.0 */
/* Text to tokens, all at once. Whitespace control happens here: '-' strips to the next text on its side, a block or
 * comment that stands alone at the start of a line loses the blanks before it (lstrip_blocks) and the line break after
 * it (trim_blocks), '+' keeps both. */
#include "text/jinja/compiler.h"

#include "base/memory.h"
#include "base/utf8.h"
#include "text/jinja/number.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

#include <stdlib.h>
#include <string.h>

#define MAX_BRACKETS JINJA_MAX_TREE

struct lexer {
    struct compiler *c;
    const char *at, *end;
    uint32_t line;
    bool line_starting; /* what was consumed last ends with a line break */
    char brackets[MAX_BRACKETS];
    size_t n_brackets;
};

static bool emit(struct lexer *l, enum token_kind kind, const char *text, size_t length, uint32_t line) {
    struct compiler *c = l->c;
    if (!array_reserve(&c->tokens, &c->token_capacity, c->n_tokens + 1, sizeof *c->tokens))
        return jinja_out_of_memory(&c->run);
    c->tokens[c->n_tokens++] =
        (struct token){.kind = (uint8_t)kind, .line = line, .length = (uint32_t)length, .text = text};
    return true;
}

static void advance(struct lexer *l, const char *to) {
    for (const char *c = l->at; c < to; c++) l->line += *c == '\n';
    if (to > l->at) l->line_starting = to[-1] == '\n';
    l->at = to;
}

static const char *skip_space(const struct lexer *l, const char *at) {
    while (at < l->end) {
        size_t n = 0;
        if (!jinja_is_space(jinja_next_char(at, &n))) break;
        at += n;
    }
    return at;
}

static bool starts_with(const struct lexer *l, const char *at, const char *text) {
    size_t n = strlen(text);
    return (size_t)(l->end - at) >= n && !memcmp(at, text, n);
}

/* The place after the end of a block or comment: "-%}" and blanks, "+%}", or "%}" and one line break; NULL when at
 * does not stand at one. `mark` is '%' or '#'. */
static const char *after_block_end(const struct lexer *l, const char *at, char mark) {
    char close[3] = {mark, '}', 0};
    if (starts_with(l, at, close)) return at + 2 + (at + 2 < l->end && at[2] == '\n');
    if (at >= l->end || !starts_with(l, at + 1, close)) return NULL;
    if (*at == '-') return skip_space(l, at + 3);
    return *at == '+' ? at + 3 : NULL;
}

/* "{%", a sign, blanks, `word`, blanks: the place after them, or NULL. */
static const char *after_word(const struct lexer *l, const char *at, const char *word) {
    at += 2;
    if (at < l->end && (*at == '-' || *at == '+')) at++;
    at = skip_space(l, at);
    if (!starts_with(l, at, word)) return NULL;
    return skip_space(l, at + strlen(word));
}

/* The text before a tag at `tag`, with what its sign strips taken off. */
static bool emit_data(struct lexer *l, const char *tag, bool is_variable) {
    const char *start = l->at, *stop = tag;
    char sign = tag + 2 < l->end ? tag[2] : '\0';
    if (sign == '-') {
        size_t from = 0, to = (size_t)(stop - start);
        while (to > from) {
            size_t at = to;
            if (!jinja_is_space(jinja_previous_char(start, &at))) break;
            to = at;
        }
        stop = start + to;
    } else if (sign != '+' && !is_variable) {
        const char *line = memrchr(start, '\n', (size_t)(stop - start));
        line = line ? line + 1 : start;
        if ((line > start || l->line_starting) && skip_space(l, line) >= stop) stop = line;
    }
    bool ok = stop == start || emit(l, TOKEN_DATA, start, (size_t)(stop - start), l->line);
    advance(l, tag);
    return ok;
}

static bool lex_comment(struct lexer *l) {
    const char *body = l->at + 2;
    if (body < l->end && (*body == '-' || *body == '+')) body++;
    if (body == l->end) return advance(l, l->end), true; /* jinja2 looks for an end only where text is left */
    for (const char *at = l->at + 2; at < l->end; at++) {
        const char *after = *at == '#' || *at == '-' || *at == '+' ? after_block_end(l, at, '#') : NULL;
        /* The sign of the opening may not serve as the sign of the end, but "{#-#}" closes by its own "#}". */
        if (after && at == l->at + 2 && *at != '#') after = NULL;
        if (!after) continue;
        advance(l, after);
        return true;
    }
    return jinja_syntax_error(l->c, l->line, "Missing end of comment tag");
}

/* At the body of a raw block, behind its "%}". */
static bool lex_raw(struct lexer *l) {
    if (l->at == l->end) return true;
    for (const char *at = l->at; (at = memchr(at, '{', (size_t)(l->end - at))); at++) {
        if (!starts_with(l, at, "{%")) continue;
        const char *word = after_word(l, at, "endraw"), *after = word ? after_block_end(l, word, '%') : NULL;
        if (!after) continue;
        if (!emit_data(l, at, false)) return false;
        advance(l, after);
        return true;
    }
    return jinja_syntax_error(l->c, l->line, "Missing end of raw directive");
}

static bool lex_operator(struct lexer *l) {
    static const struct {
        char text[3];
        uint8_t kind;
    } operators[] = {{"//", TOKEN_FLOORDIV}, {"**", TOKEN_POW},     {"==", TOKEN_EQ},    {"!=", TOKEN_NE},
                     {">=", TOKEN_GE},       {"<=", TOKEN_LE},      {"-", TOKEN_SUB},    {"+", TOKEN_ADD},
                     {"/", TOKEN_DIV},       {"*", TOKEN_MUL},      {"%", TOKEN_MOD},    {"~", TOKEN_TILDE},
                     {"[", TOKEN_LBRACKET},  {"]", TOKEN_RBRACKET}, {"(", TOKEN_LPAREN}, {")", TOKEN_RPAREN},
                     {"{", TOKEN_LBRACE},    {"}", TOKEN_RBRACE},   {">", TOKEN_GT},     {"<", TOKEN_LT},
                     {"=", TOKEN_ASSIGN},    {".", TOKEN_DOT},      {":", TOKEN_COLON},  {"|", TOKEN_PIPE},
                     {",", TOKEN_COMMA},     {";", TOKEN_SEMICOLON}};
    size_t i = 0;
    while (i < sizeof operators / sizeof *operators && !starts_with(l, l->at, operators[i].text)) i++;
    if (i == sizeof operators / sizeof *operators) {
        size_t n = jinja_char_length(l->at);
        return jinja_syntax_error(l->c, l->line, "unexpected char '%.*s'", (int)n, l->at);
    }
    char c = *l->at;
    if (c == '{' || c == '(' || c == '[') {
        if (l->n_brackets == MAX_BRACKETS) return jinja_syntax_error(l->c, l->line, "too many nested brackets");
        l->brackets[l->n_brackets++] = c == '{' ? '}' : c == '(' ? ')' : ']';
    } else if (c == '}' || c == ')' || c == ']') {
        if (!l->n_brackets) return jinja_syntax_error(l->c, l->line, "unexpected '%c'", c);
        char expected = l->brackets[--l->n_brackets];
        if (expected != c) return jinja_syntax_error(l->c, l->line, "unexpected '%c', expected '%c'", c, expected);
    }
    size_t n = strlen(operators[i].text);
    if (!emit(l, (enum token_kind)operators[i].kind, l->at, n, l->line)) return false;
    advance(l, l->at + n);
    return true;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* (\d+_)*\d+ : digits with single underscores between them; the place after, or NULL. */
static const char *after_digits(const struct lexer *l, const char *at) {
    const char *start = at;
    while (at < l->end &&
           (is_digit(*at) || (*at == '_' && at > start && at[-1] != '_' && at + 1 < l->end && is_digit(at[1]))))
        at++;
    return at > start ? at : NULL;
}

static const char *after_float(const struct lexer *l, const char *at) {
    if (at > l->c->tokens[0].text && at[-1] == '.') return NULL;
    const char *whole = after_digits(l, at), *end = NULL;
    if (!whole) return NULL;
    if (whole < l->end && *whole == '.') {
        const char *fraction = after_digits(l, whole + 1);
        if (fraction) end = whole = fraction;
    }
    if (whole < l->end && (*whole | 32) == 'e') {
        const char *exponent = whole + 1;
        if (exponent < l->end && (*exponent == '+' || *exponent == '-')) exponent++;
        if ((exponent = after_digits(l, exponent))) end = exponent;
    }
    return end;
}

static bool is_digit_of(char c, unsigned base) {
    if (base == 16 && (c | 32) >= 'a' && (c | 32) <= 'f') return true;
    return c >= '0' && c < (char)('0' + (base < 10 ? base : 10));
}

static const char *after_integer(const struct lexer *l, const char *at) {
    unsigned base = 10;
    const char *start = at;
    if (*at == '0' && at + 1 < l->end) {
        char mark = (char)(at[1] | 32);
        unsigned named = mark == 'b' ? 2 : mark == 'o' ? 8 : mark == 'x' ? 16 : 0;
        const char *first = at + 2 + (at + 2 < l->end && at[2] == '_');
        if (named && first < l->end && is_digit_of(*first, named)) {
            base = named;
            at = first;
        }
    }
    bool only_zeros = base == 10 && *at == '0';
    while (at < l->end) {
        const char *digit = at + (*at == '_' && at > start);
        if (digit >= l->end || !is_digit_of(*digit, base) || (only_zeros && *digit != '0')) break;
        at = digit + 1;
    }
    return at;
}

static bool lex_number(struct lexer *l) {
    const char *after = after_float(l, l->at);
    enum token_kind kind = after ? TOKEN_FLOAT : TOKEN_INTEGER;
    if (!after) after = after_integer(l, l->at);
    if (!emit(l, kind, l->at, (size_t)(after - l->at), l->line)) return false;
    advance(l, after);
    return true;
}

static bool lex_name(struct lexer *l) {
    const char *at = l->at;
    bool is_valid = true;
    while (at < l->end) {
        size_t n = 0;
        uint32_t c = jinja_next_char(at, &n);
        if (!jinja_is_word(c) && !jinja_is_name(c)) break;
        if (!(at == l->at ? jinja_is_name_start(c) : jinja_is_name(c))) is_valid = false;
        at += n;
    }
    if (!is_valid) return jinja_syntax_error(l->c, l->line, "Invalid character in identifier");
    if (!emit(l, TOKEN_NAME, l->at, (size_t)(at - l->at), l->line)) return false;
    advance(l, at);
    return true;
}

static int hex_value(char c) {
    if (is_digit(c)) return c - '0';
    return (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* \xXX, \uXXXX, \UXXXXXXXX: n digits at text. */
static bool decode_hex(struct lexer *l, const char *text, const char *end, int n, struct buffer *out) {
    uint32_t value = 0;
    for (int i = 0; i < n; i++) {
        int digit = text + i < end ? hex_value(text[i]) : -1;
        if (digit < 0)
            return jinja_syntax_error(l->c, l->line, "truncated \\%s escape",
                                      n == 2   ? "xXX"
                                      : n == 4 ? "uXXXX"
                                               : "UXXXXXXXX");
        value = value << 4 | (uint32_t)digit;
    }
    if (value > 0x10ffff) return jinja_syntax_error(l->c, l->line, "illegal Unicode character");
    if (value >= 0xd800 && value < 0xe000)
        return jinja_syntax_error(l->c, l->line, "a lone surrogate in a string is not supported");
    return jinja_append_char(out, value) || jinja_out_of_memory(&l->c->run);
}

/* One escape; *at stands behind the backslash and moves on. */
static bool decode_escape(struct lexer *l, const char **at, const char *end, struct buffer *out) {
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    char c = **at;
    const char *found = c ? strchr(from, c) : NULL;
    if (found) {
        ++*at;
        return buffer_putc(out, to[found - from]);
    }
    if (c == '\n') return ++*at, true;
    if (c >= '0' && c <= '7') {
        uint32_t value = 0;
        for (int i = 0; i < 3 && *at < end && **at >= '0' && **at <= '7'; i++)
            value = value * 8 + (uint32_t)(*(*at)++ - '0');
        return jinja_append_char(out, value);
    }
    if (c == 'x' || c == 'u' || c == 'U') {
        int n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        if (!decode_hex(l, *at + 1, end, n, out)) return false;
        *at += 1 + n;
        return true;
    }
    if (c == 'N') return jinja_syntax_error(l->c, l->line, "\\N escapes are not supported");
    buffer_putc(out, '\\'); /* unknown escapes stay as they are */
    if ((unsigned char)c < 0x80) return true;
    /* jinja2 writes other scripts as escapes before it decodes; behind a backslash theirs is taken as text. */
    size_t n = 0;
    uint32_t value = jinja_next_char(*at, &n);
    *at += n;
    return buffer_printf(out, value < 0x100 ? "x%02x" : value < 0x10000 ? "u%04x" : "U%08x", value);
}

static bool lex_string(struct lexer *l) {
    const char *start = l->at + 1, *stop = start;
    while (stop < l->end && *stop != *l->at) stop += *stop == '\\' && stop + 1 < l->end ? 2 : 1;
    if (stop >= l->end) return jinja_syntax_error(l->c, l->line, "unexpected char '%c'", *l->at);
    const char *text = start;
    size_t length = (size_t)(stop - start);
    if (memchr(start, '\\', length)) {
        struct buffer decoded = {0};
        bool ok = true;
        for (const char *at = start; at < stop && ok;) {
            const char *escape = memchr(at, '\\', (size_t)(stop - at));
            buffer_append(&decoded, at, (size_t)((escape ? escape : stop) - at));
            at = escape ? escape + 1 : stop;
            if (escape) ok = decode_escape(l, &at, stop, &decoded);
        }
        if (ok && decoded.failed) ok = jinja_out_of_memory(&l->c->run);
        char *copy = ok ? jinja_compiler_alloc(l->c, decoded.length + 1, 1) : NULL;
        if (copy && decoded.length) memcpy(copy, decoded.data, decoded.length);
        text = copy;
        length = decoded.length;
        buffer_free(&decoded);
        if (!copy) return false;
    }
    if (!emit(l, TOKEN_STRING, text, length, l->line)) return false;
    advance(l, stop + 1);
    return true;
}

/* Inside {{ }} or {% %}, up to its end or the end of the text. */
static bool lex_tag(struct lexer *l, bool is_variable) {
    while (l->at < l->end) {
        if (!l->n_brackets) {
            const char *after = is_variable ? NULL : after_block_end(l, l->at, '%');
            if (is_variable && starts_with(l, l->at, "}}"))
                after = l->at + 2;
            else if (is_variable && starts_with(l, l->at, "-}}"))
                after = skip_space(l, l->at + 3);
            if (after) {
                enum token_kind kind = is_variable ? TOKEN_VARIABLE_END : TOKEN_BLOCK_END;
                bool ok = emit(l, kind, l->at, 2, l->line);
                advance(l, after);
                return ok;
            }
        }
        size_t n = 0;
        uint32_t c = jinja_next_char(l->at, &n);
        bool ok = true;
        if (jinja_is_space(c))
            advance(l, l->at + n);
        else if (c < 0x80 && is_digit((char)c))
            ok = lex_number(l);
        else if (jinja_is_word(c) || jinja_is_name(c))
            ok = lex_name(l);
        else if (c == '\'' || c == '"')
            ok = lex_string(l);
        else
            ok = lex_operator(l);
        if (!ok) return false;
    }
    return true;
}

static const char *find_tag(const struct lexer *l) {
    const char *at = l->at;
    while (at < l->end && (at = memchr(at, '{', (size_t)(l->end - at)))) {
        if (at + 1 < l->end && (at[1] == '%' || at[1] == '{' || at[1] == '#')) return at;
        at++;
    }
    return NULL;
}

static bool lex_next(struct lexer *l) {
    const char *tag = find_tag(l);
    if (!tag) {
        bool ok = emit(l, TOKEN_DATA, l->at, (size_t)(l->end - l->at), l->line);
        advance(l, l->end);
        return ok;
    }
    char mark = tag[1];
    if (!emit_data(l, tag, mark == '{')) return false;
    if (mark == '#') return lex_comment(l);
    const char *word = mark == '%' ? after_word(l, tag, "raw") : NULL, *after = NULL;
    if (word && starts_with(l, word, "%}"))
        after = word + 2;
    else if (word && starts_with(l, word, "-%}"))
        after = skip_space(l, word + 3);
    if (after) {
        advance(l, after);
        return lex_raw(l);
    }
    size_t n = tag + 2 < l->end && (tag[2] == '-' || tag[2] == '+') ? 3 : 2;
    if (!emit(l, mark == '{' ? TOKEN_VARIABLE_BEGIN : TOKEN_BLOCK_BEGIN, tag, n, l->line)) return false;
    advance(l, tag + n);
    return lex_tag(l, mark == '{');
}

/* The text with "\n" for every line break and without the last one. */
static char *normalized(struct compiler *c, const char *text, size_t *length) {
    char *copy = jinja_compiler_alloc(c, *length + 1, 1), *out = copy;
    if (!copy) return NULL;
    for (size_t i = 0; i < *length; i++) {
        if (text[i] == '\r' && i + 1 < *length && text[i + 1] == '\n') continue;
        *out++ = text[i] == '\r' ? '\n' : text[i];
    }
    if (out > copy && out[-1] == '\n') out--;
    *out = '\0';
    *length = (size_t)(out - copy);
    return copy;
}

bool jinja_lex(struct compiler *c, const char *text, size_t length) {
    if (utf8_valid_prefix(text, length) != length) return jinja_syntax_error(c, 0, "the template is not UTF-8");
    char *source = normalized(c, text, &length);
    if (!source) return false;
    struct lexer l = {.c = c, .at = source, .end = source + length, .line = 1, .line_starting = true};
    /* A first token marks the start of the text for everyone who looks back; the parser begins behind it. */
    if (!emit(&l, TOKEN_DATA, source, 0, 1)) return false;
    while (l.at < l.end)
        if (!lex_next(&l)) return false;
    return emit(&l, TOKEN_EOF, l.end, 0, l.line);
}
