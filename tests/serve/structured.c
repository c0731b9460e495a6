/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of a given form, and calls of tools that are asked for: the bundled model knows nothing of either, so that what
 * fits came from the grammar. */
#include "tests/support/http_client.h"
#include "tests/support/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct test_server server;
static struct arena arena;

#define CHAT "/v1/chat/completions"
#define HEAD                                                                                                           \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell me about the "                                               \
    "sea.\"}],\"max_tokens\":200,\"temperature\":0.7,\"seed\":3,"
#define SCHEMA                                                                                                         \
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":12},\"kind\":{\"enum\":[\"a\","  \
    "\"b\"]},\"old\":{\"type\":"                                                                                       \
    "\"boolean\"}},\"required\":[\"name\",\"kind\",\"old\"],\"additionalProperties\":false}"
#define TOOLS                                                                                                          \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"parameters\":{\"type\":\"object\","        \
    "\"properties\":{\"city\":{"                                                                                       \
    "\"type\":\"string\",\"maxLength\":10}},\"required\":[\"city\"],\"additionalProperties\":false}}},{\"type\":"      \
    "\"function\",\"function\":{"                                                                                      \
    "\"name\":\"clock\",\"parameters\":{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}}}]"

static const struct json *ask(const char *path, const char *body, int *status) {
    return http_ask_json(&server, "POST", path, body, status, &arena);
}

static const struct json *parse(const char *text) {
    struct mx_error err;
    return json_parse(&arena, text, strlen(text), 0, 64, &err);
}

static bool fits_schema(const char *text) {
    const struct json *v = parse(text);
    const struct json *kind = json_get(v, "kind");
    return json_is_object(v) && v->count == 3 && json_is_string(json_get(v, "name")) &&
           json_is_bool(json_get(v, "old")) && (json_string_is(kind, "a") || json_string_is(kind, "b"));
}

static void test_forms(void) {
    int status;
    const struct json *a = ask(
        CHAT,
        HEAD "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\",\"schema\":" SCHEMA "}}}",
        &status);
    const char *text = json_text(a, "choices.0.message.content", &arena);
    if (!tap_ok(status == 200 && fits_schema(text) && json_string_is(json_path(a, "choices.0.finish_reason"), "stop"),
                "a JSON schema is kept"))
        tap_note("%s", text);
    struct response r;
    struct buffer joined = {0};
    http_ask(&server, "POST", CHAT,
             HEAD "\"stream\":true,\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\","
                  "\"schema\":" SCHEMA "}}}",
             &r);
    sse_join(&r, "choices.0.delta.content", &joined);
    tap_ok(!strcmp(joined.data, text), "streamed, it is the same");
    response_free(&r);
    buffer_free(&joined);
    const struct json *many = ask(CHAT,
                                  HEAD "\"n\":3,\"temperature\":1.2,\"response_format\":{\"type\":\"json_schema\","
                                       "\"json_schema\":{\"name\":\"x\",\"schema\":" SCHEMA "}}}",
                                  &status);
    bool all = true;
    for (int i = 0; i < 3; i++)
        all = all && fits_schema(json_text(many, arena_printf(&arena, "choices.%d.message.content", i), &arena));
    tap_ok(all, "each of several answers keeps it");
    a = ask(CHAT, HEAD "\"guided_choice\":[\"black\",\"white\"]}", &status);
    text = json_text(a, "choices.0.message.content", &arena);
    tap_ok(!strcmp(text, "black") || !strcmp(text, "white"), "one of the choices");
    a = ask(CHAT, HEAD "\"grammar\":\"root ::= [0-9] [0-9] \\\".\\\"\"}", &status);
    text = json_text(a, "choices.0.message.content", &arena);
    tap_ok(strlen(text) == 3 && text[2] == '.', "a GBNF grammar");
    a = ask("/v1/completions", "{\"prompt\":\"x\",\"max_tokens\":50,\"structured_outputs\":{\"regex\":\"[a-c]{5}\"}}",
            &status);
    text = json_text(a, "choices.0.text", &arena);
    tap_ok(strlen(text) == 5 && strspn(text, "abc") == 5, "a regular expression");
    a = ask("/completion", "{\"prompt\":\"x\",\"n_predict\":200,\"seed\":3,\"json_schema\":" SCHEMA "}", &status);
    tap_ok(fits_schema(json_text(a, "content", &arena)), "llama-server's json_schema");
    a = ask("/api/chat",
            "{\"model\":\"novels-24m-4bit\",\"stream\":false,\"options\":{\"num_predict\":200,\"seed\":3},\"messages\":"
            "[{\"role\":\"user\",\"content\":\"Hi\"}],\"format\":" SCHEMA "}",
            &status);
    tap_ok(fits_schema(json_text(a, "message.content", &arena)), "ollama's format");
    a = ask("/v1/responses",
            "{\"input\":\"Hi\",\"max_output_tokens\":200,\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"x\","
            "\"schema\":" SCHEMA "}}}",
            &status);
    tap_ok(fits_schema(json_text(a, "output.0.content.0.text", &arena)), "the Responses API's text.format");
}

/* Nothing is generated when the form cannot be kept. */
static void test_faults(void) {
    static const char *const bodies[][2] = {
        {"a grammar without root", HEAD "\"grammar\":\"Root ::= [^\\n]+ \\\"\\n#\\\"\"}"},
        {"a broken grammar", HEAD "\"grammar\":\"root ::= (\"}"},
        {"a broken pattern", HEAD "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\","
                                  "\"schema\":{\"type\":\"string\",\"pattern\":\"(a\"}}}}"},
        {"an unknown type", HEAD "\"response_format\":{\"type\":\"xml\"}}"},
        {"no schema", HEAD "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\"}}}"},
        {"two forms", HEAD "\"regex\":\"a\",\"guided_choice\":[\"b\"]}"},
        {"choices that are no strings", HEAD "\"guided_choice\":[1]}"},
        {"a schema that nothing satisfies", HEAD "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{"
                                                 "\"name\":\"x\",\"schema\":{\"type\":\"nothing\"}}}}"},
        {"a tool that is not there",
         HEAD TOOLS ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"zzz\"}}}"},
        {"a call without tools", HEAD "\"tool_choice\":\"required\"}"},
        {"an unknown choice of tools", HEAD TOOLS ",\"tool_choice\":\"maybe\"}"},
        {"a tool without a name", HEAD "\"tools\":[{\"type\":\"function\",\"function\":{}}]}"},
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        int status;
        const struct json *a = ask(CHAT, bodies[i][1], &status);
        tap_ok(status == 400 && *json_text(a, "error.param", &arena) && *json_text(a, "error.message", &arena),
               "refused: %s", bodies[i][0]);
    }
}

static void test_calls(void) {
    int status;
    const struct json *a =
        ask(CHAT, HEAD TOOLS ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"weather\"}}}", &status);
    const struct json *arguments = parse(json_text(a, "choices.0.message.tool_calls.0.function.arguments", &arena));
    tap_ok(status == 200 && json_string_is(json_path(a, "choices.0.message.tool_calls.0.function.name"), "weather") &&
               json_is_string(json_get(arguments, "city")) &&
               json_string_is(json_path(a, "choices.0.finish_reason"), "tool_calls") &&
               json_is_null(json_path(a, "choices.0.message.content")),
           "a named tool is called");
    struct response r;
    struct buffer joined = {0};
    http_ask(&server, "POST", CHAT,
             HEAD TOOLS ",\"stream\":true,\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"weather\"}}}",
             &r);
    sse_join(&r, "choices.0.delta.tool_calls.0.function.arguments", &joined);
    tap_ok(!strcmp(joined.data, json_text(a, "choices.0.message.tool_calls.0.function.arguments", &arena)) &&
               strstr(r.body.data, "\"finish_reason\":\"tool_calls\""),
           "streamed, its arguments are the same");
    response_free(&r);
    buffer_free(&joined);
    a = ask(CHAT, HEAD TOOLS ",\"tool_choice\":\"required\"}", &status);
    const char *name = json_text(a, "choices.0.message.tool_calls.0.function.name", &arena);
    tap_ok(!strcmp(name, "weather") || !strcmp(name, "clock"), "some tool is called");
    a = ask(CHAT,
            HEAD
            "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"visit\",\"parameters\":{\"type\":\"object\","
            "\"properties\":{\"place\":{\"$ref\":\"#/$defs/Place\"}},\"required\":[\"place\"],\"$defs\":{\"Place\":{"
            "\"enum\":[\"Oslo\"]}}}}}],\"tool_choice\":\"required\"}",
            &status);
    arguments = parse(json_text(a, "choices.0.message.tool_calls.0.function.arguments", &arena));
    tap_ok(arguments && arguments->count == 1 && json_string_is(json_get(arguments, "place"), "Oslo"),
           "references within a tool's schema; no arguments but those that it names");
    a = ask(CHAT, HEAD TOOLS ",\"tool_choice\":\"none\"}", &status);
    tap_ok(status == 200 && !json_path(a, "choices.0.message.tool_calls"), "none is called");
    a = ask("/v1/messages",
            "{\"max_tokens\":200,\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"tools\":[{\"name\":\"clock\","
            "\"input_schema\":{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}}],\"tool_choice\":"
            "{\"type\":\"any\"}}",
            &status);
    tap_ok(json_string_is(json_path(a, "content.0.type"), "tool_use") &&
               json_is_object(json_path(a, "content.0.input")) &&
               json_string_is(json_get(a, "stop_reason"), "tool_use"),
           "Anthropic's tool_use");
    a = ask("/v1/responses",
            "{\"input\":\"Hi\",\"max_output_tokens\":200,\"tools\":[{\"type\":\"function\",\"name\":\"clock\","
            "\"parameters\":{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}}],\"tool_choice\":"
            "\"required\"}",
            &status);
    const char *call = json_text(a, "output.0.call_id", &arena), *id = json_text(a, "id", &arena);
    tap_ok(json_string_is(json_path(a, "output.0.type"), "function_call") && *call,
           "the Responses API's function_call");
    a = ask("/v1/responses",
            arena_printf(&arena,
                         "{\"previous_response_id\":\"%s\",\"input\":[{\"type\":\"function_call_output\",\"call_id\":"
                         "\"%s\",\"output\":\"noon\"}],\"max_output_tokens\":5}",
                         id, call),
            &status);
    tap_ok(status == 200 && *json_text(a, "output.0.content.0.text", &arena), "whose output goes on");
    static const char history[] =
        "{\"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":"
        "null,\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"clock\",\"arguments\":\"{}"
        "\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"noon\"}]}";
    ask(CHAT, history, &status);
    tap_ok(status == 200, "calls and their results in the history");
}

int main(void) {
    if (!server_start(&server, NULL, (const char *const[]){"--log-disable", NULL})) return 1;
    test_forms();
    test_faults();
    test_calls();
    tap_ok(server_stop(&server, 10000) == 0, "the server ends well");
    arena_free(&arena);
    return tap_done();
}
