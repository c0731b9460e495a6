/* SPDX-License-Identifier: Apache-2.0 */
#include "text/jinja/print.h"

#include "text/jinja/call.h"
#include "text/jinja/integer.h"
#include "text/jinja/iterate.h"
#include "text/jinja/loop.h"
#include "text/jinja/number.h"
#include "text/jinja/operate.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

#include <stdio.h>

/* One character of a string literal, escaped where Python does. */
static bool print_char(struct jinja_run *run, uint32_t c, const char *raw, size_t n, char quote, bool is_bytes,
                       struct buffer *out) {
    char text[16];
    if (c == (uint32_t)quote || c == '\\')
        snprintf(text, sizeof text, "\\%c", (char)c);
    else if (c == '\n')
        snprintf(text, sizeof text, "\\n");
    else if (c == '\r')
        snprintf(text, sizeof text, "\\r");
    else if (c == '\t')
        snprintf(text, sizeof text, "\\t");
    else if (is_bytes ? c >= 0x20 && c < 0x7f : jinja_is_printable(c))
        return jinja_put(run, out, raw, n);
    else
        snprintf(text, sizeof text, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
    return jinja_puts(run, out, text);
}

bool jinja_print_quoted(struct jinja_run *run, const char *text, size_t length, bool is_bytes, struct buffer *out) {
    bool has_single = length && memchr(text, '\'', length), has_double = length && memchr(text, '"', length);
    char quote = has_single && !has_double ? '"' : '\'';
    if (!jinja_put(run, out, &quote, 1)) return false;
    size_t at = 0, plain = 0;
    while (at < length) {
        unsigned char byte = (unsigned char)text[at];
        if (byte >= 0x20 && byte < 0x7f && byte != '\\' && byte != (unsigned char)quote) {
            at++;
            continue;
        }
        if (at > plain && !jinja_put(run, out, text + plain, at - plain)) return false;
        size_t start = at;
        uint32_t c = is_bytes ? (uint32_t)(unsigned char)text[at++] : jinja_next_char(text, &at);
        if (!print_char(run, c, text + start, at - start, quote, is_bytes, out)) return false;
        plain = at;
    }
    if (at > plain && !jinja_put(run, out, text + plain, at - plain)) return false;
    return jinja_put(run, out, &quote, 1);
}

static bool print_items(struct jinja_run *run, const struct jv *items, size_t n, struct buffer *out) {
    for (size_t i = 0; i < n; i++)
        if ((i && !jinja_put(run, out, ", ", 2)) || !jinja_print_repr(run, items[i], out)) return false;
    return true;
}

static bool print_tuple(struct jinja_run *run, const struct jv *items, size_t n, struct buffer *out) {
    return jinja_put(run, out, "(", 1) && print_items(run, items, n, out) && jinja_puts(run, out, n == 1 ? ",)" : ")");
}

static bool print_dict(struct jinja_run *run, const struct jinja_dict *dict, struct buffer *out) {
    if (!jinja_put(run, out, "{", 1)) return false;
    for (size_t i = 0; i < dict->n; i++)
        if ((i && !jinja_put(run, out, ", ", 2)) || !jinja_print_repr(run, dict->entries[i].key, out) ||
            !jinja_put(run, out, ": ", 2) || !jinja_print_repr(run, dict->entries[i].value, out))
            return false;
    return jinja_put(run, out, "}", 1);
}

static bool print_view(struct jinja_run *run, const struct jinja_view *view, struct buffer *out) {
    static const char *const names[] = {"dict_keys([", "dict_values([", "dict_items(["};
    if (!jinja_puts(run, out, names[view->kind])) return false;
    for (size_t i = 0; i < view->dict->n; i++) {
        const struct jinja_entry *e = &view->dict->entries[i];
        const struct jv pair[] = {e->key, e->value};
        if (i && !jinja_put(run, out, ", ", 2)) return false;
        if (view->kind == JINJA_ITEMS ? !print_tuple(run, pair, 2, out)
                                      : !jinja_print_repr(run, pair[view->kind == JINJA_VALUES], out))
            return false;
    }
    return jinja_puts(run, out, "])");
}

static bool print_namespace(struct jinja_run *run, struct jinja_dict *dict, struct buffer *out) {
    if (dict->is_printing) return jinja_puts(run, out, "<Namespace {...}>");
    dict->is_printing = true;
    bool ok = jinja_puts(run, out, "<Namespace ") && print_dict(run, dict, out) && jinja_put(run, out, ">", 1);
    dict->is_printing = false;
    return ok;
}

static bool print_object(struct jinja_run *run, struct jv v, struct buffer *out) {
    int64_t length;
    char text[160];
    switch ((enum jv_type)v.type) {
    case JV_MACRO: return jinja_print_macro(run, v.macro, out);
    case JV_LOOP:
        if (!jinja_loop_length(run, v.loop, &length)) return false;
        snprintf(text, sizeof text, "<LoopContext %lld/%lld>", (long long)v.loop->index0 + 1, (long long)length);
        break;
    case JV_METHOD:
        snprintf(text, sizeof text, "<built-in method %s of %s object>", v.method->builtin->name,
                 jinja_type_name(v.method->self));
        break;
    case JV_FUNCTION: snprintf(text, sizeof text, "<function %s>", v.function->name); break;
    case JV_SELF: snprintf(text, sizeof text, "<TemplateReference None>"); break;
    case JV_ITERATOR: snprintf(text, sizeof text, "<%s object>", v.iterator->type_name); break;
    case JV_MISSING: snprintf(text, sizeof text, "missing"); break;
    default: snprintf(text, sizeof text, "<%s object>", jinja_type_name(v)); break;
    }
    return jinja_puts(run, out, text);
}

static bool print_container(struct jinja_run *run, struct jv v, struct buffer *out) {
    switch ((enum jv_type)v.type) {
    case JV_LIST:
        return jinja_put(run, out, "[", 1) && print_items(run, v.list->items, v.list->n, out) &&
               jinja_put(run, out, "]", 1);
    case JV_TUPLE: return print_tuple(run, v.list->items, v.list->n, out);
    case JV_DICT: return print_dict(run, v.dict, out);
    case JV_VIEW: return print_view(run, v.view, out);
    case JV_NAMESPACE: return print_namespace(run, v.dict, out);
    case JV_SLICE: {
        const struct jv parts[] = {v.slice->start, v.slice->stop, v.slice->step};
        return jinja_puts(run, out, "slice") && print_tuple(run, parts, 3, out);
    }
    default: return print_object(run, v, out);
    }
}

bool jinja_print_repr(struct jinja_run *run, struct jv v, struct buffer *out) {
    switch ((enum jv_type)v.type) {
    case JV_UNDEFINED: return jinja_puts(run, out, "Undefined");
    case JV_NONE: return jinja_puts(run, out, "None");
    case JV_BOOL: return jinja_puts(run, out, v.truth ? "True" : "False");
    case JV_INT:
    case JV_BIG: return jinja_step(run) && jinja_int_print(run, v, 10, out);
    case JV_FLOAT: return jinja_step(run) && jinja_print_float(run, v.real, out);
    case JV_STRING:
        if (!v.is_markup) return jinja_print_quoted(run, v.text->data, v.text->length, false, out);
        return jinja_puts(run, out, "Markup(") && jinja_print_quoted(run, v.text->data, v.text->length, false, out) &&
               jinja_put(run, out, ")", 1);
    case JV_BYTES:
        return jinja_put(run, out, "b", 1) && jinja_print_quoted(run, v.text->data, v.text->length, true, out);
    case JV_RANGE:
        return (v.range->step == 1
                    ? buffer_printf(out, "range(%lld, %lld)", (long long)v.range->start, (long long)v.range->stop)
                    : buffer_printf(out, "range(%lld, %lld, %lld)", (long long)v.range->start, (long long)v.range->stop,
                                    (long long)v.range->step)) ||
               jinja_out_of_memory(run);
    default: {
        if (++run->depth > JINJA_MAX_DEPTH) return jinja_raise(run, JINJA_LIMIT, "values are nested too deeply");
        bool ok = print_container(run, v, out);
        run->depth--;
        return ok;
    }
    }
}

bool jinja_print_str(struct jinja_run *run, struct jv v, struct buffer *out) {
    if (v.type == JV_STRING) return jinja_put(run, out, v.text->data, v.text->length);
    return v.type == JV_UNDEFINED || jinja_print_repr(run, v, out);
}

bool jinja_to_str(struct jinja_run *run, struct jv v, struct jv *result) {
    if (v.type == JV_STRING) {
        *result = v;
        result->is_markup = false;
        return true;
    }
    struct buffer out = {0};
    bool ok = jinja_print_str(run, v, &out) && jinja_string_take(run, &out, 0, result);
    buffer_free(&out);
    return ok;
}

bool jinja_soft_str(struct jinja_run *run, struct jv v, struct jv *result) {
    if (v.type != JV_STRING) return jinja_to_str(run, v, result);
    *result = v;
    return true;
}

bool jinja_make_ascii(struct jinja_run *run, struct buffer *text) {
    struct buffer out = {0};
    bool ok = true;
    for (size_t at = 0; at < text->length && ok;) {
        size_t start = at;
        uint32_t c = jinja_next_char(text->data, &at);
        if (c < 0x80)
            ok = jinja_put(run, &out, text->data + start, 1);
        else
            ok = buffer_printf(&out, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
    }
    if (ok) {
        struct buffer swap = *text;
        *text = out;
        out = swap;
    } else if (!run->failure->kind) {
        jinja_out_of_memory(run);
    }
    buffer_free(&out);
    return ok;
}
