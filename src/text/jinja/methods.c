/* SPDX-License-Identifier: Apache-2.0 */
/* The table of attributes, and the methods of everything but strings. */
#include "text/jinja/builtins.h"

#include "text/jinja/eval.h"
#include "text/jinja/integer.h"
#include "text/jinja/iterate.h"
#include "text/jinja/markup.h"
#include "text/jinja/operate.h"
#include "text/jinja/text.h"

#include "base/utf8.h"

#include <math.h>
#include <string.h>

#define jinja_hidden NULL
static const struct jinja_builtin attributes[] = {
#define ATTRIBUTE(name, type, function, required, n, parameters, is_property)                                          \
    {#name, jinja_##function, required, n, parameters, type, is_property},
#include "text/jinja/methods.def"
#undef ATTRIBUTE
    {NULL, NULL, 0, 0, NULL, 0, 0}};
#undef jinja_hidden

static int compare_name(const struct jinja_text *name, const char *row) {
    size_t n = strlen(row);
    int order = memcmp(name->data, row, name->length < n ? name->length : n);
    return order ? order : (name->length > n) - (name->length < n);
}

const struct jinja_builtin *jinja_find_builtin(const struct jinja_builtin *table, size_t n,
                                               const struct jinja_text *name) {
    size_t low = 0;
    while (low < n) {
        size_t middle = (low + n) / 2;
        if (compare_name(name, table[middle].name) > 0)
            low = middle + 1;
        else
            n = middle;
    }
    return table[low].name && !compare_name(name, table[low].name) ? &table[low] : NULL;
}

const struct jinja_builtin *jinja_find_methods(const struct jinja_text *name) {
    return jinja_find_builtin(attributes, sizeof attributes / sizeof *attributes - 1, name);
}

const struct jinja_builtin *jinja_method_for(const struct jinja_builtin *methods, enum jv_type type) {
    if (type == JV_BOOL || type == JV_BIG) type = JV_INT;
    for (const struct jinja_builtin *m = methods; m->name && !strcmp(m->name, methods->name); m++)
        if (m->type == type) return m;
    return NULL;
}

/* ---- arguments ---- */

bool jinja_arg_text(struct jinja_run *run, struct jv arg, struct jinja_text **text) {
    if (arg.type != JV_STRING)
        return jinja_raise(run, JINJA_TYPE, "argument must be str, not %s", jinja_type_name(arg));
    *text = arg.text;
    return true;
}

bool jinja_arg_int(struct jinja_run *run, struct jv arg, int64_t fallback, int64_t *value) {
    *value = fallback;
    return arg.type == JV_MISSING || jinja_size(run, arg, value);
}

bool jinja_arg_truth(struct jinja_run *run, struct jv arg, bool fallback, bool *value) {
    *value = fallback;
    return arg.type == JV_MISSING || jinja_truth(run, arg, value);
}

/* ---- dicts ---- */

static bool new_view(struct jinja_run *run, struct jinja_dict *dict, enum jinja_view_kind kind, struct jv *result) {
    struct jinja_view *view = jinja_alloc(run, 1, sizeof *view);
    if (!view) return false;
    *view = (struct jinja_view){.dict = dict, .kind = kind};
    *result = jv_object(JV_VIEW, view);
    return true;
}

JINJA_BUILTIN(dict_keys) {
    (void)args;
    return new_view(run, self.dict, JINJA_KEYS, result);
}

JINJA_BUILTIN(dict_values) {
    (void)args;
    return new_view(run, self.dict, JINJA_VALUES, result);
}

JINJA_BUILTIN(dict_items) {
    (void)args;
    return new_view(run, self.dict, JINJA_ITEMS, result);
}

JINJA_BUILTIN(dict_get) {
    struct jinja_entry *e;
    if (!jinja_dict_find(run, self.dict, args->items[0], &e)) return false;
    if (e)
        *result = e->value;
    else
        *result = args->items[1].type == JV_MISSING ? jv_none() : args->items[1];
    return true;
}

JINJA_BUILTIN(dict_clone) {
    (void)args;
    struct jinja_dict *copy = jinja_dict_copy(run, self.dict);
    *result = jv_dict(copy);
    return copy != NULL;
}

JINJA_BUILTIN(dict_fromkeys) {
    if (self.type == JV_FUNCTION && strcmp(self.function->name, "dict") != 0)
        return jinja_raise(run, JINJA_UNDEFINED, "'function object' has no attribute 'fromkeys'");
    struct jinja_dict *dict = jinja_dict_new(run, 0);
    struct jinja_list *keys = dict ? jinja_collect(run, args->items[0]) : NULL;
    struct jv value = args->items[1].type == JV_MISSING ? jv_none() : args->items[1];
    for (size_t i = 0; keys && i < keys->n; i++)
        if (!jinja_dict_set(run, dict, keys->items[i], value)) return false;
    *result = jv_dict(dict);
    return keys != NULL;
}

/* ---- lists, tuples, ranges ---- */

JINJA_BUILTIN(list_copy) {
    (void)args;
    struct jinja_list *copy = jinja_list_of(run, self.list->items, self.list->n);
    *result = jv_list(copy);
    return copy != NULL;
}

JINJA_BUILTIN(list_count) {
    int64_t n = 0;
    for (size_t i = 0; i < self.list->n; i++) {
        bool is_equal;
        if (!jinja_equal(run, self.list->items[i], args->items[0], &is_equal)) return false;
        n += is_equal;
    }
    return *result = jv_int(n), true;
}

static size_t bound(int64_t index, size_t n) {
    if (index < 0) index += (int64_t)n;
    return index < 0 ? 0 : (size_t)index < n ? (size_t)index : n;
}

JINJA_BUILTIN(list_index) {
    int64_t from = 0, to = INT64_MAX;
    if ((args->items[1].type != JV_MISSING && !jinja_index(run, args->items[1], &from)) ||
        (args->items[2].type != JV_MISSING && !jinja_index(run, args->items[2], &to)))
        return false;
    for (size_t i = bound(from, self.list->n), end = bound(to, self.list->n); i < end; i++) {
        bool is_equal;
        if (!jinja_equal(run, self.list->items[i], args->items[0], &is_equal)) return false;
        if (is_equal) return *result = jv_int((int64_t)i), true;
    }
    return jinja_raise(run, JINJA_VALUE, "the item is not in the %s", jinja_type_name(self));
}

/* The place of a number in a range, or -1. */
static bool place_in_range(struct jinja_run *run, const struct jinja_range *range, struct jv item, int64_t *place) {
    *place = -1;
    for (int64_t i = 0; i < range->n && *place < 0; i++) {
        bool is_equal;
        if (!jinja_equal(run, jv_int(range->start + i * range->step), item, &is_equal)) return false;
        if (is_equal) *place = i;
    }
    return true;
}

JINJA_BUILTIN(range_index) {
    int64_t place;
    if (!place_in_range(run, self.range, args->items[0], &place)) return false;
    *result = jv_int(place);
    return place >= 0 || jinja_raise(run, JINJA_VALUE, "the number is not in range");
}

JINJA_BUILTIN(range_count) {
    int64_t place;
    if (!place_in_range(run, self.range, args->items[0], &place)) return false;
    return *result = jv_int(place >= 0), true;
}

JINJA_BUILTIN(range_start) {
    JINJA_UNUSED;
    return *result = jv_int(self.range->start), true;
}

JINJA_BUILTIN(range_stop) {
    JINJA_UNUSED;
    return *result = jv_int(self.range->stop), true;
}

JINJA_BUILTIN(range_step) {
    JINJA_UNUSED;
    return *result = jv_int(self.range->step), true;
}

static bool group_part(struct jinja_run *run, struct jv self, size_t i, const char *name, struct jv *result) {
    if (self.is_markup) return *result = self.list->items[i], true;
    struct jv text; /* a plain tuple has no such attribute */
    return jinja_literal(run, name, &text) && jinja_undefined(run, self, text, result);
}

JINJA_BUILTIN(group_key) {
    (void)args;
    return group_part(run, self, 0, "grouper", result);
}

JINJA_BUILTIN(group_list) {
    (void)args;
    return group_part(run, self, 1, "list", result);
}

/* ---- numbers ---- */

JINJA_BUILTIN(number_itself) {
    JINJA_UNUSED;
    return *result = self.type == JV_BOOL ? jv_int(self.truth) : self, true;
}

JINJA_BUILTIN(int_zero) {
    JINJA_UNUSED, (void)self;
    return *result = jv_int(0), true;
}

JINJA_BUILTIN(int_one) {
    JINJA_UNUSED, (void)self;
    return *result = jv_int(1), true;
}

JINJA_BUILTIN(float_zero) {
    JINJA_UNUSED, (void)self;
    return *result = jv_float(0), true;
}

JINJA_BUILTIN(int_bit_length) {
    JINJA_UNUSED;
    if (self.type == JV_BIG) {
        uint32_t top = self.big->n - 1;
        *result = jv_int((int64_t)top * 32 + 32 - __builtin_clz(self.big->limbs[top]));
        return true;
    }
    int64_t n = jv_small(self);
    uint64_t magnitude = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    return *result = jv_int(magnitude ? 64 - __builtin_clzll(magnitude) : 0), true;
}

JINJA_BUILTIN(float_is_integer) {
    JINJA_UNUSED;
    return *result = jv_bool(isfinite(self.real) && self.real == floor(self.real)), true;
}

/* ---- other objects ---- */

JINJA_BUILTIN(bytes_decode) {
    (void)args;
    if (utf8_valid_prefix(self.text->data, self.text->length) != self.text->length)
        return jinja_raise(run, JINJA_VALUE, "'utf-8' codec can't decode the bytes");
    return jinja_borrowed(run, self.text->data, self.text->length, result);
}

JINJA_BUILTIN(macro_get_name) {
    JINJA_UNUSED;
    const struct name *name = self.macro->definition->name;
    return *result = name ? jv_text((struct jinja_text *)&name->text) : jv_none(), true;
}

JINJA_BUILTIN(macro_arguments) {
    JINJA_UNUSED;
    return *result = jv_tuple(self.macro->definition->parameter_names), true;
}

JINJA_BUILTIN(macro_caller) {
    JINJA_UNUSED;
    return *result = jv_bool(self.macro->definition->caller_slot >= 0), true;
}

JINJA_BUILTIN(macro_catch_kwargs) {
    JINJA_UNUSED;
    return *result = jv_bool(self.macro->definition->kwargs_slot >= 0), true;
}

JINJA_BUILTIN(macro_catch_varargs) {
    JINJA_UNUSED;
    return *result = jv_bool(self.macro->definition->varargs_slot >= 0), true;
}

JINJA_BUILTIN(joiner_separator) {
    JINJA_UNUSED;
    return *result = self.cycler->items->items[0], true;
}

JINJA_BUILTIN(markup_striptags) {
    (void)args;
    return jinja_strip_tags(run, self, result);
}

JINJA_BUILTIN(markup_unescape) {
    (void)args;
    return jinja_unescape(run, self, result);
}
