/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of a template.
 *
 * The parser makes it, resolve.c annotates it, and from then on it is only read. Names are resolved to slots: every
 * function (the template's body, a macro, a call block, a recursive loop, a loop's filter) has an environment of slots,
 * and a name says how many environments further out it stands and which slot it is. Which slots exist, and when they
 * are set or cleared, follows jinja2's compiler step by step, because its scoping rules are what its generated Python
 * code does. */
#ifndef MLXCEL_TEXT_JINJA_NODE_H
#define MLXCEL_TEXT_JINJA_NODE_H

#include "base/arena.h"
#include "text/jinja/value.h"

enum node_kind {
    /* expressions */
    NODE_CONST,
    NODE_DATA, /* text between tags */
    NODE_NAME,
    NODE_NSREF, /* name.attribute as the target of an assignment */
    NODE_TUPLE,
    NODE_LIST,
    NODE_DICT, /* items: key, value, key, value, ... */
    NODE_CONDITIONAL,
    NODE_FILTER,
    NODE_TEST,
    NODE_CALL,
    NODE_ITEM,
    NODE_ATTRIBUTE,
    NODE_SLICE,
    NODE_CONCAT,
    NODE_COMPARE, /* a, then items, each with op */
    NODE_BINARY,
    NODE_AND,
    NODE_OR,
    NODE_NOT,
    NODE_NEGATIVE,
    NODE_POSITIVE,
    /* statements */
    NODE_OUTPUT,
    NODE_FOR,
    NODE_IF,
    NODE_MACRO,
    NODE_CALL_BLOCK,
    NODE_FILTER_BLOCK,
    NODE_WITH,
    NODE_BLOCK,
    NODE_EXTENDS,
    NODE_INCLUDE,
    NODE_IMPORT, /* import and from-import */
    NODE_ASSIGN,
    NODE_ASSIGN_BLOCK,
    NODE_AUTOESCAPE,
    NODE_BREAK,
    NODE_CONTINUE,
};

enum node_op {
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_FLOORDIV,
    OP_MOD,
    OP_POW,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_IN,
    OP_NOT_IN,
};

enum name_use { NAME_LOAD, NAME_STORE, NAME_PARAMETER };

/* How output and joined text treat HTML: fixed by the template, or only known when it runs. */
enum escape_mode { ESCAPE_OFF, ESCAPE_ON, ESCAPE_VOLATILE };

struct name {
    struct jinja_text text; /* counted and hashed */
    uint32_t id;
    const struct jinja_builtin *methods; /* first builtin attribute of this name; NULL = none */
};

struct slot {
    uint16_t hops;
    uint32_t index;
};

/* What a frame does to its slots when it is entered; on leaving, all of them are cleared. */
enum load_action { LOAD_PARAMETER, LOAD_RESOLVE, LOAD_ALIAS, LOAD_UNDEFINED };

struct load {
    enum load_action action;
    uint32_t index;
    struct slot source;      /* LOAD_ALIAS */
    const struct name *name; /* LOAD_RESOLVE */
};

struct frame_plan {
    struct load *loads;
    size_t n;
};

/* One environment. */
struct function {
    uint32_t n_slots;
    bool is_captured; /* a function inside may outlive the call */
};

struct node;

struct nodes {
    struct node *first, *last;
    size_t n;
};

struct keyword {
    const struct name *name;
    struct node *value;
    struct keyword *next;
};

struct arguments {
    struct nodes positional;
    struct keyword *keywords;
    size_t n_keywords;
    struct node *star, *star_star;
};

struct macro {
    const struct name *name; /* NULL: a call block */
    struct nodes parameters, defaults;
    struct nodes body;
    struct function *function;
    struct frame_plan frame;
    uint32_t *parameter_slots;
    int64_t caller_slot, kwargs_slot, varargs_slot; /* -1 = not used */
    bool has_explicit_caller;
    struct jinja_list *parameter_names; /* the attribute `arguments` */
};

struct node {
    uint8_t kind;
    uint8_t op;      /* enum node_op */
    uint8_t use;     /* enum name_use */
    uint8_t escape;  /* enum escape_mode */
    bool is_checked; /* NODE_NAME: an unset slot reads as undefined */
    bool is_folded;  /* its constant parts are computed */
    uint32_t line;
    struct node *next; /* in a list */
    union {
        struct jv value; /* NODE_CONST, NODE_DATA */
        struct {
            const struct name *name;
            struct slot slot;
            const struct name *attribute; /* NODE_NSREF */
        };
        struct nodes items; /* NODE_TUPLE, NODE_LIST, NODE_DICT, NODE_CONCAT, NODE_OUTPUT */
        struct {            /* operators; NODE_CONDITIONAL: test a, then b, else c; NODE_SLICE: a:b:c */
            struct node *a, *b, *c;
            struct nodes operands; /* NODE_COMPARE: of op */
        };
        struct {                                 /* NODE_FILTER, NODE_TEST, NODE_CALL, NODE_ATTRIBUTE */
            struct node *target;                 /* NULL: the text of a filter block */
            const struct name *callee;           /* filter, test or attribute */
            const struct jinja_builtin *builtin; /* NULL: there is no such filter or test */
            struct arguments *arguments;
        };
        struct {
            struct node *into, *iterable, *test;
            struct nodes body, otherwise;
            bool is_recursive, is_extended;
            struct function *loop_function, *test_function; /* NULL: the enclosing one, no test */
            struct node *test_into;
            struct frame_plan *frame, *else_frame, *test_frame;
            int64_t loop_slot;
        } loop;
        struct {
            struct node *test;
            struct nodes body, elifs, otherwise; /* elifs are NODE_IF without elifs */
        } branch;
        struct {
            struct macro *macro;
            struct node *call; /* NODE_CALL_BLOCK; NULL for generation */
            struct slot store; /* NODE_MACRO */
            bool is_exported;
        } macro;
        struct {                /* NODE_FILTER_BLOCK, NODE_WITH, NODE_ASSIGN, NODE_ASSIGN_BLOCK, NODE_AUTOESCAPE */
            struct node *into;  /* target, or tuple of targets */
            struct node *value; /* value, tuple of values, or filter */
            struct nodes body;
            struct frame_plan *frame;
            bool is_exported;
        } scope;
        struct jinja_block *block;
        struct {
            struct node *template;
            bool ignores_missing;
            struct nodes targets; /* names that an import stores */
        } include;
    };
};

/* A named block: a function of its own that sees the template's variables through the context. */
struct jinja_block {
    const struct name *name;
    struct nodes body;
    bool is_scoped, is_required;
    struct function *function;
    struct frame_plan frame;
    int64_t self_slot, super_slot;
    struct jinja_scoped { /* variables of the enclosing frames that a scoped block sees */
        const struct name *name;
        struct slot slot;
    } * visible;
    size_t n_visible;
    struct jinja_block *next;
};

struct jinja_template {
    struct arena memory; /* owns everything below */
    struct nodes body;
    struct function *function;
    struct frame_plan frame;
    int64_t self_slot;
    struct jinja_block *blocks;
    const struct name *const *names;
    size_t n_names;
    uint64_t hash_seed;
};

#endif
