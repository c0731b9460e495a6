/* SPDX-License-Identifier: Apache-2.0 */
/* Messages in the shape that a template can render.
 *
 * The API that people speak (OpenAI's) is wider than what most templates were written for. What a template takes is
 * found out by rendering small probes when it is opened:
 *
 *   content           a list of parts becomes its texts, joined by line breaks, for a template that knows strings only;
 *                     a string becomes one text part for a template that knows parts only
 *   tool_calls        arguments that are JSON text become objects; text that is no JSON object is an error
 *   null members      are left out; an assistant's missing content becomes ""
 *   role developer    becomes system, unless the template names it
 *   role system       goes in front of the first user message where the template refuses it; alone it is left out */
#ifndef MLXCEL_TEXT_CHAT_ADAPT_H
#define MLXCEL_TEXT_CHAT_ADAPT_H

#include "text/jinja.h"

struct chat_abilities {
    bool takes_strings, takes_parts, takes_system, names_developer;
};

/* `tokens` are the special tokens as members of a context. */
void chat_adapt_probe(const struct jinja_template *template, const char *text, const struct json_member *tokens,
                      size_t n_tokens, struct chat_abilities *abilities);

/* The messages as an array in the arena; NULL with the error set. */
const struct json *chat_adapt_messages(struct arena *arena, const struct chat_abilities *abilities,
                                       const struct json *messages, struct mx_error *err);

#endif
