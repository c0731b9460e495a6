/* SPDX-License-Identifier: Apache-2.0 */
/* Merge sort from the bottom up between the items and a second array. */
#include "text/jinja/sort.h"

#include "text/jinja/operate.h"

#include <string.h>

static bool merge(struct jinja_run *run, const struct jinja_sort_item *from, size_t middle, size_t n,
                  bool is_descending, struct jinja_sort_item *to) {
    size_t left = 0, right = middle;
    for (size_t i = 0; i < n; i++) {
        bool takes_right = left == middle;
        if (left < middle && right < n) {
            struct jv l = from[left].key, r = from[right].key;
            if (!(is_descending ? jinja_order(run, OP_LT, l, r, &takes_right)
                                : jinja_order(run, OP_LT, r, l, &takes_right)))
                return false;
        }
        to[i] = takes_right ? from[right++] : from[left++];
    }
    return true;
}

bool jinja_sort(struct jinja_run *run, struct jinja_sort_item *items, size_t n, bool is_descending) {
    struct jinja_sort_item *other = jinja_alloc(run, n ? n : 1, sizeof *other), *from = items, *to = other;
    if (!other || !jinja_spend(run, n)) return false;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t start = 0; start < n; start += 2 * width) {
            size_t count = n - start < 2 * width ? n - start : 2 * width;
            if (!merge(run, from + start, count < width ? count : width, count, is_descending, to + start))
                return false;
        }
        struct jinja_sort_item *swap = from;
        from = to;
        to = swap;
    }
    if (from != items && n) memcpy(items, from, n * sizeof *items);
    return true;
}

struct jinja_entry *jinja_sorted_entries(struct jinja_run *run, const struct jinja_dict *dict) {
    struct jinja_sort_item *items = jinja_alloc(run, dict->n ? dict->n : 1, sizeof *items);
    struct jinja_entry *entries = items ? jinja_alloc(run, dict->n ? dict->n : 1, sizeof *entries) : NULL;
    if (!entries) return NULL;
    for (size_t i = 0; i < dict->n; i++)
        items[i] = (struct jinja_sort_item){.key = dict->entries[i].key, .value = dict->entries[i].value};
    if (!jinja_sort(run, items, dict->n, false)) return NULL;
    for (size_t i = 0; i < dict->n; i++)
        entries[i] = (struct jinja_entry){.key = items[i].key, .value = items[i].value};
    return entries;
}
