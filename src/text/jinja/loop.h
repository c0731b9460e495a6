/* SPDX-License-Identifier: Apache-2.0 */
/* The `loop` object: looks one item ahead only when asked to, and counts only when asked to. */
#ifndef MLXCEL_TEXT_JINJA_LOOP_H
#define MLXCEL_TEXT_JINJA_LOOP_H

#include "text/jinja/iterate.h"

struct jinja_env;
struct node;

struct jinja_loop {
    struct jinja_iterator *iterator;
    struct jv iterable;
    int64_t index0; /* -1 before the first item */
    int64_t length; /* -1: not known yet */
    int64_t depth0;
    struct jv after, current, before; /* JV_MISSING: none */
    struct jinja_list *changed;       /* arguments of the last changed(); NULL: none */
    /* Recursive loops: what loop(...) runs. */
    const struct node *node;
    struct jinja_env *env;
};

struct jinja_loop *jinja_loop_new(struct jinja_run *run, struct jv iterable, struct jinja_iterator *iterator);
bool jinja_loop_next(struct jinja_run *run, struct jinja_loop *loop, struct jv *item, bool *is_end);
/* The next item, or JV_MISSING at the end. */
bool jinja_loop_peek(struct jinja_run *run, struct jinja_loop *loop, struct jv *item);
bool jinja_loop_length(struct jinja_run *run, struct jinja_loop *loop, int64_t *length);
/* loop(iterable) */
bool jinja_loop_recurse(struct jinja_run *run, const struct node *node, struct jinja_env *env, struct jv iterable,
                        int64_t depth0, struct jv *result);

bool jinja_print_macro(struct jinja_run *run, const struct jinja_macro *macro, struct buffer *out);

#endif
