/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a template, shaped after Python's.
 *
 *   struct jv   16 bytes: a type and either the value itself (bool, int, float) or a pointer to an object
 *
 * Objects lie in the arena of a rendering (or of the template: constants) and are never freed one by one. Strings,
 * lists, tuples and dicts do not change once they are made, except that a dict under construction, and the one inside
 * a namespace, may grow. Strings and lists share storage with those that were made by appending to them, so that
 * building a long one piece by piece costs time and memory in proportion to its length. */
#ifndef MLXCEL_TEXT_JINJA_VALUE_H
#define MLXCEL_TEXT_JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum jv_type {
    JV_MISSING, /* no value: an unset slot, an argument that was not given */
    JV_UNDEFINED,
    JV_NONE,
    JV_BOOL,
    JV_INT, /* fits 64 bits */
    JV_BIG, /* does not fit 64 bits */
    JV_FLOAT,
    JV_STRING,
    JV_BYTES,
    JV_LIST,
    JV_TUPLE,
    JV_DICT,
    JV_VIEW, /* d.keys(), d.values(), d.items() */
    JV_RANGE,
    JV_SLICE,
    JV_ITERATOR, /* generators and other one-way iterators */
    JV_NAMESPACE,
    JV_MACRO,
    JV_LOOP,
    JV_METHOD,   /* a builtin method with its receiver */
    JV_FUNCTION, /* a global function */
    JV_CYCLER,
    JV_JOINER,
    JV_SELF,  /* the template's `self` */
    JV_BLOCK, /* self.name */
    N_JV_TYPES,
};

enum jinja_view_kind { JINJA_KEYS, JINJA_VALUES, JINJA_ITEMS };

struct jinja_big;
struct jinja_iterator;
struct jinja_macro;
struct jinja_loop;
struct jinja_builtin;
struct jinja_block;

struct jv {
    uint8_t type;
    bool is_markup; /* JV_STRING: safe in HTML; JV_TUPLE: made by groupby */
    union {
        bool truth;
        int64_t integer;
        double real;
        struct jinja_text *text; /* JV_STRING, JV_BYTES */
        struct jinja_list *list; /* JV_LIST, JV_TUPLE */
        struct jinja_dict *dict; /* JV_DICT, JV_NAMESPACE */
        struct jinja_view *view;
        struct jinja_range *range;
        struct jinja_slice *slice;
        struct jinja_undefined *undefined;
        struct jinja_method *method;
        struct jinja_cycler *cycler; /* also JV_JOINER */
        const struct jinja_big *big;
        struct jinja_iterator *iterator;
        struct jinja_macro *macro;
        struct jinja_loop *loop;
        const struct jinja_builtin *function;
        const struct jinja_block *block;
        const void *object;
    };
};

/* Storage that a string may share with longer ones; `used` is the end of the longest. */
struct jinja_tail {
    size_t used, capacity;
};

struct jinja_text {
    const char *data; /* UTF-8; any bytes for JV_BYTES */
    size_t length;
    size_t n_chars; /* code points; JINJA_UNCOUNTED until asked for */
    uint64_t hash;  /* 0 until asked for */
    struct jinja_tail *tail;
};
#define JINJA_UNCOUNTED SIZE_MAX

struct jinja_list {
    struct jv *items;
    size_t n;
    struct jinja_tail *tail;
};

struct jinja_entry {
    struct jv key, value;
    uint64_t hash;
};

struct jinja_dict {
    struct jinja_entry *entries; /* in order of insertion */
    size_t n, capacity;
    uint32_t *index; /* open addressing, entry number + 1; NULL for a small dict */
    size_t index_size;
    bool is_constant; /* belongs to the template: never changed */
    bool is_printing; /* of a namespace: it may hold itself */
};

struct jinja_view {
    struct jinja_dict *dict;
    enum jinja_view_kind kind;
};

struct jinja_range {
    int64_t start, stop, step, n;
};

struct jinja_slice {
    struct jv start, stop, step;
};

/* What is missing, for the message of the error that its use raises. */
struct jinja_undefined {
    const char *hint; /* the whole message, or NULL */
    struct jv object; /* what was searched; JV_MISSING for a variable */
    struct jv name;
    bool is_unsafe; /* the sandbox hides it: a SecurityError */
};

struct jinja_method {
    struct jv self;
    const struct jinja_builtin *builtin;
};

struct jinja_cycler {
    struct jinja_list *items; /* a joiner's separator is items[0] */
    size_t position;          /* a joiner: 1 once used */
};

static inline struct jv jv_missing(void) { return (struct jv){.type = JV_MISSING}; }
static inline struct jv jv_none(void) { return (struct jv){.type = JV_NONE}; }
static inline struct jv jv_bool(bool truth) { return (struct jv){.type = JV_BOOL, .truth = truth}; }
static inline struct jv jv_int(int64_t n) { return (struct jv){.type = JV_INT, .integer = n}; }
static inline struct jv jv_float(double x) { return (struct jv){.type = JV_FLOAT, .real = x}; }
static inline struct jv jv_text(struct jinja_text *text) { return (struct jv){.type = JV_STRING, .text = text}; }
static inline struct jv jv_list(struct jinja_list *list) { return (struct jv){.type = JV_LIST, .list = list}; }
static inline struct jv jv_tuple(struct jinja_list *list) { return (struct jv){.type = JV_TUPLE, .list = list}; }
static inline struct jv jv_dict(struct jinja_dict *dict) { return (struct jv){.type = JV_DICT, .dict = dict}; }
static inline struct jv jv_object(enum jv_type type, const void *object) {
    return (struct jv){.type = (uint8_t)type, .object = object};
}

static inline bool jv_is_string(struct jv v) { return v.type == JV_STRING; }
static inline bool jv_is_number(struct jv v) { return v.type >= JV_BOOL && v.type <= JV_FLOAT; }
static inline bool jv_is_integer(struct jv v) { return v.type >= JV_BOOL && v.type <= JV_BIG; }
static inline bool jv_is_sequence(struct jv v) { return v.type == JV_LIST || v.type == JV_TUPLE; }
static inline bool jv_is_small(struct jv v) { return v.type == JV_BOOL || v.type == JV_INT; }
static inline int64_t jv_small(struct jv v) { return v.type == JV_BOOL ? v.truth : v.integer; }

#endif
