/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/events.h"

#include "serve/exchange.h"

void events_begin(struct generation *g) { exchange_begin_stream(g->exchange, "text/event-stream", ": ping\n\n"); }

struct json_writer event_begin(struct generation *g, const char *name) {
    struct json_writer w = {.out = &g->json};
    if (name) buffer_printf(&g->json, "event: %s\n", name);
    buffer_puts(&g->json, "data: ");
    json_begin_object(&w);
    if (name) json_add_string(&w, "type", name);
    return w;
}

void event_send(struct generation *g) {
    buffer_puts(&g->json, "\n\n");
    if (!g->json.failed) exchange_write(g->exchange, g->json.data, g->json.length);
    buffer_clear(&g->json);
}

void event_end(struct generation *g, struct json_writer *w) {
    json_end_object(w);
    event_send(g);
}
