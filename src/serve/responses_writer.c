/* SPDX-License-Identifier: Apache-2.0 */
/* The output of the Responses API: items, the response object, the events of a stream. */
#include "serve/api_responses.h"

#include "base/memory.h"
#include "serve/events.h"
#include "serve/fields.h"
#include "serve/random_id.h"
#include "serve/server_parts.h"

#include <stdio.h>
#include <string.h>

static const char *const item_types[] = {"reasoning", "message", "function_call"};
static const char *const item_prefixes[] = {"rs_", "msg_", "fc_"};

/* ---- objects ---- */

static void write_part(struct json_writer *w, const struct response_item *item, bool is_empty) {
    static const struct buffer nothing = {0};
    json_begin_object(w);
    json_add_string(w, "type", item->kind == ITEM_MESSAGE ? "output_text" : "reasoning_text");
    json_add_buffer(w, "text", is_empty ? &nothing : &item->text);
    if (item->kind == ITEM_MESSAGE) {
        json_write_key(w, "annotations");
        json_begin_array(w);
        json_end_array(w);
        json_write_key(w, "logprobs");
        json_begin_array(w);
        json_end_array(w);
    }
    json_end_object(w);
}

/* is_done: with its content. */
static void write_item(struct json_writer *w, const struct response_item *item, bool is_done) {
    json_begin_object(w);
    json_add_string(w, "id", item->id);
    json_add_string(w, "type", item_types[item->kind]);
    json_add_string(w, "status", is_done ? "completed" : "in_progress");
    if (item->kind == ITEM_CALL) {
        json_add_string(w, "call_id", item->call_id);
        json_add_buffer(w, "name", &item->name);
        static const struct buffer nothing = {0};
        json_add_buffer(w, "arguments", is_done ? &item->text : &nothing);
    } else {
        if (item->kind == ITEM_MESSAGE) {
            json_add_string(w, "role", "assistant");
        } else {
            json_write_key(w, "summary");
            json_begin_array(w);
            json_end_array(w);
        }
        json_write_key(w, "content");
        json_begin_array(w);
        if (is_done) write_part(w, item, false);
        json_end_array(w);
    }
    json_end_object(w);
}

static void write_items(struct json_writer *w, const struct response_extra *e) {
    for (size_t i = 0; i < e->n; i++) write_item(w, &e->list[i], true);
}

static void write_usage(struct json_writer *w, const struct generation *g) {
    size_t prompt = generation_n_prompt(g), generated = generation_n_generated(g);
    json_begin_object(w);
    json_add_count(w, "input_tokens", prompt);
    json_write_key(w, "input_tokens_details");
    json_begin_object(w);
    json_add_count(w, "cached_tokens", generation_n_cached(g));
    json_add_integer(w, "cache_write_tokens", 0);
    json_end_object(w);
    json_add_count(w, "output_tokens", generated);
    json_write_key(w, "output_tokens_details");
    json_begin_object(w);
    json_add_count(w, "reasoning_tokens", g->choices[0].n_reasoning);
    json_end_object(w);
    json_add_count(w, "total_tokens", prompt + generated);
    json_end_object(w);
}

/* A member of the request, or JSON text where it is absent. */
static void echo(struct json_writer *w, const struct json *body, const char *key, const char *fallback) {
    const struct json *v = field_get(body, key);
    json_write_key(w, key);
    if (v)
        json_write_value(w, v);
    else
        json_write_raw(w, fallback, strlen(fallback));
}

static void write_response(struct json_writer *w, const struct generation *g, bool is_done) {
    const struct response_extra *e = g->extra;
    bool is_cut = is_done && g->choices[0].reason == FINISH_LENGTH;
    json_begin_object(w);
    json_add_string(w, "id", g->answer_id);
    json_add_string(w, "object", "response");
    json_add_integer(w, "created_at", g->created);
    if (is_done && !is_cut) json_add_integer(w, "completed_at", (int64_t)time(NULL));
    json_add_string(w, "status", !is_done ? "in_progress" : is_cut ? "incomplete" : "completed");
    json_add_null(w, "error");
    json_write_key(w, "incomplete_details");
    if (is_cut)
        json_write_raw(w, "{\"reason\":\"max_output_tokens\"}", 30);
    else
        json_write_null(w);
    json_add_string(w, "model", g->served->id);
    json_write_key(w, "output");
    json_begin_array(w);
    if (is_done) write_items(w, e);
    json_end_array(w);
    if (is_done) {
        json_write_key(w, "usage");
        write_usage(w, g);
    }
    echo(w, e->body, "instructions", "null");
    echo(w, e->body, "max_output_tokens", "null");
    echo(w, e->body, "max_tool_calls", "null");
    echo(w, e->body, "metadata", "{}");
    echo(w, e->body, "parallel_tool_calls", "true");
    echo(w, e->body, "previous_response_id", "null");
    echo(w, e->body, "reasoning", "{\"effort\":null,\"summary\":null}");
    echo(w, e->body, "text", "{\"format\":{\"type\":\"text\"}}");
    echo(w, e->body, "tool_choice", "\"auto\"");
    echo(w, e->body, "tools", "[]");
    echo(w, e->body, "truncation", "\"disabled\"");
    json_add_real(w, "temperature", g->sampling.temperature);
    json_add_real(w, "top_p", g->sampling.top_p);
    json_add_bool(w, "store", e->stores);
    json_add_bool(w, "background", false);
    json_end_object(w);
}

/* ---- events ---- */

/* Events are counted. */
static struct json_writer begin_numbered(struct generation *g, const char *name) {
    struct response_extra *e = g->extra;
    struct json_writer w = event_begin(g, name);
    json_add_integer(&w, "sequence_number", e->sequence++);
    return w;
}

static void send_response(struct generation *g, const char *name, bool is_done) {
    struct json_writer w = begin_numbered(g, name);
    json_write_key(&w, "response");
    write_response(&w, g, is_done);
    event_end(g, &w);
}

static struct json_writer begin_item_event(struct generation *g, const char *name, bool in_part) {
    const struct response_extra *e = g->extra;
    struct json_writer w = begin_numbered(g, name);
    json_add_string(&w, "item_id", e->list[e->n - 1].id);
    json_add_count(&w, "output_index", e->n - 1);
    if (in_part) json_add_integer(&w, "content_index", 0);
    return w;
}

static void send_item(struct generation *g, const char *name, bool is_done) {
    const struct response_extra *e = g->extra;
    struct json_writer w = begin_numbered(g, name);
    json_add_count(&w, "output_index", e->n - 1);
    json_write_key(&w, "item");
    write_item(&w, &e->list[e->n - 1], is_done);
    event_end(g, &w);
}

static void send_part(struct generation *g, const char *name, bool is_empty) {
    const struct response_extra *e = g->extra;
    struct json_writer w = begin_item_event(g, name, true);
    json_write_key(&w, "part");
    write_part(&w, &e->list[e->n - 1], is_empty);
    event_end(g, &w);
}

static void write_no_logprobs(struct json_writer *w) {
    json_write_key(w, "logprobs");
    json_begin_array(w);
    json_end_array(w);
}

static void send_delta(struct generation *g, const struct reply_event *event) {
    static const char *const names[] = {"response.reasoning_text.delta", "response.output_text.delta",
                                        "response.function_call_arguments.delta"};
    const struct response_extra *e = g->extra;
    enum response_item_kind kind = e->list[e->n - 1].kind;
    struct json_writer w = begin_item_event(g, names[kind], kind != ITEM_CALL);
    json_add_text(&w, "delta", event->text, event->length);
    if (kind == ITEM_MESSAGE) write_no_logprobs(&w);
    event_end(g, &w);
}

static void send_text_done(struct generation *g) {
    static const char *const names[] = {"response.reasoning_text.done", "response.output_text.done",
                                        "response.function_call_arguments.done"};
    const struct response_extra *e = g->extra;
    const struct response_item *item = &e->list[e->n - 1];
    struct json_writer w = begin_item_event(g, names[item->kind], item->kind != ITEM_CALL);
    if (item->kind == ITEM_CALL) json_add_buffer(&w, "name", &item->name);
    json_add_buffer(&w, item->kind == ITEM_CALL ? "arguments" : "text", &item->text);
    if (item->kind == ITEM_MESSAGE) write_no_logprobs(&w);
    event_end(g, &w);
}

/* ---- items as they come ---- */

static void close_item(struct generation *g) {
    struct response_extra *e = g->extra;
    if (!e->is_open) return;
    e->is_open = false;
    if (!g->streams) return;
    send_text_done(g);
    if (e->list[e->n - 1].kind != ITEM_CALL) send_part(g, "response.content_part.done", false);
    send_item(g, "response.output_item.done", true);
}

static bool open_item(struct generation_choice *c, enum response_item_kind kind, const struct reply_event *event) {
    struct generation *g = c->generation;
    struct response_extra *e = g->extra;
    if (e->is_open && kind != ITEM_CALL && e->list[e->n - 1].kind == kind) return true;
    close_item(g);
    if (!array_reserve(&e->list, &e->capacity, e->n + 1, sizeof *e->list)) return false;
    struct response_item *item = &e->list[e->n++];
    *item = (struct response_item){.kind = kind};
    random_id(item->id, item_prefixes[kind], 32);
    if (kind == ITEM_CALL) {
        char *id = arena_copy(&g->exchange->arena, c->call_ids[event->index], strlen(c->call_ids[event->index]));
        item->call_id = id ? id : "";
        buffer_append(&item->name, event->text, event->length);
    }
    e->is_open = true;
    if (!g->streams) return true;
    send_item(g, "response.output_item.added", false);
    if (kind != ITEM_CALL) send_part(g, "response.content_part.added", true);
    return true;
}

static void piece(struct generation_choice *c, const struct reply_event *event) {
    struct generation *g = c->generation;
    struct response_extra *e = g->extra;
    bool ok = true;
    switch (event->kind) {
    case REPLY_CONTENT: ok = open_item(c, ITEM_MESSAGE, event); break;
    case REPLY_REASONING: ok = open_item(c, ITEM_REASONING, event); break;
    case REPLY_CALL_BEGIN: open_item(c, ITEM_CALL, event); return;
    case REPLY_CALL_ARGUMENTS: ok = e->is_open; break;
    case REPLY_CALL_END: close_item(g); return;
    case REPLY_CALL_CANCEL: close_item(g); return;
    }
    if (!ok) return;
    buffer_append(&e->list[e->n - 1].text, event->text, event->length);
    if (g->streams) send_delta(g, event);
}

static void begin(struct generation *g) {
    events_begin(g);
    send_response(g, "response.created", false);
    send_response(g, "response.in_progress", false);
}

static void end_choice(struct generation_choice *c) {
    struct response_extra *e = c->generation->extra;
    if (!e->n) open_item(c, ITEM_MESSAGE, NULL); /* there is always one */
    close_item(c->generation);
}

/* ---- the end: on a worker, since keeping the response may wait for the disk ---- */

static void write_history(struct json_writer *w, const struct response_extra *e) {
    json_begin_array(w);
    for (uint32_t i = 0; e->history && i < e->history->count; i++) json_write_value(w, &e->history->items[i]);
    for (uint32_t i = 0; i < e->items->count; i++) json_write_value(w, &e->items->items[i]);
    write_items(w, e);
    json_end_array(w);
}

static bool keep(struct generation *g, const struct buffer *response) {
    const struct response_extra *e = g->extra;
    struct server *s = g->exchange->server;
    struct buffer history = {0}, input = {0};
    struct json_writer w = {.out = &history}, v = {.out = &input};
    struct mx_error err = {0};
    write_history(&w, e);
    json_write_value(&v, e->items);
    bool ok = history.failed || input.failed ? error_memory(&err, "response")
                                             : responses_store_put(&s->responses, g->answer_id, g->exchange->owner,
                                                                   history.data, input.data, response->data, &err);
    buffer_free(&history);
    buffer_free(&input);
    if (ok) return true;
    char text[sizeof err.message + 40];
    snprintf(text, sizeof text, "a response could not be kept: %s", err.message);
    log_text(s, "store", text);
    return false;
}

static void finish(void *context) {
    struct exchange *x = context;
    struct generation *g = x->generation;
    struct response_extra *e = g->extra;
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    write_response(&w, g, true);
    if (e->stores && !out.failed && !keep(g, &out)) {
        e->stores = false; /* as the answer must say */
        out.length = 0;
        w = (struct json_writer){.out = &out};
        write_response(&w, g, true);
    }
    if (g->streams) {
        send_response(g, g->choices[0].reason == FINISH_LENGTH ? "response.incomplete" : "response.completed", true);
        buffer_free(&out);
        exchange_end(x);
    } else {
        exchange_reply_json(x, 200, &out);
    }
    exchange_release(x);
}

static void end(struct generation *g) {
    if (!g->streams) end_choice(&g->choices[0]);
    exchange_hold(g->exchange);
    if (!workers_add(&g->exchange->server->workers, finish, g->exchange)) finish(g->exchange);
}

static void dispose(struct generation *g) {
    struct response_extra *e = g->extra;
    for (size_t i = 0; i < e->n; i++) {
        buffer_free(&e->list[i].name);
        buffer_free(&e->list[i].text);
    }
    free(e->list);
}

const struct answer_writer response_writer = {.begin = begin,
                                              .piece = piece,
                                              .end_choice = end_choice,
                                              .end = end,
                                              .extra_bytes = sizeof(struct response_extra),
                                              .collects = true,
                                              .dispose = dispose};
