/* SPDX-License-Identifier: Apache-2.0 */
/* json.dumps: ", " and ": " between, keys in order of insertion, numbers as repr, NaN and Infinity by name. */
#include "text/jinja/print.h"

#include "text/jinja/integer.h"
#include "text/jinja/number.h"
#include "text/jinja/operate.h"
#include "text/jinja/sort.h"
#include "text/jinja/text.h"

#include <math.h>
#include <stdio.h>

struct writer {
    struct jinja_run *run;
    const struct jinja_json_options *options;
    struct buffer *out;
    int level;
};

static bool put(struct writer *w, const char *text) { return jinja_puts(w->run, w->out, text); }

static bool put_text(struct writer *w, const struct jinja_text *text) {
    return jinja_put(w->run, w->out, text->data, text->length);
}

static bool write_escape(struct writer *w, uint32_t c) {
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    char text[16];
    const char *found = c && c < 0x80 ? strchr(from, (int)c) : NULL;
    if (found)
        snprintf(text, sizeof text, "\\%c", to[found - from]);
    else if (c < 0x10000)
        snprintf(text, sizeof text, "\\u%04x", c);
    else
        snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + ((c - 0x10000) & 0x3ff));
    return put(w, text);
}

static bool write_string(struct writer *w, const struct jinja_text *text) {
    bool only_ascii = w->options->ensure_ascii;
    size_t at = 0, plain = 0;
    if (!put(w, "\"")) return false;
    while (at < text->length) {
        unsigned char byte = (unsigned char)text->data[at];
        if (byte >= 0x20 && byte != '"' && byte != '\\' && (byte < 0x7f || !only_ascii)) {
            at++;
            continue;
        }
        if (at > plain && !jinja_put(w->run, w->out, text->data + plain, at - plain)) return false;
        if (!write_escape(w, jinja_next_char(text->data, &at))) return false;
        plain = at;
    }
    if (at > plain && !jinja_put(w->run, w->out, text->data + plain, at - plain)) return false;
    return put(w, "\"");
}

static bool write_float(struct writer *w, double x) {
    if (isnan(x)) return put(w, "NaN");
    if (isinf(x)) return put(w, x > 0 ? "Infinity" : "-Infinity");
    return jinja_print_float(w->run, x, w->out);
}

static bool write_value(struct writer *w, struct jv v);

static bool line_break(struct writer *w) {
    if (!w->options->has_indent) return true;
    if (!put(w, "\n")) return false;
    for (int i = 0; i < w->level; i++)
        if (!put_text(w, w->options->indent)) return false;
    return true;
}

static bool write_list(struct writer *w, const struct jinja_list *list) {
    if (!list->n) return put(w, "[]");
    if (!put(w, "[")) return false;
    w->level++;
    for (size_t i = 0; i < list->n; i++)
        if ((i && !put_text(w, w->options->item_separator)) || !line_break(w) || !write_value(w, list->items[i]))
            return false;
    w->level--;
    return line_break(w) && put(w, "]");
}

/* Keys that are no strings are written as strings. */
static bool write_key(struct writer *w, struct jv key) {
    if (key.type == JV_STRING) return write_string(w, key.text);
    if (key.type != JV_NONE && !jv_is_number(key))
        return jinja_raise(w->run, JINJA_TYPE, "keys must be str, int, float, bool or None, not %s",
                           jinja_type_name(key));
    return put(w, "\"") && write_value(w, key) && put(w, "\"");
}

static bool write_dict(struct writer *w, const struct jinja_dict *dict) {
    if (!dict->n) return put(w, "{}");
    struct jinja_entry *entries = dict->entries;
    if (w->options->sort_keys && !(entries = jinja_sorted_entries(w->run, dict))) return false;
    if (!put(w, "{")) return false;
    w->level++;
    for (size_t i = 0; i < dict->n; i++)
        if ((i && !put_text(w, w->options->item_separator)) || !line_break(w) || !write_key(w, entries[i].key) ||
            !put_text(w, w->options->key_separator) || !write_value(w, entries[i].value))
            return false;
    w->level--;
    return line_break(w) && put(w, "}");
}

static bool write_container(struct writer *w, struct jv v) {
    if (++w->run->depth > JINJA_MAX_DEPTH || w->level > JINJA_MAX_NESTING * 2)
        return jinja_raise(w->run, JINJA_LIMIT, "values are nested too deeply");
    bool ok = v.type == JV_DICT ? write_dict(w, v.dict) : write_list(w, v.list);
    w->run->depth--;
    return ok;
}

static bool write_value(struct writer *w, struct jv v) {
    switch ((enum jv_type)v.type) {
    case JV_NONE: return put(w, "null");
    case JV_BOOL: return put(w, v.truth ? "true" : "false");
    case JV_INT:
    case JV_BIG: return jinja_step(w->run) && jinja_int_print(w->run, v, 10, w->out);
    case JV_FLOAT: return jinja_step(w->run) && write_float(w, v.real);
    case JV_STRING: return write_string(w, v.text);
    case JV_LIST:
    case JV_TUPLE:
    case JV_DICT: return write_container(w, v);
    default: return jinja_raise(w->run, JINJA_TYPE, "Object of type %s is not JSON serializable", jinja_type_name(v));
    }
}

bool jinja_print_json(struct jinja_run *run, struct jv v, const struct jinja_json_options *options,
                      struct buffer *out) {
    struct writer w = {.run = run, .options = options, .out = out};
    return write_value(&w, v);
}
