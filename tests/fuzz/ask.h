/* SPDX-License-Identifier: Apache-2.0 */
/* For targets that ask the server: its handlers on the bundled model, in this process and without sockets. Slots are saved
 * in fuzz_folder(). */
#ifndef MLXCEL_TESTS_FUZZ_ASK_H
#define MLXCEL_TESTS_FUZZ_ASK_H

#include "tests/fuzz/files.h"

#include "serve/server_parts.h"

#include "base/clock.h"

#include <poll.h>

static inline struct server *open_server(void) {
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
    options.slot_save_path = fuzz_folder();
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

static inline bool is_ended(struct exchange *x) {
    pthread_mutex_lock(&x->lock);
    bool ended = x->is_ended;
    pthread_mutex_unlock(&x->lock);
    return ended;
}

/* As the event loop would, but for sending. */
static inline void take_ready(struct server *s) {
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

static inline void check_answer(struct exchange *x) {
    pthread_mutex_lock(&x->lock);
    expect(x->status >= 200 && x->status < 600 && !x->out.failed);
    expect(x->status < 400 || strstr(x->out.data, "\"message\":\"") || strstr(x->out.data, "\"error\":\""));
    expect(x->status != 500);
    pthread_mutex_unlock(&x->lock);
}

/* POSTs a body. The request is answered, whatever it holds; an answer that is an error has a message. */
static inline void ask(const char *path, const void *data, size_t size) {
    static struct server *server;
    char head[200];
    const char *message;
    if (!server) server = open_server();
    int n = snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: x\r\n\r\n", path);
    struct exchange *x = exchange_create(server);
    expect(x && http_parse_head(head, (size_t)n, &x->head, &x->arena, &message) == 0 && router_admit(x, &message) == 0);
    buffer_append(&x->body, data, size);
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
}

#endif
