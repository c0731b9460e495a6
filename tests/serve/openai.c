/* SPDX-License-Identifier: Apache-2.0 */
/* Chat and text completions of the real server on the bundled model: what `mlxcel generate` says, streamed and not, and
 * what is refused. */
#include "tests/support/http_client.h"
#include "tests/support/process.h"
#include "tests/support/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct test_server server;
static struct arena arena;

#define CHAT     "/v1/chat/completions"
#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"Tell me about the sea.\"}]"

static const struct json *ask(const char *path, const char *body, int *status) {
    return http_ask_json(&server, "POST", path, body, status, &arena);
}

/* What the command says, without its last line break. */
static char *generate(const char *prompt, bool chat) {
    struct process p;
    const char *argv[] = {
        program_path("mlxcel"), "generate", "-n", "24", "-p", prompt, chat ? NULL : "--no-chat-template", NULL};
    char *text = NULL;
    if (process_run(&p, argv, 60000) && p.status == 0 && p.out.length)
        text = arena_copy(&arena, p.out.data, p.out.length - 1);
    process_free(&p);
    return text ? text : arena_copy(&arena, "?", 1);
}

static void test_same_as_command(void) {
    int status;
    char *chat = generate("Tell me about the sea.", true), *text = generate("The old house", false);
    const struct json *a = ask(CHAT, "{" MESSAGES ",\"temperature\":0,\"max_tokens\":24}", &status);
    tap_ok(status == 200 && !strcmp(json_text(a, "choices.0.message.content", &arena), chat),
           "chat says what the command says");
    tap_ok(json_integer(json_path(a, "usage.completion_tokens"), 0) == 24 &&
               json_integer(json_path(a, "usage.total_tokens"), 0) ==
                   json_integer(json_path(a, "usage.prompt_tokens"), 0) + 24,
           "usage counts the tokens");
    tap_ok(json_string_is(json_path(a, "choices.0.finish_reason"), "length") &&
               json_string_is(json_get(a, "object"), "chat.completion"),
           "the answer has its kind and its reason");
    a = ask("/v1/completions", "{\"prompt\":\"The old house\",\"temperature\":0,\"max_tokens\":24}", &status);
    tap_ok(status == 200 && !strcmp(json_text(a, "choices.0.text", &arena), text),
           "completions say what the command says");
    a = ask("/v1/completions",
            "{\"prompt\":[\"The old house\",\"x\"],\"temperature\":0,\"max_tokens\":24,\"echo\":true,\"n\":2}",
            &status);
    char *echoed = arena_printf(&arena, "The old house%s", text);
    tap_ok(json_path(a, "choices.3.text") && !json_path(a, "choices.4") &&
               !strcmp(json_text(a, "choices.1.text", &arena), echoed),
           "several prompts, several answers, echoed");
}

static void count_event(void *context, const char *event, const struct json *data) {
    int *counts = context;
    (void)event;
    if (!data)
        counts[0]++;
    else if (json_path(data, "usage.total_tokens"))
        counts[1] += json_path(data, "choices")->count == 0 ? 1 : 100;
    else if (json_is_string(json_path(data, "choices.0.finish_reason")))
        counts[2]++;
}

static void test_streams(void) {
    struct response r;
    struct buffer joined = {0};
    int status, counts[3] = {0};
    const struct json *whole = ask(CHAT, "{" MESSAGES ",\"seed\":7,\"max_tokens\":60}", &status);
    http_ask(&server, "POST", CHAT,
             "{" MESSAGES ",\"seed\":7,\"max_tokens\":60,\"stream\":true,\"stream_options\":{\"include_usage\":true}}",
             &r);
    sse_join(&r, "choices.0.delta.content", &joined);
    tap_ok(r.status == 200 && !strcmp(joined.data, json_text(whole, "choices.0.message.content", &arena)),
           "joined pieces equal the whole answer for the same seed");
    sse_visit(&r, &arena, count_event, counts);
    tap_ok(counts[0] == 1 && counts[1] == 1 && counts[2] == 1, "one finish, one usage with no choices, one [DONE]");
    const char *type = response_header(&r, "Content-Type");
    tap_ok(type && !strcmp(type, "text/event-stream"), "a stream is an event stream");
    response_free(&r);
    buffer_clear(&joined);
    http_ask(&server, "POST", CHAT, "{" MESSAGES ",\"seed\":7,\"max_tokens\":60,\"stream\":true}", &r);
    tap_ok(r.is_complete && !strstr(r.body.data, "usage"), "no usage unless asked for");
    response_free(&r);
    buffer_free(&joined);
}

static void test_stops(void) {
    int status;
    const struct json *a =
        ask("/v1/completions", "{\"prompt\":\"The old house\",\"temperature\":0,\"max_tokens\":24}", &status);
    const char *text = json_text(a, "choices.0.text", &arena), *word = text + strlen(text) / 2;
    char *stop = arena_copy(&arena, word, 5);
    struct buffer body = {0}, joined = {0};
    struct response r;
    buffer_puts(&body,
                "{\"prompt\":\"The old house\",\"temperature\":0,\"max_tokens\":24,\"stream\":true,\"stop\":[\"\",");
    json_append_quoted(&body, stop, strlen(stop));
    buffer_puts(&body, "]}");
    http_ask(&server, "POST", "/v1/completions", body.data, &r);
    sse_join(&r, "choices.0.text", &joined);
    size_t kept = (size_t)(strstr(text, stop) - text);
    tap_ok(joined.length == kept && !memcmp(joined.data, text, kept),
           "a stop string across tokens is cut, also in a stream");
    tap_ok(strstr(r.body.data, "\"finish_reason\":\"stop\"") != NULL, "and ends the answer");
    response_free(&r);
    buffer_free(&body);
    buffer_free(&joined);
}

static void test_logprobs(void) {
    int status;
    const struct json *cold =
        ask(CHAT, "{" MESSAGES ",\"temperature\":0,\"max_tokens\":3,\"logprobs\":true,\"top_logprobs\":3}", &status);
    const struct json *warm = ask(
        CHAT, "{" MESSAGES ",\"temperature\":1.5,\"top_k\":1,\"max_tokens\":3,\"logprobs\":true,\"top_logprobs\":3}",
        &status);
    const struct json *list = json_path(cold, "choices.0.logprobs.content");
    tap_ok(list && list->count == 3 && json_path(list, "0.top_logprobs.2") && !json_path(list, "0.top_logprobs.3"),
           "log-probabilities of each token, with alternatives");
    tap_ok(json_number(json_path(list, "2.logprob"), 1) ==
                   json_number(json_path(warm, "choices.0.logprobs.content.2.logprob"), 2) &&
               json_number(json_path(list, "2.logprob"), 1) < 0,
           "log-probabilities do not depend on the temperature");
    const struct json *old =
        ask("/v1/completions", "{\"prompt\":\"The\",\"temperature\":0,\"max_tokens\":3,\"logprobs\":2}", &status);
    tap_ok(json_path(old, "choices.0.logprobs.tokens.2") &&
               json_integer(json_path(old, "choices.0.logprobs.text_offset.0"), -1) == 0 &&
               json_is_number(json_path(old, "choices.0.logprobs.token_logprobs.1")),
           "the old form of log-probabilities is filled");
}

static void test_choices(void) {
    int status;
    const struct json *a = ask(CHAT, "{" MESSAGES ",\"n\":3,\"seed\":5,\"temperature\":1,\"max_tokens\":20}", &status);
    const struct json *b = ask(CHAT, "{" MESSAGES ",\"seed\":5,\"temperature\":1,\"max_tokens\":20}", &status);
    const char *first = json_text(a, "choices.0.message.content", &arena);
    tap_ok(json_path(a, "choices.2") && strcmp(first, json_text(a, "choices.1.message.content", &arena)) != 0,
           "n gives different answers");
    tap_ok(!strcmp(first, json_text(b, "choices.0.message.content", &arena)),
           "the first of n equals a single one of the same seed");
    const struct json *c = ask(
        CHAT, "{" MESSAGES ",\"logit_bias\":{\"300\":1000000},\"temperature\":0,\"max_tokens\":2,\"logprobs\":true}",
        &status);
    const struct json *p0 = json_path(c, "choices.0.logprobs.content.0.token"),
                      *p1 = json_path(c, "choices.0.logprobs.content.1.token");
    tap_ok(p0 && p1 && p0->count == p1->count && !memcmp(p0->string, p1->string, p0->count), "logit_bias acts");
}

static void test_refusals(void) {
    static const struct {
        const char *name, *path, *body, *param, *word;
        int status;
    } cases[] = {
        {"no JSON", CHAT, "{\"messages\":", NULL, "JSON", 400},
        {"no object", CHAT, "[1]", NULL, "object", 400},
        {"two values", CHAT, "{} {}", NULL, "JSON", 400},
        {"no messages", CHAT, "{}", "messages", "messages", 400},
        {"messages of a wrong type", CHAT, "{\"messages\":\"x\"}", "messages", "array", 400},
        {"an empty list", CHAT, "{\"messages\":[]}", "messages", "", 400},
        {"blank messages", CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"  \\n\"}]}", "messages", "", 400},
        {"an unknown role", CHAT, "{\"messages\":[{\"role\":\"wizard\",\"content\":\"x\"}]}", "messages", "wizard",
         400},
        {"an image", CHAT,
         "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":\"x\"}}]}]}",
         "messages", "image_url", 400},
        {"temperature as text", CHAT, "{" MESSAGES ",\"temperature\":\"hot\"}", "temperature", "string", 400},
        {"temperature out of range", CHAT, "{" MESSAGES ",\"temperature\":-1}", "temperature", "at least", 400},
        {"top_p out of range", CHAT, "{" MESSAGES ",\"top_p\":1.5}", "top_p", "", 400},
        {"max_tokens 0", CHAT, "{" MESSAGES ",\"max_tokens\":0}", "max_tokens", "", 400},
        {"max_tokens with a fraction", CHAT, "{" MESSAGES ",\"max_tokens\":1.5}", "max_tokens", "integer", 400},
        {"a huge number", CHAT, "{" MESSAGES ",\"max_tokens\":1e400}", NULL, "", 400},
        {"stream as text", CHAT, "{" MESSAGES ",\"stream\":\"yes\"}", "stream", "boolean", 400},
        {"top_logprobs alone", CHAT, "{" MESSAGES ",\"top_logprobs\":2}", "top_logprobs", "logprobs", 400},
        {"an unknown model", CHAT, "{" MESSAGES ",\"model\":\"gpt-9\"}", "model", "gpt-9", 404},
        {"audio out", CHAT, "{" MESSAGES ",\"audio\":{\"voice\":\"x\"}}", "audio", "audio", 400},
        {"modalities", CHAT, "{" MESSAGES ",\"modalities\":[\"text\",\"audio\"]}", "modalities", "", 400},
        {"a lone surrogate", CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"\\ud800\"}]}", NULL, "", 400},
        {"invalid UTF-8", CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}", NULL, "", 400},
        {"a token id out of range", "/v1/completions", "{\"prompt\":[1,99999999]}", "prompt", "", 400},
        {"suffix", "/v1/completions", "{\"prompt\":\"x\",\"suffix\":\"y\"}", "suffix", "suffix", 400},
        {"best_of", "/v1/completions", "{\"prompt\":\"x\",\"best_of\":3}", "best_of", "best_of", 400},
        {"no prompt", "/v1/completions", "{}", "prompt", "prompt", 400},
        {"an empty prompt", "/v1/completions", "{\"prompt\":\"\"}", "prompt", "empty", 400},
        {"a bad bias", CHAT, "{" MESSAGES ",\"logit_bias\":{\"x\":1}}", "logit_bias", "x", 400},
        {"too many answers", CHAT, "{" MESSAGES ",\"n\":1000}", "n", "128", 400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int status;
        const struct json *a = ask(cases[i].path, cases[i].body, &status);
        const char *param = json_text(a, "error.param", &arena), *message = json_text(a, "error.message", &arena);
        bool ok = status == cases[i].status && *message && strstr(message, cases[i].word) &&
                  (!cases[i].param || !strcmp(param, cases[i].param)) && json_is_string(json_path(a, "error.type"));
        if (!tap_ok(ok, "refused: %s", cases[i].name)) tap_note("%d %s: %s", status, param, message);
    }
}

static void test_depth(void) {
    struct buffer deep = {0};
    int status;
    buffer_puts(&deep, "{\"x\":");
    for (int i = 0; i < 100000; i++) buffer_putc(&deep, '[');
    ask(CHAT, deep.data, &status);
    tap_ok(status == 400, "deep nesting is a 400");
    buffer_free(&deep);
}

static void test_honesty(void) {
    struct response r;
    int status;
    http_ask(&server, "POST", CHAT,
             "{" MESSAGES
             ",\"max_tokens\":2,\"user\":\"me\",\"frobnicate\":1,\"temperature\":null,\"audio\":null,\"top_k\":null}",
             &r);
    const char *ignored = response_header(&r, "X-Ignored-Fields");
    tap_ok(r.status == 200 && ignored && !strcmp(ignored, "user, frobnicate"),
           "what has no effect is named in a header; null is absent");
    response_free(&r);
    struct buffer body = {0};
    buffer_puts(&body, "{\"prompt\":\"");
    for (int i = 0; i < 1500; i++) buffer_puts(&body, "sea and ");
    buffer_puts(&body, "\"}");
    const struct json *a = ask("/v1/completions", body.data, &status);
    const char *message = json_text(a, "error.message", &arena);
    tap_ok(status == 400 && json_string_is(json_path(a, "error.code"), "context_length_exceeded") &&
               strstr(message, "1024") && json_integer(json_path(a, "error.n_ctx"), 0) == 1024 &&
               json_integer(json_path(a, "error.n_prompt_tokens"), 0) >= 3000,
           "an over-long prompt is a 400 with both numbers");
    buffer_free(&body);
}

static void test_info(void) {
    struct response r;
    http_ask(&server, "GET", "/health", NULL, &r);
    tap_ok(r.status == 200 && !strcmp(r.body.data, "{\"status\":\"ok\"}"), "health");
    response_free(&r);
    http_ask(&server, "GET", "/v1/models", NULL, &r);
    const struct json *models = response_json(&r, &arena);
    tap_ok(json_string_is(json_path(models, "data.0.id"), "novels-24m-4bit") &&
               json_string_is(json_get(models, "object"), "list"),
           "models");
    response_free(&r);
    http_ask(&server, "GET", "/v1/models/novels-24m-4bit", NULL, &r);
    tap_ok(r.status == 200, "one model");
    response_free(&r);
    http_ask(&server, "GET", "/v1/models/nothing", NULL, &r);
    tap_ok(r.status == 404, "a model that is not there");
    response_free(&r);
    http_ask(&server, "GET", "/nothing", NULL, &r);
    tap_ok(r.status == 404 && response_header(&r, "X-Request-Id"), "a path that is not there");
    response_free(&r);
    http_ask(&server, "GET", CHAT, NULL, &r);
    tap_ok(r.status == 405 && response_header(&r, "Allow"), "a method that is not there");
    response_free(&r);
    http_ask(&server, "GET", "/", NULL, &r);
    tap_ok(r.status == 200 && strstr(r.body.data, "<title>") && response_header(&r, "Content-Security-Policy"),
           "the page");
    response_free(&r);
}

int main(void) {
    if (!server_start(&server, NULL, (const char *const[]){"--log-disable", NULL})) return 1;
    test_info();
    test_same_as_command();
    test_streams();
    test_stops();
    test_logprobs();
    test_choices();
    test_refusals();
    test_depth();
    test_honesty();
    tap_ok(server_stop(&server, 10000) == 0, "the server ends well");
    arena_free(&arena);
    return tap_done();
}
