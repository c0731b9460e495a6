/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events: a `data:` line of JSON, in some dialects with the event's name in front of it. They are put together
 * in generation->json. */
#ifndef MLXCEL_SERVE_EVENTS_H
#define MLXCEL_SERVE_EVENTS_H

#include "serve/generation.h"

/* Begins a stream of events, kept alive by comments. */
void events_begin(struct generation *generation);

/* Begins an event whose data is an object, of which the caller writes the members. name: also its "type"; NULL = none. */
struct json_writer event_begin(struct generation *generation, const char *name);
/* Closes the object and sends the event. */
void event_end(struct generation *generation, struct json_writer *w);
/* Sends an event that was put together by hand. */
void event_send(struct generation *generation);

#endif
