/* SPDX-License-Identifier: Apache-2.0 */
/* Running the server: keys, origins, prefixes, sockets, files of options, several models, logs, vectors. */
#include "tests/support/http_client.h"
#include "tests/support/tap.h"

#include "base/file.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct test_server server;
static struct arena arena;
static char folder[200];

#define TEXT    "/v1/completions"
#define BUNDLED SOURCE_DIR "/models/novels-24m-4bit"

static const struct json *ask(const char *method, const char *path, const char *body, int *status) {
    return http_ask_json(&server, method, path, body, status, &arena);
}

/* The status that a request with these header lines gets; *header the value of a header of the answer. */
static int ask_with(const char *method, const char *path, const char *headers, const char *name, char *value,
                    size_t room) {
    struct response r;
    int fd = client_connect(&server);
    client_request(fd, method, path, NULL, headers);
    client_receive(fd, &r, NULL, 5000);
    const char *found = name ? response_header(&r, name) : NULL;
    if (name) snprintf(value, room, "%s", found ? found : "");
    int status = r.status;
    response_free(&r);
    close(fd);
    return status;
}

static int status_with(const char *path, const char *headers) { return ask_with("GET", path, headers, NULL, NULL, 0); }

static char *write_file(const char *name, const char *text) {
    char *path = arena_printf(&arena, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
    return path;
}

static void test_keys(void) {
    char *file = write_file("keys", "# the file's\nfile-key\n\nother \n"), value[200];
    if (!server_start(&server, NULL,
                      (const char *const[]){"--log-disable", "--api-key", "one,two", "--api-key", "three",
                                            "--api-key-file", file, NULL}))
        return;
    tap_ok(status_with("/v1/models", "") == 401 &&
               status_with("/v1/models", "Authorization: Bearer nothing\r\n") == 401 &&
               status_with("/v1/models", "Authorization: Bearer on\r\n") == 401 &&
               status_with("/v1/models", "Authorization: Bearer onex\r\n") == 401,
           "no key, a wrong one, a part of one");
    tap_ok(status_with("/v1/models", "Authorization: Bearer one\r\n") == 200 &&
               status_with("/v1/models", "Authorization: bearer three\r\n") == 200 &&
               status_with("/v1/models", "X-Api-Key: two\r\n") == 200 &&
               status_with("/v1/models", "X-Api-Key: file-key\r\n") == 200 &&
               status_with("/v1/models", "X-Api-Key: other\r\n") == 200,
           "each key, from each source, in each header");
    tap_ok(status_with("/health", "") == 200 && status_with("/", "") == 200, "health and the page need none");
    tap_ok(status_with("/api/tags", "") == 401 && status_with("/slots", "") == 401 &&
               status_with("/nothing", "") == 401 && status_with("/metrics", "") == 401,
           "everything else does");
    ask_with("GET", "/v1/models", "", "WWW-Authenticate", value, sizeof value);
    tap_ok(!strcmp(value, "Bearer"), "a 401 says what is wanted");
    tap_ok(server_stop(&server, 5000) == 0, "the server ends well");
}

static void test_origins(void) {
    char value[200];
    if (!server_start(&server, NULL, (const char *const[]){"--log-disable", NULL})) return;
    ask_with("GET", "/v1/models", "Origin: http://evil.example\r\n", "Access-Control-Allow-Origin", value,
             sizeof value);
    tap_ok(!*value, "no page of another origin may read by default");
    tap_ok(ask_with("POST", "/tokenize", "Origin: http://evil.example\r\n", NULL, NULL, 0) == 403, "or send");
    tap_ok(ask_with("POST", "/tokenize", "Origin: http://test\r\n", NULL, NULL, 0) == 400, "the server's own page may");
    server_stop(&server, 5000);
    if (!server_start(&server, NULL,
                      (const char *const[]){"--log-disable", "--cors-origins", "https://a.example, localhost", NULL}))
        return;
    ask_with("GET", "/v1/models", "Origin: https://a.example\r\n", "Access-Control-Allow-Origin", value, sizeof value);
    tap_ok(!strcmp(value, "https://a.example"), "an origin that is named may");
    ask_with("GET", "/v1/models", "Origin: https://a.example.evil\r\n", "Access-Control-Allow-Origin", value,
             sizeof value);
    tap_ok(!*value, "one that begins the same may not");
    int status = ask_with("OPTIONS", "/v1/chat/completions",
                          "Origin: http://127.0.0.1:3000\r\nAccess-Control-Request-Method: POST\r\n",
                          "Access-Control-Allow-Headers", value, sizeof value);
    tap_ok(status == 204 && strstr(value, "Authorization"), "preflight, and localhost with any port");
    server_stop(&server, 5000);
}

static void test_paths(void) {
    struct response r;
    char *path = arena_printf(&arena, "%s/s.sock", folder);
    if (!server_start(&server, path, (const char *const[]){"--log-disable", "--api-prefix", "/llm", NULL})) return;
    tap_ok(status_with("/llm/v1/models", "") == 200 && status_with("/v1/models", "") == 404 &&
               status_with("/health", "") == 200 && status_with("/llm/health", "") == 200,
           "a prefix, on a Unix socket");
    http_ask(&server, "POST", "/llm" TEXT, "{\"prompt\":\"A\",\"max_tokens\":3}", &r);
    tap_ok(r.status == 200, "and an answer through it");
    response_free(&r);
    tap_ok(server_stop(&server, 5000) == 0 && !file_exists(path), "the socket goes with the server");
    /* A leftover socket does not keep a server from starting. */
    if (!server_start(&server, path, (const char *const[]){"--log-disable", NULL})) return;
    kill(server.pid, 9);
    server_wait(&server, 5000);
    tap_ok(file_exists(path) && server_start(&server, path, (const char *const[]){"--log-disable", NULL}),
           "a leftover socket is replaced");
    server_stop(&server, 5000);
}

static void test_option_file(void) {
    char *file = write_file("server.ini", "version = 1\n[*]\n; a comment\nalias = filed\nmetrics = true\nslots = "
                                          "false\nno-slots = on\nLLAMA_ARG_N_PARALLEL = 3\nctx-size = 512\n");
    int status;
    setenv("LLAMA_ARG_CTX_SIZE", "256", 1);
    if (!server_start(&server, NULL,
                      (const char *const[]){"--log-disable", "--config", file, "--alias", "given,also", NULL}))
        return;
    unsetenv("LLAMA_ARG_CTX_SIZE");
    const struct json *props = ask("GET", "/props", NULL, &status);
    tap_ok(json_integer(json_get(props, "total_slots"), 0) == 3, "the file sets what nothing else does");
    tap_ok(json_integer(json_path(props, "default_generation_settings.n_ctx"), 0) == 256,
           "the environment counts before the file");
    tap_ok(json_string_is(json_get(props, "model_alias"), "given"), "the command line counts before all");
    tap_ok(status_with("/metrics", "") == 200 && status_with("/slots", "") == 403, "flags in the file");
    ask("POST", TEXT, "{\"model\":\"also\",\"prompt\":\"A\",\"max_tokens\":1}", &status);
    int by_folder, unknown;
    ask("POST", TEXT, "{\"model\":\"novels-24m-4bit\",\"prompt\":\"A\",\"max_tokens\":1}", &by_folder);
    ask("POST", TEXT, "{\"model\":\"filed\",\"prompt\":\"A\",\"max_tokens\":1}", &unknown);
    tap_ok(status == 200 && by_folder == 200 && unknown == 404, "a model answers to its names only");
    server_stop(&server, 5000);
}

static void test_models(void) {
    int status, loaded, unloaded;
    char *models = arena_printf(&arena, "%s/models", folder);
    mkdir(models, 0700);
    for (int i = 0; i < 3; i++)
        tap_ok(symlink(BUNDLED, arena_printf(&arena, "%s/m%d", models, i)) == 0, "model folder %d", i);
    if (!server_start(&server, NULL,
                      (const char *const[]){"--log-disable", "--models-dir", models, "--models-max", "2", NULL}))
        return;
    const struct json *list = ask("GET", "/v1/models", NULL, &status);
    tap_ok(json_path(list, "data.2") && !json_path(list, "data.3") &&
               json_string_is(json_path(list, "data.1.status.value"), "unloaded"),
           "three models, none loaded");
    ask("POST", TEXT, "{\"model\":\"m1\",\"prompt\":\"A\",\"max_tokens\":1}", &status);
    ask("POST", "/models/load", "{\"model\":\"m0\"}", &loaded);
    ask("POST", TEXT, "{\"model\":\"m1\",\"prompt\":\"A\",\"max_tokens\":1}", &status);
    list = ask("GET", "/v1/models", NULL, &unloaded);
    tap_ok(status == 200 && loaded == 200 && json_string_is(json_path(list, "data.0.status.value"), "loaded") &&
               json_string_is(json_path(list, "data.1.status.value"), "loaded"),
           "loaded when asked for");
    ask("POST", TEXT, "{\"model\":\"m2\",\"prompt\":\"A\",\"max_tokens\":1}", &status);
    list = ask("GET", "/v1/models", NULL, &unloaded);
    tap_ok(status == 200 && json_string_is(json_path(list, "data.0.status.value"), "unloaded") &&
               json_string_is(json_path(list, "data.2.status.value"), "loaded"),
           "the one not used for longest makes room");
    ask("POST", "/models/unload", "{\"model\":\"m2\"}", &unloaded);
    int unknown;
    ask("POST", "/models/unload", "{\"model\":\"m9\"}", &unknown);
    list = ask("GET", "/v1/models", NULL, &status);
    tap_ok(unloaded == 200 && unknown == 404 && json_string_is(json_path(list, "data.2.status.value"), "unloaded"),
           "unloaded when asked for");
    tap_ok(server_stop(&server, 5000) == 0, "the server ends well");
}

static void test_log(void) {
    struct buffer log = {0};
    int status, n = 0;
    if (!server_start(&server, NULL, (const char *const[]){"--log-jsonl", "--api-key", "sk-secret", NULL})) return;
    struct response r;
    int fd = client_connect(&server);
    client_request(fd, "POST", TEXT, "{\"prompt\":\"Zanzibar xyzzy\",\"max_tokens\":4}",
                   "Authorization: Bearer sk-secret\r\nX-Request-Id: my-id.7\r\n");
    client_receive(fd, &r, NULL, 10000);
    const char *id = response_header(&r, "X-Request-Id");
    tap_ok(r.status == 200 && id && !strcmp(id, "my-id.7"), "a request keeps the id that it came with");
    response_free(&r);
    close(fd);
    ask_with("GET", "/health", "X-Request-Id: a b\r\n", NULL, NULL, 0);
    usleep(50000);
    server_log(&server, &log);
    const struct json *line = NULL;
    for (const char *at = log.data; at && *at; at = strchr(at, '\n'), at += at != NULL) {
        struct mx_error err;
        const struct json *v = *at == '{' ? json_parse(&arena, at, strcspn(at, "\n"), 0, 8, &err) : NULL;
        if (!json_string_is(json_get(v, "event"), "request")) continue;
        n++;
        if (json_string_is(json_get(v, "id"), "my-id.7")) line = v;
    }
    tap_ok(n == 2 && json_integer(json_get(line, "status"), 0) == 200 &&
               json_integer(json_get(line, "generated_tokens"), 0) == 4 && json_integer(json_get(line, "key"), 0) == 1,
           "one line for each request, as JSON");
    tap_ok(log.data && !strstr(log.data, "xyzzy") && !strstr(log.data, "sk-secret"),
           "which holds neither prompt nor key");
    buffer_free(&log);
    (void)status;
    server_stop(&server, 5000);
}

/* The weights' file is cut while the server runs. */
static void test_damage(void) {
    static const char *const names[] = {"config.json", "tokenizer.json", "tokenizer_config.json",
                                        "generation_config.json", "model.safetensors"};
    char *copy = arena_printf(&arena, "%s/copy", folder);
    int before, status, health = 0;
    mkdir(copy, 0700);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct mx_error err;
        size_t length;
        char *text = file_read(arena_printf(&arena, BUNDLED "/%s", names[i]), 256 << 20, &length, &err);
        if (text) file_write_atomic(arena_printf(&arena, "%s/%s", copy, names[i]), text, length, &err);
        free(text);
    }
    if (!server_start(&server, NULL, (const char *const[]){"--log-disable", "-m", copy, NULL})) return;
    ask("POST", TEXT, "{\"prompt\":\"A\",\"max_tokens\":1}", &before);
    tap_ok(before == 200 && truncate(arena_printf(&arena, "%s/model.safetensors", copy), 4096) == 0,
           "a copy of the model answers");
    const struct json *a = ask("POST", TEXT, "{\"prompt\":\"B\",\"max_tokens\":5}", &status);
    for (int i = 0; i < 100 && health != 503; i++) {
        health = status_with("/health", "");
        usleep(10000);
    }
    int again;
    ask("POST", TEXT, "{\"prompt\":\"C\",\"max_tokens\":5}", &again);
    tap_ok(status == 500 && strstr(json_text(a, "error.message", &arena), "model.safetensors") && again == 500,
           "cut short, it fails requests by name, and later ones too");
    tap_ok(health == 503, "and health is red");
    tap_ok(server_stop(&server, 5000) == 0, "the server ends well");
}

static double dot(const struct json *a, const struct json *b) {
    double sum = 0;
    for (uint32_t i = 0; a && b && i < a->count; i++)
        sum += json_number(&a->items[i], 0) * json_number(&b->items[i], 0);
    return sum;
}

static bool is_same(const struct json *a, const struct json *b) {
    bool same = a && b && a->count == b->count && a->count > 1;
    for (uint32_t i = 0; same && i < a->count; i++) same = json_number(&a->items[i], 0) == json_number(&b->items[i], 1);
    return same;
}

static void test_vectors(void) {
    int status, bad;
    if (!server_start(&server, NULL, (const char *const[]){"--log-disable", NULL})) return;
    const struct json *a = ask(
        "POST", "/v1/embeddings",
        "{\"input\":[\"The sea was calm.\",\"The ocean was quiet.\",\"He counted the money in his purse.\"]}", &status);
    const struct json *b = ask("POST", "/v1/embeddings", "{\"input\":\"The ocean was quiet.\"}", &bad);
    const struct json *one = json_path(a, "data.0.embedding"), *two = json_path(a, "data.1.embedding"),
                      *three = json_path(a, "data.2.embedding");
    tap_ok(status == 200 && one && one->count == 512 && fabs(dot(one, one) - 1) < 1e-5 &&
               json_integer(json_path(a, "usage.prompt_tokens"), 0) > 10,
           "vectors of length 1");
    tap_ok(is_same(two, json_path(b, "data.0.embedding")), "among others as alone, to the bit");
    tap_ok(dot(one, two) > dot(one, three), "what is alike is closer");
    const struct json *cut =
        ask("POST", "/v1/embeddings", "{\"input\":\"The ocean was quiet.\",\"dimensions\":8}", &status);
    const struct json *short_one = json_path(cut, "data.0.embedding");
    tap_ok(short_one && short_one->count == 8 && fabs(dot(short_one, short_one) - 1) < 1e-5, "fewer dimensions");
    const struct json *coded =
        ask("POST", "/v1/embeddings", "{\"input\":[1,2,3],\"encoding_format\":\"base64\"}", &status);
    tap_ok(strlen(json_text(coded, "data.0.embedding", &arena)) == (512 * 4 + 2) / 3 * 4, "base64, of token ids");
    const struct json *native = ask("POST", "/embedding", "{\"content\":\"The ocean was quiet.\"}", &status);
    const struct json *ollama =
        ask("POST", "/api/embed", "{\"model\":\"novels-24m-4bit\",\"input\":[\"The ocean was quiet.\"]}", &status);
    tap_ok(is_same(two, json_path(native, "0.embedding.0")) && is_same(two, json_path(ollama, "embeddings.0")),
           "the same in every dialect");
    ask("POST", "/v1/embeddings", "{\"input\":[]}", &bad);
    ask("POST", "/v1/embeddings", "{\"input\":\"x\",\"dimensions\":513}", &status);
    tap_ok(bad == 400 && status == 400, "what makes no sense is refused");
    struct buffer longer = {0};
    buffer_puts(&longer, "{\"input\":\"");
    for (int i = 0; i < 150; i++) buffer_puts(&longer, "and the sea ");
    buffer_puts(&longer, "\"}");
    const struct json *first = ask("POST", "/v1/embeddings", longer.data, &status),
                      *again = ask("POST", "/v1/embeddings", longer.data, &status);
    tap_ok(is_same(json_path(first, "data.0.embedding"), json_path(again, "data.0.embedding")),
           "over several steps, twice the same");
    buffer_free(&longer);
    tap_ok(server_stop(&server, 5000) == 0, "the server ends well");
}

static void test_wrong_starts(void) {
    static const char *const wrong[][3] = {{"--port", "70000"},
                                           {"--ssl-cert-file", "/nothing"},
                                           {"--api-key-file", "/nothing"},
                                           {"--config", "/nothing"},
                                           {"--alias", ","},
                                           {"--chat-template-kwargs", "["},
                                           {"--models-dir", "/nothing"},
                                           {"--api-key", ""},
                                           {"--api-key", ","},
                                           {"--api-prefix", "llm"},
                                           {"--api-prefix", "/"},
                                           {"--slot-save-path", "/nothing"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct test_server s;
        const char *arguments[] = {"--log-disable", wrong[i][0], wrong[i][1], NULL};
        bool started = server_start(&s, NULL, arguments);
        tap_ok(!started, "does not start: %s %s", wrong[i][0], wrong[i][1]);
        if (started)
            server_stop(&s, 5000);
        else
            unlink(s.log_path);
    }
}

int main(void) {
    if (!folder_make_temporary(folder, sizeof folder)) return 1;
    test_keys();
    test_origins();
    test_paths();
    test_option_file();
    test_models();
    test_log();
    test_damage();
    test_vectors();
    test_wrong_starts();
    folder_remove(folder);
    arena_free(&arena);
    return tap_done();
}
