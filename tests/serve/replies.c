/* SPDX-License-Identifier: Apache-2.0 */
/* Thoughts and calls in a model's own way of writing them, through every dialect, streamed and not. The bundled model is made
 * to write a given text by a choice of one; a chat template with the marks makes the server read it. */
#include "tests/support/http_client.h"
#include "tests/support/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct test_server server;
static struct arena arena;

#define TEMPLATE                                                                                                       \
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"                         \
    "{% if tools %}For each call write <tool_call>\n{\"name\": <function-name>, \"arguments\": "                       \
    "<args-json-object>}\n</tool_call>{% endif %}"                                                                     \
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is defined and not enable_thinking "   \
    "%}<think>\n\n</think>\n\n{% endif %}{% endif %}"
#define ANSWER                                                                                                         \
    "<think>\\nHm, Rome.\\n</think>\\n\\nI look.\\n<tool_call>\\n{\\\"name\\\": \\\"weather\\\", \\\"arguments\\\": "  \
    "{\\\"city\\\": \\\"R\xc3\xb6m \xf0\x9f\xa6\x86\\\", \\\"days\\\": 3}}\\n</tool_call>"
#define USER "{\"role\":\"user\",\"content\":\"Hi\"}"
#define TOOLS                                                                                                          \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"parameters\":{\"type\":\"object\","        \
    "\"properties\":{\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\"}}}}}]"
#define FORCE(text) "\"temperature\":0,\"guided_choice\":[\"" text "\"]"

static const struct json *ask(const char *path, const char *body, int *status) {
    const struct json *json = http_ask_json(&server, "POST", path, body, status, &arena);
    if (*status != 200) tap_note("%d %s", *status, json_text(json, "error.message", &arena));
    return json;
}

static const struct json *parse(const char *text) {
    struct mx_error err;
    return json_parse(&arena, text, strlen(text), 0, 16, &err);
}

static bool is_right_call(const char *name, const struct json *arguments) {
    return !strcmp(name, "weather") && json_string_is(json_get(arguments, "city"), "R\xc3\xb6m \xf0\x9f\xa6\x86") &&
           json_integer(json_get(arguments, "days"), 0) == 3;
}

static char *joined(const struct response *r, const char *path) {
    struct buffer out = {0};
    sse_join(r, path, &out);
    char *copy = arena_copy(&arena, out.data, out.length);
    buffer_free(&out);
    return copy;
}

static void test_chat(void) {
    int status;
    struct response r;
    const struct json *a =
        ask("/v1/chat/completions", "{\"messages\":[" USER "]," TOOLS "," FORCE(ANSWER) "}", &status);
    const struct json *m = json_path(a, "choices.0.message");
    const char *thought = json_text(m, "reasoning_content", &arena), *content = json_text(m, "content", &arena);
    tap_ok(strstr(thought, "Hm, Rome.") && !strcmp(thought, json_text(m, "reasoning", &arena)) && !strchr(thought, '<'),
           "chat: the thought, under both names");
    tap_ok(!strcmp(content, "I look.") && json_string_is(json_path(a, "choices.0.finish_reason"), "tool_calls"),
           "chat: the content, and why it ended");
    tap_ok(is_right_call(json_text(m, "tool_calls.0.function.name", &arena),
                         parse(json_text(m, "tool_calls.0.function.arguments", &arena))),
           "chat: the call");
    tap_ok(json_integer(json_path(a, "usage.completion_tokens_details.reasoning_tokens"), 0) > 1,
           "chat: reasoning tokens are counted");
    http_ask(&server, "POST", "/v1/chat/completions",
             "{\"stream\":true,\"messages\":[" USER "]," TOOLS "," FORCE(ANSWER) "}", &r);
    tap_ok(!strcmp(joined(&r, "choices.0.delta.reasoning_content"), thought) &&
               !strcmp(joined(&r, "choices.0.delta.content"), content),
           "chat: joined pieces equal the whole");
    tap_ok(!strcmp(joined(&r, "choices.0.delta.tool_calls.0.function.arguments"),
                   json_text(m, "tool_calls.0.function.arguments", &arena)) &&
               !strcmp(joined(&r, "choices.0.delta.tool_calls.0.function.name"), "weather") &&
               !strncmp(joined(&r, "choices.0.delta.tool_calls.0.id"), "call_", 5),
           "chat: the name once, the arguments in pieces");
    tap_ok(!strstr(r.body.data, "\xef\xbf\xbd"), "chat: no piece cuts a character");
    response_free(&r);
    a = ask("/v1/chat/completions", "{\"messages\":[" USER "],\"include_reasoning\":false," TOOLS "," FORCE(ANSWER) "}",
            &status);
    tap_ok(!json_path(a, "choices.0.message.reasoning_content") && !json_path(a, "choices.0.message.reasoning"),
           "chat: include_reasoning false");
    a = ask("/v1/chat/completions",
            "{\"messages\":[" USER "],\"reasoning_format\":\"none\"," FORCE("<think>a</think>b") "}", &status);
    http_ask(&server, "POST", "/v1/chat/completions",
             "{\"stream\":true,\"messages\":[" USER "],\"reasoning_format\":\"none\"," FORCE("<think>a</think>b") "}",
             &r);
    tap_ok(json_string_is(json_path(a, "choices.0.message.content"), "<think>a</think>b") &&
               !strcmp(joined(&r, "choices.0.delta.content"), "<think>a</think>b"),
           "chat: reasoning_format none is the same in both modes");
    response_free(&r);
    http_ask(&server, "POST", "/v1/chat/completions",
             "{\"stream\":true,\"messages\":[" USER
             "],\"chat_template_kwargs\":{\"enable_thinking\":false}," FORCE("Plain.") "}",
             &r);
    tap_ok(!strcmp(joined(&r, "choices.0.delta.content"), "Plain.") &&
               !*joined(&r, "choices.0.delta.reasoning_content"),
           "chat: with thinking off the answer is content");
    response_free(&r);
    a = ask("/v1/chat/completions",
            "{\"messages\":[" USER "],\"tool_choice\":\"none\"," TOOLS
            "," FORCE("x <tool_call>\\n{\\\"name\\\": \\\"weather\\\", \\\"arguments\\\": {}}\\n</tool_call>") "}",
            &status);
    tap_ok(!json_path(a, "choices.0.message.tool_calls"), "chat: with tool_choice none nothing is a call");
    a = ask("/v1/chat/completions",
            "{\"messages\":[" USER "]," TOOLS
            "," FORCE("<tool_call>\\n{\\\"name\\\": \\\"other\\\", \\\"arguments\\\": {}}\\n</tool_call>") "}",
            &status);
    tap_ok(!json_path(a, "choices.0.message.tool_calls") &&
               strstr(json_text(a, "choices.0.message.content", &arena), "other"),
           "chat: an unknown tool is no call, its text is not lost");
    a = ask("/v1/chat/completions",
            "{\"messages\":[" USER "],\"parallel_tool_calls\":false," TOOLS
            "," FORCE("<tool_call>\\n{\\\"name\\\": \\\"weather\\\", \\\"arguments\\\": "
                      "{}}\\n</tool_call>\\n<tool_call>\\n{\\\"name\\\": \\\"weather\\\", \\\"arguments\\\": "
                      "{}}\\n</tool_call>") "}",
            &status);
    tap_ok(json_path(a, "choices.0.message.tool_calls.0") && !json_path(a, "choices.0.message.tool_calls.1"),
           "chat: one call only");
}

static void test_stop_in_thought(void) {
    int status;
    struct response r;
    static const char body[] = "\"messages\":[" USER "],\"stop\":[\"Rome\"]," FORCE(ANSWER) "}";
    const struct json *a = ask("/v1/chat/completions", arena_printf(&arena, "{%s", body), &status);
    http_ask(&server, "POST", "/v1/chat/completions", arena_printf(&arena, "{\"stream\":true,%s", body), &r);
    tap_ok(!strcmp(json_text(a, "choices.0.message.reasoning_content", &arena),
                   joined(&r, "choices.0.delta.reasoning_content")) &&
               !*json_text(a, "choices.0.message.content", &arena),
           "a stop string inside a thought: the same in both modes");
    response_free(&r);
}

static void test_messages(void) {
    int status;
    const struct json *a =
        ask("/v1/messages",
            "{\"max_tokens\":200,\"messages\":[" USER
            "],\"tools\":[{\"name\":\"weather\",\"input_schema\":{\"type\":\"object\",\"properties\":{\"city\":{"
            "\"const\":\"Rome\"}},\"required\":[\"city\"],\"additionalProperties\":false}}],\"tool_choice\":{\"type\":"
            "\"tool\",\"name\":\"weather\"}}",
            &status);
    tap_ok(json_string_is(json_path(a, "content.0.name"), "weather") &&
               json_string_is(json_path(a, "content.0.input.city"), "Rome") &&
               !strncmp(json_text(a, "content.0.id", &arena), "toolu_", 6),
           "messages: a call");
    const struct json *again =
        ask("/v1/messages",
            arena_printf(
                &arena,
                "{\"max_tokens\":4,\"messages\":[" USER
                ",{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"t\",\"signature\":\"\"},{"
                "\"type\":\"tool_use\",\"id\":\"%s\",\"name\":\"weather\",\"input\":{\"city\":\"Rome\"}}]},{\"role\":"
                "\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"%s\",\"content\":\"sun\"}]}]}",
                json_text(a, "content.0.id", &arena), json_text(a, "content.0.id", &arena)),
            &status);
    tap_ok(status == 200 && json_path(again, "content.0"), "messages: its result goes on");
}

int main(void) {
    if (!server_start(&server, NULL, (const char *const[]){"--log-disable", "--chat-template", TEMPLATE, NULL}))
        return 1;
    test_chat();
    test_stop_in_thought();
    test_messages();
    tap_ok(server_stop(&server, 10000) == 0, "the server ends well");
    arena_free(&arena);
    return tap_done();
}
