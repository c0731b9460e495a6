/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/chat/completions. */
#include "serve/api_openai.h"

#include "serve/events.h"
#include "serve/random_id.h"
#include "serve/server_parts.h"

#include <string.h>

static const struct field chat_fields[] = {
    {"model", T_STRING, FIELD_USED},
    {"messages", T_ARRAY, FIELD_USED},
    {"n", T_INTEGER, FIELD_USED},
    {"stop", T_STRING | T_ARRAY, FIELD_USED},
    {"logprobs", T_BOOL, FIELD_USED},
    {"top_logprobs", T_INTEGER, FIELD_USED},
    {"tools", T_ARRAY, FIELD_USED},
    {"tool_choice", T_STRING | T_OBJECT, FIELD_USED},
    {"parallel_tool_calls", T_BOOL, FIELD_USED},
    {"chat_template_kwargs", T_OBJECT, FIELD_USED},
    {"documents", T_ARRAY, FIELD_USED},
    {"reasoning_effort", T_STRING, FIELD_USED},
    {"reasoning_format", T_STRING, FIELD_USED},
    {"include_reasoning", T_BOOL, FIELD_USED},
    {"add_generation_prompt", T_BOOL, FIELD_USED},
    {"continue_final_message", T_BOOL, FIELD_USED},
    {"modalities", T_ARRAY, FIELD_USED},
    {"id_slot", T_INTEGER, FIELD_USED},
    {"verbosity", T_STRING, FIELD_USED},
    {"thinking_budget_tokens", T_INTEGER, FIELD_USED},
    {"thinking_token_budget", T_INTEGER, FIELD_USED},
    {"thinking_budget", T_INTEGER, FIELD_USED},
    {"functions", T_ARRAY, FIELD_REFUSED},
    {"function_call", T_STRING | T_OBJECT, FIELD_REFUSED},
    {"audio", T_OBJECT, FIELD_REFUSED},
    {"web_search_options", T_OBJECT, FIELD_REFUSED},
    {"prompt_logprobs", T_INTEGER | T_BOOL, FIELD_REFUSED},
    {"include_stop_str_in_output", T_BOOL, FIELD_REFUSED},
    {"truncate_prompt_tokens", T_INTEGER, FIELD_REFUSED},
    {"chat_template", T_STRING, FIELD_REFUSED},
    {"echo", T_BOOL, FIELD_REFUSED},
    {"best_of", T_INTEGER, FIELD_REFUSED},
    {"return_progress", T_BOOL, FIELD_REFUSED},
    {NULL, 0, FIELD_USED, openai_field_table},
};

struct chat_extra {
    bool shows_reasoning; /* as fields of its own; else it stands in the content, tags and all */
};

/* ---- writing ---- */

/* Opens a chunk up to the choice's delta, an open object. */
static void begin_chunk(struct generation_choice *c) {
    struct generation *g = c->generation;
    buffer_append(&g->json, g->head.data, g->head.length);
    buffer_printf(&g->json, "\"choices\":[{\"index\":%u,\"delta\":{", c->index);
}

static void write_logprobs(struct json_writer *w, const struct generation_choice *c) {
    json_begin_object(w);
    json_write_key(w, "content");
    json_begin_array(w);
    if (c->logprobs.length) json_write_raw(w, c->logprobs.data, c->logprobs.length);
    json_end_array(w);
    json_add_null(w, "refusal");
    json_end_object(w);
}

static void end_chunk(struct generation_choice *c, const char *finish) {
    struct generation *g = c->generation;
    buffer_puts(&g->json, "},\"logprobs\":");
    if (c->logprobs.length)
        write_logprobs(&(struct json_writer){.out = &g->json}, c);
    else
        buffer_puts(&g->json, "null");
    buffer_clear(&c->logprobs);
    if (finish)
        buffer_printf(&g->json, ",\"finish_reason\":\"%s\"}]}", finish);
    else
        buffer_puts(&g->json, ",\"finish_reason\":null}]}");
    event_send(g);
}

static void tell_role(struct generation_choice *c) {
    if (c->was_told) return;
    c->was_told = true;
    begin_chunk(c);
    buffer_puts(&c->generation->json, "\"role\":\"assistant\",\"content\":\"\"");
    buffer_puts(&c->generation->json, "},\"logprobs\":null,\"finish_reason\":null}]}");
    event_send(c->generation);
}

static void begin(struct generation *g) {
    struct json_writer w = {.out = &g->head};
    events_begin(g);
    buffer_puts(&g->head, "data: ");
    json_begin_object(&w);
    openai_write_head(&w, g, "chat.completion.chunk");
    if (g->includes_usage) buffer_puts(&g->head, ",\"usage\":null");
    buffer_puts(&g->head, ",");
}

static void text_delta(struct generation_choice *c, const char *key, const char *alias,
                       const struct reply_event *event) {
    struct buffer *out = &c->generation->json;
    begin_chunk(c);
    buffer_printf(out, "\"%s\":", key);
    json_append_quoted(out, event->text, event->length);
    if (alias) {
        buffer_printf(out, ",\"%s\":", alias);
        json_append_quoted(out, event->text, event->length);
    }
    end_chunk(c, NULL);
}

static void piece(struct generation_choice *c, const struct reply_event *event) {
    struct buffer *out = &c->generation->json;
    const struct chat_extra *extra = c->generation->extra;
    tell_role(c);
    switch (event->kind) {
    case REPLY_CONTENT: text_delta(c, "content", NULL, event); break;
    case REPLY_REASONING:
        if (extra->shows_reasoning) text_delta(c, "reasoning_content", "reasoning", event);
        break;
    case REPLY_CALL_BEGIN:
        begin_chunk(c);
        buffer_printf(out, "\"tool_calls\":[{\"index\":%u,\"id\":", event->index);
        json_append_quoted(out, c->call_ids[event->index], strlen(c->call_ids[event->index]));
        buffer_puts(out, ",\"type\":\"function\",\"function\":{\"name\":");
        json_append_quoted(out, event->text, event->length);
        buffer_puts(out, ",\"arguments\":\"\"}}]");
        end_chunk(c, NULL);
        break;
    case REPLY_CALL_ARGUMENTS:
        begin_chunk(c);
        buffer_printf(out, "\"tool_calls\":[{\"index\":%u,\"function\":{\"arguments\":", event->index);
        json_append_quoted(out, event->text, event->length);
        buffer_puts(out, "}}]");
        end_chunk(c, NULL);
        break;
    case REPLY_CALL_END:
    case REPLY_CALL_CANCEL: break;
    }
}

static void end_choice(struct generation_choice *c) {
    tell_role(c);
    begin_chunk(c);
    end_chunk(c, openai_finish_reason(c));
}

static void write_calls(struct json_writer *w, const struct generation_choice *c) {
    json_write_key(w, "tool_calls");
    json_begin_array(w);
    for (size_t i = 0; i < c->result.n_calls; i++) {
        const struct reply_call_text *call = &c->result.calls[i];
        json_begin_object(w);
        json_add_string(w, "id", i < c->n_call_ids ? c->call_ids[i] : "");
        json_add_string(w, "type", "function");
        json_write_key(w, "function");
        json_begin_object(w);
        json_add_text(w, "name", call->name, call->name_length);
        json_add_text(w, "arguments", call->arguments, call->arguments_length);
        json_end_object(w);
        json_end_object(w);
    }
    json_end_array(w);
}

static void write_message(struct json_writer *w, const struct generation_choice *c) {
    const struct reply_result *r = &c->result;
    const struct chat_extra *extra = c->generation->extra;
    json_begin_object(w);
    json_add_string(w, "role", "assistant");
    json_write_key(w, "content");
    if (r->n_calls && !r->content.length)
        json_write_null(w);
    else
        json_write_string_n(w, r->content.data ? r->content.data : "", r->content.length);
    json_add_null(w, "refusal");
    if (r->reasoning.length && extra->shows_reasoning) {
        json_add_text(w, "reasoning_content", r->reasoning.data, r->reasoning.length);
        json_add_text(w, "reasoning", r->reasoning.data, r->reasoning.length);
    }
    if (r->n_calls) write_calls(w, c);
    json_end_object(w);
}

static void write_choice(struct json_writer *w, const struct generation_choice *c) {
    json_begin_object(w);
    json_add_integer(w, "index", c->index);
    json_write_key(w, "message");
    write_message(w, c);
    json_write_key(w, "logprobs");
    if (c->generation->sampling.want_logprobs)
        write_logprobs(w, c);
    else
        json_write_null(w);
    json_add_string(w, "finish_reason", openai_finish_reason(c));
    json_end_object(w);
}

static void end(struct generation *g) {
    if (g->streams) {
        openai_end_stream(g, "chat.completion.chunk");
        return;
    }
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    json_begin_object(&w);
    openai_write_head(&w, g, "chat.completion");
    json_write_key(&w, "choices");
    json_begin_array(&w);
    for (uint32_t i = 0; i < g->n_choices; i++) write_choice(&w, &g->choices[i]);
    json_end_array(&w);
    openai_write_usage(&w, g);
    openai_write_timings(&w, g);
    json_end_object(&w);
    exchange_reply_json(g->exchange, 200, &out);
}

static const struct answer_writer chat_writer = {
    begin, piece, end_choice, end, openai_add_logprob, sizeof(struct chat_extra)};

/* ---- reading ---- */

static bool take_logprobs(struct generation *g, const struct json *body, struct problem *problem) {
    int64_t top;
    if (!field_integer(body, "top_logprobs", 0, 20, 0, &top, problem)) return false;
    g->sampling.want_logprobs = json_bool(field_get(body, "logprobs"), false);
    g->sampling.logprobs_kind = LOGPROBS_RAW;
    g->sampling.n_top_logprobs = top;
    if (top && !g->sampling.want_logprobs)
        return problem_set(problem, 400, "top_logprobs", "'top_logprobs' needs 'logprobs' to be true");
    return true;
}

/* Fields whose only supported value is the usual one. */
static bool check_fixed(const struct json *body, struct problem *problem) {
    const struct json *modalities = field_get(body, "modalities"), *verbosity = field_get(body, "verbosity");
    for (uint32_t i = 0; modalities && i < modalities->count; i++)
        if (!json_string_is(&modalities->items[i], "text"))
            return problem_set(problem, 400, "modalities", "'modalities' other than \"text\" are not supported");
    if (verbosity && !json_string_is(verbosity, "medium"))
        return problem_set(problem, 400, "verbosity", "'verbosity' other than \"medium\" is not supported");
    return true;
}

static bool take_reasoning(struct generation *g, const struct json *body, struct problem *problem) {
    struct chat_extra *extra = g->extra;
    const struct json *format = field_get(body, "reasoning_format");
    const char *name = request_string(g->exchange, body, "reasoning_format");
    extra->shows_reasoning = json_bool(field_get(body, "include_reasoning"), true);
    g->hides_reasoning = !extra->shows_reasoning;
    if (format && (!name || (strcmp(name, "auto") && strcmp(name, "deepseek") && strcmp(name, "none"))))
        return problem_set(problem, 400, "reasoning_format",
                           "'reasoning_format' must be \"auto\", \"deepseek\" or \"none\"");
    static const char *const budgets[] = {"thinking_budget_tokens", "thinking_token_budget", "thinking_budget"};
    for (size_t i = 0; i < 3; i++)
        if (!field_integer(body, budgets[i], -1, INT32_MAX, g->think_budget, &g->think_budget, problem)) return false;
    return true;
}

static bool take(struct generation *g, const struct json *body, struct problem *problem) {
    struct chat_input input = openai_chat_input(g->exchange, body);
    int64_t n;
    random_id(g->answer_id, "chatcmpl-", 24);
    if (!request_check_messages(input.messages, problem) || !field_integer(body, "n", 1, MAX_CHOICES, 1, &n, problem))
        return false;
    g->n_per_prompt = (uint32_t)n;
    if (!field_integer(body, "id_slot", -1, g->served->options->n_parallel - 1, -1, &g->slot, problem)) return false;
    bool ok = check_fixed(body, problem) && openai_take_stream(g, body, problem) &&
              openai_take_limit(g, body, problem) && request_take_sampling(g, body, problem) &&
              request_take_stop(g, body, "stop", problem) && take_logprobs(g, body, problem) &&
              openai_take_tools(g, body, &input, problem) && openai_take_format(g, body, problem) &&
              take_reasoning(g, body, problem) && request_take_chat(g, &input, problem);
    if (ok && json_string_is(field_get(body, "reasoning_format"), "none")) {
        g->parses_reply = false;
        g->keeps_markers = true;
    }
    return ok;
}

void api_chat_completions(struct exchange *x) {
    struct problem problem;
    const struct json *body;
    struct generation *g = request_open(x, chat_fields, &chat_writer, &body, &problem);
    if (!g || !take(g, body, &problem) || !generation_submit(g, &problem)) api_fail(x, &problem);
}
