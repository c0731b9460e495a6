/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and text in a field: sign, prefix, grouped digits, fill. */
#include "text/jinja/format.h"

#include "text/jinja/integer.h"
#include "text/jinja/number.h"
#include "text/jinja/operate.h"
#include "text/jinja/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WIDTH 100000000

static bool fill_with(struct jinja_run *run, const char *fill, int64_t n, struct buffer *out) {
    if (n <= 0) return true;
    if (n > MAX_WIDTH || !jinja_spend_bytes(run, (size_t)n))
        return jinja_raise(run, JINJA_LIMIT, "a formatted field is too wide");
    for (int64_t i = 0; i < n; i++)
        if (!buffer_append(out, fill, strlen(fill))) return jinja_out_of_memory(run);
    return true;
}

/* text, `length` characters wide, in the field; `head` characters of it (bytes: sign and prefix) stand before a '='
 * fill. */
static bool place(struct jinja_run *run, const struct jinja_layout *l, char align, const char *text, size_t bytes,
                  int64_t length, size_t head, struct buffer *out) {
    int64_t room = l->width > length ? l->width - length : 0;
    int64_t left = align == '>' ? room : align == '^' ? room / 2 : 0;
    return fill_with(run, l->fill, left, out) && jinja_put(run, out, text, head) &&
           fill_with(run, l->fill, align == '=' ? room : 0, out) && jinja_put(run, out, text + head, bytes - head) &&
           fill_with(run, l->fill,
                     align == '<'   ? room
                     : align == '^' ? room - left
                                    : 0,
                     out);
}

bool jinja_layout_text(struct jinja_run *run, const struct jinja_layout *l, struct jinja_text *text,
                       struct buffer *out) {
    int64_t n = (int64_t)jinja_text_count(text);
    size_t bytes = text->length;
    if (l->precision >= 0 && l->precision < n) {
        n = l->precision;
        bytes = jinja_text_offset(text, (size_t)n);
    }
    return place(run, l, l->align ? l->align : '<', text->data, bytes, n, 0, out);
}

/* Digits with separators; filled with zeros where the fill is a zero behind the sign, so that groups go on. */
static bool group_digits(struct jinja_run *run, const struct jinja_layout *l, const char *digits, size_t n, int every,
                         int64_t others, struct buffer *out) {
    int64_t wanted = (int64_t)n;
    if (l->align == '=' && !strcmp(l->fill, "0"))
        while (wanted + (wanted - 1) / every + others < l->width) {
            if (++wanted > MAX_WIDTH) return jinja_raise(run, JINJA_LIMIT, "a formatted field is too wide");
        }
    if (!jinja_spend_bytes(run, (size_t)wanted * 8)) return false;
    for (int64_t i = wanted; i > 0; i--) {
        char c = i > (int64_t)n ? '0' : digits[n - (size_t)i];
        if (!buffer_putc(out, c) || (i > 1 && (i - 1) % every == 0 && !buffer_putc(out, l->grouping)))
            return jinja_out_of_memory(run);
    }
    return true;
}

/* sign, prefix, whole digits, and whatever follows them, as one number. */
static bool layout_number(struct jinja_run *run, const struct jinja_layout *l, bool is_negative, const char *prefix,
                          const char *whole, size_t n_whole, const char *rest, size_t n_rest, int every,
                          struct buffer *out) {
    struct buffer text = {0};
    if (is_negative)
        buffer_putc(&text, '-');
    else if (l->sign == '+' || l->sign == ' ')
        buffer_putc(&text, l->sign);
    buffer_puts(&text, prefix);
    size_t head = text.length;
    bool ok = true;
    if (l->grouping)
        ok = group_digits(run, l, whole, n_whole, every, (int64_t)(head + n_rest), &text);
    else
        ok = jinja_put(run, &text, whole, n_whole);
    ok = ok && jinja_put(run, &text, rest, n_rest) &&
         place(run, l, l->align ? l->align : '>', text.data, text.length, (int64_t)text.length, head, out);
    buffer_free(&text);
    return ok;
}

bool jinja_layout_integer(struct jinja_run *run, const struct jinja_layout *l, struct jv v, struct buffer *out) {
    unsigned base = l->type == 'b' ? 2 : l->type == 'o' ? 8 : (l->type | 32) == 'x' ? 16 : 10;
    const char *prefix = !l->is_alternate || base == 10 ? ""
                         : base == 2                    ? "0b"
                         : base == 8                    ? "0o"
                         : l->type == 'X'               ? "0X"
                                                        : "0x";
    struct buffer digits = {0};
    bool ok = jinja_int_print(run, v, base, &digits);
    bool is_negative = ok && *digits.data == '-';
    if (ok && l->type == 'X')
        for (size_t i = 0; i < digits.length; i++)
            if (digits.data[i] >= 'a') digits.data[i] = (char)(digits.data[i] - 32);
    if (ok) {
        const char *whole = digits.data + is_negative;
        size_t n = digits.length - is_negative;
        struct buffer padded = {0};
        if (l->precision > (int64_t)n && !l->grouping) { /* of the % operator: a least number of digits */
            ok = fill_with(run, "0", l->precision - (int64_t)n, &padded) && jinja_put(run, &padded, whole, n);
            whole = padded.data;
            n = padded.length;
        }
        ok = ok && layout_number(run, l, is_negative, prefix, whole, n, "", 0, base == 10 ? 3 : 4, out);
        buffer_free(&padded);
    }
    buffer_free(&digits);
    return ok;
}

/* ---- floats ---- */

/* "%g" with the border of the exponent form one digit lower and ".0" where no fraction is left: what format() does
 * without a type. */
static bool print_general(struct jinja_run *run, double x, int precision, struct buffer *out) {
    struct buffer text = {0};
    if (precision < 1) precision = 1;
    bool ok = jinja_print_real(run, "%.*e", precision - 1, x, &text);
    char *e = ok ? strchr(text.data, 'e') : NULL;
    if (e) {
        int point = atoi(e + 1) + 1;
        size_t n = 0;
        for (char *c = text.data; c < e; c++)
            if (*c != '.') text.data[n++] = *c;
        while (n > 1 && text.data[n - 1] == '0') n--;
        const char *digits = text.data;
        if (point <= -4 || point > precision - 1) {
            buffer_putc(out, digits[0]);
            if (n > 1) buffer_putc(out, '.');
            buffer_append(out, digits + 1, n - 1);
            buffer_printf(out, "e%c%02d", point > 0 ? '+' : '-', abs(point - 1));
        } else {
            if (point <= 0) buffer_puts(out, "0.");
            for (int i = point; i < 0; i++) buffer_putc(out, '0');
            for (int i = 0; i < (int)n || i < point; i++) {
                if (i == point && point > 0) buffer_putc(out, '.');
                buffer_putc(out, i < (int)n ? digits[i] : '0');
            }
            if (point > 0 && (int)n <= point) buffer_puts(out, ".0");
        }
    }
    buffer_free(&text);
    return ok && (!out->failed || jinja_out_of_memory(run));
}

static bool print_magnitude(struct jinja_run *run, const struct jinja_layout *l, double x, struct buffer *out) {
    int precision = l->precision < 0 ? 6 : l->precision > 100000 ? 100001 : (int)l->precision;
    bool is_plain = !l->type || l->type == 'n';
    if (is_plain && l->precision < 0 && !l->type) return jinja_print_float(run, x, out);
    if (!l->type) return print_general(run, x, precision, out);
    switch (l->type) {
    case 'e':
    case 'E': return jinja_print_real(run, l->is_alternate ? "%#.*e" : "%.*e", precision, x, out);
    case 'f':
    case 'F':
    case '%': return jinja_print_real(run, l->is_alternate ? "%#.*f" : "%.*f", precision, x, out);
    default: return jinja_print_real(run, l->is_alternate ? "%#.*g" : "%.*g", precision, x, out);
    }
}

bool jinja_layout_float(struct jinja_run *run, const struct jinja_layout *l, struct jv v, struct buffer *out) {
    double x;
    struct buffer text = {0};
    if (!jinja_to_double(run, v, &x)) return false;
    if (l->type == '%') x *= 100;
    bool is_negative = signbit(x) && !isnan(x);
    bool ok = isnan(x)   ? buffer_puts(&text, "nan")
              : isinf(x) ? buffer_puts(&text, "inf")
                         : print_magnitude(run, l, fabs(x), &text);
    if (ok && l->no_negative_zero && strspn(text.data, "0.") == text.length) is_negative = false;
    if (ok && l->type == '%') ok = buffer_putc(&text, '%');
    if (ok && (l->type == 'E' || l->type == 'F' || l->type == 'G'))
        for (size_t i = 0; i < text.length; i++)
            if (text.data[i] >= 'a' && text.data[i] <= 'z') text.data[i] = (char)(text.data[i] - 32);
    if (ok) {
        size_t n_whole = strspn(text.data, "0123456789");
        struct jinja_layout ungrouped = *l;
        if (!n_whole) ungrouped.grouping = 0;
        ok = layout_number(run, &ungrouped, is_negative, "", text.data, n_whole, text.data + n_whole,
                           text.length - n_whole, 3, out);
    } else if (!run->failure->kind) {
        jinja_out_of_memory(run);
    }
    buffer_free(&text);
    return ok;
}
