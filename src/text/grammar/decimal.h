/* SPDX-License-Identifier: Apache-2.0 */
/* Exact decimal numbers, and the numerals of a set of numbers as an automaton. */
#ifndef MLXCEL_TEXT_GRAMMAR_DECIMAL_H
#define MLXCEL_TEXT_GRAMMAR_DECIMAL_H

#include "text/grammar/automaton.h"

#include "base/json.h"

/* sign * 0.d1d2d3... * 10^exponent with d1 != 0; zero has no digits. */
struct decimal {
    bool is_negative;
    uint32_t n_digits;
    int32_t exponent;
    char digits[64]; /* '0' to '9' */
};

/* False when the number has too many digits or is too large. */
bool decimal_from_json(struct decimal *d, const struct json *value);
int decimal_compare(const struct decimal *a, const struct decimal *b);
bool decimal_is_integer(const struct decimal *d);

enum { NUMBER_ANY, NUMBER_INTEGER, NUMBER_NO_INTEGER };
enum { NUMBER_MAX_STEPS = 4 }; /* multipleOf conditions at the same time */

/* The numbers between two bounds that are (no) multiples of given ones. */
struct number_set {
    bool has_minimum, has_maximum, excludes_minimum, excludes_maximum;
    uint8_t kind; /* NUMBER_... */
    uint8_t n_steps;
    struct decimal minimum, maximum;
    struct {
        struct decimal step;
        bool is_negated;
    } steps[NUMBER_MAX_STEPS];
};

bool number_set_is_empty(const struct number_set *set);
bool number_set_has(const struct number_set *set, const struct decimal *value);
/* The JSON numerals of the set. Every number of the set has one at least: all forms without exponent are there, and those
 * with one whose mantissa lies in [1, 10) unless multipleOf is used. */
const struct automaton *number_automaton(struct arena *arena, const struct number_set *set, struct mx_error *err);
/* The numerals of n numbers (n > 0). */
const struct automaton *numbers_automaton(struct arena *arena, const struct decimal *numbers, size_t n,
                                          struct mx_error *err);

#endif
