/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions into patterns.
 *
 * Python's notation, or ECMAScript's for JSON Schema (REGEX_ECMA); the differences are few: classes of white space, what
 * . leaves out, [] and an open {,n}. \d and \w are ASCII in both. What is no regular language, or what a character-wise
 * machine cannot honour (back-references, look-around, word boundaries, possessive and atomic groups), is refused by
 * name. Lazy quantifiers describe the same language as greedy ones. */
#include "text/grammar/pattern.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum {
    MAX_COUNT = 100000,
    MAX_SPENT = 1 << 20, /* ranges of all classes, and a 128th of the letters whose case is looked up */
    N_CATEGORIES = 37,   /* of one letter and of two */
};

struct regex {
    struct arena *arena;
    const char *text;
    size_t length, at;
    unsigned flags;
    bool folds_case, dot_is_all;
    struct mx_error *err;
    const struct pattern **items; /* of the lists that are being read, all levels */
    size_t n_items, capacity, spent;
    struct category {
        uint32_t mask; /* bit utf8proc_category; 0 = free */
        struct code_set set;
    } categories[N_CATEGORIES]; /* those that were needed: finding one looks at every code point */
};

static bool fail(struct regex *r, enum error_code code, const char *what) {
    return error_set(r->err, code, "regular expression, byte %zu: %s", r->at, what);
}

static const struct pattern *fail_pattern(struct regex *r, enum error_code code, const char *what) {
    fail(r, code, what);
    return NULL;
}

static bool out_of_memory(struct regex *r) { return error_memory(r->err, "regular expression"); }

static bool spend(struct regex *r, size_t n) {
    r->spent += n;
    return r->spent <= MAX_SPENT || fail(r, ERROR_LIMIT, "the classes have too many ranges");
}

static int peek_at(const struct regex *r, size_t ahead) {
    return r->at + ahead < r->length ? (unsigned char)r->text[r->at + ahead] : -1;
}
static int peek(const struct regex *r) { return peek_at(r, 0); }

static bool take(struct regex *r, char c) {
    if (peek(r) != c) return false;
    r->at++;
    return true;
}

static bool take_text(struct regex *r, const char *text) {
    size_t n = strlen(text);
    if (r->length - r->at < n || memcmp(r->text + r->at, text, n) != 0) return false;
    r->at += n;
    return true;
}

static bool push(struct regex *r, const struct pattern *p) {
    if (!p || !array_reserve(&r->items, &r->capacity, r->n_items + 1, sizeof *r->items)) return out_of_memory(r);
    r->items[r->n_items++] = p;
    return true;
}

/* ---- escapes ---- */

static int hex_digit(int c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static bool read_hex(struct regex *r, int digits, uint32_t *value) {
    *value = 0;
    for (int i = 0; i < digits; i++, r->at++) {
        int digit = hex_digit(peek(r));
        if (digit < 0) return fail(r, ERROR_FORMAT, "an escape with too few hex digits");
        *value = *value << 4 | (uint32_t)digit;
    }
    return true;
}

/* Behind \u: XXXX, a pair of surrogates, or {X...}. */
static bool read_unicode(struct regex *r, uint32_t *value) {
    if (take(r, '{')) {
        *value = 0;
        int digits = 0;
        for (int digit; (digit = hex_digit(peek(r))) >= 0 && digits < 8; digits++, r->at++)
            *value = *value << 4 | (uint32_t)digit;
        if (!digits || !take(r, '}')) return fail(r, ERROR_FORMAT, "\\u{...} without its end");
        return true;
    }
    if (!read_hex(r, 4, value)) return false;
    if (*value < 0xd800 || *value > 0xdbff || peek(r) != '\\' || peek_at(r, 1) != 'u') return true;
    size_t start = r->at;
    uint32_t low;
    r->at += 2;
    if (!read_hex(r, 4, &low)) return false;
    if (low < 0xdc00 || low > 0xdfff)
        r->at = start;
    else
        *value = 0x10000 + ((*value - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

static bool add_ranges(struct code_set *set, const struct code_range *ranges, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!code_set_add(set, ranges[i].first, ranges[i].last)) return false;
    return true;
}

static const struct code_range DIGITS[] = {{'0', '9'}};
static const struct code_range WORD[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const struct code_range SPACE[] = {{'\t', '\r'}, {' ', ' '}};
static const struct code_range ECMA_SPACE[] = {{'\t', '\r'},     {' ', ' '},       {0xa0, 0xa0},     {0x1680, 0x1680},
                                               {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f},
                                               {0x3000, 0x3000}, {0xfeff, 0xfeff}};

/* \d \w \s and their complements. False when c is none of them; *ok tells whether memory sufficed. */
static bool add_shorthand(struct regex *r, int c, struct code_set *set, bool *ok) {
    struct code_set named = {0};
    switch (c | 32) {
    case 'd': *ok = add_ranges(&named, DIGITS, 1); break;
    case 'w': *ok = add_ranges(&named, WORD, 4); break;
    case 's': *ok = r->flags & REGEX_ECMA ? add_ranges(&named, ECMA_SPACE, 10) : add_ranges(&named, SPACE, 2); break;
    default: return false;
    }
    *ok = *ok && code_set_settle(&named) && (c & 32 || code_set_negate(&named)) && code_set_add_set(set, &named);
    code_set_free(&named);
    return true;
}

/* General categories by their short names: L, Lu, ... and a few long ones. */
static uint32_t category_mask(const char *name, size_t length) {
    static const struct {
        const char *name, *prefix;
    } long_names[] = {{"Letter", "L"},
                      {"Mark", "M"},
                      {"Number", "N"},
                      {"Punctuation", "P"},
                      {"Symbol", "S"},
                      {"Separator", "Z"},
                      {"Other", "C"},
                      {"Uppercase_Letter", "Lu"},
                      {"Lowercase_Letter", "Ll"},
                      {"Decimal_Number", "Nd"},
                      {"digit", "Nd"},
                      {"punct", "P"}};
    for (size_t i = 0; i < sizeof long_names / sizeof *long_names; i++)
        if (strlen(long_names[i].name) == length && !memcmp(name, long_names[i].name, length)) {
            name = long_names[i].prefix;
            length = strlen(name);
            break;
        }
    static const char letters[] = "LMNPSZC";
    static const char codes[][3] = {"Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd",
                                    "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
                                    "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};
    uint32_t mask = 0;
    if (length < 1 || length > 2 || !memchr(letters, name[0], 7)) return 0;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i][0] == name[0] && (length == 1 || codes[i][1] == name[1])) mask |= 1u << i;
    return mask;
}

static bool find_category(struct code_set *set, uint32_t mask) {
    for (uint32_t c = 0, start = 0; c <= CODE_POINT_MAX + 1; c++) {
        if (c <= CODE_POINT_MAX && mask >> utf8proc_category((utf8proc_int32_t)c) & 1) continue;
        if (start < c && !code_set_add(set, start, c - 1)) return false;
        start = c + 1;
    }
    return code_set_settle(set);
}

static bool add_category(struct regex *r, const char *name, size_t length, bool is_negated, struct code_set *set) {
    uint32_t mask = category_mask(name, length);
    struct category *known = r->categories;
    if (!mask)
        return error_set(r->err, ERROR_UNSUPPORTED, "regular expression: the property \\p{%.*s} is not supported",
                         (int)(length < 40 ? length : 40), name);
    while (known->mask && known->mask != mask) known++;
    bool ok = known->mask || find_category(&known->set, mask);
    known->mask = mask;
    if (ok && !spend(r, known->set.n)) return false;
    struct code_set others = {0};
    if (ok && is_negated)
        ok = code_set_add_set(&others, &known->set) && code_set_settle(&others) && code_set_negate(&others);
    ok = ok && code_set_add_set(set, is_negated ? &others : &known->set);
    code_set_free(&others);
    return ok || out_of_memory(r);
}

static bool read_property(struct regex *r, bool is_negated, struct code_set *set) {
    size_t start = r->at, end;
    if (take(r, '{')) {
        if (take(r, '^')) is_negated = !is_negated;
        start = r->at;
        while (peek(r) >= 0 && peek(r) != '}') r->at++;
        end = r->at;
        if (!take(r, '}')) return fail(r, ERROR_FORMAT, "\\p{...} without its end");
    } else {
        if (peek(r) < 0) return fail(r, ERROR_FORMAT, "\\p needs a property");
        end = ++r->at;
    }
    static const char *const prefixes[] = {"gc=", "General_Category="};
    for (size_t i = 0; i < 2; i++)
        if (end - start > strlen(prefixes[i]) && !memcmp(r->text + start, prefixes[i], strlen(prefixes[i])))
            start += strlen(prefixes[i]);
    return add_category(r, r->text + start, end - start, is_negated, set);
}

/* Behind a backslash, in a class or outside: adds what the escape stands for. *single receives its code point, or
 * UINT32_MAX for a set. */
static bool read_escape(struct regex *r, struct code_set *set, uint32_t *single) {
    int c = peek(r);
    if (c < 0) return fail(r, ERROR_FORMAT, "a backslash at the end");
    r->at++;
    bool ok = true;
    *single = UINT32_MAX;
    if (c < 0x80 && add_shorthand(r, c, set, &ok)) return ok || out_of_memory(r);
    switch (c) {
    case 'p':
    case 'P': return read_property(r, c == 'P', set);
    case 't': *single = '\t'; break;
    case 'n': *single = '\n'; break;
    case 'r': *single = '\r'; break;
    case 'f': *single = '\f'; break;
    case 'v': *single = '\v'; break;
    case 'a':
        if (r->flags & REGEX_ECMA) return fail(r, ERROR_FORMAT, "unknown escape \\a");
        *single = '\a';
        break;
    case '0':
        *single = 0;
        if (peek(r) >= '0' && peek(r) <= '9') return fail(r, ERROR_UNSUPPORTED, "octal escapes are not supported");
        break;
    case 'x':
        if (!read_hex(r, 2, single)) return false;
        break;
    case 'u':
        if (!read_unicode(r, single)) return false;
        break;
    case 'U':
        if (!read_hex(r, 8, single)) return false;
        break;
    case 'c':
        c = peek(r);
        if (c < 0 || !((c | 32) >= 'a' && (c | 32) <= 'z')) return fail(r, ERROR_FORMAT, "\\c needs a letter");
        r->at++;
        *single = (uint32_t)c & 31;
        break;
    default:
        if ((c >= '1' && c <= '9') || c == 'k') return fail(r, ERROR_UNSUPPORTED, "back-references are not supported");
        if (c == 'b' || c == 'B') return fail(r, ERROR_UNSUPPORTED, "word boundaries (\\b, \\B) are not supported");
        if (((c | 32) >= 'a' && (c | 32) <= 'z')) return fail(r, ERROR_FORMAT, "unknown escape");
        r->at--;
        size_t step = utf8_decode(r->text + r->at, r->length - r->at, single);
        if (!step) return fail(r, ERROR_FORMAT, "the text is not UTF-8");
        r->at += step;
    }
    if (*single > CODE_POINT_MAX || (*single >= 0xd800 && *single <= 0xdfff))
        return fail(r, ERROR_FORMAT, "an escape that is no character");
    return code_set_add(set, *single, *single) || out_of_memory(r);
}

/* ---- classes ---- */

/* One member of a class; *single as in read_escape. */
static bool read_member(struct regex *r, struct code_set *set, uint32_t *single) {
    if (peek(r) == '\\' && peek_at(r, 1) == 'b') {
        r->at += 2;
        *single = '\b';
        return code_set_add(set, '\b', '\b') || out_of_memory(r);
    }
    if (take(r, '\\')) return read_escape(r, set, single);
    if (peek(r) == '[' && (peek_at(r, 1) == ':' || peek_at(r, 1) == '=' || peek_at(r, 1) == '.') &&
        !(r->flags & REGEX_ECMA) && memmem(r->text + r->at, r->length - r->at, ":]", 2))
        return fail(r, ERROR_UNSUPPORTED, "classes such as [:alpha:] are not supported");
    size_t step = utf8_decode(r->text + r->at, r->length - r->at, single);
    if (!step) return fail(r, ERROR_FORMAT, "the text is not UTF-8");
    r->at += step;
    return code_set_add(set, *single, *single) || out_of_memory(r);
}

static bool read_members(struct regex *r, struct code_set *set) {
    bool is_first = true;
    for (;; is_first = false) {
        if (peek(r) < 0) return fail(r, ERROR_FORMAT, "a class without its closing ]");
        if (peek(r) == ']' && (!is_first || r->flags & REGEX_ECMA)) break;
        uint32_t first, last;
        if (!read_member(r, set, &first)) return false;
        if (peek(r) != '-' || peek_at(r, 1) == ']' || peek_at(r, 1) < 0 || first == UINT32_MAX) continue;
        size_t dash = r->at++;
        if (!read_member(r, set, &last)) return false;
        if (last == UINT32_MAX) { /* [a-\d]: the dash stands for itself */
            if (!code_set_add(set, '-', '-')) return out_of_memory(r);
            continue;
        }
        if (last < first) {
            r->at = dash;
            return fail(r, ERROR_FORMAT, "a range whose end lies before its start");
        }
        if (!code_set_add(set, first, last)) return out_of_memory(r);
    }
    r->at++;
    return true;
}

static bool fold_case(struct regex *r, struct code_set *set) {
    size_t n = 0;
    for (size_t i = 0; i < set->n && set->ranges[i].first < CASED_END; i++)
        n += (set->ranges[i].last < CASED_END ? set->ranges[i].last + 1 : CASED_END) - set->ranges[i].first;
    return spend(r, n / 128) && (code_set_fold_case(set) || out_of_memory(r));
}

/* Of a set that is settled. */
static const struct pattern *make_class(struct regex *r, struct code_set *set, bool is_negated) {
    const struct pattern *p = NULL;
    if (r->folds_case && !fold_case(r, set)) return NULL;
    if (is_negated && !code_set_negate(set)) return out_of_memory(r), NULL;
    if (spend(r, set->n) && !(p = pattern_class(r->arena, set))) out_of_memory(r);
    return p;
}

static const struct pattern *finish_class(struct regex *r, struct code_set *set, bool is_negated) {
    const struct pattern *p = NULL;
    if (code_set_settle(set))
        p = make_class(r, set, is_negated);
    else
        out_of_memory(r);
    code_set_free(set);
    return p;
}

static const struct pattern *read_class(struct regex *r) {
    struct code_set set = {0};
    bool is_negated = take(r, '^');
    if (read_members(r, &set)) return finish_class(r, &set, is_negated);
    code_set_free(&set);
    return NULL;
}

static const struct pattern *read_dot(struct regex *r) {
    struct code_set set = {0};
    static const struct code_range ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
    if (r->dot_is_all || add_ranges(&set, ends, r->flags & REGEX_ECMA ? 3 : 1)) {
        bool folds = r->folds_case;
        r->folds_case = false;
        const struct pattern *p = finish_class(r, &set, true);
        r->folds_case = folds;
        return p;
    }
    code_set_free(&set);
    out_of_memory(r);
    return NULL;
}

/* ---- groups and quantifiers ---- */

static const struct pattern *read_choice(struct regex *r, int depth);

static bool read_group_name(struct regex *r, char end) {
    size_t start = r->at;
    while (peek(r) >= 0 && peek(r) != end && peek(r) != ')') r->at++;
    return (r->at > start && take(r, end)) || fail(r, ERROR_FORMAT, "a group name without its end");
}

/* Flags such as (?i) or (?i-s:...). *is_scoped: a group follows. */
static bool read_flags(struct regex *r, bool *is_scoped) {
    bool value = true, any = false;
    for (;; r->at++) {
        int c = peek(r);
        if (c == 'i')
            r->folds_case = value;
        else if (c == 's')
            r->dot_is_all = value;
        else if (c == 'u' || c == 'a')
            continue;
        else if (c == '-' && value)
            value = false;
        else if (c == 'm' || c == 'x' || c == 'L')
            return fail(r, ERROR_UNSUPPORTED, "the flags m, x and L are not supported");
        else
            break;
        any = true;
    }
    *is_scoped = peek(r) == ':';
    if (!any && !*is_scoped && peek(r) != ')') return fail(r, ERROR_FORMAT, "unknown group (?");
    if (take(r, ':') || take(r, ')')) return true;
    return fail(r, ERROR_FORMAT, "unknown group (?");
}

static const struct pattern *read_group(struct regex *r, int depth) {
    bool folds_case = r->folds_case, dot_is_all = r->dot_is_all;
    if (take(r, '?')) {
        if (peek(r) == '=' || peek(r) == '!')
            return fail_pattern(r, ERROR_UNSUPPORTED, "look-ahead (?= and (?! is not supported");
        if (peek(r) == '<' && (peek_at(r, 1) == '=' || peek_at(r, 1) == '!'))
            return fail_pattern(r, ERROR_UNSUPPORTED, "look-behind (?<= and (?<! is not supported");
        if (peek(r) == '>') return fail_pattern(r, ERROR_UNSUPPORTED, "atomic groups (?> are not supported");
        if (peek(r) == '(') return fail_pattern(r, ERROR_UNSUPPORTED, "conditional groups (?( are not supported");
        if (take_text(r, "P=")) return fail_pattern(r, ERROR_UNSUPPORTED, "back-references are not supported");
        if (take_text(r, "P>")) return fail_pattern(r, ERROR_UNSUPPORTED, "recursion is not supported");
        if (take(r, '#')) {
            while (peek(r) >= 0 && peek(r) != ')') r->at++;
            if (!take(r, ')')) return fail_pattern(r, ERROR_FORMAT, "a comment without its end");
            return pattern_empty(r->arena);
        }
        if (take_text(r, "P<") || take_text(r, "<")) {
            if (!read_group_name(r, '>')) return NULL;
        } else if (!take(r, ':')) {
            bool is_scoped = false;
            if (!read_flags(r, &is_scoped)) return NULL;
            if (!is_scoped) return pattern_empty(r->arena); /* to the end of the enclosing group */
        }
    }
    const struct pattern *p = read_choice(r, depth + 1);
    if (p && !take(r, ')')) return fail_pattern(r, ERROR_FORMAT, ") is missing");
    r->folds_case = folds_case;
    r->dot_is_all = dot_is_all;
    return p;
}

static bool read_number(struct regex *r, uint32_t *value) {
    *value = 0;
    for (; peek(r) >= '0' && peek(r) <= '9'; r->at++) {
        *value = *value * 10 + (uint32_t)(peek(r) - '0');
        if (*value > MAX_COUNT) return fail(r, ERROR_LIMIT, "a count over the limit of 100000");
    }
    return true;
}

/* {m}, {m,}, {m,n} and, in Python, {,n}. *is_count = false where the brace stands for itself. */
static bool read_braces(struct regex *r, uint32_t *minimum, uint32_t *maximum, bool *is_count) {
    size_t start = r->at++;
    bool has_minimum = peek(r) >= '0' && peek(r) <= '9', has_comma;
    if (!read_number(r, minimum)) return false;
    has_comma = take(r, ',');
    bool has_maximum = has_comma && peek(r) >= '0' && peek(r) <= '9';
    if (has_maximum && !read_number(r, maximum)) return false;
    if (!has_maximum) *maximum = has_comma ? PATTERN_NO_LIMIT : *minimum;
    *is_count = take(r, '}') && (has_minimum || (has_comma && !(r->flags & REGEX_ECMA)));
    if (!*is_count) {
        r->at = start;
        return true;
    }
    return *maximum >= *minimum || fail(r, ERROR_FORMAT, "a count whose maximum is below its minimum");
}

/* Reads one quantifier. *found = false when there is none. */
static bool read_quantifier(struct regex *r, uint32_t *minimum, uint32_t *maximum, bool *found) {
    *minimum = 0;
    *maximum = PATTERN_NO_LIMIT;
    *found = true;
    if (peek(r) == '{') return read_braces(r, minimum, maximum, found);
    if (take(r, '*')) return true;
    if (take(r, '+'))
        *minimum = 1;
    else if (take(r, '?'))
        *maximum = 1;
    else
        *found = false;
    return true;
}

static const struct pattern *read_atom(struct regex *r, int depth) {
    struct code_set set = {0};
    uint32_t single;
    int c = peek(r);
    if (take(r, '(')) return read_group(r, depth);
    if (take(r, '[')) return read_class(r);
    if (take(r, '.')) return read_dot(r);
    if (take(r, '^') || take_text(r, "\\A")) return pattern_anchor(r->arena, PATTERN_BEGIN);
    if (take(r, '$') || take_text(r, "\\Z") || take_text(r, "\\z")) return pattern_anchor(r->arena, PATTERN_END);
    if (c == '*' || c == '+' || c == '?') return fail_pattern(r, ERROR_FORMAT, "there is nothing to repeat");
    if (c == '{') {
        uint32_t minimum, maximum;
        bool is_count;
        if (!read_braces(r, &minimum, &maximum, &is_count)) return NULL;
        if (is_count) return fail_pattern(r, ERROR_FORMAT, "there is nothing to repeat");
    }
    if (take(r, '\\')) {
        if (read_escape(r, &set, &single)) return finish_class(r, &set, false);
        code_set_free(&set);
        return NULL;
    }
    size_t step = utf8_decode(r->text + r->at, r->length - r->at, &single);
    if (!step) return fail_pattern(r, ERROR_FORMAT, "the text is not UTF-8");
    r->at += step;
    if (code_set_add(&set, single, single)) return finish_class(r, &set, false);
    code_set_free(&set);
    out_of_memory(r);
    return NULL;
}

static const struct pattern *read_quantified(struct regex *r, int depth) {
    const struct pattern *p = read_atom(r, depth);
    if (!p) return NULL;
    uint32_t minimum = 0, maximum = 0;
    bool found = false;
    if (!read_quantifier(r, &minimum, &maximum, &found)) return NULL;
    if (!found) return p;
    if (take(r, '+')) return fail_pattern(r, ERROR_UNSUPPORTED, "possessive quantifiers are not supported");
    take(r, '?');
    p = pattern_repeat(r->arena, p, minimum, maximum);
    if (!read_quantifier(r, &minimum, &maximum, &found)) return NULL;
    if (found) return fail_pattern(r, ERROR_FORMAT, "a quantifier behind a quantifier");
    if (!p) out_of_memory(r);
    return p;
}

/* Recursion is bounded by PATTERN_MAX_DEPTH. */
static const struct pattern *read_choice(struct regex *r, int depth) {
    if (depth > PATTERN_MAX_DEPTH) return fail_pattern(r, ERROR_LIMIT, "groups are nested too deeply");
    size_t choices = r->n_items;
    do {
        size_t base = r->n_items;
        while (peek(r) >= 0 && peek(r) != '|' && peek(r) != ')') {
            const struct pattern *p = read_quantified(r, depth);
            if (!p) {
                if (r->err && !r->err->code) out_of_memory(r);
                return NULL;
            }
            if (!push(r, p)) return NULL;
        }
        const struct pattern *sequence =
            r->n_items - base == 1 ? r->items[base]
                                   : pattern_list(r->arena, PATTERN_SEQUENCE,
                                                  r->n_items > base ? r->items + base : NULL, r->n_items - base);
        r->n_items = base;
        if (!push(r, sequence)) return NULL;
    } while (take(r, '|'));
    const struct pattern *p = r->n_items - choices == 1
                                  ? r->items[choices]
                                  : pattern_list(r->arena, PATTERN_CHOICE, r->items + choices, r->n_items - choices);
    r->n_items = choices;
    if (!p) out_of_memory(r);
    return p;
}

/* anything, pattern, anything */
static const struct pattern *make_search(struct regex *r, const struct pattern *p) {
    struct code_range all[2] = {{0, 0xd7ff}, {0xe000, CODE_POINT_MAX}};
    const struct pattern *any = pattern_repeat(
        r->arena, pattern_class(r->arena, &(struct code_set){.ranges = all, .n = 2}), 0, PATTERN_NO_LIMIT);
    return pattern_list(r->arena, PATTERN_SEQUENCE, (const struct pattern *[]){any, p, any}, 3);
}

const struct pattern *regex_parse(struct arena *arena, const char *text, size_t length, unsigned flags,
                                  struct mx_error *err) {
    struct mx_error local = {0};
    struct regex r = {.arena = arena, .text = text, .length = length, .flags = flags, .err = err ? err : &local};
    r.err->code = ERROR_NONE;
    const struct pattern *p = read_choice(&r, 0);
    if (p && r.at < length) p = fail_pattern(&r, ERROR_FORMAT, "unexpected )");
    if (p && flags & REGEX_SEARCH && !(p = make_search(&r, p))) out_of_memory(&r);
    free(r.items);
    for (size_t i = 0; i < N_CATEGORIES; i++) code_set_free(&r.categories[i].set);
    return p;
}
