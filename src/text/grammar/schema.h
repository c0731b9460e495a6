/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Schema as sets of JSON values.
 *
 *     entry      one place of the schema document (or a constant), found by its number
 *     literal    "the value satisfies the entry" (2 * entry) or "it does not" (2 * entry + 1)
 *     set        a conjunction of literals, interned; the values that satisfy all of them. Set 0 is every value.
 *     shape      one conjunction of restrictions for each type: numbers in a range, strings of an automaton, ...
 *     spec       the values of one type in a shape, ready to be recognised
 *
 * A set is expanded into shapes by taking its literals apart: conjunctions narrow the shape, disjunctions (anyOf, oneOf,
 * if, the negation of a keyword) make copies of it. The shapes' parts become the set's specs. Items and properties are
 * sets again, so recursive schemas need no special care. */
#ifndef MLXCEL_TEXT_GRAMMAR_SCHEMA_H
#define MLXCEL_TEXT_GRAMMAR_SCHEMA_H

#include "text/grammar/automaton.h"
#include "text/grammar/decimal.h"

#include "base/arena.h"
#include "base/json.h"
#include "base/map.h"

#define NO_LIMIT UINT64_MAX

enum value_type {
    TYPE_NULL = 1,
    TYPE_FALSE = 2,
    TYPE_TRUE = 4,
    TYPE_NUMBER = 8,
    TYPE_STRING = 16,
    TYPE_ARRAY = 32,
    TYPE_OBJECT = 64,
    TYPE_ALL = 127,
};

enum { SCHEMA_MAX_STEPS = 4000000 };
enum {
    SET_ANY = 0,
    SET_NEVER = 1,
    SET_NONE = UINT32_MAX,
    LITERAL_TRUE = 0,
    LITERAL_FALSE = 1,
    MAX_CONTAINS = 4,
    MAX_EXISTS = 4
};

struct schema_entry {
    const struct json *json;
    const struct json *root; /* of the resource that it belongs to */
    const char *base;        /* that resource's URI, without fragment */
    bool is_constant;        /* json is a value to be equal to, not a schema */
};

/* ---- shapes ---- */

struct contains {
    uint32_t literal;
    uint32_t from; /* items with a lower index do not count */
    uint64_t minimum, maximum;
};

struct name {
    const char *key;
    uint32_t length;
    uint32_t set; /* the property's value */
    bool is_required;
};

/* Which keys a rule is about: those that match an automaton, or those that an object's "properties" and
 * "patternProperties" say nothing about. */
struct key_class {
    const struct automaton *automaton; /* NULL: the others of the two below */
    const struct json *names;          /* an object or NULL */
    const struct json *patterns;       /* an object or NULL */
};

struct key_rule {
    struct key_class class;
    uint32_t literal; /* of the values of these keys */
};

struct shape {
    unsigned types;
    struct number_set number;
    const struct automaton *numbers; /* NULL = any */
    const struct automaton *string;  /* NULL = any */
    uint64_t min_length, max_length;
    /* arrays */
    uint32_t *prefix; /* [n_prefix] sets */
    uint32_t n_prefix, rest;
    uint64_t min_items, max_items;
    struct contains contains[MAX_CONTAINS];
    uint32_t n_contains;
    bool is_unique;
    /* objects */
    struct name *names; /* sorted by key */
    struct key_rule *rules;
    uint32_t n_names, n_rules;
    uint32_t key_set; /* what every key satisfies, as a string */
    uint64_t min_properties, max_properties;
    struct key_rule exists[MAX_EXISTS]; /* a key of the class whose value satisfies the literal */
    uint32_t n_exists;
};

/* ---- specs ---- */

enum { LABEL_NONE = UINT32_MAX };

/* Keys of an object: an automaton whose ends carry labels. Labels below n_names are names, the others classes of keys. */
struct key_state {
    uint32_t first_edge, n_edges;
    uint32_t label;
    uint32_t first_name, end_name; /* names that can still be reached */
    uint64_t classes;              /* classes that can still be reached, bit i = label n_names + i */
};

struct object_spec {
    uint32_t n_names, n_classes, n_required;
    const struct name *names;   /* sorted; is_required first is not implied */
    const uint32_t *class_sets; /* [n_classes] sets of the values */
    const struct key_state *keys;
    const struct automaton_edge *edges;
    uint32_t n_keys;
    uint64_t minimum, maximum;
    uint32_t n_exists;
    struct {
        uint32_t literal;
        const uint8_t *labels; /* [n_names + n_classes] which ones count */
    } exists[MAX_EXISTS];
};

struct array_spec {
    const uint32_t *prefix;
    uint32_t n_prefix, rest;
    uint64_t minimum, maximum;
    uint32_t n_contains;
    struct contains contains[MAX_CONTAINS];
};

struct spec {
    enum value_type type;
    const struct automaton *automaton; /* numbers, strings (NULL = any string) */
    uint64_t minimum, maximum;         /* code points of a string, where automaton is NULL */
    const struct object_spec *object;
    const struct array_spec *array;
    const struct shape *shape; /* of an array or object, from which the two above are made once they are needed */
};

struct value_set {
    const uint32_t *literals; /* sorted */
    uint32_t n_literals;
    uint8_t state;      /* SET_... */
    bool is_productive; /* some value satisfies it */
    uint32_t *specs;
    uint32_t n_specs;
};
enum { SET_NEW, SET_EXPANDING, SET_EXPANDED };

struct schema {
    struct arena arena;
    struct mx_error *err; /* while the schema is compiled */
    int draft;            /* 4, 6, 7, 2019 or 2020 */
    bool asserts_formats;
    bool ignores_newer_keywords; /* "$schema" names draft 7 or older */
    struct schema_entry *entries;
    size_t n_entries, entries_capacity;
    struct map entry_map, constant_map; /* by address of the JSON value */
    struct map resources;               /* URI to JSON value */
    struct map anchors;                 /* URI#anchor to JSON value */
    struct map dynamic_anchors;         /* name to how many there are */
    struct value_set *sets;
    size_t n_sets, sets_capacity;
    struct map set_map;
    struct spec *specs;
    size_t n_specs, specs_capacity;
    struct map spec_map;
    struct map automaton_map; /* content to automaton, and pattern text to automaton */
    struct map pattern_map;
    struct map combine_map;
    struct map format_map;
    struct map key_maps; /* large objects of the document to maps of their keys */
    struct map **key_map_list;
    size_t n_key_maps, key_maps_capacity;
    uint32_t root_set;
    size_t steps; /* work done, bounded */
    uint32_t depth;
};

/* ---- loading: schema_load.c ---- */

/* Indexes the document. */
bool schema_load(struct schema *s, const struct json *document);
/* The entry of a subschema (an object or boolean) that belongs to the resource of `parent`. False with the error set. */
bool schema_entry_of(struct schema *s, const struct json *json, uint32_t parent, uint32_t *entry);
bool schema_constant(struct schema *s, const struct json *value, uint32_t *entry);
/* Whether an object (NULL: none) has the key. */
bool schema_has_key(struct schema *s, const struct json *object, const char *key, uint32_t length);
/* What "$ref" of an entry points to. */
bool schema_resolve(struct schema *s, uint32_t from, const struct json *ref, uint32_t *entry);
bool schema_resolve_dynamic(struct schema *s, uint32_t from, const struct json *ref, uint32_t *entry);

/* ---- sets: schema_sets.c ---- */

/* The set with one literal more. False with the error set (too many sets, memory). */
bool set_add(struct schema *s, uint32_t set, uint32_t literal, uint32_t *result);
/* Expands a set into specs (once). */
bool set_expand(struct schema *s, uint32_t set);
/* All strings of a set as one automaton. */
bool set_strings(struct schema *s, uint32_t set, const struct automaton **strings);
/* Known to be empty without looking deeper than a few levels. */
bool set_is_empty(struct schema *s, uint32_t set);
/* Known to hold the same values. */
bool set_is_same(struct schema *s, uint32_t a, uint32_t b);

/* ---- automata, kept once: schema_sets.c ---- */

const struct automaton *schema_keep(struct schema *s, const struct automaton *a);
const struct automaton *schema_combine(struct schema *s, const struct automaton *a, const struct automaton *b,
                                       enum automaton_operation operation);
/* Texts in which the regular expression is found. */
const struct automaton *schema_pattern(struct schema *s, const char *text, size_t length);
const struct automaton *schema_text(struct schema *s, const struct json *string);
/* Texts of a format, NULL without an error when the format is not known (or not checked). */
const struct automaton *schema_format(struct schema *s, const struct json *name);

/* ---- shapes: schema_shape.c ---- */

enum atom_kind {
    ATOM_MINIMUM, /* number */
    ATOM_MAXIMUM,
    ATOM_KIND,
    ATOM_STEP,
    ATOM_NUMBERS,    /* automaton */
    ATOM_STRING,     /* automaton, operation */
    ATOM_LENGTH,     /* low, high */
    ATOM_ITEM,       /* index, literal */
    ATOM_ITEMS_FROM, /* index, literal */
    ATOM_ITEM_COUNT, /* low, high */
    ATOM_CONTAINS,   /* literal, index, low, high */
    ATOM_UNIQUE,
    ATOM_PROPERTY,       /* key, literal: if it is there */
    ATOM_REQUIRE,        /* key */
    ATOM_KEY_RULE,       /* class, literal */
    ATOM_KEYS,           /* literal */
    ATOM_PROPERTY_COUNT, /* low, high */
    ATOM_EXISTS,         /* class, literal */
};

/* One elementary restriction of one type; the other types are not concerned. */
struct atom {
    enum atom_kind kind;
    struct decimal number;
    bool is_exclusive, is_negated;
    uint8_t number_kind;
    const struct automaton *automaton;
    enum automaton_operation operation;
    uint64_t low, high;
    uint32_t index, literal;
    const char *key;
    uint32_t key_length;
    struct key_class class;
};

/* What several properties must satisfy. */
struct name_condition {
    const char *key;
    uint32_t length, literal, order;
    bool is_required;
};

void shape_init(struct shape *shape);
/* Sorts the conditions, and narrows the shape by all of them. */
bool shape_add_names(struct schema *s, struct shape *shape, struct name_condition *conditions, uint32_t n);
/* Narrows the shape; types of which nothing is left are taken out of shape->types. False with the error set. */
bool shape_apply(struct schema *s, struct shape *shape, const struct atom *atom);
/* Known to hold the same values. */
bool shape_is_same(struct schema *s, const struct shape *a, const struct shape *b);

/* ---- keywords: schema_keywords.c, schema_negate.c ---- */

struct option {
    unsigned types; /* others are excluded */
    struct atom atoms[2];
    uint32_t n_atoms;
    uint32_t *literals;
    uint32_t n_literals;
};

/* One of the options holds. */
struct choice_point {
    struct choice_point *next;
    struct option *options;
    uint32_t n_options, capacity;
    const char *keyword; /* for messages */
};

/* What is being expanded: a shape, literals that are not looked at yet, choices that are open. */
struct expansion {
    struct shape shape;
    uint32_t *todo;
    uint32_t n_todo, todo_capacity;
    uint32_t *done;
    uint32_t n_done, done_capacity;
    struct choice_point *choices;
    struct pending *pending; /* entries with unevaluated..., for the end */
};

struct pending {
    struct pending *next;
    uint32_t entry;
};

bool expansion_todo(struct schema *s, struct expansion *x, uint32_t literal);
struct choice_point *expansion_choice(struct schema *s, struct expansion *x, const char *keyword);
/* A zeroed option with all types, to be filled in. */
struct option *choice_option(struct schema *s, struct choice_point *choice);
bool option_literal(struct schema *s, struct option *option, uint32_t literal);

bool keywords_assert(struct schema *s, struct expansion *x, uint32_t entry);
bool keywords_deny(struct schema *s, struct expansion *x, uint32_t entry);
/* Helpers that both use. */
unsigned keyword_types(const struct json *type, bool *has_integer);
struct key_class keyword_others(const struct json *schema);
bool keyword_count(struct schema *s, const struct json *value, const char *keyword, uint64_t *count);
bool keyword_limit(struct schema *s, const struct json *schema, const char *keyword, struct atom *atom, bool *found);
bool keyword_literal(struct schema *s, const struct json *json, uint32_t parent, uint32_t *literal);
bool constant_assert(struct schema *s, struct expansion *x, const struct json *value);
bool constant_deny(struct schema *s, struct expansion *x, const struct json *value);

/* ---- unevaluatedProperties and unevaluatedItems: schema_unevaluated.c ---- */

bool schema_has_unevaluated(const struct json *schema);
/* Sees to it that it is decided which subschemas hold; then, when they are, restricts the rest. */
bool unevaluated_prepare(struct schema *s, struct expansion *x, uint32_t entry);
bool unevaluated_finish(struct schema *s, struct expansion *x);

/* ---- specs: schema_specs.c ---- */

bool specs_of_shape(struct schema *s, const struct shape *shape, uint32_t set);
/* Joins the strings and the numbers of a set whose shapes are all there. */
bool specs_join(struct schema *s, uint32_t set);
const struct object_spec *object_spec_make(struct schema *s, const struct shape *shape);
/* Expands everything that the root refers to and finds out which sets hold any value. */
bool specs_find_productive(struct schema *s);
/* The set of the item at an index, or of a label's value, for which the bits of `counted` say which of the contains (exists)
 * conditions it satisfies. */
bool item_set(struct schema *s, const struct array_spec *a, uint64_t index, uint32_t counted, uint32_t *set);
bool label_set(struct schema *s, const struct object_spec *o, uint32_t label, uint32_t counted, uint32_t *set);

#endif
