/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/messages and /v1/messages/count_tokens. */
#include "serve/api_anthropic.h"

#include "serve/anthropic_messages.h"
#include "serve/events.h"
#include "serve/random_id.h"
#include "serve/server_parts.h"

#include <string.h>

static const struct field message_fields[] = {
    {"model", T_STRING, FIELD_USED},
    {"messages", T_ARRAY, FIELD_USED},
    {"system", T_STRING | T_ARRAY, FIELD_USED},
    {"max_tokens", T_INTEGER, FIELD_USED},
    {"stop_sequences", T_ARRAY, FIELD_USED},
    {"stream", T_BOOL, FIELD_USED},
    {"tools", T_ARRAY, FIELD_USED},
    {"tool_choice", T_OBJECT, FIELD_USED},
    {"thinking", T_OBJECT, FIELD_USED},
    {"output_config", T_OBJECT, FIELD_USED},
    {"chat_template_kwargs", T_OBJECT, FIELD_USED},
    {"mcp_servers", T_ARRAY, FIELD_REFUSED},
    {"container", T_ANY, FIELD_REFUSED},
    {NULL, 0, FIELD_USED, sampling_field_table},
};

enum block { BLOCK_NONE, BLOCK_OF_TEXT, BLOCK_THINKING, BLOCK_TOOL };

struct message_extra {
    enum block open; /* of the stream */
    int index;       /* of the open block, or of the next one */
};

/* ---- writing ---- */

static const char *stop_reason(const struct generation_choice *c) {
    if (c->n_calls_ended) return "tool_use";
    if (choice_stop(c)) return "stop_sequence";
    return c->reason == FINISH_LENGTH ? "max_tokens" : "end_turn";
}

static void write_stop(struct json_writer *w, const struct generation_choice *c) {
    const struct stop_string *stop = choice_stop(c);
    json_add_string(w, "stop_reason", stop_reason(c));
    json_write_key(w, "stop_sequence");
    if (stop && !c->n_calls_ended)
        json_write_string_n(w, stop->text, stop->length);
    else
        json_write_null(w);
}

/* Tokens that came from the cache are counted apart. */
static void write_usage(struct json_writer *w, const struct generation *g, size_t n_cached, size_t n_generated) {
    json_write_key(w, "usage");
    json_begin_object(w);
    json_add_count(w, "input_tokens", generation_n_prompt(g) - n_cached);
    json_add_integer(w, "cache_creation_input_tokens", 0);
    json_add_count(w, "cache_read_input_tokens", n_cached);
    json_add_count(w, "output_tokens", n_generated);
    json_end_object(w);
}

static void write_head(struct json_writer *w, const struct generation *g) {
    json_add_string(w, "id", g->answer_id);
    json_add_string(w, "type", "message");
    json_add_string(w, "role", "assistant");
    json_add_string(w, "model", g->served->id);
}

static void begin(struct generation *g) {
    exchange_begin_stream(g->exchange, "text/event-stream", "event: ping\ndata: {\"type\":\"ping\"}\n\n");
    struct json_writer w = event_begin(g, "message_start");
    json_write_key(&w, "message");
    json_begin_object(&w);
    write_head(&w, g);
    json_write_key(&w, "content");
    json_begin_array(&w);
    json_end_array(&w);
    json_add_null(&w, "stop_reason");
    json_add_null(&w, "stop_sequence");
    write_usage(&w, g, 0, 0);
    json_end_object(&w);
    event_end(g, &w);
}

static void write_delta(struct generation_choice *c, const char *type, const char *key, const char *text,
                        size_t length) {
    struct message_extra *e = c->generation->extra;
    struct json_writer w = event_begin(c->generation, "content_block_delta");
    json_add_integer(&w, "index", e->index);
    json_write_key(&w, "delta");
    json_begin_object(&w);
    json_add_string(&w, "type", type);
    json_add_text(&w, key, text, length);
    json_end_object(&w);
    event_end(c->generation, &w);
}

static void close_block(struct generation_choice *c) {
    struct message_extra *e = c->generation->extra;
    if (e->open == BLOCK_NONE) return;
    if (e->open == BLOCK_THINKING) write_delta(c, "signature_delta", "signature", "", 0);
    struct json_writer w = event_begin(c->generation, "content_block_stop");
    json_add_integer(&w, "index", e->index++);
    event_end(c->generation, &w);
    e->open = BLOCK_NONE;
}

static void write_empty_object(struct json_writer *w, const char *key) {
    json_write_key(w, key);
    json_begin_object(w);
    json_end_object(w);
}

static void open_block(struct generation_choice *c, enum block kind, const struct reply_event *event) {
    struct message_extra *e = c->generation->extra;
    if (e->open == kind && kind != BLOCK_TOOL) return;
    close_block(c);
    e->open = kind;
    struct json_writer w = event_begin(c->generation, "content_block_start");
    json_add_integer(&w, "index", e->index);
    json_write_key(&w, "content_block");
    json_begin_object(&w);
    json_write_key(&w, "type");
    if (kind == BLOCK_OF_TEXT) {
        json_write_string(&w, "text");
        json_add_string(&w, "text", "");
    } else if (kind == BLOCK_THINKING) {
        json_write_string(&w, "thinking");
        json_add_string(&w, "thinking", "");
        json_add_string(&w, "signature", "");
    } else {
        json_write_string(&w, "tool_use");
        json_add_string(&w, "id", c->call_ids[event->index]);
        json_add_text(&w, "name", event->text, event->length);
        write_empty_object(&w, "input");
    }
    json_end_object(&w);
    event_end(c->generation, &w);
}

static void piece(struct generation_choice *c, const struct reply_event *event) {
    switch (event->kind) {
    case REPLY_CONTENT:
        open_block(c, BLOCK_OF_TEXT, event);
        write_delta(c, "text_delta", "text", event->text, event->length);
        break;
    case REPLY_REASONING:
        open_block(c, BLOCK_THINKING, event);
        write_delta(c, "thinking_delta", "thinking", event->text, event->length);
        break;
    case REPLY_CALL_BEGIN: open_block(c, BLOCK_TOOL, event); break;
    case REPLY_CALL_ARGUMENTS: write_delta(c, "input_json_delta", "partial_json", event->text, event->length); break;
    case REPLY_CALL_END:
    case REPLY_CALL_CANCEL: close_block(c); break;
    }
}

static void end_choice(struct generation_choice *c) {
    struct message_extra *e = c->generation->extra;
    if (e->open == BLOCK_NONE && !e->index) open_block(c, BLOCK_OF_TEXT, NULL); /* there is always one */
    close_block(c);
}

static void end_stream(struct generation *g) {
    struct json_writer w = event_begin(g, "message_delta");
    json_write_key(&w, "delta");
    json_begin_object(&w);
    write_stop(&w, &g->choices[0]);
    json_end_object(&w);
    write_usage(&w, g, generation_n_cached(g), generation_n_generated(g));
    event_end(g, &w);
    static const char stop[] = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    exchange_write_end(g->exchange, stop, sizeof stop - 1);
}

static void write_block(struct json_writer *w, const char *type, const char *key, const struct buffer *text) {
    json_begin_object(w);
    json_add_string(w, "type", type);
    json_add_buffer(w, key, text);
    if (!strcmp(type, "thinking")) json_add_string(w, "signature", "");
    json_end_object(w);
}

static void write_calls(struct json_writer *w, const struct generation_choice *c) {
    for (size_t i = 0; i < c->result.n_calls; i++) {
        const struct reply_call_text *call = &c->result.calls[i];
        json_begin_object(w);
        json_add_string(w, "type", "tool_use");
        json_add_string(w, "id", i < c->n_call_ids ? c->call_ids[i] : "");
        json_add_text(w, "name", call->name, call->name_length);
        json_add_raw(w, "input", call->arguments, call->arguments_length);
        json_end_object(w);
    }
}

static void end(struct generation *g) {
    const struct generation_choice *c = &g->choices[0];
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    if (g->streams) {
        end_stream(g);
        return;
    }
    json_begin_object(&w);
    write_head(&w, g);
    json_write_key(&w, "content");
    json_begin_array(&w);
    if (c->result.reasoning.length) write_block(&w, "thinking", "thinking", &c->result.reasoning);
    if (c->result.content.length || !c->result.n_calls) write_block(&w, "text", "text", &c->result.content);
    write_calls(&w, c);
    json_end_array(&w);
    write_stop(&w, c);
    write_usage(&w, g, generation_n_cached(g), generation_n_generated(g));
    json_end_object(&w);
    exchange_reply_json(g->exchange, 200, &out);
}

static const struct answer_writer message_writer = {begin, piece, end_choice, end, NULL, sizeof(struct message_extra)};

/* ---- reading ---- */

static bool take_thinking(const struct json *body, struct chat_input *input, struct generation *g,
                          struct problem *problem) {
    const struct json *thinking = field_get(body, "thinking"), *type = field_get(thinking, "type");
    const struct json *output = field_get(body, "output_config"), *format = field_get(output, "format");
    if (json_string_is(type, "enabled") || json_string_is(type, "adaptive"))
        input->enable_thinking = 1;
    else if (json_string_is(type, "disabled"))
        input->enable_thinking = 0;
    else if (thinking)
        return problem_set(problem, 400, "thinking",
                           "'thinking.type' must be \"enabled\", \"adaptive\" or \"disabled\"");
    if (!field_integer(thinking, "budget_tokens", 0, INT32_MAX, g->think_budget, &g->think_budget, problem))
        return false;
    input->reasoning_effort = request_string(g->exchange, output, "effort");
    if (!format) return true;
    if (!json_string_is(json_get(format, "type"), "json_schema"))
        return problem_set(problem, 400, "output_config", "'output_config.format' must be of type \"json_schema\"");
    return request_force_json(g, json_get(format, "schema"), "output_config", problem);
}

static bool take_tools(struct generation *g, const struct json *body, struct chat_input *input,
                       struct problem *problem) {
    const struct json *tools = field_get(body, "tools"), *choice = field_get(body, "tool_choice"),
                      *type = json_get(choice, "type");
    if (tools && !(tools = anthropic_tools(g->exchange, tools, problem))) return false;
    g->one_call_only = json_bool(json_get(choice, "disable_parallel_tool_use"), false);
    if (json_string_is(type, "none")) return true;
    input->tools = tools;
    input->parses_calls = tools && tools->count;
    if (!choice || json_string_is(type, "auto")) return true;
    bool is_named = json_string_is(type, "tool");
    if (!is_named && !json_string_is(type, "any"))
        return problem_set(problem, 400, "tool_choice",
                           "'tool_choice.type' must be \"auto\", \"any\", \"tool\" or \"none\"");
    if (!input->parses_calls)
        return problem_set(problem, 400, "tool_choice", "'tool_choice' asks for a call, but there are no 'tools'");
    return request_force_call(g, tools, is_named ? request_string(g->exchange, choice, "name") : NULL, problem);
}

static bool take(struct generation *g, const struct json *body, struct problem *problem) {
    struct chat_input input = {
        .kwargs = field_get(body, "chat_template_kwargs"), .enable_thinking = -1, .continues_final = -1};
    int64_t limit;
    g->streams = json_bool(field_get(body, "stream"), false);
    random_id(g->answer_id, "msg_", 24);
    if (!field_integer(body, "max_tokens", 1, INT32_MAX, 0, &limit, problem)) return false;
    if (limit) g->max_tokens = limit;
    if (!(input.messages = anthropic_messages(g->exchange, body, problem))) return false;
    return request_check_messages(input.messages, problem) && request_take_sampling(g, body, problem) &&
           request_take_stop(g, body, "stop_sequences", problem) && take_thinking(body, &input, g, problem) &&
           take_tools(g, body, &input, problem) && request_take_chat(g, &input, problem);
}

static struct generation *open_generation(struct exchange *x, struct problem *problem) {
    const struct json *body;
    struct generation *g = request_open(x, message_fields, &message_writer, &body, problem);
    return g && take(g, body, problem) ? g : NULL;
}

void api_messages(struct exchange *x) {
    struct problem problem;
    struct generation *g = open_generation(x, &problem);
    if (!g || !generation_submit(g, &problem)) api_fail(x, &problem);
}

void api_messages_count(struct exchange *x) {
    struct problem problem;
    struct generation *g = open_generation(x, &problem);
    if (g)
        request_reply_count(g, NULL);
    else
        api_fail(x, &problem);
}
