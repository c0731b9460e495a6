/* SPDX-License-Identifier: Apache-2.0 */
/* Anthropic's messages, tools and system text in OpenAI's form, which templates are written for. */
#ifndef MLXCEL_SERVE_ANTHROPIC_MESSAGES_H
#define MLXCEL_SERVE_ANTHROPIC_MESSAGES_H

#include "serve/request.h"

/* System turns between others go in front of the next user turn's text (agents put reminders there). Blocks of the system
 * text that begin with "x-anthropic-" change with each request and are dropped, lest every prompt miss the cache. NULL
 * with the problem set. */
const struct json *anthropic_messages(struct exchange *exchange, const struct json *body, struct problem *problem);
/* Tools without a schema are the remote server's own and left out. NULL with the problem set. */
const struct json *anthropic_tools(struct exchange *exchange, const struct json *tools, struct problem *problem);

#endif
