/* SPDX-License-Identifier: Apache-2.0 */
/* The % operator of strings: %(key)#0- +*.*d and its relatives. */
#include "text/jinja/format.h"

#include "base/utf8.h"
#include "text/jinja/attribute.h"
#include "text/jinja/integer.h"
#include "text/jinja/markup.h"
#include "text/jinja/operate.h"
#include "text/jinja/print.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

#include <math.h>
#include <string.h>

struct percent {
    struct jinja_run *run;
    const char *text;
    size_t length, at;
    struct jv values, mapping; /* mapping: JV_MISSING when %(key) is not allowed */
    struct jv single;          /* the one value when there is no tuple */
    size_t n, used;
    bool escapes;
};

/* What has items by key: a single value of these types need not be used up. */
static bool is_mapping(struct jv v) {
    return v.type == JV_DICT || v.type == JV_LIST || v.type == JV_RANGE || v.type == JV_BYTES ||
           v.type == JV_UNDEFINED || v.type == JV_SELF;
}

static bool next_value(struct percent *p, struct jv *value) {
    if (p->used >= p->n) return jinja_raise(p->run, JINJA_TYPE, "not enough arguments for format string");
    *value = p->values.type == JV_TUPLE ? p->values.list->items[p->used] : p->single;
    p->used++;
    return true;
}

/* (key) : from now on the value of that key is the only value. */
static bool read_key(struct percent *p) {
    size_t start = p->at + 1, end = start;
    int open = 1;
    if (p->mapping.type == JV_MISSING) return jinja_raise(p->run, JINJA_TYPE, "format requires a mapping");
    for (; end < p->length; end++) {
        open += (p->text[end] == '(') - (p->text[end] == ')');
        if (!open) break;
    }
    if (open) return jinja_raise(p->run, JINJA_VALUE, "incomplete format key");
    struct jv key;
    struct jinja_entry *e = NULL;
    if (!jinja_string(p->run, p->text + start, end - start, &key)) return false;
    if (p->mapping.type == JV_UNDEFINED) return jinja_fail_undefined(p->run, p->mapping.undefined);
    if (p->mapping.type == JV_DICT)
        e = jinja_dict_find_text(p->run, p->mapping.dict, key.text);
    else
        return jinja_raise(p->run, JINJA_TYPE, "%s indices must be integers", jinja_type_name(p->mapping));
    if (!e) return jinja_raise_text(p->run, JINJA_KEY, key.text->data, key.text->length);
    p->values = jv_none();
    p->single = e->value;
    p->n = 1;
    p->used = 0;
    p->at = end + 1;
    return true;
}

/* Digits or '*'. */
static bool read_count(struct percent *p, int64_t *count) {
    if (p->at < p->length && p->text[p->at] == '*') {
        struct jv value;
        p->at++;
        if (!next_value(p, &value)) return false;
        if (!jv_is_integer(value)) return jinja_raise(p->run, JINJA_TYPE, "* wants int");
        return jinja_index(p->run, value, count);
    }
    for (*count = 0; p->at < p->length && p->text[p->at] >= '0' && p->text[p->at] <= '9'; p->at++) {
        *count = *count * 10 + (p->text[p->at] - '0');
        if (*count > INT32_MAX) return jinja_raise(p->run, JINJA_VALUE, "width or precision too big");
    }
    return true;
}

static bool read_layout(struct percent *p, struct jinja_layout *l) {
    bool left = false, zero = false;
    *l = (struct jinja_layout){.fill = " ", .align = '>', .width = -1, .precision = -1};
    if (p->at < p->length && p->text[p->at] == '(' && !read_key(p)) return false;
    for (; p->at < p->length && p->text[p->at] && strchr("-+ #0", p->text[p->at]); p->at++) {
        char c = p->text[p->at];
        if (c == '-')
            left = true;
        else if (c == '0')
            zero = true;
        else if (c == '#')
            l->is_alternate = true;
        else if (c == '+' || l->sign != '+')
            l->sign = c;
    }
    if (!read_count(p, &l->width)) return false;
    if (l->width < 0) {
        left = true;
        l->width = l->width == INT64_MIN ? INT64_MAX : -l->width;
    }
    if (p->at < p->length && p->text[p->at] == '.') {
        p->at++;
        if (!read_count(p, &l->precision)) return false;
        if (l->precision < 0) l->precision = 0;
    }
    if (p->at < p->length && p->text[p->at] && strchr("hlL", p->text[p->at])) p->at++;
    if (left)
        l->align = '<';
    else if (zero) {
        strcpy(l->fill, "0");
        l->align = '=';
    }
    if (p->at >= p->length) return jinja_raise(p->run, JINJA_VALUE, "incomplete format");
    l->type = p->text[p->at];
    return true;
}

static void use_blanks(struct jinja_layout *l) {
    strcpy(l->fill, " ");
    if (l->align == '=') l->align = '>';
}

static bool write_text(struct percent *p, struct jinja_layout *l, struct jv v, struct buffer *out) {
    struct buffer text = {0};
    struct jv value = v;
    bool ok = true;
    if (l->type != 's') {
        ok = jinja_print_repr(p->run, v, &text) && (l->type == 'r' || jinja_make_ascii(p->run, &text)) &&
             jinja_string_take(p->run, &text, 0, &value);
    } else if (!p->escapes) {
        ok = jinja_to_str(p->run, v, &value);
    }
    buffer_free(&text);
    if (!ok || (p->escapes && !jinja_escape(p->run, value, &value))) return false;
    use_blanks(l);
    return jinja_layout_text(p->run, l, value.text, out);
}

static bool write_char(struct percent *p, struct jinja_layout *l, struct jv v, struct buffer *out) {
    char bytes[4];
    struct jinja_text *text = v.text;
    if (v.type != JV_STRING) {
        if (!jv_is_integer(v)) return jinja_raise(p->run, JINJA_TYPE, "%%c requires int or char");
        if (!jv_is_small(v) || jv_small(v) < 0 || jv_small(v) > 0x10ffff)
            return jinja_raise(p->run, JINJA_OVERFLOW, "%%c arg not in range(0x110000)");
        if (!(text = jinja_text_copy(p->run, bytes, utf8_encode((uint32_t)jv_small(v), bytes)))) return false;
    } else if (jinja_text_count(text) != 1) {
        return jinja_raise(p->run, JINJA_TYPE, "%%c requires int or char");
    }
    use_blanks(l);
    l->precision = -1;
    return jinja_layout_text(p->run, l, text, out);
}

static bool write_integer(struct percent *p, struct jinja_layout *l, struct jv v, struct buffer *out) {
    bool is_decimal = strchr("diu", l->type) != NULL;
    if (v.type == JV_UNDEFINED && is_decimal) return jinja_fail_undefined(p->run, v.undefined);
    if (v.type == JV_FLOAT && is_decimal) {
        if (!isfinite(v.real))
            return jinja_raise(p->run, isnan(v.real) ? JINJA_VALUE : JINJA_OVERFLOW, "cannot convert float to integer");
        if (!jinja_int_from_double(p->run, trunc(v.real), &v)) return false;
    }
    if (!jv_is_integer(v))
        return jinja_raise(p->run, JINJA_TYPE, "%%%c format: %s is required, not %s", l->type,
                           is_decimal ? "a real number" : "an integer", jinja_type_name(v));
    if (is_decimal) l->type = 'd';
    return jinja_layout_integer(p->run, l, v, out);
}

static bool write_float(struct percent *p, struct jinja_layout *l, struct jv v, struct buffer *out) {
    if (v.type == JV_UNDEFINED) return jinja_fail_undefined(p->run, v.undefined);
    if (!jv_is_number(v)) return jinja_raise(p->run, JINJA_TYPE, "must be real number, not %s", jinja_type_name(v));
    return jinja_layout_float(p->run, l, v, out);
}

static bool write_value(struct percent *p, struct jinja_layout *l, struct buffer *out) {
    struct jv v;
    char c = l->type;
    p->at++;
    if (c == '%') return jinja_put(p->run, out, "%", 1);
    if (!c || !strchr("sradiuoxXeEfFgGc", c))
        return jinja_raise(p->run, JINJA_VALUE, "unsupported format character '%c' at index %zu", c ? c : '?',
                           p->at - 1);
    if (!next_value(p, &v)) return false;
    if (strchr("sra", c)) return write_text(p, l, v, out);
    if (c == 'c') return write_char(p, l, v, out);
    return strchr("diuoxX", c) ? write_integer(p, l, v, out) : write_float(p, l, v, out);
}

bool jinja_percent(struct jinja_run *run, struct jv format, struct jv value, struct jv *result) {
    bool is_tuple = value.type == JV_TUPLE, ok = true;
    struct percent p = {.run = run,
                        .text = format.text->data,
                        .length = format.text->length,
                        .values = value,
                        .single = value,
                        .mapping = is_mapping(value) ? value : jv_missing(),
                        .n = is_tuple ? value.list->n : 1,
                        .escapes = format.is_markup};
    struct buffer out = {0};
    while (ok && p.at < p.length) {
        size_t plain = p.at;
        const char *found = memchr(p.text + plain, '%', p.length - plain);
        p.at = found ? (size_t)(found - p.text) : p.length;
        ok = jinja_put(run, &out, p.text + plain, p.at - plain);
        if (!ok || !found) break;
        struct jinja_layout l;
        p.at++;
        ok = read_layout(&p, &l) && write_value(&p, &l, &out);
    }
    if (ok && p.used < p.n && p.mapping.type == JV_MISSING)
        ok = jinja_raise(run, JINJA_TYPE, "not all arguments converted during string formatting");
    ok = ok && jinja_string_take(run, &out, 0, result);
    buffer_free(&out);
    if (ok) result->is_markup = format.is_markup;
    return ok;
}
