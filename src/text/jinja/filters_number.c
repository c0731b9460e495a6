/* SPDX-License-Identifier: Apache-2.0 */
#include "text/jinja/builtins.h"

#include "text/jinja/integer.h"
#include "text/jinja/number.h"
#include "text/jinja/operate.h"
#include "text/jinja/print.h"
#include "text/jinja/text.h"

#include <math.h>

JINJA_BUILTIN(filter_abs) {
    (void)args;
    if (!jv_is_number(self))
        return jinja_raise(run, JINJA_TYPE, "bad operand type for abs(): '%s'", jinja_type_name(self));
    if (self.type == JV_FLOAT) return *result = jv_float(fabs(self.real)), true;
    return jinja_int_sign(self) < 0 ? jinja_negate(run, self, result) : jinja_positive(run, self, result);
}

/* int(x) of a float that is finite. */
static bool truncated(struct jinja_run *run, double x, struct jv *result) {
    return jinja_int_from_double(run, trunc(x), result);
}

/* A base that int() accepts; other arguments make it fail, which the filter catches. */
static bool read_base(struct jv arg, unsigned *base) {
    *base = 10;
    if (arg.type == JV_MISSING) return true;
    if (!jv_is_small(arg)) return false;
    int64_t value = jv_small(arg);
    *base = value >= 0 && value <= 36 ? (unsigned)value : 1;
    return value != 1 && *base != 1;
}

JINJA_BUILTIN(filter_int) {
    unsigned base;
    bool is_number = false;
    double real = 0;
    *result = args->items[0].type == JV_MISSING ? jv_int(0) : args->items[0];
    if (self.type == JV_UNDEFINED) return jinja_fail_undefined(run, self.undefined);
    if (jv_is_integer(self)) return jinja_positive(run, self, result);
    if (self.type == JV_FLOAT) {
        if (isinf(self.real)) return jinja_raise(run, JINJA_OVERFLOW, "cannot convert float infinity to integer");
        return isnan(self.real) || truncated(run, self.real, result);
    }
    bool is_bytes = self.type == JV_BYTES && jinja_text_is_ascii(self.text);
    if (self.type != JV_STRING && !is_bytes) return true;
    struct jv value;
    const struct jinja_text *text = self.text;
    if (read_base(is_bytes ? jv_missing() : args->items[1], &base) && text->length <= 4300 &&
        !jinja_read_int(run, text->data, text->length, base, &is_number, &value))
        return false;
    if (is_number) return *result = value, true;
    if (!jinja_read_float(run, text->data, text->length, &real) || !isfinite(real)) return true;
    return truncated(run, real, result);
}

JINJA_BUILTIN(filter_float) {
    double real;
    *result = args->items[0].type == JV_MISSING ? jv_float(0) : args->items[0];
    if (self.type == JV_UNDEFINED) return jinja_fail_undefined(run, self.undefined);
    if (jv_is_number(self)) return jinja_to_double(run, self, &real) && (*result = jv_float(real), true);
    bool is_text = self.type == JV_STRING || (self.type == JV_BYTES && jinja_text_is_ascii(self.text));
    if (is_text && jinja_read_float(run, self.text->data, self.text->length, &real)) *result = jv_float(real);
    return true;
}

/* round(n, -digits) of an integer: to the nearest multiple of 10^digits, ties to the even one. */
static bool round_integer(struct jinja_run *run, struct jv n, int64_t digits, struct jv *result) {
    struct jv unit, rest, twice, quotient;
    bool is_odd_up = false;
    if (digits > 4300) return *result = jv_int(0), true;
    if (!jinja_int_power(run, jv_int(10), jv_int(digits), &unit) || !jinja_int_divide(run, n, unit, &quotient, &rest) ||
        !jinja_int_multiply(run, rest, jv_int(2), &twice) || !jinja_int_subtract(run, n, rest, result))
        return false;
    int order = jinja_int_compare(twice, unit);
    struct jv parity;
    if (!order) {
        if (!jinja_int_divide(run, quotient, jv_int(2), NULL, &parity)) return false;
        is_odd_up = jinja_int_sign(parity) != 0;
    }
    return order < 0 || (!order && !is_odd_up) || jinja_int_add(run, *result, unit, result);
}

static bool round_common(struct jinja_run *run, struct jv self, struct jv precision, struct jv *result) {
    int64_t digits = 0;
    double rounded;
    bool to_integer = precision.type == JV_NONE;
    if (!jv_is_number(self))
        return jinja_raise(run, JINJA_TYPE, "type %s doesn't define __round__ method", jinja_type_name(self));
    if (!to_integer && !jinja_arg_int(run, precision, 0, &digits)) return false;
    if (self.type != JV_FLOAT) {
        if (digits < 0) return round_integer(run, self, digits == INT64_MIN ? INT64_MAX : -digits, result);
        return jinja_positive(run, self, result);
    }
    if (to_integer && !isfinite(self.real))
        return jinja_raise(run, isnan(self.real) ? JINJA_VALUE : JINJA_OVERFLOW, "cannot convert float to integer");
    if (!jinja_round(run, self.real, digits, &rounded)) return false;
    *result = jv_float(rounded);
    return !to_integer || truncated(run, rounded, result);
}

/* floor or ceil of value * 10^precision, divided by that again. */
static bool round_towards(struct jinja_run *run, struct jv self, struct jv precision, bool up, struct jv *result) {
    struct jv scale, scaled;
    if (precision.type == JV_MISSING) precision = jv_int(0);
    if (!jinja_arithmetic(run, OP_POW, jv_int(10), precision, &scale) ||
        !jinja_arithmetic(run, OP_MUL, self, scale, &scaled))
        return false;
    if (!jv_is_number(scaled))
        return jinja_raise(run, JINJA_TYPE, "must be real number, not %s", jinja_type_name(scaled));
    if (scaled.type == JV_FLOAT) {
        if (!isfinite(scaled.real))
            return jinja_raise(run, isnan(scaled.real) ? JINJA_VALUE : JINJA_OVERFLOW,
                               "cannot convert float to integer");
        if (!jinja_int_from_double(run, up ? ceil(scaled.real) : floor(scaled.real), &scaled)) return false;
    }
    return jinja_arithmetic(run, OP_DIV, scaled, scale, result);
}

JINJA_BUILTIN(filter_round) {
    struct jv method = args->items[1];
    if (method.type == JV_MISSING) return round_common(run, self, args->items[0], result);
    bool is_text = method.type == JV_STRING;
    if (is_text && jinja_text_is(method.text, "common")) return round_common(run, self, args->items[0], result);
    bool up = is_text && jinja_text_is(method.text, "ceil");
    if (!up && !(is_text && jinja_text_is(method.text, "floor")))
        return jinja_raise(run, JINJA_FILTER_ARGUMENT, "method must be common, ceil or floor");
    return round_towards(run, self, args->items[0], up, result);
}

JINJA_BUILTIN(filter_filesizeformat) {
    static const char *const decimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
    static const char *const binary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
    bool is_binary, ok;
    double bytes;
    struct buffer out = {0};
    if (!jinja_arg_truth(run, args->items[0], false, &is_binary)) return false;
    if (self.type == JV_UNDEFINED) return jinja_fail_undefined(run, self.undefined);
    if (jv_is_number(self)
            ? !jinja_to_double(run, self, &bytes)
            : self.type != JV_STRING || !jinja_read_float(run, self.text->data, self.text->length, &bytes))
        return run->failure->kind ? false : jinja_raise(run, JINJA_VALUE, "could not convert the value to float");
    double base = is_binary ? 1024 : 1000;
    if (bytes == 1) {
        ok = jinja_puts(run, &out, "1 Byte");
    } else if (bytes < base) {
        struct jv whole;
        if (!isfinite(bytes)) return jinja_raise(run, JINJA_OVERFLOW, "cannot convert float infinity to integer");
        ok = truncated(run, bytes, &whole) && jinja_print_str(run, whole, &out) && jinja_puts(run, &out, " Bytes");
    } else {
        int i = 0;
        double unit = base * base;
        while (i < 7 && !(bytes < unit)) {
            unit *= base;
            i++;
        }
        ok = jinja_print_real(run, "%.*f", 1, base * bytes / unit, &out) && jinja_puts(run, &out, " ") &&
             jinja_puts(run, &out, (is_binary ? binary : decimal)[i]);
    }
    ok = ok && jinja_string_take(run, &out, 0, result);
    buffer_free(&out);
    return ok;
}
