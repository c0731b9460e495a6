/* SPDX-License-Identifier: Apache-2.0 */
/* The one form that every notation for grammars is read into: trees over classes of code points, with sequences,
 * alternatives, bounded repetition and references to rules. A grammar is a list of such trees, one for each rule.
 *
 * Everything lies in the caller's arena. */
#ifndef MLXCEL_TEXT_GRAMMAR_PATTERN_H
#define MLXCEL_TEXT_GRAMMAR_PATTERN_H

#include "base/arena.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PATTERN_MAX_DEPTH = 200, /* nesting of groups */
    CASED_END = 0x1e944,     /* no letter with another case from here on */
    PATTERN_NO_LIMIT = UINT32_MAX,
    CODE_POINT_MAX = 0x10ffff,
};

struct code_range {
    uint32_t first, last; /* inclusive */
};

/* A set of code points: sorted ranges with gaps between them, without surrogates. */
struct code_set {
    struct code_range *ranges;
    size_t n, capacity; /* ranges are malloc'ed while the set is built */
};

bool code_set_add(struct code_set *set, uint32_t first, uint32_t last);
bool code_set_add_set(struct code_set *set, const struct code_set *other);
/* Sorts, merges, and takes surrogates out. Needed before the functions below. */
bool code_set_settle(struct code_set *set);
bool code_set_negate(struct code_set *set);
/* Adds the other case of each letter. */
bool code_set_fold_case(struct code_set *set);
bool code_set_has(const struct code_set *set, uint32_t code_point);
void code_set_free(struct code_set *set);

enum pattern_kind {
    PATTERN_EMPTY,    /* the empty text */
    PATTERN_CLASS,    /* one code point */
    PATTERN_SEQUENCE, /* items one after the other */
    PATTERN_CHOICE,   /* one of the items */
    PATTERN_REPEAT,   /* item, minimum to maximum times */
    PATTERN_RULE,     /* a rule of the grammar */
    PATTERN_BEGIN,    /* empty, at the start of the text only */
    PATTERN_END,      /* empty, at the end of the text only */
};

struct pattern {
    enum pattern_kind kind;
    uint32_t n; /* ranges or items */
    union {
        const struct code_range *ranges;
        const struct pattern **items;
        struct {
            const struct pattern *item;
            uint32_t minimum, maximum; /* PATTERN_NO_LIMIT = any number */
        };
        uint32_t rule;
    };
};

struct grammar_rules {
    const struct pattern **bodies; /* [n] */
    const char *const *names;      /* [n], for messages; NULL = unnamed */
    uint32_t n;
    uint32_t root;
};

/* All return NULL when memory is out (or when an item is NULL). */
struct pattern *pattern_empty(struct arena *arena);
struct pattern *pattern_class(struct arena *arena, const struct code_set *settled);
struct pattern *pattern_range(struct arena *arena, uint32_t first, uint32_t last);
/* The code points of UTF-8 text, which must be valid. */
struct pattern *pattern_text(struct arena *arena, const char *text, size_t length);
struct pattern *pattern_list(struct arena *arena, enum pattern_kind kind, const struct pattern *const *items, size_t n);
struct pattern *pattern_repeat(struct arena *arena, const struct pattern *item, uint32_t minimum, uint32_t maximum);
struct pattern *pattern_rule(struct arena *arena, uint32_t rule);
struct pattern *pattern_anchor(struct arena *arena, enum pattern_kind kind);

/* ---- notations ---- */

/* Reads a grammar in llama.cpp's notation. */
bool gbnf_parse(struct arena *arena, const char *text, size_t length, struct grammar_rules *rules,
                struct mx_error *err);

enum {
    REGEX_ECMA = 1,   /* as JSON Schema means it: ECMAScript's classes, [] and [^] */
    REGEX_SEARCH = 2, /* the pattern may match anywhere in the text */
};

/* Reads a regular expression into a tree without rules. */
const struct pattern *regex_parse(struct arena *arena, const char *text, size_t length, unsigned flags,
                                  struct mx_error *err);

#endif
