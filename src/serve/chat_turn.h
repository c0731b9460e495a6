/* SPDX-License-Identifier: Apache-2.0 */
/* Turns of a conversation that are put together from another dialect's blocks or items, and written as messages of OpenAI's
 * form, which is what chat templates take. */
#ifndef MLXCEL_SERVE_CHAT_TURN_H
#define MLXCEL_SERVE_CHAT_TURN_H

#include "base/json.h"

struct chat_turn {
    struct buffer text, reasoning, calls; /* calls are JSON items, separated by commas */
};

/* One more call; arguments may be NULL, which is {}. */
void turn_add_call(struct chat_turn *turn, const struct json *id, const struct json *name,
                   const struct json *arguments);
/* Writes the turn as one message and empties it. */
void turn_write(struct chat_turn *turn, struct json_writer *w, const char *role);
/* The message that answers a call. */
void turn_write_result(struct json_writer *w, const struct json *call_id, const struct buffer *text);
void turn_free(struct chat_turn *turn);

#endif
