/* SPDX-License-Identifier: Apache-2.0 */
#include "text/grammar/pattern.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { SURROGATE_FIRST = 0xd800, SURROGATE_LAST = 0xdfff };

/* ---- sets of code points ---- */

bool code_set_add(struct code_set *set, uint32_t first, uint32_t last) {
    if (first > last) return true;
    if (!array_reserve(&set->ranges, &set->capacity, set->n + 1, sizeof *set->ranges)) return false;
    set->ranges[set->n++] = (struct code_range){first, last};
    return true;
}

bool code_set_add_set(struct code_set *set, const struct code_set *other) {
    for (size_t i = 0; i < other->n; i++)
        if (!code_set_add(set, other->ranges[i].first, other->ranges[i].last)) return false;
    return true;
}

static int compare_ranges(const void *a, const void *b) {
    const struct code_range *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

bool code_set_settle(struct code_set *set) {
    size_t n = set->n;
    for (size_t i = 0; i < n; i++) {
        struct code_range r = set->ranges[i];
        if (r.first > SURROGATE_LAST || r.last < SURROGATE_FIRST) continue;
        if (r.last > SURROGATE_LAST && !code_set_add(set, SURROGATE_LAST + 1, r.last)) return false;
        if (r.first < SURROGATE_FIRST && !code_set_add(set, r.first, SURROGATE_FIRST - 1)) return false;
        set->ranges[i] = (struct code_range){UINT32_MAX, 0}; /* dropped below */
    }
    if (set->n) qsort(set->ranges, set->n, sizeof *set->ranges, compare_ranges);
    size_t kept = 0;
    for (size_t i = 0; i < set->n; i++) {
        struct code_range r = set->ranges[i];
        if (r.first > r.last) continue;
        if (kept && r.first <= set->ranges[kept - 1].last + 1) {
            if (r.last > set->ranges[kept - 1].last) set->ranges[kept - 1].last = r.last;
        } else {
            set->ranges[kept++] = r;
        }
    }
    set->n = kept;
    return true;
}

bool code_set_negate(struct code_set *set) {
    struct code_set rest = {0};
    uint32_t next = 0;
    bool ok = true;
    for (size_t i = 0; ok && i < set->n; i++) {
        if (set->ranges[i].first > next) ok = code_set_add(&rest, next, set->ranges[i].first - 1);
        next = set->ranges[i].last + 1;
    }
    if (ok && next <= CODE_POINT_MAX) ok = code_set_add(&rest, next, CODE_POINT_MAX);
    ok = ok && code_set_settle(&rest);
    code_set_free(set);
    *set = rest;
    return ok;
}

bool code_set_fold_case(struct code_set *set) {
    size_t n = set->n;
    for (size_t i = 0; i < n; i++) {
        struct code_range r = set->ranges[i];
        for (uint32_t c = r.first; c <= r.last && c < CASED_END; c++) {
            uint32_t lower = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
            uint32_t upper = (uint32_t)utf8proc_toupper((utf8proc_int32_t)c);
            if (lower != c && !code_set_add(set, lower, lower)) return false;
            if (upper != c && !code_set_add(set, upper, upper)) return false;
        }
    }
    return code_set_settle(set);
}

bool code_set_has(const struct code_set *set, uint32_t code_point) {
    for (size_t i = 0; i < set->n; i++)
        if (code_point >= set->ranges[i].first && code_point <= set->ranges[i].last) return true;
    return false;
}

void code_set_free(struct code_set *set) {
    free(set->ranges);
    *set = (struct code_set){0};
}

/* ---- trees ---- */

static struct pattern *make(struct arena *arena, enum pattern_kind kind, uint32_t n) {
    struct pattern *p = arena_calloc(arena, 1, sizeof *p);
    if (!p) return NULL;
    p->kind = kind;
    p->n = n;
    return p;
}

struct pattern *pattern_empty(struct arena *arena) {
    return make(arena, PATTERN_EMPTY, 0);
}

struct pattern *pattern_anchor(struct arena *arena, enum pattern_kind kind) {
    return make(arena, kind, 0);
}

struct pattern *pattern_class(struct arena *arena, const struct code_set *settled) {
    struct pattern *p = make(arena, PATTERN_CLASS, (uint32_t)settled->n);
    struct code_range *ranges = arena_calloc(arena, settled->n + 1, sizeof *ranges);
    if (!p || !ranges) return NULL;
    if (settled->n) memcpy(ranges, settled->ranges, settled->n * sizeof *ranges);
    p->ranges = ranges;
    return p;
}

struct pattern *pattern_range(struct arena *arena, uint32_t first, uint32_t last) {
    struct code_range range = {first, last};
    return pattern_class(arena, &(struct code_set){.ranges = &range, .n = 1});
}

struct pattern *pattern_list(struct arena *arena, enum pattern_kind kind, const struct pattern *const *items,
                             size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!items[i]) return NULL;
    if (n > UINT32_MAX) return NULL;
    struct pattern *p = make(arena, kind, (uint32_t)n);
    const struct pattern **copy = arena_calloc(arena, n + 1, sizeof *copy);
    if (!p || !copy) return NULL;
    if (n) memcpy(copy, items, n * sizeof *copy);
    p->items = copy;
    return p;
}

struct pattern *pattern_text(struct arena *arena, const char *text, size_t length) {
    size_t n = utf8_count(text, length), used = 0;
    const struct pattern **items = arena_calloc(arena, n + 1, sizeof *items);
    if (!items) return NULL;
    for (size_t i = 0; i < n; i++) {
        uint32_t code_point;
        size_t step = utf8_decode(text + used, length - used, &code_point);
        if (!step || !(items[i] = pattern_range(arena, code_point, code_point))) return NULL;
        used += step;
    }
    struct pattern *p = make(arena, PATTERN_SEQUENCE, (uint32_t)n);
    if (p) p->items = items;
    return p;
}

struct pattern *pattern_repeat(struct arena *arena, const struct pattern *item, uint32_t minimum, uint32_t maximum) {
    struct pattern *p = item ? make(arena, PATTERN_REPEAT, 0) : NULL;
    if (!p) return NULL;
    p->item = item;
    p->minimum = minimum;
    p->maximum = maximum;
    return p;
}

struct pattern *pattern_rule(struct arena *arena, uint32_t rule) {
    struct pattern *p = make(arena, PATTERN_RULE, 0);
    if (p) p->rule = rule;
    return p;
}
