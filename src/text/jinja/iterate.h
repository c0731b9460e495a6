/* SPDX-License-Identifier: Apache-2.0 */
/* Iteration. Generators are lazy, as in Python: what map, select or a loop's filter does happens when the next item is
 * asked for, and an iterator can be walked once. */
#ifndef MLXCEL_TEXT_JINJA_ITERATE_H
#define MLXCEL_TEXT_JINJA_ITERATE_H

#include "text/jinja/run.h"

struct jinja_iterator;

/* Gives the next item or sets *is_end. */
typedef bool (*jinja_step_function)(struct jinja_run *run, struct jinja_iterator *it, struct jv *item, bool *is_end);

struct jinja_iterator {
    jinja_step_function step;
    const char *type_name; /* "generator", ... */
    struct jv source;      /* what is walked */
    size_t at;
    bool is_done;
    void *state; /* of generators */
};

/* iter(v); NULL with a TypeError when v cannot be iterated. An iterator gives itself. */
struct jinja_iterator *jinja_iterate(struct jinja_run *run, struct jv v);
bool jinja_next(struct jinja_run *run, struct jinja_iterator *it, struct jv *item, bool *is_end);
/* reversed(v), without a failure: NULL and *is_reversible false when it has no order to reverse. */
struct jinja_iterator *jinja_reversed(struct jinja_run *run, struct jv v, bool *is_reversible);
bool jinja_is_iterable(struct jv v);

/* list(v) */
struct jinja_list *jinja_collect(struct jinja_run *run, struct jv v);
/* Takes up to `room` items and tells how many there are: room + 1 when there are more. */
bool jinja_take(struct jinja_run *run, struct jv v, struct jv *items, size_t room, size_t *n);

/* A generator over `source`, whose state its step function knows. */
bool jinja_generator(struct jinja_run *run, const char *type_name, jinja_step_function step, struct jv source,
                     void *state, struct jv *result);
/* Inside a step function: the next item of the source, on which an iterator is opened at the first call. */
bool jinja_next_of_source(struct jinja_run *run, struct jinja_iterator *it, struct jv *item, bool *is_end);

#endif
