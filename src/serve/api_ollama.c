/* SPDX-License-Identifier: Apache-2.0 */
/* POST /api/chat and /api/generate: a JSON object a line, or one for all with "stream": false. */
#include "serve/api_ollama.h"

#include "serve/api_openai.h"
#include "serve/server_parts.h"

#include <string.h>
#include <time.h>

static const struct field ollama_fields[] = {
    {"model", T_STRING, FIELD_USED},
    {"messages", T_ARRAY, FIELD_USED},
    {"prompt", T_STRING, FIELD_USED},
    {"suffix", T_STRING, FIELD_REFUSED},
    {"system", T_STRING, FIELD_USED},
    {"template", T_STRING, FIELD_REFUSED},
    {"context", T_ARRAY, FIELD_USED},
    {"raw", T_BOOL, FIELD_USED},
    {"stream", T_BOOL, FIELD_USED},
    {"options", T_OBJECT, FIELD_USED},
    {"format", T_STRING | T_OBJECT, FIELD_USED},
    {"tools", T_ARRAY, FIELD_USED},
    {"think", T_BOOL | T_STRING, FIELD_USED},
    {"images", T_ARRAY, FIELD_REFUSED},
    {"logprobs", T_BOOL, FIELD_USED},
    {"top_logprobs", T_INTEGER, FIELD_USED},
    {"keep_alive", T_ANY, FIELD_IGNORED},
    {NULL, 0, FIELD_USED},
};

/* Of "options". */
static const struct field option_fields[] = {
    {"num_predict", T_INTEGER, FIELD_USED},
    {"stop", T_STRING | T_ARRAY, FIELD_USED},
    {NULL, 0, FIELD_USED, sampling_field_table},
};

struct ollama_extra {
    bool is_chat, hides_thoughts;
};

/* ---- writing ---- */

static void write_time(struct json_writer *w) {
    char text[48];
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + n, sizeof text - n, ".%06ldZ", now.tv_nsec / 1000);
    json_add_string(w, "created_at", text);
}

static void begin_line(struct json_writer *w, const struct generation *g) {
    json_begin_object(w);
    json_add_string(w, "model", g->served->id);
    write_time(w);
}

static void write_call(struct json_writer *w, const struct reply_call_text *call) {
    json_begin_object(w);
    json_write_key(w, "function");
    json_begin_object(w);
    json_add_integer(w, "index", call->index);
    json_add_text(w, "name", call->name, call->name_length);
    json_add_raw(w, "arguments", call->arguments, call->arguments_length);
    json_end_object(w);
    json_end_object(w);
}

/* The answer's part that a line carries: content, thoughts and calls (those from `first_call` to `end_call`). */
static void write_part(struct json_writer *w, const struct generation_choice *c, const char *content, size_t n_content,
                       const char *thought, size_t n_thought, size_t first_call, size_t end_call) {
    const struct ollama_extra *extra = c->generation->extra;
    if (extra->is_chat) {
        json_write_key(w, "message");
        json_begin_object(w);
        json_add_string(w, "role", "assistant");
    }
    json_add_text(w, extra->is_chat ? "content" : "response", content, n_content);
    if (n_thought && !extra->hides_thoughts) json_add_text(w, "thinking", thought, n_thought);
    if (end_call > first_call) {
        json_write_key(w, "tool_calls");
        json_begin_array(w);
        for (size_t i = first_call; i < end_call; i++) write_call(w, &c->result.calls[i]);
        json_end_array(w);
    }
    if (extra->is_chat) json_end_object(w);
}

static void write_logprobs(struct json_writer *w, struct generation_choice *c) {
    if (!c->generation->sampling.want_logprobs || !c->logprobs.length) return;
    json_write_key(w, "logprobs");
    json_begin_array(w);
    json_write_raw(w, c->logprobs.data, c->logprobs.length);
    json_end_array(w);
    buffer_clear(&c->logprobs);
}

static void send_line(struct generation *g, struct json_writer *w) {
    json_end_object(w);
    buffer_putc(&g->json, '\n');
    if (!g->json.failed) exchange_write(g->exchange, g->json.data, g->json.length);
    buffer_clear(&g->json);
}

static void begin(struct generation *g) { exchange_begin_stream(g->exchange, "application/x-ndjson", NULL); }

static void piece(struct generation_choice *c, const struct reply_event *event) {
    struct generation *g = c->generation;
    const struct ollama_extra *extra = g->extra;
    struct json_writer w = {.out = &g->json};
    bool is_content = event->kind == REPLY_CONTENT, is_thought = event->kind == REPLY_REASONING;
    bool is_call = event->kind == REPLY_CALL_END;
    if ((!is_content && !is_thought && !is_call) || (is_thought && extra->hides_thoughts)) return;
    size_t n = c->result.n_calls;
    begin_line(&w, g);
    write_part(&w, c, is_content ? event->text : "", is_content ? event->length : 0, event->text,
               is_thought ? event->length : 0, is_call ? n - 1 : 0, is_call ? n : 0);
    write_logprobs(&w, c);
    json_add_bool(&w, "done", false);
    send_line(g, &w);
}

static void end_choice(struct generation_choice *c) { (void)c; }

/* Durations are in nanoseconds. */
static void write_end(struct json_writer *w, const struct generation *g) {
    uint64_t first = atomic_load(&g->first_token_ns), started = atomic_load(&g->started_ns);
    json_add_bool(w, "done", true);
    json_add_string(w, "done_reason", g->choices[0].reason == FINISH_LENGTH ? "length" : "stop");
    json_add_count(w, "total_duration", g->ended_ns - g->exchange->arrived_ns);
    json_add_count(w, "load_duration", 0);
    json_add_count(w, "prompt_eval_count", generation_n_prompt(g));
    json_add_count(w, "prompt_eval_duration", first > started ? first - started : 0);
    json_add_count(w, "eval_count", generation_n_generated(g));
    json_add_count(w, "eval_duration", first ? g->ended_ns - first : 0);
}

static void end(struct generation *g) {
    struct generation_choice *c = &g->choices[0];
    const struct reply_result *r = &c->result;
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    begin_line(&w, g);
    if (g->streams)
        write_part(&w, c, "", 0, "", 0, 0, 0);
    else
        write_part(&w, c, r->content.data ? r->content.data : "", r->content.length, r->reasoning.data,
                   r->reasoning.length, 0, r->n_calls);
    write_logprobs(&w, c);
    write_end(&w, g);
    json_end_object(&w);
    if (!g->streams) {
        exchange_reply_json(g->exchange, 200, &out);
        return;
    }
    buffer_putc(&out, '\n');
    exchange_write_end(g->exchange, out.data, out.failed ? 0 : out.length);
    buffer_free(&out);
}

static const struct answer_writer ollama_writer = {
    begin, piece, end_choice, end, openai_add_logprob, sizeof(struct ollama_extra)};

/* ---- reading ---- */

static bool take_options(struct generation *g, const struct json *body, struct problem *problem) {
    const struct json *options = field_get(body, "options");
    int64_t n, top;
    if (!field_integer(body, "top_logprobs", 0, 20, 0, &top, problem)) return false;
    g->sampling.want_logprobs = json_bool(field_get(body, "logprobs"), false);
    g->sampling.n_top_logprobs = top;
    g->sampling.logprobs_kind = LOGPROBS_RAW;
    if (!options) return true;
    if (!fields_check(g->exchange, options, option_fields, problem) ||
        !field_integer(options, "num_predict", -2, INT32_MAX, 0, &n, problem))
        return false;
    if (n) g->max_tokens = n < 0 ? -1 : n;
    return request_take_sampling(g, options, problem) && request_take_stop(g, options, "stop", problem);
}

static bool take_format(struct generation *g, const struct json *body, struct problem *problem) {
    const struct json *format = field_get(body, "format");
    if (!format || (json_is_string(format) && !format->count)) return true;
    if (json_is_string(format) && !json_string_is(format, "json"))
        return problem_set(problem, 400, "format", "'format' must be \"json\" or a JSON schema");
    return request_force_json(g, json_is_object(format) ? format : NULL, "format", problem);
}

static void take_thinking(struct generation *g, const struct json *body, struct chat_input *input) {
    const struct json *think = field_get(body, "think");
    struct ollama_extra *extra = g->extra;
    if (!think) return;
    if (json_is_string(think)) input->reasoning_effort = request_string(g->exchange, body, "think");
    input->enable_thinking = !json_is_bool(think) || json_bool(think, false);
    extra->hides_thoughts = !input->enable_thinking;
}

/* Images in messages are refused by name; tools are checked as OpenAI's. */
static bool take_messages(struct generation *g, const struct json *body, const struct json *messages,
                          struct problem *problem) {
    struct chat_input input = {.messages = messages, .enable_thinking = -1, .continues_final = -1};
    if (!request_check_messages(messages, problem)) return false;
    for (uint32_t i = 0; i < messages->count; i++) {
        const struct json *images = field_get(&messages->items[i], "images");
        if (json_is_array(images) && images->count)
            return problem_set(problem, 400, "images", "messages[%u].images: this model takes text only", i);
    }
    take_thinking(g, body, &input);
    return openai_take_tools(g, body, &input, problem) && request_take_chat(g, &input, problem);
}

/* One user turn, with a system turn in front of it. */
static const struct json *make_messages(struct exchange *x, const struct json *body, struct problem *problem) {
    struct buffer text = {0};
    struct json_writer w = {.out = &text};
    static const char *const roles[][2] = {{"system", "system"}, {"prompt", "user"}};
    json_begin_array(&w);
    for (size_t i = 0; i < 2; i++) {
        const struct json *content = field_get(body, roles[i][0]);
        if (!content || !content->count) continue;
        json_begin_object(&w);
        json_add_string(&w, "role", roles[i][1]);
        json_add_value(&w, "content", content);
        json_end_object(&w);
    }
    json_end_array(&w);
    return request_parse_built(x, &text, problem);
}

static struct generation *open_generation(struct exchange *x, const struct json *body, bool is_chat,
                                          struct problem *problem) {
    const struct json *context = field_get(body, "context");
    if (!field_get(body, "model")) {
        problem_set(problem, 400, "model", "'model' is missing");
        return NULL;
    }
    if (context && context->count) {
        problem_set(problem, 400, "context", "'context' is not supported: send the conversation to /api/chat");
        return NULL;
    }
    struct generation *g = generation_create(x, request_string(x, body, "model"), &ollama_writer, problem);
    if (!g) return NULL;
    struct ollama_extra *extra = g->extra;
    extra->is_chat = is_chat;
    g->streams = json_bool(field_get(body, "stream"), true);
    return take_options(g, body, problem) && take_format(g, body, problem) ? g : NULL;
}

/* A request without text loads the model, which open_generation did. */
static void answer_load(struct generation *g) {
    const struct ollama_extra *extra = g->extra;
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    begin_line(&w, g);
    if (extra->is_chat) {
        json_add_raw(&w, "message", "{\"role\":\"assistant\",\"content\":\"\"}", 33);
    } else {
        json_add_string(&w, "response", "");
    }
    json_add_bool(&w, "done", true);
    json_add_string(&w, "done_reason", "load");
    json_end_object(&w);
    exchange_reply_json(g->exchange, 200, &out);
}

static void respond(struct exchange *x, bool is_chat) {
    struct problem problem;
    const struct json *body = fields_parse_body(x, &problem);
    bool ok = body && fields_check(x, body, ollama_fields, &problem);
    struct generation *g = ok ? open_generation(x, body, is_chat, &problem) : NULL;
    const struct json *messages = field_get(body, "messages"), *prompt = field_get(body, "prompt");
    bool is_empty = is_chat ? !messages || !messages->count : !prompt || !prompt->count;
    if (g && is_empty) {
        answer_load(g);
        return;
    }
    if (g && is_chat)
        ok = take_messages(g, body, messages, &problem);
    else if (g && json_bool(field_get(body, "raw"), false))
        ok = request_add_prompt(g, prompt, &problem);
    else if (g)
        ok = (messages = make_messages(x, body, &problem)) && take_messages(g, body, messages, &problem);
    if (!g || !ok || !generation_submit(g, &problem)) api_fail(x, &problem);
}

void ollama_chat(struct exchange *x) { respond(x, true); }
void ollama_generate(struct exchange *x) { respond(x, false); }
