/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/responses and what is kept of them. */
#include "serve/api_responses.h"

#include "serve/api_openai.h"
#include "serve/random_id.h"
#include "serve/responses_items.h"
#include "serve/server_parts.h"

#include <string.h>

static const struct field response_fields[] = {
    {"model", T_STRING, FIELD_USED},
    {"input", T_STRING | T_ARRAY, FIELD_USED},
    {"instructions", T_STRING, FIELD_USED},
    {"previous_response_id", T_STRING, FIELD_USED},
    {"stream", T_BOOL, FIELD_USED},
    {"store", T_BOOL, FIELD_USED},
    {"max_output_tokens", T_INTEGER, FIELD_USED},
    {"tools", T_ARRAY, FIELD_USED},
    {"tool_choice", T_STRING | T_OBJECT, FIELD_USED},
    {"parallel_tool_calls", T_BOOL, FIELD_USED},
    {"text", T_OBJECT, FIELD_USED},
    {"reasoning", T_OBJECT, FIELD_USED},
    {"truncation", T_STRING, FIELD_USED},
    {"metadata", T_OBJECT, FIELD_USED},
    {"include", T_ARRAY, FIELD_IGNORED},
    {"max_tool_calls", T_INTEGER, FIELD_IGNORED},
    {"stream_options", T_OBJECT, FIELD_IGNORED},
    {"chat_template_kwargs", T_OBJECT, FIELD_USED},
    {"background", T_BOOL, FIELD_REFUSED},
    {"conversation", T_ANY, FIELD_REFUSED},
    {"prompt", T_OBJECT, FIELD_REFUSED},
    {"top_logprobs", T_INTEGER, FIELD_REFUSED},
    {"context_management", T_ANY, FIELD_REFUSED},
    {NULL, 0, FIELD_USED, sampling_field_table},
};

static bool take_history(struct generation *g, struct response_extra *e, struct problem *problem) {
    struct exchange *x = g->exchange;
    const char *previous = request_string(x, e->body, "previous_response_id");
    struct mx_error err;
    if (!previous) return true;
    const char *text = responses_store_get(&x->server->responses, previous, x->owner, RESPONSES_HISTORY, &x->arena);
    if (!text) {
        problem_set(problem, 404, "previous_response_id", "there is no response '%.80s'", previous);
        problem->code = "previous_response_not_found";
        return false;
    }
    e->history = json_parse(&x->arena, text, strlen(text), 0, 128, &err);
    return e->history || problem_set(problem, 500, NULL, "the kept response cannot be read");
}

static bool take_tools(struct generation *g, const struct json *body, struct chat_input *input,
                       struct problem *problem) {
    const struct json *tools = field_get(body, "tools"), *choice = field_get(body, "tool_choice");
    if (tools && !(tools = responses_tools(g->exchange, tools, problem))) return false;
    g->one_call_only = !json_bool(field_get(body, "parallel_tool_calls"), true);
    if (json_string_is(choice, "none")) return true;
    input->tools = tools;
    input->parses_calls = tools && tools->count;
    if (!choice || json_string_is(choice, "auto")) return true;
    bool is_named = json_is_object(choice) && json_string_is(json_get(choice, "type"), "function");
    if (!is_named && !json_string_is(choice, "required"))
        return problem_set(
            problem, 400, "tool_choice",
            "'tool_choice' must be \"auto\", \"none\", \"required\" or {\"type\":\"function\",\"name\":...}");
    if (!input->parses_calls)
        return problem_set(problem, 400, "tool_choice", "'tool_choice' asks for a call, but there are no 'tools'");
    return request_force_call(g, tools, is_named ? request_string(g->exchange, choice, "name") : NULL, problem);
}

static bool take_format(struct generation *g, const struct json *body, struct problem *problem) {
    const struct json *text = field_get(body, "text"), *format = field_get(text, "format"),
                      *type = json_get(format, "type");
    const struct json *verbosity = field_get(text, "verbosity"), *truncation = field_get(body, "truncation");
    if (verbosity && !json_string_is(verbosity, "medium"))
        return problem_set(problem, 400, "text", "'text.verbosity' other than \"medium\" is not supported");
    if (truncation && !json_string_is(truncation, "disabled"))
        return problem_set(problem, 400, "truncation", "'truncation' other than \"disabled\" is not supported");
    if (!format || json_string_is(type, "text")) return true;
    if (json_string_is(type, "json_object")) return request_force_json(g, NULL, "text", problem);
    if (json_string_is(type, "json_schema")) return request_force_json(g, json_get(format, "schema"), "text", problem);
    return problem_set(problem, 400, "text", "'text.format.type' must be \"text\", \"json_object\" or \"json_schema\"");
}

static bool take(struct generation *g, const struct json *body, struct problem *problem) {
    struct exchange *x = g->exchange;
    struct response_extra *e = g->extra;
    struct chat_input input = {
        .kwargs = field_get(body, "chat_template_kwargs"), .enable_thinking = -1, .continues_final = 0};
    int64_t limit;
    e->body = body;
    e->stores = json_bool(field_get(body, "store"), true);
    g->streams = json_bool(field_get(body, "stream"), false);
    random_id(g->answer_id, "resp_", 32);
    if (!field_integer(body, "max_output_tokens", 1, INT32_MAX, 0, &limit, problem)) return false;
    if (limit) g->max_tokens = limit;
    if (!(e->items = responses_input_items(x, field_get(body, "input"), problem)) || !take_history(g, e, problem))
        return false;
    input.messages = responses_messages(x, field_get(body, "instructions"), e->history, e->items, problem);
    input.reasoning_effort = request_string(x, field_get(body, "reasoning"), "effort");
    return input.messages && request_check_messages(input.messages, problem) &&
           request_take_sampling(g, body, problem) && take_tools(g, body, &input, problem) &&
           take_format(g, body, problem) && request_take_chat(g, &input, problem);
}

static struct generation *open_generation(struct exchange *x, struct problem *problem) {
    const struct json *body;
    struct generation *g = request_open(x, response_fields, &response_writer, &body, problem);
    return g && take(g, body, problem) ? g : NULL;
}

void api_responses(struct exchange *x) {
    struct problem problem;
    struct generation *g = open_generation(x, &problem);
    if (!g || !generation_submit(g, &problem)) api_fail(x, &problem);
}

void api_responses_count(struct exchange *x) {
    struct problem problem;
    struct generation *g = open_generation(x, &problem);
    if (g)
        request_reply_count(g, "response.input_tokens");
    else
        api_fail(x, &problem);
}

/* ---- what is kept ---- */

/* The id in the path, and what follows it ("" or "/cancel"). */
static const char *split_path(struct exchange *x, const char **rest) {
    size_t n = strcspn(x->path_rest, "/");
    *rest = x->path_rest + n;
    const char *id = arena_copy(&x->arena, x->path_rest, n);
    return id ? id : "";
}

static void refuse_unknown(struct exchange *x, const char *id) {
    struct problem problem;
    problem_set(&problem, 404, "response_id", "there is no response '%.80s'", id);
    api_fail(x, &problem);
}

void api_response_get(struct exchange *x) {
    const char *rest, *id = split_path(x, &rest);
    struct responses_store *store = &x->server->responses;
    if (!strcmp(rest, "/input_items")) {
        const char *items = responses_store_get(store, id, x->owner, RESPONSES_INPUT, &x->arena);
        struct buffer out = {0};
        if (!items) {
            refuse_unknown(x, id);
            return;
        }
        struct problem problem;
        if (responses_write_list(x, id, items, &out, &problem)) {
            exchange_reply_json(x, 200, &out);
        } else {
            buffer_free(&out);
            api_fail(x, &problem);
        }
        return;
    }
    const char *response = *rest ? NULL : responses_store_get(store, id, x->owner, RESPONSES_RESPONSE, &x->arena);
    if (response)
        exchange_reply(x, 200, "application/json", response, strlen(response));
    else
        refuse_unknown(x, id);
}

/* Only what runs in the background could be cancelled, and nothing does. */
void api_response_post(struct exchange *x) {
    const char *rest, *id = split_path(x, &rest);
    if (strcmp(rest, "/cancel") != 0 ||
        !responses_store_get(&x->server->responses, id, x->owner, RESPONSES_INPUT, &x->arena))
        refuse_unknown(x, id);
    else
        api_refuse(x, 400, "only responses that run in the background can be cancelled");
}

void api_response_delete(struct exchange *x) {
    const char *rest, *id = split_path(x, &rest);
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    if (*rest || !responses_store_delete(&x->server->responses, id, x->owner)) {
        refuse_unknown(x, id);
        return;
    }
    json_begin_object(&w);
    json_add_string(&w, "id", id);
    json_add_string(&w, "object", "response");
    json_add_bool(&w, "deleted", true);
    json_end_object(&w);
    exchange_reply_json(x, 200, &out);
}
