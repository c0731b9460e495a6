/* SPDX-License-Identifier: Apache-2.0 */
/* The evaluator: walks the annotated tree. */
#ifndef MLXCEL_TEXT_JINJA_EVAL_H
#define MLXCEL_TEXT_JINJA_EVAL_H

#include "text/jinja/call.h"

/* The variables of one call of a function. */
struct jinja_env {
    struct jinja_env *outer;
    struct jv slots[];
};

struct jinja_macro {
    const struct macro *definition;
    struct jinja_env *env; /* where it was defined */
};

enum flow { FLOW_FAILED, FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE };

bool jinja_eval(struct jinja_run *run, struct jinja_env *env, const struct node *n, struct jv *result);
/* Arguments of a call; arrays that do not fit into the room lie in the arena. `caller` is a call block's body. */
struct jinja_argument_room {
    struct jv items[8];
    struct jinja_named named[8];
};
bool jinja_eval_arguments(struct jinja_run *run, struct jinja_env *env, const struct arguments *from, struct jv caller,
                          struct jinja_argument_room *room, struct jinja_args *args);
bool jinja_eval_call(struct jinja_run *run, struct jinja_env *env, const struct node *n, struct jv caller,
                     struct jv *result);

enum flow jinja_exec(struct jinja_run *run, struct jinja_env *env, const struct nodes *body);

struct jinja_env *jinja_env_new(struct jinja_run *run, const struct function *function, struct jinja_env *outer);
bool jinja_enter_frame(struct jinja_run *run, struct jinja_env *env, const struct frame_plan *plan);
void jinja_leave_frame(struct jinja_env *env, const struct frame_plan *plan);
/* A variable of the context or a global; JV_MISSING when there is none. */
bool jinja_lookup(struct jinja_run *run, const struct name *name, struct jv *result);
/* Stores into a name, a namespace's attribute or, unpacked, a tuple of these. */
bool jinja_assign(struct jinja_run *run, struct jinja_env *env, const struct node *target, struct jv value);

/* Runs a body and takes what it writes. */
bool jinja_capture(struct jinja_run *run, struct jinja_env *env, const struct nodes *body, struct jv *result);
bool jinja_call_macro(struct jinja_run *run, const struct jinja_macro *macro, const struct jinja_args *args,
                      struct jv *result);
bool jinja_run_block(struct jinja_run *run, const struct jinja_block *block);

#endif
