/* SPDX-License-Identifier: Apache-2.0 */
#include "text/jinja/operate.h"

#include "text/jinja/integer.h"
#include "text/jinja/iterate.h"
#include "text/jinja/loop.h"
#include "text/jinja/print.h"
#include "text/jinja/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *jinja_type_name(struct jv v) {
    static const char *const names[N_JV_TYPES] = {[JV_MISSING] = "_MissingType",
                                                  [JV_UNDEFINED] = "Undefined",
                                                  [JV_NONE] = "NoneType",
                                                  [JV_BOOL] = "bool",
                                                  [JV_INT] = "int",
                                                  [JV_BIG] = "int",
                                                  [JV_FLOAT] = "float",
                                                  [JV_STRING] = "str",
                                                  [JV_BYTES] = "bytes",
                                                  [JV_LIST] = "list",
                                                  [JV_TUPLE] = "tuple",
                                                  [JV_DICT] = "dict",
                                                  [JV_RANGE] = "range",
                                                  [JV_SLICE] = "slice",
                                                  [JV_NAMESPACE] = "Namespace",
                                                  [JV_MACRO] = "Macro",
                                                  [JV_LOOP] = "LoopContext",
                                                  [JV_METHOD] = "builtin_function_or_method",
                                                  [JV_FUNCTION] = "function",
                                                  [JV_CYCLER] = "Cycler",
                                                  [JV_JOINER] = "Joiner",
                                                  [JV_SELF] = "TemplateReference",
                                                  [JV_BLOCK] = "BlockReference"};
    static const char *const views[] = {"dict_keys", "dict_values", "dict_items"};
    if (v.type == JV_VIEW) return views[v.view->kind];
    if (v.type == JV_ITERATOR) return v.iterator->type_name;
    return v.type == JV_STRING && v.is_markup ? "Markup" : names[v.type];
}

/* ---- undefined ---- */

bool jinja_undefined(struct jinja_run *run, struct jv object, struct jv name, struct jv *result) {
    struct jinja_undefined *u = jinja_alloc(run, 1, sizeof *u);
    if (!u) return false;
    *u = (struct jinja_undefined){.object = object, .name = name};
    *result = jv_object(JV_UNDEFINED, u);
    return true;
}

bool jinja_undefined_hint(struct jinja_run *run, const char *hint, struct jv *result) {
    if (!jinja_undefined(run, jv_missing(), jv_none(), result)) return false;
    result->undefined->hint = hint;
    return true;
}

bool jinja_fail_undefined(struct jinja_run *run, const struct jinja_undefined *u) {
    if (u->hint) return jinja_raise(run, JINJA_UNDEFINED, "%s", u->hint);
    struct buffer text = {0};
    bool ok = true;
    const char *kind = JINJA_UNDEFINED;
    if (u->is_unsafe) {
        ok = buffer_puts(&text, "access to attribute ") && jinja_print_repr(run, u->name, &text) &&
             buffer_printf(&text, " of '%s' object is unsafe.", jinja_type_name(u->object));
        kind = JINJA_SECURITY;
    } else if (u->object.type == JV_MISSING) {
        ok = jinja_print_repr(run, u->name, &text) && buffer_puts(&text, " is undefined");
    } else {
        const char *module = u->object.type == JV_LOOP || u->object.type == JV_MACRO         ? "jinja2.runtime."
                             : u->object.type == JV_NAMESPACE || u->object.type == JV_CYCLER ? "jinja2.utils."
                                                                                             : "";
        char object[80];
        if (u->object.type == JV_NONE)
            snprintf(object, sizeof object, "None");
        else
            snprintf(object, sizeof object, "%s%s object", module, jinja_type_name(u->object));
        bool is_attribute = u->name.type == JV_STRING;
        ok = buffer_printf(&text, is_attribute ? "'%s' has no attribute " : "%s has no element ", object) &&
             jinja_print_repr(run, u->name, &text);
    }
    if (ok && !text.failed)
        jinja_raise_text(run, kind, text.data, text.length);
    else if (!run->failure->kind)
        jinja_out_of_memory(run);
    buffer_free(&text);
    return false;
}

/* ---- truth, length ---- */

bool jinja_length(struct jinja_run *run, struct jv v, int64_t *length, bool *has_length) {
    *has_length = true;
    switch ((enum jv_type)v.type) {
    case JV_UNDEFINED: *length = 0; return true;
    case JV_STRING: *length = (int64_t)jinja_text_count(v.text); return true;
    case JV_BYTES: *length = (int64_t)v.text->length; return true;
    case JV_LIST:
    case JV_TUPLE: *length = (int64_t)v.list->n; return true;
    case JV_DICT: *length = (int64_t)v.dict->n; return true;
    case JV_VIEW: *length = (int64_t)v.view->dict->n; return true;
    case JV_RANGE: *length = v.range->n; return true;
    case JV_LOOP: return jinja_loop_length(run, v.loop, length);
    default: *has_length = false; return true;
    }
}

bool jinja_truth(struct jinja_run *run, struct jv v, bool *truth) {
    int64_t length = 1;
    bool has_length;
    switch ((enum jv_type)v.type) {
    case JV_NONE:
    case JV_UNDEFINED: *truth = false; return true;
    case JV_BOOL: *truth = v.truth; return true;
    case JV_INT: *truth = v.integer != 0; return true;
    case JV_FLOAT: *truth = v.real != 0; return true;
    case JV_STRING: *truth = v.text->length != 0; return true;
    default:
        if (!jinja_length(run, v, &length, &has_length)) return false;
        *truth = length != 0;
        return true;
    }
}

bool jinja_const_truth(struct jv v) {
    bool truth = true;
    return !jinja_truth(NULL, v, &truth) || truth; /* constants have no loops, which alone need a run */
}

bool jinja_index(struct jinja_run *run, struct jv v, int64_t *index) {
    if (jv_is_small(v)) {
        *index = jv_small(v);
        return true;
    }
    if (v.type == JV_BIG) {
        *index = jinja_int_sign(v) < 0 ? INT64_MIN : INT64_MAX;
        return true;
    }
    return jinja_raise(run, JINJA_TYPE, "'%s' object cannot be interpreted as an integer", jinja_type_name(v));
}

bool jinja_size(struct jinja_run *run, struct jv v, int64_t *size) {
    if (v.type == JV_BIG) return jinja_raise(run, JINJA_OVERFLOW, "Python int too large to convert to C ssize_t");
    return jinja_index(run, v, size);
}

/* ---- equality ---- */

int jinja_compare_numbers(struct jv a, struct jv b) {
    bool a_real = a.type == JV_FLOAT, b_real = b.type == JV_FLOAT;
    if (!a_real && !b_real) return jinja_int_compare(a, b);
    if (a_real && b_real) return isnan(a.real) || isnan(b.real) ? 2 : (a.real > b.real) - (a.real < b.real);
    double x = a_real ? a.real : b.real;
    struct jv n = a_real ? b : a;
    int order; /* of the integer n against x */
    if (isnan(x)) return 2;
    if (n.type == JV_BIG) {
        double rounded = jinja_int_to_double(n); /* beyond 2^63, where doubles are integers */
        order = isinf(x) ? (x > 0 ? -1 : 1) : (rounded > x) - (rounded < x);
    } else if (x >= 0x1p63 || x < -0x1p63) {
        order = x > 0 ? -1 : 1;
    } else {
        int64_t whole = (int64_t)x;
        order = (jv_small(n) > whole) - (jv_small(n) < whole);
        if (!order) order = (x < (double)whole) - (x > (double)whole);
    }
    return a_real ? -order : order;
}

static bool equal_lists(struct jinja_run *run, const struct jinja_list *a, const struct jinja_list *b, bool *is_equal) {
    *is_equal = a->n == b->n;
    if (a == b) return true;
    for (size_t i = 0; i < a->n && *is_equal; i++)
        if (!jinja_equal(run, a->items[i], b->items[i], is_equal)) return false;
    return true;
}

static bool equal_dicts(struct jinja_run *run, const struct jinja_dict *a, const struct jinja_dict *b, bool values,
                        bool *is_equal) {
    *is_equal = a->n == b->n;
    if (a == b) return true;
    for (size_t i = 0; i < a->n && *is_equal; i++) {
        struct jinja_entry *other;
        if (!jinja_dict_find(run, b, a->entries[i].key, &other)) return false;
        *is_equal = other != NULL;
        if (other && values && !jinja_equal(run, a->entries[i].value, other->value, is_equal)) return false;
    }
    return true;
}

static bool equal_same_type(struct jinja_run *run, struct jv a, struct jv b, bool *is_equal) {
    switch ((enum jv_type)a.type) {
    case JV_NONE:
    case JV_UNDEFINED: *is_equal = true; return true;
    case JV_STRING:
    case JV_BYTES: *is_equal = jinja_text_equal(a.text, b.text); return true;
    case JV_LIST:
    case JV_TUPLE: return equal_lists(run, a.list, b.list, is_equal);
    case JV_DICT: return equal_dicts(run, a.dict, b.dict, true, is_equal);
    case JV_VIEW:
        if (a.view->kind == JINJA_VALUES || b.view->kind != a.view->kind)
            *is_equal = a.view == b.view;
        else
            return equal_dicts(run, a.view->dict, b.view->dict, a.view->kind == JINJA_ITEMS, is_equal);
        return true;
    case JV_RANGE:
        *is_equal =
            a.range->n == b.range->n &&
            (!a.range->n || (a.range->start == b.range->start && (a.range->n == 1 || a.range->step == b.range->step)));
        return true;
    default: *is_equal = a.object == b.object; return true;
    }
}

bool jinja_equal(struct jinja_run *run, struct jv a, struct jv b, bool *is_equal) {
    if (!jinja_step(run)) return false;
    if (jv_is_number(a) && jv_is_number(b)) {
        *is_equal = jinja_compare_numbers(a, b) == 0;
        return true;
    }
    if (a.type != b.type) {
        *is_equal = false;
        return true;
    }
    if (++run->depth > JINJA_MAX_DEPTH) return jinja_raise(run, JINJA_LIMIT, "values are nested too deeply");
    bool ok = equal_same_type(run, a, b, is_equal);
    run->depth--;
    return ok;
}

bool jinja_same(struct jv a, struct jv b) {
    if (a.type != b.type) return false;
    switch ((enum jv_type)a.type) {
    case JV_NONE: return true;
    case JV_BOOL: return a.truth == b.truth;
    case JV_INT: return a.integer == b.integer && a.integer >= -5 && a.integer <= 256; /* what CPython keeps once */
    case JV_FLOAT: return false;
    case JV_STRING: return a.text == b.text || (a.text->length <= 1 && jinja_text_equal(a.text, b.text));
    default: return a.object == b.object;
    }
}

/* ---- order ---- */

static bool holds_for(enum node_op op, int order) {
    switch (op) {
    case OP_LT: return order < 0;
    case OP_LE: return order <= 0;
    case OP_GT: return order == 1;
    default: return order == 0 || order == 1;
    }
}

static bool order_lists(struct jinja_run *run, enum node_op op, const struct jinja_list *a, const struct jinja_list *b,
                        bool *holds) {
    size_t n = a->n < b->n ? a->n : b->n;
    for (size_t i = 0; i < n; i++) {
        bool is_equal;
        if (!jinja_equal(run, a->items[i], b->items[i], &is_equal)) return false;
        if (!is_equal) return jinja_order(run, op, a->items[i], b->items[i], holds);
    }
    *holds = holds_for(op, (a->n > b->n) - (a->n < b->n));
    return true;
}

bool jinja_order(struct jinja_run *run, enum node_op op, struct jv a, struct jv b, bool *holds) {
    static const char *const signs[] = {[OP_LT] = "<", [OP_LE] = "<=", [OP_GT] = ">", [OP_GE] = ">="};
    if (!jinja_step(run)) return false;
    if (jv_is_number(a) && jv_is_number(b)) {
        int order = jinja_compare_numbers(a, b);
        *holds = order != 2 && holds_for(op, order);
        return true;
    }
    if (a.type == b.type && (a.type == JV_STRING || a.type == JV_BYTES)) {
        *holds = holds_for(op, jinja_text_compare(a.text, b.text));
        return true;
    }
    if (a.type == b.type && jv_is_sequence(a)) {
        if (++run->depth > JINJA_MAX_DEPTH) return jinja_raise(run, JINJA_LIMIT, "values are nested too deeply");
        bool ok = order_lists(run, op, a.list, b.list, holds);
        run->depth--;
        return ok;
    }
    if (a.type == JV_UNDEFINED) return jinja_fail_undefined(run, a.undefined);
    if (b.type == JV_UNDEFINED) return jinja_fail_undefined(run, b.undefined);
    return jinja_raise(run, JINJA_TYPE, "'%s' not supported between instances of '%s' and '%s'", signs[op],
                       jinja_type_name(a), jinja_type_name(b));
}

/* ---- hash ---- */

static uint64_t mix(uint64_t h) {
    h *= 0x9e3779b97f4a7c15u;
    h ^= h >> 32;
    return h ? h : 1;
}

/* Equal numbers hash alike: by value where that is a 64-bit integer, else by the double. */
static uint64_t hash_number(struct jinja_run *run, struct jv v) {
    double x = v.type == JV_FLOAT ? v.real : v.type == JV_BIG ? jinja_int_to_double(v) : 0;
    if (v.type == JV_FLOAT && x >= -0x1p63 && x < 0x1p63 && x == (double)(int64_t)x) v = jv_int((int64_t)x);
    if (jv_is_small(v)) return mix((uint64_t)jv_small(v) ^ run->hash_seed);
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return mix(bits ^ ~run->hash_seed);
}

bool jinja_hash(struct jinja_run *run, struct jv v, uint64_t *hash) {
    if (!jinja_step(run)) return false;
    if (jv_is_number(v)) {
        *hash = hash_number(run, v);
        return true;
    }
    switch ((enum jv_type)v.type) {
    case JV_STRING:
    case JV_BYTES: *hash = jinja_text_hash(v.text, run->hash_seed); return true;
    case JV_NONE:
    case JV_UNDEFINED: *hash = mix(run->hash_seed + v.type); return true;
    case JV_RANGE: *hash = mix((uint64_t)v.range->n ^ run->hash_seed); return true;
    case JV_TUPLE: {
        uint64_t h = v.list->n, part;
        if (++run->depth > JINJA_MAX_DEPTH) return jinja_raise(run, JINJA_LIMIT, "values are nested too deeply");
        for (size_t i = 0; i < v.list->n; i++) {
            if (!jinja_hash(run, v.list->items[i], &part)) return false;
            h = mix(h ^ part);
        }
        run->depth--;
        *hash = mix(h + 1);
        return true;
    }
    case JV_LIST:
    case JV_DICT:
    case JV_SLICE:
    case JV_VIEW: return jinja_raise(run, JINJA_TYPE, "unhashable type: '%s'", jinja_type_name(v));
    default: *hash = mix((uint64_t)(uintptr_t)v.object); return true;
    }
}

/* ---- membership ---- */

static bool contains_by_walking(struct jinja_run *run, struct jv container, struct jv item, bool *is_in) {
    if (!jinja_is_iterable(container))
        return jinja_raise(run, JINJA_TYPE, "argument of type '%s' is not iterable", jinja_type_name(container));
    struct jinja_iterator *it = jinja_iterate(run, container);
    if (!it) return false;
    for (*is_in = false; !*is_in;) {
        struct jv candidate;
        bool is_end;
        if (!jinja_next(run, it, &candidate, &is_end)) return false;
        if (is_end) return true;
        if (!jinja_equal(run, candidate, item, is_in)) return false;
    }
    return true;
}

bool jinja_contains(struct jinja_run *run, struct jv container, struct jv item, bool *is_in) {
    struct jinja_entry *entry;
    switch ((enum jv_type)container.type) {
    case JV_STRING:
        if (item.type != JV_STRING)
            return jinja_raise(run, JINJA_TYPE, "'in <string>' requires string as left operand, not %s",
                               jinja_type_name(item));
        *is_in =
            jinja_find(container.text->data, 0, container.text->length, item.text->data, item.text->length) != SIZE_MAX;
        return jinja_spend_search(run, container.text->length);
    case JV_LIST:
    case JV_TUPLE:
        *is_in = false;
        for (size_t i = 0; i < container.list->n && !*is_in; i++)
            if (!jinja_equal(run, container.list->items[i], item, is_in)) return false;
        return true;
    case JV_DICT:
        if (!jinja_dict_find(run, container.dict, item, &entry)) return false;
        *is_in = entry != NULL;
        return true;
    case JV_VIEW:
        if (container.view->kind != JINJA_KEYS) return contains_by_walking(run, container, item, is_in);
        if (!jinja_dict_find(run, container.view->dict, item, &entry)) return false;
        *is_in = entry != NULL;
        return true;
    case JV_BYTES:
        if (item.type == JV_BYTES) {
            const struct jinja_text *text = container.text;
            *is_in = jinja_find(text->data, 0, text->length, item.text->data, item.text->length) != SIZE_MAX;
            return true;
        }
        if (!jv_is_small(item))
            return jinja_raise(run, JINJA_TYPE, "a bytes-like object is required, not '%s'", jinja_type_name(item));
        return contains_by_walking(run, container, item, is_in);
    default: return contains_by_walking(run, container, item, is_in);
    }
}

bool jinja_compare(struct jinja_run *run, enum node_op op, struct jv a, struct jv b, bool *holds) {
    if (op == OP_EQ || op == OP_NE) {
        if (!jinja_equal(run, a, b, holds)) return false;
        *holds = *holds == (op == OP_EQ);
        return true;
    }
    if (op == OP_IN || op == OP_NOT_IN) {
        if (!jinja_contains(run, b, a, holds)) return false;
        *holds = *holds == (op == OP_IN);
        return true;
    }
    return jinja_order(run, op, a, b, holds);
}
