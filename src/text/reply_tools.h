/* SPDX-License-Identifier: Apache-2.0 */
/* The tools that a request offers: which names are calls, and which JSON types a parameter may have. */
#ifndef MLXCEL_TEXT_REPLY_TOOLS_H
#define MLXCEL_TEXT_REPLY_TOOLS_H

#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>

struct reply_tools {
    const struct json *list; /* NULL: every name is a tool's */
};

/* The parameters' JSON types, as a set; 0 = the schema does not say. */
enum {
    TYPE_STRING = 1,
    TYPE_NUMBER = 2,
    TYPE_BOOLEAN = 4,
    TYPE_OBJECT = 8,
    TYPE_ARRAY = 16,
    TYPE_NULL = 32,
};

/* Whether any call can be meant at all. */
bool reply_tools_any(const struct reply_tools *tools);

/* The offered name that the model's `name` means: itself, or what follows a namespace (functions.NAME), or what stands
 * before ".call". The result is a part of `name`. False when no tool is meant. */
bool reply_tools_resolve(const struct reply_tools *tools, const char *name, size_t length, const char **found,
                         size_t *found_length);

/* The types that the schema of the tool's parameter allows. */
unsigned reply_tools_types(const struct reply_tools *tools, const char *name, size_t name_length, const char *key,
                           size_t key_length);

/* True for text that can be a tool's name. */
bool reply_is_name(const char *text, size_t length);
bool reply_is_name_char(char c);

#endif
