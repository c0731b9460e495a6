/* SPDX-License-Identifier: Apache-2.0 */
/* Filters on text. */
#include "text/jinja/builtins.h"

#include "text/jinja/format.h"
#include "text/jinja/iterate.h"
#include "text/jinja/markup.h"
#include "text/jinja/operate.h"
#include "text/jinja/print.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

#include <stdio.h>
#include <string.h>

static bool cased(struct jinja_run *run, enum jinja_case to, struct jv self, struct jv *result) {
    return jinja_soft_str(run, self, &self) && jinja_change_case(run, to, self, result);
}

JINJA_BUILTIN(filter_upper) {
    (void)args;
    return cased(run, JINJA_UPPER, self, result);
}

JINJA_BUILTIN(filter_lower) {
    (void)args;
    return cased(run, JINJA_LOWER, self, result);
}

JINJA_BUILTIN(filter_capitalize) {
    (void)args;
    return cased(run, JINJA_CAPITALIZE, self, result);
}

static bool starts_word(uint32_t c) {
    return jinja_is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
}

/* Runs of words and of what stands between them: the first character of each in upper case, the rest in lower. */
JINJA_BUILTIN(filter_title) {
    (void)args;
    if (!jinja_soft_str(run, self, &self)) return false;
    const char *data = self.text->data;
    size_t length = self.text->length, first = 0;
    struct buffer out = {0};
    bool was_word = false;
    for (size_t at = 0; at < length;) {
        size_t start = at;
        uint32_t c = jinja_next_char(data, &at);
        bool is_word = !starts_word(c), is_first = !start || is_word != was_word;
        if (is_first) first = at; /* a sigma looks at its own run only */
        if (is_first)
            jinja_append_upper(&out, c);
        else {
            size_t end = at;
            while (end < length) {
                size_t next = end;
                if (!starts_word(jinja_next_char(data, &next)) != is_word) break;
                end = next;
                if (c != 0x3a3) break;
            }
            jinja_append_lower(&out, data + first, end - first, start - first);
        }
        was_word = is_word;
    }
    bool ok = jinja_spend(run, length / 4 + 1) && jinja_string_take(run, &out, 0, result);
    buffer_free(&out);
    return ok;
}

JINJA_BUILTIN(filter_string) {
    (void)args;
    return jinja_soft_str(run, self, result);
}

JINJA_BUILTIN(filter_trim) {
    struct jinja_text *chars = NULL;
    if (!jinja_soft_str(run, self, &self) ||
        (!jinja_is_absent(args->items[0]) && !jinja_arg_text(run, args->items[0], &chars)))
        return false;
    return jinja_strip(run, self, chars, true, true, result);
}

JINJA_BUILTIN(filter_center) {
    int64_t width;
    return jinja_soft_str(run, self, &self) && jinja_arg_int(run, args->items[0], 80, &width) &&
           jinja_center(run, self, width, " ", 1, result);
}

JINJA_BUILTIN(filter_replace) {
    struct jv old = args->items[0], new = args->items[1];
    int64_t count = -1;
    if (!jinja_is_absent(args->items[2]) && !jinja_size(run, args->items[2], &count)) return false;
    if (!run->autoescape)
        return jinja_to_str(run, self, &self) && jinja_to_str(run, old, &old) && jinja_to_str(run, new, &new) &&
               jinja_replace(run, self, old.text, new.text, count, result);
    bool self_is_markup = self.type == JV_STRING && self.is_markup,
         new_is_markup = new.type == JV_STRING &&new.is_markup;
    bool escapes = (old.type == JV_STRING && old.is_markup) || (new_is_markup && !self_is_markup);
    if (!(escapes ? jinja_escape(run, self, &self) : jinja_soft_str(run, self, &self)) ||
        !jinja_soft_str(run, old, &old) || !jinja_soft_str(run, new, &new) ||
        (self.is_markup && !jinja_escape(run, new, &new)))
        return false;
    return jinja_replace(run, self, old.text, new.text, count, result);
}

JINJA_BUILTIN(filter_format) {
    if (args->n && args->n_named)
        return jinja_raise(run, JINJA_FILTER_ARGUMENT,
                           "can't handle positional and keyword arguments at the same time");
    struct jv values;
    if (args->n_named) {
        struct jinja_dict *dict = jinja_dict_new(run, args->n_named);
        for (size_t i = 0; dict && i < args->n_named; i++)
            if (!jinja_dict_set(run, dict, jv_text(args->named[i].name), args->named[i].value)) return false;
        if (!dict) return false;
        values = jv_dict(dict);
    } else {
        struct jinja_list *list = jinja_list_of(run, args->items, args->n);
        if (!list) return false;
        values = jv_tuple(list);
    }
    return jinja_soft_str(run, self, &self) && jinja_percent(run, self, values, result);
}

/* ---- lines ---- */

static bool indent_lines(struct jinja_run *run, const struct jinja_list *lines, const struct jinja_text *indent,
                         bool first, bool blank, struct buffer *out) {
    for (size_t i = 0; i < lines->n; i++) {
        const struct jinja_text *line = lines->items[i].text;
        bool is_indented = i ? blank || line->length : first;
        if ((i && !jinja_put(run, out, "\n", 1)) ||
            (is_indented && !jinja_put(run, out, indent->data, indent->length)) ||
            !jinja_put(run, out, line->data, line->length))
            return false;
    }
    return true;
}

JINJA_BUILTIN(filter_indent) {
    bool first, blank, is_markup = self.type == JV_STRING && self.is_markup;
    struct jv width = args->items[0], spaces, newline;
    if (!jinja_arg_truth(run, args->items[1], false, &first) || !jinja_arg_truth(run, args->items[2], false, &blank) ||
        !jinja_literal(run, " ", &spaces) || !jinja_literal(run, "\n", &newline))
        return false;
    if (width.type == JV_MISSING) width = jv_int(4);
    if (width.type != JV_STRING && !jinja_arithmetic(run, OP_MUL, spaces, width, &width)) return false;
    if (self.type != JV_STRING && !jinja_arithmetic(run, OP_ADD, self, newline, &self)) return false;
    if (self.type != JV_STRING)
        return jinja_raise(run, JINJA_ATTRIBUTE, "'%s' object has no attribute 'splitlines'", jinja_type_name(self));
    /* jinja2 adds a line break and splits: so an empty text is one empty line, and the last line break stays */
    if (!jinja_text_concat(run, self.text, newline.text, &self)) return false;
    struct jinja_list *lines = jinja_splitlines(run, self, false);
    struct buffer out = {0};
    bool ok =
        lines && indent_lines(run, lines, width.text, first, blank, &out) && jinja_string_take(run, &out, 0, result);
    buffer_free(&out);
    if (ok) result->is_markup = is_markup;
    return ok;
}

static bool join_end(struct jinja_run *run, struct jv text, struct jv end, struct jv *result) {
    return jinja_arithmetic(run, OP_ADD, text, end, result);
}

/* len(v) or a TypeError. */
static bool length_of(struct jinja_run *run, struct jv v, int64_t *n) {
    bool has_length;
    if (!jinja_length(run, v, n, &has_length)) return false;
    return has_length || jinja_raise(run, JINJA_TYPE, "object of type '%s' has no len()", jinja_type_name(v));
}

JINJA_BUILTIN(filter_truncate) {
    struct jv end = args->items[2], limit = args->items[0], leeway = args->items[3], most;
    int64_t n, end_length, length;
    bool kills_words, is_long_enough, is_positive, fits;
    if (limit.type == JV_MISSING) limit = jv_int(255);
    if (jinja_is_absent(leeway)) leeway = jv_int(5);
    if (!jinja_arg_truth(run, args->items[1], false, &kills_words) ||
        (end.type == JV_MISSING && !jinja_literal(run, "...", &end)) || !length_of(run, end, &end_length) ||
        !jinja_compare(run, OP_GE, limit, jv_int(end_length), &is_long_enough) ||
        !jinja_compare(run, OP_GE, leeway, jv_int(0), &is_positive))
        return false;
    if (!is_long_enough || !is_positive)
        return jinja_raise(run, JINJA_ASSERTION, "expected length >= %lld and leeway >= 0", (long long)end_length);
    if (!length_of(run, self, &n) || !jinja_arithmetic(run, OP_ADD, limit, leeway, &most) ||
        !jinja_compare(run, OP_LE, jv_int(n), most, &fits))
        return false;
    if (fits) return *result = self, true;
    if (!jinja_index(run, limit, &length)) return false;
    if (self.type != JV_STRING)
        return jinja_raise(run, JINJA_TYPE, "'%s' object cannot be truncated", jinja_type_name(self));
    struct jv cut;
    if (!jinja_text_part(run, self.text, 0, jinja_text_offset(self.text, (size_t)(length - end_length)), &cut))
        return false;
    cut.is_markup = self.is_markup;
    if (!kills_words) {
        size_t space = jinja_find_last(cut.text->data, 0, cut.text->length, " ", 1);
        if (space != SIZE_MAX && !jinja_text_part(run, cut.text, 0, space, &cut)) return false;
        cut.is_markup = self.is_markup;
    }
    return join_end(run, cut, end, result);
}

JINJA_BUILTIN(filter_wordcount) {
    (void)args;
    int64_t n = 0;
    bool in_word = false;
    if (!jinja_soft_str(run, self, &self)) return false;
    for (size_t at = 0; at < self.text->length;) {
        bool is_word = jinja_is_word(jinja_next_char(self.text->data, &at));
        n += is_word && !in_word;
        in_word = is_word;
    }
    *result = jv_int(n);
    return jinja_spend(run, self.text->length / 8 + 1);
}

/* ---- HTML and URLs ---- */

JINJA_BUILTIN(filter_safe) {
    (void)args;
    if (!jinja_to_str(run, self, result)) return false;
    result->is_markup = true;
    return true;
}

JINJA_BUILTIN(filter_escape) {
    (void)args;
    return jinja_escape(run, self, result);
}

JINJA_BUILTIN(filter_forceescape) {
    (void)args;
    return jinja_to_str(run, self, &self) && jinja_escape(run, self, result);
}

JINJA_BUILTIN(filter_striptags) {
    (void)args;
    return jinja_to_str(run, self, &self) && jinja_strip_tags(run, self, result);
}

/* Percent-encodes what is not plain; a query writes a blank as '+' and encodes '/'. */
static bool quote_url(struct jinja_run *run, struct jv v, bool is_query, struct buffer *out) {
    if (v.type != JV_BYTES && !jinja_to_str(run, v, &v)) return false;
    for (size_t i = 0; i < v.text->length; i++) {
        unsigned char c = (unsigned char)v.text->data[i];
        char text[8];
        bool is_plain = c < 0x80 && (jinja_is_alnum(c) || strchr("_.-~", c) || (c == '/' && !is_query));
        if (is_plain && c)
            snprintf(text, sizeof text, "%c", c);
        else if (c == ' ' && is_query)
            snprintf(text, sizeof text, "+");
        else
            snprintf(text, sizeof text, "%%%02X", c);
        if (!jinja_puts(run, out, text)) return false;
    }
    return true;
}

static bool quote_pairs(struct jinja_run *run, struct jv pairs, struct buffer *out) {
    struct jinja_iterator *it = jinja_iterate(run, pairs);
    for (bool is_first = true; it; is_first = false) {
        struct jv pair, parts[2];
        bool is_end;
        size_t n;
        if (!jinja_next(run, it, &pair, &is_end)) return false;
        if (is_end) return true;
        if (!jinja_take(run, pair, parts, 2, &n)) return false;
        if (n != 2) return jinja_raise(run, JINJA_VALUE, "a pair was expected");
        if ((!is_first && !jinja_puts(run, out, "&")) || !quote_url(run, parts[0], true, out) ||
            !jinja_puts(run, out, "=") || !quote_url(run, parts[1], true, out))
            return false;
    }
    return false;
}

JINJA_BUILTIN(filter_urlencode) {
    (void)args;
    struct buffer out = {0};
    bool ok;
    struct jinja_view view = {.dict = self.dict, .kind = JINJA_ITEMS};
    if (self.type == JV_DICT)
        ok = quote_pairs(run, jv_object(JV_VIEW, &view), &out);
    else if (self.type == JV_STRING || !jinja_is_iterable(self))
        ok = quote_url(run, self, false, &out);
    else
        ok = quote_pairs(run, self, &out);
    ok = ok && jinja_string_take(run, &out, 0, result);
    buffer_free(&out);
    return ok;
}

static bool write_xml_attribute(struct jinja_run *run, const struct jinja_entry *e, bool is_first, struct buffer *out) {
    struct jv key, value;
    if (e->key.type != JV_STRING)
        return jinja_raise(run, JINJA_TYPE, "expected string or bytes-like object, got '%s'", jinja_type_name(e->key));
    for (size_t i = 0; i < e->key.text->length; i++)
        if (strchr(" \t\n\r\f\v/>=", e->key.text->data[i]) && e->key.text->data[i])
            return jinja_raise(run, JINJA_VALUE, "Invalid character in attribute name");
    return jinja_escape(run, e->key, &key) && jinja_escape(run, e->value, &value) &&
           (is_first || jinja_puts(run, out, " ")) && jinja_put(run, out, key.text->data, key.text->length) &&
           jinja_puts(run, out, "=\"") && jinja_put(run, out, value.text->data, value.text->length) &&
           jinja_puts(run, out, "\"");
}

JINJA_BUILTIN(filter_xmlattr) {
    bool has_space, ok = true, is_first = true;
    struct buffer out = {0};
    if (self.type == JV_UNDEFINED) return jinja_fail_undefined(run, self.undefined);
    if (self.type != JV_DICT)
        return jinja_raise(run, JINJA_ATTRIBUTE, "'%s' object has no attribute 'items'", jinja_type_name(self));
    if (!jinja_arg_truth(run, args->items[0], true, &has_space)) return false;
    for (size_t i = 0; i < self.dict->n && ok; i++) {
        const struct jinja_entry *e = &self.dict->entries[i];
        if (e->value.type == JV_NONE || e->value.type == JV_UNDEFINED) continue;
        if (is_first && has_space) ok = jinja_puts(run, &out, " ");
        ok = ok && write_xml_attribute(run, e, is_first, &out);
        is_first = false;
    }
    ok = ok && jinja_string_take(run, &out, 0, result);
    buffer_free(&out);
    if (ok) result->is_markup = run->autoescape;
    return ok;
}
