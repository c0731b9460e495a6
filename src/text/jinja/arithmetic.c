/* SPDX-License-Identifier: Apache-2.0 */
#include "text/jinja/operate.h"

#include "text/jinja/format.h"
#include "text/jinja/integer.h"
#include "text/jinja/markup.h"
#include "text/jinja/text.h"

#include <math.h>
#include <string.h>

static const char *const signs[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

static bool unsupported(struct jinja_run *run, enum node_op op, struct jv a, struct jv b) {
    if (a.type == JV_UNDEFINED) return jinja_fail_undefined(run, a.undefined);
    if (b.type == JV_UNDEFINED) return jinja_fail_undefined(run, b.undefined);
    return jinja_raise(run, JINJA_TYPE, "unsupported operand type(s) for %s: '%s' and '%s'", signs[op],
                       jinja_type_name(a), jinja_type_name(b));
}

bool jinja_to_double(struct jinja_run *run, struct jv number, double *x) {
    *x = number.type == JV_FLOAT ? number.real : jinja_int_to_double(number);
    if (number.type == JV_BIG && isinf(*x))
        return jinja_raise(run, JINJA_OVERFLOW, "int too large to convert to float");
    return true;
}

/* Python's float floor division and remainder: the remainder has the sign of the divisor. */
static void divide_floats(double x, double y, double *quotient, double *remainder) {
    double rest = fmod(x, y), whole = (x - rest) / y;
    if (rest != 0) {
        if ((y < 0) != (rest < 0)) {
            rest += y;
            whole -= 1;
        }
    } else {
        rest = copysign(0.0, y);
    }
    double floored = whole != 0 ? floor(whole) : copysign(0.0, x / y);
    if (whole != 0 && whole - floored > 0.5) floored += 1;
    *quotient = floored;
    *remainder = rest;
}

static bool power_of_floats(struct jinja_run *run, double x, double y, struct jv *result) {
    if (x == 0 && y < 0) return jinja_raise(run, JINJA_ZERO, "0.0 cannot be raised to a negative power");
    if (x < 0 && isfinite(x) && isfinite(y) && y != floor(y))
        return jinja_raise(run, JINJA_UNSUPPORTED, "complex numbers are not supported");
    double power = pow(x, y);
    if (isinf(power) && isfinite(x) && isfinite(y))
        return jinja_raise(run, JINJA_OVERFLOW, "(34, 'Numerical result out of range')");
    *result = jv_float(power);
    return true;
}

static bool float_arithmetic(struct jinja_run *run, enum node_op op, struct jv a, struct jv b, struct jv *result) {
    double x, y, quotient, remainder;
    if (!jinja_to_double(run, a, &x) || !jinja_to_double(run, b, &y)) return false;
    if (y == 0 && (op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD))
        return jinja_raise(run, JINJA_ZERO,
                           op == OP_DIV   ? "float division by zero"
                           : op == OP_MOD ? "float modulo"
                                          : "float floor division by zero");
    switch (op) {
    case OP_ADD: *result = jv_float(x + y); return true;
    case OP_SUB: *result = jv_float(x - y); return true;
    case OP_MUL: *result = jv_float(x * y); return true;
    case OP_DIV: *result = jv_float(x / y); return true;
    case OP_POW: return power_of_floats(run, x, y, result);
    default:
        divide_floats(x, y, &quotient, &remainder);
        *result = jv_float(op == OP_MOD ? remainder : quotient);
        return true;
    }
}

static bool int_arithmetic(struct jinja_run *run, enum node_op op, struct jv a, struct jv b, struct jv *result) {
    double real;
    if (!jinja_int_sign(b) && (op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD))
        return jinja_raise(run, JINJA_ZERO,
                           op == OP_DIV   ? "division by zero"
                           : op == OP_MOD ? "integer modulo by zero"
                                          : "integer division or modulo by zero");
    switch (op) {
    case OP_ADD: return jinja_int_add(run, a, b, result);
    case OP_SUB: return jinja_int_subtract(run, a, b, result);
    case OP_MUL: return jinja_int_multiply(run, a, b, result);
    case OP_FLOORDIV: return jinja_int_divide(run, a, b, result, NULL);
    case OP_MOD: return jinja_int_divide(run, a, b, NULL, result);
    case OP_DIV:
        if (!jinja_int_true_divide(run, a, b, &real)) return false;
        *result = jv_float(real);
        return true;
    default:
        if (jinja_int_sign(b) < 0) return float_arithmetic(run, op, a, b, result);
        return jinja_int_power(run, a, b, result);
    }
}

/* ---- sequences ---- */

/* a's items followed by b's, in a's storage where a ends it. */
static bool concat_lists(struct jinja_run *run, struct jv a, const struct jinja_list *b, struct jv *result) {
    struct jinja_list *left = a.list, *sum = jinja_alloc(run, 1, sizeof *sum);
    if (!sum || !jinja_spend(run, b->n / 8 + 1)) return false;
    size_t n = left->n + b->n;
    struct jinja_tail *tail = left->tail;
    if (!tail || tail->used != left->n || tail->capacity - tail->used < b->n) {
        size_t capacity = n < 8 ? n : n * 2;
        if (!jinja_spend(run, left->n / 8)) return false;
        tail = jinja_alloc(run, 1, sizeof *tail + capacity * sizeof(struct jv));
        if (!tail) return false;
        *tail = (struct jinja_tail){.capacity = capacity};
        if (left->n) memcpy(tail + 1, left->items, left->n * sizeof(struct jv));
    }
    struct jv *items = (struct jv *)(tail + 1);
    if (b->n) memmove(items + left->n, b->items, b->n * sizeof(struct jv));
    tail->used = n;
    *sum = (struct jinja_list){.items = items, .n = n, .tail = tail};
    *result = jv_object((enum jv_type)a.type, sum);
    return true;
}

static bool add(struct jinja_run *run, struct jv a, struct jv b, struct jv *result) {
    if (a.type == JV_STRING && b.type == JV_STRING) {
        if (a.is_markup || b.is_markup) return jinja_markup_add(run, a, b, result);
        return jinja_text_concat(run, a.text, b.text, result);
    }
    if (jv_is_sequence(a) && a.type == b.type) return concat_lists(run, a, b.list, result);
    if (b.type == JV_UNDEFINED || a.type == JV_UNDEFINED) return unsupported(run, OP_ADD, a, b);
    if (a.type == JV_STRING && !a.is_markup)
        return jinja_raise(run, JINJA_TYPE, "can only concatenate str (not \"%s\") to str", jinja_type_name(b));
    if (jv_is_sequence(a))
        return jinja_raise(run, JINJA_TYPE, "can only concatenate %s (not \"%s\") to %s", jinja_type_name(a),
                           jinja_type_name(b), jinja_type_name(a));
    return unsupported(run, OP_ADD, a, b);
}

static bool repeat(struct jinja_run *run, struct jv sequence, struct jv count, struct jv *result) {
    int64_t n;
    if (count.type == JV_BIG) return jinja_raise(run, JINJA_OVERFLOW, "cannot fit 'int' into an index-sized integer");
    if (!jinja_index(run, count, &n)) return false;
    if (n < 0) n = 0;
    size_t length = sequence.type == JV_STRING ? sequence.text->length : sequence.list->n * sizeof(struct jv), total;
    if (__builtin_mul_overflow(length, (size_t)n, &total) || !jinja_spend_bytes(run, total))
        return jinja_raise(run, JINJA_LIMIT, "a repeated sequence is too long");
    char *data = jinja_alloc(run, total ? total : 1, 1);
    if (!data) return false;
    for (size_t at = 0; at < total; at += length)
        memcpy(data + at, sequence.type == JV_STRING ? sequence.text->data : (const char *)sequence.list->items,
               length);
    if (sequence.type == JV_STRING) {
        if (!jinja_borrowed(run, data, total, result)) return false;
        result->is_markup = sequence.is_markup;
        return true;
    }
    struct jinja_list *list = jinja_alloc(run, 1, sizeof *list);
    if (!list) return false;
    *list = (struct jinja_list){.items = (struct jv *)data, .n = sequence.list->n * (size_t)n};
    *result = jv_object((enum jv_type)sequence.type, list);
    return true;
}

static bool is_repeatable(struct jv v) { return v.type == JV_STRING || jv_is_sequence(v); }

bool jinja_arithmetic(struct jinja_run *run, enum node_op op, struct jv a, struct jv b, struct jv *result) {
    if (jv_is_number(a) && jv_is_number(b)) {
        if (a.type == JV_FLOAT || b.type == JV_FLOAT) return float_arithmetic(run, op, a, b, result);
        return int_arithmetic(run, op, a, b, result);
    }
    if (op == OP_ADD) return add(run, a, b, result);
    if (op == OP_MUL && is_repeatable(a) && jv_is_integer(b)) return repeat(run, a, b, result);
    if (op == OP_MUL && is_repeatable(b) && jv_is_integer(a)) return repeat(run, b, a, result);
    if (op == OP_MUL && (is_repeatable(a) || is_repeatable(b)) && a.type != JV_UNDEFINED && b.type != JV_UNDEFINED)
        return jinja_raise(run, JINJA_TYPE, "can't multiply sequence by non-int of type '%s'",
                           jinja_type_name(is_repeatable(a) ? b : a));
    if (op == OP_MOD && a.type == JV_STRING) return jinja_percent(run, a, b, result);
    return unsupported(run, op, a, b);
}

static bool bad_unary(struct jinja_run *run, const char *sign, struct jv a) {
    if (a.type == JV_UNDEFINED) return jinja_fail_undefined(run, a.undefined);
    return jinja_raise(run, JINJA_TYPE, "bad operand type for unary %s: '%s'", sign, jinja_type_name(a));
}

bool jinja_negate(struct jinja_run *run, struct jv a, struct jv *result) {
    if (a.type == JV_FLOAT) {
        *result = jv_float(-a.real);
        return true;
    }
    return jv_is_integer(a) ? jinja_int_negate(run, a, result) : bad_unary(run, "-", a);
}

bool jinja_positive(struct jinja_run *run, struct jv a, struct jv *result) {
    if (!jv_is_number(a)) return bad_unary(run, "+", a);
    *result = a.type == JV_BOOL ? jv_int(a.truth) : a;
    return true;
}
