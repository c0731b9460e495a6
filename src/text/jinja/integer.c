/* SPDX-License-Identifier: Apache-2.0 */
/* Schoolbook arithmetic: the numbers are short. The 64-bit cases are decided first; only an overflow or a JV_BIG
 * operand gets to the limbs. */
#include "text/jinja/integer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* An operand as limbs; small values use the room inside. */
struct operand {
    bool is_negative;
    uint32_t n;
    const uint32_t *limbs;
    uint32_t room[2];
};

static void operand_init(struct operand *o, struct jv v) {
    if (v.type == JV_BIG) {
        o->is_negative = v.big->is_negative;
        o->n = v.big->n;
        o->limbs = v.big->limbs;
        return;
    }
    int64_t value = jv_small(v);
    uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    o->is_negative = value < 0;
    o->room[0] = (uint32_t)magnitude;
    o->room[1] = (uint32_t)(magnitude >> 32);
    o->n = magnitude >> 32 ? 2 : magnitude ? 1 : 0;
    o->limbs = o->room;
}

static struct jinja_big *new_big(struct jinja_run *run, size_t n) {
    if (n > JINJA_BIG_LIMBS) {
        jinja_raise(run, JINJA_LIMIT, "an integer has more than %d bits", JINJA_BIG_LIMBS * 32);
        return NULL;
    }
    struct jinja_big *big = jinja_alloc(run, 1, sizeof *big + n * sizeof(uint32_t));
    if (!big) return NULL;
    big->is_negative = false;
    big->n = (uint32_t)n;
    memset(big->limbs, 0, n * sizeof(uint32_t));
    return big;
}

/* Drops leading zero limbs and gives the smallest type that holds the value. */
static struct jv finish(struct jinja_big *big) {
    while (big->n && !big->limbs[big->n - 1]) big->n--;
    if (big->n <= 2) {
        uint64_t magnitude = (big->n > 0 ? big->limbs[0] : 0) | (uint64_t)(big->n > 1 ? big->limbs[1] : 0) << 32;
        if (magnitude <= (uint64_t)INT64_MAX)
            return jv_int(big->is_negative ? -(int64_t)magnitude : (int64_t)magnitude);
        if (big->is_negative && magnitude == (uint64_t)1 << 63) return jv_int(INT64_MIN);
    }
    return jv_object(JV_BIG, big);
}

static int compare_magnitude(const struct operand *a, const struct operand *b) {
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    for (uint32_t i = a->n; i-- > 0;)
        if (a->limbs[i] != b->limbs[i]) return a->limbs[i] < b->limbs[i] ? -1 : 1;
    return 0;
}

static bool add_signed(struct jinja_run *run, struct operand *a, struct operand *b, struct jv *sum) {
    if (a->is_negative != b->is_negative) { /* larger magnitude minus the smaller, with the sign of the larger */
        struct operand *large = compare_magnitude(a, b) < 0 ? b : a, *small = large == a ? b : a;
        struct jinja_big *r = new_big(run, large->n);
        if (!r) return false;
        int64_t borrow = 0;
        for (uint32_t i = 0; i < large->n; i++) {
            int64_t digit = (int64_t)large->limbs[i] - (i < small->n ? small->limbs[i] : 0) + borrow;
            r->limbs[i] = (uint32_t)digit;
            borrow = digit < 0 ? -1 : 0;
        }
        r->is_negative = large->is_negative;
        *sum = finish(r);
        return true;
    }
    uint32_t n = (a->n > b->n ? a->n : b->n) + 1;
    struct jinja_big *r = new_big(run, n);
    if (!r) return false;
    uint64_t carry = 0;
    for (uint32_t i = 0; i < n; i++) {
        carry += (uint64_t)(i < a->n ? a->limbs[i] : 0) + (i < b->n ? b->limbs[i] : 0);
        r->limbs[i] = (uint32_t)carry;
        carry >>= 32;
    }
    r->is_negative = a->is_negative;
    *sum = finish(r);
    return true;
}

bool jinja_int_add(struct jinja_run *run, struct jv a, struct jv b, struct jv *sum) {
    int64_t small;
    if (jv_is_small(a) && jv_is_small(b) && !__builtin_add_overflow(jv_small(a), jv_small(b), &small)) {
        *sum = jv_int(small);
        return true;
    }
    struct operand x, y;
    operand_init(&x, a);
    operand_init(&y, b);
    return add_signed(run, &x, &y, sum);
}

bool jinja_int_subtract(struct jinja_run *run, struct jv a, struct jv b, struct jv *difference) {
    int64_t small;
    if (jv_is_small(a) && jv_is_small(b) && !__builtin_sub_overflow(jv_small(a), jv_small(b), &small)) {
        *difference = jv_int(small);
        return true;
    }
    struct operand x, y;
    operand_init(&x, a);
    operand_init(&y, b);
    y.is_negative = !y.is_negative;
    return add_signed(run, &x, &y, difference);
}

bool jinja_int_multiply(struct jinja_run *run, struct jv a, struct jv b, struct jv *product) {
    int64_t small;
    if (jv_is_small(a) && jv_is_small(b) && !__builtin_mul_overflow(jv_small(a), jv_small(b), &small)) {
        *product = jv_int(small);
        return true;
    }
    struct operand x, y;
    operand_init(&x, a);
    operand_init(&y, b);
    if (!jinja_spend(run, (uint64_t)x.n * y.n / 16 + 1)) return false;
    struct jinja_big *r = new_big(run, (size_t)x.n + y.n);
    if (!r) return false;
    for (uint32_t i = 0; i < x.n; i++) {
        uint64_t carry = 0;
        for (uint32_t j = 0; j < y.n; j++) {
            carry += (uint64_t)x.limbs[i] * y.limbs[j] + r->limbs[i + j];
            r->limbs[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        r->limbs[i + y.n] = (uint32_t)carry;
    }
    r->is_negative = x.is_negative != y.is_negative;
    *product = finish(r);
    return true;
}

/* limbs /= divisor in place; the remainder. */
static uint32_t divide_by_limb(uint32_t *limbs, uint32_t n, uint32_t divisor) {
    uint64_t rest = 0;
    for (uint32_t i = n; i-- > 0;) {
        rest = rest << 32 | limbs[i];
        limbs[i] = (uint32_t)(rest / divisor);
        rest %= divisor;
    }
    return (uint32_t)rest;
}

/* Magnitudes, bit by bit from the top: short and slow, the charge follows. q has x->n limbs, r has y->n + 1. */
static bool divide_magnitude(struct jinja_run *run, const struct operand *x, const struct operand *y,
                             struct jinja_big *q, struct jinja_big *r) {
    if (y->n == 1) {
        memcpy(q->limbs, x->limbs, x->n * sizeof(uint32_t));
        r->limbs[0] = divide_by_limb(q->limbs, x->n, y->limbs[0]);
        return true;
    }
    if (!jinja_spend(run, (uint64_t)x->n * 32 * (y->n + 1) / 16 + 1)) return false;
    for (uint32_t bit = x->n * 32; bit-- > 0;) {
        uint32_t carry = x->limbs[bit / 32] >> bit % 32 & 1;
        for (uint32_t i = 0; i <= y->n; i++) {
            uint32_t top = r->limbs[i] >> 31;
            r->limbs[i] = r->limbs[i] << 1 | carry;
            carry = top;
        }
        bool is_greater = r->limbs[y->n] != 0, decided = is_greater;
        for (uint32_t i = y->n; i-- > 0 && !decided;)
            if (r->limbs[i] != y->limbs[i]) {
                is_greater = r->limbs[i] > y->limbs[i];
                decided = true;
            }
        if (decided && !is_greater) continue;
        int64_t borrow = 0;
        for (uint32_t i = 0; i <= y->n; i++) {
            int64_t digit = (int64_t)r->limbs[i] - (i < y->n ? y->limbs[i] : 0) + borrow;
            r->limbs[i] = (uint32_t)digit;
            borrow = digit < 0 ? -1 : 0;
        }
        q->limbs[bit / 32] |= (uint32_t)1 << bit % 32;
    }
    return true;
}

bool jinja_int_divide(struct jinja_run *run, struct jv a, struct jv b, struct jv *quotient, struct jv *remainder) {
    struct jv q, r;
    if (jv_is_small(a) && jv_is_small(b) && !(jv_small(a) == INT64_MIN && jv_small(b) == -1)) {
        int64_t x = jv_small(a), y = jv_small(b), down = x % y && (x < 0) != (y < 0);
        q = jv_int(x / y - down);
        r = jv_int(x % y + (down ? y : 0));
    } else {
        struct operand x, y;
        operand_init(&x, a);
        operand_init(&y, b);
        struct jinja_big *big_q = new_big(run, x.n), *big_r = big_q ? new_big(run, (size_t)y.n + 1) : NULL;
        if (!big_r || !divide_magnitude(run, &x, &y, big_q, big_r)) return false;
        big_q->is_negative = x.is_negative != y.is_negative;
        big_r->is_negative = x.is_negative;
        q = finish(big_q);
        r = finish(big_r);
        if (jinja_int_sign(r) && x.is_negative != y.is_negative &&
            (!jinja_int_subtract(run, q, jv_int(1), &q) || !jinja_int_add(run, r, b, &r)))
            return false;
    }
    if (quotient) *quotient = q;
    if (remainder) *remainder = r;
    return true;
}

bool jinja_int_power(struct jinja_run *run, struct jv base, struct jv exponent, struct jv *power) {
    if (exponent.type == JV_BIG && !(jv_is_small(base) && jv_small(base) >= -1 && jv_small(base) <= 1))
        return jinja_raise(run, JINJA_LIMIT, "an integer has more than %d bits", JINJA_BIG_LIMBS * 32);
    uint64_t n = exponent.type == JV_BIG ? 2 + (exponent.big->limbs[0] & 1) : (uint64_t)jv_small(exponent);
    struct jv result = jv_int(1);
    for (; n; n >>= 1) {
        if (n & 1 && !jinja_int_multiply(run, result, base, &result)) return false;
        if (n > 1 && !jinja_int_multiply(run, base, base, &base)) return false;
    }
    *power = result;
    return true;
}

bool jinja_int_negate(struct jinja_run *run, struct jv a, struct jv *negative) {
    return jinja_int_subtract(run, jv_int(0), a, negative);
}

int jinja_int_sign(struct jv a) {
    if (a.type == JV_BIG) return a.big->is_negative ? -1 : 1;
    return (jv_small(a) > 0) - (jv_small(a) < 0);
}

int jinja_int_compare(struct jv a, struct jv b) {
    if (jv_is_small(a) && jv_is_small(b)) return (jv_small(a) > jv_small(b)) - (jv_small(a) < jv_small(b));
    struct operand x, y;
    operand_init(&x, a);
    operand_init(&y, b);
    if (x.is_negative != y.is_negative) return x.is_negative ? -1 : 1;
    return x.is_negative ? -compare_magnitude(&x, &y) : compare_magnitude(&x, &y);
}

double jinja_int_to_double(struct jv a) {
    if (jv_is_small(a)) return (double)jv_small(a);
    /* The top 64 bits with a sticky last bit round as the whole number would. */
    struct operand x;
    operand_init(&x, a);
    uint32_t top = x.n - 1;
    int shift = __builtin_clz(x.limbs[top]);
    uint64_t head = (uint64_t)x.limbs[top] << 32 | (top >= 1 ? x.limbs[top - 1] : 0);
    uint32_t below = top >= 2 ? x.limbs[top - 2] : 0;
    if (shift) head = head << shift | below >> (32 - shift);
    uint32_t rest = shift ? below << shift : below;
    for (uint32_t i = 0; i + 2 < top && !rest; i++) rest = x.limbs[i];
    double value = ldexp((double)(head | (rest != 0)), (int)(top * 32) - 32 - shift);
    return x.is_negative ? -value : value;
}

/* a * 2^shift, shift >= 0. */
static bool shift_left(struct jinja_run *run, struct jv a, uint32_t shift, struct jv *shifted) {
    struct operand x;
    operand_init(&x, a);
    struct jinja_big *r = new_big(run, (size_t)x.n + shift / 32 + 1);
    if (!r) return false;
    for (uint32_t i = 0; i < x.n; i++) {
        uint64_t word = (uint64_t)x.limbs[i] << shift % 32;
        r->limbs[i + shift / 32] |= (uint32_t)word;
        r->limbs[i + shift / 32 + 1] |= (uint32_t)(word >> 32);
    }
    r->is_negative = x.is_negative;
    *shifted = finish(r);
    return true;
}

static int bit_length(struct jv a) {
    struct operand x;
    operand_init(&x, a);
    return x.n ? (int)x.n * 32 - __builtin_clz(x.limbs[x.n - 1]) : 0;
}

bool jinja_int_true_divide(struct jinja_run *run, struct jv a, struct jv b, double *quotient) {
    const int64_t exact = (int64_t)1 << 53;
    if (jv_is_small(a) && jv_is_small(b) && jv_small(a) >= -exact && jv_small(a) <= exact && jv_small(b) >= -exact &&
        jv_small(b) <= exact) {
        *quotient = (double)jv_small(a) / (double)jv_small(b);
        return true;
    }
    bool is_negative = jinja_int_sign(a) * jinja_int_sign(b) < 0;
    if (jinja_int_sign(a) < 0 && !jinja_int_negate(run, a, &a)) return false;
    if (jinja_int_sign(b) < 0 && !jinja_int_negate(run, b, &b)) return false;
    /* Scale so that the quotient has at least 66 bits; a sticky last bit makes the conversion round correctly. */
    int shift = 66 - (bit_length(a) - bit_length(b));
    struct jv q, r;
    if (!shift_left(run, shift > 0 ? a : b, (uint32_t)abs(shift), shift > 0 ? &a : &b) ||
        !jinja_int_divide(run, a, b, &q, &r))
        return false;
    if (jinja_int_sign(r) && (!jinja_int_multiply(run, q, jv_int(2), &q) || !jinja_int_add(run, q, jv_int(1), &q)))
        return false;
    double value = ldexp(jinja_int_to_double(q), -shift - (jinja_int_sign(r) != 0));
    if (isinf(value)) return jinja_raise(run, JINJA_OVERFLOW, "integer division result too large for a float");
    *quotient = is_negative ? -value : value;
    return true;
}

bool jinja_int_from_double(struct jinja_run *run, double x, struct jv *value) {
    if (x >= -0x1p63 && x < 0x1p63) {
        *value = jv_int((int64_t)x);
        return true;
    }
    int exponent;
    double fraction = frexp(x, &exponent);
    return shift_left(run, jv_int((int64_t)ldexp(fraction, 53)), (uint32_t)(exponent - 53), value);
}

static unsigned digit_value(char c) {
    if (c >= '0' && c <= '9') return (unsigned)(c - '0');
    return (unsigned)((c | 32) - 'a') + 10;
}

bool jinja_int_parse(struct jinja_run *run, const char *digits, size_t length, unsigned base, bool is_negative,
                     struct jv *value) {
    uint64_t small = 0;
    size_t i = 0;
    for (; i < length && small < (uint64_t)1 << 57; i++) small = small * base + digit_value(digits[i]);
    if (i == length) {
        *value = jv_int(is_negative ? -(int64_t)small : (int64_t)small);
        return true;
    }
    if (base == 10 && length > 4300)
        return jinja_raise(run, JINJA_VALUE, "Exceeds the limit (4300 digits) for integer string conversion");
    size_t limbs = length / 5 + 2; /* a digit is below 36 < 2^6 */
    struct jinja_big *r = new_big(run, limbs);
    if (!r || !jinja_spend(run, limbs * length / 64 + 1)) return false;
    uint32_t n = 0;
    for (i = 0; i < length; i++) {
        uint64_t carry = digit_value(digits[i]);
        for (uint32_t j = 0; j < n || carry; j++) {
            if (j == n) n++;
            carry += (uint64_t)r->limbs[j] * base;
            r->limbs[j] = (uint32_t)carry;
            carry >>= 32;
        }
    }
    r->is_negative = is_negative;
    *value = finish(r);
    return true;
}

bool jinja_int_print(struct jinja_run *run, struct jv a, unsigned base, struct buffer *out) {
    if (jv_is_small(a) && base == 10)
        return buffer_printf(out, "%lld", (long long)jv_small(a)) || jinja_out_of_memory(run);
    struct operand x;
    operand_init(&x, a);
    struct jinja_big *rest = new_big(run, x.n ? x.n : 1);
    size_t room = (size_t)x.n * 32 + 2, at = room;
    char *text = rest ? jinja_alloc(run, room, 1) : NULL;
    if (!text || !jinja_spend(run, (uint64_t)x.n * x.n / 4 + 1)) return false;
    memcpy(rest->limbs, x.limbs, x.n * sizeof(uint32_t));
    uint32_t chunk = base == 10 ? 1000000000 : base == 8 ? (uint32_t)1 << 30 : (uint32_t)1 << 28;
    int chunk_digits = base == 10 ? 9 : base == 8 ? 10 : base == 16 ? 7 : 28;
    while (rest->n && !rest->limbs[rest->n - 1]) rest->n--;
    do {
        uint32_t part = divide_by_limb(rest->limbs, rest->n, chunk);
        while (rest->n && !rest->limbs[rest->n - 1]) rest->n--;
        for (int i = 0; i < chunk_digits && (rest->n || part || !i); i++, part /= base)
            text[--at] = "0123456789abcdef"[part % base];
    } while (rest->n);
    if (base == 10 && room - at > 4300)
        return jinja_raise(run, JINJA_VALUE, "Exceeds the limit (4300 digits) for integer string conversion");
    if (x.is_negative) text[--at] = '-';
    return buffer_append(out, text + at, room - at) || jinja_out_of_memory(run);
}
