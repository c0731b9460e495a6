/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as Python reads and writes them. */
#ifndef MLXCEL_TEXT_JINJA_NUMBER_H
#define MLXCEL_TEXT_JINJA_NUMBER_H

#include "text/jinja/run.h"

/* repr(x): the shortest decimal that reads back, 1e+16 from 16 digits on. */
bool jinja_print_float(struct jinja_run *run, double x, struct buffer *out);
/* printf in the "C" locale; `format` has one '*' precision and one double. */
bool jinja_print_real(struct jinja_run *run, const char *format, int precision, double x, struct buffer *out);
double jinja_strtod(struct jinja_run *run, const char *text);

/* float(text): blanks around, underscores between digits, inf and nan; false (no failure set) when it is none. */
bool jinja_read_float(struct jinja_run *run, const char *text, size_t length, double *value);
/* int(text, base), base 0 or 2 to 36; *is_number is false when it is none. False on failure. */
bool jinja_read_int(struct jinja_run *run, const char *text, size_t length, unsigned base, bool *is_number,
                    struct jv *value);
/* round(x, digits) of a float. */
bool jinja_round(struct jinja_run *run, double x, int64_t digits, double *rounded);

#endif
