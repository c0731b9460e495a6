/* SPDX-License-Identifier: Apache-2.0 */
#include "text/reply_scan.h"

#include <string.h>

enum state {
    EXPECT_VALUE,
    EXPECT_FIRST_ITEM, /* or ']' */
    EXPECT_FIRST_KEY,  /* or '}' */
    EXPECT_KEY,
    EXPECT_COLON,
    AFTER_VALUE,
    IN_STRING,
    IN_ESCAPE,
    IN_HEX,
    IN_WORD,
    NUMBER_MINUS,
    NUMBER_ZERO,
    NUMBER_WHOLE,
    NUMBER_POINT,
    NUMBER_FRACTION,
    NUMBER_E,
    NUMBER_E_SIGN,
    NUMBER_EXPONENT,
};

void value_scan_begin(struct value_scan *s, bool is_python) {
    memset(s, 0, sizeof *s);
    s->is_json = !is_python;
    s->state = EXPECT_VALUE;
}

static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

/* ---- brackets ---- */

static void inside_quotes(struct value_scan *s, char c) {
    if (c == '\n' && !s->is_triple) s->is_broken = true;
    if (s->is_escaped) {
        s->is_escaped = false;
    } else if (c == '\\') {
        s->is_escaped = true;
    } else if (c == s->quote) {
        s->quotes_in_row++;
        if (!s->is_triple || s->quotes_in_row == 3) {
            s->maybe_triple = !s->is_triple && s->quotes_in_row == 1 && s->previous == s->quote ? s->quote : '\0';
            s->quote = '\0';
        }
    } else {
        s->quotes_in_row = 0;
    }
}

static void count_brackets(struct value_scan *s, char c) {
    if (s->quote) {
        inside_quotes(s, c);
        s->previous = c;
        return;
    }
    char maybe_triple = s->maybe_triple;
    s->maybe_triple = '\0';
    if (c == '"' || c == '\'') {
        /* An apostrophe begins a string only where a value may stand. */
        bool begins = c == '"' || s->previous == '\0' || strchr("([{,:=", s->previous);
        if (maybe_triple == c)
            begins = s->is_triple = true;
        else
            s->is_triple = false;
        if (begins) {
            s->quote = c;
            s->quotes_in_row = 0;
            s->is_escaped = false;
        }
    } else if (c == '(' || c == '[' || c == '{') {
        s->depth++;
    } else if ((c == ')' || c == ']' || c == '}') && --s->depth <= 0) {
        s->is_done = true;
    }
    if (!is_space(c)) s->previous = c;
}

/* ---- JSON ---- */

static bool equals(const char *base, struct scan_range r, const char *word) {
    return strlen(word) == r.to - r.from && !memcmp(base + r.from, word, r.to - r.from);
}

static enum scan_member member_of(const char *base, struct scan_range key) {
    static const struct {
        const char *key;
        enum scan_member member;
    } keys[] = {
        {"name", MEMBER_NAME},       {"tool_name", MEMBER_NAME},       {"arguments", MEMBER_ARGUMENTS},
        {"args", MEMBER_ARGUMENTS},  {"parameters", MEMBER_ARGUMENTS}, {"id", MEMBER_ID},
        {"tool_call_id", MEMBER_ID}, {"type", MEMBER_KNOWN},           {"function", MEMBER_KNOWN},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (equals(base, key, keys[i].key)) return keys[i].member;
    return MEMBER_OTHER;
}

/* A value ended before byte `end`. */
static bool value_ends(struct value_scan *s, size_t end) {
    s->state = AFTER_VALUE;
    if (s->json_depth == 1 && s->is_object[0]) {
        s->value.to = end;
        s->n_members++;
        if (s->member < N_SCAN_MEMBERS) s->members[s->member] = s->value;
    }
    return true;
}

static bool value_begins(struct value_scan *s, char c) {
    static const char *const words[] = {"true", "false", "null"};
    if (s->json_depth == 1 && s->is_object[0]) s->value = (struct scan_range){s->position, 0};
    switch (c) {
    case '{':
    case '[':
        if (s->json_depth == SCAN_MAX_DEPTH) return false;
        s->is_object[s->json_depth++] = c == '{';
        s->state = c == '{' ? EXPECT_FIRST_KEY : EXPECT_FIRST_ITEM;
        return true;
    case '"':
        s->state = IN_STRING;
        s->in_key = false;
        return true;
    case '-': s->state = NUMBER_MINUS; return true;
    case '0': s->state = NUMBER_ZERO; return true;
    default: break;
    }
    if (is_digit(c)) {
        s->state = NUMBER_WHOLE;
        return true;
    }
    for (int i = 0; i < 3; i++) {
        if (c != words[i][0]) continue;
        s->word = words[i];
        s->word_at = 1;
        s->state = IN_WORD;
        return true;
    }
    return false;
}

static bool container_ends(struct value_scan *s, char c) {
    if (!s->json_depth || s->is_object[s->json_depth - 1] != (c == '}')) return false;
    s->json_depth--;
    return value_ends(s, s->position + 1);
}

static bool key_begins(struct value_scan *s, char c) {
    if (c != '"') return false;
    s->state = IN_STRING;
    s->in_key = true;
    if (s->json_depth == 1) s->key.from = s->position + 1;
    return true;
}

static bool string_next(struct value_scan *s, const char *base, char c) {
    if ((unsigned char)c < 0x20) return false;
    if (c == '\\') s->state = IN_ESCAPE;
    if (c != '"') return true;
    if (!s->in_key) return value_ends(s, s->position + 1);
    s->state = EXPECT_COLON;
    if (s->json_depth == 1) {
        s->key.to = s->position;
        s->member = member_of(base, s->key);
        if (s->member == MEMBER_OTHER) s->has_other_key = true;
    }
    return true;
}

static bool after_value(struct value_scan *s, char c) {
    if (is_space(c)) return true;
    if (c == '}' || c == ']') return container_ends(s, c);
    if (c != ',' || !s->json_depth) return false;
    s->state = s->is_object[s->json_depth - 1] ? EXPECT_KEY : EXPECT_VALUE;
    return true;
}

static bool number_next(struct value_scan *s, char c) {
    bool digit = is_digit(c), e = c == 'e' || c == 'E';
    switch (s->state) {
    case NUMBER_MINUS: s->state = c == '0' ? NUMBER_ZERO : NUMBER_WHOLE; return digit;
    case NUMBER_POINT: s->state = NUMBER_FRACTION; return digit;
    case NUMBER_E: s->state = digit ? NUMBER_EXPONENT : NUMBER_E_SIGN; return digit || c == '+' || c == '-';
    case NUMBER_E_SIGN: s->state = NUMBER_EXPONENT; return digit;
    default: break;
    }
    if (digit && s->state != NUMBER_ZERO) return true;
    if (c == '.' && (s->state == NUMBER_ZERO || s->state == NUMBER_WHOLE)) {
        s->state = NUMBER_POINT;
        return true;
    }
    if (e && s->state != NUMBER_EXPONENT) {
        s->state = NUMBER_E;
        return true;
    }
    return value_ends(s, s->position) && after_value(s, c);
}

static bool json_next(struct value_scan *s, const char *base, char c) {
    switch (s->state) {
    case EXPECT_FIRST_ITEM:
        if (c == ']') return container_ends(s, c);
        return is_space(c) || value_begins(s, c);
    case EXPECT_VALUE: return is_space(c) || value_begins(s, c);
    case EXPECT_FIRST_KEY:
        if (c == '}') return container_ends(s, c);
        return is_space(c) || key_begins(s, c);
    case EXPECT_KEY: return is_space(c) || key_begins(s, c);
    case EXPECT_COLON:
        if (c == ':') s->state = EXPECT_VALUE;
        return c == ':' || is_space(c);
    case AFTER_VALUE: return after_value(s, c);
    case IN_STRING: return string_next(s, base, c);
    case IN_ESCAPE:
        s->state = c == 'u' ? IN_HEX : IN_STRING;
        s->hex_left = 4;
        return c && strchr("\"\\/bfnrtu", c);
    case IN_HEX:
        if (--s->hex_left == 0) s->state = IN_STRING;
        return is_hex(c);
    case IN_WORD:
        if (c != s->word[s->word_at++]) return false;
        return s->word[s->word_at] ? true : value_ends(s, s->position + 1);
    default: return number_next(s, c);
    }
}

void value_scan_next(struct value_scan *s, const char *base) {
    char c = base[s->position];
    count_brackets(s, c);
    if (s->is_json && !json_next(s, base, c)) {
        s->is_json = false;
        s->is_broken = true;
    }
    s->position++;
}

void value_scan_all(struct value_scan *s, const char *base, size_t length) {
    while (s->position < length && !s->is_done) value_scan_next(s, base);
}
