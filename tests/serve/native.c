/* SPDX-License-Identifier: Apache-2.0 */
/* llama-server's routes: completion, tokens, templates, state. */
#include "tests/support/http_client.h"
#include "tests/support/process.h"
#include "tests/support/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct test_server server;
static struct arena arena;

static const struct json *ask(const char *method, const char *path, const char *body, int *status) {
    return http_ask_json(&server, method, path, body, status, &arena);
}

static void test_completion(void) {
    int status;
    struct process p;
    const char *argv[] = {program_path("mlxcel"), "generate",           "-n", "24", "-p",
                          "The old house",        "--no-chat-template", NULL};
    process_run(&p, argv, 60000);
    const struct json *a =
        ask("POST", "/completion",
            "{\"prompt\":\"The old house\",\"temperature\":0,\"n_predict\":24,\"return_tokens\":true}", &status);
    const char *text = json_text(a, "content", &arena);
    tap_ok(status == 200 && p.out.length == strlen(text) + 1 && !memcmp(text, p.out.data, p.out.length - 1),
           "completion says what the command says");
    tap_ok(json_bool(json_get(a, "stop"), false) && json_string_is(json_get(a, "stop_type"), "limit") &&
               json_integer(json_get(a, "tokens_predicted"), 0) == 24 && json_get(a, "tokens")->count == 24 &&
               json_string_is(json_get(a, "prompt"), "The old house") &&
               json_number(json_path(a, "timings.predicted_n"), 0) == 24,
           "with llama-server's members");
    process_free(&p);
    const struct json *b = ask("POST", "/completion",
                               "{\"prompt\":\"The old "
                               "house\",\"temperature\":0,\"n_predict\":24,\"response_fields\":[\"content\",\"timings/"
                               "cache_n\",\"nothing\",\"content\"]}",
                               &status);
    tap_ok(b && b->count == 2 && !strcmp(json_text(b, "content", &arena), text) &&
               json_is_number(json_get(b, "timings/cache_n")),
           "response_fields project");
    struct response r;
    struct buffer joined = {0};
    http_ask(&server, "POST", "/completion",
             "{\"prompt\":\"The old house\",\"temperature\":0,\"n_predict\":24,\"stream\":true}", &r);
    sse_join(&r, "content", &joined);
    tap_ok(!strcmp(joined.data, text) && strstr(r.body.data, "\"stop\":true") && !strstr(r.body.data, "[DONE]"),
           "a stream ends with stop, not with [DONE]");
    response_free(&r);
    buffer_free(&joined);
    const struct json *list = ask("POST", "/completion",
                                  "{\"prompt\":[\"The old house\",[1,2]],\"temperature\":0,\"n_predict\":24}", &status);
    tap_ok(json_is_array(list) && list->count == 2 && !strcmp(json_text(list, "0.content", &arena), text),
           "several prompts, an array");
    const struct json *w =
        ask("POST", "/completion",
            "{\"prompt\":\"The old house\",\"temperature\":0,\"n_predict\":24,\"stop\":[\" the\"]}", &status);
    tap_ok(json_string_is(json_get(w, "stop_type"), "word") == (strstr(text, " the") != NULL), "stop_type word");
    const struct json *n =
        ask("POST", "/completion", "{\"prompt\":\"A\",\"n_probs\":3,\"n_predict\":2,\"temperature\":0}", &status);
    tap_ok(json_path(n, "completion_probabilities.1.top_logprobs.2") != NULL, "n_probs");
    ask("POST", "/completion", "{\"prompt\":\"A\",\"t_max_predict_ms\":5}", &status);
    tap_ok(status == 400, "what cannot be done is refused");
    const struct json *t = ask("POST", "/completion", "{\"n_predict\":-2,\"prompt\":\"A\"}", &status);
    tap_ok(status == 400 && json_integer(json_path(t, "error.code"), 0) == 400, "errors have a numeric code");
    const struct json *f = ask("POST", "/infill", "{\"input_prefix\":\"a\",\"input_suffix\":\"b\"}", &status);
    tap_ok(status == 400 && strstr(json_text(f, "error.message", &arena), "gap"), "infill names what the model lacks");
}

static void test_tokens(void) {
    int status;
    const struct json *a = ask("POST", "/tokenize", "{\"content\":\"Once upon a time <|im_end|>\"}", &status);
    const struct json *ids = json_get(a, "tokens");
    tap_ok(ids && ids->count > 3 && json_integer(&ids->items[ids->count - 1], 0) == 2, "tokenize knows special tokens");
    struct buffer body = {0};
    struct json_writer w = {.out = &body};
    json_begin_object(&w);
    json_write_key(&w, "tokens");
    json_write_value(&w, ids);
    json_end_object(&w);
    const struct json *b = ask("POST", "/detokenize", body.data, &status);
    tap_ok(json_string_is(json_get(b, "content"), "Once upon a time <|im_end|>"), "detokenize goes back");
    buffer_free(&body);
    const struct json *plain =
        ask("POST", "/tokenize", "{\"content\":\"<|im_end|>\",\"parse_special\":false}", &status);
    tap_ok(json_get(plain, "tokens") && json_get(plain, "tokens")->count > 1, "parse_special false");
    const struct json *pieces =
        ask("POST", "/tokenize", "{\"content\":[\"a\xf0\x9f\xa6\x86\",7],\"with_pieces\":true}", &status);
    bool has_bytes = false;
    for (uint32_t i = 0; pieces && json_get(pieces, "tokens") && i < json_get(pieces, "tokens")->count; i++)
        has_bytes |= json_is_array(json_path(&json_get(pieces, "tokens")->items[i], "piece"));
    tap_ok(has_bytes &&
               json_integer(json_path(json_at(json_get(pieces, "tokens"), json_get(pieces, "tokens")->count - 1), "id"),
                            0) == 7,
           "with_pieces");
    const struct json *t =
        ask("POST", "/apply-template", "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}", &status);
    const char *prompt = json_text(t, "prompt", &arena);
    size_t n = strlen(prompt);
    tap_ok(strstr(prompt, "<|im_start|>user\nHi<|im_end|>") && n > 12 && !strcmp(prompt + n - 10, "assistant\n"),
           "apply-template");
    const struct json *c = ask("POST", "/v1/chat/completions/input_tokens",
                               "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}", &status);
    const struct json *d = ask("POST", "/v1/chat/completions",
                               "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":1}", &status);
    tap_ok(json_integer(json_get(c, "input_tokens"), -1) == json_integer(json_path(d, "usage.prompt_tokens"), -2),
           "input_tokens counts as generation does");
    const char *turn =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":\"Ho\"}],"
        "\"max_tokens\":1,\"%s\":%s}";
    static const char *const fields[][2] = {
        {"add_generation_prompt", "true"}, {"continue_final_message", "false"}, {"continue_final_message", "true"}};
    for (size_t i = 0; i < 3; i++) {
        const char *text = arena_printf(&arena, turn, fields[i][0], fields[i][1]);
        c = ask("POST", "/v1/chat/completions/input_tokens", text, &status);
        d = ask("POST", "/v1/chat/completions", text, &status);
        tap_ok(json_integer(json_get(c, "input_tokens"), -1) == json_integer(json_path(d, "usage.prompt_tokens"), -2),
               "also with %s %s", fields[i][0], fields[i][1]);
    }
}

static void test_prefix_cache(void) {
    int status;
    struct buffer body = {0};
    buffer_puts(&body, "{\"prompt\":\"");
    for (int i = 0; i < 60; i++) buffer_printf(&body, "The %d. ship went out to sea. ", i);
    buffer_puts(&body, "\",\"temperature\":0,\"max_tokens\":20}");
    const struct json *cold = ask("POST", "/v1/completions", body.data, &status),
                      *warm = ask("POST", "/v1/completions", body.data, &status);
    int64_t n = json_integer(json_path(warm, "usage.prompt_tokens"), 0);
    tap_ok(json_integer(json_path(cold, "usage.prompt_tokens_details.cached_tokens"), -1) == 0 &&
               json_integer(json_path(warm, "usage.prompt_tokens_details.cached_tokens"), -1) >= n - 64,
           "the second time the prompt is in the cache");
    tap_ok(*json_text(cold, "choices.0.text", &arena) &&
               !strcmp(json_text(cold, "choices.0.text", &arena), json_text(warm, "choices.0.text", &arena)),
           "and the answer is the same");
    buffer_free(&body);
}

/* What the header of an answer to these token ids says; the timings must say the same. The holder of key "one" asks. */
static void check_cache_header(const char *name, const uint32_t *ids, size_t n, const char *wanted) {
    struct response r;
    struct buffer body = {0};
    unsigned n_cached = 0;
    sscanf(wanted, "hit %u", &n_cached);
    buffer_puts(&body, "{\"n_predict\":1,\"prompt\":[");
    for (size_t i = 0; i < n; i++) buffer_printf(&body, "%s%u", i ? "," : "", ids[i]);
    buffer_puts(&body, "]}");
    int fd = client_connect(&server);
    client_request(fd, "POST", "/completion", body.data, "Authorization: Bearer one\r\n");
    client_receive(fd, &r, NULL, 30000);
    close(fd);
    const char *header = response_header(&r, "x-mlxcel-cache");
    const struct json *timings = json_get(response_json(&r, &arena), "timings");
    if (!tap_ok(header && !strcmp(header, wanted) && json_string_is(json_get(timings, "cache"), wanted) &&
                    json_integer(json_get(timings, "cache_n"), -1) == n_cached,
                "%s", name))
        tap_note("%s, expected %s", header ? header : "no header", wanted);
    response_free(&r);
    buffer_free(&body);
}

/* Token ids like those of no text of other cases; the last 8 of 200 are no full page. */
static void fill_ids(uint32_t ids[200]) {
    for (uint32_t i = 0; i < 200; i++) ids[i] = 2000 + i;
}

static void test_cache_header(void) {
    uint32_t ids[200];
    fill_ids(ids);
    check_cache_header("an answer names why the cache was missed", ids, 60,
                       "miss: shorter than a page of 64 tokens and one more");
    check_cache_header("also where it was asked before", ids, 60,
                       "miss: shorter than a page of 64 tokens and one more");
    struct response r;
    http_ask(&server, "GET", "/props", NULL, &r);
    tap_ok(r.status == 200 && !response_header(&r, "x-mlxcel-cache"), "other answers have no such header");
    response_free(&r);
    check_cache_header("a prompt like no other one", ids, 200, "miss: differs after 0 tokens");
    check_cache_header("a hit is told with its length", ids, 200, "hit 192 of 200");
    check_cache_header("all but the last token of a shorter prompt", ids, 50, "hit 49 of 50");
    ids[100] = 7;
    check_cache_header("and where it ended", ids, 200, "hit 100 of 200; differs after 100 tokens");
}

/* Clients of several keys do not learn from each other's prompts token by token; the holder of the only key may. */
static void test_cache_and_keys(void) {
    struct test_server first = server;
    uint32_t ids[200];
    if (!server_start(&server, NULL, (const char *const[]){"--log-disable", "--api-key", "one", NULL})) return;
    fill_ids(ids);
    check_cache_header("one key: nothing is there", ids, 200, "miss: nothing is kept");
    ids[100] = 7;
    check_cache_header("one key: hits end within a page", ids, 200, "hit 100 of 200; differs after 100 tokens");
    server_stop(&server, 5000);
    if (!server_start(&server, NULL, (const char *const[]){"--log-disable", "--api-key", "one,two", NULL})) return;
    fill_ids(ids);
    check_cache_header("two keys: nothing is there", ids, 200, "miss: nothing is kept");
    ids[100] = 7;
    check_cache_header("two keys: hits are whole pages", ids, 200, "hit 64 of 200; differs within 128 tokens");
    check_cache_header("two keys: also of a short prompt", ids, 60,
                       "miss: shorter than a page of 64 tokens and one more");
    server_stop(&server, 5000);
    server = first;
}

/* A budget that holds fewer tokens than the model's context: what is said of the context is what can be held. */
static void test_small_budget(void) {
    struct test_server first = server;
    int status;
    if (!server_start(&server, NULL, (const char *const[]){"--log-disable", "--kv-cache-budget", "1", NULL})) return;
    const struct json *props = ask("GET", "/props", NULL, &status);
    int64_t context = json_integer(json_path(props, "default_generation_settings.n_ctx"), 0);
    struct buffer body = {0};
    buffer_puts(&body, "{\"n_predict\":1,\"prompt\":[7");
    for (int64_t i = 1; i < context; i++) buffer_printf(&body, ",%d", (int)(i % 100) + 100);
    buffer_puts(&body, "]}");
    const struct json *long_one = ask("POST", "/completion", body.data, &status);
    tap_ok(status == 400 && context > 0 && context < 1024 &&
               json_integer(json_path(long_one, "error.n_ctx"), 0) == context &&
               json_integer(json_path(long_one, "error.n_prompt_tokens"), 0) == context,
           "a small budget: a prompt that it cannot hold is a 400 with both numbers (%d)", (int)context);
    char *last = strrchr(body.data, ',');
    memcpy(last, "]}", 3);
    const struct json *longest = ask("POST", "/completion", body.data, &status);
    tap_ok(status == 200 && json_integer(json_get(longest, "tokens_evaluated"), 0) == context - 1,
           "and one token less is answered");
    buffer_free(&body);
    server_stop(&server, 5000);
    server = first;
}

static void test_state(void) {
    int status;
    const struct json *props = ask("GET", "/props", NULL, &status);
    tap_ok(json_integer(json_path(props, "default_generation_settings.n_ctx"), 0) == 1024 &&
               *json_text(props, "chat_template", &arena),
           "props");
    ask("POST", "/props", "{}", &status);
    tap_ok(status == 403, "POST /props is off");
    const struct json *slots = ask("GET", "/slots", NULL, &status);
    tap_ok(json_is_array(slots) && slots->count == 16 && json_string_is(json_path(slots, "3.state"), "idle"), "slots");
    const struct json *lora = ask("GET", "/lora-adapters", NULL, &status);
    tap_ok(json_is_array(lora) && !lora->count, "no adapters");
    ask("POST", "/lora-adapters", "[{\"id\":0,\"scale\":1}]", &status);
    tap_ok(status == 400, "and none can be set");
    struct response r;
    http_ask(&server, "GET", "/metrics", NULL, &r);
    tap_ok(r.status == 200 && strstr(r.body.data, "\nllamacpp:tokens_predicted_total ") &&
               strstr(r.body.data, "mlxcel_time_to_first_token_seconds_bucket{le=\"+Inf\"}"),
           "metrics");
    response_free(&r);
}

static void test_saved_slots(void) {
    struct test_server first = server;
    int status, refused;
    char folder[200];
    if (!folder_make_temporary(folder, sizeof folder)) return;
    ask("POST", "/slots/0?action=save", "{\"filename\":\"a\"}", &status);
    tap_ok(status == 501, "slots are not saved without a folder");
    if (!server_start(&server, NULL, (const char *const[]){"--log-disable", "--slot-save-path", folder, NULL})) return;
    struct buffer text = {0};
    for (int i = 0; i < 40; i++) buffer_printf(&text, "The %d. ship went out to sea. ", i);
    char *body =
        arena_printf(&arena, "{\"prompt\":\"%s\",\"temperature\":0,\"n_predict\":20,\"id_slot\":3}", text.data);
    const struct json *a = ask("POST", "/completion", body, &status);
    char *answer = arena_printf(&arena, "%s", json_text(a, "content", &arena));
    const struct json *saved = ask("POST", "/slots/3?action=save", "{\"filename\":\"talk\"}", &status);
    tap_ok(status == 200 &&
               json_integer(json_get(saved, "n_saved"), 0) == json_integer(json_get(a, "tokens_evaluated"), 0) + 20,
           "a slot is saved");
    ask("POST", "/slots/3?action=save", "{\"filename\":\"../talk\"}", &refused);
    ask("POST", "/slots/99?action=save", "{\"filename\":\"talk\"}", &status);
    tap_ok(refused == 400 && status == 400, "not elsewhere, and only slots that exist");
    server_stop(&server, 5000);
    if (!server_start(&server, NULL, (const char *const[]){"--log-disable", "--slot-save-path", folder, NULL})) return;
    const struct json *back = ask("POST", "/slots/1?action=restore", "{\"filename\":\"talk\"}", &status);
    tap_ok(status == 200 &&
               json_integer(json_get(back, "n_restored"), 0) == json_integer(json_get(saved, "n_saved"), -1),
           "and restored by another server");
    const struct json *b = ask("POST", "/completion", body, &status);
    int64_t cached = json_integer(json_path(b, "timings.cache_n"), 0);
    tap_ok(cached > json_integer(json_get(b, "tokens_evaluated"), 0) - 65 && cached &&
               !strcmp(json_text(b, "content", &arena), answer),
           "whose cache then has the conversation");
    ask("POST", "/slots/0?action=restore", "{\"filename\":\"nothing\"}", &status);
    const struct json *erased = ask("POST", "/slots/1?action=erase", "{}", &refused);
    tap_ok(status == 404 && refused == 200 && json_integer(json_get(erased, "n_erased"), 0) > 0,
           "nothing to restore; erased");
    server_stop(&server, 5000);
    buffer_free(&text);
    folder_remove(folder);
    server = first;
}

int main(void) {
    if (!server_start(&server, NULL, (const char *const[]){"--log-disable", "--metrics", NULL})) return 1;
    test_completion();
    test_tokens();
    test_prefix_cache();
    test_cache_header();
    test_cache_and_keys();
    test_small_budget();
    test_state();
    test_saved_slots();
    tap_ok(server_stop(&server, 10000) == 0, "the server ends well");
    arena_free(&arena);
    return tap_done();
}
