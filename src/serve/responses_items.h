/* SPDX-License-Identifier: Apache-2.0 */
/* Items of the Responses API as messages of the chat API. */
#ifndef MLXCEL_SERVE_RESPONSES_ITEMS_H
#define MLXCEL_SERVE_RESPONSES_ITEMS_H

#include "serve/request.h"

/* The request's input as an array of items: a string becomes one user message. NULL with the problem set. */
const struct json *responses_input_items(struct exchange *exchange, const struct json *input, struct problem *problem);
/* Instructions (may be NULL), the items of earlier turns (may be NULL) and of this one, as messages. NULL with the problem
 * set. */
const struct json *responses_messages(struct exchange *exchange, const struct json *instructions,
                                      const struct json *history, const struct json *items, struct problem *problem);
/* Tools with their members at the top, as the chat API nests them. NULL with the problem set. */
const struct json *responses_tools(struct exchange *exchange, const struct json *tools, struct problem *problem);

/* The stored input items (JSON text) of a response in OpenAI's form, as the request's query asks (order, limit, after). */
bool responses_write_list(struct exchange *exchange, const char *response_id, const char *items, struct buffer *out,
                          struct problem *problem);

#endif
