/* SPDX-License-Identifier: Apache-2.0 */
/* What Python's operators and protocols do: truth, equality, order, hash, arithmetic, length, membership. */
#ifndef MLXCEL_TEXT_JINJA_OPERATE_H
#define MLXCEL_TEXT_JINJA_OPERATE_H

#include "text/jinja/node.h"
#include "text/jinja/run.h"

/* type(v).__name__ */
const char *jinja_type_name(struct jv v);

bool jinja_truth(struct jinja_run *run, struct jv v, bool *truth);
/* The truth of a constant. */
bool jinja_const_truth(struct jv v);
bool jinja_equal(struct jinja_run *run, struct jv a, struct jv b, bool *is_equal);
/* op: OP_LT, OP_LE, OP_GT or OP_GE. */
bool jinja_order(struct jinja_run *run, enum node_op op, struct jv a, struct jv b, bool *holds);
bool jinja_hash(struct jinja_run *run, struct jv v, uint64_t *hash);
/* Any comparison, also in and not in. */
bool jinja_compare(struct jinja_run *run, enum node_op op, struct jv a, struct jv b, bool *holds);
bool jinja_contains(struct jinja_run *run, struct jv container, struct jv item, bool *is_in);
/* `is`: the same object. */
bool jinja_same(struct jv a, struct jv b);

/* -1, 0, 1; 2 when one of them is not a number. */
int jinja_compare_numbers(struct jv a, struct jv b);
bool jinja_to_double(struct jinja_run *run, struct jv number, double *x);

bool jinja_arithmetic(struct jinja_run *run, enum node_op op, struct jv a, struct jv b, struct jv *result);
bool jinja_negate(struct jinja_run *run, struct jv a, struct jv *result);
bool jinja_positive(struct jinja_run *run, struct jv a, struct jv *result);

/* len(v) of what has one without being run: JV_MISSING as *length when it has none. */
bool jinja_length(struct jinja_run *run, struct jv v, int64_t *length, bool *has_length);

/* The error that using an undefined value raises. */
bool jinja_fail_undefined(struct jinja_run *run, const struct jinja_undefined *undefined);
/* An undefined value: a missing variable (object is JV_MISSING) or a missing part of an object. */
bool jinja_undefined(struct jinja_run *run, struct jv object, struct jv name, struct jv *result);
bool jinja_undefined_hint(struct jinja_run *run, const char *hint, struct jv *result);
/* An integer argument: int or bool; otherwise a TypeError. Integers beyond 64 bits are cut to the nearest. */
bool jinja_index(struct jinja_run *run, struct jv v, int64_t *index);
/* The same where Python refuses what does not fit. */
bool jinja_size(struct jinja_run *run, struct jv v, int64_t *size);

/* ---- dicts ---- */

struct jinja_dict *jinja_dict_new(struct jinja_run *run, size_t capacity);
/* *entry is NULL when the key is not there. */
bool jinja_dict_find(struct jinja_run *run, const struct jinja_dict *dict, struct jv key, struct jinja_entry **entry);
struct jinja_entry *jinja_dict_find_text(struct jinja_run *run, const struct jinja_dict *dict, struct jinja_text *key);
bool jinja_dict_set(struct jinja_run *run, struct jinja_dict *dict, struct jv key, struct jv value);
struct jinja_dict *jinja_dict_copy(struct jinja_run *run, const struct jinja_dict *dict);
/* Sets the pairs of a mapping or of an iterable of pairs, as dict() does. */
bool jinja_dict_update(struct jinja_run *run, struct jinja_dict *dict, struct jv from);

/* ---- lists ---- */

struct jinja_list *jinja_list_new(struct jinja_run *run, size_t capacity);
bool jinja_list_append(struct jinja_run *run, struct jinja_list *list, struct jv item);
/* A list of n items taken from `items`. */
struct jinja_list *jinja_list_of(struct jinja_run *run, const struct jv *items, size_t n);

#endif
