/* SPDX-License-Identifier: Apache-2.0 */
/* Integers beyond 64 bits, as far as templates meet them: sign and magnitude, 32 bits a limb, at most
 * JINJA_BIG_LIMBS limbs (Python prints no integer of more than 4300 digits; that bound is kept). Every function takes
 * values of type JV_BOOL, JV_INT or JV_BIG and gives JV_INT where the result fits. */
#ifndef MLXCEL_TEXT_JINJA_INTEGER_H
#define MLXCEL_TEXT_JINJA_INTEGER_H

#include "text/jinja/run.h"

#define JINJA_BIG_LIMBS 2048

struct jinja_big {
    bool is_negative;
    uint32_t n;       /* limbs, the highest is not 0 */
    uint32_t limbs[]; /* lowest first */
};

bool jinja_int_add(struct jinja_run *run, struct jv a, struct jv b, struct jv *sum);
bool jinja_int_subtract(struct jinja_run *run, struct jv a, struct jv b, struct jv *difference);
bool jinja_int_multiply(struct jinja_run *run, struct jv a, struct jv b, struct jv *product);
/* Rounds towards minus infinity; either result may be NULL. b is not 0. */
bool jinja_int_divide(struct jinja_run *run, struct jv a, struct jv b, struct jv *quotient, struct jv *remainder);
/* exponent >= 0. */
bool jinja_int_power(struct jinja_run *run, struct jv base, struct jv exponent, struct jv *power);
bool jinja_int_negate(struct jinja_run *run, struct jv a, struct jv *negative);
int jinja_int_compare(struct jv a, struct jv b); /* -1, 0, 1 */
int jinja_int_sign(struct jv a);
/* Correctly rounded; infinite where Python raises OverflowError. */
double jinja_int_to_double(struct jv a);
/* a / b, correctly rounded; b is not 0. */
bool jinja_int_true_divide(struct jinja_run *run, struct jv a, struct jv b, double *quotient);
/* x is finite; its fraction is dropped. */
bool jinja_int_from_double(struct jinja_run *run, double x, struct jv *value);
/* Digits of base 2 to 36, no sign, prefix or underscore. */
bool jinja_int_parse(struct jinja_run *run, const char *digits, size_t length, unsigned base, bool is_negative,
                     struct jv *value);
/* Appends the digits in base 2, 8, 10 or 16, with a '-' in front of a negative number. */
bool jinja_int_print(struct jinja_run *run, struct jv a, unsigned base, struct buffer *out);

#endif
