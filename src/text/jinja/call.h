/* SPDX-License-Identifier: Apache-2.0 */
/* Calls: the tables of builtin functions, filters, tests and methods, and how arguments reach them. */
#ifndef MLXCEL_TEXT_JINJA_CALL_H
#define MLXCEL_TEXT_JINJA_CALL_H

#include "text/jinja/node.h"
#include "text/jinja/run.h"

struct jinja_named {
    struct jinja_text *name;
    struct jv value;
};

/* Arguments as they are given. */
struct jinja_args {
    const struct jv *items;
    size_t n;
    const struct jinja_named *named;
    size_t n_named;
};

/* The value that a filter or test is applied to, or a method's receiver, is `self`. A builtin with a parameter list
 * gets one item for each parameter, JV_MISSING where nothing was given, and no named ones; a variadic builtin gets the
 * arguments as they are. */
typedef bool (*jinja_function)(struct jinja_run *run, struct jv self, const struct jinja_args *args, struct jv *result);

#define JINJA_VARIADIC       255
#define JINJA_MAX_PARAMETERS 6

struct jinja_builtin {
    const char *name;
    jinja_function call;       /* NULL: an attribute that the sandbox hides */
    uint8_t n_required, n_max; /* n_max parameters, or JINJA_VARIADIC */
    const char *parameters;    /* names separated by spaces; NULL: positional only */
    uint8_t type;              /* methods: enum jv_type of the receiver */
    uint8_t needs_context;     /* filters that are not computed at compile time; methods: a property, not a method */
};

const struct jinja_builtin *jinja_find_filter(const struct jinja_text *name);
const struct jinja_builtin *jinja_find_test(const struct jinja_text *name);
const struct jinja_builtin *jinja_find_global(const struct jinja_text *name);
/* The first builtin attribute of this name in the sorted table; those of other types follow it. */
const struct jinja_builtin *jinja_find_methods(const struct jinja_text *name);
/* The one for this type among them, or NULL. */
const struct jinja_builtin *jinja_method_for(const struct jinja_builtin *methods, enum jv_type type);

/* Binds the arguments and calls. */
bool jinja_call_builtin(struct jinja_run *run, const struct jinja_builtin *builtin, struct jv self,
                        const struct jinja_args *args, struct jv *result);
/* Calls anything that can be called; `caller` is the body of a call block or JV_MISSING. */
bool jinja_call(struct jinja_run *run, struct jv callee, const struct jinja_args *args, struct jv *result);
/* A filter or test by name, as map and select call it. */
bool jinja_call_filter(struct jinja_run *run, struct jv name, struct jv value, const struct jinja_args *args,
                       struct jv *result);
bool jinja_call_test(struct jinja_run *run, struct jv name, struct jv value, const struct jinja_args *args,
                     bool *result);

#endif
