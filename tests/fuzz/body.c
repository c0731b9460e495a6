/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the body of every route. The first byte chooses the route, the rest is the body. Each request is answered,
 * whatever it holds; an answer that is an error has a message. Runs the server's handlers on the bundled model, in this
 * process and without sockets. */
#include "serve/server_parts.h"

#include "base/clock.h"
#include "base/json.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const paths[] = {"/v1/chat/completions",
                                    "/v1/completions",
                                    "/v1/messages",
                                    "/v1/messages/count_tokens",
                                    "/v1/responses",
                                    "/completion",
                                    "/infill",
                                    "/tokenize",
                                    "/detokenize",
                                    "/apply-template",
                                    "/api/chat",
                                    "/api/generate",
                                    "/api/show",
                                    "/v1/embeddings",
                                    "/lora-adapters",
                                    "/models/unload",
                                    "/slots/0?action=restore"};

static void expect(bool claim) {
    if (!claim) abort();
}

static struct server *open_server(void) {
    static struct server_options options;
    struct server *s = calloc(1, sizeof *s);
    struct mx_error err = {0};
    server_options_init(&options);
    options.model_path = SOURCE_DIR "/models/novels-24m-4bit";
    options.context = 128;
    options.n_parallel = 2;
    options.n_predict = 4;
    options.model.n_threads = 1;
    options.has_cache = false;
    options.max_stored = 10;
    s->options = &options;
    s->wake_fd = -1;
    pthread_mutex_init(&s->ready_lock, NULL);
    metrics_init(&s->metrics);
    bool ok = access_init(&s->access, NULL, 0, NULL, NULL, &err) &&
              responses_store_open(&s->responses, NULL, 10, &err) &&
              registry_open(&s->registry, &options, false, &s->metrics, (struct step_hook){0}, &err) &&
              workers_start(&s->workers, 1, &err);
    if (!ok) {
        fprintf(stderr, "%s\n", err.message);
        abort();
    }
    return s;
}

static bool is_ended(struct exchange *x) {
    pthread_mutex_lock(&x->lock);
    bool ended = x->is_ended;
    pthread_mutex_unlock(&x->lock);
    return ended;
}

/* As the event loop would, but for sending. */
static void take_ready(struct server *s) {
    pthread_mutex_lock(&s->ready_lock);
    struct exchange *list = s->ready;
    s->ready = NULL;
    pthread_mutex_unlock(&s->ready_lock);
    while (list) {
        struct exchange *next = list->next_ready;
        pthread_mutex_lock(&list->lock);
        list->is_ready = false;
        pthread_mutex_unlock(&list->lock);
        exchange_release(list);
        list = next;
    }
}

static void check_answer(struct exchange *x) {
    pthread_mutex_lock(&x->lock);
    expect(x->status >= 200 && x->status < 600 && !x->out.failed);
    expect(x->status < 400 || strstr(x->out.data, "\"message\":\"") || strstr(x->out.data, "\"error\":\""));
    expect(x->status != 500);
    pthread_mutex_unlock(&x->lock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct server *server;
    char head[200];
    const char *message;
    if (!server) server = open_server();
    if (!size) return 0;
    const char *path = paths[data[0] % (sizeof paths / sizeof *paths)];
    int n = snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: x\r\n\r\n", path);
    struct exchange *x = exchange_create(server);
    expect(x && http_parse_head(head, (size_t)n, &x->head, &x->arena, &message) == 0 && router_admit(x, &message) == 0);
    buffer_append(&x->body, data + 1, size - 1);
    atomic_fetch_add(&server->body_bytes, x->body.capacity);
    x->route->handle(x);
    uint64_t start = clock_now_ns();
    while (!is_ended(x)) {
        expect(clock_seconds_since(start) < 60);
        poll(NULL, 0, 1);
    }
    check_answer(x);
    exchange_release(x);
    while (take_ready(server), server->ready) continue;
    return 0;
}
