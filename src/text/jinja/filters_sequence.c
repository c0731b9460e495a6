/* SPDX-License-Identifier: Apache-2.0 */
/* Filters on sequences and mappings that give their result at once. */
#include "text/jinja/builtins.h"

#include "base/rng.h"
#include "text/jinja/attrgetter.h"
#include "text/jinja/attribute.h"
#include "text/jinja/iterate.h"
#include "text/jinja/markup.h"
#include "text/jinja/operate.h"
#include "text/jinja/print.h"
#include "text/jinja/sort.h"
#include "text/jinja/text.h"

#include <string.h>

static const struct jinja_builtin filters[] = {
#define FILTER(name, function, required, n, parameters, needs_context)                                                 \
    {#name, jinja_##function, required, n, parameters, 0, needs_context},
#include "text/jinja/filters.def"
#undef FILTER
    {NULL, NULL, 0, 0, NULL, 0, 0}};

const struct jinja_builtin *jinja_find_filter(const struct jinja_text *name) {
    return jinja_find_builtin(filters, sizeof filters / sizeof *filters - 1, name);
}

JINJA_BUILTIN(filter_length) {
    (void)args;
    int64_t n;
    bool has_length;
    if (!jinja_length(run, self, &n, &has_length)) return false;
    *result = jv_int(n);
    return has_length || jinja_raise(run, JINJA_TYPE, "object of type '%s' has no len()", jinja_type_name(self));
}

JINJA_BUILTIN(filter_list) {
    (void)args;
    struct jinja_list *list = jinja_collect(run, self);
    *result = jv_list(list);
    return list != NULL;
}

JINJA_BUILTIN(filter_first) {
    (void)args;
    struct jinja_iterator *it = jinja_iterate(run, self);
    bool is_end;
    if (!it || !jinja_next(run, it, result, &is_end)) return false;
    return !is_end || jinja_undefined_hint(run, "No first item, sequence was empty.", result);
}

JINJA_BUILTIN(filter_last) {
    (void)args;
    bool is_reversible, is_end;
    struct jinja_iterator *it = jinja_reversed(run, self, &is_reversible);
    if (!is_reversible) return jinja_raise(run, JINJA_TYPE, "'%s' object is not reversible", jinja_type_name(self));
    if (!it || !jinja_next(run, it, result, &is_end)) return false;
    return !is_end || jinja_undefined_hint(run, "No last item, sequence was empty.", result);
}

JINJA_BUILTIN(filter_reverse) {
    (void)args;
    bool is_reversible;
    if (self.type == JV_STRING) return jinja_getslice(run, self, jv_none(), jv_none(), jv_int(-1), result);
    struct jinja_iterator *it = jinja_reversed(run, self, &is_reversible);
    if (is_reversible) return *result = jv_object(JV_ITERATOR, it), it != NULL;
    if (!jinja_is_iterable(self)) return jinja_raise(run, JINJA_FILTER_ARGUMENT, "argument must be iterable");
    struct jinja_list *list = jinja_collect(run, self);
    return list && jinja_getslice(run, jv_list(list), jv_none(), jv_none(), jv_int(-1), result);
}

JINJA_BUILTIN(filter_random) {
    (void)args;
    int64_t n;
    bool has_length;
    if (!jinja_length(run, self, &n, &has_length)) return false;
    if (!has_length) return jinja_raise(run, JINJA_TYPE, "object of type '%s' has no len()", jinja_type_name(self));
    if (!n) return jinja_undefined_hint(run, "No random item, sequence was empty.", result);
    if (self.type == JV_DICT || self.type == JV_VIEW) return jinja_raise(run, JINJA_KEY, "no such key");
    return jinja_getitem(run, self, jv_int((int64_t)(rng_next(&run->random_state) % (uint64_t)n)), result);
}

JINJA_BUILTIN(filter_attr) {
    struct jinja_text *name;
    if (!jinja_arg_text(run, args->items[0], &name)) return false;
    bool is_internal = name->length > 1 && !memcmp(name->data, "__", 2); /* an undefined value has such attributes */
    if (self.type == JV_UNDEFINED && !is_internal) return jinja_fail_undefined(run, self.undefined);
    if (jinja_has_attribute(run, self, name)) return jinja_getattr_text(run, self, name, result);
    return jinja_undefined(run, self, args->items[0], result);
}

JINJA_BUILTIN(filter_default) {
    bool by_truth, truth = true;
    if (!jinja_arg_truth(run, args->items[1], false, &by_truth)) return false;
    if (self.type != JV_UNDEFINED && by_truth && !jinja_truth(run, self, &truth)) return false;
    *result = self;
    if (self.type != JV_UNDEFINED && truth) return true;
    if (args->items[0].type == JV_MISSING) return jinja_literal(run, "", result);
    *result = args->items[0];
    return true;
}

/* ---- join ---- */

/* Where escaping is on, one markup among the items or the separator makes all of it markup. */
static bool join_escaped(struct jinja_run *run, struct jinja_list *list, struct jv separator, struct jv *result) {
    bool is_markup = separator.is_markup;
    for (size_t i = 0; i < list->n; i++) is_markup |= list->items[i].type == JV_STRING && list->items[i].is_markup;
    struct buffer out = {0};
    bool ok = is_markup ? jinja_escape(run, separator, &separator) : jinja_to_str(run, separator, &separator);
    for (size_t i = 0; i < list->n && ok; i++) {
        struct jv part = list->items[i];
        ok = (is_markup ? jinja_escape(run, part, &part) : jinja_to_str(run, part, &part)) &&
             (!i || jinja_put(run, &out, separator.text->data, separator.text->length)) &&
             jinja_put(run, &out, part.text->data, part.text->length);
    }
    ok = ok && jinja_string_take(run, &out, 0, result);
    buffer_free(&out);
    if (ok) result->is_markup = is_markup;
    return ok;
}

JINJA_BUILTIN(filter_join) {
    struct jv separator = args->items[0];
    struct jinja_attrgetter getter;
    if ((separator.type == JV_MISSING && !jinja_literal(run, "", &separator)) ||
        !jinja_attrgetter_init(run, args->items[1], &getter))
        return false;
    struct jinja_list *list = jinja_collect(run, self);
    for (size_t i = 0; list && i < list->n; i++)
        if (!jinja_attrgetter_get(run, &getter, list->items[i], &list->items[i])) return false;
    if (!list) return false;
    if (run->autoescape) return join_escaped(run, list, separator, result);
    struct buffer out = {0};
    bool ok = jinja_to_str(run, separator, &separator);
    for (size_t i = 0; i < list->n && ok; i++)
        ok = (!i || jinja_put(run, &out, separator.text->data, separator.text->length)) &&
             jinja_print_str(run, list->items[i], &out);
    ok = ok && jinja_string_take(run, &out, 0, result);
    buffer_free(&out);
    return ok;
}

/* ---- order ---- */

/* Keys for several attributes, "a,b": lists, which Python compares item by item. */
static bool sort_keys(struct jinja_run *run, struct jv attribute, bool ignores_case, struct jinja_list *list,
                      struct jinja_sort_item *items) {
    struct jv whole = attribute;
    struct jinja_list *names = NULL;
    if (attribute.type == JV_STRING) {
        struct jinja_text comma = {.data = ",", .length = 1, .n_chars = 1};
        if (!(names = jinja_split(run, attribute, &comma, -1, false))) return false;
    } else if (!(names = jinja_list_of(run, &whole, 1))) {
        return false;
    }
    struct jinja_attrgetter *getters = jinja_alloc(run, names->n, sizeof *getters);
    for (size_t i = 0; getters && i < names->n; i++) {
        if (!jinja_attrgetter_init(run, names->items[i], &getters[i])) return false;
        getters[i].ignores_case = ignores_case;
    }
    for (size_t i = 0; getters && i < list->n; i++) {
        struct jinja_list *key = jinja_list_new(run, names->n);
        for (size_t j = 0; key && j < names->n; j++) {
            struct jv part;
            if (!jinja_attrgetter_get(run, &getters[j], list->items[i], &part) || !jinja_list_append(run, key, part))
                return false;
        }
        if (!key) return false;
        items[i] = (struct jinja_sort_item){.key = jv_list(key), .value = list->items[i]};
    }
    return getters != NULL;
}

static bool sorted_values(struct jinja_run *run, struct jinja_sort_item *items, size_t n, bool is_descending,
                          struct jinja_list **list) {
    if (!jinja_sort(run, items, n, is_descending) || !(*list = jinja_list_new(run, n))) return false;
    for (size_t i = 0; i < n; i++)
        if (!jinja_list_append(run, *list, items[i].value)) return false;
    return true;
}

JINJA_BUILTIN(filter_sort) {
    bool is_descending, is_case_sensitive;
    struct jinja_list *list, *sorted;
    if (!jinja_arg_truth(run, args->items[1], false, &is_case_sensitive) || !(list = jinja_collect(run, self)))
        return false;
    if (args->items[0].type != JV_MISSING && args->items[0].type != JV_BOOL && !jv_is_small(args->items[0]))
        return jinja_raise(run, JINJA_TYPE, "an integer is required for reverse");
    struct jinja_sort_item *items = jinja_alloc(run, list->n + 1, sizeof *items);
    if (!items || !jinja_arg_truth(run, args->items[0], false, &is_descending) ||
        !sort_keys(run, args->items[2], !is_case_sensitive, list, items) ||
        !sorted_values(run, items, list->n, is_descending, &sorted))
        return false;
    return *result = jv_list(sorted), true;
}

JINJA_BUILTIN(filter_dictsort) {
    bool is_case_sensitive, is_descending, by_value = false;
    if (self.type == JV_UNDEFINED) return jinja_fail_undefined(run, self.undefined);
    if (self.type != JV_DICT)
        return jinja_raise(run, JINJA_ATTRIBUTE, "'%s' object has no attribute 'items'", jinja_type_name(self));
    if (args->items[1].type != JV_MISSING) {
        struct jv by = args->items[1];
        by_value = by.type == JV_STRING && jinja_text_is(by.text, "value");
        if (!by_value && !(by.type == JV_STRING && jinja_text_is(by.text, "key")))
            return jinja_raise(run, JINJA_FILTER_ARGUMENT, "You can only sort by either \"key\" or \"value\"");
    }
    if (!jinja_arg_truth(run, args->items[0], false, &is_case_sensitive) ||
        !jinja_arg_truth(run, args->items[2], false, &is_descending))
        return false;
    size_t n = self.dict->n;
    struct jinja_sort_item *items = jinja_alloc(run, n + 1, sizeof *items);
    for (size_t i = 0; items && i < n; i++) {
        struct jv pair[] = {self.dict->entries[i].key, self.dict->entries[i].value}, key = pair[by_value];
        struct jinja_list *tuple = jinja_list_of(run, pair, 2);
        if (!tuple || (!is_case_sensitive && key.type == JV_STRING && !jinja_change_case(run, JINJA_LOWER, key, &key)))
            return false;
        items[i] = (struct jinja_sort_item){.key = key, .value = jv_tuple(tuple)};
    }
    struct jinja_list *sorted;
    if (!items || !sorted_values(run, items, n, is_descending, &sorted)) return false;
    return *result = jv_list(sorted), true;
}

static bool extreme(struct jinja_run *run, struct jv self, const struct jinja_args *args, enum node_op op,
                    struct jv *result) {
    struct jinja_attrgetter getter;
    bool is_case_sensitive, is_end, replaces;
    struct jv item, key, best_key;
    struct jinja_iterator *it = jinja_iterate(run, self);
    if (!it || !jinja_next(run, it, result, &is_end)) return false;
    if (is_end) return jinja_undefined_hint(run, "No aggregated item, sequence was empty.", result);
    if (!jinja_arg_truth(run, args->items[0], false, &is_case_sensitive) ||
        !jinja_attrgetter_init(run, args->items[1], &getter))
        return false;
    getter.ignores_case = !is_case_sensitive;
    if (!jinja_attrgetter_get(run, &getter, *result, &best_key)) return false;
    for (;;) {
        if (!jinja_next(run, it, &item, &is_end)) return false;
        if (is_end) return true;
        if (!jinja_attrgetter_get(run, &getter, item, &key) || !jinja_order(run, op, key, best_key, &replaces))
            return false;
        if (!replaces) continue;
        *result = item;
        best_key = key;
    }
}

JINJA_BUILTIN(filter_min) { return extreme(run, self, args, OP_LT, result); }

JINJA_BUILTIN(filter_max) { return extreme(run, self, args, OP_GT, result); }

JINJA_BUILTIN(filter_sum) {
    struct jinja_attrgetter getter;
    struct jv total = args->items[1].type == JV_MISSING ? jv_int(0) : args->items[1], item;
    struct jinja_iterator *it = jinja_iterate(run, self);
    if (!it || !jinja_attrgetter_init(run, args->items[0], &getter)) return false;
    if (total.type == JV_STRING || total.type == JV_BYTES)
        return jinja_raise(run, JINJA_TYPE, "sum() can't sum strings [use ''.join(seq) instead]");
    for (;;) {
        bool is_end;
        if (!jinja_next(run, it, &item, &is_end)) return false;
        if (is_end) return *result = total, true;
        if (!jinja_attrgetter_get(run, &getter, item, &item) || !jinja_arithmetic(run, OP_ADD, total, item, &total))
            return false;
    }
}

/* ---- groups ---- */

static bool add_group(struct jinja_run *run, struct jinja_list *groups, struct jv key, struct jinja_list *members) {
    struct jv pair[] = {key, jv_list(members)};
    struct jinja_list *tuple = jinja_list_of(run, pair, 2);
    struct jv group = jv_tuple(tuple);
    group.is_markup = true; /* has the attributes grouper and list */
    return tuple && jinja_list_append(run, groups, group);
}

JINJA_BUILTIN(filter_groupby) {
    struct jinja_attrgetter getter, plain;
    bool is_case_sensitive;
    struct jinja_list *list = jinja_collect(run, self), *groups = list ? jinja_list_new(run, 0) : NULL;
    struct jinja_sort_item *items = groups ? jinja_alloc(run, list->n + 1, sizeof *items) : NULL;
    if (!items || !jinja_arg_truth(run, args->items[2], false, &is_case_sensitive) ||
        !jinja_attrgetter_init(run, args->items[0], &getter))
        return false;
    getter.fallback = args->items[1];
    plain = getter;
    getter.ignores_case = !is_case_sensitive;
    for (size_t i = 0; i < list->n; i++) {
        items[i].value = list->items[i];
        if (!jinja_attrgetter_get(run, &getter, list->items[i], &items[i].key)) return false;
    }
    if (!jinja_sort(run, items, list->n, false)) return false;
    for (size_t i = 0; i < list->n;) {
        struct jinja_list *members = jinja_list_new(run, 0);
        struct jv key;
        bool is_same = true;
        size_t first = i;
        for (; members && i < list->n && is_same; i += is_same) {
            if (!jinja_equal(run, items[first].key, items[i].key, &is_same)) return false;
            if (is_same && !jinja_list_append(run, members, items[i].value)) return false;
        }
        if (!members || !jinja_attrgetter_get(run, &plain, items[first].value, &key) ||
            !add_group(run, groups, key, members))
            return false;
        if (i == first) i++; /* a key that does not equal itself */
    }
    return *result = jv_list(groups), true;
}

/* ---- tojson ---- */

static bool read_separators(struct jinja_run *run, struct jv arg, struct jinja_json_options *options) {
    struct jv pair[2];
    size_t n;
    if (!jinja_take(run, arg, pair, 2, &n)) return false;
    if (n != 2) return jinja_raise(run, JINJA_VALUE, "two separators are expected");
    struct jinja_text *between, *after_key;
    if (!jinja_arg_text(run, pair[0], &between) || !jinja_arg_text(run, pair[1], &after_key)) return false;
    options->item_separator = between;
    options->key_separator = after_key;
    return true;
}

/* A number of blanks, or the text itself. */
static bool read_indent(struct jinja_run *run, struct jv arg, struct jinja_json_options *options) {
    struct jv blank;
    options->has_indent = true;
    if (arg.type == JV_STRING) return options->indent = arg.text, true;
    if (!jv_is_integer(arg))
        return jinja_raise(run, JINJA_TYPE, "can't multiply sequence by non-int of type '%s'", jinja_type_name(arg));
    if (!jinja_literal(run, " ", &blank) || !jinja_arithmetic(run, OP_MUL, blank, arg, &blank)) return false;
    options->indent = blank.text;
    return true;
}

JINJA_BUILTIN(filter_tojson) {
    static const struct jinja_text comma_space = {.data = ", ", .length = 2, .n_chars = 2},
                                   comma = {.data = ",", .length = 1, .n_chars = 1},
                                   colon_space = {.data = ": ", .length = 2, .n_chars = 2};
    struct jinja_json_options options = {.item_separator = &comma_space, .key_separator = &colon_space};
    struct buffer out = {0};
    if (!jinja_arg_truth(run, args->items[0], false, &options.ensure_ascii) ||
        !jinja_arg_truth(run, args->items[3], false, &options.sort_keys))
        return false;
    if (!jinja_is_absent(args->items[1])) {
        options.item_separator = &comma;
        if (self.type != JV_STRING && !read_indent(run, args->items[1], &options)) return false;
    }
    if (!jinja_is_absent(args->items[2]) && !read_separators(run, args->items[2], &options)) return false;
    bool ok = jinja_print_json(run, self, &options, &out) && jinja_string_take(run, &out, 0, result);
    buffer_free(&out);
    return ok;
}
