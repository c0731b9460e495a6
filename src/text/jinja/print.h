/* SPDX-License-Identifier: Apache-2.0 */
/* Values as text: str(), repr() and json.dumps(). */
#ifndef MLXCEL_TEXT_JINJA_PRINT_H
#define MLXCEL_TEXT_JINJA_PRINT_H

#include "text/jinja/run.h"

bool jinja_print_str(struct jinja_run *run, struct jv v, struct buffer *out);
bool jinja_print_repr(struct jinja_run *run, struct jv v, struct buffer *out);
bool jinja_print_quoted(struct jinja_run *run, const char *text, size_t length, bool is_bytes, struct buffer *out);

/* Writes the characters beyond ASCII of a repr as escapes: ascii(v). */
bool jinja_make_ascii(struct jinja_run *run, struct buffer *text);

/* str(v): never markup. */
bool jinja_to_str(struct jinja_run *run, struct jv v, struct jv *result);
/* v when it is a string (markup stays markup), else str(v). */
bool jinja_soft_str(struct jinja_run *run, struct jv v, struct jv *result);

struct jinja_json_options {
    bool ensure_ascii, sort_keys, has_indent;
    const struct jinja_text *indent; /* one level; with has_indent */
    const struct jinja_text *item_separator, *key_separator;
};

bool jinja_print_json(struct jinja_run *run, struct jv v, const struct jinja_json_options *options, struct buffer *out);

#endif
