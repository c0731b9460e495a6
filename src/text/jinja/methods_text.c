/* SPDX-License-Identifier: Apache-2.0 */
/* The methods of strings. */
#include "text/jinja/attribute.h"
#include "text/jinja/builtins.h"

#include "text/jinja/format.h"
#include "text/jinja/integer.h"
#include "text/jinja/iterate.h"
#include "text/jinja/markup.h"
#include "text/jinja/operate.h"
#include "text/jinja/print.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

#include <string.h>

/* ---- case ---- */

JINJA_BUILTIN(str_upper) {
    (void)args;
    return jinja_change_case(run, JINJA_UPPER, self, result);
}

JINJA_BUILTIN(str_lower) {
    (void)args;
    return jinja_change_case(run, JINJA_LOWER, self, result);
}

JINJA_BUILTIN(str_title) {
    (void)args;
    return jinja_change_case(run, JINJA_TITLE, self, result);
}

JINJA_BUILTIN(str_capitalize) {
    (void)args;
    return jinja_change_case(run, JINJA_CAPITALIZE, self, result);
}

JINJA_BUILTIN(str_swapcase) {
    (void)args;
    return jinja_change_case(run, JINJA_SWAP, self, result);
}

JINJA_BUILTIN(str_casefold) {
    (void)args;
    return jinja_change_case(run, JINJA_FOLD, self, result);
}

/* ---- predicates ---- */

static bool all_chars(struct jv self, bool (*is)(uint32_t c), bool of_empty, struct jv *result) {
    bool all = self.text->length || of_empty;
    for (size_t at = 0; at < self.text->length && all;) all = is(jinja_next_char(self.text->data, &at));
    *result = jv_bool(all);
    return true;
}

static bool is_ascii(uint32_t c) { return c < 0x80; }

#define PREDICATE(name, function, of_empty)                                                                            \
    JINJA_BUILTIN(name) {                                                                                              \
        (void)args;                                                                                                    \
        return jinja_spend(run, self.text->length / 16 + 1) && all_chars(self, function, of_empty, result);            \
    }

PREDICATE(str_isalnum, jinja_is_alnum, false)
PREDICATE(str_isalpha, jinja_is_alpha, false)
PREDICATE(str_isascii, is_ascii, true)
PREDICATE(str_isdecimal, jinja_is_decimal, false)
PREDICATE(str_isdigit, jinja_is_digit, false)
PREDICATE(str_isnumeric, jinja_is_numeric, false)
PREDICATE(str_isprintable, jinja_is_printable, true)
PREDICATE(str_isspace, jinja_is_space, false)

JINJA_BUILTIN(str_isidentifier) {
    JINJA_UNUSED;
    size_t at = 0;
    bool is = self.text->length && jinja_is_name_start(jinja_next_char(self.text->data, &at));
    while (is && at < self.text->length) is = jinja_is_name(jinja_next_char(self.text->data, &at));
    return *result = jv_bool(is), true;
}

/* Some characters have this case, and none has the other or title case. */
static bool has_case(struct jv self, bool (*is)(uint32_t c), bool (*is_other)(uint32_t c), struct jv *result) {
    bool some = false, other = false;
    for (size_t at = 0; at < self.text->length && !other;) {
        uint32_t c = jinja_next_char(self.text->data, &at);
        some |= is(c);
        other = is_other(c) || jinja_is_title(c);
    }
    *result = jv_bool(some && !other);
    return true;
}

JINJA_BUILTIN(str_isupper) {
    (void)args;
    return jinja_spend(run, self.text->length / 16 + 1) && has_case(self, jinja_is_upper, jinja_is_lower, result);
}

JINJA_BUILTIN(str_islower) {
    (void)args;
    return jinja_spend(run, self.text->length / 16 + 1) && has_case(self, jinja_is_lower, jinja_is_upper, result);
}

JINJA_BUILTIN(str_istitle) {
    (void)args;
    bool is_title = false, in_word = false, ok = true;
    for (size_t at = 0; at < self.text->length && ok;) {
        uint32_t c = jinja_next_char(self.text->data, &at);
        bool starts = jinja_is_upper(c) || jinja_is_title(c), continues = jinja_is_lower(c);
        ok = starts ? !in_word : !continues || in_word;
        is_title |= starts || continues;
        in_word = starts || continues;
    }
    *result = jv_bool(is_title && ok);
    return jinja_spend(run, self.text->length / 16 + 1);
}

/* ---- searching ---- */

struct window {
    size_t from, to; /* byte offsets */
    bool is_empty;   /* the start lies behind the end */
};

/* The part that start and end, counted in code points, leave. */
static bool read_window(struct jinja_run *run, struct jinja_text *text, struct jv start, struct jv end,
                        struct window *w) {
    int64_t n = (int64_t)jinja_text_count(text), from = 0, to = n;
    if (!jinja_is_absent(start) && !jinja_index(run, start, &from)) return false;
    if (!jinja_is_absent(end) && !jinja_index(run, end, &to)) return false;
    if (to > n) to = n;
    if (to < 0 && (to += n) < 0) to = 0;
    if (from < 0 && (from += n) < 0) from = 0;
    w->is_empty = from > to;
    if (w->is_empty) from = to;
    w->from = jinja_text_offset(text, (size_t)from);
    w->to = jinja_text_offset(text, (size_t)to);
    return jinja_spend_search(run, text->length);
}

/* Place of the first or last occurrence as an index, -1 when there is none. */
static bool find_text(struct jinja_run *run, struct jv self, const struct jinja_args *args, bool last, int64_t *place) {
    struct jinja_text *needle;
    struct window w;
    if (!jinja_arg_text(run, args->items[0], &needle) ||
        !read_window(run, self.text, args->items[1], args->items[2], &w))
        return false;
    size_t found = w.is_empty ? SIZE_MAX
                   : last     ? jinja_find_last(self.text->data, w.from, w.to, needle->data, needle->length)
                              : jinja_find(self.text->data, w.from, w.to, needle->data, needle->length);
    *place = found == SIZE_MAX ? -1 : (int64_t)jinja_text_index(self.text, found);
    return true;
}

static bool find_or_fail(struct jinja_run *run, struct jv self, const struct jinja_args *args, bool last,
                         struct jv *result) {
    int64_t place;
    if (!find_text(run, self, args, last, &place)) return false;
    *result = jv_int(place);
    return place >= 0 || jinja_raise(run, JINJA_VALUE, "substring not found");
}

JINJA_BUILTIN(str_find) {
    int64_t place;
    return find_text(run, self, args, false, &place) && (*result = jv_int(place), true);
}

JINJA_BUILTIN(str_rfind) {
    int64_t place;
    return find_text(run, self, args, true, &place) && (*result = jv_int(place), true);
}

JINJA_BUILTIN(str_index) { return find_or_fail(run, self, args, false, result); }

JINJA_BUILTIN(str_rindex) { return find_or_fail(run, self, args, true, result); }

JINJA_BUILTIN(str_count) {
    struct jinja_text *needle;
    struct window w;
    if (!jinja_arg_text(run, args->items[0], &needle) ||
        !read_window(run, self.text, args->items[1], args->items[2], &w))
        return false;
    int64_t n = 0;
    if (w.is_empty) return *result = jv_int(0), true;
    if (!needle->length) {
        n = (int64_t)(jinja_text_index(self.text, w.to) - jinja_text_index(self.text, w.from)) + 1;
        return *result = jv_int(n), true;
    }
    for (size_t at; (at = jinja_find(self.text->data, w.from, w.to, needle->data, needle->length)) != SIZE_MAX; n++)
        w.from = at + needle->length;
    return *result = jv_int(n), true;
}

static bool ends_with(const struct jinja_text *text, const struct window *w, const struct jinja_text *part,
                      bool at_end) {
    size_t n = part->length;
    if (w->is_empty || n > w->to - w->from) return false;
    return !n || !memcmp(text->data + (at_end ? w->to - n : w->from), part->data, n);
}

/* One text, or any of a tuple. */
static bool starts_or_ends(struct jinja_run *run, struct jv self, const struct jinja_args *args, bool at_end,
                           struct jv *result) {
    struct window w;
    struct jv part = args->items[0];
    bool holds = false;
    if (!read_window(run, self.text, args->items[1], args->items[2], &w)) return false;
    if (part.type == JV_STRING) return *result = jv_bool(ends_with(self.text, &w, part.text, at_end)), true;
    if (part.type != JV_TUPLE)
        return jinja_raise(run, JINJA_TYPE, "first arg must be str or a tuple of str, not %s", jinja_type_name(part));
    for (size_t i = 0; i < part.list->n && !holds; i++) {
        struct jinja_text *text;
        if (!jinja_arg_text(run, part.list->items[i], &text)) return false;
        holds = ends_with(self.text, &w, text, at_end);
    }
    return *result = jv_bool(holds), true;
}

JINJA_BUILTIN(str_startswith) { return starts_or_ends(run, self, args, false, result); }

JINJA_BUILTIN(str_endswith) { return starts_or_ends(run, self, args, true, result); }

/* ---- stripping and splitting ---- */

static bool strip(struct jinja_run *run, struct jv self, const struct jinja_args *args, bool left, bool right,
                  struct jv *result) {
    struct jinja_text *chars = NULL;
    if (!jinja_is_absent(args->items[0]) && !jinja_arg_text(run, args->items[0], &chars)) return false;
    return jinja_strip(run, self, chars, left, right, result);
}

JINJA_BUILTIN(str_strip) { return strip(run, self, args, true, true, result); }

JINJA_BUILTIN(str_lstrip) { return strip(run, self, args, true, false, result); }

JINJA_BUILTIN(str_rstrip) { return strip(run, self, args, false, true, result); }

static bool split(struct jinja_run *run, struct jv self, const struct jinja_args *args, bool from_right,
                  struct jv *result) {
    struct jinja_text *separator = NULL;
    int64_t max;
    if (!jinja_is_absent(args->items[0]) && !jinja_arg_text(run, args->items[0], &separator)) return false;
    if (!jinja_arg_int(run, args->items[1], -1, &max)) return false;
    struct jinja_list *list = jinja_split(run, self, separator, max, from_right);
    *result = jv_list(list);
    return list != NULL;
}

JINJA_BUILTIN(str_split) { return split(run, self, args, false, result); }

JINJA_BUILTIN(str_rsplit) { return split(run, self, args, true, result); }

JINJA_BUILTIN(str_splitlines) {
    int64_t keeps;
    if (!jinja_arg_int(run, args->items[0], 0, &keeps)) return false;
    struct jinja_list *list = jinja_splitlines(run, self, keeps != 0);
    *result = jv_list(list);
    return list != NULL;
}

static bool partition(struct jinja_run *run, struct jv self, const struct jinja_args *args, bool last,
                      struct jv *result) {
    struct jinja_text *sep;
    struct jv parts[3];
    size_t length = self.text->length;
    if (!jinja_arg_text(run, args->items[0], &sep)) return false;
    if (!sep->length) return jinja_raise(run, JINJA_VALUE, "empty separator");
    size_t found = last ? jinja_find_last(self.text->data, 0, length, sep->data, sep->length)
                        : jinja_find(self.text->data, 0, length, sep->data, sep->length);
    bool is_found = found != SIZE_MAX;
    size_t from = is_found ? found : last ? 0 : length, to = is_found ? found + sep->length : from;
    if (!jinja_spend_search(run, length) || !jinja_text_part(run, self.text, 0, from, &parts[0]) ||
        !jinja_text_part(run, self.text, from, to, &parts[1]) ||
        !jinja_text_part(run, self.text, to, length, &parts[2]))
        return false;
    for (int i = 0; i < 3; i++) parts[i].is_markup = self.is_markup;
    struct jinja_list *list = jinja_list_of(run, parts, 3);
    *result = jv_tuple(list);
    return list != NULL;
}

JINJA_BUILTIN(str_partition) { return partition(run, self, args, false, result); }

JINJA_BUILTIN(str_rpartition) { return partition(run, self, args, true, result); }

static bool remove_end(struct jinja_run *run, struct jv self, const struct jinja_args *args, bool at_end,
                       struct jv *result) {
    struct jinja_text *part;
    if (!jinja_arg_text(run, args->items[0], &part)) return false;
    struct window w = {0, self.text->length, false};
    if (ends_with(self.text, &w, part, at_end)) {
        if (at_end)
            w.to -= part->length;
        else
            w.from += part->length;
    }
    if (!jinja_text_part(run, self.text, w.from, w.to, result)) return false;
    result->is_markup = self.is_markup;
    return true;
}

JINJA_BUILTIN(str_removeprefix) { return remove_end(run, self, args, false, result); }

JINJA_BUILTIN(str_removesuffix) { return remove_end(run, self, args, true, result); }

/* ---- building ---- */

JINJA_BUILTIN(str_join) {
    struct jinja_list *parts = jinja_is_iterable(args->items[0]) ? jinja_collect(run, args->items[0]) : NULL;
    if (!parts)
        return jinja_is_iterable(args->items[0]) ? false : jinja_raise(run, JINJA_TYPE, "can only join an iterable");
    struct buffer out = {0};
    bool ok = true, is_markup = self.is_markup;
    for (size_t i = 0; i < parts->n && ok; i++) {
        struct jv part = parts->items[i];
        if (is_markup)
            ok = jinja_escape(run, part, &part);
        else if (part.type != JV_STRING)
            ok = jinja_raise(run, JINJA_TYPE, "sequence item %zu: expected str instance, %s found", i,
                             jinja_type_name(part));
        ok = ok && (!i || jinja_put(run, &out, self.text->data, self.text->length)) &&
             jinja_put(run, &out, part.text->data, part.text->length);
    }
    ok = ok && jinja_string_take(run, &out, 0, result);
    buffer_free(&out);
    if (ok) result->is_markup = is_markup;
    return ok;
}

JINJA_BUILTIN(str_replace) {
    struct jinja_text *old, *new;
    struct jv with = args->items[1];
    int64_t count;
    if (!jinja_arg_text(run, args->items[0], &old) || (self.is_markup && !jinja_escape(run, with, &with)) ||
        !jinja_arg_text(run, with, &new) || !jinja_arg_int(run, args->items[2], -1, &count))
        return false;
    return jinja_replace(run, self, old, new, count, result);
}

/* The character to fill with: a blank when it is not given. */
static bool read_fill(struct jinja_run *run, struct jv self, struct jv arg, struct jinja_text **fill) {
    struct jv blank;
    if (arg.type == JV_MISSING && jinja_literal(run, " ", &blank)) arg = blank;
    if (self.is_markup && !jinja_escape(run, arg, &arg)) return false;
    if (!jinja_arg_text(run, arg, fill)) return false;
    return jinja_text_count(*fill) == 1 ||
           jinja_raise(run, JINJA_TYPE, "The fill character must be exactly one character long");
}

static bool justify(struct jinja_run *run, struct jv self, const struct jinja_args *args, bool to_right,
                    struct jv *result) {
    struct jinja_text *fill;
    int64_t width, n = (int64_t)jinja_text_count(self.text);
    if (!jinja_size(run, args->items[0], &width) || !read_fill(run, self, args->items[1], &fill)) return false;
    int64_t room = width > n ? width - n : 0;
    return jinja_pad(run, self, to_right ? room : 0, to_right ? 0 : room, fill->data, fill->length, result);
}

JINJA_BUILTIN(str_ljust) { return justify(run, self, args, false, result); }

JINJA_BUILTIN(str_rjust) { return justify(run, self, args, true, result); }

JINJA_BUILTIN(str_center) {
    struct jinja_text *fill;
    int64_t width;
    if (!jinja_size(run, args->items[0], &width) || !read_fill(run, self, args->items[1], &fill)) return false;
    return jinja_center(run, self, width, fill->data, fill->length, result);
}

JINJA_BUILTIN(str_zfill) {
    int64_t width, n = (int64_t)jinja_text_count(self.text);
    if (!jinja_size(run, args->items[0], &width)) return false;
    struct jv rest = self;
    bool has_sign = self.text->length && (*self.text->data == '+' || *self.text->data == '-');
    if (has_sign && width > n && !jinja_text_part(run, self.text, 1, self.text->length, &rest)) return false;
    if (!jinja_pad(run, rest, width > n ? width - n : 0, 0, "0", 1, result)) return false;
    struct jv sign;
    if (has_sign && width > n &&
        (!jinja_text_part(run, self.text, 0, 1, &sign) || !jinja_text_concat(run, sign.text, result->text, result)))
        return false;
    result->is_markup = self.is_markup;
    return true;
}

JINJA_BUILTIN(str_expandtabs) {
    int64_t size, column = 0;
    struct buffer out = {0};
    if (!jinja_arg_int(run, args->items[0], 8, &size)) return false;
    if (size > 1000000) return jinja_raise(run, JINJA_LIMIT, "the tab size is too large");
    bool ok = true;
    for (size_t at = 0; at < self.text->length && ok;) {
        size_t start = at;
        uint32_t c = jinja_next_char(self.text->data, &at);
        if (c != '\t') {
            ok = jinja_put(run, &out, self.text->data + start, at - start);
            column = c == '\n' || c == '\r' ? 0 : column + 1;
            continue;
        }
        for (int64_t n = size > 0 ? size - column % size : 0; n > 0 && ok; n--, column++)
            ok = jinja_put(run, &out, " ", 1);
    }
    ok = ok && jinja_string_take(run, &out, 0, result);
    buffer_free(&out);
    if (ok) result->is_markup = self.is_markup;
    return ok;
}

JINJA_BUILTIN(str_format) { return jinja_format(run, self, args, NULL, result); }

JINJA_BUILTIN(str_format_map) {
    static const struct jinja_args none;
    bool is_dict = args->items[0].type == JV_DICT; /* anything else fails when a field is looked up, not before */
    return jinja_format(run, self, &none, is_dict ? args->items[0].dict : NULL, result);
}

/* What is not ASCII is left out or becomes a question mark. */
static bool encode_ascii(struct jinja_run *run, const struct jinja_text *text, struct jv errors, struct jv *result) {
    struct jinja_text *how = NULL;
    struct buffer out = {0};
    if (errors.type != JV_MISSING && !jinja_arg_text(run, errors, &how)) return false;
    bool replaces = how && jinja_text_is(how, "replace"), ok = true;
    if (!how || (!replaces && !jinja_text_is(how, "ignore")))
        return jinja_raise(run, "UnicodeEncodeError", "'ascii' codec can't encode the text");
    for (size_t at = 0; at < text->length && ok;) {
        char c = (char)jinja_next_char(text->data, &at);
        bool is_ascii = at && (unsigned char)text->data[at - 1] < 0x80;
        if (is_ascii || replaces) ok = jinja_put(run, &out, is_ascii ? &c : "?", 1);
    }
    ok = ok && jinja_string_take(run, &out, 0, result);
    buffer_free(&out);
    if (ok) *result = jv_object(JV_BYTES, result->text);
    return ok;
}

JINJA_BUILTIN(str_encode) {
    static const char *const known[] = {"utf-8", "utf8", "UTF-8", "UTF8", "utf_8"};
    struct jinja_text *encoding = NULL, *errors;
    if (args->items[1].type != JV_MISSING && !jinja_arg_text(run, args->items[1], &errors)) return false;
    if (args->items[0].type != JV_MISSING && !jinja_arg_text(run, args->items[0], &encoding)) return false;
    bool is_ascii_name = encoding && (jinja_text_is(encoding, "ascii") || jinja_text_is(encoding, "us-ascii"));
    bool is_known = !encoding || is_ascii_name;
    for (size_t i = 0; i < sizeof known / sizeof *known && !is_known; i++) is_known = jinja_text_is(encoding, known[i]);
    if (!is_known) return jinja_raise(run, "LookupError", "unknown encoding");
    if (is_ascii_name && !jinja_text_is_ascii(self.text)) return encode_ascii(run, self.text, args->items[1], result);
    return *result = jv_object(JV_BYTES, self.text), true;
}

/* ---- translation ---- */

static bool map_char(struct jinja_run *run, struct jv table, uint32_t c, struct jv *with) {
    struct jinja_entry *e;
    bool found;
    if (table.type == JV_UNDEFINED) return jinja_fail_undefined(run, table.undefined);
    if (table.type == JV_STRING || table.type == JV_BYTES || table.type == JV_RANGE || jv_is_sequence(table)) {
        if (!jinja_item_at(run, table, c, &found, with)) return false;
        if (!found) *with = jv_int(c);
        return true;
    }
    if (table.type != JV_DICT) return jinja_raise(run, JINJA_TYPE, "'%s' object is no table", jinja_type_name(table));
    if (!jinja_dict_find(run, table.dict, jv_int(c), &e)) return false;
    *with = e ? e->value : jv_int(c);
    return true;
}

JINJA_BUILTIN(str_translate) {
    struct buffer out = {0};
    bool ok = true;
    for (size_t at = 0; at < self.text->length && ok;) {
        struct jv with;
        ok = map_char(run, args->items[0], jinja_next_char(self.text->data, &at), &with);
        if (!ok || with.type == JV_NONE) continue;
        if (with.type == JV_STRING)
            ok = jinja_put(run, &out, with.text->data, with.text->length);
        else if (!jv_is_small(with))
            ok = jinja_raise(run, JINJA_TYPE, "character mapping must return integer, None or str");
        else if (jv_small(with) < 0 || jv_small(with) > 0x10ffff || (jv_small(with) >> 11) == 27)
            ok = jinja_raise(run, JINJA_VALUE, "character mapping must be in range(0x110000)");
        else
            ok = jinja_append_char(&out, (uint32_t)jv_small(with)) || jinja_out_of_memory(run);
    }
    ok = ok && jinja_string_take(run, &out, 0, result);
    buffer_free(&out);
    if (ok) result->is_markup = self.is_markup;
    return ok;
}

static bool set_char(struct jinja_run *run, struct jinja_dict *table, uint32_t c, struct jv with) {
    return jinja_dict_set(run, table, jv_int(c), with);
}

/* From a dict: keys are characters or code points. */
static bool table_from_dict(struct jinja_run *run, const struct jinja_dict *from, struct jinja_dict *table) {
    for (size_t i = 0; i < from->n; i++) {
        struct jv key = from->entries[i].key;
        size_t at = 0;
        if (key.type == JV_STRING && jinja_text_count(key.text) != 1)
            return jinja_raise(run, JINJA_VALUE, "string keys in translate table must be of length 1");
        if (key.type != JV_STRING && !jv_is_small(key))
            return jinja_raise(run, JINJA_TYPE, "keys in translate table must be strings or integers");
        if (key.type == JV_STRING) key = jv_int(jinja_next_char(key.text->data, &at));
        if (!jinja_dict_set(run, table, key, from->entries[i].value)) return false;
    }
    return true;
}

JINJA_BUILTIN(str_maketrans) {
    (void)self;
    struct jinja_text *from, *to, *gone = NULL;
    struct jinja_dict *table = jinja_dict_new(run, 0);
    if (!table) return false;
    *result = jv_dict(table);
    if (args->items[1].type == JV_MISSING) {
        if (args->items[0].type != JV_DICT)
            return jinja_raise(run, JINJA_TYPE, "if you give only one argument to maketrans it must be a dict");
        return table_from_dict(run, args->items[0].dict, table);
    }
    if (!jinja_arg_text(run, args->items[0], &from) || !jinja_arg_text(run, args->items[1], &to) ||
        (args->items[2].type != JV_MISSING && !jinja_arg_text(run, args->items[2], &gone)))
        return false;
    if (jinja_text_count(from) != jinja_text_count(to))
        return jinja_raise(run, JINJA_VALUE, "the first two maketrans arguments must have equal length");
    for (size_t i = 0, j = 0; i < from->length;) {
        uint32_t c = jinja_next_char(from->data, &i);
        if (!set_char(run, table, c, jv_int(jinja_next_char(to->data, &j)))) return false;
    }
    for (size_t i = 0; gone && i < gone->length;)
        if (!set_char(run, table, jinja_next_char(gone->data, &i), jv_none())) return false;
    return true;
}
