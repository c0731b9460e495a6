/* SPDX-License-Identifier: Apache-2.0 */
/* From the regular expressions of tokenizer files to those of PCRE2.
 *
 * One pass over the pattern copies what both know and rewrites the rest: \s \d \w \h \b and their complements become
 * explicit sets, properties get the code points that came after PCRE2's Unicode, Ruby's (?m) becomes (?s), `{,n}` and
 * `{n,m}+` are spelled out. A character class is read into a small tree, because those engines know classes in classes
 * and intersections, which PCRE2 does not: whatever a plain [...] cannot say becomes an alternation of classes, with
 * lookaheads for intersections and complements. Each alternative is one character long, so nothing else changes. */
#include "text/tokenizer/regex.h"
#include "text/tokenizer/unicode.h"

#include "base/utf8.h"

#include <string.h>

#define MAX_NESTING      12
#define UNICODE_OF_REGEX 160

#define SPACE_ITEMS   "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define ANY_CHARACTER "(?s:.)"

struct translator {
    const char *at, *end;
    enum regex_dialect dialect;
    struct buffer *out;
    struct mx_error *err;
    size_t groups[100]; /* where in out the open groups begin */
    size_t depth;
    size_t atom; /* where in out the last atom begins */
};

static bool fail(struct translator *t, const char *what) {
    return error_set(t->err, ERROR_UNSUPPORTED, "regular expression: %s", what);
}

static int peek(const struct translator *t, size_t ahead) {
    return (size_t)(t->end - t->at) > ahead ? (unsigned char)t->at[ahead] : -1;
}

/* ---- properties ---- */

/* Names without spaces, hyphens and underscores, in lower case. What PCRE2 calls it; NULL: the general category of the
 * same short name. */
static const struct {
    const char *name, *items;
} named_sets[] = {
    {"any", "\\p{Any}"},
    {"letter", "L"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"mark", "M"},
    {"combiningmark", "M"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"openpunctuation", "Ps"},
    {"closepunctuation", "Pe"},
    {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"},
    {"otherpunctuation", "Po"},
    {"symbol", "S"},
    {"mathsymbol", "Sm"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"spaceseparator", "Zs"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"other", "C"},
    {"control", "Cc"},
    {"format", "Cf"},
    {"privateuse", "Co"},
    {"unassigned", "Cn"},
    {"alpha", "\\p{Alphabetic}"},
    {"alphabetic", "\\p{Alphabetic}"},
    {"digit", "Nd"},
    {"upper", "\\p{Uppercase}"},
    {"uppercase", "\\p{Uppercase}"},
    {"lower", "\\p{Lowercase}"},
    {"lowercase", "\\p{Lowercase}"},
    {"cntrl", "Cc"},
    {"xdigit", "0-9a-fA-F"},
    {"ascii", "\\x{0}-\\x{7f}"},
    {"blank", "\\t\\p{Zs}"},
    {"space", SPACE_ITEMS},
    {"whitespace", SPACE_ITEMS},
};

static const char *const short_categories[] = {
    "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps",
    "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co",
};

/* The general category as PCRE2 knows it, and the code points that are newer. */
static void put_category(struct buffer *out, const char *category) {
    buffer_printf(out, "\\p{%s}", category);
    for (size_t i = 0; i < unicode_n_newer; i++) {
        const struct unicode_newer *row = &unicode_newer[i];
        const char *name = short_categories[row->category];
        if (row->version <= 140 || row->version > UNICODE_OF_REGEX) continue;
        if (name[0] != category[0] || (category[1] && name[1] != category[1])) continue;
        buffer_printf(out, row->first == row->last ? "\\x{%x}" : "\\x{%x}-\\x{%x}", row->first, row->last);
    }
}

static bool is_category(const char *name) {
    if (!strcmp(name, "L&")) return true;
    if (name[0] && !name[1]) return strchr("LMNPSZC", name[0]) != NULL;
    for (size_t i = 0; i < sizeof short_categories / sizeof *short_categories; i++)
        if (!strcmp(short_categories[i], name)) return true;
    return false;
}

static void put_word(struct buffer *out, enum regex_dialect dialect) {
    static const char *const parts[] = {"L", "M", "Nd", "Nl", "Pc"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) put_category(out, parts[i]);
    buffer_puts(out, "\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}");
    buffer_puts(out, dialect == REGEX_RUST ? "\\x{200c}\\x{200d}" : "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}");
}

/* What Unicode 15 to 16 added to scripts that PCRE2 knows as of 14. */
static const struct {
    const char *name, *short_name, *items;
} newer_in_scripts[] = {
    {"arabic", "arab", "\\x{10ec2}-\\x{10ec4}\\x{10efc}-\\x{10eff}"},
    {"cyrillic", "cyrl", "\\x{1c89}-\\x{1c8a}\\x{1e030}-\\x{1e06d}\\x{1e08f}"},
    {"devanagari", "deva", "\\x{11b00}-\\x{11b09}"},
    {"egyptianhieroglyphs", "egyp", "\\x{1342f}\\x{13439}-\\x{13455}\\x{13460}-\\x{143fa}"},
    {"han", "hani", "\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}"},
    {"hiragana", "hira", "\\x{1b132}"},
    {"kannada", "knda", "\\x{cf3}"},
    {"katakana", "kana", "\\x{1b155}"},
    {"khojki", "khoj", "\\x{11240}\\x{11241}"},
    {"lao", "laoo", "\\x{ece}"},
    {"latin", "latn", "\\x{a7cb}-\\x{a7cd}\\x{a7da}-\\x{a7dc}"},
};

/* The items of a named property, as they stand inside a class. */
static bool put_property(struct translator *t, const char *name, size_t length, struct buffer *out) {
    char plain[64], raw[64];
    size_t n = 0;
    if (length >= sizeof plain) return fail(t, "a property's name is too long");
    memcpy(raw, name, length);
    raw[length] = '\0';
    for (size_t i = 0; i < length; i++) {
        char c = name[i];
        if (c == ' ' || c == '_' || c == '-') continue;
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '&')) return fail(t, "ill-formed property name");
        plain[n++] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
    }
    plain[n] = '\0';
    if (n && n <= 2) {
        char category[3] = {(char)(plain[0] - 32), plain[1], '\0'};
        if (is_category(category)) return put_category(out, category), true;
    }
    if (!strcmp(plain, "word")) return put_word(out, t->dialect), true;
    if (!strcmp(plain, "alnum")) return buffer_puts(out, "\\p{Alphabetic}"), put_category(out, "Nd"), true;
    if (!strcmp(plain, "punct"))
        return put_category(out, "P"), buffer_puts(out, t->dialect == REGEX_RUST ? "" : "$+<=>^`|~"), true;
    for (size_t i = 0; i < sizeof named_sets / sizeof *named_sets; i++) {
        if (strcmp(named_sets[i].name, plain) != 0) continue;
        if (is_category(named_sets[i].items))
            put_category(out, named_sets[i].items);
        else
            buffer_puts(out, named_sets[i].items);
        return true;
    }
    /* A script (not its extensions), or a binary property that PCRE2 knows under its own name. */
    buffer_printf(out, "\\p{sc:%s}", raw);
    for (size_t i = 0; i < sizeof newer_in_scripts / sizeof *newer_in_scripts; i++)
        if (!strcmp(plain, newer_in_scripts[i].name) || !strcmp(plain, newer_in_scripts[i].short_name))
            buffer_puts(out, newer_in_scripts[i].items);
    return true;
}

/* ---- character classes ---- */

/* A set is a union of plain items (text between [ and ]) and of further sets, each a finished pattern that matches one
 * character. */
struct set {
    struct buffer items;
    struct buffer others; /* "|pattern|pattern" */
};

static void set_free(struct set *set) {
    buffer_free(&set->items);
    buffer_free(&set->others);
}

/* Writes a pattern for one character of the set, or not of it. */
static void put_set(struct buffer *out, const struct set *set, bool is_negated) {
    bool has_items = set->items.length > 0, has_others = set->others.length > 0;
    if (!has_others && has_items) {
        buffer_puts(out, is_negated ? "[^" : "[");
        buffer_append(out, set->items.data, set->items.length);
        buffer_putc(out, ']');
        return;
    }
    if (!has_others) {
        buffer_puts(out, is_negated ? ANY_CHARACTER : "(?!)");
        return;
    }
    buffer_puts(out, is_negated ? "(?:(?!" : "(?:");
    if (has_items) {
        buffer_putc(out, '[');
        buffer_append(out, set->items.data, set->items.length);
        buffer_putc(out, ']');
    }
    buffer_append(out, set->others.data + (has_items ? 0 : 1), set->others.length - (has_items ? 0 : 1));
    buffer_puts(out, is_negated ? ")" ANY_CHARACTER ")" : ")");
}

static void add_complement(struct set *set, const struct buffer *items) {
    buffer_puts(&set->others, "|[^");
    buffer_append(&set->others, items->data, items->length);
    buffer_putc(&set->others, ']');
}

/* Adds the set of \p{...} or \P{...}, at the letter p. */
static bool add_property(struct translator *t, struct set *set) {
    bool is_negated = *t->at++ == 'P';
    const char *name = t->at;
    size_t length = 1;
    if (peek(t, 0) == '{') {
        const char *close = memchr(t->at, '}', (size_t)(t->end - t->at));
        if (!close) return fail(t, "missing } after \\p{");
        name = t->at + 1;
        length = (size_t)(close - name);
        t->at = close + 1;
        if (length && *name == '^') {
            is_negated = !is_negated;
            name++;
            length--;
        }
    } else if (t->at < t->end) {
        t->at++;
    } else {
        return fail(t, "the pattern ends in \\p");
    }
    struct buffer items = {0};
    bool ok = put_property(t, name, length, &items);
    if (ok && is_negated)
        add_complement(set, &items);
    else if (ok)
        buffer_append(&set->items, items.data, items.length);
    buffer_free(&items);
    return ok;
}

/* Adds the set of \s \S \d \D \w \W \h \H. */
static void add_shorthand(struct translator *t, struct set *set, char letter) {
    struct buffer items = {0};
    switch (letter | 32) {
    case 's': buffer_puts(&items, SPACE_ITEMS); break;
    case 'd': put_category(&items, "Nd"); break;
    case 'h': buffer_puts(&items, "0-9a-fA-F"); break;
    default: put_word(&items, t->dialect); break;
    }
    if (letter & 32)
        buffer_append(&set->items, items.data, items.length);
    else
        add_complement(set, &items);
    buffer_free(&items);
}

static bool is_shorthand(int c) { return c > 0 && strchr("sSdDwWhH", c) != NULL; }

/* Reads an escape that stands for one character, after the backslash. */
static bool read_character_escape(struct translator *t, uint32_t *code_point) {
    static const char letters[] = "ntrfvae0", values[] = "\n\t\r\f\v\a\x1b";
    int c = peek(t, 0);
    if (c < 0) return fail(t, "the pattern ends in a backslash");
    const char *found = strchr(letters, c);
    if (found && c) {
        t->at++;
        *code_point = c == '0' ? 0 : (uint32_t)values[found - letters];
        return true;
    }
    if (c == 'x' || c == 'u') {
        bool is_braced = peek(t, 1) == '{';
        size_t most = is_braced ? 8 : c == 'x' ? 2 : 4, n = 0;
        t->at += is_braced ? 2 : 1;
        *code_point = 0;
        for (; n < most; n++, t->at++) {
            int digit = peek(t, 0);
            if (digit >= '0' && digit <= '9')
                digit -= '0';
            else if (digit >= 'a' && digit <= 'f')
                digit -= 'a' - 10;
            else if (digit >= 'A' && digit <= 'F')
                digit -= 'A' - 10;
            else
                break;
            *code_point = *code_point << 4 | (uint32_t)digit;
        }
        if (!n || *code_point > 0x10ffff || (is_braced && peek(t, 0) != '}')) return fail(t, "ill-formed \\x or \\u");
        t->at += is_braced;
        return true;
    }
    size_t n = utf8_decode(t->at, (size_t)(t->end - t->at), code_point);
    if (!n) return fail(t, "invalid UTF-8");
    t->at += n;
    return true;
}

/* A character of a class: literal or escaped. */
static bool read_class_character(struct translator *t, uint32_t *code_point) {
    if (peek(t, 0) == '\\') {
        t->at++;
        if (peek(t, 0) == 'b') {
            t->at++;
            *code_point = 8;
            return true;
        }
        return read_character_escape(t, code_point);
    }
    size_t n = utf8_decode(t->at, (size_t)(t->end - t->at), code_point);
    if (!n) return fail(t, "missing ] or invalid UTF-8");
    t->at += n;
    return true;
}

static bool add_range(struct translator *t, struct set *set) {
    uint32_t first, last;
    if (!read_class_character(t, &first)) return false;
    last = first;
    bool is_range = peek(t, 0) == '-' && peek(t, 1) >= 0 && peek(t, 1) != ']' && peek(t, 1) != '[' &&
                    !(peek(t, 1) == '\\' && (is_shorthand(peek(t, 2)) || (peek(t, 2) | 32) == 'p')) &&
                    !(peek(t, 1) == '&' && peek(t, 2) == '&');
    if (is_range) {
        t->at++;
        if (!read_class_character(t, &last)) return false;
        if (last < first) return fail(t, "a range in a class is out of order");
    }
    buffer_printf(&set->items, first == last ? "\\x{%x}" : "\\x{%x}-\\x{%x}", first, last);
    return true;
}

/* [:name:] or [:^name:] */
static bool add_posix(struct translator *t, struct set *set, bool *found) {
    const char *close = t->at;
    *found = false;
    if (peek(t, 1) != ':') return true;
    while (t->end - close >= 2 && memcmp(close, ":]", 2) != 0 && close - t->at < 24) close++;
    if (t->end - close < 2 || memcmp(close, ":]", 2) != 0) return true;
    const char *name = t->at + 2;
    bool is_negated = name < close && *name == '^';
    if (is_negated) name++;
    if (name >= close) return true;
    for (const char *c = name; c < close; c++)
        if (!(*c >= 'a' && *c <= 'z')) return true;
    *found = true;
    t->at = close + 2;
    struct buffer items = {0};
    bool ok = put_property(t, name, (size_t)(close - name), &items);
    if (ok && is_negated)
        add_complement(set, &items);
    else if (ok)
        buffer_append(&set->items, items.data, items.length);
    buffer_free(&items);
    return ok;
}

static bool read_class(struct translator *t, struct buffer *out, int depth);

static bool add_nested(struct translator *t, struct set *set, int depth) {
    bool is_posix;
    if (!add_posix(t, set, &is_posix)) return false;
    if (is_posix) return true;
    buffer_putc(&set->others, '|');
    return read_class(t, &set->others, depth + 1);
}

/* One operand of an intersection: items up to && or ]. */
static bool read_union(struct translator *t, struct set *set, int depth, bool is_first) {
    for (;; is_first = false) {
        int c = peek(t, 0);
        if (c < 0) return fail(t, "missing ] at the end of a class");
        if ((c == ']' && !is_first) || (c == '&' && peek(t, 1) == '&')) return true;
        bool ok = true;
        if (c == '[') {
            ok = add_nested(t, set, depth);
        } else if (c == '\\' && is_shorthand(peek(t, 1))) {
            add_shorthand(t, set, t->at[1]);
            t->at += 2;
        } else if (c == '\\' && (peek(t, 1) == 'p' || peek(t, 1) == 'P')) {
            t->at++;
            ok = add_property(t, set);
        } else {
            ok = add_range(t, set);
        }
        if (!ok) return false;
    }
}

/* At '[': reads a class to its end and writes its pattern. A recursion, bounded by MAX_NESTING. */
static bool read_class(struct translator *t, struct buffer *out, int depth) {
    if (depth > MAX_NESTING) return fail(t, "classes are nested too deeply");
    t->at++;
    bool is_negated = peek(t, 0) == '^';
    if (is_negated) t->at++;
    struct buffer before = {0}; /* the operands before the last, as lookaheads */
    bool ok = true, is_first = true;
    for (;;) {
        struct set set = {0};
        ok = read_union(t, &set, depth, is_first);
        bool is_last = ok && peek(t, 0) == ']';
        if (ok && is_last && !before.length) {
            put_set(out, &set, is_negated);
        } else if (ok) {
            buffer_puts(&before, is_last ? "" : "(?=");
            put_set(&before, &set, false);
            buffer_puts(&before, is_last ? "" : ")");
        }
        set_free(&set);
        if (!ok) break;
        t->at += is_last ? 1 : 2;
        if (is_last) break;
        is_first = false;
    }
    if (ok && before.length) {
        buffer_puts(out, is_negated ? "(?:(?!" : "(?:");
        buffer_append(out, before.data, before.length);
        buffer_puts(out, is_negated ? ")" ANY_CHARACTER ")" : ")");
    }
    buffer_free(&before);
    return ok;
}

/* ---- everything else ---- */

static void put_word_boundary(struct translator *t, bool is_boundary) {
    struct buffer word = {0};
    put_word(&word, t->dialect);
    const char *w = word.data ? word.data : "";
    buffer_printf(t->out,
                  is_boundary ? "(?:(?<=[%s])(?![%s])|(?<![%s])(?=[%s]))" : "(?:(?<=[%s])(?=[%s])|(?<![%s])(?![%s]))",
                  w, w, w, w);
    buffer_free(&word);
}

static bool translate_escape(struct translator *t) {
    t->at++;
    int c = peek(t, 0);
    struct set set = {0};
    bool ok = true;
    if (is_shorthand(c)) {
        add_shorthand(t, &set, (char)c);
        t->at++;
        put_set(t->out, &set, false);
    } else if (c == 'p' || c == 'P') {
        ok = add_property(t, &set);
        if (ok) put_set(t->out, &set, false);
    } else if (c == 'b' || c == 'B') {
        t->at++;
        put_word_boundary(t, c == 'b');
    } else if (c > 0 && strchr("AzZGRXKkg123456789", c)) {
        buffer_putc(t->out, '\\');
        buffer_putc(t->out, (char)c);
        t->at++;
    } else {
        uint32_t code_point;
        ok = read_character_escape(t, &code_point);
        if (ok) buffer_printf(t->out, "\\x{%x}", code_point);
    }
    set_free(&set);
    return ok;
}

/* At '(': copies what opens the group, with option letters rewritten. */
static bool translate_open(struct translator *t) {
    if (t->depth >= sizeof t->groups / sizeof *t->groups) return fail(t, "groups are nested too deeply");
    t->groups[t->depth++] = t->out->length;
    buffer_putc(t->out, '(');
    t->at++;
    if (peek(t, 0) != '?') return true;
    if (peek(t, 1) == '#') {
        const char *close = memchr(t->at, ')', (size_t)(t->end - t->at));
        if (!close) return fail(t, "missing ) after a comment");
        buffer_append(t->out, t->at, (size_t)(close - t->at));
        t->at = close;
        return true;
    }
    buffer_putc(t->out, '?');
    t->at++;
    while (t->at < t->end && strchr("imsxuU-", *t->at) && *t->at) {
        char c = *t->at++;
        if (c == 'm' && t->dialect == REGEX_ONIGURUMA)
            c = 's';
        else if (c == 'u')
            continue;
        buffer_putc(t->out, c);
    }
    if (peek(t, 0) == 'P' || peek(t, 0) == '<' || peek(t, 0) == '\'') {
        /* A name or a lookbehind: nothing in it to rewrite before its end. */
        while (t->at < t->end && strchr("P<!='", *t->at) && *t->at) buffer_putc(t->out, *t->at++);
    } else if (peek(t, 0) == ':' || peek(t, 0) == '=' || peek(t, 0) == '!' || peek(t, 0) == '>' || peek(t, 0) == '~') {
        buffer_putc(t->out, *t->at++);
    }
    return true;
}

/* At '{': a quantifier, or a brace that stands for itself. */
static bool translate_brace(struct translator *t) {
    const char *c = t->at + 1;
    while (c < t->end && *c >= '0' && *c <= '9') c++;
    bool has_low = c > t->at + 1, has_comma = c < t->end && *c == ',';
    const char *comma = c;
    if (has_comma)
        for (c++; c < t->end && *c >= '0' && *c <= '9';) c++;
    bool has_high = has_comma && c > comma + 1;
    if (c >= t->end || *c != '}' || !(has_low || has_high)) {
        buffer_puts(t->out, "\\{");
        t->at++;
        return true;
    }
    buffer_puts(t->out, has_low ? "{" : "{0");
    buffer_append(t->out, t->at + 1, (size_t)(c - t->at));
    t->at = c + 1;
    if (peek(t, 0) != '+' || t->dialect != REGEX_ONIGURUMA) return true;
    /* Ruby: a{1,3}+ repeats a{1,3}; there is no possessive form. */
    struct buffer atom = {0};
    buffer_append(&atom, t->out->data + t->atom, t->out->length - t->atom);
    t->out->length = t->atom;
    buffer_puts(t->out, "(?:");
    buffer_append(t->out, atom.data, atom.length);
    buffer_putc(t->out, ')');
    bool ok = !atom.failed;
    buffer_free(&atom);
    return ok || error_memory(t->err, "regular expression");
}

static bool translate_one(struct translator *t) {
    char c = *t->at;
    if (c == '{') return translate_brace(t);
    if (c == '*' || c == '+' || c == '?') {
        buffer_putc(t->out, *t->at++);
        return true;
    }
    t->atom = t->out->length;
    if (c == '\\') return translate_escape(t);
    if (c == '[') return read_class(t, t->out, 0);
    if (c == '(') return translate_open(t);
    if (c == ')') {
        if (t->depth) t->atom = t->groups[--t->depth];
        buffer_putc(t->out, *t->at++);
        return true;
    }
    uint32_t code_point;
    size_t n = utf8_decode(t->at, (size_t)(t->end - t->at), &code_point);
    if (!n) return fail(t, "invalid UTF-8");
    buffer_append(t->out, t->at, n);
    t->at += n;
    return true;
}

bool regex_translate(const char *pattern, size_t length, enum regex_dialect dialect, struct buffer *out,
                     struct mx_error *err) {
    struct translator t = {.at = pattern, .end = pattern + length, .dialect = dialect, .out = out, .err = err};
    while (t.at < t.end) {
        if (!translate_one(&t)) return false;
        if (out->failed) return error_memory(err, "regular expression");
        if (out->length > 4u << 20) return fail(&t, "the pattern is too large");
    }
    return true;
}
