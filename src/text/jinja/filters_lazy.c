/* SPDX-License-Identifier: Apache-2.0 */
/* Filters that give generators: nothing happens before an item is asked for. */
#include "text/jinja/builtins.h"

#include "text/jinja/attrgetter.h"
#include "text/jinja/attribute.h"
#include "text/jinja/iterate.h"
#include "text/jinja/operate.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

#include <string.h>

/* ---- attribute paths ---- */

static bool add_part(struct jinja_run *run, struct jinja_list *parts, struct jinja_text *text, size_t from, size_t to) {
    struct jv part, number;
    bool is_number = to > from;
    for (size_t at = from; at < to && is_number;) is_number = jinja_is_digit(jinja_next_char(text->data, &at));
    if (!jinja_text_part(run, text, from, to, &part)) return false;
    if (!is_number) return jinja_list_append(run, parts, part);
    int64_t value = 0;
    for (size_t at = from; at < to;) {
        int digit = jinja_decimal_digit(jinja_next_char(text->data, &at));
        if (digit < 0) return jinja_raise(run, JINJA_VALUE, "invalid literal for int() with base 10");
        value = value > INT64_MAX / 20 ? value : value * 10 + digit;
    }
    number = jv_int(value);
    return jinja_list_append(run, parts, number);
}

bool jinja_attrgetter_init(struct jinja_run *run, struct jv attribute, struct jinja_attrgetter *getter) {
    *getter = (struct jinja_attrgetter){.parts = jinja_list_new(run, 0)};
    if (!getter->parts || jinja_is_absent(attribute)) return getter->parts != NULL;
    if (attribute.type != JV_STRING) return jinja_list_append(run, getter->parts, attribute);
    struct jinja_text *text = attribute.text;
    for (size_t from = 0;;) {
        size_t dot = jinja_find(text->data, from, text->length, ".", 1), to = dot == SIZE_MAX ? text->length : dot;
        if (!add_part(run, getter->parts, text, from, to)) return false;
        if (dot == SIZE_MAX) return true;
        from = dot + 1;
    }
}

bool jinja_attrgetter_get(struct jinja_run *run, const struct jinja_attrgetter *getter, struct jv item,
                          struct jv *result) {
    for (size_t i = 0; i < getter->parts->n; i++) {
        if (!jinja_getitem(run, item, getter->parts->items[i], &item)) return false;
        if (item.type == JV_UNDEFINED && !jinja_is_absent(getter->fallback)) item = getter->fallback;
    }
    if (getter->ignores_case && item.type == JV_STRING && !jinja_change_case(run, JINJA_LOWER, item, &item))
        return false;
    *result = item;
    return true;
}

/* ---- map, select, reject ---- */

struct mapping {
    struct jinja_args args; /* as given; prepare() takes the first ones off */
    bool is_prepared, by_attribute, negates;
    struct jinja_attrgetter getter;
    struct jv name; /* of the filter or test; JV_MISSING: truth */
};

/* The arguments outlive the call that made the generator. */
static struct mapping *new_mapping(struct jinja_run *run, const struct jinja_args *args, bool by_attribute,
                                   bool negates) {
    struct mapping *m = jinja_alloc(run, 1, sizeof *m);
    struct jv *items = jinja_alloc(run, args->n + 1, sizeof *items);
    struct jinja_named *named = jinja_alloc(run, args->n_named + 1, sizeof *named);
    if (!m || !items || !named) return NULL;
    *m = (struct mapping){.by_attribute = by_attribute, .negates = negates};
    if (args->n) memcpy(items, args->items, args->n * sizeof *items);
    if (args->n_named) memcpy(named, args->named, args->n_named * sizeof *named);
    m->args = (struct jinja_args){.items = items, .n = args->n, .named = named, .n_named = args->n_named};
    return m;
}

static void take_first(struct mapping *m, struct jv *first) {
    *first = m->args.n ? m->args.items[0] : jv_missing();
    if (!m->args.n) return;
    m->args.items++;
    m->args.n--;
}

static bool prepare_map(struct jinja_run *run, struct mapping *m) {
    struct jv attribute = jv_missing(), fallback = jv_missing();
    const struct jinja_text *other = NULL;
    for (size_t i = 0; i < m->args.n_named; i++) {
        const struct jinja_named *named = &m->args.named[i];
        if (jinja_text_is(named->name, "attribute"))
            attribute = named->value;
        else if (jinja_text_is(named->name, "default"))
            fallback = named->value;
        else
            other = named->name;
    }
    m->by_attribute = !m->args.n && attribute.type != JV_MISSING;
    if (!m->by_attribute) {
        take_first(m, &m->name);
        return m->name.type != JV_MISSING || jinja_raise(run, JINJA_FILTER_ARGUMENT, "map requires a filter argument");
    }
    if (other)
        return jinja_raise(run, JINJA_FILTER_ARGUMENT, "Unexpected keyword argument '%.*s'",
                           other->length > 100 ? 100 : (int)other->length, other->data);
    if (!jinja_attrgetter_init(run, attribute, &m->getter)) return false;
    m->getter.fallback = fallback;
    return true;
}

/* Before the first item: an empty source is not walked at all, and its arguments are not looked at. */
static bool start(struct jinja_run *run, struct jinja_iterator *it,
                  bool (*prepare)(struct jinja_run *, struct mapping *), bool *is_end) {
    struct mapping *m = it->state;
    bool truth;
    if (m->is_prepared) return true;
    m->is_prepared = true;
    if (!jinja_truth(run, it->source, &truth)) return false;
    *is_end = !truth;
    return *is_end || prepare(run, m);
}

static bool step_map(struct jinja_run *run, struct jinja_iterator *it, struct jv *item, bool *is_end) {
    struct mapping *m = it->state;
    struct jv value;
    *is_end = false;
    if (!start(run, it, prepare_map, is_end)) return false;
    if (*is_end || !jinja_next_of_source(run, it, &value, is_end) || *is_end) return *is_end;
    if (m->by_attribute) return jinja_attrgetter_get(run, &m->getter, value, item);
    return jinja_call_filter(run, m->name, value, &m->args, item);
}

JINJA_BUILTIN(filter_map) {
    struct mapping *m = new_mapping(run, args, false, false);
    return m && jinja_generator(run, "generator", step_map, self, m, result);
}

static bool prepare_select(struct jinja_run *run, struct mapping *m) {
    if (m->by_attribute) {
        struct jv attribute;
        take_first(m, &attribute);
        if (attribute.type == JV_MISSING)
            return jinja_raise(run, JINJA_FILTER_ARGUMENT, "Missing parameter for attribute name");
        if (!jinja_attrgetter_init(run, attribute, &m->getter)) return false;
    }
    take_first(m, &m->name);
    return true;
}

static bool step_select(struct jinja_run *run, struct jinja_iterator *it, struct jv *item, bool *is_end) {
    struct mapping *m = it->state;
    *is_end = false;
    if (!start(run, it, prepare_select, is_end)) return false;
    while (!*is_end) {
        struct jv value;
        bool truth;
        if (!jinja_next_of_source(run, it, item, is_end)) return false;
        if (*is_end) break;
        value = *item;
        if (m->by_attribute && !jinja_attrgetter_get(run, &m->getter, value, &value)) return false;
        if (m->name.type == JV_MISSING ? !jinja_truth(run, value, &truth)
                                       : !jinja_call_test(run, m->name, value, &m->args, &truth))
            return false;
        if (truth != m->negates) return true;
    }
    return true;
}

static bool select_items(struct jinja_run *run, struct jv self, const struct jinja_args *args, bool by_attribute,
                         bool negates, struct jv *result) {
    struct mapping *m = new_mapping(run, args, by_attribute, negates);
    return m && jinja_generator(run, "generator", step_select, self, m, result);
}

JINJA_BUILTIN(filter_select) { return select_items(run, self, args, false, false, result); }

JINJA_BUILTIN(filter_reject) { return select_items(run, self, args, false, true, result); }

JINJA_BUILTIN(filter_selectattr) { return select_items(run, self, args, true, false, result); }

JINJA_BUILTIN(filter_rejectattr) { return select_items(run, self, args, true, true, result); }

/* ---- items ---- */

static bool step_items(struct jinja_run *run, struct jinja_iterator *it, struct jv *item, bool *is_end) {
    if (it->source.type == JV_DICT) {
        struct jinja_view *view = jinja_alloc(run, 1, sizeof *view);
        if (!view) return false;
        *view = (struct jinja_view){.dict = it->source.dict, .kind = JINJA_ITEMS};
        it->source = jv_object(JV_VIEW, view);
    }
    if (it->source.type != JV_VIEW && it->source.type != JV_ITERATOR && it->source.type != JV_UNDEFINED)
        return jinja_raise(run, JINJA_TYPE, "Can only get item pairs from a mapping.");
    return jinja_next_of_source(run, it, item, is_end);
}

JINJA_BUILTIN(filter_items) {
    (void)args;
    if (self.type == JV_VIEW || self.type == JV_ITERATOR) self = jv_none(); /* no mappings; fails when it is walked */
    return jinja_generator(run, "generator", step_items, self, NULL, result);
}

/* ---- unique ---- */

struct unique {
    struct jinja_attrgetter getter;
    struct jv attribute;
    struct jinja_dict *seen; /* NULL before the first item */
    bool is_case_sensitive;
};

static bool step_unique(struct jinja_run *run, struct jinja_iterator *it, struct jv *item, bool *is_end) {
    struct unique *u = it->state;
    if (!u->seen) {
        if (!(u->seen = jinja_dict_new(run, 0)) || !jinja_attrgetter_init(run, u->attribute, &u->getter)) return false;
        u->getter.ignores_case = !u->is_case_sensitive;
    }
    for (;;) {
        struct jv key;
        struct jinja_entry *known;
        if (!jinja_next_of_source(run, it, item, is_end)) return false;
        if (*is_end) return true;
        if (!jinja_attrgetter_get(run, &u->getter, *item, &key) || !jinja_dict_find(run, u->seen, key, &known))
            return false;
        if (!known) return jinja_dict_set(run, u->seen, key, jv_none());
    }
}

JINJA_BUILTIN(filter_unique) {
    struct unique *u = jinja_alloc(run, 1, sizeof *u);
    if (!u) return false;
    *u = (struct unique){.attribute = args->items[1]};
    return jinja_arg_truth(run, args->items[0], false, &u->is_case_sensitive) &&
           jinja_generator(run, "generator", step_unique, self, u, result);
}

/* ---- batch, slice ---- */

struct batches {
    struct jv size, fill;
    struct jv first; /* of the next batch, when it was read already */
    /* slice */
    struct jinja_list *list;
    int64_t n_slices, at, offset;
};

static bool fill_batch(struct jinja_run *run, const struct batches *b, struct jinja_list *batch) {
    bool is_short;
    int64_t size;
    if (jinja_is_absent(b->fill)) return true;
    if (!jinja_order(run, OP_LT, jv_int((int64_t)batch->n), b->size, &is_short)) return false;
    if (!is_short) return true;
    if (!jinja_index(run, b->size, &size)) return false;
    while ((int64_t)batch->n < size)
        if (!jinja_list_append(run, batch, b->fill)) return false;
    return true;
}

static bool step_batch(struct jinja_run *run, struct jinja_iterator *it, struct jv *item, bool *is_end) {
    struct batches *b = it->state;
    struct jinja_list *batch = jinja_list_new(run, 0);
    if (!batch || (b->first.type != JV_MISSING && !jinja_list_append(run, batch, b->first))) return false;
    b->first = jv_missing();
    *item = jv_list(batch);
    for (;;) {
        struct jv next;
        bool is_full;
        if (!jinja_next_of_source(run, it, &next, is_end)) return false;
        if (*is_end) {
            *is_end = !batch->n;
            return fill_batch(run, b, batch);
        }
        if (!jinja_equal(run, jv_int((int64_t)batch->n), b->size, &is_full)) return false;
        if (is_full) {
            b->first = next;
            return true;
        }
        if (!jinja_list_append(run, batch, next)) return false;
    }
}

static struct batches *new_batches(struct jinja_run *run, const struct jinja_args *args) {
    struct batches *b = jinja_alloc(run, 1, sizeof *b);
    if (b) *b = (struct batches){.size = args->items[0], .fill = args->items[1]};
    return b;
}

JINJA_BUILTIN(filter_batch) {
    struct batches *b = new_batches(run, args);
    return b && jinja_generator(run, "generator", step_batch, self, b, result);
}

static bool start_slices(struct jinja_run *run, struct jinja_iterator *it, struct batches *b) {
    struct jv unused;
    if (!(b->list = jinja_collect(run, it->source))) return false;
    return jinja_arithmetic(run, OP_FLOORDIV, jv_int((int64_t)b->list->n), b->size, &unused) &&
           jinja_index(run, b->size, &b->n_slices);
}

static bool step_slice(struct jinja_run *run, struct jinja_iterator *it, struct jv *item, bool *is_end) {
    struct batches *b = it->state;
    if (!b->list && !start_slices(run, it, b)) return false;
    if (b->at >= b->n_slices) return *is_end = true;
    int64_t n = (int64_t)b->list->n, each = n / b->n_slices, longer = n % b->n_slices;
    int64_t from = b->offset + b->at * each;
    if (b->at < longer) b->offset++;
    int64_t to = b->offset + (b->at + 1) * each;
    struct jinja_list *part = jinja_list_of(run, n ? b->list->items + from : NULL, (size_t)(to - from));
    if (!part || (!jinja_is_absent(b->fill) && b->at >= longer && !jinja_list_append(run, part, b->fill))) return false;
    b->at++;
    *item = jv_list(part);
    return true;
}

JINJA_BUILTIN(filter_slice) {
    struct batches *b = new_batches(run, args);
    return b && jinja_generator(run, "generator", step_slice, self, b, result);
}
