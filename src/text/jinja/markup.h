/* SPDX-License-Identifier: Apache-2.0 */
/* Strings that are safe in HTML (markupsafe.Markup): what is joined to them is escaped. */
#ifndef MLXCEL_TEXT_JINJA_MARKUP_H
#define MLXCEL_TEXT_JINJA_MARKUP_H

#include "text/jinja/run.h"

/* Markup of v: v itself when it is markup, else str(v) with & < > ' " as entities. */
bool jinja_escape(struct jinja_run *run, struct jv v, struct jv *result);
bool jinja_escape_into(struct jinja_run *run, const char *text, size_t length, struct buffer *out);
/* a + b where at least one is markup and both are strings. */
bool jinja_markup_add(struct jinja_run *run, struct jv a, struct jv b, struct jv *result);
/* Text without tags and comments, blanks collapsed, entities resolved. */
bool jinja_strip_tags(struct jinja_run *run, struct jv text, struct jv *result);
bool jinja_unescape(struct jinja_run *run, struct jv text, struct jv *result);

#endif
