/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/api_openai.h"

#include "serve/events.h"
#include "serve/server_parts.h"

#include <math.h>
#include <string.h>

/* ---- what answers share ---- */

void openai_write_head(struct json_writer *w, const struct generation *g, const char *object) {
    json_add_string(w, "id", g->answer_id);
    json_add_string(w, "object", object);
    json_add_integer(w, "created", g->created);
    json_add_string(w, "model", g->served->id);
    json_add_string(w, "system_fingerprint", SYSTEM_FINGERPRINT);
}

void openai_write_usage(struct json_writer *w, const struct generation *g) {
    size_t prompt = generation_n_prompt(g), generated = generation_n_generated(g), reasoning = 0;
    for (uint32_t i = 0; i < g->n_choices; i++) reasoning += g->choices[i].n_reasoning;
    json_write_key(w, "usage");
    json_begin_object(w);
    json_add_count(w, "prompt_tokens", prompt);
    json_add_count(w, "completion_tokens", generated);
    json_add_count(w, "total_tokens", prompt + generated);
    json_write_key(w, "prompt_tokens_details");
    json_begin_object(w);
    json_add_count(w, "cached_tokens", generation_n_cached(g));
    json_end_object(w);
    json_write_key(w, "completion_tokens_details");
    json_begin_object(w);
    json_add_count(w, "reasoning_tokens", reasoning);
    json_end_object(w);
    json_end_object(w);
}

static void write_rate(struct json_writer *w, const char *name, double n, double ms) {
    char key[64];
    snprintf(key, sizeof key, "%s_n", name);
    json_add_integer(w, key, (int64_t)n);
    snprintf(key, sizeof key, "%s_ms", name);
    json_add_real_as(w, key, "%.3f", ms);
    snprintf(key, sizeof key, "%s_per_token_ms", name);
    json_add_real_as(w, key, "%.3f", n > 0 ? ms / n : 0);
    snprintf(key, sizeof key, "%s_per_second", name);
    json_add_real_as(w, key, "%.3f", ms > 0 ? n / ms * 1e3 : 0);
}

void openai_write_timings(struct json_writer *w, const struct generation *g) {
    uint64_t started = atomic_load(&g->started_ns), first = atomic_load(&g->first_token_ns), end = g->ended_ns;
    if (!first) first = end;
    if (!started) started = first;
    size_t cached = generation_n_cached(g);
    char text[CACHE_FINDING_TEXT];
    json_write_key(w, "timings");
    json_begin_object(w);
    json_add_count(w, "cache_n", cached);
    generation_cache_text(g, true, text);
    json_add_string(w, "cache", text);
    write_rate(w, "prompt", (double)(generation_n_prompt(g) - cached), (double)(first - started) * 1e-6);
    write_rate(w, "predicted", (double)generation_n_generated(g), end > first ? (double)(end - first) * 1e-6 : 0);
    json_end_object(w);
}

static void write_token(struct json_writer *w, const struct served *served, uint32_t token, float logprob,
                        bool closes) {
    const char *bytes = "";
    size_t n = 0;
    tokenizer_token_bytes(served->tokenizer, token, &bytes, &n);
    json_begin_object(w);
    json_add_text(w, "token", bytes, n);
    json_add_real_as(w, "logprob", "%.6g", logprob < -9999 || isnan(logprob) ? -9999.0 : (double)logprob);
    json_write_key(w, "bytes");
    json_begin_array(w);
    for (size_t i = 0; i < n; i++) json_write_integer(w, (unsigned char)bytes[i]);
    json_end_array(w);
    if (closes) json_end_object(w);
}

void openai_add_logprob(struct generation_choice *c, uint32_t token, const struct sample_result *sample) {
    const struct served *served = c->generation->served;
    struct json_writer w = {.out = &c->logprobs};
    if (c->logprobs.length) buffer_putc(&c->logprobs, ',');
    write_token(&w, served, token, sample->logprob, false);
    json_write_key(&w, "top_logprobs");
    json_begin_array(&w);
    for (uint32_t i = 0; i < sample->n_top; i++)
        write_token(&w, served, sample->top[i].token, sample->top[i].logprob, true);
    json_end_array(&w);
    json_end_object(&w);
}

const char *openai_finish_reason(const struct generation_choice *c) {
    if (c->n_calls_ended) return "tool_calls";
    return c->reason == FINISH_LENGTH ? "length" : "stop";
}

void openai_end_stream(struct generation *g, const char *object) {
    if (g->includes_usage) {
        struct json_writer w = event_begin(g, NULL);
        openai_write_head(&w, g, object);
        json_write_key(&w, "choices");
        json_begin_array(&w);
        json_end_array(&w);
        openai_write_usage(&w, g);
        openai_write_timings(&w, g);
        event_end(g, &w);
    }
    exchange_write_end(g->exchange, "data: [DONE]\n\n", 14);
}

/* ---- what requests share ---- */

const struct field openai_field_table[] = {
    {"stream", T_BOOL, FIELD_USED},
    {"stream_options", T_OBJECT, FIELD_USED},
    {"max_tokens", T_INTEGER, FIELD_USED},
    {"max_completion_tokens", T_INTEGER, FIELD_USED},
    {"n_predict", T_INTEGER, FIELD_USED},
    {"response_format", T_OBJECT, FIELD_USED},
    {"json_schema", T_OBJECT, FIELD_USED},
    {"grammar", T_STRING, FIELD_USED},
    {"guided_json", T_ANY, FIELD_USED},
    {"guided_regex", T_ANY, FIELD_USED},
    {"guided_choice", T_ANY, FIELD_USED},
    {"guided_grammar", T_ANY, FIELD_USED},
    {"structured_outputs", T_OBJECT, FIELD_USED},
    {"regex", T_STRING, FIELD_USED},
    {NULL, 0, FIELD_USED, sampling_field_table},
};

bool openai_take_stream(struct generation *g, const struct json *body, struct problem *problem) {
    const struct json *options = field_get(body, "stream_options"), *usage = field_get(options, "include_usage");
    g->streams = json_bool(field_get(body, "stream"), false);
    if (usage && !json_is_bool(usage))
        return problem_set(problem, 400, "stream_options", "'stream_options.include_usage' must be a boolean, not %s",
                           json_type_name(usage));
    g->includes_usage = g->streams && json_bool(usage, false);
    return true;
}

bool openai_take_limit(struct generation *g, const struct json *body, struct problem *problem) {
    static const char *const names[] = {"n_predict", "max_tokens", "max_completion_tokens"};
    for (size_t i = 0; i < 3; i++) {
        int64_t least = i ? 1 : -1, value;
        /* -1 means "to the end of the context" to several clients. */
        if (json_integer(field_get(body, names[i]), 0) == -1) least = -1;
        if (!field_integer(body, names[i], least, INT32_MAX, 0, &value, problem)) return false;
        if (value) g->max_tokens = value;
    }
    return true;
}

struct chat_input openai_chat_input(struct exchange *x, const struct json *body) {
    const struct json *goes_on = field_get(body, "continue_final_message"),
                      *prompts = field_get(body, "add_generation_prompt");
    struct chat_input input = {.messages = field_get(body, "messages"),
                               .documents = field_get(body, "documents"),
                               .kwargs = field_get(body, "chat_template_kwargs"),
                               .reasoning_effort = request_string(x, body, "reasoning_effort"),
                               .enable_thinking = -1,
                               .continues_final = -1};
    if (goes_on) input.continues_final = json_bool(goes_on, false);
    if (prompts && !json_bool(prompts, true)) input.no_generation_prompt = true;
    if (prompts && json_bool(prompts, false) && !goes_on) input.continues_final = 0;
    return input;
}

bool openai_take_tools(struct generation *g, const struct json *body, struct chat_input *input,
                       struct problem *problem) {
    const struct json *tools = field_get(body, "tools"), *choice = field_get(body, "tool_choice");
    if (tools && !request_check_tools(tools, problem)) return false;
    g->one_call_only = !json_bool(field_get(body, "parallel_tool_calls"), true);
    bool has_tools = tools && tools->count;
    if (!choice || json_string_is(choice, "auto")) {
        input->tools = tools;
        input->parses_calls = has_tools;
        return true;
    }
    if (json_string_is(choice, "none")) return true;
    bool is_known = json_string_is(choice, "required") ||
                    (json_is_object(choice) && json_string_is(json_get(choice, "type"), "function") &&
                     json_is_string(json_get(json_get(choice, "function"), "name")));
    if (!is_known)
        return problem_set(problem, 400, "tool_choice",
                           "'tool_choice' must be \"auto\", \"none\", \"required\" or "
                           "{\"type\":\"function\",\"function\":{\"name\":...}}");
    if (!has_tools)
        return problem_set(problem, 400, "tool_choice", "'tool_choice' asks for a call, but there are no 'tools'");
    input->tools = tools;
    input->parses_calls = true;
    const char *name = json_string_copy(&g->exchange->arena, json_get(json_get(choice, "function"), "name"));
    return request_force_call(g, tools, name, problem);
}

static bool take_response_format(struct generation *g, const struct json *format, struct problem *problem) {
    const struct json *type = field_get(format, "type"), *wrapper = field_get(format, "json_schema");
    const struct json *schema = field_get(wrapper, "schema");
    if (!json_is_string(type))
        return problem_set(problem, 400, "response_format", "'response_format' must have a string 'type'");
    if (json_string_is(type, "text")) return true;
    if (!schema) schema = field_get(format, "schema");
    if (json_string_is(type, "json_object")) return request_force_json(g, schema, "response_format", problem);
    if (json_string_is(type, "json_schema")) {
        if (!schema)
            return problem_set(problem, 400, "response_format", "'response_format.json_schema' has no 'schema'");
        return request_force_json(g, schema, "response_format", problem);
    }
    return problem_set(problem, 400, "response_format", "'response_format' of type '%.*s' is not supported",
                       (int)(type->count < 40 ? type->count : 40), type->string);
}

/* A schema as an object, or as its text. */
static bool take_schema(struct generation *g, const struct json *value, const char *param, struct problem *problem) {
    struct mx_error err;
    if (json_is_string(value)) {
        value = json_parse(&g->exchange->arena, value->string, value->count, 0, 64, &err);
        if (!value) return problem_set(problem, 400, param, "'%s': %s", param, err.message);
    }
    return request_force_json(g, value, param, problem);
}

bool openai_take_format(struct generation *g, const struct json *body, struct problem *problem) {
    static const struct {
        const char *name, *member; /* of structured_outputs */
        enum guide_source source;
    } texts[] = {{"grammar", "grammar", GUIDE_GBNF},
                 {"guided_grammar", NULL, GUIDE_GBNF},
                 {"regex", "regex", GUIDE_REGEX},
                 {"guided_regex", NULL, GUIDE_REGEX},
                 {"guided_choice", "choice", GUIDE_CHOICES}};
    const struct json *format = field_get(body, "response_format"), *more = field_get(body, "structured_outputs");
    const struct json *schema = field_get(body, "json_schema"), *guided = field_get(body, "guided_json"),
                      *inner = field_get(more, "json");
    if (format && !take_response_format(g, format, problem)) return false;
    if (schema && !take_schema(g, schema, "json_schema", problem)) return false;
    if (guided && !take_schema(g, guided, "guided_json", problem)) return false;
    if (inner && !take_schema(g, inner, "structured_outputs", problem)) return false;
    if (json_bool(field_get(more, "json_object"), false) && !request_force_json(g, NULL, "structured_outputs", problem))
        return false;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const struct json *v = field_get(body, texts[i].name),
                          *m = texts[i].member ? field_get(more, texts[i].member) : NULL;
        /* As in llama-server, a schema counts before a grammar, and an empty grammar is none. */
        if (v && json_is_string(v) && !v->count) v = NULL;
        if (v && texts[i].source == GUIDE_GBNF && schema) v = NULL;
        if (v && !request_force_text(g, texts[i].source, v, texts[i].name, problem)) return false;
        if (m && !request_force_text(g, texts[i].source, m, "structured_outputs", problem)) return false;
    }
    return true;
}
