/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of values and how they are expanded: literals are taken apart until only choices are left; choices that the shape
 * decides already are taken or dropped; for the rest each option is followed with a copy. */
#include "text/grammar/schema.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_SETS = 300000, MAX_LEVELS = 200, MAX_DEPTH = 5, MAX_SPECS = 5000 };

static bool out_of_memory(struct schema *s) { return error_memory(s->err, "JSON Schema"); }

/* ---- interning ---- */

static bool intern_set(struct schema *s, const uint32_t *literals, uint32_t n, uint32_t *set) {
    uint64_t found;
    if (map_get(&s->set_map, (const char *)literals, n * sizeof *literals, &found)) {
        *set = (uint32_t)found;
        return true;
    }
    if (s->n_sets >= MAX_SETS)
        return error_set(s->err, ERROR_LIMIT, "JSON Schema: the schema combines into over %d sets of values", MAX_SETS);
    uint32_t *copy = arena_calloc(&s->arena, (size_t)n + 1, sizeof *copy);
    if (!copy || !array_reserve(&s->sets, &s->sets_capacity, s->n_sets + 1, sizeof *s->sets)) return out_of_memory(s);
    if (n) memcpy(copy, literals, n * sizeof *copy);
    *set = (uint32_t)s->n_sets;
    s->sets[s->n_sets++] = (struct value_set){.literals = copy, .n_literals = n};
    return map_put(&s->set_map, (const char *)copy, n * sizeof *copy, *set, NULL) || out_of_memory(s);
}

/* Sets 0 and 1 come first. */
static bool begin_sets(struct schema *s) {
    static const uint32_t never = LITERAL_FALSE;
    uint32_t set;
    return s->n_sets >= 2 || (intern_set(s, &never, 0, &set) && intern_set(s, &never, 1, &set));
}

bool set_add(struct schema *s, uint32_t set, uint32_t literal, uint32_t *result) {
    if (!begin_sets(s)) return false;
    *result = set;
    if (literal == LITERAL_TRUE || set == SET_NEVER) return true;
    if (literal == LITERAL_FALSE) {
        *result = SET_NEVER;
        return true;
    }
    const struct value_set *old = &s->sets[set];
    uint32_t at = 0, n = old->n_literals;
    while (at < n && old->literals[at] < (literal & ~1u)) at++;
    if (at < n && old->literals[at] == literal) return true;
    if (at < n && old->literals[at] == (literal ^ 1)) {
        *result = SET_NEVER;
        return true;
    }
    s->steps += n / 16;
    uint32_t *literals = array_alloc((size_t)n + 1, sizeof *literals);
    if (!literals) return out_of_memory(s);
    memcpy(literals, old->literals, at * sizeof *literals);
    literals[at] = literal;
    memcpy(literals + at + 1, old->literals + at, (n - at) * sizeof *literals);
    bool ok = intern_set(s, literals, n + 1, result);
    free(literals);
    return ok;
}

const struct automaton *schema_keep(struct schema *s, const struct automaton *a) {
    if (!a) return NULL;
    struct buffer key = {0};
    buffer_append(&key, a->states, a->n_states * sizeof *a->states);
    buffer_append(&key, a->edges, a->n_edges * sizeof *a->edges);
    uint64_t found;
    const struct automaton *kept = NULL;
    if (!key.failed && map_get(&s->automaton_map, key.data ? key.data : "", key.length, &found)) {
        kept = (const struct automaton *)(uintptr_t)found;
    } else if (!key.failed) {
        char *copy = arena_copy(&s->arena, key.data ? key.data : "", key.length);
        if (copy && map_put(&s->automaton_map, copy, key.length, (uint64_t)(uintptr_t)a, NULL)) kept = a;
    }
    buffer_free(&key);
    if (!kept) out_of_memory(s);
    return kept;
}

/* Looks a key up, or keeps what the caller has made of it. */
static const struct automaton *find_automaton(const struct map *map, const void *key, size_t length) {
    uint64_t found;
    return map_get(map, key, length, &found) ? (const struct automaton *)(uintptr_t)found : NULL;
}

static const struct automaton *remember(struct schema *s, struct map *map, const void *key, size_t length,
                                        const struct automaton *a) {
    char *copy = arena_copy(&s->arena, key, length);
    if (!(a = schema_keep(s, a))) return NULL;
    if (copy && map_put(map, copy, length, (uint64_t)(uintptr_t)a, NULL)) return a;
    out_of_memory(s);
    return NULL;
}

const struct automaton *schema_combine(struct schema *s, const struct automaton *a, const struct automaton *b,
                                       enum automaton_operation operation) {
    if (a == b && operation != AUTOMATON_WITHOUT) return a;
    uintptr_t key[3] = {(uintptr_t)a, (uintptr_t)b, (uintptr_t)operation};
    const struct automaton *found = find_automaton(&s->combine_map, key, sizeof key);
    if (found) return found;
    s->steps += a->n_states + b->n_states;
    const struct automaton *made = automaton_combine(&s->arena, a, b, operation, s->err);
    return made ? remember(s, &s->combine_map, key, sizeof key, made) : NULL;
}

/* Steps for reading a pattern: a category like \p{L} takes as long as some thousand of the others do, since all code points
 * are looked at. */
static uint64_t pattern_steps(const char *text, size_t length) {
    uint64_t steps = 10 + length / 10;
    for (size_t i = 0; i + 1 < length; i++)
        if (text[i] == '\\' && (text[i + 1] == 'p' || text[i + 1] == 'P')) steps += SCHEMA_MAX_STEPS / 300;
    return steps;
}

const struct automaton *schema_pattern(struct schema *s, const char *text, size_t length) {
    const struct automaton *found = find_automaton(&s->pattern_map, text, length);
    if (found) return found;
    if ((s->steps += pattern_steps(text, length)) > SCHEMA_MAX_STEPS) {
        error_set(s->err, ERROR_LIMIT, "JSON Schema: the schema's patterns are too many or too long");
        return NULL;
    }
    const struct pattern *p = regex_parse(&s->arena, text, length, REGEX_ECMA | REGEX_SEARCH, s->err);
    const struct automaton *a = p ? automaton_from_pattern(&s->arena, p, s->err) : NULL;
    if (a) {
        s->steps += a->n_states;
        return remember(s, &s->pattern_map, text, length, a);
    }
    error_prefix(s->err, "JSON Schema: pattern '%.*s'", (int)(length < 200 ? length : 200), text);
    return NULL;
}

const struct automaton *schema_text(struct schema *s, const struct json *string) {
    const char *text = string->string;
    size_t length = string->count;
    return schema_keep(s, automaton_from_texts(&s->arena, &text, &length, 1, s->err));
}

/* ---- expansions ---- */

static bool append(struct schema *s, uint32_t **list, uint32_t *n, uint32_t *capacity, uint32_t value) {
    if (*n == *capacity) {
        uint32_t room = *capacity ? 2 * *capacity : 8;
        uint32_t *copy = arena_calloc(&s->arena, room, sizeof *copy);
        if (!copy) return out_of_memory(s);
        if (*n) memcpy(copy, *list, *n * sizeof *copy);
        *list = copy;
        *capacity = room;
    }
    (*list)[(*n)++] = value;
    return true;
}

bool expansion_todo(struct schema *s, struct expansion *x, uint32_t literal) {
    return append(s, &x->todo, &x->n_todo, &x->todo_capacity, literal);
}

struct choice_point *expansion_choice(struct schema *s, struct expansion *x, const char *keyword) {
    struct choice_point *choice = arena_calloc(&s->arena, 1, sizeof *choice);
    if (!choice) {
        out_of_memory(s);
        return NULL;
    }
    choice->keyword = keyword;
    choice->next = x->choices;
    x->choices = choice;
    return choice;
}

struct option *choice_option(struct schema *s, struct choice_point *choice) {
    if ((s->steps += 2) > SCHEMA_MAX_STEPS) {
        error_set(s->err, ERROR_LIMIT, "JSON Schema: '%s' has too many alternatives", choice->keyword);
        return NULL;
    }
    if (choice->n_options == choice->capacity) {
        uint32_t room = choice->capacity ? 2 * choice->capacity : 2;
        struct option *copy = arena_calloc(&s->arena, room, sizeof *copy);
        if (!copy) {
            out_of_memory(s);
            return NULL;
        }
        if (choice->n_options) memcpy(copy, choice->options, choice->n_options * sizeof *copy);
        choice->options = copy;
        choice->capacity = room;
    }
    struct option *option = &choice->options[choice->n_options++];
    memset(option, 0, sizeof *option);
    option->types = TYPE_ALL;
    return option;
}

bool option_literal(struct schema *s, struct option *option, uint32_t literal) {
    if (literal == LITERAL_TRUE) return true;
    uint32_t *copy = option->literals;
    if (!(option->n_literals & (option->n_literals - 1))) { /* 0 or a power of two: double */
        copy = arena_calloc(&s->arena, option->n_literals ? 2 * (size_t)option->n_literals : 1, sizeof *copy);
        if (!copy) return out_of_memory(s);
        if (option->n_literals) memcpy(copy, option->literals, option->n_literals * sizeof *copy);
        option->literals = copy;
    }
    option->literals[option->n_literals++] = literal;
    return true;
}

static bool is_done(const struct expansion *x, uint32_t literal) {
    for (uint32_t i = 0; i < x->n_done; i++)
        if (x->done[i] == literal) return true;
    return false;
}

/* Looks at the literals that are left. *is_alive = false when nothing satisfies them. */
static bool take_literals(struct schema *s, struct expansion *x, bool *is_alive) {
    *is_alive = true;
    while (x->n_todo) {
        uint32_t literal = x->todo[--x->n_todo];
        if (literal == LITERAL_TRUE || is_done(x, literal)) continue;
        *is_alive = literal != LITERAL_FALSE && !is_done(x, literal ^ 1);
        if (!*is_alive) return true;
        if ((s->steps += 1 + x->n_done) > SCHEMA_MAX_STEPS)
            return error_set(s->err, ERROR_LIMIT, "JSON Schema: the schema's alternatives combine in too many ways");
        if (!append(s, &x->done, &x->n_done, &x->done_capacity, literal)) return false;
        if (!(literal & 1 ? keywords_deny(s, x, literal >> 1) : keywords_assert(s, x, literal >> 1))) return false;
        *is_alive = x->shape.types != 0;
        if (!*is_alive) return true;
    }
    return true;
}

enum outcome { OPTION_DEAD, OPTION_LIVE, OPTION_SAME };

/* What an option would make of the shape. */
static bool try_option(struct schema *s, const struct expansion *x, const struct option *option, struct shape *result,
                       enum outcome *outcome) {
    *outcome = OPTION_DEAD;
    if (!(x->shape.types & option->types)) return true;
    bool is_news = false;
    for (uint32_t i = 0; i < option->n_literals; i++) {
        if (option->literals[i] == LITERAL_FALSE || is_done(x, option->literals[i] ^ 1)) return true;
        is_news = is_news || !is_done(x, option->literals[i]);
    }
    *result = x->shape;
    result->types &= option->types;
    for (uint32_t i = 0; i < option->n_atoms && result->types; i++)
        if (!shape_apply(s, result, &option->atoms[i])) return false;
    if (!result->types) return true;
    *outcome = !is_news && shape_is_same(s, &x->shape, result) ? OPTION_SAME : OPTION_LIVE;
    return !s->err->code;
}

/* Puts an option into effect. */
static bool take_option(struct schema *s, struct expansion *x, const struct option *option,
                        const struct shape *result) {
    x->shape = *result;
    for (uint32_t i = option->n_literals; i-- > 0;)
        if (!expansion_todo(s, x, option->literals[i])) return false;
    return true;
}

/* Tries all options of a choice. *live counts those that may hold, up to 2; *only is one of them. A choice that holds in
 * any case gives *live = UINT32_MAX. */
static bool weigh_choice(struct schema *s, const struct expansion *x, const struct choice_point *choice, uint32_t *live,
                         uint32_t *only, struct shape *only_result) {
    *live = 0;
    for (uint32_t i = 0; i < choice->n_options; i++) {
        struct shape result;
        enum outcome outcome;
        if (!try_option(s, x, &choice->options[i], &result, &outcome)) return false;
        if (outcome == OPTION_SAME) {
            *live = UINT32_MAX;
            return true;
        }
        if (outcome == OPTION_DEAD) continue;
        if (!(*live)++) {
            *only = i;
            *only_result = result;
        }
    }
    return true;
}

/* Decides all choices that can be decided. *best = one of the others, NULL when none is left. */
static bool decide(struct schema *s, struct expansion *x, struct choice_point **best, bool *is_alive) {
    for (bool changed = true; changed;) {
        uint32_t best_score = UINT32_MAX;
        changed = false;
        *best = NULL;
        for (struct choice_point **link = &x->choices; *link;) {
            struct choice_point *choice = *link;
            uint32_t live, only = 0;
            struct shape result;
            if (!weigh_choice(s, x, choice, &live, &only, &result)) return false;
            if (!live) {
                *is_alive = false;
                return true;
            }
            if (live == UINT32_MAX || live == 1) {
                *link = choice->next;
                if (live != 1) continue;
                if (!take_option(s, x, &choice->options[only], &result) || !take_literals(s, x, is_alive)) return false;
                if (!*is_alive) return true;
                changed = true;
                link = &x->choices; /* new ones may stand in front */
                break;
            }
            uint32_t score = live + (choice->options[only].n_literals ? 0 : 1000);
            if (score < best_score) {
                best_score = score;
                *best = choice;
            }
            link = &choice->next;
        }
    }
    return true;
}

/* A copy of the expansion without one choice. */
static bool copy_without(struct schema *s, const struct expansion *x, const struct choice_point *without,
                         struct expansion *copy) {
    *copy = (struct expansion){.shape = x->shape, .pending = x->pending};
    for (uint32_t i = 0; i < x->n_done; i++)
        if (!append(s, &copy->done, &copy->n_done, &copy->done_capacity, x->done[i])) return false;
    struct choice_point **end = &copy->choices;
    for (const struct choice_point *c = x->choices; c; c = c->next) {
        if (c == without) continue;
        if (!(*end = arena_calloc(&s->arena, 1, sizeof **end))) return out_of_memory(s);
        **end = *c;
        (*end)->next = NULL;
        end = &(*end)->next;
    }
    return true;
}

/* Recursion is bounded by MAX_LEVELS. */
static bool solve(struct schema *s, struct expansion *x, uint32_t set, uint32_t level) {
    bool is_alive;
    struct choice_point *best;
    if (level > MAX_LEVELS) return error_set(s->err, ERROR_LIMIT, "JSON Schema: alternatives are nested too deeply");
    if (!take_literals(s, x, &is_alive)) return false;
    if (!is_alive) return true;
    if (!decide(s, x, &best, &is_alive)) return false;
    if (!is_alive) return true;
    if (!best) return unevaluated_finish(s, x) && specs_of_shape(s, &x->shape, set);
    for (uint32_t i = 0; i < best->n_options; i++) {
        struct shape result;
        enum outcome outcome;
        struct expansion copy;
        if (!try_option(s, x, &best->options[i], &result, &outcome)) return false;
        if (outcome == OPTION_DEAD) continue;
        if (!copy_without(s, x, best, &copy) || !take_option(s, &copy, &best->options[i], &result) ||
            !solve(s, &copy, set, level + 1))
            return false;
        if (s->sets[set].n_specs > MAX_SPECS)
            return error_set(s->err, ERROR_LIMIT, "JSON Schema: '%s' combines into over %d alternatives", best->keyword,
                             MAX_SPECS);
    }
    return true;
}

bool set_expand(struct schema *s, uint32_t set) {
    if (!begin_sets(s)) return false;
    if (s->sets[set].state != SET_NEW) return true;
    s->sets[set].state = SET_EXPANDING;
    s->depth++;
    struct expansion x = {0};
    shape_init(&x.shape);
    bool ok = true;
    for (uint32_t i = s->sets[set].n_literals; ok && i-- > 0;) ok = expansion_todo(s, &x, s->sets[set].literals[i]);
    ok = ok && solve(s, &x, set, 0) && specs_join(s, set);
    s->depth--;
    s->sets[set].state = SET_EXPANDED;
    return ok;
}

/* Expands for a closer look; false when the set is too deep, or being expanded. */
static bool look_into(struct schema *s, uint32_t set) {
    if (s->err->code || s->sets[set].state == SET_EXPANDING) return false;
    if (s->sets[set].state == SET_EXPANDED) return true;
    return s->depth <= MAX_DEPTH && set_expand(s, set);
}

bool set_is_empty(struct schema *s, uint32_t set) {
    if (set == SET_NEVER) return true;
    return look_into(s, set) && !s->sets[set].n_specs;
}

bool set_is_same(struct schema *s, uint32_t a, uint32_t b) {
    if (a == b) return true;
    if (!look_into(s, a) || !look_into(s, b)) return false;
    const struct value_set *x = &s->sets[a], *y = &s->sets[b];
    return x->n_specs == y->n_specs && (!x->n_specs || !memcmp(x->specs, y->specs, x->n_specs * sizeof *x->specs));
}
