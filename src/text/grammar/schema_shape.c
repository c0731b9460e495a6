/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes: conjunctions of elementary restrictions. Arrays inside a shape are shared between copies and never changed in
 * place: narrowing makes a new one in the arena. */
#include "text/grammar/schema.h"

#include <stdlib.h>
#include <string.h>

void shape_init(struct shape *shape) {
    memset(shape, 0, sizeof *shape);
    shape->types = TYPE_ALL;
    shape->max_length = shape->max_items = shape->max_properties = NO_LIMIT;
    shape->rest = shape->key_set = SET_ANY;
}

static bool out_of_memory(struct schema *s) { return error_memory(s->err, "JSON Schema"); }

static bool shape_too_complex(struct schema *s) {
    return error_set(s->err, ERROR_LIMIT, "JSON Schema: the schema's alternatives combine in too many ways");
}

static void drop(struct shape *shape, unsigned type) { shape->types &= ~type; }

/* A copy of an array with room for one more element; NULL when memory is out. */
static void *copy_array(struct schema *s, const void *old, size_t n, size_t size) {
    void *copy = arena_calloc(&s->arena, n + 1, size);
    if (!copy)
        out_of_memory(s);
    else if (n)
        memcpy(copy, old, n * size);
    return copy;
}

/* ---- numbers and strings ---- */

static void apply_bound(struct shape *shape, const struct atom *a) {
    struct number_set *n = &shape->number;
    bool is_minimum = a->kind == ATOM_MINIMUM, *has = is_minimum ? &n->has_minimum : &n->has_maximum;
    bool *excludes = is_minimum ? &n->excludes_minimum : &n->excludes_maximum;
    struct decimal *bound = is_minimum ? &n->minimum : &n->maximum;
    int c = *has ? decimal_compare(&a->number, bound) : 0;
    if (!*has || (is_minimum ? c > 0 : c < 0)) {
        *bound = a->number;
        *excludes = a->is_exclusive;
        *has = true;
    } else if (c == 0 && a->is_exclusive) {
        *excludes = true;
    }
}

static bool apply_step(struct schema *s, struct shape *shape, const struct atom *a) {
    struct number_set *n = &shape->number;
    for (uint32_t i = 0; i < n->n_steps; i++) {
        if (memcmp(&n->steps[i].step, &a->number, sizeof a->number) != 0) continue;
        if (n->steps[i].is_negated != a->is_negated) drop(shape, TYPE_NUMBER);
        return true;
    }
    if (n->n_steps == NUMBER_MAX_STEPS)
        return error_set(s->err, ERROR_UNSUPPORTED, "JSON Schema: over %d multipleOf conditions on one number",
                         NUMBER_MAX_STEPS);
    n->steps[n->n_steps].step = a->number;
    n->steps[n->n_steps++].is_negated = a->is_negated;
    return true;
}

static bool apply_number(struct schema *s, struct shape *shape, const struct atom *a) {
    struct number_set *n = &shape->number;
    if (a->kind == ATOM_NUMBERS) {
        shape->numbers = shape->numbers ? schema_combine(s, shape->numbers, a->automaton, AUTOMATON_AND) : a->automaton;
        if (!shape->numbers) return false;
        if (!shape->numbers->n_states) drop(shape, TYPE_NUMBER);
    } else if (a->kind == ATOM_STEP) {
        if (!apply_step(s, shape, a)) return false;
    } else if (a->kind == ATOM_KIND) {
        if (n->kind != NUMBER_ANY && n->kind != a->number_kind) drop(shape, TYPE_NUMBER);
        n->kind = a->number_kind;
    } else {
        apply_bound(shape, a);
    }
    if (number_set_is_empty(n)) drop(shape, TYPE_NUMBER);
    return true;
}

static bool apply_string(struct schema *s, struct shape *shape, const struct atom *a) {
    if (shape->string || a->operation == AUTOMATON_WITHOUT) {
        const struct automaton *old = shape->string;
        if (!old && !(old = schema_keep(s, automaton_any(&s->arena, s->err)))) return false;
        shape->string = schema_combine(s, old, a->automaton, a->operation);
    } else {
        shape->string = a->automaton;
    }
    if (!shape->string) return false;
    if (!shape->string->n_states) drop(shape, TYPE_STRING);
    return true;
}

/* Narrows [*minimum, *maximum]; false when nothing is left. */
static bool narrow(uint64_t *minimum, uint64_t *maximum, uint64_t low, uint64_t high) {
    if (low > *minimum) *minimum = low;
    if (high < *maximum) *maximum = high;
    return *minimum <= *maximum;
}

/* ---- arrays ---- */

enum { MAX_PREFIX = 100000 };

/* Gives the shape a prefix of its own of at least n items. */
static bool own_prefix(struct schema *s, struct shape *shape, uint32_t n) {
    if (n > MAX_PREFIX)
        return error_set(s->err, ERROR_LIMIT, "JSON Schema: over %d items with schemas of their own", MAX_PREFIX);
    uint32_t longer = n > shape->n_prefix ? n : shape->n_prefix;
    uint32_t *prefix = arena_calloc(&s->arena, (size_t)longer + 1, sizeof *prefix);
    if (!prefix) return out_of_memory(s);
    for (uint32_t i = 0; i < longer; i++) prefix[i] = i < shape->n_prefix ? shape->prefix[i] : shape->rest;
    shape->prefix = prefix;
    shape->n_prefix = longer;
    return true;
}

static bool apply_items_from(struct schema *s, struct shape *shape, uint32_t index, uint32_t literal) {
    if (literal == LITERAL_FALSE) {
        if (!narrow(&shape->min_items, &shape->max_items, 0, index)) drop(shape, TYPE_ARRAY);
        return true;
    }
    if (shape->n_prefix || index) {
        if (!own_prefix(s, shape, index)) return false;
        for (uint32_t i = index; i < shape->n_prefix; i++)
            if (!set_add(s, shape->prefix[i], literal, &shape->prefix[i])) return false;
    }
    return set_add(s, shape->rest, literal, &shape->rest);
}

static bool apply_item(struct schema *s, struct shape *shape, uint32_t index, uint32_t literal) {
    return own_prefix(s, shape, index + 1) && set_add(s, shape->prefix[index], literal, &shape->prefix[index]);
}

static bool apply_contains(struct schema *s, struct shape *shape, const struct atom *a) {
    for (uint32_t i = 0; i < shape->n_contains; i++) {
        struct contains *c = &shape->contains[i];
        if (c->literal != a->literal || c->from != a->index) continue;
        if (!narrow(&c->minimum, &c->maximum, a->low, a->high)) drop(shape, TYPE_ARRAY);
        return true;
    }
    if (a->low > a->high) drop(shape, TYPE_ARRAY);
    if (shape->n_contains == MAX_CONTAINS)
        return error_set(s->err, ERROR_UNSUPPORTED, "JSON Schema: over %d 'contains' conditions on one array",
                         MAX_CONTAINS);
    shape->contains[shape->n_contains++] = (struct contains){a->literal, a->index, a->low, a->high};
    return true;
}

static bool apply_array(struct schema *s, struct shape *shape, const struct atom *a) {
    switch (a->kind) {
    case ATOM_ITEM: return apply_item(s, shape, a->index, a->literal);
    case ATOM_ITEMS_FROM: return apply_items_from(s, shape, a->index, a->literal);
    case ATOM_CONTAINS: return apply_contains(s, shape, a);
    case ATOM_UNIQUE: shape->is_unique = true; return true;
    default:
        if (!narrow(&shape->min_items, &shape->max_items, a->low, a->high)) drop(shape, TYPE_ARRAY);
        return true;
    }
}

/* ---- objects ---- */

static int compare_keys(const char *a, uint32_t a_length, const char *b, uint32_t b_length) {
    uint32_t n = a_length < b_length ? a_length : b_length;
    int c = n ? memcmp(a, b, n) : 0;
    return c ? c : a_length < b_length ? -1 : a_length > b_length;
}

static int compare_conditions(const void *a, const void *b) {
    const struct name_condition *x = a, *y = b;
    int c = compare_keys(x->key, x->length, y->key, y->length);
    return c ? c : x->order < y->order ? -1 : x->order > y->order;
}

/* Whether keys of the class can be this name. */
static bool class_has(struct schema *s, const struct key_class *class, const struct name *name) {
    if (class->automaton) return automaton_matches(class->automaton, name->key, name->length);
    if (schema_has_key(s, class->names, name->key, name->length)) return false;
    for (uint32_t i = 0; json_is_object(class->patterns) && i < class->patterns->count; i++) {
        const struct automaton *a =
            schema_pattern(s, class->patterns->members[i].key, class->patterns->members[i].key_length);
        if (!a || automaton_matches(a, name->key, name->length)) return false;
    }
    return true;
}

/* A required name of which no value is left makes the object impossible. Looks at the rules too, which may forbid it. */
static void check_required(struct schema *s, struct shape *shape, const struct name *name) {
    if (!name->is_required) return;
    uint32_t set = name->set;
    for (uint32_t i = 0; i < shape->n_rules; i++)
        if (class_has(s, &shape->rules[i].class, name) && !set_add(s, set, shape->rules[i].literal, &set)) return;
    if (set_is_empty(s, set)) drop(shape, TYPE_OBJECT);
}

bool shape_add_names(struct schema *s, struct shape *shape, struct name_condition *conditions, uint32_t n) {
    if (!(shape->types & TYPE_OBJECT) || !n) return true;
    if ((s->steps += shape->n_names + n) > SCHEMA_MAX_STEPS) return shape_too_complex(s);
    for (uint32_t i = 0; i < n; i++) conditions[i].order = i;
    qsort(conditions, n, sizeof *conditions, compare_conditions);
    struct name *names = arena_calloc(&s->arena, (size_t)shape->n_names + n, sizeof *names);
    uint32_t *touched = arena_calloc(&s->arena, n, sizeof *touched);
    if (!names || !touched) return out_of_memory(s);
    uint32_t count = 0, n_touched = 0;
    for (uint32_t i = 0, j = 0; i < shape->n_names || j < n;) {
        int c = i == shape->n_names ? 1
                : j == n            ? -1
                                    : compare_keys(shape->names[i].key, shape->names[i].length, conditions[j].key,
                                                   conditions[j].length);
        if (c < 0) {
            names[count++] = shape->names[i++];
            continue;
        }
        struct name *name = &names[count];
        *name = c == 0 ? shape->names[i++]
                       : (struct name){.key = conditions[j].key, .length = conditions[j].length, .set = SET_ANY};
        for (; j < n && !compare_keys(name->key, name->length, conditions[j].key, conditions[j].length); j++) {
            if (!set_add(s, name->set, conditions[j].literal, &name->set)) return false;
            name->is_required = name->is_required || conditions[j].is_required;
        }
        touched[n_touched++] = count++;
    }
    shape->names = names;
    shape->n_names = count;
    for (uint32_t i = 0; i < n_touched && shape->types & TYPE_OBJECT; i++) check_required(s, shape, &names[touched[i]]);
    return !s->err->code;
}

static bool apply_property(struct schema *s, struct shape *shape, const struct atom *a) {
    struct name_condition condition = {.key = a->key,
                                       .length = a->key_length,
                                       .literal = a->kind == ATOM_PROPERTY ? a->literal : LITERAL_TRUE,
                                       .is_required = a->kind == ATOM_REQUIRE};
    return shape_add_names(s, shape, &condition, 1);
}

static bool same_class(const struct key_class *a, const struct key_class *b) {
    return a->automaton == b->automaton && a->names == b->names && a->patterns == b->patterns;
}

static bool apply_key_rule(struct schema *s, struct shape *shape, const struct atom *a) {
    for (uint32_t i = 0; i < shape->n_rules; i++)
        if (shape->rules[i].literal == a->literal && same_class(&shape->rules[i].class, &a->class)) return true;
    struct key_rule *rules = copy_array(s, shape->rules, shape->n_rules, sizeof *rules);
    if (!rules) return false;
    rules[shape->n_rules++] = (struct key_rule){a->class, a->literal};
    shape->rules = rules;
    for (uint32_t i = 0; i < shape->n_names && shape->types & TYPE_OBJECT; i++)
        if (shape->names[i].is_required) check_required(s, shape, &shape->names[i]);
    return !s->err->code;
}

/* A class of which the shape knows that no key of it can be there: every key of it is forbidden. */
static bool class_is_closed(struct schema *s, const struct shape *shape, const struct key_class *class) {
    for (uint32_t i = 0; i < shape->n_rules; i++) {
        const struct key_rule *r = &shape->rules[i];
        if (r->literal != LITERAL_FALSE || r->class.automaton || r->class.patterns) continue;
        /* Only the rule's names are allowed: do they all lie outside of the class? */
        const struct json *names = r->class.names;
        bool all = true;
        for (uint32_t k = 0; all && json_is_object(names) && k < names->count; k++) {
            struct name name = {.key = names->members[k].key, .length = names->members[k].key_length};
            all = !class_has(s, class, &name);
            for (uint32_t j = 0; !all && j < shape->n_names; j++)
                all = !compare_keys(shape->names[j].key, shape->names[j].length, name.key, name.length) &&
                      set_is_empty(s, shape->names[j].set);
        }
        if (all) return true;
    }
    return false;
}

static bool apply_exists(struct schema *s, struct shape *shape, const struct atom *a) {
    if (class_is_closed(s, shape, &a->class)) {
        drop(shape, TYPE_OBJECT);
        return !s->err->code;
    }
    for (uint32_t i = 0; i < shape->n_exists; i++)
        if (shape->exists[i].literal == a->literal && same_class(&shape->exists[i].class, &a->class)) return true;
    if (shape->n_exists == MAX_EXISTS)
        return error_set(s->err, ERROR_UNSUPPORTED, "JSON Schema: over %d conditions that some property must meet",
                         MAX_EXISTS);
    shape->exists[shape->n_exists++] = (struct key_rule){a->class, a->literal};
    return !s->err->code;
}

static bool apply_object(struct schema *s, struct shape *shape, const struct atom *a) {
    switch (a->kind) {
    case ATOM_PROPERTY:
    case ATOM_REQUIRE: return apply_property(s, shape, a);
    case ATOM_KEY_RULE: return apply_key_rule(s, shape, a);
    case ATOM_KEYS: return set_add(s, shape->key_set, a->literal, &shape->key_set);
    case ATOM_EXISTS: return apply_exists(s, shape, a);
    default:
        if (!narrow(&shape->min_properties, &shape->max_properties, a->low, a->high)) drop(shape, TYPE_OBJECT);
        return true;
    }
}

bool shape_apply(struct schema *s, struct shape *shape, const struct atom *a) {
    if (++s->steps > SCHEMA_MAX_STEPS) return shape_too_complex(s);
    if (a->kind <= ATOM_NUMBERS) return !(shape->types & TYPE_NUMBER) || apply_number(s, shape, a);
    if (a->kind == ATOM_STRING) return !(shape->types & TYPE_STRING) || apply_string(s, shape, a);
    if (a->kind == ATOM_LENGTH) {
        if (!narrow(&shape->min_length, &shape->max_length, a->low, a->high)) drop(shape, TYPE_STRING);
        return true;
    }
    if (a->kind <= ATOM_UNIQUE) return !(shape->types & TYPE_ARRAY) || apply_array(s, shape, a);
    return !(shape->types & TYPE_OBJECT) || apply_object(s, shape, a);
}

/* ---- equality ---- */

static bool same_sets(struct schema *s, const uint32_t *a, const uint32_t *b, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (!set_is_same(s, a[i], b[i])) return false;
    return true;
}

static bool same_arrays(struct schema *s, const struct shape *a, const struct shape *b) {
    return a->n_prefix == b->n_prefix && a->min_items == b->min_items && a->max_items == b->max_items &&
           a->is_unique == b->is_unique && a->n_contains == b->n_contains &&
           !memcmp(a->contains, b->contains, sizeof a->contains) && set_is_same(s, a->rest, b->rest) &&
           same_sets(s, a->prefix, b->prefix, a->n_prefix);
}

/* The names of b beyond those of a must say nothing that a's rules do not say already. */
static bool same_names(struct schema *s, const struct shape *a, const struct shape *b) {
    uint32_t i = 0;
    for (uint32_t j = 0; j < b->n_names; j++) {
        const struct name *y = &b->names[j];
        struct name x = {.set = SET_ANY};
        if (i < a->n_names && !compare_keys(a->names[i].key, a->names[i].length, y->key, y->length)) x = a->names[i++];
        if (x.is_required != y->is_required) return false;
        if (x.set == y->set) continue;
        uint32_t left = x.set, right = y->set;
        for (uint32_t r = 0; r < a->n_rules; r++) {
            if (!class_has(s, &a->rules[r].class, y)) continue;
            if (!set_add(s, left, a->rules[r].literal, &left) || !set_add(s, right, a->rules[r].literal, &right))
                return false;
        }
        if (!set_is_same(s, left, right)) return false;
    }
    return i == a->n_names;
}

static bool same_objects(struct schema *s, const struct shape *a, const struct shape *b) {
    return a->n_rules == b->n_rules && a->key_set == b->key_set && a->min_properties == b->min_properties &&
           a->max_properties == b->max_properties && a->n_exists == b->n_exists &&
           !memcmp(a->exists, b->exists, sizeof a->exists) && same_names(s, a, b);
}

bool shape_is_same(struct schema *s, const struct shape *a, const struct shape *b) {
    if (a->types != b->types) return false;
    if (a->types & TYPE_NUMBER && (a->numbers != b->numbers || memcmp(&a->number, &b->number, sizeof a->number) != 0))
        return false;
    if (a->types & TYPE_STRING &&
        (a->string != b->string || a->min_length != b->min_length || a->max_length != b->max_length))
        return false;
    if (a->types & TYPE_ARRAY && !same_arrays(s, a, b)) return false;
    return !(a->types & TYPE_OBJECT) || same_objects(s, a, b);
}
