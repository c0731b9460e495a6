/* SPDX-License-Identifier: Apache-2.0 */
/* GBNF, llama.cpp's notation for grammars, into patterns.
 *
 *     name ::= alternative | alternative ...      # comment
 *
 * A rule ends at a line end unless it stands inside parentheses or after | or ::=. Items are "literals", [classes],
 * . (any character), (groups) and rule names, each with *, +, ? or {m}, {m,}, {m,n} behind it. */
#include "text/grammar/pattern.h"

#include "base/map.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_REPEAT = 2000 };

struct gbnf {
    struct arena *arena;
    const char *text;
    size_t length, at;
    struct map names; /* rule name to number */
    const struct pattern **bodies;
    const char **rule_names;
    size_t n_rules, bodies_capacity, names_capacity;
    struct mx_error *err;
};

/* Items of the lists that are being read, as a stack shared by all levels. */
struct items {
    const struct pattern **data;
    size_t n, capacity;
};

static bool fail(struct gbnf *g, const char *what) {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < g->at && i < g->length; i++) {
        column = g->text[i] == '\n' ? 1 : column + 1;
        line += g->text[i] == '\n';
    }
    return error_set(g->err, ERROR_FORMAT, "grammar, line %zu column %zu: %s", line, column, what);
}

static bool out_of_memory(struct gbnf *g) { return error_memory(g->err, "grammar"); }

static int peek(const struct gbnf *g) { return g->at < g->length ? (unsigned char)g->text[g->at] : -1; }

static bool take(struct gbnf *g, char c) {
    if (peek(g) != c) return false;
    g->at++;
    return true;
}

static bool is_name_char(int c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

static void skip_space(struct gbnf *g, bool over_lines) {
    for (int c; (c = peek(g)) >= 0; g->at++) {
        if (c == '#')
            while (g->at + 1 < g->length && g->text[g->at + 1] != '\n' && g->text[g->at + 1] != '\r') g->at++;
        else if (c != ' ' && c != '\t' && !(over_lines && (c == '\n' || c == '\r')))
            return;
    }
}

/* The number of a rule, which is made on its first mention. */
static bool rule_number(struct gbnf *g, const char *name, size_t length, uint32_t *number) {
    uint64_t value;
    if (map_get(&g->names, name, length, &value)) {
        *number = (uint32_t)value;
        return true;
    }
    *number = (uint32_t)g->n_rules;
    if (!array_reserve(&g->bodies, &g->bodies_capacity, g->n_rules + 1, sizeof *g->bodies) ||
        !array_reserve(&g->rule_names, &g->names_capacity, g->n_rules + 1, sizeof *g->rule_names))
        return out_of_memory(g);
    g->bodies[g->n_rules] = NULL;
    if (!(g->rule_names[g->n_rules] = arena_copy(g->arena, name, length))) return out_of_memory(g);
    g->n_rules++;
    return map_put(&g->names, name, length, *number, NULL) || out_of_memory(g);
}

static bool read_hex(struct gbnf *g, int digits, uint32_t *code_point) {
    *code_point = 0;
    for (int i = 0; i < digits; i++) {
        int c = peek(g);
        uint32_t digit;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            digit = (uint32_t)(c - 'a' + 10);
        else if (c >= 'A' && c <= 'F')
            digit = (uint32_t)(c - 'A' + 10);
        else
            return fail(g, digits == 2   ? "\\x needs 2 hex digits"
                           : digits == 4 ? "\\u needs 4 hex digits"
                                         : "\\U needs 8 hex digits");
        *code_point = *code_point << 4 | digit;
        g->at++;
    }
    if (*code_point > CODE_POINT_MAX || (*code_point >= 0xd800 && *code_point <= 0xdfff))
        return fail(g, "an escape that is no character");
    return true;
}

/* One character of a literal or class. */
static bool read_character(struct gbnf *g, uint32_t *code_point) {
    if (take(g, '\\')) {
        int c = peek(g);
        if (c < 0) return fail(g, "the text ends after \\");
        g->at++;
        switch (c) {
        case 'x': return read_hex(g, 2, code_point);
        case 'u': return read_hex(g, 4, code_point);
        case 'U': return read_hex(g, 8, code_point);
        case 't': *code_point = '\t'; return true;
        case 'r': *code_point = '\r'; return true;
        case 'n': *code_point = '\n'; return true;
        case '\\':
        case '"':
        case '[':
        case ']': *code_point = (uint32_t)c; return true;
        default: g->at--; return fail(g, "unknown escape");
        }
    }
    size_t step = utf8_decode(g->text + g->at, g->length - g->at, code_point);
    if (!step) return fail(g, "the text is not UTF-8");
    g->at += step;
    return true;
}

static const struct pattern *read_literal(struct gbnf *g, struct items *items) {
    size_t base = items->n;
    while (!take(g, '"')) {
        uint32_t code_point;
        if (peek(g) < 0) {
            fail(g, "a literal without its closing quote");
            return NULL;
        }
        if (!read_character(g, &code_point)) return NULL;
        const struct pattern *p = pattern_range(g->arena, code_point, code_point);
        if (!p || !array_reserve(&items->data, &items->capacity, items->n + 1, sizeof *items->data)) {
            out_of_memory(g);
            return NULL;
        }
        items->data[items->n++] = p;
    }
    const struct pattern *p =
        pattern_list(g->arena, PATTERN_SEQUENCE, items->n > base ? items->data + base : NULL, items->n - base);
    items->n = base;
    if (!p) out_of_memory(g);
    return p;
}

static bool read_class_items(struct gbnf *g, struct code_set *set) {
    while (!take(g, ']')) {
        uint32_t first, last;
        if (peek(g) < 0) return fail(g, "a class without its closing ]");
        if (!read_character(g, &first)) return false;
        last = first;
        if (peek(g) == '-' && g->at + 1 < g->length && g->text[g->at + 1] != ']') {
            g->at++;
            if (!read_character(g, &last)) return false;
        }
        if (last < first) return fail(g, "a range whose end lies before its start");
        if (!code_set_add(set, first, last)) return out_of_memory(g);
    }
    return set->n || fail(g, "an empty class");
}

static const struct pattern *read_class(struct gbnf *g) {
    struct code_set set = {0};
    bool is_negated = take(g, '^');
    const struct pattern *p = NULL;
    if (read_class_items(g, &set)) {
        if (code_set_settle(&set) && (!is_negated || code_set_negate(&set))) p = pattern_class(g->arena, &set);
        if (!p) out_of_memory(g);
    }
    code_set_free(&set);
    return p;
}

static bool read_count(struct gbnf *g, uint32_t *count) {
    if (peek(g) < '0' || peek(g) > '9') return fail(g, "a number is needed in {}");
    *count = 0;
    while (peek(g) >= '0' && peek(g) <= '9') {
        *count = *count * 10 + (uint32_t)(g->text[g->at++] - '0');
        if (*count > MAX_REPEAT) return fail(g, "a repetition over the limit of 2000");
    }
    return true;
}

static bool read_braces(struct gbnf *g, bool over_lines, uint32_t *minimum, uint32_t *maximum) {
    skip_space(g, over_lines);
    if (!read_count(g, minimum)) return false;
    skip_space(g, over_lines);
    *maximum = *minimum;
    if (take(g, ',')) {
        skip_space(g, over_lines);
        *maximum = PATTERN_NO_LIMIT;
        if (peek(g) != '}' && !read_count(g, maximum)) return false;
        skip_space(g, over_lines);
    }
    if (!take(g, '}')) return fail(g, "} is missing");
    return *maximum >= *minimum || fail(g, "a repetition whose maximum is below its minimum");
}

/* The repetitions behind an item. */
static const struct pattern *read_repeats(struct gbnf *g, const struct pattern *p, bool over_lines, int depth) {
    while (p) {
        uint32_t minimum = 0, maximum = PATTERN_NO_LIMIT;
        if (take(g, '*'))
            minimum = 0;
        else if (take(g, '+'))
            minimum = 1;
        else if (take(g, '?'))
            maximum = 1;
        else if (!take(g, '{'))
            return p;
        else if (!read_braces(g, over_lines, &minimum, &maximum))
            return NULL;
        if (++depth > PATTERN_MAX_DEPTH) {
            fail(g, "repetitions are nested too deeply");
            return NULL;
        }
        p = pattern_repeat(g->arena, p, minimum, maximum);
        if (!p) out_of_memory(g);
        skip_space(g, over_lines);
    }
    return NULL;
}

static const struct pattern *read_alternatives(struct gbnf *g, struct items *items, int depth);

static const struct pattern *read_item(struct gbnf *g, struct items *items, int depth) {
    int c = peek(g);
    if (take(g, '"')) return read_literal(g, items);
    if (take(g, '[')) return read_class(g);
    if (take(g, '.')) {
        struct code_range all[2] = {{0, 0xd7ff}, {0xe000, CODE_POINT_MAX}};
        const struct pattern *p = pattern_class(g->arena, &(struct code_set){.ranges = all, .n = 2});
        if (!p) out_of_memory(g);
        return p;
    }
    if (take(g, '(')) {
        skip_space(g, true);
        const struct pattern *p = read_alternatives(g, items, depth + 1);
        if (p && !take(g, ')')) {
            fail(g, ") is missing");
            return NULL;
        }
        return p;
    }
    if (is_name_char(c)) {
        size_t start = g->at;
        uint32_t number;
        while (is_name_char(peek(g))) g->at++;
        if (!rule_number(g, g->text + start, g->at - start, &number)) return NULL;
        const struct pattern *p = pattern_rule(g->arena, number);
        if (!p) out_of_memory(g);
        return p;
    }
    if (c == '<' || c == '!')
        fail(g, "tokens (<...>) are not supported");
    else if (c == '*' || c == '+' || c == '?' || c == '{')
        fail(g, "there is nothing to repeat");
    else
        fail(g, "unexpected character");
    return NULL;
}

static const struct pattern *read_sequence(struct gbnf *g, struct items *items, int depth) {
    size_t base = items->n;
    for (;;) {
        int c = peek(g);
        if (c < 0 || c == '|' || c == ')' || c == '\n' || c == '\r') break;
        const struct pattern *p = read_item(g, items, depth);
        if (!p) return NULL;
        skip_space(g, depth > 0);
        if (!(p = read_repeats(g, p, depth > 0, depth))) return NULL;
        if (!array_reserve(&items->data, &items->capacity, items->n + 1, sizeof *items->data)) {
            out_of_memory(g);
            return NULL;
        }
        items->data[items->n++] = p;
    }
    const struct pattern *p =
        items->n - base == 1
            ? items->data[base]
            : pattern_list(g->arena, PATTERN_SEQUENCE, items->n > base ? items->data + base : NULL, items->n - base);
    items->n = base;
    if (!p) out_of_memory(g);
    return p;
}

/* Recursion is bounded by PATTERN_MAX_DEPTH. */
static const struct pattern *read_alternatives(struct gbnf *g, struct items *items, int depth) {
    if (depth > PATTERN_MAX_DEPTH) {
        fail(g, "groups are nested too deeply");
        return NULL;
    }
    size_t base = items->n;
    do {
        if (items->n > base) skip_space(g, true);
        const struct pattern *p = read_sequence(g, items, depth);
        if (!p) return NULL;
        if (!array_reserve(&items->data, &items->capacity, items->n + 1, sizeof *items->data)) {
            out_of_memory(g);
            return NULL;
        }
        items->data[items->n++] = p;
    } while (take(g, '|'));
    const struct pattern *p =
        items->n - base == 1
            ? items->data[base]
            : pattern_list(g->arena, PATTERN_CHOICE, items->n > base ? items->data + base : NULL, items->n - base);
    items->n = base;
    if (!p) out_of_memory(g);
    return p;
}

static bool read_rule(struct gbnf *g, struct items *items) {
    size_t start = g->at;
    uint32_t number;
    while (is_name_char(peek(g))) g->at++;
    if (g->at == start) return fail(g, "a rule name is needed (letters, digits, -)");
    if (!rule_number(g, g->text + start, g->at - start, &number)) return false;
    skip_space(g, false);
    if (g->length - g->at < 3 || memcmp(g->text + g->at, "::=", 3) != 0) return fail(g, "::= is missing");
    g->at += 3;
    skip_space(g, true);
    const struct pattern *body = read_alternatives(g, items, 0);
    if (!body) return false;
    int c = peek(g);
    if (c >= 0 && c != '\n' && c != '\r')
        return fail(g, c == ')' ? "unexpected )" : "a line end is needed after a rule");
    g->bodies[number] = body;
    return true;
}

static bool read_all(struct gbnf *g, struct grammar_rules *rules) {
    struct items items = {0};
    bool ok = true;
    skip_space(g, true);
    while (ok && peek(g) >= 0) {
        ok = read_rule(g, &items);
        skip_space(g, true);
    }
    free(items.data);
    if (!ok) return false;
    uint64_t root;
    if (!map_get(&g->names, "root", 4, &root))
        return error_set(g->err, ERROR_FORMAT, "grammar: there is no rule named root");
    for (size_t i = 0; i < g->n_rules; i++)
        if (!g->bodies[i])
            return error_set(g->err, ERROR_FORMAT, "grammar: rule '%s' is used but not defined", g->rule_names[i]);
    const struct pattern **bodies = arena_calloc(g->arena, g->n_rules, sizeof *bodies);
    const char **names = arena_calloc(g->arena, g->n_rules, sizeof *names);
    if (!bodies || !names) return out_of_memory(g);
    memcpy(bodies, g->bodies, g->n_rules * sizeof *bodies);
    memcpy(names, g->rule_names, g->n_rules * sizeof *names);
    *rules =
        (struct grammar_rules){.bodies = bodies, .names = names, .n = (uint32_t)g->n_rules, .root = (uint32_t)root};
    return true;
}

bool gbnf_parse(struct arena *arena, const char *text, size_t length, struct grammar_rules *rules,
                struct mx_error *err) {
    struct gbnf g = {.arena = arena, .text = text, .length = length, .err = err};
    bool ok = read_all(&g, rules);
    map_free(&g.names);
    free(g.bodies);
    free(g.rule_names);
    return ok;
}
