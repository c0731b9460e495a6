/* SPDX-License-Identifier: Apache-2.0 */
/* Faults that users of other servers have reported, tried on this one. docs/server.md says which test stands for which
 * report; those that other tests cover already are not repeated here. */
#include "tests/support/http_client.h"
#include "tests/support/tap.h"

#include "base/clock.h"
#include "base/file.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct test_server server;
static struct arena arena;

#define BUNDLED SOURCE_DIR "/models/novels-24m-4bit"
#define CHAT    "/v1/chat/completions"
#define HI      "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"
/* Characters of two to four bytes, which the bundled model's tokens cut anywhere. */
#define GLYPHS "\xf0\x9f\xa6\x86 \xe6\x97\xa5\xe6\x9c\xac \xc3\xa9 \xf0\x9f\x8f\xb4\xe2\x80\x8d\xe2\x98\xa0"

static const struct json *ask(const char *path, const char *body, int *status) {
    return http_ask_json(&server, "POST", path, body, status, &arena);
}

static char *stream(const char *path, const char *body, const char *member) {
    struct response r;
    struct buffer out = {0};
    http_ask(&server, "POST", path, body, &r);
    sse_join(&r, member, &out);
    char *copy = arena_copy(&arena, out.data ? out.data : "", out.length);
    buffer_free(&out);
    response_free(&r);
    return copy;
}

static int64_t number(const struct json *value, const char *path) { return json_integer(json_path(value, path), -1); }

/* A text of n words that begins with this number. */
static char *long_text(int first, int n) {
    static const char *const words[] = {"sea", "king", "road", "lamp", "snow", "door", "hand"};
    struct buffer out = {0};
    buffer_printf(&out, "%d", first);
    for (int i = 0; i < n; i++) buffer_printf(&out, " %s", words[(i * i + first) % 7]);
    char *text = arena_copy(&arena, out.data, out.length);
    buffer_free(&out);
    return text;
}

/* ---- characters ---- */

static void test_characters(void) {
    int status, n_equal = 0, n_cut = 0;
    const struct json *t = ask("/tokenize", "{\"content\":\"" GLYPHS "\"}", &status);
    const struct json *tokens = json_get(t, "tokens");
    tap_ok(tokens && tokens->count > 12, "the text has more tokens than characters");
    char *texts[3] = {
        stream(CHAT, "{" HI ",\"stream\":true,\"guided_choice\":[\"" GLYPHS "\"]}", "choices.0.delta.content"),
        stream("/v1/completions", "{\"prompt\":\"x\",\"stream\":true,\"guided_choice\":[\"" GLYPHS "\"]}",
               "choices.0.text"),
        stream("/completion", "{\"prompt\":\"x\",\"stream\":true,\"grammar\":\"root ::= \\\"" GLYPHS "\\\"\"}",
               "content")};
    for (int i = 0; i < 3; i++)
        tap_ok(!strcmp(texts[i], GLYPHS), "no_piece_of_a_stream_cuts_a_character (route %d)", i);
    /* Answers that end inside of a character. */
    for (int n = 1; n <= 12; n++) {
        const char *body = "{" HI ",\"guided_choice\":[\"" GLYPHS "\"],\"max_tokens\":%d,\"stream\":%s}";
        const struct json *a = ask(CHAT, arena_printf(&arena, body, n, "false"), &status);
        const char *whole = json_text(a, "choices.0.message.content", &arena);
        char *joined = stream(CHAT, arena_printf(&arena, body, n, "true"), "choices.0.delta.content");
        n_equal += !strcmp(whole, joined);
        n_cut += strncmp(whole, GLYPHS, strlen(whole)) != 0;
    }
    tap_ok(n_equal == 12, "an_answer_cut_inside_a_character_is_the_same_in_both_modes");
    tap_note("%d of 12 ended inside of one", n_cut);
}

/* ---- forms ---- */

static void test_forms(void) {
    int status;
    const struct json *a =
        ask(CHAT,
            "{" HI ",\"temperature\":0,\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\","
            "\"schema\":{\"type\":\"string\",\"pattern\":\"^hello there indeed\\\\!$\"}}}}",
            &status);
    tap_ok(status == 400 || !strcmp(json_text(a, "choices.0.message.content", &arena), "\"hello there indeed!\""),
           "a_pattern_is_kept_or_refused_never_dropped");
    ask(CHAT,
        "{" HI ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\",\"schema\":{\"type\":"
        "\"string\","
        "\"pattern\":\"^(a\"}}}}",
        &status);
    tap_ok(status == 400, "a_pattern_that_is_broken_is_refused");
    a = ask("/completion", "{\"prompt\":\"x\",\"grammar\":\"Root ::= [^\\n]+ \\\"\\n#\\\"\"}", &status);
    const char *message = json_text(a, "error.message", &arena);
    tap_ok(status == 400 && strstr(message, "root") && server_is_healthy(&server),
           "a_broken_grammar_is_refused_and_harms_nobody");
    a = ask("/completion", "{\"prompt\":\"x\",\"grammar\":\"root ::= \\\"a\\\" (\\n\"}", &status);
    tap_ok(status == 400 && strpbrk(json_text(a, "error.message", &arena), "123456789"),
           "a_broken_grammar_is_refused_with_the_place");
    tap_note("%s; %s", message, json_text(a, "error.message", &arena));
}

#define NESTED                                                                                                         \
    "{\\\"name\\\": \\\"look\\\", \\\"arguments\\\": {\\\"a\\\": {\\\"name\\\": \\\"look\\\", \\\"arguments\\\": "     \
    "[{}, "                                                                                                            \
    "\\\"}\\\"]}, \\\"name\\\": \\\"z\\\"}}"

static void test_nested_call(void) {
    int status;
    const char *body =
        "{" HI ",\"temperature\":0,\"stream\":%s,\"guided_choice\":[\"" NESTED "\"],\"tools\":[{\"type\":"
        "\"function\",\"function\":{\"name\":\"look\",\"parameters\":{\"type\":\"object\"}}}]}";
    const struct json *a = ask(CHAT, arena_printf(&arena, body, "false"), &status);
    const char *whole = json_text(a, "choices.0.message.tool_calls.0.function.arguments", &arena);
    char *joined = stream(CHAT, arena_printf(&arena, body, "true"), "choices.0.delta.tool_calls.0.function.arguments");
    struct mx_error err;
    const struct json *arguments = json_parse(&arena, joined, strlen(joined), 0, 16, &err);
    tap_ok(*whole && !strcmp(whole, joined) && json_string_is(json_get(arguments, "name"), "z") &&
               json_string_is(json_path(arguments, "a.name"), "look"),
           "a_streamed_call_takes_nothing_back (nested name)");
    tap_note("'%s' and '%s'", whole, joined);
}

/* ---- the context ---- */

static void test_full_context(void) {
    int status;
    const struct json *a =
        ask("/completion", "{\"prompt\":\"The sea\",\"ignore_eos\":true,\"n_predict\":-1,\"n_keep\":1000}", &status);
    tap_ok(status == 200 && json_string_is(json_get(a, "stop_type"), "limit") &&
               number(a, "tokens_evaluated") + number(a, "tokens_predicted") == 1024,
           "a_full_context_ends_the_answer");
    char *text = long_text(1, 5000);
    const char *bodies[][2] = {
        {CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]}"},
        {"/v1/messages", "{\"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]}"},
        {"/api/chat",
         "{\"model\":\"novels-24m-4bit\",\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}],\"stream\":false}"},
        {"/v1/responses", "{\"input\":\"%s\"}"},
        {"/completion", "{\"prompt\":\"%s\"}"}};
    for (size_t i = 0; i < 5; i++) {
        char *body = arena_printf(&arena, bodies[i][1], text);
        struct response r;
        http_ask(&server, "POST", bodies[i][0], body, &r);
        const char *limit = r.body.data ? strstr(r.body.data, "1024") : NULL;
        const char *length = r.body.data ? strstr(r.body.data, "50") : NULL; /* 5000 and some tokens */
        if (!tap_ok(r.status == 400 && limit && length, "a_prompt_that_does_not_fit_is_refused_with_both_numbers (%s)",
                    bodies[i][0]))
            tap_note("%d %.200s", r.status, r.body.data ? r.body.data : "");
        response_free(&r);
    }
}

/* ---- log-probabilities ---- */

static void test_logprobs(void) {
    static const char *const settings[] = {"\"temperature\":0", "\"temperature\":0.5",
                                           "\"temperature\":1.5,\"top_p\":0.3", "\"temperature\":1,\"top_k\":1",
                                           "\"temperature\":1,\"min_p\":0.9"};
    int status;
    double first[3] = {0};
    bool same = true;
    for (int i = 0; i < 5; i++) {
        char *body =
            arena_printf(&arena, "{" HI ",\"max_tokens\":1,\"logprobs\":true,\"top_logprobs\":3,%s}", settings[i]);
        const struct json *a = ask(CHAT, body, &status);
        for (int k = 0; k < 3; k++) {
            char *path = arena_printf(&arena, "choices.0.logprobs.content.0.top_logprobs.%d.logprob", k);
            double value = json_number(json_path(a, path), 1);
            if (!i) first[k] = value;
            same = same && value <= 0 && value == first[k];
        }
    }
    tap_ok(same && first[0] > first[1], "logprobs_do_not_depend_on_the_sampling");
}

/* ---- the first token ---- */

/* The bundled model with a tokenizer that puts <|im_start|> before every text. */
static bool make_model_with_bos(char *folder, size_t room) {
    static const char *const names[] = {"config.json", "generation_config.json", "model.safetensors",
                                        "model.safetensors.index.json", "tokenizer_config.json"};
    static const char
        from[] = "\"post_processor\": null",
        to[] = "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": "
               "{\"id\": \"<|im_start|>\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], "
               "\"pair\": [], \"special_tokens\": {\"<|im_start|>\": {\"id\": \"<|im_start|>\", \"ids\": [1], "
               "\"tokens\": [\"<|im_start|>\"]}}}";
    struct mx_error err;
    size_t length;
    if (!folder_make_temporary(folder, room)) return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (symlink(arena_printf(&arena, BUNDLED "/%s", names[i]), arena_printf(&arena, "%s/%s", folder, names[i])) !=
            0)
            return false;
    char *text = file_read(BUNDLED "/tokenizer.json", 64 << 20, &length, &err);
    char *at = text ? strstr(text, from) : NULL;
    FILE *file = at ? fopen(arena_printf(&arena, "%s/tokenizer.json", folder), "w") : NULL;
    bool ok = file && fwrite(text, 1, (size_t)(at - text), file) && fputs(to, file) >= 0 &&
              fputs(at + sizeof from - 1, file) >= 0;
    if (file) fclose(file);
    free(text);
    return ok;
}

static void test_first_token(void) {
    struct test_server usual = server;
    char folder[200];
    int status;
    if (!tap_ok(make_model_with_bos(folder, sizeof folder), "a model whose tokenizer adds a first token")) return;
    if (!server_start(&server, NULL,
                      (const char *const[]){"--log-disable", "-m", folder, "--chat-template",
                                            "<|im_start|>{% for m in messages %}{{ m.content }}{% endfor %}", NULL}))
        return;
    const struct json *plain = ask("/v1/completions", "{\"prompt\":\"Hi\",\"max_tokens\":1}", &status);
    const struct json *chat = ask(CHAT, "{" HI ",\"max_tokens\":1}", &status);
    const struct json *bare = ask("/tokenize", "{\"content\":\"Hi\"}", &status), *tokens = json_get(bare, "tokens");
    int64_t n = number(plain, "usage.prompt_tokens");
    tap_ok(tokens && n == (int64_t)tokens->count + 1 && number(chat, "usage.prompt_tokens") == n,
           "a_template_that_writes_the_first_token_gets_no_second");
    tap_note("%lld and %lld tokens", (long long)n, (long long)number(chat, "usage.prompt_tokens"));
    server_stop(&server, 10000);
    folder_remove(folder);
    server = usual;
}

/* ---- the prefix cache ---- */

static void test_changing_header(void) {
    int status;
    const char *body =
        "{\"max_tokens\":2,\"system\":[{\"type\":\"text\",\"text\":\"x-anthropic-billing-header: cch=%d;\"},"
        "{\"type\":\"text\",\"text\":\"%s\"}],\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}";
    char *text = long_text(77, 300);
    ask("/v1/messages", arena_printf(&arena, body, 1, text), &status);
    const struct json *b = ask("/v1/messages", arena_printf(&arena, body, 23456, text), &status);
    tap_ok(status == 200 && number(b, "usage.cache_read_input_tokens") > 250,
           "a_header_block_that_changes_does_not_miss_the_cache");
    const struct json *turn =
        ask(CHAT,
            arena_printf(
                &arena,
                "{\"max_tokens\":2,\"messages\":[{\"role\":\"system\",\"content\":\"%s\"},{\"role\":\"user\","
                "\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":\"Yes.\"},{\"role\":\"user\",\"content\":\"Go "
                "on\"}]}",
                text),
            &status);
    tap_ok(number(turn, "usage.prompt_tokens_details.cached_tokens") > 250, "a_later_turn_reads_the_new_part_only");
}

static double pages_after(const char *limit, int n_prompts) {
    struct test_server usual = server;
    int status, n_answered = 0;
    if (!server_start(&server, NULL, (const char *const[]){"--log-disable", "--metrics", "--cache-ram", limit, NULL}))
        return -1;
    for (int i = 0; i < n_prompts; i++) {
        ask("/v1/completions",
            arena_printf(&arena, "{\"prompt\":\"%s\",\"max_tokens\":1}", long_text(1000 + 37 * i, 800)), &status);
        n_answered += status == 200;
    }
    double pages = n_answered == n_prompts ? server_metric(&server, "mlxcel_cache_pages") : -1;
    server_stop(&server, 10000);
    server = usual;
    return pages;
}

static void test_cache_limit(void) {
    double all = pages_after("-1", 5), some = pages_after("6", 5), none = pages_after("1", 2);
    tap_ok(all > 0 && some > 0 && some <= all / 2, "the_prefix_cache_keeps_to_its_limit (%g of %g pages)", some, all);
    tap_ok(none >= 0 && none < some, "a_prompt_larger_than_the_cache_is_answered_and_not_kept (%g pages)", none);
}

/* ---- a stuck server ---- */

static void test_abort_while_others_are_read(void) {
    enum { N = 6 };
    struct test_server usual = server;
    struct response r;
    int fds[N], n_right = 0;
    if (!server_start(&server, NULL,
                      (const char *const[]){"--log-disable", "--no-prompt-cache", "--drain-timeout", "1", NULL}))
        return;
    int gone = client_connect(&server);
    client_request(gone, "POST", CHAT, "{" HI ",\"stream\":true,\"ignore_eos\":true}", "");
    poll(NULL, 0, 30);
    for (int i = 0; i < N; i++) {
        fds[i] = client_connect(&server);
        client_request(
            fds[i], "POST", "/v1/completions",
            arena_printf(&arena, "{\"prompt\":\"%s\",\"max_tokens\":2,\"temperature\":0}", long_text(i, 850)), "");
    }
    poll(NULL, 0, 5);
    close(gone);
    for (int i = 0; i < N; i++) {
        client_receive(fds[i], &r, NULL, 120000);
        n_right += r.status == 200 && number(response_json(&r, &arena), "usage.completion_tokens") > 0;
        response_free(&r);
        close(fds[i]);
    }
    tap_ok(n_right == N && server_is_healthy(&server), "an_aborted_stream_does_not_stop_prompts_that_are_read");
    for (int i = 0; i < N; i++) {
        fds[i] = client_connect(&server);
        client_request(fds[i], "POST", CHAT, "{" HI ",\"stream\":true,\"ignore_eos\":true,\"n\":4}", "");
    }
    poll(NULL, 0, 100);
    close(fds[0]);
    uint64_t start = clock_now_ns();
    int ended = server_stop(&server, 30000);
    double took = clock_seconds_since(start);
    tap_ok(ended == 0 && took < 15, "the_signal_to_end_ends_a_busy_server (%.1f s)", took);
    for (int i = 1; i < N; i++) close(fds[i]);
    server = usual;
}

/* Processor time in clock ticks of the server's threads, but for the one that had most: it computes. */
static long ticks_of_the_others(void) {
    long all = 0, most = 0;
    DIR *tasks = opendir(arena_printf(&arena, "/proc/%d/task", (int)server.pid));
    for (struct dirent *entry; tasks && (entry = readdir(tasks)) != NULL;) {
        char line[600] = "";
        long user = 0, system = 0;
        if (*entry->d_name == '.') continue;
        FILE *file = fopen(arena_printf(&arena, "/proc/%d/task/%s/stat", (int)server.pid, entry->d_name), "r");
        const char *end = file && fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
        if (end) sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &user, &system);
        if (file) fclose(file);
        all += user + system;
        if (user + system > most) most = user + system;
    }
    if (tasks) closedir(tasks);
    return all - most;
}

static void test_waiting_streams(void) {
    enum { N = 64 };
    struct test_server usual = server;
    int fds[N + 1];
    if (!server_start(&server, NULL,
                      (const char *const[]){"--log-disable", "--parallel", "1", "--sse-ping-interval", "0.5", NULL}))
        return;
    for (int i = 0; i <= N; i++) {
        fds[i] = client_connect(&server);
        client_request(fds[i], "POST", CHAT, "{" HI ",\"stream\":true,\"ignore_eos\":true}", "");
    }
    poll(NULL, 0, 500);
    long before = ticks_of_the_others();
    poll(NULL, 0, 2000);
    double share = (double)(ticks_of_the_others() - before) / (double)sysconf(_SC_CLK_TCK) / 2;
    tap_ok(share < 0.05, "streams_that_wait_cost_next_to_nothing (%d: %.1f %% of a core)", N, share * 100);
    for (int i = 0; i <= N; i++) close(fds[i]);
    server_stop(&server, 10000);
    server = usual;
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    if (!server_start(&server, NULL, (const char *const[]){"--log-disable", "--metrics", NULL})) return 1;
    test_characters();
    test_forms();
    test_nested_call();
    test_full_context();
    test_logprobs();
    test_changing_header();
    test_first_token();
    test_cache_limit();
    test_abort_while_others_are_read();
    test_waiting_streams();
    tap_ok(server_stop(&server, 10000) == 0, "the server ends well");
    arena_free(&arena);
    return tap_done();
}
