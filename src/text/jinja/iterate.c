/* SPDX-License-Identifier: Apache-2.0 */
#include "text/jinja/iterate.h"

#include "text/jinja/loop.h"
#include "text/jinja/operate.h"
#include "text/jinja/text.h"

static bool end(bool *is_end) { return *is_end = true; }

static bool step_list(struct jinja_run *run, struct jinja_iterator *it, struct jv *item, bool *is_end) {
    (void)run;
    if (it->at >= it->source.list->n) return end(is_end);
    *item = it->source.list->items[it->at++];
    return true;
}

static bool step_text(struct jinja_run *run, struct jinja_iterator *it, struct jv *item, bool *is_end) {
    const struct jinja_text *text = it->source.text;
    if (it->at >= text->length) return end(is_end);
    size_t start = it->at;
    it->at += jinja_char_length(text->data + start);
    if (!jinja_text_part(run, text, start, it->at, item)) return false;
    item->text->n_chars = 1;
    return true;
}

static bool step_bytes(struct jinja_run *run, struct jinja_iterator *it, struct jv *item, bool *is_end) {
    (void)run;
    if (it->at >= it->source.text->length) return end(is_end);
    *item = jv_int((unsigned char)it->source.text->data[it->at++]);
    return true;
}

/* The entry as keys(), values() or items() gives it. */
static bool entry_as(struct jinja_run *run, const struct jinja_entry *e, enum jinja_view_kind kind, struct jv *item) {
    *item = kind == JINJA_VALUES ? e->value : e->key;
    if (kind != JINJA_ITEMS) return true;
    struct jinja_list *pair = jinja_alloc(run, 1, sizeof *pair + 2 * sizeof(struct jv) + 8);
    if (!pair) return false;
    struct jv *items = (struct jv *)(((uintptr_t)(pair + 1) + 15) & ~(uintptr_t)15);
    items[0] = e->key;
    items[1] = e->value;
    *pair = (struct jinja_list){.items = items, .n = 2};
    *item = jv_tuple(pair);
    return true;
}

static bool step_dict(struct jinja_run *run, struct jinja_iterator *it, struct jv *item, bool *is_end) {
    if (it->at >= it->source.dict->n) return end(is_end);
    return entry_as(run, &it->source.dict->entries[it->at++], JINJA_KEYS, item);
}

static bool step_view(struct jinja_run *run, struct jinja_iterator *it, struct jv *item, bool *is_end) {
    const struct jinja_view *view = it->source.view;
    if (it->at >= view->dict->n) return end(is_end);
    return entry_as(run, &view->dict->entries[it->at++], view->kind, item);
}

static bool step_range(struct jinja_run *run, struct jinja_iterator *it, struct jv *item, bool *is_end) {
    (void)run;
    const struct jinja_range *range = it->source.range;
    if (it->at >= (size_t)range->n) return end(is_end);
    *item = jv_int(range->start + (int64_t)it->at++ * range->step);
    return true;
}

static bool step_nothing(struct jinja_run *run, struct jinja_iterator *it, struct jv *item, bool *is_end) {
    (void)run, (void)it, (void)item;
    return end(is_end);
}

/* A loop object gives pairs of its items and itself. */
static bool step_loop(struct jinja_run *run, struct jinja_iterator *it, struct jv *item, bool *is_end) {
    struct jv pair[2] = {jv_missing(), it->source};
    if (!jinja_loop_next(run, it->source.loop, &pair[0], is_end) || *is_end) return *is_end;
    struct jinja_list *list = jinja_list_of(run, pair, 2);
    *item = jv_tuple(list);
    return list != NULL;
}

static const struct walker {
    jinja_step_function step;
    const char *type_name;
} walkers[N_JV_TYPES] = {[JV_UNDEFINED] = {step_nothing, "generator"}, [JV_STRING] = {step_text, "str_iterator"},
                         [JV_BYTES] = {step_bytes, "bytes_iterator"},  [JV_LIST] = {step_list, "list_iterator"},
                         [JV_TUPLE] = {step_list, "tuple_iterator"},   [JV_DICT] = {step_dict, "dict_keyiterator"},
                         [JV_VIEW] = {step_view, "dict_itemiterator"}, [JV_RANGE] = {step_range, "range_iterator"},
                         [JV_LOOP] = {step_loop, "LoopContext"}};

bool jinja_is_iterable(struct jv v) { return v.type == JV_ITERATOR || walkers[v.type].step; }

static struct jinja_iterator *new_iterator(struct jinja_run *run, const char *type_name, jinja_step_function step,
                                           struct jv source) {
    struct jinja_iterator *it = jinja_alloc(run, 1, sizeof *it);
    if (it) *it = (struct jinja_iterator){.step = step, .type_name = type_name, .source = source};
    return it;
}

struct jinja_iterator *jinja_iterate(struct jinja_run *run, struct jv v) {
    if (v.type == JV_ITERATOR) return v.iterator;
    const struct walker *w = &walkers[v.type];
    if (w->step) return new_iterator(run, w->type_name, w->step, v);
    jinja_raise(run, JINJA_TYPE, "'%s' object is not iterable", jinja_type_name(v));
    return NULL;
}

bool jinja_next(struct jinja_run *run, struct jinja_iterator *it, struct jv *item, bool *is_end) {
    *is_end = it->is_done;
    if (it->is_done) return true;
    if (!jinja_step(run)) return false;
    if (++run->depth > JINJA_MAX_DEPTH) return jinja_raise(run, JINJA_LIMIT, "iterators are nested too deeply");
    bool ok = it->step(run, it, item, is_end);
    run->depth--;
    it->is_done = *is_end;
    return ok;
}

bool jinja_generator(struct jinja_run *run, const char *type_name, jinja_step_function step, struct jv source,
                     void *state, struct jv *result) {
    struct jinja_iterator *it = new_iterator(run, type_name, step, source);
    if (!it) return false;
    it->state = state;
    *result = jv_object(JV_ITERATOR, it);
    return true;
}

bool jinja_next_of_source(struct jinja_run *run, struct jinja_iterator *it, struct jv *item, bool *is_end) {
    if (it->source.type != JV_ITERATOR) {
        struct jinja_iterator *source = jinja_iterate(run, it->source);
        if (!source) return false;
        it->source = jv_object(JV_ITERATOR, source);
    }
    return jinja_next(run, it->source.iterator, item, is_end);
}

/* ---- backwards: `at` counts the items that were given ---- */

static bool step_back(struct jinja_run *run, struct jinja_iterator *it, struct jv *item, bool *is_end) {
    struct jv v = it->source;
    size_t n = v.type == JV_DICT    ? v.dict->n
               : v.type == JV_VIEW  ? v.view->dict->n
               : v.type == JV_RANGE ? (size_t)v.range->n
                                    : v.list->n;
    if (it->at >= n) return end(is_end);
    size_t index = n - 1 - it->at++;
    if (v.type == JV_DICT) return entry_as(run, &v.dict->entries[index], JINJA_KEYS, item);
    if (v.type == JV_VIEW) return entry_as(run, &v.view->dict->entries[index], v.view->kind, item);
    *item = v.type == JV_RANGE ? jv_int(v.range->start + (int64_t)index * v.range->step) : v.list->items[index];
    return true;
}

static bool step_text_back(struct jinja_run *run, struct jinja_iterator *it, struct jv *item, bool *is_end) {
    const struct jinja_text *text = it->source.text;
    size_t end_at = text->length - it->at, start = end_at;
    if (!end_at) return end(is_end);
    if (it->source.type == JV_BYTES) {
        *item = jv_int((unsigned char)text->data[end_at - 1]);
        it->at++;
        return true;
    }
    jinja_previous_char(text->data, &start);
    it->at += end_at - start;
    if (!jinja_text_part(run, text, start, end_at, item)) return false;
    item->is_markup = it->source.is_markup;
    return true;
}

struct jinja_iterator *jinja_reversed(struct jinja_run *run, struct jv v, bool *is_reversible) {
    *is_reversible = true;
    switch ((enum jv_type)v.type) {
    case JV_UNDEFINED: return new_iterator(run, "reversed", step_nothing, v);
    case JV_LIST: return new_iterator(run, "list_reverseiterator", step_back, v);
    case JV_TUPLE: return new_iterator(run, "reversed", step_back, v);
    case JV_DICT:
    case JV_VIEW: return new_iterator(run, "dict_reversekeyiterator", step_back, v);
    case JV_RANGE: return new_iterator(run, "range_iterator", step_back, v);
    case JV_STRING:
    case JV_BYTES: return new_iterator(run, "reversed", step_text_back, v);
    default: *is_reversible = false; return NULL;
    }
}

/* ---- collecting ---- */

struct jinja_list *jinja_collect(struct jinja_run *run, struct jv v) {
    if (jv_is_sequence(v)) return jinja_list_of(run, v.list->items, v.list->n);
    struct jinja_iterator *it = jinja_iterate(run, v);
    struct jinja_list *list = it ? jinja_list_new(run, 0) : NULL;
    while (list) {
        struct jv item;
        bool is_end;
        if (!jinja_next(run, it, &item, &is_end)) return NULL;
        if (is_end) return list;
        if (!jinja_list_append(run, list, item)) return NULL;
    }
    return NULL;
}

bool jinja_take(struct jinja_run *run, struct jv v, struct jv *items, size_t room, size_t *n) {
    struct jinja_iterator *it = jinja_iterate(run, v);
    struct jv item;
    bool is_end = false;
    if (!it) return false;
    for (*n = 0; *n <= room; ++*n) {
        if (!jinja_next(run, it, &item, &is_end)) return false;
        if (is_end) return true;
        if (*n < room) items[*n] = item;
    }
    *n = room + 1;
    return true;
}
