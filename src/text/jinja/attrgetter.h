/* SPDX-License-Identifier: Apache-2.0 */
/* The `attribute` argument of filters: "a.b.0" looks up a, then b, then the item 0. */
#ifndef MLXCEL_TEXT_JINJA_ATTRGETTER_H
#define MLXCEL_TEXT_JINJA_ATTRGETTER_H

#include "text/jinja/run.h"

struct jinja_attrgetter {
    struct jinja_list *parts;
    struct jv fallback; /* takes the place of an undefined part, unless it is missing or None */
    bool ignores_case;  /* strings are given in lower case */
};

/* attribute may be missing or None: the item itself. */
bool jinja_attrgetter_init(struct jinja_run *run, struct jv attribute, struct jinja_attrgetter *getter);
bool jinja_attrgetter_get(struct jinja_run *run, const struct jinja_attrgetter *getter, struct jv item,
                          struct jv *result);

#endif
