/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays and objects. The properties of an object come in any order; an object state holds which names were there. Steps
 * that leave no way to a valid end are not offered: a name that is needed must still find room, a key must still be able to
 * become one that is allowed. */
#include "text/grammar/schema_nodes.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static bool out_of_memory(struct value_nodes *v) { return error_memory(v->err, "JSON Schema"); }

static bool is_productive(const struct value_nodes *v, uint32_t set) { return v->schema->sets[set].is_productive; }

/* ---- object states ---- */

static size_t seen_words(const struct object_spec *o) { return ((size_t)o->n_names + 63) / 64; }

static const struct object_spec *object_of(const struct value_nodes *v, const struct object_state *state) {
    return v->schema->specs[state->spec].object;
}

/* The state's number; state->seen need not outlive the call. */
static uint32_t intern_object(struct value_nodes *v, const struct object_state *state) {
    size_t words = seen_words(object_of(v, state)), n = 2 + words;
    uint64_t *key = arena_calloc(&v->arena, n, sizeof *key), found;
    if (!key) {
        out_of_memory(v);
        return UINT32_MAX;
    }
    key[0] = (uint64_t)state->spec << 32 | state->satisfied;
    key[1] = state->count;
    if (words) memcpy(key + 2, state->seen, words * sizeof *key);
    if (map_get(&v->object_map, (const char *)key, n * sizeof *key, &found)) return (uint32_t)found;
    uint32_t number = (uint32_t)v->n_objects;
    if (!array_reserve(&v->objects, &v->objects_capacity, v->n_objects + 1, sizeof *v->objects) ||
        !map_put(&v->object_map, (const char *)key, n * sizeof *key, number, NULL)) {
        out_of_memory(v);
        return UINT32_MAX;
    }
    v->objects[v->n_objects] = *state;
    v->objects[v->n_objects++].seen = key + 2;
    return number;
}

static uint32_t first_object(struct value_nodes *v, uint32_t spec) {
    struct object_state state = {.spec = spec};
    const struct object_spec *o = object_of(v, &state);
    state.n_required = o->n_required;
    state.seen = arena_calloc(&v->arena, seen_words(o) + 1, sizeof *state.seen);
    if (state.seen) return intern_object(v, &state);
    out_of_memory(v);
    return UINT32_MAX;
}

static bool has_seen(const struct object_state *state, uint32_t name) {
    return state->seen[name / 64] >> name % 64 & 1;
}

static uint64_t room(const struct object_spec *o, const struct object_state *state) {
    return o->maximum == NO_LIMIT ? NO_LIMIT : o->maximum - state->count;
}

/* Whether a property with the label may come next, the exists conditions aside. */
static bool label_is_open(const struct value_nodes *v, const struct object_spec *o, const struct object_state *state,
                          uint32_t label) {
    if (label >= o->n_names)
        return is_productive(v, o->class_sets[label - o->n_names]) && room(o, state) > state->n_required;
    const struct name *name = &o->names[label];
    if (has_seen(state, label) || !is_productive(v, name->set)) return false;
    return name->is_required ? room(o, state) > 0 : room(o, state) > state->n_required;
}

/* Whether the conditions that are not met yet can still be met. */
static bool exists_are_open(struct value_nodes *v, const struct object_spec *o, const struct object_state *state) {
    for (uint32_t e = 0; e < o->n_exists; e++) {
        if (state->satisfied >> e & 1) continue;
        bool found = false;
        for (uint32_t label = 0; !found && label < o->n_names + o->n_classes; label++) {
            uint32_t set;
            if (!o->exists[e].labels[label] || !label_is_open(v, o, state, label)) continue;
            found = label_set(v->schema, o, label, 1u << e, &set) && is_productive(v, set);
        }
        if (!found) return false;
    }
    return true;
}

static bool may_close(const struct object_spec *o, const struct object_state *state) {
    return !state->n_required && state->count >= o->minimum && state->satisfied == (1u << o->n_exists) - 1;
}

/* The state behind a property. */
static struct object_state behind(const struct object_spec *o, const struct object_state *state, uint32_t label,
                                  uint32_t counted, uint64_t *seen) {
    struct object_state next = *state;
    memcpy(seen, state->seen, seen_words(o) * sizeof *seen);
    next.seen = seen;
    if (label < o->n_names) {
        seen[label / 64] |= (uint64_t)1 << label % 64;
        next.n_required -= o->names[label].is_required;
    }
    uint64_t cap = o->maximum == NO_LIMIT ? o->minimum : o->maximum;
    if (next.count < cap) next.count++;
    next.satisfied |= counted;
    return next;
}

/* Tells whether the label can come next in any way; with `add`, adds an edge for the closing quote for each way. */
static bool try_label(struct value_nodes *v, uint32_t number, uint32_t label, bool add, bool *is_possible) {
    struct object_state state = v->objects[number];
    const struct object_spec *o = object_of(v, &state);
    *is_possible = false;
    if (!label_is_open(v, o, &state, label)) return true;
    if (!add && !o->n_exists) {
        *is_possible = true;
        return true;
    }
    uint64_t *seen = array_calloc(seen_words(o) + 1, sizeof *seen);
    if (!seen) return out_of_memory(v);
    bool ok = true;
    for (uint32_t counted = 0; ok && counted < 1u << o->n_exists; counted++) {
        uint32_t set;
        if (counted & state.satisfied) continue; /* met already: nothing to count */
        if (!label_set(v->schema, o, label, counted, &set) || !is_productive(v, set)) continue;
        struct object_state next = behind(o, &state, label, counted, seen);
        if (!exists_are_open(v, o, &next)) continue;
        *is_possible = true;
        if (!add) break;
        uint32_t object = intern_object(v, &next);
        ok = object != UINT32_MAX && node_edge(v, '"', '"', node_make(v, NODE_COLON, object, set, 0));
    }
    free(seen);
    return ok;
}

/* Whether a key in this state can become one that may come next. */
static bool key_is_alive(struct value_nodes *v, uint32_t number, const struct key_state *key, bool *is_alive) {
    const struct object_spec *o = object_of(v, &v->objects[number]);
    *is_alive = false;
    for (uint32_t i = 0; i < o->n_classes; i++)
        if (key->classes >> i & 1 && (!try_label(v, number, o->n_names + i, false, is_alive) || *is_alive))
            return !v->err->code;
    for (uint32_t i = key->first_name; i < key->end_name; i++)
        if (!try_label(v, number, i, false, is_alive) || *is_alive) return !v->err->code;
    return true;
}

bool key_code_edges(struct value_nodes *v, uint32_t node, struct automaton_edge **edges, size_t *n) {
    struct value_node at = v->nodes[node];
    const struct object_spec *o = object_of(v, &v->objects[at.a]);
    const struct key_state *key = &o->keys[at.b];
    *n = 0;
    if (!(*edges = array_alloc(key->n_edges, sizeof **edges))) return out_of_memory(v);
    for (uint32_t i = 0; i < key->n_edges; i++) {
        struct automaton_edge edge = o->edges[key->first_edge + i];
        bool is_alive;
        if (!key_is_alive(v, at.a, &o->keys[edge.target], &is_alive)) return false;
        if (!is_alive) continue;
        edge.target = node_make(v, NODE_KEY, at.a, edge.target, 0);
        if (edge.target == UINT32_MAX) return false;
        (*edges)[(*n)++] = edge;
    }
    return true;
}

bool key_close(struct value_nodes *v, uint32_t node) {
    const struct object_spec *o = object_of(v, &v->objects[v->nodes[node].a]);
    uint32_t label = o->keys[v->nodes[node].b].label;
    bool is_possible;
    return label == LABEL_NONE || try_label(v, v->nodes[node].a, label, true, &is_possible);
}

static bool any_key(struct value_nodes *v, uint32_t number, bool *is_alive) {
    const struct object_spec *o = object_of(v, &v->objects[number]);
    *is_alive = false;
    return !o->n_keys || key_is_alive(v, number, &o->keys[0], is_alive);
}

static bool expand_object(struct value_nodes *v, const struct value_node *at) {
    bool more, closes = may_close(object_of(v, &v->objects[at->a]), &v->objects[at->a]);
    if (!any_key(v, at->a, &more)) return false;
    switch (at->kind) {
    case NODE_OBJECT_FIRST:
        if (closes && !node_edge(v, '}', '}', node_make(v, NODE_END, 0, 0, 0))) return false;
        return !more || node_edge(v, '"', '"', node_make(v, NODE_KEY, at->a, 0, 0));
    case NODE_OBJECT_NEXT:
        if (closes && !node_jump(v, node_space(v, node_make(v, NODE_OBJECT_CLOSE, 0, 0, 0)))) return false;
        return !more || node_edge(v, ',', ',', node_space(v, node_make(v, NODE_OBJECT_KEY, at->a, 0, 0)));
    default: return node_edge(v, '"', '"', node_make(v, NODE_KEY, at->a, 0, 0));
    }
}

/* ---- array states ---- */

static uint32_t intern_array(struct value_nodes *v, const struct array_state *state) {
    uint64_t found;
    if (map_get(&v->array_map, (const char *)state, sizeof *state, &found)) return (uint32_t)found;
    char *key = arena_copy(&v->arena, (const char *)state, sizeof *state);
    uint32_t number = (uint32_t)v->n_arrays;
    if (!key || !array_reserve(&v->arrays, &v->arrays_capacity, v->n_arrays + 1, sizeof *v->arrays) ||
        !map_put(&v->array_map, key, sizeof *state, number, NULL)) {
        out_of_memory(v);
        return UINT32_MAX;
    }
    v->arrays[v->n_arrays++] = *state;
    return number;
}

/* From this index on all items are alike. */
static uint64_t last_index(const struct array_spec *a) {
    uint64_t last = a->n_prefix;
    for (uint32_t i = 0; i < a->n_contains; i++)
        if (a->contains[i].from > last) last = a->contains[i].from;
    return last;
}

static uint64_t cap_of(const struct contains *c) { return c->maximum == NO_LIMIT ? c->minimum : c->maximum; }

/* Whether an item may stand at the index, counting for the given contains conditions. */
static bool item_fits(struct value_nodes *v, const struct array_spec *a, const struct array_state *state,
                      uint64_t index, uint32_t counted, uint32_t *set) {
    if (index >= a->maximum || !item_set(v->schema, a, index, counted, set) || !is_productive(v, *set)) return false;
    for (uint32_t i = 0; i < a->n_contains; i++) {
        const struct contains *c = &a->contains[i];
        if (!(counted >> i & 1)) continue;
        if (c->maximum == NO_LIMIT ? state->counts[i] >= c->minimum : state->counts[i] >= c->maximum) return false;
    }
    return true;
}

static bool any_item_fits(struct value_nodes *v, const struct array_spec *a, const struct array_state *state,
                          uint64_t index, int condition) {
    for (uint32_t counted = 0; counted < 1u << a->n_contains; counted++) {
        uint32_t set;
        if (condition >= 0 && !(counted >> condition & 1)) continue;
        if (item_fits(v, a, state, index, counted, &set)) return true;
    }
    return false;
}

/* Whether the array can still be ended well. */
static bool array_is_open(struct value_nodes *v, const struct array_spec *a, const struct array_state *state) {
    uint64_t last = last_index(a), end = state->index;
    while (end <= last && any_item_fits(v, a, state, end, -1)) end++;
    if (end > last) end = any_item_fits(v, a, state, last, -1) ? a->maximum : last;
    if (end < state->index) end = state->index;
    if (end < a->minimum) return false;
    for (uint32_t i = 0; i < a->n_contains; i++) {
        uint64_t found = state->counts[i];
        for (uint64_t k = state->index; k < last && k < end && found < a->contains[i].minimum; k++)
            found += any_item_fits(v, a, state, k, (int)i);
        if (found < a->contains[i].minimum && end > last && any_item_fits(v, a, state, last, (int)i)) {
            uint64_t from = state->index > last ? state->index : last;
            found = end == NO_LIMIT ? NO_LIMIT : found + (end - from);
        }
        if (found < a->contains[i].minimum) return false;
    }
    return true;
}

static bool array_may_close(const struct array_spec *a, const struct array_state *state) {
    if (state->index < a->minimum) return false;
    for (uint32_t i = 0; i < a->n_contains; i++)
        if (state->counts[i] < a->contains[i].minimum) return false;
    return true;
}

/* Calls for each way the next item can be; *any tells whether there is one. */
static bool add_items(struct value_nodes *v, uint32_t number, bool add, bool *any) {
    struct array_state state = v->arrays[number];
    const struct array_spec *a = v->schema->specs[state.spec].array;
    uint64_t last = last_index(a), cap = last > a->minimum ? last : a->minimum;
    if (a->maximum != NO_LIMIT && a->maximum > cap) cap = a->maximum;
    *any = false;
    for (uint32_t counted = 0; counted < 1u << a->n_contains; counted++) {
        uint32_t set;
        struct array_state next = state;
        if (!item_fits(v, a, &state, state.index, counted, &set)) continue;
        if (next.index < cap) next.index++;
        for (uint32_t i = 0; i < a->n_contains; i++)
            if (counted >> i & 1 && next.counts[i] < cap_of(&a->contains[i])) next.counts[i]++;
        if (!array_is_open(v, a, &next)) continue;
        *any = true;
        if (!add) return true;
        uint32_t behind_item = intern_array(v, &next);
        if (behind_item == UINT32_MAX ||
            !node_call(v, node_make(v, NODE_SET, set, 0, 0), node_make(v, NODE_ARRAY_NEXT, behind_item, 0, 0)))
            return false;
    }
    return !v->err->code;
}

static bool expand_array(struct value_nodes *v, const struct value_node *at) {
    bool any, closes = array_may_close(v->schema->specs[v->arrays[at->a].spec].array, &v->arrays[at->a]);
    switch (at->kind) {
    case NODE_ARRAY_FIRST:
        if (closes && !node_edge(v, ']', ']', node_make(v, NODE_END, 0, 0, 0))) return false;
        return add_items(v, at->a, true, &any);
    case NODE_ARRAY_NEXT:
        if (closes && !node_jump(v, node_space(v, node_make(v, NODE_ARRAY_CLOSE, 0, 0, 0)))) return false;
        if (!add_items(v, at->a, false, &any)) return false;
        return !any || node_edge(v, ',', ',', node_space(v, node_make(v, NODE_ARRAY_ITEM, at->a, 0, 0)));
    default: return add_items(v, at->a, true, &any);
    }
}

bool expand_compound(struct value_nodes *v, uint32_t node) {
    struct value_node at = v->nodes[node];
    uint32_t number;
    switch (at.kind) {
    case NODE_OBJECT_OPEN:
        number = first_object(v, at.a);
        return number != UINT32_MAX &&
               node_edge(v, '{', '{', node_space(v, node_make(v, NODE_OBJECT_FIRST, number, 0, 0)));
    case NODE_ARRAY_OPEN:
        number = intern_array(v, &(struct array_state){.spec = at.a});
        return number != UINT32_MAX &&
               node_edge(v, '[', '[', node_space(v, node_make(v, NODE_ARRAY_FIRST, number, 0, 0)));
    case NODE_OBJECT_CLOSE: return node_edge(v, '}', '}', node_make(v, NODE_END, 0, 0, 0));
    case NODE_ARRAY_CLOSE: return node_edge(v, ']', ']', node_make(v, NODE_END, 0, 0, 0));
    case NODE_COLON:
        return node_edge(v, ':', ':', node_make(v, NODE_SPACE, node_make(v, NODE_VALUE, at.a, at.b, 0), 0, 1));
    case NODE_VALUE:
        return node_call(v, node_make(v, NODE_SET, at.b, 0, 0), node_make(v, NODE_OBJECT_NEXT, at.a, 0, 0));
    case NODE_ARRAY_FIRST:
    case NODE_ARRAY_NEXT:
    case NODE_ARRAY_ITEM: return expand_array(v, &at);
    default: return expand_object(v, &at);
    }
}
