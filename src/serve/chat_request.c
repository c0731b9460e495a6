/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: checked, rendered with the model's chat template, encoded. */
#include "serve/request.h"

#include <string.h>

enum { MAX_MESSAGES = 20000, MAX_TOOLS = 128 };

static bool is_blank(const struct json *text) {
    for (uint32_t i = 0; i < text->count; i++)
        if (!strchr(" \t\r\n", text->string[i])) return false;
    return true;
}

/* One part of a content list. */
static bool check_part(const struct json *part, uint32_t message, bool *says_something, struct problem *problem) {
    const struct json *type = field_get(part, "type"), *text = field_get(part, "text");
    if (!json_is_object(part) || !json_is_string(type))
        return problem_set(problem, 400, "messages", "messages[%u].content: each part must be an object with a 'type'",
                           message);
    if (!json_string_is(type, "text") && !json_string_is(type, "refusal") && !json_string_is(type, "thinking") &&
        !json_string_is(type, "reasoning"))
        return problem_set(problem, 400, "messages",
                           "messages[%u].content: parts of type '%.*s' are not supported by this model", message,
                           (int)(type->count < 60 ? type->count : 60), type->string);
    if (json_string_is(type, "text") && !json_is_string(text))
        return problem_set(problem, 400, "messages", "messages[%u].content: a text part must have a string 'text'",
                           message);
    if (text && json_is_string(text) && !is_blank(text)) *says_something = true;
    return true;
}

static bool check_calls(const struct json *calls, uint32_t message, struct problem *problem) {
    if (!json_is_array(calls))
        return problem_set(problem, 400, "messages", "messages[%u].tool_calls must be an array", message);
    for (uint32_t i = 0; i < calls->count; i++) {
        const struct json *function = json_get(&calls->items[i], "function");
        if (!json_is_string(json_get(function, "name")))
            return problem_set(problem, 400, "messages", "messages[%u].tool_calls[%u] has no function name", message,
                               i);
    }
    return true;
}

static bool check_message(const struct json *m, uint32_t i, bool *says_something, struct problem *problem) {
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool", "function", NULL};
    if (!json_is_object(m)) return problem_set(problem, 400, "messages", "messages[%u] must be an object", i);
    const struct json *role = field_get(m, "role"), *content = field_get(m, "content"),
                      *calls = field_get(m, "tool_calls");
    if (!json_is_string(role)) return problem_set(problem, 400, "messages", "messages[%u] has no role", i);
    int k = 0;
    while (roles[k] && !json_string_is(role, roles[k])) k++;
    if (!roles[k])
        return problem_set(problem, 400, "messages", "messages[%u]: unknown role '%.*s'", i,
                           (int)(role->count < 60 ? role->count : 60), role->string);
    if (calls) {
        if (!check_calls(calls, i, problem)) return false;
        *says_something |= calls->count > 0;
    }
    const struct json *reasoning = field_get(m, "reasoning_content");
    if (!reasoning) reasoning = field_get(m, "reasoning");
    if (json_is_string(reasoning) && reasoning->count) *says_something = true;
    if (!content) {
        if (json_string_is(role, "assistant")) return true;
        return problem_set(problem, 400, "messages", "messages[%u] has no content", i);
    }
    if (json_is_string(content)) {
        if (!is_blank(content)) *says_something = true;
        return true;
    }
    if (!json_is_array(content))
        return problem_set(problem, 400, "messages", "messages[%u].content must be text or an array of parts, not %s",
                           i, json_type_name(content));
    for (uint32_t p = 0; p < content->count; p++)
        if (!check_part(&content->items[p], i, says_something, problem)) return false;
    return true;
}

bool request_check_messages(const struct json *messages, struct problem *problem) {
    bool says_something = false;
    if (!messages) return problem_set(problem, 400, "messages", "'messages' is missing");
    if (!json_is_array(messages))
        return problem_set(problem, 400, "messages", "'messages' must be an array, not %s", json_type_name(messages));
    if (messages->count > MAX_MESSAGES)
        return problem_set(problem, 400, "messages", "'messages' may hold at most %d messages", MAX_MESSAGES);
    for (uint32_t i = 0; i < messages->count; i++)
        if (!check_message(&messages->items[i], i, &says_something, problem)) return false;
    return says_something ||
           problem_set(problem, 400, "messages", "'messages' must include at least one that says something");
}

bool request_check_tools(const struct json *tools, struct problem *problem) {
    if (tools->count > MAX_TOOLS)
        return problem_set(problem, 400, "tools", "'tools' may hold at most %d tools", MAX_TOOLS);
    for (uint32_t i = 0; i < tools->count; i++) {
        const struct json *tool = &tools->items[i], *type = field_get(tool, "type"), *f = field_get(tool, "function");
        if (!json_is_object(tool)) return problem_set(problem, 400, "tools", "tools[%u] must be an object", i);
        if (type && !json_string_is(type, "function"))
            return problem_set(problem, 400, "tools", "tools[%u]: only tools of type 'function' are supported", i);
        const struct json *name = field_get(f, "name"), *parameters = field_get(f, "parameters");
        if (!json_is_string(name) || !name->count)
            return problem_set(problem, 400, "tools", "tools[%u].function has no name", i);
        if (parameters && !json_is_object(parameters))
            return problem_set(problem, 400, "tools", "tools[%u].function.parameters must be an object", i);
    }
    return true;
}

/* ---- template variables ---- */

static void add_members(struct json_member *list, uint32_t *n, const struct json *object) {
    for (uint32_t i = 0; object && i < object->count; i++) list[(*n)++] = object->members[i];
}

static void add_value(struct json_member *list, uint32_t *n, const char *key, struct json value) {
    list[(*n)++] = (struct json_member){.key = key, .key_length = (uint32_t)strlen(key), .value = value};
}

/* The command line's, then the request's: of equal names the last one counts. */
static const struct json *make_kwargs(struct generation *g, const struct chat_input *input) {
    const struct json *server = g->served->kwargs;
    size_t most = (server ? server->count : 0) + (input->kwargs ? input->kwargs->count : 0) + 4u;
    struct json_member *list = arena_calloc(&g->exchange->arena, most, sizeof *list);
    struct json *object = arena_calloc(&g->exchange->arena, 1, sizeof *object);
    uint32_t n = 0;
    if (!list || !object) return NULL;
    add_members(list, &n, server);
    int thinks = input->enable_thinking;
    if (input->reasoning_effort) {
        bool none = !strcmp(input->reasoning_effort, "none");
        if (none)
            thinks = 0;
        else
            add_value(list, &n, "reasoning_effort",
                      (struct json){.type = JSON_STRING,
                                    .count = (uint32_t)strlen(input->reasoning_effort),
                                    .string = input->reasoning_effort});
    }
    if (thinks >= 0) {
        struct json value = {.type = thinks ? JSON_TRUE : JSON_FALSE};
        add_value(list, &n, "enable_thinking", value);
        add_value(list, &n, "thinking", value);
    }
    add_members(list, &n, input->kwargs);
    *object = (struct json){.type = JSON_OBJECT, .count = n, .members = list};
    return object;
}

static bool continues_final(const struct chat_input *input) {
    const struct json *last = json_at(input->messages, input->messages->count - 1);
    if (input->continues_final >= 0) return input->continues_final;
    const struct json *content = field_get(last, "content");
    return json_string_is(json_get(last, "role"), "assistant") && !field_get(last, "tool_calls") && content &&
           content->count;
}

bool request_render(struct generation *g, const struct chat_input *input, struct buffer *text,
                    struct problem *problem) {
    struct mx_error err = {0};
    struct jinja_failure failure = {0};
    bool continues = continues_final(input);
    struct chat_request request = {.messages = input->messages,
                                   .tools = input->tools && input->tools->count ? input->tools : NULL,
                                   .documents = input->documents,
                                   .kwargs = make_kwargs(g, input),
                                   .name = g->served->template_name,
                                   .enables_thinking = g->served->thinks,
                                   .add_generation_prompt = !continues && !input->no_generation_prompt,
                                   .continue_final_message = continues,
                                   .adapts_messages = true};
    if (!request.kwargs) return problem_set(problem, 500, NULL, "out of memory");
    bool ok = chat_template_render(g->served->chat, &request, NULL, text, &failure, &err);
    if (!ok) problem_set(problem, err.code == ERROR_MEMORY ? 500 : 400, "messages", "chat template: %s", err.message);
    jinja_failure_free(&failure);
    g->has_prefill = continues;
    return ok;
}

bool request_take_chat(struct generation *g, const struct chat_input *input, struct problem *problem) {
    struct buffer text = {0};
    struct token_list tokens = {0};
    struct mx_error err = {0};
    bool ok = request_render(g, input, &text, problem);
    if (input->enable_thinking == 0) g->may_think = false;
    /* Where answers are messages with headers, what must have a form is the final one. */
    if (ok && g->rule.source != GUIDE_NOTHING && !strcmp(reply_format_name(g->served->format), "harmony"))
        ok = buffer_puts(&text, "<|channel|>final<|message|>") || problem_set(problem, 500, NULL, "out of memory");
    /* A template writes the special tokens itself; the plain one leaves them to the tokenizer. */
    unsigned flags = g->served->has_template ? 0 : TOKENIZE_SPECIAL;
    ok = ok && (tokenizer_encode(g->served->tokenizer, text.data ? text.data : "", text.length, flags, &tokens, &err) ||
                problem_from_error(problem, &err, "messages"));
    ok = ok && generation_add_prompt(g, tokens.ids, tokens.count, problem);
    if (ok) {
        size_t n = text.length < 4096 ? text.length : 4096;
        g->prompt_text = arena_copy(&g->exchange->arena, text.data ? text.data + text.length - n : "", n);
        g->prompt_text_length = n;
        g->parses_reply = true;
        g->tools = input->parses_calls ? input->tools : NULL;
        ok = g->prompt_text || problem_set(problem, 500, NULL, "out of memory");
    }
    buffer_free(&text);
    token_list_free(&tokens);
    return ok;
}
