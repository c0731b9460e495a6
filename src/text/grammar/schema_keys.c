/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of an object as one automaton: a trie of the names that the schema mentions, run beside the automata of
 * patternProperties and propertyNames. Where a key ends it has a label: a name, or the class of all other keys that match
 * the same patterns. */
#include "text/grammar/schema.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PATTERNS = 24, MAX_KEY_STATES = 300000, MAX_CLASSES = 64, OUT = UINT32_MAX };

struct keys {
    struct schema *s;
    const struct shape *shape;
    struct object_spec *spec;
    struct name *names;
    uint32_t n_names;
    const struct automaton *patterns[MAX_PATTERNS];
    uint32_t n_patterns;
    const struct automaton *allowed;  /* by propertyNames; NULL = all */
    uint32_t signatures[MAX_CLASSES]; /* bit i: pattern i matches */
    uint32_t class_sets[MAX_CLASSES];
    uint32_t n_classes;
    /* states being numbered: [0] first name or OUT, [1] depth in bytes, then a state for each pattern, then for `allowed` */
    struct map map;
    uint32_t **tuples;
    size_t n_tuples, tuples_capacity;
    struct key_state *states;
    size_t states_capacity;
    struct automaton_edge *edges;
    size_t n_edges, edges_capacity;
    uint32_t *cuts;
    size_t n_cuts, cuts_capacity;
};

static bool out_of_memory(struct schema *s) { return error_memory(s->err, "JSON Schema"); }

/* ---- names and patterns ---- */

static int compare_names(const void *a, const void *b) {
    const struct name *x = a, *y = b;
    uint32_t n = x->length < y->length ? x->length : y->length;
    int c = n ? memcmp(x->key, y->key, n) : 0;
    if (c) return c;
    if (x->length != y->length) return x->length < y->length ? -1 : 1;
    return (int)(x->set == SET_NONE) - (int)(y->set == SET_NONE); /* the shape's own first */
}

static uint32_t member_count(const struct json *object) { return json_is_object(object) ? object->count : 0; }

static bool add_pattern(struct keys *k, const struct automaton *a) {
    if (!a) return false;
    for (uint32_t i = 0; i < k->n_patterns; i++)
        if (k->patterns[i] == a) return true;
    if (k->n_patterns == MAX_PATTERNS)
        return error_set(k->s->err, ERROR_LIMIT, "JSON Schema: over %d patternProperties apply to one object",
                         MAX_PATTERNS);
    k->patterns[k->n_patterns++] = a;
    return true;
}

static bool add_class_patterns(struct keys *k, const struct key_class *class) {
    if (class->automaton) return add_pattern(k, class->automaton);
    for (uint32_t i = 0; i < member_count(class->patterns); i++) {
        const struct json_member *m = &class->patterns->members[i];
        if (!add_pattern(k, schema_pattern(k->s, m->key, m->key_length))) return false;
    }
    return true;
}

static bool collect_names(struct keys *k) {
    const struct shape *shape = k->shape;
    size_t n = shape->n_names;
    for (uint32_t i = 0; i < shape->n_rules; i++) n += member_count(shape->rules[i].class.names);
    for (uint32_t i = 0; i < shape->n_exists; i++) n += member_count(shape->exists[i].class.names);
    k->names = arena_calloc(&k->s->arena, n + 1, sizeof *k->names);
    if (!k->names) return out_of_memory(k->s);
    uint32_t count = 0;
    for (uint32_t i = 0; i < shape->n_names; i++) k->names[count++] = shape->names[i];
    for (uint32_t i = 0; i < shape->n_rules + shape->n_exists; i++) {
        const struct key_rule *rule = i < shape->n_rules ? &shape->rules[i] : &shape->exists[i - shape->n_rules];
        for (uint32_t m = 0; m < member_count(rule->class.names); m++)
            k->names[count++] = (struct name){.key = rule->class.names->members[m].key,
                                              .length = rule->class.names->members[m].key_length,
                                              .set = SET_NONE};
    }
    qsort(k->names, count, sizeof *k->names, compare_names);
    for (uint32_t i = 0; i < count; i++) {
        const struct name *last = k->n_names ? &k->names[k->n_names - 1] : NULL;
        if (last && last->length == k->names[i].length && !memcmp(last->key, k->names[i].key, last->length)) continue;
        k->names[k->n_names++] = k->names[i];
    }
    for (uint32_t i = 0; i < k->n_names; i++)
        if (k->names[i].set == SET_NONE) k->names[i].set = SET_ANY;
    return true;
}

/* The strings that propertyNames allows. */
static bool find_allowed(struct keys *k) {
    struct schema *s = k->s;
    if (k->shape->key_set == SET_ANY) return true;
    if (!set_strings(s, k->shape->key_set, &k->allowed)) return false;
    if (automaton_is_any(k->allowed)) k->allowed = NULL;
    return true;
}

/* ---- which rules concern which labels ---- */

static uint32_t signature_of_text(const struct keys *k, const char *text, uint32_t length) {
    uint32_t signature = 0;
    for (uint32_t i = 0; i < k->n_patterns; i++)
        if (automaton_matches(k->patterns[i], text, length)) signature |= 1u << i;
    return signature;
}

static bool matches_pattern(const struct keys *k, uint32_t signature, const struct automaton *a) {
    for (uint32_t i = 0; i < k->n_patterns; i++)
        if (k->patterns[i] == a) return signature >> i & 1;
    return false;
}

/* Whether a key with this signature (and name, or NULL for one that no rule mentions) is in the class. */
static bool is_in_class(const struct keys *k, const struct key_class *class, uint32_t signature,
                        const struct name *name) {
    if (class->automaton) return matches_pattern(k, signature, class->automaton);
    if (name && schema_has_key(k->s, class->names, name->key, name->length)) return false;
    for (uint32_t i = 0; i < member_count(class->patterns); i++) {
        const struct json_member *m = &class->patterns->members[i];
        if (matches_pattern(k, signature, schema_pattern(k->s, m->key, m->key_length))) return false;
    }
    return true;
}

static bool apply_rules(struct keys *k, uint32_t signature, const struct name *name, uint32_t *set) {
    for (uint32_t i = 0; i < k->shape->n_rules; i++)
        if (is_in_class(k, &k->shape->rules[i].class, signature, name) &&
            !set_add(k->s, *set, k->shape->rules[i].literal, set))
            return false;
    return true;
}

static bool finish_names(struct keys *k) {
    for (uint32_t i = 0; i < k->n_names; i++) {
        struct name *name = &k->names[i];
        if (!apply_rules(k, signature_of_text(k, name->key, name->length), name, &name->set)) return false;
        if (k->allowed && !automaton_matches(k->allowed, name->key, name->length)) name->set = SET_NEVER;
        k->spec->n_required += name->is_required;
    }
    return true;
}

static bool class_of_signature(struct keys *k, uint32_t signature, uint32_t *class) {
    for (*class = 0; *class < k->n_classes; (*class)++)
        if (k->signatures[*class] == signature) return true;
    if (k->n_classes == MAX_CLASSES)
        return error_set(k->s->err, ERROR_LIMIT, "JSON Schema: patternProperties overlap in over %d ways", MAX_CLASSES);
    k->signatures[k->n_classes] = signature;
    k->class_sets[k->n_classes] = SET_ANY;
    return apply_rules(k, signature, NULL, &k->class_sets[k->n_classes++]);
}

static bool finish_exists(struct keys *k) {
    struct object_spec *o = k->spec;
    o->n_exists = k->shape->n_exists;
    for (uint32_t e = 0; e < o->n_exists; e++) {
        const struct key_class *class = &k->shape->exists[e].class;
        uint8_t *labels = arena_calloc(&k->s->arena, (size_t)k->n_names + k->n_classes + 1, 1);
        if (!labels) return out_of_memory(k->s);
        for (uint32_t i = 0; i < k->n_names; i++)
            labels[i] = is_in_class(k, class, signature_of_text(k, k->names[i].key, k->names[i].length), &k->names[i]);
        for (uint32_t i = 0; i < k->n_classes; i++)
            labels[k->n_names + i] = is_in_class(k, class, k->signatures[i], NULL);
        o->exists[e].literal = k->shape->exists[e].literal;
        o->exists[e].labels = labels;
    }
    return true;
}

/* ---- the automaton ---- */

/* The names that share their first `depth` bytes with name `first`: [first, result). */
static uint32_t end_of_prefix(const struct keys *k, uint32_t first, uint32_t depth, uint32_t end) {
    uint32_t low = first, high = end;
    const struct name *name = &k->names[first];
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        const struct name *m = &k->names[middle];
        if (m->length >= depth && !memcmp(m->key, name->key, depth))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool tuple_number(struct keys *k, const uint32_t *tuple, uint32_t *number) {
    size_t size = (3 + (size_t)k->n_patterns) * sizeof *tuple;
    uint64_t found;
    if (map_get(&k->map, (const char *)tuple, size, &found)) {
        *number = (uint32_t)found;
        return true;
    }
    if (k->n_tuples >= MAX_KEY_STATES)
        return error_set(k->s->err, ERROR_LIMIT, "JSON Schema: an object's keys need over %d states", MAX_KEY_STATES);
    uint32_t *copy = arena_alloc(&k->s->arena, size);
    if (!copy || !array_reserve(&k->tuples, &k->tuples_capacity, k->n_tuples + 1, sizeof *k->tuples))
        return out_of_memory(k->s);
    memcpy(copy, tuple, size);
    *number = (uint32_t)k->n_tuples;
    k->tuples[k->n_tuples++] = copy;
    return map_put(&k->map, (const char *)copy, size, *number, NULL) || out_of_memory(k->s);
}

static int compare_numbers(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static bool add_cut(struct keys *k, uint32_t cut) {
    if (!array_reserve(&k->cuts, &k->cuts_capacity, k->n_cuts + 1, sizeof *k->cuts)) return out_of_memory(k->s);
    k->cuts[k->n_cuts++] = cut;
    return true;
}

static bool add_automaton_cuts(struct keys *k, const struct automaton *a, uint32_t state) {
    if (state == AUTOMATON_DEAD) return true;
    for (uint32_t e = 0; e < a->states[state].n_edges; e++) {
        const struct automaton_edge *edge = &a->edges[a->states[state].first_edge + e];
        if (!add_cut(k, edge->first) || !add_cut(k, edge->last + 1)) return false;
    }
    return true;
}

/* Where the next code point makes a difference, from a state on; sorted. */
static bool find_cuts(struct keys *k, const uint32_t *tuple, uint32_t end_name) {
    static const uint32_t borders[] = {0, 0xd800, 0xe000, CODE_POINT_MAX + 1};
    k->n_cuts = 0;
    for (int i = 0; i < 4; i++)
        if (!add_cut(k, borders[i])) return false;
    for (uint32_t i = 0; i < k->n_patterns; i++)
        if (!add_automaton_cuts(k, k->patterns[i], tuple[2 + i])) return false;
    if (k->allowed && !add_automaton_cuts(k, k->allowed, tuple[2 + k->n_patterns])) return false;
    if (tuple[0] != OUT) {
        for (uint32_t i = tuple[0]; i < end_name;) {
            const struct name *name = &k->names[i];
            uint32_t code_point, depth = tuple[1];
            if (name->length == depth) {
                i++;
                continue;
            }
            size_t step = utf8_decode(name->key + depth, name->length - depth, &code_point);
            if (!step) return error_set(k->s->err, ERROR_FORMAT, "JSON Schema: a property name is not UTF-8");
            if (!add_cut(k, code_point) || !add_cut(k, code_point + 1)) return false;
            i = end_of_prefix(k, i, depth + (uint32_t)step, end_name);
        }
    }
    qsort(k->cuts, k->n_cuts, sizeof *k->cuts, compare_numbers);
    size_t kept = 1;
    for (size_t i = 1; i < k->n_cuts; i++)
        if (k->cuts[i] != k->cuts[kept - 1]) k->cuts[kept++] = k->cuts[i];
    k->n_cuts = kept;
    return true;
}

/* The trie's part of a step: the first name that goes on with the code point, or OUT. */
static void step_name(const struct keys *k, const uint32_t *tuple, uint32_t end_name, uint32_t code_point,
                      uint32_t *to) {
    char bytes[4];
    uint32_t n = (uint32_t)utf8_encode(code_point, bytes), depth = tuple[1];
    to[0] = OUT;
    to[1] = 0;
    if (tuple[0] == OUT) return;
    uint32_t low = tuple[0], high = end_name;
    while (low < high) { /* the first name that is not below the prefix */
        uint32_t middle = (low + high) / 2;
        const struct name *name = &k->names[middle];
        uint32_t rest = name->length - depth, common = rest < n ? rest : n;
        int c = common ? memcmp(name->key + depth, bytes, common) : 0;
        if (c < 0 || (c == 0 && rest < n))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == end_name) return;
    const struct name *name = &k->names[low];
    if (name->length - depth < n || memcmp(name->key + depth, bytes, n) != 0) return;
    to[0] = low;
    to[1] = depth + n;
}

static bool add_edges(struct keys *k, const uint32_t *tuple, uint32_t end_name, struct key_state *state) {
    uint32_t to[3 + MAX_PATTERNS] = {0};
    if (!find_cuts(k, tuple, end_name)) return false;
    for (size_t c = 0; c + 1 < k->n_cuts; c++) {
        uint32_t first = k->cuts[c], last = k->cuts[c + 1] - 1, target;
        if (first >= 0xd800 && first <= 0xdfff) continue;
        step_name(k, tuple, end_name, first, to);
        for (uint32_t i = 0; i < k->n_patterns; i++) to[2 + i] = automaton_step(k->patterns[i], tuple[2 + i], first);
        to[2 + k->n_patterns] = k->allowed ? automaton_step(k->allowed, tuple[2 + k->n_patterns], first) : 0;
        if (to[2 + k->n_patterns] == AUTOMATON_DEAD) continue;
        if (!tuple_number(k, to, &target)) return false;
        struct automaton_edge *previous = state->n_edges ? &k->edges[k->n_edges - 1] : NULL;
        if (previous && previous->target == target && previous->last + 1 == first) {
            previous->last = last;
            continue;
        }
        if (!array_reserve(&k->edges, &k->edges_capacity, k->n_edges + 1, sizeof *k->edges)) return out_of_memory(k->s);
        k->edges[k->n_edges++] = (struct automaton_edge){first, last, target};
        state->n_edges++;
    }
    return true;
}

static bool label_state(struct keys *k, const uint32_t *tuple, struct key_state *state) {
    uint32_t signature = 0, class;
    state->label = LABEL_NONE;
    if (tuple[0] != OUT && k->names[tuple[0]].length == tuple[1]) {
        state->label = tuple[0];
        return true;
    }
    if (k->allowed && !k->allowed->states[tuple[2 + k->n_patterns]].is_final) return true;
    for (uint32_t i = 0; i < k->n_patterns; i++)
        if (tuple[2 + i] != AUTOMATON_DEAD && k->patterns[i]->states[tuple[2 + i]].is_final) signature |= 1u << i;
    if (!class_of_signature(k, signature, &class)) return false;
    state->label = k->n_names + class;
    state->classes = (uint64_t)1 << class;
    return true;
}

static bool build(struct keys *k) {
    uint32_t start[3 + MAX_PATTERNS] = {k->n_names ? 0 : OUT}, number;
    for (uint32_t i = 0; i < k->n_patterns; i++) start[2 + i] = k->patterns[i]->n_states ? 0 : AUTOMATON_DEAD;
    if (k->allowed && !k->allowed->n_states) return true; /* no key at all */
    if (!tuple_number(k, start, &number)) return false;
    for (size_t i = 0; i < k->n_tuples; i++) {
        const uint32_t *tuple = k->tuples[i];
        struct key_state state = {.first_edge = (uint32_t)k->n_edges};
        if (tuple[0] != OUT) {
            state.first_name = tuple[0];
            state.end_name = end_of_prefix(k, tuple[0], tuple[1], k->n_names);
        }
        if (!label_state(k, tuple, &state) || !add_edges(k, tuple, state.end_name, &state)) return false;
        if (!array_reserve(&k->states, &k->states_capacity, i + 1, sizeof *k->states)) return out_of_memory(k->s);
        k->states[i] = state;
    }
    for (bool changed = true; changed;) { /* which classes can be reached */
        changed = false;
        for (size_t i = k->n_tuples; i-- > 0;) {
            uint64_t all = k->states[i].classes;
            for (uint32_t e = 0; e < k->states[i].n_edges; e++)
                all |= k->states[k->edges[k->states[i].first_edge + e].target].classes;
            changed = changed || all != k->states[i].classes;
            k->states[i].classes = all;
        }
    }
    return true;
}

static void *keep(struct schema *s, const void *data, size_t n, size_t size) {
    void *copy = arena_calloc(&s->arena, n + 1, size);
    if (copy && n) memcpy(copy, data, n * size);
    return copy;
}

static bool finish(struct keys *k) {
    struct object_spec *o = k->spec;
    o->names = k->names;
    o->n_names = k->n_names;
    o->n_classes = k->n_classes;
    o->n_keys = (uint32_t)k->n_tuples;
    o->minimum = k->shape->min_properties;
    o->maximum = k->shape->max_properties;
    o->class_sets = keep(k->s, k->class_sets, k->n_classes, sizeof *k->class_sets);
    o->keys = keep(k->s, k->states, k->n_tuples, sizeof *k->states);
    o->edges = keep(k->s, k->edges, k->n_edges, sizeof *k->edges);
    k->s->steps += k->n_tuples;
    return (o->class_sets && o->keys && o->edges) || out_of_memory(k->s);
}

const struct object_spec *object_spec_make(struct schema *s, const struct shape *shape) {
    struct keys k = {.s = s, .shape = shape, .spec = arena_calloc(&s->arena, 1, sizeof *k.spec)};
    bool ok = k.spec || out_of_memory(s);
    for (uint32_t i = 0; ok && i < shape->n_rules; i++) ok = add_class_patterns(&k, &shape->rules[i].class);
    for (uint32_t i = 0; ok && i < shape->n_exists; i++) ok = add_class_patterns(&k, &shape->exists[i].class);
    ok =
        ok && collect_names(&k) && find_allowed(&k) && finish_names(&k) && build(&k) && finish_exists(&k) && finish(&k);
    map_free(&k.map);
    free(k.tuples);
    free(k.states);
    free(k.edges);
    free(k.cuts);
    return ok ? k.spec : NULL;
}
