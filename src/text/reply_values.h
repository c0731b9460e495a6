/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments that a model did not write as JSON, turned into JSON text: bare text typed by the tool's schema, Python
 * literals, Gemma's notation. Each function appends to `out`; false means that the text is not of that kind (out may
 * then hold a part) or that memory is out (out->failed). No recursion: nesting is bounded by a stack of fixed size. */
#ifndef MLXCEL_TEXT_REPLY_VALUES_H
#define MLXCEL_TEXT_REPLY_VALUES_H

#include "base/buffer.h"
#include "text/reply_tools.h"

#include <stdbool.h>
#include <stddef.h>

/* Text between tags. A parameter that may be a string takes the text as it is, unless the schema also allows another
 * type and the text is a JSON value of it; other parameters take JSON, or a Python literal. What is neither becomes a
 * string. types: reply_tools_types. False only when memory is out. */
bool reply_typed_value(struct buffer *out, const char *text, size_t length, unsigned types);

/* One Python literal: None, True, numbers, strings of every quoting, lists, tuples, dictionaries (JSON's words too). */
bool reply_python_value(struct buffer *out, const char *text, size_t length);
/* "(name=literal, ...)" as an object. */
bool reply_python_arguments(struct buffer *out, const char *text, size_t length);

/* "{key:value, ...}" with strings between two `quote`s; bare values are typed by the schema of the tool `name`. */
bool reply_gemma_arguments(struct buffer *out, const char *text, size_t length, const char *quote,
                           const struct reply_tools *tools, const struct buffer *name);

/* True when the text is one JSON object and nothing else but white space. Sets *no_memory when that cannot be told. */
bool reply_is_json_object(const char *text, size_t length, bool *no_memory);

#endif
