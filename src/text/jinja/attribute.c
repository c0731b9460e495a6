/* SPDX-License-Identifier: Apache-2.0 */
#include "text/jinja/attribute.h"

#include "text/jinja/operate.h"
#include "text/jinja/text.h"

#include <string.h>

/* Attributes that every Python object has: found, and unsafe. */
static bool is_dunder(const struct jinja_text *name) {
    static const char *const dunders[] = {
        "__class__",   "__delattr__", "__dir__",           "__doc__",         "__eq__",
        "__format__",  "__ge__",      "__getattribute__",  "__getstate__",    "__gt__",
        "__hash__",    "__init__",    "__init_subclass__", "__le__",          "__lt__",
        "__ne__",      "__new__",     "__reduce__",        "__reduce_ex__",   "__repr__",
        "__setattr__", "__sizeof__",  "__str__",           "__subclasshook__"};
    if (name->length < 6 || name->data[0] != '_' || name->data[1] != '_') return false;
    for (size_t i = 0; i < sizeof dunders / sizeof *dunders; i++)
        if (jinja_text_is(name, dunders[i])) return true;
    return false;
}

static bool unsafe(struct jinja_run *run, struct jv object, struct jinja_text *name, struct jv *result) {
    if (!jinja_undefined(run, object, jv_text(name), result)) return false;
    result->undefined->is_unsafe = true;
    return true;
}

static bool is_markup_only(const struct jinja_builtin *b) {
    return b->type == JV_STRING && (!strcmp(b->name, "striptags") || !strcmp(b->name, "unescape"));
}

/* The attribute that the object itself has; *found is false when there is none. */
static bool own_attribute(struct jinja_run *run, struct jv object, struct jinja_text *name,
                          const struct jinja_builtin *methods, bool *found, struct jv *result) {
    static const struct jinja_args no_arguments;
    *found = true;
    if (object.type == JV_NAMESPACE) {
        struct jinja_entry *e = jinja_dict_find_text(run, object.dict, name);
        if (!e && !jinja_text_is(name, "__class__")) return *found = false, true;
        if (!e || name->data[0] == '_') return unsafe(run, object, name, result);
        *result = e->value;
        return true;
    }
    const struct jinja_builtin *b = methods ? jinja_method_for(methods, (enum jv_type)object.type) : NULL;
    if (b && is_markup_only(b) && !object.is_markup) b = NULL;
    if (b && !b->call) return unsafe(run, object, name, result);
    if (b && b->needs_context) return b->call(run, object, &no_arguments, result);
    if (b) {
        struct jinja_method *m = jinja_alloc(run, 1, sizeof *m);
        if (!m) return false;
        *m = (struct jinja_method){.self = object, .builtin = b};
        *result = jv_object(JV_METHOD, m);
        return true;
    }
    if (is_dunder(name)) return unsafe(run, object, name, result);
    *found = false;
    return true;
}

static const struct jinja_block *find_block(const struct jinja_run *run, const struct jinja_text *name) {
    const struct jinja_block *b = run->template->blocks;
    while (b && !jinja_text_equal(&b->name->text, name)) b = b->next;
    return b;
}

static bool get_attribute(struct jinja_run *run, struct jv object, struct jinja_text *name,
                          const struct jinja_builtin *methods, struct jv *result) {
    bool found;
    if (object.type == JV_UNDEFINED && !is_dunder(name)) return jinja_fail_undefined(run, object.undefined);
    if (!own_attribute(run, object, name, methods, &found, result)) return false;
    if (found) return true;
    if (object.type == JV_DICT) {
        struct jinja_entry *e = jinja_dict_find_text(run, object.dict, name);
        if (e) {
            *result = e->value;
            return true;
        }
    }
    const struct jinja_block *block = object.type == JV_SELF ? find_block(run, name) : NULL;
    if (block) {
        *result = jv_object(JV_BLOCK, block);
        return true;
    }
    return jinja_undefined(run, object, jv_text(name), result);
}

bool jinja_getattr(struct jinja_run *run, struct jv object, const struct name *name, struct jv *result) {
    return get_attribute(run, object, (struct jinja_text *)&name->text, name->methods, result);
}

bool jinja_getattr_text(struct jinja_run *run, struct jv object, struct jinja_text *name, struct jv *result) {
    return get_attribute(run, object, name, jinja_find_methods(name), result);
}

bool jinja_has_attribute(struct jinja_run *run, struct jv object, struct jinja_text *name) {
    if (object.type == JV_NAMESPACE) return jinja_dict_find_text(run, object.dict, name) != NULL;
    const struct jinja_builtin *methods = jinja_find_methods(name);
    const struct jinja_builtin *b = methods ? jinja_method_for(methods, (enum jv_type)object.type) : NULL;
    return (b && (!is_markup_only(b) || object.is_markup)) || is_dunder(name);
}

static bool is_hashable(struct jv v) {
    if (v.type == JV_LIST || v.type == JV_DICT || v.type == JV_VIEW || v.type == JV_SLICE) return false;
    if (v.type == JV_TUPLE)
        for (size_t i = 0; i < v.list->n; i++)
            if (v.list->items[i].type != JV_TUPLE && !is_hashable(v.list->items[i])) return false;
    return true;
}

bool jinja_item_at(struct jinja_run *run, struct jv object, int64_t index, bool *found, struct jv *result) {
    int64_t n;
    bool has_length;
    if (!jinja_length(run, object, &n, &has_length)) return false;
    if (index < 0) index += n;
    *found = index >= 0 && index < n;
    if (!*found) return true;
    if (jv_is_sequence(object)) {
        *result = object.list->items[index];
    } else if (object.type == JV_RANGE) {
        *result = jv_int(object.range->start + index * object.range->step);
    } else if (object.type == JV_BYTES) {
        *result = jv_int((unsigned char)object.text->data[index]);
    } else {
        size_t at = jinja_text_offset(object.text, (size_t)index);
        if (!jinja_spend_bytes(run, jinja_text_is_ascii(object.text) ? 1 : at) ||
            !jinja_text_part(run, object.text, at, at + jinja_char_length(object.text->data + at), result))
            return false;
        result->is_markup = object.is_markup;
    }
    return true;
}

static bool own_item(struct jinja_run *run, struct jv object, struct jv key, bool *found, struct jv *result) {
    struct jinja_entry *e = NULL;
    *found = false;
    switch ((enum jv_type)object.type) {
    case JV_DICT:
        if (!is_hashable(key)) return true;
        if (!jinja_dict_find(run, object.dict, key, &e)) return false;
        *found = e != NULL;
        if (e) *result = e->value;
        return true;
    case JV_STRING:
    case JV_BYTES:
    case JV_LIST:
    case JV_TUPLE:
    case JV_RANGE:
        if (key.type == JV_SLICE) {
            *found = true;
            return jinja_getslice(run, object, key.slice->start, key.slice->stop, key.slice->step, result);
        }
        return !jv_is_small(key) || jinja_item_at(run, object, jv_small(key), found, result);
    case JV_SELF: {
        const struct jinja_block *b = key.type == JV_STRING ? find_block(run, key.text) : NULL;
        *found = b != NULL;
        *result = jv_object(JV_BLOCK, b);
        return true;
    }
    default: return true;
    }
}

bool jinja_getitem(struct jinja_run *run, struct jv object, struct jv key, struct jv *result) {
    bool found;
    if (object.type == JV_UNDEFINED) return jinja_fail_undefined(run, object.undefined);
    if (!own_item(run, object, key, &found, result)) return false;
    if (found) return true;
    if (key.type == JV_STRING) {
        const struct jinja_builtin *methods = jinja_find_methods(key.text);
        if (!own_attribute(run, object, key.text, methods, &found, result)) return false;
        if (found) return true;
    }
    return jinja_undefined(run, object, key, result);
}

/* ---- slices ---- */

static bool slice_part(struct jinja_run *run, struct jv v, int64_t fallback, int64_t *part) {
    *part = fallback;
    if (v.type == JV_NONE) return true;
    if (!jv_is_integer(v))
        return jinja_raise(run, JINJA_TYPE, "slice indices must be integers or None or have an __index__ method");
    return jinja_index(run, v, part);
}

static int64_t clamp(int64_t i, int64_t n, bool is_backwards) {
    if (i < 0 && (i += n) < 0) return is_backwards ? -1 : 0;
    if (i >= n) return is_backwards ? n - 1 : n;
    return i;
}

bool jinja_slice_indices(struct jinja_run *run, struct jv start, struct jv stop, struct jv step, int64_t n,
                         int64_t *first, int64_t *end, int64_t *count, int64_t *stride) {
    int64_t from, to;
    if (!slice_part(run, step, 1, stride)) return false;
    if (!*stride) return jinja_raise(run, JINJA_VALUE, "slice step cannot be zero");
    if (*stride < -INT64_MAX) *stride = -INT64_MAX;
    bool back = *stride < 0;
    if (!slice_part(run, start, back ? INT64_MAX : 0, &from) ||
        !slice_part(run, stop, back ? INT64_MIN : INT64_MAX, &to))
        return false;
    from = clamp(from, n, back);
    to = stop.type == JV_NONE && back ? -1 : clamp(to, n, back);
    *first = from;
    *end = to;
    if (back)
        *count = to < from ? (from - to - 1) / -*stride + 1 : 0;
    else
        *count = from < to ? (to - from - 1) / *stride + 1 : 0;
    return true;
}

static bool slice_text(struct jinja_run *run, struct jv object, int64_t first, int64_t count, int64_t stride,
                       struct jv *result) {
    struct jinja_text *text = object.text;
    bool is_bytes = object.type == JV_BYTES, ok = true;
    if (stride == 1 || !count) {
        size_t from = !count ? 0 : is_bytes ? (size_t)first : jinja_text_offset(text, (size_t)first);
        size_t to = !count     ? from
                    : is_bytes ? (size_t)(first + count)
                               : jinja_text_offset(text, (size_t)(first + count));
        ok = jinja_spend_bytes(run, jinja_text_is_ascii(text) ? 1 : text->length) &&
             jinja_text_part(run, text, from, to, result);
    } else {
        struct buffer out = {0};
        bool is_plain = is_bytes || jinja_text_is_ascii(text);
        size_t at = is_plain ? (size_t)first : jinja_text_offset(text, (size_t)first);
        for (int64_t i = 0; i < count && ok; i++) {
            ok = jinja_put(run, &out, text->data + at, is_plain ? 1 : jinja_char_length(text->data + at));
            if (i + 1 == count) break;
            if (is_plain)
                at = (size_t)(first + (i + 1) * stride);
            else if (stride > 0)
                for (int64_t s = 0; s < stride; s++) at += jinja_char_length(text->data + at);
            else
                for (int64_t s = 0; s > stride; s--) jinja_previous_char(text->data, &at);
        }
        ok = ok && jinja_spend_bytes(run, text->length) && jinja_string_take(run, &out, 0, result);
        buffer_free(&out);
    }
    if (ok) {
        result->type = object.type;
        result->is_markup = object.is_markup;
    }
    return ok;
}

static bool slice_list(struct jinja_run *run, struct jv object, int64_t first, int64_t count, int64_t stride,
                       struct jv *result) {
    struct jinja_list *list;
    if (stride == 1) {
        list = jinja_list_of(run, count ? object.list->items + first : NULL, (size_t)count);
    } else {
        list = jinja_list_new(run, (size_t)count);
        for (int64_t i = 0; i < count && list; i++)
            if (!jinja_list_append(run, list, object.list->items[first + i * stride])) return false;
    }
    *result = jv_object((enum jv_type)object.type, list);
    return list != NULL;
}

/* end: index of the stop, which the new range shows in its repr. */
static bool slice_range(struct jinja_run *run, const struct jinja_range *range, int64_t first, int64_t end,
                        int64_t count, int64_t stride, struct jv *result) {
    struct jinja_range *part = jinja_alloc(run, 1, sizeof *part);
    if (!part) return false;
    *part = (struct jinja_range){.start = range->start + first * range->step, .n = count};
    if (__builtin_mul_overflow(range->step, stride, &part->step) ||
        __builtin_mul_overflow(range->step, end, &part->stop) ||
        __builtin_add_overflow(part->stop, range->start, &part->stop))
        return jinja_raise(run, JINJA_LIMIT, "a range is too large");
    *result = jv_object(JV_RANGE, part);
    return true;
}

bool jinja_getslice(struct jinja_run *run, struct jv object, struct jv start, struct jv stop, struct jv step,
                    struct jv *result) {
    int64_t n, first, end, count, stride;
    bool has_length;
    if (object.type == JV_UNDEFINED) return jinja_fail_undefined(run, object.undefined);
    if (object.type == JV_DICT) return jinja_raise(run, JINJA_TYPE, "unhashable type: 'slice'");
    if (object.type < JV_STRING || object.type > JV_RANGE || object.type == JV_VIEW)
        return jinja_raise(run, JINJA_TYPE, "'%s' object is not subscriptable", jinja_type_name(object));
    if (!jinja_length(run, object, &n, &has_length) ||
        !jinja_slice_indices(run, start, stop, step, n, &first, &end, &count, &stride))
        return false;
    if (jv_is_sequence(object)) return slice_list(run, object, first, count, stride, result);
    if (object.type == JV_RANGE) return slice_range(run, object.range, first, end, count, stride, result);
    return slice_text(run, object, first, count, stride, result);
}
