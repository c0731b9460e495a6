/* SPDX-License-Identifier: Apache-2.0 */
/* str.format, as the sandbox's formatter runs it. A field is {name.attribute[index]!conversion:spec}; the spec may
 * hold fields itself, two levels deep. */
#include "text/jinja/format.h"

#include "base/utf8.h"
#include "text/jinja/attribute.h"
#include "text/jinja/integer.h"
#include "text/jinja/markup.h"
#include "text/jinja/operate.h"
#include "text/jinja/print.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

#include <string.h>

struct formatter {
    struct jinja_run *run;
    const struct jinja_args *args;
    struct jinja_dict *mapping;
    bool escapes;
    int64_t next; /* number of the next {}; -1 once fields are numbered */
};

struct field {
    const char *name, *spec;
    size_t name_length, spec_length;
    char conversion;
};

/* ---- format specs: [[fill]align][sign][z][#][0][width][,_][.precision][type] ---- */

static bool is_align(char c) { return c == '<' || c == '>' || c == '=' || c == '^'; }

static bool read_count(struct jinja_run *run, const char *spec, size_t length, size_t *at, int64_t *count) {
    bool has_digits = false;
    for (*count = 0; *at < length && spec[*at] >= '0' && spec[*at] <= '9'; ++*at) {
        *count = *count * 10 + (spec[*at] - '0');
        has_digits = true;
        if (*count > INT32_MAX) return jinja_raise(run, JINJA_VALUE, "Too many decimal digits in format string");
    }
    if (!has_digits) *count = -1;
    return true;
}

static bool read_spec(struct jinja_run *run, const char *spec, size_t length, struct jinja_layout *l) {
    *l = (struct jinja_layout){.fill = " ", .width = -1, .precision = -1};
    size_t at = 0, fill = length ? jinja_char_length(spec) : 0;
    bool has_fill = length > fill && fill && is_align(spec[fill]);
    if (has_fill) {
        memcpy(l->fill, spec, fill);
        l->fill[fill] = '\0';
        l->align = spec[fill];
        at = fill + 1;
    } else if (length && is_align(*spec)) {
        l->align = spec[at++];
    }
    if (at < length && (spec[at] == '+' || spec[at] == '-' || spec[at] == ' ')) l->sign = spec[at++];
    if (at < length && spec[at] == 'z') l->no_negative_zero = at++ < length;
    if (at < length && spec[at] == '#') l->is_alternate = at++ < length;
    if (!has_fill && at < length && spec[at] == '0') {
        strcpy(l->fill, "0");
        if (!l->align) l->align = '0'; /* '=' for numbers, '<' for text */
        at++;
    }
    if (!read_count(run, spec, length, &at, &l->width)) return false;
    if (at < length && (spec[at] == ',' || spec[at] == '_')) l->grouping = spec[at++];
    if (at < length && (spec[at] == ',' || spec[at] == '_'))
        return jinja_raise(run, JINJA_VALUE, "Cannot specify both ',' and '_'.");
    if (at < length && spec[at] == '.') {
        at++;
        if (!read_count(run, spec, length, &at, &l->precision)) return false;
        if (l->precision < 0) return jinja_raise(run, JINJA_VALUE, "Format specifier missing precision");
    }
    if (at + 1 < length) return jinja_raise(run, JINJA_VALUE, "Invalid format specifier");
    if (at < length) l->type = spec[at];
    return true;
}

static bool unknown_code(struct jinja_run *run, const struct jinja_layout *l, struct jv v) {
    return jinja_raise(run, JINJA_VALUE, "Unknown format code '%c' for object of type '%s'", l->type,
                       jinja_type_name(v));
}

static bool format_text(struct jinja_run *run, struct jinja_layout *l, struct jv v, struct buffer *out) {
    if (l->align == '0') l->align = '<';
    if (l->type && l->type != 's') return unknown_code(run, l, v);
    if (l->sign || l->is_alternate || l->grouping || l->no_negative_zero || l->align == '=')
        return jinja_raise(run, JINJA_VALUE, "not allowed in string format specifier");
    return jinja_layout_text(run, l, v.text, out);
}

static bool format_char(struct jinja_run *run, struct jinja_layout *l, struct jv v, struct buffer *out) {
    char bytes[4];
    if (l->sign || l->is_alternate || l->grouping)
        return jinja_raise(run, JINJA_VALUE, "not allowed with integer format specifier 'c'");
    if (!jv_is_small(v) || jv_small(v) < 0 || jv_small(v) > 0x10ffff)
        return jinja_raise(run, JINJA_OVERFLOW, "%%c arg not in range(0x110000)");
    size_t n = utf8_encode((uint32_t)jv_small(v), bytes);
    struct jinja_text *text = jinja_text_copy(run, bytes, n);
    l->precision = -1;
    if (!l->align) l->align = '>';
    return text && jinja_layout_text(run, l, text, out);
}

static bool format_number(struct jinja_run *run, struct jinja_layout *l, struct jv v, struct buffer *out) {
    if (l->align == '0') l->align = '=';
    bool is_float = v.type == JV_FLOAT, wants_float = l->type && strchr("eEfFgG%", l->type);
    if (is_float || wants_float) {
        if (l->type && !wants_float && l->type != 'n') return unknown_code(run, l, v);
        return jinja_layout_float(run, l, v, out);
    }
    if (l->type && !strchr("bcdoxXn", l->type)) return unknown_code(run, l, v);
    if (l->precision >= 0) return jinja_raise(run, JINJA_VALUE, "Precision not allowed in integer format specifier");
    if (l->no_negative_zero)
        return jinja_raise(run, JINJA_VALUE, "Negative zero coercion (z) not allowed in format specifier with integer");
    if (l->grouping == ',' && l->type && l->type != 'd')
        return jinja_raise(run, JINJA_VALUE, "Cannot specify ',' with '%c'.", l->type);
    if (l->grouping && l->type == 'n') return jinja_raise(run, JINJA_VALUE, "Cannot specify '_' with 'n'.");
    if (l->type == 'c') return format_char(run, l, v, out);
    return jinja_layout_integer(run, l, v, out);
}

/* format(v, spec) */
static bool format_value(struct jinja_run *run, struct jv v, const char *spec, size_t length, struct buffer *out) {
    struct jinja_layout l;
    if (!length) return jinja_print_str(run, v, out);
    if (v.type != JV_STRING && !jv_is_number(v))
        return jinja_raise(run, JINJA_TYPE, "unsupported format string passed to %s.__format__", jinja_type_name(v));
    if (!read_spec(run, spec, length, &l)) return false;
    return v.type == JV_STRING ? format_text(run, &l, v, out) : format_number(run, &l, v, out);
}

/* ---- fields ---- */

static bool is_number(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (text[i] < '0' || text[i] > '9') return false;
    return length > 0;
}

static bool key_of(struct jinja_run *run, const char *text, size_t length, struct jv *key) {
    if (!is_number(text, length)) return jinja_string(run, text, length, key);
    int64_t value = 0;
    for (size_t i = 0; i < length; i++) {
        value = value * 10 + (text[i] - '0');
        if (value > INT32_MAX) return jinja_raise(run, JINJA_VALUE, "Too many decimal digits in format string");
    }
    *key = jv_int(value);
    return true;
}

static bool first_value(struct formatter *f, struct jv key, struct jv *value) {
    struct jinja_run *run = f->run;
    if (key.type == JV_INT) {
        if ((uint64_t)key.integer >= f->args->n)
            return jinja_raise(run, JINJA_INDEX, "Replacement index %lld out of range for positional args tuple",
                               (long long)key.integer);
        *value = f->args->items[key.integer];
        return true;
    }
    for (size_t i = 0; i < f->args->n_named; i++)
        if (jinja_text_equal(f->args->named[i].name, key.text)) return *value = f->args->named[i].value, true;
    struct jinja_entry *e = f->mapping ? jinja_dict_find_text(run, f->mapping, key.text) : NULL;
    if (e) return *value = e->value, true;
    return jinja_raise_text(run, JINJA_KEY, key.text->data, key.text->length);
}

/* .attribute or [index], from name[*at] on. */
static bool next_part(struct formatter *f, const char *name, size_t length, size_t *at, struct jv *value) {
    struct jinja_run *run = f->run;
    size_t start = *at + 1, end = start;
    struct jv key;
    if (name[*at] == '.') {
        while (end < length && name[end] != '.' && name[end] != '[') end++;
        *at = end;
    } else if (name[*at] == '[') {
        while (end < length && name[end] != ']') end++;
        if (end == length) return jinja_raise(run, JINJA_VALUE, "Missing ']' in format string");
        *at = end + 1;
    } else {
        return jinja_raise(run, JINJA_VALUE, "Only '.' or '[' may follow ']' in format field specifier");
    }
    if (start == end) return jinja_raise(run, JINJA_VALUE, "Empty attribute in format string");
    if (name[start - 1] == '[')
        return key_of(run, name + start, end - start, &key) && jinja_getitem(run, *value, key, value);
    return jinja_string(run, name + start, end - start, &key) && jinja_getattr_text(run, *value, key.text, value);
}

static bool field_value(struct formatter *f, const struct field *field, struct jv *value) {
    const char *name = field->name;
    size_t length = field->name_length, first = 0;
    struct jv key;
    if (!length) {
        if (f->next < 0)
            return jinja_raise(f->run, JINJA_VALUE,
                               "cannot switch from manual field specification to automatic field numbering");
        return first_value(f, jv_int(f->next++), value);
    }
    if (is_number(name, length)) {
        if (f->next > 0)
            return jinja_raise(f->run, JINJA_VALUE,
                               "cannot switch from automatic field numbering to manual field specification");
        f->next = -1;
    }
    while (first < length && name[first] != '.' && name[first] != '[') first++;
    if (!key_of(f->run, name, first, &key) || !first_value(f, key, value)) return false;
    while (first < length)
        if (!next_part(f, name, length, &first, value)) return false;
    return true;
}

static bool convert(struct jinja_run *run, char conversion, struct jv *value) {
    struct buffer out = {0};
    if (!conversion) return true;
    if (conversion == 's') return jinja_to_str(run, *value, value);
    if (conversion != 'r' && conversion != 'a')
        return jinja_raise(run, JINJA_VALUE, "Unknown conversion specifier '%c'", conversion);
    bool ok = jinja_print_repr(run, *value, &out) && (conversion == 'r' || jinja_make_ascii(run, &out)) &&
              jinja_string_take(run, &out, 0, value);
    buffer_free(&out);
    return ok;
}

static bool format_parts(struct formatter *f, const char *text, size_t length, int depth, struct buffer *out);

static bool write_field(struct formatter *f, const struct field *field, int depth, struct buffer *out) {
    struct jinja_run *run = f->run;
    struct jv value;
    struct buffer spec = {0}, text = {0};
    bool ok = field_value(f, field, &value) && convert(run, field->conversion, &value) &&
              format_parts(f, field->spec, field->spec_length, depth - 1, &spec);
    bool is_markup = ok && value.type == JV_STRING && value.is_markup;
    if (ok && f->escapes && is_markup && spec.length)
        ok = jinja_raise(run, JINJA_VALUE, "Unsupported format specification for Markup.");
    ok = ok && format_value(run, value, spec.data, spec.length, &text);
    if (ok && text.length)
        ok = f->escapes && !is_markup ? jinja_escape_into(run, text.data, text.length, out)
                                      : jinja_put(run, out, text.data, text.length);
    buffer_free(&spec);
    buffer_free(&text);
    return ok;
}

/* ---- the format string ---- */

static bool bad_format(struct jinja_run *run, const char *message) {
    return jinja_raise(run, JINJA_VALUE, "%s", message);
}

/* Behind the '{'; *at moves behind the matching '}'. */
static bool read_field(struct jinja_run *run, const char *text, size_t length, size_t *at, struct field *field) {
    size_t i = *at;
    *field = (struct field){.name = text + i};
    for (; i < length && text[i] != '}' && text[i] != ':' && text[i] != '!'; i++) {
        if (text[i] == '{') return bad_format(run, "unexpected '{' in field name");
        if (text[i] == '[')
            while (i + 1 < length && text[i + 1] != ']') i++;
    }
    if (i >= length) return bad_format(run, "expected '}' before end of string");
    field->name_length = (size_t)(text + i - field->name);
    if (text[i] == '!') {
        if (++i >= length) return bad_format(run, "end of string while looking for conversion specifier");
        field->conversion = text[i++];
        if (i >= length) return bad_format(run, "unmatched '{' in format spec");
        if (text[i] != '}' && text[i] != ':') return bad_format(run, "expected ':' after conversion specifier");
    }
    if (text[i] == '}') return *at = i + 1, true;
    field->spec = text + ++i;
    for (int open = 1; i < length; i++) {
        open += (text[i] == '{') - (text[i] == '}');
        if (open) continue;
        field->spec_length = (size_t)(text + i - field->spec);
        return *at = i + 1, true;
    }
    return bad_format(run, "unmatched '{' in format spec");
}

static bool format_parts(struct formatter *f, const char *text, size_t length, int depth, struct buffer *out) {
    if (depth < 0) return bad_format(f->run, "Max string recursion exceeded");
    for (size_t at = 0; at < length;) {
        size_t plain = at;
        while (at < length && text[at] != '{' && text[at] != '}') at++;
        if (!jinja_put(f->run, out, text + plain, at - plain)) return false;
        if (at == length) return true;
        char c = text[at++];
        if (at < length && text[at] == c) { /* {{ or }} */
            at++;
            if (!jinja_put(f->run, out, &c, 1)) return false;
            continue;
        }
        struct field field;
        if (c == '}') return bad_format(f->run, "Single '}' encountered in format string");
        if (at == length) return bad_format(f->run, "Single '{' encountered in format string");
        if (!read_field(f->run, text, length, &at, &field) || !write_field(f, &field, depth, out)) return false;
    }
    return true;
}

bool jinja_format(struct jinja_run *run, struct jv format, const struct jinja_args *args, struct jinja_dict *mapping,
                  struct jv *result) {
    struct formatter f = {.run = run, .args = args, .mapping = mapping, .escapes = format.is_markup};
    struct buffer out = {0};
    bool ok =
        format_parts(&f, format.text->data, format.text->length, 2, &out) && jinja_string_take(run, &out, 0, result);
    buffer_free(&out);
    if (ok) result->is_markup = format.is_markup;
    return ok;
}
