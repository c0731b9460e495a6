/* SPDX-License-Identifier: Apache-2.0 */
/* Numerals are recognised by running over their characters with a small record: how the digits so far compare with each
 * bound, their remainder by each step, and whether a fraction was seen. All records that can occur are enumerated, which
 * gives the automaton. */
#include "text/grammar/decimal.h"

#include "base/map.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- decimals ---- */

static bool read_text(struct decimal *d, const char *text, size_t length) {
    size_t at = 0;
    int32_t point = 0;
    bool in_fraction = false;
    *d = (struct decimal){0};
    if (at < length && text[at] == '-') {
        d->is_negative = true;
        at++;
    }
    for (; at < length && text[at] != 'e' && text[at] != 'E'; at++) {
        if (text[at] == '.') {
            in_fraction = true;
            continue;
        }
        if (d->n_digits || text[at] != '0') {
            if (d->n_digits == sizeof d->digits) {
                if (text[at] != '0') return false;
            } else {
                d->digits[d->n_digits++] = text[at];
            }
            if (!in_fraction) point++;
        } else if (in_fraction) {
            point--;
        }
    }
    long power = at < length ? strtol(text + at + 1, NULL, 10) : 0;
    if (power > 100000 || power < -100000 || point > 100000) return false;
    d->exponent = point + (int32_t)power;
    while (d->n_digits && d->digits[d->n_digits - 1] == '0') d->n_digits--;
    if (!d->n_digits) *d = (struct decimal){0};
    for (size_t i = d->n_digits; i < sizeof d->digits; i++) d->digits[i] = 0;
    return true;
}

bool decimal_from_json(struct decimal *d, const struct json *value) {
    struct buffer text = {0};
    json_write_value(&(struct json_writer){.out = &text}, value);
    bool ok = !text.failed && json_is_number(value) && read_text(d, text.data, text.length);
    buffer_free(&text);
    return ok;
}

/* |a| against |b|. */
static int compare_magnitude(const struct decimal *a, const struct decimal *b) {
    if (!a->n_digits || !b->n_digits) return (a->n_digits > 0) - (b->n_digits > 0);
    if (a->exponent != b->exponent) return a->exponent < b->exponent ? -1 : 1;
    int c = memcmp(a->digits, b->digits, sizeof a->digits);
    return (c > 0) - (c < 0);
}

int decimal_compare(const struct decimal *a, const struct decimal *b) {
    if (a->is_negative != b->is_negative) return a->is_negative ? -1 : 1;
    int c = compare_magnitude(a, b);
    return a->is_negative ? -c : c;
}

bool decimal_is_integer(const struct decimal *d) { return (int64_t)d->exponent >= (int64_t)d->n_digits; }

/* ---- steps (multipleOf) as p / 10^k ---- */

struct step {
    uint32_t p, k;
    uint32_t zeros; /* p divides 10^zeros; NO_ZEROS: no power of ten */
    bool is_negated;
};

enum { NO_ZEROS = UINT32_MAX };

enum { MAX_STEP = 100000, MAX_STEP_DIGITS = 60, MAX_EXPONENT = 400 };

static bool make_step(struct step *step, const struct decimal *d) {
    uint64_t p = 0;
    int64_t zeros = (int64_t)d->exponent - (int64_t)d->n_digits;
    for (uint32_t i = 0; i < d->n_digits; i++)
        if ((p = p * 10 + (uint64_t)(d->digits[i] - '0')) > MAX_STEP) return false;
    for (; zeros > 0; zeros--)
        if ((p *= 10) > MAX_STEP) return false;
    if (!p || -zeros > MAX_STEP_DIGITS) return false;
    step->p = (uint32_t)p;
    step->k = (uint32_t)-zeros;
    step->zeros = NO_ZEROS;
    uint64_t power = 1;
    for (uint32_t i = 0; i <= 9 && step->zeros == NO_ZEROS; i++, power *= 10)
        if (power % p == 0) step->zeros = i;
    return true;
}

/* ---- numerals ---- */

enum phase {
    PHASE_START,
    PHASE_MINUS,
    PHASE_ZERO,
    PHASE_INTEGER,
    PHASE_POINT,
    PHASE_FRACTION,
    PHASE_E,
    PHASE_SIGN,
    PHASE_EXPONENT
};
enum { LESS, EQUAL, GREATER };

/* Zeros that change nothing are bounded, since a model can fall into writing them without end: in front of an exponent's
 * digits, and behind the fraction of an integer or multiple. */
enum { MAX_EXPONENT_ZEROS = 2, MAX_FRACTION = 17 };

/* What is known after some characters. Zeroed where it does not matter, so that equal records are equal bytes. */
struct record {
    uint8_t phase, is_negative, has_fraction; /* a fraction digit that is not 0 */
    uint8_t plain[2];                         /* the digits so far against those of each bound, aligned at the point */
    uint8_t mantissa[2];                      /* the same, aligned at the first digit: for a number with exponent */
    uint8_t exponent_is_negative;
    uint8_t step_failed[NUMBER_MAX_STEPS];
    uint16_t n_integer, n_fraction; /* digits, up to what matters */
    uint16_t exponent;
    uint16_t n_zeros; /* in front of the exponent's digits */
    uint32_t remainder[NUMBER_MAX_STEPS];
};

struct numerals {
    const struct number_set *set;
    struct decimal bounds[2]; /* magnitudes of minimum and maximum */
    struct step steps[NUMBER_MAX_STEPS];
    uint16_t most_integer, most_fraction, most_exponent;
    bool allows_any_mantissa, limits_fraction;
};

static int32_t integer_length(const struct decimal *bound) { return bound->exponent > 0 ? bound->exponent : 0; }

/* Digit number i of the bound's digits, 0 beyond. */
static int digit_at(const struct decimal *bound, int64_t i) {
    return i >= 0 && i < (int64_t)bound->n_digits ? bound->digits[i] - '0' : 0;
}

static uint8_t compare_digit(uint8_t so_far, int digit, int bound) {
    if (so_far != EQUAL) return so_far;
    return digit < bound ? LESS : digit > bound ? GREATER : EQUAL;
}

/* The comparison once all digits are known: those of the bound from number i on are still to be compared with nothing. */
static uint8_t compare_rest(const struct decimal *bound, uint8_t so_far, int64_t i) {
    if (so_far == EQUAL && i < (int64_t)bound->n_digits) return LESS;
    return so_far;
}

static void take_step_digit(const struct numerals *n, struct record *r, int digit, bool in_fraction) {
    for (uint32_t i = 0; i < n->set->n_steps; i++) {
        const struct step *s = &n->steps[i];
        if (in_fraction && r->n_fraction >= s->k) {
            if (digit) r->step_failed[i] = 1;
        } else {
            r->remainder[i] = (uint32_t)(((uint64_t)r->remainder[i] * 10 + (uint64_t)digit) % s->p);
        }
    }
}

static void take_integer_digit(const struct numerals *n, struct record *r, int digit) {
    for (int b = 0; b < 2; b++) {
        const struct decimal *bound = &n->bounds[b];
        r->plain[b] = r->n_integer >= integer_length(bound)
                          ? GREATER
                          : compare_digit(r->plain[b], digit, digit_at(bound, r->n_integer));
        r->mantissa[b] = r->n_integer ? EQUAL : compare_digit(EQUAL, digit, digit_at(bound, 0));
    }
    take_step_digit(n, r, digit, false);
    if (r->n_integer < n->most_integer) r->n_integer++;
}

/* At the point or the end: the number of integer digits decides first. */
static void end_integer(const struct numerals *n, struct record *r) {
    for (int b = 0; b < 2; b++) {
        int32_t length = integer_length(&n->bounds[b]);
        if (r->n_integer < length)
            r->plain[b] = LESS;
        else if (r->n_integer > length)
            r->plain[b] = GREATER;
    }
}

static void take_fraction_digit(const struct numerals *n, struct record *r, int digit) {
    for (int b = 0; b < 2; b++) {
        const struct decimal *bound = &n->bounds[b];
        r->plain[b] = compare_digit(r->plain[b], digit, digit_at(bound, (int64_t)bound->exponent + r->n_fraction));
        if (r->n_integer == 1)
            r->mantissa[b] = compare_digit(r->mantissa[b], digit, digit_at(bound, 1 + (int64_t)r->n_fraction));
    }
    take_step_digit(n, r, digit, true);
    if (digit) r->has_fraction = 1;
    if (r->n_fraction < n->most_fraction) r->n_fraction++;
}

/* Forgets what no longer matters behind the e. */
static void begin_exponent(const struct numerals *n, struct record *r) {
    for (int b = 0; b < 2; b++) {
        r->mantissa[b] = compare_rest(&n->bounds[b], r->mantissa[b], 1 + (int64_t)r->n_fraction);
        r->plain[b] = 0;
    }
    r->phase = PHASE_E;
    r->n_integer = 0;
    memset(r->remainder, 0, sizeof r->remainder);
    memset(r->step_failed, 0, sizeof r->step_failed);
    if (n->set->n_steps) return;
    if (n->set->kind != NUMBER_INTEGER) r->n_fraction = r->has_fraction = 0;
    if (!r->has_fraction) r->n_fraction = 0;
}

static bool take_digit(const struct numerals *n, struct record *r, int digit) {
    switch (r->phase) {
    case PHASE_START:
    case PHASE_MINUS:
        r->phase = digit ? PHASE_INTEGER : PHASE_ZERO;
        for (int b = 0; b < 2; b++) r->plain[b] = r->mantissa[b] = EQUAL;
        if (digit) take_integer_digit(n, r, digit);
        return true;
    case PHASE_ZERO: return false;
    case PHASE_INTEGER: take_integer_digit(n, r, digit); return true;
    case PHASE_POINT: r->phase = PHASE_FRACTION; /* fall through */
    case PHASE_FRACTION:
        if (n->limits_fraction && r->n_fraction >= MAX_FRACTION) return false;
        take_fraction_digit(n, r, digit);
        return true;
    default:
        if (!digit && !r->exponent && ++r->n_zeros > MAX_EXPONENT_ZEROS) return false;
        if (digit) r->n_zeros = 0;
        r->phase = PHASE_EXPONENT;
        r->exponent = (uint16_t)(r->exponent * 10 + digit);
        if (r->exponent > n->most_exponent) r->exponent = n->most_exponent;
        return true;
    }
}

static bool take(const struct numerals *n, struct record *r, char c) {
    if (c >= '0' && c <= '9') return take_digit(n, r, c - '0');
    switch (c) {
    case '-':
        if (r->phase == PHASE_START) {
            r->phase = PHASE_MINUS;
            r->is_negative = 1;
            return true;
        }
        if (r->phase != PHASE_E || (n->set->kind == NUMBER_INTEGER && r->has_fraction)) return false;
        r->phase = PHASE_SIGN;
        r->exponent_is_negative = 1;
        return true;
    case '+':
        if (r->phase != PHASE_E) return false;
        r->phase = PHASE_SIGN;
        return true;
    case '.':
        if (r->phase != PHASE_ZERO && r->phase != PHASE_INTEGER) return false;
        end_integer(n, r);
        r->phase = PHASE_POINT;
        return true;
    default: /* e, E */
        if (r->phase != PHASE_ZERO && r->phase != PHASE_INTEGER && r->phase != PHASE_FRACTION) return false;
        if (r->n_integer != 1 && !n->allows_any_mantissa) return false;
        begin_exponent(n, r);
        return true;
    }
}

/* |number| against bound b, of a finished numeral. */
static uint8_t compare_finished(const struct numerals *n, const struct record *r, int b) {
    const struct decimal *bound = &n->bounds[b];
    if (r->phase != PHASE_EXPONENT) {
        struct record ended = *r;
        if (r->phase != PHASE_FRACTION) end_integer(n, &ended);
        return compare_rest(bound, ended.plain[b],
                            (int64_t)bound->exponent + (r->phase == PHASE_FRACTION ? r->n_fraction : 0));
    }
    if (!bound->n_digits) return GREATER;
    int64_t exponent = r->exponent_is_negative ? -(int64_t)r->exponent : r->exponent,
            other = (int64_t)bound->exponent - 1;
    return exponent < other ? LESS : exponent > other ? GREATER : r->mantissa[b];
}

static bool is_zero(const struct record *r) {
    return (r->phase == PHASE_ZERO || (r->phase == PHASE_FRACTION && !r->n_integer)) && !r->has_fraction;
}

/* number against bound b: both signs count. */
static int compare_signed(const struct numerals *n, const struct record *r, int b) {
    bool negative = r->is_negative && !is_zero(r);
    const struct decimal *bound = b ? &n->set->maximum : &n->set->minimum;
    if (negative != bound->is_negative) return negative ? -1 : is_zero(r) && !bound->n_digits ? 0 : 1;
    int c = (int)compare_finished(n, r, b) - EQUAL;
    return negative ? -c : c;
}

static bool steps_agree(const struct numerals *n, const struct record *r) {
    for (uint32_t i = 0; i < n->set->n_steps; i++) {
        const struct step *s = &n->steps[i];
        if (r->phase == PHASE_EXPONENT) {
            int64_t exponent = r->exponent_is_negative ? -(int64_t)r->exponent : r->exponent;
            /* No multiple: what is smaller than the step. Others are not written so. */
            if (s->is_negated && exponent < (int64_t)n->set->steps[i].step.exponent - 1) continue;
            /* A multiple: enough zeros at the end. Fewer may do, but need not be written so. */
            int64_t zeros = exponent - r->n_fraction + s->k;
            if (s->is_negated || s->zeros == NO_ZEROS || zeros < (int64_t)s->zeros) return false;
            continue;
        }
        uint64_t remainder = r->remainder[i];
        uint32_t digits = r->phase == PHASE_FRACTION ? r->n_fraction : 0;
        for (uint32_t k = digits; k < s->k; k++) remainder = remainder * 10 % s->p;
        bool is_multiple = !r->step_failed[i] && remainder == 0;
        if (is_multiple == s->is_negated) return false;
        if (is_multiple && digits > (s->k ? s->k : 1)) return false;
    }
    return true;
}

static bool is_member(const struct numerals *n, const struct record *r) {
    const struct number_set *set = n->set;
    if (r->phase != PHASE_ZERO && r->phase != PHASE_INTEGER && r->phase != PHASE_FRACTION && r->phase != PHASE_EXPONENT)
        return false;
    bool is_integer = !r->has_fraction;
    if (set->kind == NUMBER_INTEGER && r->phase == PHASE_FRACTION && r->n_fraction > 1) return false;
    if (r->phase == PHASE_EXPONENT) {
        if (set->kind == NUMBER_NO_INTEGER) return false;
        if (set->kind == NUMBER_INTEGER)
            is_integer = r->has_fraction ? !r->exponent_is_negative && r->exponent >= r->n_fraction
                                         : !r->exponent_is_negative || !r->exponent;
    }
    if (set->kind != NUMBER_ANY && is_integer != (set->kind == NUMBER_INTEGER)) return false;
    if (set->has_minimum) {
        int c = compare_signed(n, r, 0);
        if (c < 0 || (c == 0 && set->excludes_minimum)) return false;
    }
    if (set->has_maximum) {
        int c = compare_signed(n, r, 1);
        if (c > 0 || (c == 0 && set->excludes_maximum)) return false;
    }
    return steps_agree(n, r);
}

/* Drops what can no longer change the result, so that fewer records differ. */
static void settle(const struct numerals *n, struct record *r) {
    const bool has[2] = {n->set->has_minimum, n->set->has_maximum};
    bool counts_fraction = n->set->n_steps > 0 || n->set->kind == NUMBER_INTEGER;
    for (int b = 0; b < 2; b++) {
        if (!has[b])
            r->plain[b] = r->mantissa[b] = 0;
        else if (r->plain[b] == EQUAL || r->mantissa[b] == EQUAL)
            counts_fraction = true;
    }
    if (r->phase == PHASE_FRACTION && !counts_fraction) r->n_fraction = 0;
    if (n->set->kind == NUMBER_ANY && r->phase == PHASE_FRACTION && r->n_integer) r->has_fraction = 0;
}

static bool prepare(struct numerals *n, const struct number_set *set, struct mx_error *err) {
    *n = (struct numerals){.set = set};
    n->limits_fraction = set->kind == NUMBER_INTEGER || set->n_steps > 0;
    n->allows_any_mantissa = !set->n_steps && !set->has_minimum && !set->has_maximum && set->kind == NUMBER_ANY;
    if (set->has_minimum) n->bounds[0] = set->minimum;
    if (set->has_maximum) n->bounds[1] = set->maximum;
    uint32_t most_integer = 2, most_fraction = 17, most_exponent = set->n_steps ? 28 : 18;
    for (int b = 0; b < 2; b++) {
        const struct decimal *d = &n->bounds[b];
        if (d->exponent > MAX_EXPONENT || d->exponent < -MAX_EXPONENT)
            return error_set(err, ERROR_UNSUPPORTED, "minimum or maximum: the number is too large or too small");
        int64_t fraction = (int64_t)d->n_digits - d->exponent + 1;
        uint32_t power = (uint32_t)(d->exponent < 0 ? 2 - d->exponent : d->exponent + 2);
        if (integer_length(d) + 1 > (int64_t)most_integer) most_integer = (uint32_t)integer_length(d) + 1;
        if (fraction > (int64_t)most_fraction) most_fraction = (uint32_t)fraction;
        if (d->n_digits + 1 > most_fraction) most_fraction = d->n_digits + 1;
        if (power > most_exponent) most_exponent = power;
    }
    for (uint32_t i = 0; i < set->n_steps; i++) {
        if (!make_step(&n->steps[i], &set->steps[i].step))
            return error_set(err, ERROR_UNSUPPORTED, "multipleOf: the number has too many digits");
        n->steps[i].is_negated = set->steps[i].is_negated;
        uint32_t power = n->steps[i].k + 2;
        if (power > most_exponent) most_exponent = power;
        if (n->steps[i].k + 1 > most_fraction) most_fraction = n->steps[i].k + 1;
    }
    n->most_integer = (uint16_t)most_integer;
    n->most_fraction = (uint16_t)most_fraction;
    n->most_exponent = (uint16_t)most_exponent;
    return true;
}

struct records {
    struct map map;
    struct arena arena;
    const struct record **list;
    size_t n, capacity;
};

static bool record_number(struct records *all, const struct record *r, uint32_t *number, struct mx_error *err) {
    uint64_t found;
    if (map_get(&all->map, (const char *)r, sizeof *r, &found)) {
        *number = (uint32_t)found;
        return true;
    }
    struct record *copy = arena_alloc(&all->arena, sizeof *copy);
    if (!copy || !array_reserve(&all->list, &all->capacity, all->n + 1, sizeof *all->list))
        return error_memory(err, "number range");
    memcpy(copy, r, sizeof *copy);
    all->list[all->n] = copy;
    *number = (uint32_t)all->n++;
    return map_put(&all->map, (const char *)copy, sizeof *copy, *number, NULL) || error_memory(err, "number range");
}

const struct automaton *number_automaton(struct arena *arena, const struct number_set *set, struct mx_error *err) {
    static const char symbols[] = "+-.0123456789Ee"; /* ascending */
    struct numerals n;
    struct records all = {0};
    struct automaton_builder builder = {0};
    struct record start;
    uint32_t number;
    memset(&start, 0, sizeof start);
    bool ok = prepare(&n, set, err) && record_number(&all, &start, &number, err);
    for (size_t i = 0; ok && i < all.n; i++) {
        ok = automaton_add_state(&builder, is_member(&n, all.list[i]), err);
        for (const char *c = symbols; ok && *c; c++) {
            struct record next;
            memcpy(&next, all.list[i], sizeof next);
            if (!take(&n, &next, *c)) continue;
            settle(&n, &next);
            ok = record_number(&all, &next, &number, err) &&
                 automaton_add_edge(&builder, (uint8_t)*c, (uint8_t)*c, number, err);
        }
    }
    map_free(&all.map);
    arena_free(&all.arena);
    free(all.list);
    if (ok) return automaton_finish(arena, &builder, err);
    automaton_builder_free(&builder);
    return NULL;
}

/* ---- lists of numbers ---- */

/* The numerals of one number as a regular expression: 12.5, and 1.25e+01 with the point behind the first digit. */
static void append_numerals(struct buffer *out, const struct decimal *d) {
    int32_t n = (int32_t)d->n_digits, e = d->exponent;
    const char *sign = d->is_negative ? "-" : "";
    if (!n) {
        buffer_puts(out, "-?0(?:\\.0)?");
        return;
    }
    buffer_puts(out, sign);
    if (e <= 0) buffer_puts(out, "0");
    for (int32_t i = 0; i < e; i++) buffer_putc(out, i < n ? d->digits[i] : '0');
    if (e < n) buffer_puts(out, "\\.");
    for (int32_t i = e; i < 0; i++) buffer_putc(out, '0');
    for (int32_t i = e > 0 ? e : 0; i < n; i++) buffer_putc(out, d->digits[i]);
    buffer_puts(out, e < n ? "|" : "(?:\\.0)?|");
    buffer_printf(out, "%s%c", sign, d->digits[0]);
    if (n > 1)
        buffer_printf(out, "\\.%.*s", n - 1, d->digits + 1);
    else
        buffer_puts(out, "(?:\\.0)?");
    e--;
    buffer_printf(out, "[eE]%s0?%d", e < 0 ? "-" : e > 0 ? "\\+?" : "[+-]?", e < 0 ? -e : e);
}

const struct automaton *numbers_automaton(struct arena *arena, const struct decimal *numbers, size_t n,
                                          struct mx_error *err) {
    struct arena scratch = {0};
    struct buffer text = {0};
    for (size_t i = 0; i < n; i++) {
        if (numbers[i].exponent > MAX_EXPONENT || numbers[i].exponent < -MAX_EXPONENT) {
            buffer_free(&text);
            error_set(err, ERROR_UNSUPPORTED, "a constant number is too large or too small");
            return NULL;
        }
        if (i) buffer_putc(&text, '|');
        append_numerals(&text, &numbers[i]);
    }
    const struct pattern *p = NULL;
    if (text.failed)
        error_memory(err, "numbers");
    else
        p = regex_parse(&scratch, text.data ? text.data : "", text.length, 0, err);
    const struct automaton *a = p ? automaton_from_pattern(arena, p, err) : NULL;
    arena_free(&scratch);
    buffer_free(&text);
    return a;
}

/* ---- sets ---- */

bool number_set_is_empty(const struct number_set *s) {
    if (!s->has_minimum || !s->has_maximum) return false;
    int c = decimal_compare(&s->minimum, &s->maximum);
    if (c == 0 && !s->excludes_minimum && !s->excludes_maximum) return !number_set_has(s, &s->minimum);
    return c >= 0;
}

bool number_set_has(const struct number_set *s, const struct decimal *value) {
    if (s->has_minimum) {
        int c = decimal_compare(value, &s->minimum);
        if (c < 0 || (c == 0 && s->excludes_minimum)) return false;
    }
    if (s->has_maximum) {
        int c = decimal_compare(value, &s->maximum);
        if (c > 0 || (c == 0 && s->excludes_maximum)) return false;
    }
    return s->kind == NUMBER_ANY || decimal_is_integer(value) == (s->kind == NUMBER_INTEGER);
}
