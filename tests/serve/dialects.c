/* SPDX-License-Identifier: Apache-2.0 */
/* Anthropic's, ollama's and the Responses API: the same text in every shape. */
#include "tests/support/http_client.h"
#include "tests/support/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct test_server server;
static struct arena arena;
static char *expected; /* what chat completions say */

#define QUESTION "Tell me about the sea."

static const struct json *ask(const char *method, const char *path, const char *body, int *status) {
    return http_ask_json(&server, method, path, body, status, &arena);
}

/* Fields of other dialects, which all of them take, are read as what they are: these strings spell the beginning of an array
 * in memory that lies nowhere. */
static void test_wrong_types(void) {
    static const struct {
        const char *path, *body;
    } requests[] = {
        {"/v1/messages", "{\"max_tokens\":4,\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"%s\":\"%s\"}"},
        {"/v1/responses", "{\"input\":\"Hi\",\"max_output_tokens\":4,\"%s\":\"%s\"}"},
        {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"%s\":\"%s\"}"},
        {"/api/generate", "{\"model\":\"novels-24m-4bit\",\"prompt\":\"Hi\",\"options\":{\"%s\":\"%s\"}}"},
    };
    static const char *const fields[] = {"logit_bias", "stop_token_ids", "dry_sequence_breakers"};
    int n_refused = 0, status;
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < 3; k++) {
            const char *text = "\\u0006\\u0000\\u0000\\u0000\\u0001\\u0000\\u0000\\u0000AAAAAAAA";
            const struct json *a =
                ask("POST", requests[i].path, arena_printf(&arena, requests[i].body, fields[k], text), &status);
            const char *message = json_text(a, "error.message", &arena);
            if (!*message) message = json_text(a, "error", &arena);
            if (status == 400 && strstr(message, "not a string"))
                n_refused++;
            else
                tap_note("%s %s: %d %s", requests[i].path, fields[k], status, message);
        }
    tap_ok(n_refused == 12, "fields of a wrong type are refused in every dialect");
}

/* ---- Anthropic ---- */

struct order {
    char text[4000];
};

static void note_event(void *context, const char *event, const struct json *data) {
    struct order *o = context;
    size_t n = strlen(o->text);
    bool same = json_string_is(json_get(data, "type"), event);
    const char *last = strrchr(o->text, ' ');
    if (n && last && !strncmp(last + 1, event, strlen(event))) return; /* repeated deltas */
    snprintf(o->text + n, sizeof o->text - n, " %s%s", same ? "" : "!", event);
}

static void test_messages(void) {
    int status;
    struct response r;
    struct order order = {""};
    struct buffer joined = {0};
    const struct json *a = ask("POST", "/v1/messages",
                               "{\"max_tokens\":24,\"temperature\":0,\"messages\":[{\"role\":\"user\",\"content\":[{"
                               "\"type\":\"text\",\"text\":\"" QUESTION "\"}]}]}",
                               &status);
    tap_ok(status == 200 && !strcmp(json_text(a, "content.0.text", &arena), expected) &&
               json_string_is(json_get(a, "stop_reason"), "max_tokens") &&
               json_integer(json_path(a, "usage.output_tokens"), 0) == 24,
           "messages: the text, the reason, the usage");
    http_ask(
        &server, "POST", "/v1/messages",
        "{\"stream\":true,\"max_tokens\":24,\"temperature\":0,\"messages\":[{\"role\":\"user\",\"content\":\"" QUESTION
        "\"}]}",
        &r);
    sse_visit(&r, &arena, note_event, &order);
    sse_join(&r, "delta.text", &joined);
    tap_ok(
        !strcmp(order.text,
                " message_start content_block_start content_block_delta content_block_stop message_delta message_stop"),
        "messages: the order of events");
    if (!r.is_complete) tap_note("%s", order.text);
    tap_ok(!strcmp(joined.data, expected) && !strstr(r.body.data, "[DONE]"), "messages: the pieces are the text");
    response_free(&r);
    buffer_free(&joined);
    const struct json *n = ask("POST", "/v1/messages/count_tokens",
                               "{\"messages\":[{\"role\":\"user\",\"content\":\"" QUESTION "\"}]}", &status);
    tap_ok(json_integer(json_get(n, "input_tokens"), -1) ==
               json_integer(json_path(a, "usage.input_tokens"), -2) +
                   json_integer(json_path(a, "usage.cache_read_input_tokens"), 0),
           "messages: count_tokens");
    const struct json *e = ask("POST", "/v1/messages",
                               "{\"max_tokens\":5,\"messages\":[{\"role\":\"wizard\",\"content\":\"x\"}]}", &status);
    tap_ok(status == 400 && json_string_is(json_get(e, "type"), "error") &&
               json_string_is(json_path(e, "error.type"), "invalid_request_error"),
           "messages: the shape of errors");
    ask("POST", "/v1/messages",
        "{\"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"source\":{}}]}]}",
        &status);
    tap_ok(status == 400, "messages: images are refused");
    const struct json *stop = ask("POST", "/v1/messages",
                                  "{\"max_tokens\":24,\"temperature\":0,\"stop_sequences\":[\",\"],\"messages\":[{"
                                  "\"role\":\"user\",\"content\":\"" QUESTION "\"}]}",
                                  &status);
    bool has_comma = strchr(expected, ',') != NULL;
    tap_ok(json_string_is(json_get(stop, "stop_reason"), has_comma ? "stop_sequence" : "max_tokens") &&
               (!has_comma || json_string_is(json_get(stop, "stop_sequence"), ",")),
           "messages: stop_sequence");
}

/* The prompt that a request makes, by way of the count of its tokens and the chat API's. */
static int64_t count(const char *path, const char *body) {
    int status;
    const struct json *answer = ask("POST", path, body, &status);
    return json_integer(json_get(answer, "input_tokens"), -status);
}

static void test_translation(void) {
    static const char chat[] =
        "{\"messages\":[{\"role\":\"system\",\"content\":\"Be "
        "brief.\\n\\nStay.\"},{\"role\":\"user\",\"content\":\"One\\n\\nNow two\"},"
        "{\"role\":\"assistant\",\"content\":\"Yes\"},{\"role\":\"user\",\"content\":\"Three\"}]}";
    static const char messages[] =
        "{\"system\":[{\"type\":\"text\",\"text\":\"x-anthropic-billing-header: "
        "cch=1\"},{\"type\":\"text\",\"text\":\"Be brief.\"}],"
        "\"messages\":[{\"role\":\"system\",\"content\":\"Stay.\"},{\"role\":\"user\",\"content\":\"One\"},{\"role\":"
        "\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Now two\"}]},"
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"Yes\"}]},{\"role\":\"user\",\"content\":"
        "\"Three\"}]}";
    static const char later[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"One\"},{\"role\":\"assistant\",\"content\":\"Yes\"},{\"role\":"
        "\"system\",\"content\":\"Mind.\"},{\"role\":\"user\",\"content\":\"Two\"}]}";
    static const char merged[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"One\"},{\"role\":\"assistant\","
                                 "\"content\":\"Yes\"},{\"role\":\"user\",\"content\":\"Mind.\\n\\nTwo\"}]}";
    int64_t n = count("/v1/chat/completions/input_tokens", chat);
    tap_ok(n > 20 && n == count("/v1/messages/count_tokens", messages),
           "messages: system blocks, volatile ones dropped, neighbours of one role joined");
    n = count("/v1/chat/completions/input_tokens", merged);
    tap_ok(n > 10 && n == count("/v1/messages/count_tokens", later),
           "messages: a system turn in between goes in front of the next user turn");
    static const char responses[] = "{\"instructions\":\"Be "
                                    "brief.\\n\\nStay.\",\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_"
                                    "text\",\"text\":\"One\\n\\nNow two\"}]},"
                                    "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_"
                                    "text\",\"text\":\"Yes\"}]},{\"role\":\"user\",\"content\":\"Three\"}]}";
    n = count("/v1/chat/completions/input_tokens", chat);
    tap_ok(n == count("/v1/responses/input_tokens", responses), "responses: instructions and items");
}

/* ---- ollama ---- */

/* Joins one member of each line of NDJSON; the number of lines. */
static int join_lines(const struct response *r, const char *path, struct buffer *out) {
    int n = 0;
    for (const char *line = r->body.data; line && *line; n++) {
        size_t length = strcspn(line, "\n");
        struct mx_error err;
        const struct json *v = json_path(json_parse(&arena, line, length, 0, 16, &err), path);
        if (json_is_string(v)) buffer_append(out, v->string, v->count);
        line += length + (line[length] == '\n');
    }
    buffer_append(out, "", 0);
    return n;
}

static void test_ollama(void) {
    int status;
    struct response r;
    struct buffer joined = {0};
    http_ask(&server, "POST", "/api/chat",
             "{\"model\":\"novels-24m-4bit:latest\",\"messages\":[{\"role\":\"user\",\"content\":\"" QUESTION
             "\"}],\"options\":{\"num_predict\":24,\"temperature\":0,\"num_ctx\":4096}}",
             &r);
    int n = join_lines(&r, "message.content", &joined);
    tap_ok(r.status == 200 && n > 5 && !strcmp(joined.data, expected) &&
               strstr(r.body.data, "\"done_reason\":\"length\""),
           "ollama: chat streams lines by default");
    const char *ignored = response_header(&r, "X-Ignored-Fields");
    tap_ok(ignored && !strcmp(ignored, "num_ctx"), "ollama: options without effect are named");
    response_free(&r);
    buffer_clear(&joined);
    const struct json *g = ask("POST", "/api/generate",
                               "{\"model\":\"novels-24m-4bit\",\"prompt\":\"" QUESTION
                               "\",\"stream\":false,\"options\":{\"num_predict\":24,\"temperature\":0}}",
                               &status);
    tap_ok(!strcmp(json_text(g, "response", &arena), expected) && json_integer(json_get(g, "eval_count"), 0) == 24 &&
               json_bool(json_get(g, "done"), false),
           "ollama: generate");
    const struct json *load = ask("POST", "/api/generate", "{\"model\":\"novels-24m-4bit\"}", &status);
    tap_ok(json_string_is(json_get(load, "done_reason"), "load"), "ollama: a request without a prompt loads");
    const struct json *e = ask("POST", "/api/chat", "{\"model\":\"nothing\",\"messages\":[]}", &status);
    tap_ok(status == 404 && json_is_string(json_get(e, "error")), "ollama: an unknown model");
    ask("POST", "/api/chat",
        "{\"model\":\"novels-24m-4bit\",\"messages\":[{\"role\":\"user\",\"content\":\"x\",\"images\":[\"aaaa\"]}]}",
        &status);
    tap_ok(status == 400, "ollama: images are refused");
    const struct json *tags = ask("GET", "/api/tags", NULL, &status),
                      *version = ask("GET", "/api/version", NULL, &status);
    const struct json *show = ask("POST", "/api/show", "{\"model\":\"novels-24m-4bit\"}", &status);
    tap_ok(json_string_is(json_path(tags, "models.0.name"), "novels-24m-4bit") &&
               json_is_string(json_get(version, "version")) &&
               json_integer(json_get(json_get(show, "model_info"), "llama.context_length"), 0) == 1024,
           "ollama: tags, version, show");
    ask("POST", "/api/pull", "{\"model\":\"x\"}", &status);
    tap_ok(status == 501, "ollama: pull is not there");
    buffer_free(&joined);
}

/* ---- responses ---- */

static void check_sequence(void *context, const char *event, const struct json *data) {
    int64_t *next = context;
    if (json_integer(json_get(data, "sequence_number"), -1) != *next || !json_string_is(json_get(data, "type"), event))
        *next = -1000;
    ++*next;
}

static void test_responses(void) {
    int status;
    struct response r;
    struct buffer joined = {0};
    int64_t next = 0;
    const struct json *a = ask("POST", "/v1/responses",
                               "{\"input\":\"" QUESTION "\",\"temperature\":0,\"max_output_tokens\":24}", &status);
    char *id = arena_printf(&arena, "%s", json_text(a, "id", &arena));
    tap_ok(status == 200 && !strcmp(json_text(a, "output.0.content.0.text", &arena), expected) &&
               json_string_is(json_get(a, "status"), "incomplete"),
           "responses: the text");
    http_ask(&server, "POST", "/v1/responses",
             arena_printf(
                 &arena,
                 "{\"input\":\"Go "
                 "on.\",\"temperature\":0,\"max_output_tokens\":24,\"stream\":true,\"previous_response_id\":\"%s\"}",
                 id),
             &r);
    sse_join(&r, "delta", &joined);
    sse_visit(&r, &arena, check_sequence, &next);
    const struct json *direct = ask("POST", "/v1/chat/completions",
                                    arena_printf(&arena,
                                                 "{\"messages\":[{\"role\":\"user\",\"content\":\"" QUESTION
                                                 "\"},{\"role\":\"assistant\",\"content\":\"%s\"},{\"role\":\"user\","
                                                 "\"content\":\"Go on.\"}],\"temperature\":0,\"max_tokens\":24}",
                                                 expected),
                                    &status);
    tap_ok(joined.length > 10 && !strcmp(joined.data, json_text(direct, "choices.0.message.content", &arena)),
           "responses: the earlier turn is part of the next one");
    tap_ok(next > 10, "responses: events are numbered and named");
    response_free(&r);
    buffer_free(&joined);
    const struct json *kept = ask("GET", arena_printf(&arena, "/v1/responses/%s", id), NULL, &status);
    tap_ok(status == 200 && json_string_is(json_get(kept, "id"), id), "responses: kept");
    const struct json *items = ask("GET", arena_printf(&arena, "/v1/responses/%s/input_items", id), NULL, &status);
    tap_ok(json_string_is(json_path(items, "data.0.role"), "user"), "responses: input_items");
    ask("DELETE", arena_printf(&arena, "/v1/responses/%s", id), NULL, &status);
    int gone, unknown, refused;
    ask("GET", arena_printf(&arena, "/v1/responses/%s", id), NULL, &gone);
    ask("POST", "/v1/responses", arena_printf(&arena, "{\"input\":\"x\",\"previous_response_id\":\"%s\"}", id),
        &unknown);
    tap_ok(status == 200 && gone == 404 && unknown == 404, "responses: deleted");
    const struct json *loose =
        ask("POST", "/v1/responses", "{\"input\":\"x\",\"store\":false,\"max_output_tokens\":1}", &status);
    ask("GET", arena_printf(&arena, "/v1/responses/%s", json_text(loose, "id", &arena)), NULL, &gone);
    tap_ok(status == 200 && gone == 404, "responses: not kept when not wanted");
    ask("POST", "/v1/responses", "{\"input\":\"x\",\"background\":true}", &refused);
    ask("POST", "/v1/responses", "{\"input\":\"x\",\"tools\":[{\"type\":\"web_search\"}]}", &status);
    tap_ok(refused == 400 && status == 400, "responses: what cannot be done is refused");
}

/* Kept in a file, they outlive the server. */
static void test_store_file(void) {
    struct test_server first, second;
    struct response r;
    char path[64];
    snprintf(path, sizeof path, "/tmp/mlxcel-test-store-%d.db", (int)getpid());
    const char *arguments[] = {"--log-disable", "--responses-store", path, NULL};
    if (!server_start(&first, NULL, arguments)) return;
    http_ask(&first, "POST", "/v1/responses", "{\"input\":\"x\",\"max_output_tokens\":2}", &r);
    char *id = arena_printf(&arena, "%s", json_text(response_json(&r, &arena), "id", &arena));
    response_free(&r);
    server_stop(&first, 5000);
    if (!server_start(&second, NULL, arguments)) return;
    http_ask(&second, "GET", arena_printf(&arena, "/v1/responses/%s", id), NULL, &r);
    tap_ok(r.status == 200 && *id, "responses: a file outlives the server");
    response_free(&r);
    server_stop(&second, 5000);
    unlink(path);
}

int main(void) {
    int status;
    if (!server_start(&server, NULL, (const char *const[]){"--log-disable", NULL})) return 1;
    const struct json *chat =
        ask("POST", "/v1/chat/completions",
            "{\"messages\":[{\"role\":\"user\",\"content\":\"" QUESTION "\"}],\"temperature\":0,\"max_tokens\":24}",
            &status);
    expected = arena_printf(&arena, "%s", json_text(chat, "choices.0.message.content", &arena));
    tap_ok(*expected, "there is a text to compare with");
    test_wrong_types();
    test_messages();
    test_translation();
    test_ollama();
    test_responses();
    tap_ok(server_stop(&server, 10000) == 0, "the server ends well");
    test_store_file();
    arena_free(&arena);
    return tap_done();
}
