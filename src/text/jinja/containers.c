/* SPDX-License-Identifier: Apache-2.0 */
/* Dicts and lists under construction. A dict keeps its entries in order of insertion; from nine on an index of twice
 * as many places finds them. The hash has a seed of the template, so that keys from outside cannot be made to collide. */
#include "text/jinja/operate.h"

#include "base/memory.h"
#include "text/jinja/iterate.h"
#include "text/jinja/text.h"

#include <string.h>

#define SMALL_DICT 8

struct jinja_dict *jinja_dict_new(struct jinja_run *run, size_t capacity) {
    struct jinja_dict *dict = jinja_alloc(run, 1, sizeof *dict);
    if (!dict) return NULL;
    *dict = (struct jinja_dict){0};
    if (!capacity) return dict;
    dict->entries = jinja_alloc(run, capacity, sizeof *dict->entries);
    dict->capacity = capacity;
    return dict->entries ? dict : NULL;
}

static void index_entry(struct jinja_dict *dict, size_t entry) {
    size_t at = dict->entries[entry].hash & (dict->index_size - 1);
    while (dict->index[at]) at = (at + 1) & (dict->index_size - 1);
    dict->index[at] = (uint32_t)entry + 1;
}

static bool grow_index(struct jinja_run *run, struct jinja_dict *dict) {
    size_t size = 32;
    while (size < dict->capacity * 2) size *= 2;
    dict->index = jinja_alloc(run, size, sizeof *dict->index);
    if (!dict->index || !jinja_spend(run, size / 16)) return false;
    memset(dict->index, 0, size * sizeof *dict->index);
    dict->index_size = size;
    for (size_t i = 0; i < dict->n; i++) index_entry(dict, i);
    return true;
}

/* The entries with this hash, one after another: *at starts at 0. NULL when there is no further one. */
static struct jinja_entry *next_candidate(const struct jinja_dict *dict, uint64_t hash, size_t *at) {
    if (!dict->index) {
        while (*at < dict->n) {
            struct jinja_entry *e = &dict->entries[(*at)++];
            if (e->hash == hash) return e;
        }
        return NULL;
    }
    for (;; ++*at) {
        uint32_t number = dict->index[(hash + *at) & (dict->index_size - 1)];
        if (!number) return NULL;
        struct jinja_entry *e = &dict->entries[number - 1];
        if (e->hash != hash) continue;
        ++*at;
        return e;
    }
}

struct jinja_entry *jinja_dict_find_text(struct jinja_run *run, const struct jinja_dict *dict, struct jinja_text *key) {
    uint64_t hash = jinja_text_hash(key, run->hash_seed);
    size_t at = 0;
    for (struct jinja_entry *e; (e = next_candidate(dict, hash, &at));)
        if (e->key.type == JV_STRING && jinja_text_equal(e->key.text, key)) return e;
    return NULL;
}

bool jinja_dict_find(struct jinja_run *run, const struct jinja_dict *dict, struct jv key, struct jinja_entry **entry) {
    *entry = NULL;
    if (key.type == JV_STRING) {
        *entry = jinja_dict_find_text(run, dict, key.text);
        return true;
    }
    uint64_t hash;
    if (!jinja_hash(run, key, &hash)) return false;
    size_t at = 0;
    for (struct jinja_entry *e; (e = next_candidate(dict, hash, &at));) {
        bool is_equal;
        if (!jinja_equal(run, e->key, key, &is_equal)) return false;
        if (!is_equal) continue;
        *entry = e;
        return true;
    }
    return true;
}

bool jinja_dict_set(struct jinja_run *run, struct jinja_dict *dict, struct jv key, struct jv value) {
    struct jinja_entry *found;
    if (!jinja_step(run) || !jinja_dict_find(run, dict, key, &found)) return false;
    if (found) {
        found->value = value;
        return true;
    }
    if (dict->n == dict->capacity) {
        size_t capacity = dict->capacity ? dict->capacity * 2 : 4;
        struct jinja_entry *grown = jinja_alloc(run, capacity, sizeof *grown);
        if (!grown) return false;
        if (dict->n) memcpy(grown, dict->entries, dict->n * sizeof *grown);
        dict->entries = grown;
        dict->capacity = capacity;
        dict->index = NULL;
    }
    struct jinja_entry *e = &dict->entries[dict->n];
    *e = (struct jinja_entry){.key = key, .value = value};
    if (!jinja_hash(run, key, &e->hash)) return false;
    dict->n++;
    if (dict->n <= SMALL_DICT) return true;
    if (!dict->index) return grow_index(run, dict);
    index_entry(dict, dict->n - 1);
    return true;
}

struct jinja_dict *jinja_dict_copy(struct jinja_run *run, const struct jinja_dict *dict) {
    struct jinja_dict *copy = jinja_dict_new(run, dict->n);
    if (!copy || !jinja_spend(run, dict->n / 8)) return NULL;
    if (dict->n) memcpy(copy->entries, dict->entries, dict->n * sizeof *copy->entries);
    copy->n = dict->n;
    return copy->n <= SMALL_DICT || grow_index(run, copy) ? copy : NULL;
}

static bool update_pair(struct jinja_run *run, struct jinja_dict *dict, struct jv pair, size_t number) {
    struct jv parts[2];
    size_t n;
    if (!jinja_take(run, pair, parts, 2, &n)) return false;
    if (n == 2) return jinja_dict_set(run, dict, parts[0], parts[1]);
    return jinja_raise(run, JINJA_VALUE, "dictionary update sequence element #%zu has the wrong length; 2 is required",
                       number);
}

bool jinja_dict_update(struct jinja_run *run, struct jinja_dict *dict, struct jv from) {
    if (from.type == JV_DICT) {
        for (size_t i = 0; i < from.dict->n; i++)
            if (!jinja_dict_set(run, dict, from.dict->entries[i].key, from.dict->entries[i].value)) return false;
        return true;
    }
    if (from.type == JV_UNDEFINED) return jinja_fail_undefined(run, from.undefined);
    struct jinja_iterator *it = jinja_iterate(run, from);
    if (!it) return false;
    for (size_t number = 0;; number++) {
        struct jv pair;
        bool is_end;
        if (!jinja_next(run, it, &pair, &is_end)) return false;
        if (is_end) return true;
        if (!update_pair(run, dict, pair, number)) return false;
    }
}

/* ---- lists ---- */

struct jinja_list *jinja_list_new(struct jinja_run *run, size_t capacity) {
    struct jinja_list *list = jinja_alloc(run, 1, sizeof *list);
    if (!list) return NULL;
    *list = (struct jinja_list){0};
    if (!capacity) return list;
    list->tail = jinja_alloc(run, 1, sizeof *list->tail + capacity * sizeof(struct jv));
    if (!list->tail) return NULL;
    *list->tail = (struct jinja_tail){.capacity = capacity};
    list->items = (struct jv *)(list->tail + 1);
    return list;
}

/* The list is the longest that uses its storage: it is being built. */
bool jinja_list_append(struct jinja_run *run, struct jinja_list *list, struct jv item) {
    if (!jinja_step(run)) return false;
    if (!list->tail || list->n == list->tail->capacity) {
        size_t capacity = list->n ? list->n * 2 : 8;
        struct jinja_tail *tail = jinja_alloc(run, 1, sizeof *tail + capacity * sizeof(struct jv));
        if (!tail) return false;
        *tail = (struct jinja_tail){.capacity = capacity};
        if (list->n) memcpy(tail + 1, list->items, list->n * sizeof(struct jv));
        list->tail = tail;
        list->items = (struct jv *)(tail + 1);
    }
    list->items[list->n++] = item;
    list->tail->used = list->n;
    return true;
}

struct jinja_list *jinja_list_of(struct jinja_run *run, const struct jv *items, size_t n) {
    struct jinja_list *list = jinja_list_new(run, n);
    if (!list || !jinja_spend(run, n / 8)) return NULL;
    if (n) memcpy(list->items, items, n * sizeof *items);
    if (n) list->tail->used = n;
    list->n = n;
    return list;
}
