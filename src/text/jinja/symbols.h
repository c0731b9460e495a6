/* SPDX-License-Identifier: Apache-2.0 */
/* Which names a frame loads and stores, as jinja2's idtracking module finds out.
 *
 * A frame (the template, a loop's body, a macro, a with block, ...) has a table of names. A name that is stored in a
 * frame gets a variable of its own there, which starts as an alias of the outer variable of that name, or unset. A name
 * that is only loaded uses the nearest outer variable; when there is none, the frame resolves it from the context on
 * entry. The branches of an `if` share their frame; what only some of them store starts from the outer value. */
#ifndef MLXCEL_TEXT_JINJA_SYMBOLS_H
#define MLXCEL_TEXT_JINJA_SYMBOLS_H

#include "text/jinja/compiler.h"

/* One Python function of the generated code: an environment at run time. */
struct scope {
    struct scope *outer;
    struct function *function;
    unsigned depth;
    unsigned n_loops; /* open for loops: break is allowed inside */
    uint64_t *keys;   /* level << 32 | name → slot */
    uint32_t *slots;
    size_t capacity;
};

struct symbol {
    uint32_t name;
    uint32_t slot;
    uint8_t action; /* enum load_action */
    bool is_stored;
    struct scope *alias_scope; /* LOAD_ALIAS */
    uint32_t alias_slot;
};

struct symbols {
    struct symbols *parent;
    struct scope *scope;
    unsigned level;
    struct symbol *entries;
    size_t n, capacity;
    uint32_t *index; /* entry + 1 by name; NULL while the table is short */
    size_t index_size;
};

/* All of these return NULL or false with the failure set; their memory is the compiler's. */
struct scope *jinja_new_scope(struct compiler *c, struct scope *outer);
struct symbols *jinja_new_symbols(struct compiler *c, struct symbols *parent, struct scope *scope);
bool jinja_declare_parameter(struct compiler *c, struct symbols *s, const struct name *name);
/* The variable that a name stands for, or NULL; *owner is the table that has it. */
struct symbol *jinja_find_symbol(struct symbols *s, uint32_t name, struct symbols **owner);

/* What the nodes of a frame do to its names; names in a target count as parameters. */
bool jinja_track(struct compiler *c, struct symbols *s, struct node *node);
bool jinja_track_all(struct compiler *c, struct symbols *s, const struct nodes *nodes);
bool jinja_track_target(struct compiler *c, struct symbols *s, struct node *target);

/* Calls visit for every child in the order of jinja2's fields; stops at the first false and returns it. */
typedef bool (*jinja_visit)(void *context, struct node *child);
bool jinja_each_child(struct node *node, jinja_visit visit, void *context);

#endif
