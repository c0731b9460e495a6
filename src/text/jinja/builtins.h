/* SPDX-License-Identifier: Apache-2.0 */
/* Where the tables of builtins meet their functions, and helpers for arguments. */
#ifndef MLXCEL_TEXT_JINJA_BUILTINS_H
#define MLXCEL_TEXT_JINJA_BUILTINS_H

#include "text/jinja/call.h"

/* In a table sorted by name. */
const struct jinja_builtin *jinja_find_builtin(const struct jinja_builtin *table, size_t n,
                                               const struct jinja_text *name);

/* A builtin's function, its name with the module's prefix. */
#define JINJA_BUILTIN(name)                                                                                            \
    bool jinja_##name(struct jinja_run *run, struct jv self, const struct jinja_args *args, struct jv *result)
/* For those that need neither arguments nor memory. */
#define JINJA_UNUSED (void)run, (void)args

/* Several rows of a table may name one function: repeated declarations are the same. */
#define ATTRIBUTE(name, type, function, ...) JINJA_BUILTIN(function);
#include "text/jinja/methods.def"
#undef ATTRIBUTE

#define FILTER(name, function, ...) JINJA_BUILTIN(function);
#include "text/jinja/filters.def"
#undef FILTER

/* Optional arguments, JV_MISSING or (where Python has None as the default) None; a TypeError for another type. */
bool jinja_arg_text(struct jinja_run *run, struct jv arg, struct jinja_text **text);
bool jinja_arg_int(struct jinja_run *run, struct jv arg, int64_t fallback, int64_t *value);
bool jinja_arg_truth(struct jinja_run *run, struct jv arg, bool fallback, bool *value);
static inline bool jinja_is_absent(struct jv arg) { return arg.type == JV_MISSING || arg.type == JV_NONE; }

/* ---- string operations that methods and filters share ---- */

enum jinja_case { JINJA_UPPER, JINJA_LOWER, JINJA_TITLE, JINJA_CAPITALIZE, JINJA_SWAP, JINJA_FOLD };
bool jinja_change_case(struct jinja_run *run, enum jinja_case to, struct jv text, struct jv *result);
/* Ends without white space (chars NULL) or without these characters. */
bool jinja_strip(struct jinja_run *run, struct jv text, const struct jinja_text *chars, bool left, bool right,
                 struct jv *result);
bool jinja_replace(struct jinja_run *run, struct jv text, const struct jinja_text *old, const struct jinja_text *new,
                   int64_t count, struct jv *result);
/* Lists of parts; separator NULL: runs of white space. */
struct jinja_list *jinja_split(struct jinja_run *run, struct jv text, const struct jinja_text *separator,
                               int64_t max_splits, bool from_right);
struct jinja_list *jinja_splitlines(struct jinja_run *run, struct jv text, bool keeps_ends);
bool jinja_pad(struct jinja_run *run, struct jv text, int64_t left, int64_t right, const char *fill, size_t fill_length,
               struct jv *result);
bool jinja_center(struct jinja_run *run, struct jv text, int64_t width, const char *fill, size_t fill_length,
                  struct jv *result);

#endif
