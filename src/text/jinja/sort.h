/* SPDX-License-Identifier: Apache-2.0 */
/* Stable sorting, as sorted() does it, with an order that may fail. */
#ifndef MLXCEL_TEXT_JINJA_SORT_H
#define MLXCEL_TEXT_JINJA_SORT_H

#include "text/jinja/run.h"

struct jinja_sort_item {
    struct jv key, value;
};

/* Sorts by key with <; descending keeps equal items in their order too. */
bool jinja_sort(struct jinja_run *run, struct jinja_sort_item *items, size_t n, bool is_descending);
/* The entries of a dict by key, in the arena. */
struct jinja_entry *jinja_sorted_entries(struct jinja_run *run, const struct jinja_dict *dict);

#endif
