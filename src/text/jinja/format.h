/* SPDX-License-Identifier: Apache-2.0 */
/* Python's two ways to format: the % operator and str.format. */
#ifndef MLXCEL_TEXT_JINJA_FORMAT_H
#define MLXCEL_TEXT_JINJA_FORMAT_H

#include "text/jinja/call.h"

/* format % value */
bool jinja_percent(struct jinja_run *run, struct jv format, struct jv value, struct jv *result);
/* format.format(...); named fields come from `mapping` when it is not NULL. */
bool jinja_format(struct jinja_run *run, struct jv format, const struct jinja_args *args, struct jinja_dict *mapping,
                  struct jv *result);

/* One number or text laid out as both do it. */
struct jinja_layout {
    char fill[5]; /* one character, UTF-8 */
    char align;   /* '<' '>' '^' '=', or 0 */
    char sign;    /* '+' '-' ' ', or 0 */
    bool is_alternate, no_negative_zero;
    char grouping;            /* ',' '_' or 0 */
    int64_t width, precision; /* -1: none */
    char type;
};

bool jinja_layout_text(struct jinja_run *run, const struct jinja_layout *layout, struct jinja_text *text,
                       struct buffer *out);
/* v is a number. */
bool jinja_layout_integer(struct jinja_run *run, const struct jinja_layout *layout, struct jv v, struct buffer *out);
bool jinja_layout_float(struct jinja_run *run, const struct jinja_layout *layout, struct jv v, struct buffer *out);

#endif
