/* SPDX-License-Identifier: Apache-2.0 */
/* Specs: the parts of shapes, one type each, interned; and which sets hold any value at all. */
#include "text/grammar/schema.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_KEPT_SHAPES = 200000 };

static bool out_of_memory(struct schema *s) { return error_memory(s->err, "JSON Schema"); }

/* ---- interning ---- */

static bool intern_spec(struct schema *s, const struct spec *spec, const struct buffer *key, uint32_t *number) {
    uint64_t found;
    if (key->failed) return out_of_memory(s);
    if (map_get(&s->spec_map, key->data, key->length, &found)) {
        *number = (uint32_t)found;
        return true;
    }
    char *copy = arena_copy(&s->arena, key->data, key->length);
    if (!copy || !array_reserve(&s->specs, &s->specs_capacity, s->n_specs + 1, sizeof *s->specs))
        return out_of_memory(s);
    *number = (uint32_t)s->n_specs;
    s->specs[s->n_specs++] = *spec;
    return map_put(&s->spec_map, copy, key->length, *number, NULL) || out_of_memory(s);
}

/* Keeps the list of a set sorted and free of repetitions. */
static bool add_to_set(struct schema *s, uint32_t set, uint32_t spec) {
    struct value_set *v = &s->sets[set];
    uint32_t at = 0;
    while (at < v->n_specs && v->specs[at] < spec) at++;
    if (at < v->n_specs && v->specs[at] == spec) return true;
    uint32_t *copy = realloc(v->specs, ((size_t)v->n_specs + 1) * sizeof *copy);
    if (!copy) return out_of_memory(s);
    memmove(copy + at + 1, copy + at, (v->n_specs - at) * sizeof *copy);
    copy[at] = spec;
    v->specs = copy;
    v->n_specs++;
    return true;
}

static bool add_spec(struct schema *s, uint32_t set, const struct spec *spec, struct buffer *key) {
    uint32_t number = 0;
    return intern_spec(s, spec, key, &number) && add_to_set(s, set, number);
}

static void put(struct buffer *key, uint64_t value) { buffer_append(key, &value, sizeof value); }

static void put_scalar(struct buffer *key, const struct spec *spec) {
    buffer_clear(key);
    put(key, spec->type);
    put(key, (uint64_t)(uintptr_t)spec->automaton);
    put(key, spec->minimum);
    put(key, spec->maximum);
}

static void put_array(struct buffer *key, const struct shape *shape) {
    buffer_clear(key);
    put(key, TYPE_ARRAY);
    for (uint32_t i = 0; i < shape->n_prefix; i++) put(key, shape->prefix[i]);
    put(key, NO_LIMIT);
    put(key, shape->rest);
    put(key, shape->min_items);
    put(key, shape->max_items);
    for (uint32_t i = 0; i < shape->n_contains; i++) {
        put(key, shape->contains[i].literal);
        put(key, shape->contains[i].from);
        put(key, shape->contains[i].minimum);
        put(key, shape->contains[i].maximum);
    }
}

static void put_rule(struct buffer *key, const struct key_rule *rule) {
    put(key, (uint64_t)(uintptr_t)rule->class.automaton);
    put(key, (uint64_t)(uintptr_t)rule->class.names);
    put(key, (uint64_t)(uintptr_t)rule->class.patterns);
    put(key, rule->literal);
}

static void put_object(struct buffer *key, const struct shape *shape) {
    buffer_clear(key);
    put(key, TYPE_OBJECT);
    for (uint32_t i = 0; i < shape->n_names; i++) {
        put(key, shape->names[i].length);
        buffer_append(key, shape->names[i].key, shape->names[i].length);
        put(key, (uint64_t)shape->names[i].set << 1 | shape->names[i].is_required);
    }
    put(key, NO_LIMIT);
    for (uint32_t i = 0; i < shape->n_rules; i++) put_rule(key, &shape->rules[i]);
    put(key, NO_LIMIT);
    for (uint32_t i = 0; i < shape->n_exists; i++) put_rule(key, &shape->exists[i]);
    put(key, shape->key_set);
    put(key, shape->min_properties);
    put(key, shape->max_properties);
}

/* ---- from shapes ---- */

static bool number_spec(struct schema *s, const struct shape *shape, struct spec *spec) {
    const struct number_set *set = &shape->number;
    bool is_plain = !set->has_minimum && !set->has_maximum && !set->n_steps && set->kind == NUMBER_ANY;
    spec->automaton = shape->numbers;
    if (is_plain && shape->numbers) return true;
    spec->automaton = schema_keep(s, number_automaton(&s->arena, set, s->err));
    if (spec->automaton && shape->numbers)
        spec->automaton = schema_combine(s, spec->automaton, shape->numbers, AUTOMATON_AND);
    if (spec->automaton) s->steps += spec->automaton->n_states;
    return spec->automaton != NULL;
}

/* Lengths of plain strings are counted; those of others become part of the automaton. */
static bool string_spec(struct schema *s, const struct shape *shape, struct spec *spec) {
    const struct automaton *a = shape->string;
    spec->minimum = shape->min_length;
    spec->maximum = shape->max_length;
    if (!a || automaton_is_any(a)) return true;
    if (shape->min_length || shape->max_length != NO_LIMIT) {
        uint64_t most = shape->max_length == NO_LIMIT ? shape->min_length : shape->max_length;
        if (most >= AUTOMATON_MAX_STATES)
            return error_set(s->err, ERROR_LIMIT, "JSON Schema: minLength or maxLength beside a pattern is over %d",
                             AUTOMATON_MAX_STATES);
        uint32_t high = shape->max_length == NO_LIMIT ? PATTERN_NO_LIMIT : (uint32_t)shape->max_length;
        const struct automaton *length =
            schema_keep(s, automaton_length(&s->arena, (uint32_t)shape->min_length, high, s->err));
        if (!length || !(a = schema_combine(s, a, length, AUTOMATON_AND))) return false;
    }
    spec->automaton = a;
    spec->minimum = 0;
    spec->maximum = NO_LIMIT;
    return true;
}

static bool compound_spec(struct schema *s, const struct shape *shape, struct spec *spec) {
    struct shape *copy = arena_calloc(&s->arena, 1, sizeof *copy);
    if (!copy) return out_of_memory(s);
    *copy = *shape;
    spec->shape = copy;
    return true;
}

bool specs_of_shape(struct schema *s, const struct shape *shape, uint32_t set) {
    struct buffer key = {0};
    bool ok = true;
    if ((s->steps += 20) > SCHEMA_MAX_STEPS)
        return error_set(s->err, ERROR_LIMIT, "JSON Schema: the schema's alternatives combine in too many ways");
    for (unsigned type = TYPE_NULL; ok && type <= TYPE_OBJECT; type *= 2) {
        struct spec spec = {.type = type};
        if (!(shape->types & type)) continue;
        if (type == TYPE_NUMBER) ok = number_spec(s, shape, &spec);
        if (type == TYPE_STRING) ok = string_spec(s, shape, &spec);
        if (!ok) break;
        if (spec.automaton && !spec.automaton->n_states) continue;
        if (type < TYPE_ARRAY) {
            put_scalar(&key, &spec);
        } else {
            if (type == TYPE_ARRAY)
                put_array(&key, shape);
            else
                put_object(&key, shape);
            if (type == TYPE_ARRAY && shape->is_unique && shape->max_items > 1)
                ok = error_set(s->err, ERROR_UNSUPPORTED, "JSON Schema: 'uniqueItems' is not supported");
            ok = ok && compound_spec(s, shape, &spec);
        }
        ok = ok && add_spec(s, set, &spec, &key);
    }
    buffer_free(&key);
    return ok;
}

/* One spec in the place of several of a type. */
bool specs_join(struct schema *s, uint32_t set) {
    for (unsigned type = TYPE_NUMBER; type <= TYPE_STRING; type *= 2) {
        const struct automaton *all = NULL;
        uint32_t n = 0, kept = 0;
        for (uint32_t i = 0; i < s->sets[set].n_specs; i++) {
            const struct spec *spec = &s->specs[s->sets[set].specs[i]];
            if (spec->type == type && spec->automaton) n++;
        }
        if (n < 2) continue;
        for (uint32_t i = 0; i < s->sets[set].n_specs; i++) {
            uint32_t number = s->sets[set].specs[i];
            const struct spec *spec = &s->specs[number];
            if (spec->type == type && spec->automaton) {
                all = all ? schema_combine(s, all, spec->automaton, AUTOMATON_OR) : spec->automaton;
                if (!all) return false;
            } else {
                s->sets[set].specs[kept++] = number;
            }
        }
        s->sets[set].n_specs = kept;
        struct spec joined = {.type = type, .automaton = all, .maximum = type == TYPE_STRING ? NO_LIMIT : 0};
        if (type == TYPE_STRING && automaton_is_any(all)) joined.automaton = NULL;
        struct buffer key = {0};
        put_scalar(&key, &joined);
        bool ok = add_spec(s, set, &joined, &key);
        buffer_free(&key);
        if (!ok) return false;
    }
    return true;
}

bool set_strings(struct schema *s, uint32_t set, const struct automaton **strings) {
    *strings = schema_keep(s, arena_calloc(&s->arena, 1, sizeof **strings));
    if (!*strings || !set_expand(s, set)) return false;
    for (uint32_t i = 0; i < s->sets[set].n_specs; i++) {
        const struct spec *spec = &s->specs[s->sets[set].specs[i]];
        const struct automaton *a = spec->automaton;
        if (spec->type != TYPE_STRING) continue;
        if (!a) {
            uint64_t high = spec->maximum == NO_LIMIT ? PATTERN_NO_LIMIT : spec->maximum;
            if (spec->minimum >= AUTOMATON_MAX_STATES || (high >= AUTOMATON_MAX_STATES && high != PATTERN_NO_LIMIT))
                return error_set(s->err, ERROR_LIMIT, "JSON Schema: 'propertyNames' allows too long names");
            a = schema_keep(s, automaton_length(&s->arena, (uint32_t)spec->minimum, (uint32_t)high, s->err));
        }
        if (!a || !(*strings = schema_combine(s, *strings, a, AUTOMATON_OR))) return false;
    }
    return true;
}

/* ---- items and labels ---- */

bool item_set(struct schema *s, const struct array_spec *a, uint64_t index, uint32_t counted, uint32_t *set) {
    *set = index < a->n_prefix ? a->prefix[index] : a->rest;
    for (uint32_t i = 0; i < a->n_contains; i++) {
        const struct contains *c = &a->contains[i];
        bool counts = counted >> i & 1;
        if (index < c->from) {
            if (counts) *set = SET_NEVER;
        } else if (counts || c->maximum != NO_LIMIT) {
            if (!set_add(s, *set, counts ? c->literal : c->literal ^ 1, set)) return false;
        }
    }
    return true;
}

bool label_set(struct schema *s, const struct object_spec *o, uint32_t label, uint32_t counted, uint32_t *set) {
    *set = label < o->n_names ? o->names[label].set : o->class_sets[label - o->n_names];
    for (uint32_t i = 0; i < o->n_exists; i++) {
        if (!(counted >> i & 1)) continue;
        if (!o->exists[i].labels[label])
            *set = SET_NEVER;
        else if (!set_add(s, *set, o->exists[i].literal, set))
            return false;
    }
    return true;
}

/* ---- productive sets ---- */

static bool make_array(struct schema *s, uint32_t number) {
    struct array_spec *a = arena_calloc(&s->arena, 1, sizeof *a);
    const struct shape *shape = s->specs[number].shape;
    if (!a) return out_of_memory(s);
    *a = (struct array_spec){.prefix = shape->prefix,
                             .n_prefix = shape->n_prefix,
                             .rest = shape->rest,
                             .minimum = shape->min_items,
                             .maximum = shape->max_items,
                             .n_contains = shape->n_contains};
    memcpy(a->contains, shape->contains, sizeof a->contains);
    s->specs[number].array = a;
    return true;
}

struct queue {
    uint32_t *sets;
    size_t n, capacity;
    uint8_t *seen; /* by set */
    size_t seen_capacity;
};

static bool enqueue(struct schema *s, struct queue *q, uint32_t set) {
    size_t old = q->seen_capacity;
    if (!array_reserve(&q->seen, &q->seen_capacity, (size_t)set + 1, 1)) return out_of_memory(s);
    if (q->seen_capacity > old) memset(q->seen + old, 0, q->seen_capacity - old);
    if (q->seen[set]) return true;
    q->seen[set] = 1;
    if (!array_reserve(&q->sets, &q->capacity, q->n + 1, sizeof *q->sets)) return out_of_memory(s);
    q->sets[q->n++] = set;
    return true;
}

static bool enqueue_array(struct schema *s, struct queue *q, const struct array_spec *a) {
    /* Beyond the prefix and the latest start of a contains all items are alike. */
    uint64_t last = a->n_prefix;
    for (uint32_t i = 0; i < a->n_contains; i++)
        if (a->contains[i].from > last) last = a->contains[i].from;
    for (uint64_t i = 0; i <= last; i++) {
        for (uint32_t counted = 0; counted < 1u << a->n_contains; counted++) {
            uint32_t set;
            if (!item_set(s, a, i, counted, &set) || !enqueue(s, q, set)) return false;
        }
    }
    return true;
}

static bool enqueue_object(struct schema *s, struct queue *q, const struct object_spec *o) {
    for (uint32_t label = 0; label < o->n_names + o->n_classes; label++) {
        for (uint32_t counted = 0; counted < 1u << o->n_exists; counted++) {
            uint32_t set;
            if (!label_set(s, o, label, counted, &set) || !enqueue(s, q, set)) return false;
        }
    }
    return true;
}

static bool visit_set(struct schema *s, struct queue *q, uint32_t set) {
    if (!set_expand(s, set)) return false;
    for (uint32_t i = 0; i < s->sets[set].n_specs; i++) {
        uint32_t number = s->sets[set].specs[i];
        struct spec *spec = &s->specs[number];
        if (spec->type == TYPE_ARRAY && !spec->array &&
            (!make_array(s, number) || !enqueue_array(s, q, s->specs[number].array)))
            return false;
        if (spec->type != TYPE_OBJECT || spec->object) continue;
        const struct object_spec *o = object_spec_make(s, spec->shape);
        if (!o) return false;
        s->specs[number].object = o;
        if (!enqueue_object(s, q, o)) return false;
    }
    return true;
}

static bool is_productive(const struct schema *s, uint32_t set) { return s->sets[set].is_productive; }

/* Whether some item at the index may be there (and count for contains condition c, if c >= 0). */
static bool item_is_productive(struct schema *s, const struct array_spec *a, uint64_t index, int c) {
    for (uint32_t counted = 0; counted < 1u << a->n_contains; counted++) {
        uint32_t set;
        if (c >= 0 && !(counted >> c & 1)) continue;
        if (item_set(s, a, index, counted, &set) && is_productive(s, set)) return true;
    }
    return false;
}

static bool array_is_productive(struct schema *s, const struct array_spec *a) {
    uint64_t most = 0, last = a->n_prefix;
    for (uint32_t i = 0; i < a->n_contains; i++)
        if (a->contains[i].from > last) last = a->contains[i].from;
    while (most <= last && item_is_productive(s, a, most, -1)) most++;
    if (most > last) most = NO_LIMIT;
    if (a->maximum < most) most = a->maximum;
    if (most < a->minimum) return false;
    for (uint32_t i = 0; i < a->n_contains; i++) {
        uint64_t found = 0;
        for (uint64_t k = 0; k <= last && k < most; k++)
            if (item_is_productive(s, a, k, (int)i)) found += k == last ? most - last : 1;
        if (found < a->contains[i].minimum) return false;
    }
    return true;
}

static bool object_is_productive(struct schema *s, const struct object_spec *o) {
    uint64_t names = 0, required = 0;
    bool has_class = false;
    for (uint32_t i = 0; i < o->n_names; i++) {
        names += is_productive(s, o->names[i].set);
        required += o->names[i].is_required;
        if (o->names[i].is_required && !is_productive(s, o->names[i].set)) return false;
    }
    for (uint32_t i = 0; i < o->n_classes; i++) has_class = has_class || is_productive(s, o->class_sets[i]);
    if (required > o->maximum || (!has_class && names < o->minimum)) return false;
    for (uint32_t e = 0; e < o->n_exists; e++) {
        bool found = false;
        for (uint32_t label = 0; !found && label < o->n_names + o->n_classes; label++) {
            uint32_t set;
            found = o->exists[e].labels[label] && label_set(s, o, label, 1u << e, &set) && is_productive(s, set);
        }
        if (!found || !o->maximum) return false;
    }
    return true;
}

static bool string_is_productive(const struct spec *spec) { return spec->automaton || spec->minimum <= spec->maximum; }

static bool spec_is_productive(struct schema *s, const struct spec *spec) {
    switch (spec->type) {
    case TYPE_STRING: return string_is_productive(spec);
    case TYPE_ARRAY: return array_is_productive(s, spec->array);
    case TYPE_OBJECT: return object_is_productive(s, spec->object);
    default: return true;
    }
}

bool specs_find_productive(struct schema *s) {
    struct queue q = {0};
    bool ok = enqueue(s, &q, s->root_set);
    for (size_t i = 0; ok && i < q.n; i++) ok = visit_set(s, &q, q.sets[i]);
    size_t work = 0;
    for (bool changed = true; ok && changed;) {
        changed = false;
        for (size_t i = q.n; ok && i-- > 0;) {
            struct value_set *v = &s->sets[q.sets[i]];
            for (uint32_t k = 0; !v->is_productive && k < v->n_specs; k++) {
                const struct spec *spec = &s->specs[v->specs[k]];
                bool is_alive = spec_is_productive(s, spec);
                v = &s->sets[q.sets[i]];
                v->is_productive = is_alive;
                changed = changed || is_alive;
                work += 1 + (spec->object ? spec->object->n_names + spec->object->n_classes : 0) +
                        (spec->array ? spec->array->n_prefix : 0);
            }
            if (work > 100000000) ok = error_set(s->err, ERROR_LIMIT, "JSON Schema: the schema is too complex");
        }
    }
    free(q.sets);
    free(q.seen);
    return ok && !s->err->code;
}
