/* SPDX-License-Identifier: Apache-2.0 */
#include "text/jinja/number.h"

#include "text/jinja/integer.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double jinja_strtod(struct jinja_run *run, const char *text) {
    locale_t locale = jinja_locale(run);
    return locale ? strtod_l(text, NULL, locale) : strtod(text, NULL);
}

/* snprintf in the "C" locale. */
static int print_number(struct jinja_run *run, char *text, size_t room, const char *format, int precision, double x) {
    locale_t locale = jinja_locale(run), before = locale ? uselocale(locale) : (locale_t)0;
    int n = snprintf(text, room, format, precision, x);
    if (locale) uselocale(before);
    return n;
}

bool jinja_print_real(struct jinja_run *run, const char *format, int precision, double x, struct buffer *out) {
    if (precision > 100000) return jinja_raise(run, JINJA_LIMIT, "precision %d is too large", precision);
    int n = print_number(run, NULL, 0, format, precision, x);
    if (n < 0 || !buffer_reserve(out, (size_t)n + 1)) return jinja_out_of_memory(run);
    print_number(run, out->data + out->length, (size_t)n + 1, format, precision, x);
    out->length += (size_t)n;
    return jinja_spend_bytes(run, (size_t)n);
}

/* The decimal after text's last digit: text is "d.ddde+xx", its digits as an integer plus one. */
static void next_decimal(char *text) {
    char *at = strchr(text, 'e');
    while (at-- > text) {
        if (*at == '.') continue;
        if (*at != '9') {
            ++*at;
            return;
        }
        *at = '0';
    }
    text[0] = '1'; /* 9.99 became 0.00: the caller never meets it, a power of two has no such digits */
}

/* "d.ddde+xx" with the fewest digits that read back as x > 0. Every decimal of 15 digits survives the way through a
 * normal double, so the correctly rounded 15 digits are padded with zeros when fewer do. Among those of 16 digits the
 * nearest may lie outside of the (lopsided) interval of a power of two while its neighbour lies inside. */
static void shortest(struct jinja_run *run, double x, char text[40]) {
    bool is_subnormal = x < 0x1p-1022;
    for (int digits = is_subnormal ? 1 : 15; digits <= 17; digits++) {
        print_number(run, text, 40, "%.*e", digits - 1, x);
        if (jinja_strtod(run, text) == x) return;
        if (digits == 16) {
            next_decimal(text);
            if (jinja_strtod(run, text) == x) return;
        }
    }
}

bool jinja_print_float(struct jinja_run *run, double x, struct buffer *out) {
    char text[40], digits[24];
    if (isnan(x)) return buffer_puts(out, "nan") || jinja_out_of_memory(run);
    if (signbit(x)) buffer_putc(out, '-');
    x = fabs(x);
    if (isinf(x)) return buffer_puts(out, "inf") || jinja_out_of_memory(run);
    if (x < 1e15 && x == (double)(int64_t)x) /* no search for whole numbers */
        return buffer_printf(out, "%lld.0", (long long)x) || jinja_out_of_memory(run);
    shortest(run, x, text);
    size_t n = 0;
    for (const char *c = text; *c != 'e'; c++)
        if (*c != '.') digits[n++] = *c;
    int point = atoi(strchr(text, 'e') + 1) + 1; /* the decimal point stands after this many digits */
    while (n > 1 && digits[n - 1] == '0') n--;
    if (point <= -4 || point > 16) {
        buffer_putc(out, digits[0]);
        if (n > 1) buffer_putc(out, '.');
        buffer_append(out, digits + 1, n - 1);
        buffer_printf(out, "e%c%02d", point > 0 ? '+' : '-', abs(point - 1));
    } else if (point <= 0) {
        buffer_puts(out, "0.");
        for (int i = point; i < 0; i++) buffer_putc(out, '0');
        buffer_append(out, digits, n);
    } else {
        for (int i = 0; i < point; i++) buffer_putc(out, (size_t)i < n ? digits[i] : '0');
        buffer_putc(out, '.');
        if (n > (size_t)point)
            buffer_append(out, digits + point, n - (size_t)point);
        else
            buffer_putc(out, '0');
    }
    return !out->failed || jinja_out_of_memory(run);
}

/* Copies text without blanks around it, decimal digits of any script as ASCII. Returns the length, 0 when it is empty
 * or too long. */
static size_t plain_number(const char *text, size_t length, char *plain, size_t room) {
    size_t from = 0, to = length, n = 0;
    jinja_trim_space(text, &from, &to);
    while (from < to) {
        uint32_t c = jinja_next_char(text, &from);
        if (c >= 0x80) {
            int digit = jinja_decimal_digit(c);
            if (digit < 0) return 0;
            c = (uint32_t)('0' + digit);
        }
        if (n + 1 >= room) return 0;
        plain[n++] = (char)c;
    }
    plain[n] = '\0';
    return n;
}

/* Digits with single underscores between them, from plain[at]; copies the digits to *out. Returns the place after
 * them, or 0 when there is none. */
static size_t take_digits(const char *plain, size_t at, char **out) {
    size_t start = at;
    while ((plain[at] >= '0' && plain[at] <= '9') || (plain[at] == '_' && at > start && plain[at - 1] != '_')) {
        if (plain[at] != '_') *(*out)++ = plain[at];
        at++;
    }
    return at == start || plain[at - 1] == '_' ? 0 : at;
}

bool jinja_read_float(struct jinja_run *run, const char *text, size_t length, double *value) {
    char *plain = malloc(length + 1), *clean = malloc(length + 3), *out = clean;
    bool ok = false;
    size_t n = plain && clean ? plain_number(text, length, plain, length + 1) : 0, at = 0, next;
    if (!n) goto cleanup;
    if (plain[at] == '+' || plain[at] == '-') *out++ = plain[at++];
    if (!strcasecmp(plain + at, "inf") || !strcasecmp(plain + at, "infinity")) {
        *value = plain[0] == '-' ? -(double)INFINITY : (double)INFINITY;
        ok = true;
        goto cleanup;
    }
    if (!strcasecmp(plain + at, "nan")) {
        *value = (double)NAN;
        ok = true;
        goto cleanup;
    }
    bool has_digits = false;
    if ((next = take_digits(plain, at, &out))) {
        at = next;
        has_digits = true;
    }
    if (plain[at] == '.') {
        *out++ = plain[at++];
        if ((next = take_digits(plain, at, &out))) {
            at = next;
            has_digits = true;
        }
    }
    if (!has_digits) goto cleanup;
    if (plain[at] == 'e' || plain[at] == 'E') {
        *out++ = plain[at++];
        if (plain[at] == '+' || plain[at] == '-') *out++ = plain[at++];
        if (!(next = take_digits(plain, at, &out))) goto cleanup;
        at = next;
    }
    *out = '\0';
    ok = at == n;
    if (ok) *value = jinja_strtod(run, clean);
cleanup:
    free(plain);
    free(clean);
    return ok;
}

static unsigned digit_of(char c) {
    if (c >= '0' && c <= '9') return (unsigned)(c - '0');
    if ((c | 32) >= 'a' && (c | 32) <= 'z') return (unsigned)((c | 32) - 'a') + 10;
    return 99;
}

bool jinja_read_int(struct jinja_run *run, const char *text, size_t length, unsigned base, bool *is_number,
                    struct jv *value) {
    char *plain = malloc(length + 1);
    size_t n = plain ? plain_number(text, length, plain, length + 1) : 0, at = 0, n_digits = 0;
    bool is_negative = false, ok = true, after_digit = false, is_decimal = false;
    *is_number = false;
    if (!n) goto cleanup;
    if (plain[at] == '+' || plain[at] == '-') is_negative = plain[at++] == '-';
    if (plain[at] == '0' && plain[at + 1]) {
        unsigned named = (plain[at + 1] | 32) == 'x'   ? 16
                         : (plain[at + 1] | 32) == 'o' ? 8
                         : (plain[at + 1] | 32) == 'b' ? 2
                                                       : 0;
        if (named && (!base || base == named)) {
            base = named;
            at += 2;
            after_digit = true; /* one underscore may follow the prefix */
        }
    }
    if (!base) {
        base = 10;
        is_decimal = plain[at] == '0'; /* without a base, only zeros may start with one */
    }
    char *digits = plain; /* written behind the reading place */
    for (; at < n; at++) {
        if (plain[at] == '_' && after_digit) {
            after_digit = false;
            continue;
        }
        if (digit_of(plain[at]) >= base || (is_decimal && plain[at] != '0')) goto cleanup;
        digits[n_digits++] = plain[at];
        after_digit = true;
    }
    if (!n_digits || !after_digit) goto cleanup;
    *is_number = true;
    ok = jinja_int_parse(run, digits, n_digits, base, is_negative, value);
cleanup:
    free(plain);
    return ok;
}

bool jinja_round(struct jinja_run *run, double x, int64_t digits, double *rounded) {
    *rounded = x;
    if (isnan(x) || isinf(x) || digits > 323) return true;
    if (digits < -308) {
        *rounded = copysign(0.0, x);
        return true;
    }
    struct buffer text = {0};
    bool ok = true;
    if (digits >= 0) {
        ok = jinja_print_real(run, "%.*f", (int)digits, x, &text);
        if (ok) *rounded = jinja_strtod(run, text.data);
    } else {
        /* The place before the point: the digits up to there, correctly rounded, are those of %e. */
        int exponent = (int)floor(log10(fabs(x) > 0 ? fabs(x) : 1.0));
        double unit = pow(10, (double)-digits);
        if (exponent + 1 < -digits || fabs(x) < unit / 2) {
            *rounded = copysign(0.0, x);
        } else {
            double low = floor(fabs(x) / unit) * unit, high = low + unit, magnitude = fabs(x);
            bool is_odd = fmod(floor(magnitude / unit), 2) != 0;
            double pick = magnitude - low < high - magnitude   ? low
                          : magnitude - low > high - magnitude ? high
                          : is_odd                             ? high
                                                               : low;
            *rounded = copysign(pick, x);
        }
    }
    buffer_free(&text);
    if (ok && isinf(*rounded)) return jinja_raise(run, JINJA_OVERFLOW, "rounded value too large to represent");
    return ok;
}
