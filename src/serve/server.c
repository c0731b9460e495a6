/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop: listening, waking, timers, signals, draining, the log. */
#include "serve/server_parts.h"

#include "base/clock.h"
#include "serve/api_error.h"
#include "serve/generation.h"
#include "serve/log_request.h"
#include "serve/notify.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/bufferevent.h>
#include <event2/thread.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { TICK_MS = 200 };

void server_options_init(struct server_options *o) {
    *o = (struct server_options){.host = "127.0.0.1",
                                 .port = 8080,
                                 .max_body_bytes = 32u << 20,
                                 .max_total_body_bytes = 256u << 20,
                                 .max_header_bytes = 32u << 10,
                                 .max_connections = 512,
                                 .max_queue = 64,
                                 .header_timeout = 30,
                                 .body_timeout = 300,
                                 .idle_timeout = 75,
                                 .write_timeout = 60,
                                 .drain_timeout = 60,
                                 .stuck_timeout = 120,
                                 .ping_interval = 15,
                                 .n_workers = 2,
                                 .max_models = 4,
                                 .max_stored = 1024,
                                 .autoload = true,
                                 .model = {.tier = -1},
                                 .n_parallel = 16,
                                 .step_ms = 100,
                                 .has_cache = true,
                                 .reasoning_format = "auto",
                                 .reasoning_budget = -1,
                                 .n_predict = -1,
                                 .has_slots = true,
                                 .has_web = true};
}

/* ---- answers ---- */

static void wake(struct server *s) {
    uint64_t one = 1;
    ssize_t ignored = write(s->wake_fd, &one, sizeof one);
    (void)ignored;
}

/* Whether this is the thread of the engine that answers: it is in a step then, whose end wakes the I/O thread for all its
 * answers at once. */
static bool comes_with_step(struct exchange *x) {
    pthread_mutex_lock(&x->lock);
    struct generation *g = x->generation;
    pthread_mutex_unlock(&x->lock);
    return g && pthread_equal(pthread_self(), g->served->thread);
}

void server_push_ready(struct server *s, struct exchange *x) {
    bool waits = comes_with_step(x);
    exchange_hold(x);
    pthread_mutex_lock(&s->ready_lock);
    x->next_ready = s->ready;
    s->ready = x;
    bool wakes = !waits && !s->is_signalled;
    s->is_signalled |= wakes;
    pthread_mutex_unlock(&s->ready_lock);
    if (wakes) wake(s);
}

static void after_step(void *context) {
    struct server *s = context;
    pthread_mutex_lock(&s->ready_lock);
    bool wakes = s->ready && !s->is_signalled;
    s->is_signalled |= wakes;
    pthread_mutex_unlock(&s->ready_lock);
    if (wakes) wake(s);
}

/* Answered, or given up: out of the books. */
static void retire(struct server *s, struct exchange *x) {
    if (x->prev)
        x->prev->next = x->next;
    else
        s->live = x->next;
    if (x->next) x->next->prev = x->prev;
    if (x->counts) atomic_fetch_sub(&s->n_generations, 1);
    int class = x->status / 100;
    if (class > 0 && class < 6) metrics_count(&s->metrics.n_answers[class], 1);
    exchange_release(x);
}

static void settle(struct server *s, struct exchange *x) {
    bool is_ended;
    pthread_mutex_lock(&x->lock);
    x->is_ready = false;
    is_ended = x->is_ended;
    pthread_mutex_unlock(&x->lock);
    struct connection *c = x->connection;
    if (is_ended && !x->was_settled) log_request(s, x);
    if (c) connection_flush(c, x);
    if (is_ended && !x->was_settled) {
        x->was_settled = true;
        retire(s, x);
    }
}

static void on_wake(evutil_socket_t fd, short what, void *context) {
    struct server *s = context;
    uint64_t n;
    (void)what;
    ssize_t ignored = read(fd, &n, sizeof n);
    (void)ignored;
    pthread_mutex_lock(&s->ready_lock);
    struct exchange *list = s->ready, *turned = NULL;
    s->ready = NULL;
    s->is_signalled = false;
    pthread_mutex_unlock(&s->ready_lock);
    while (list) { /* oldest first */
        struct exchange *next = list->next_ready;
        list->next_ready = turned;
        turned = list;
        list = next;
    }
    while (turned) {
        struct exchange *next = turned->next_ready;
        settle(s, turned);
        exchange_release(turned);
        turned = next;
    }
}

/* ---- ending ---- */

static void stop_if_done(struct server *s) {
    if (s->is_draining && !s->live && !s->n_connections) event_base_loopbreak(s->base);
}

static void begin_drain(struct server *s) {
    s->is_draining = true;
    s->drain_ns = clock_now_ns();
    atomic_store(&s->is_stopping, true);
    while (s->n_listeners) evconnlistener_free(s->listeners[--s->n_listeners]);
    connection_close_idle(s);
    notify_stopping();
    if (s->live) log_text(s, "draining", "requests are still being answered; another signal ends them");
    stop_if_done(s);
}

static void on_signal(evutil_socket_t number, short what, void *context) {
    struct server *s = context;
    (void)number, (void)what;
    if (!s->is_draining) {
        begin_drain(s);
        return;
    }
    /* As if the time for draining were over. */
    for (struct exchange *x = s->live; x; x = x->next) generation_expire(x, EXPIRED_SHUTDOWN);
    uint64_t time = (uint64_t)(s->options->drain_timeout * 1e9), now = clock_now_ns();
    if (now - s->drain_ns < time) s->drain_ns = now - time;
}

static void ping(struct exchange *x, uint64_t now) {
    double interval = x->server->options->ping_interval;
    if (interval <= 0) return;
    pthread_mutex_lock(&x->lock);
    bool is_due = x->is_begun && !x->is_ended && x->ping && now > x->last_write_ns &&
                  (double)(now - x->last_write_ns) > interval * 1e9;
    pthread_mutex_unlock(&x->lock);
    if (is_due) exchange_write(x, x->ping, strlen(x->ping));
}

static void on_tick(evutil_socket_t fd, short what, void *context) {
    struct server *s = context;
    uint64_t now = clock_now_ns();
    (void)fd, (void)what;
    connection_check_all(s, now);
    for (struct exchange *x = s->live; x; x = x->next) {
        generation_check_time(x, now);
        ping(x, now);
    }
    notify_watchdog(s, now);
    if (!s->is_draining) return;
    connection_close_idle(s);
    double age = (double)(now - s->drain_ns) * 1e-9, most = s->options->drain_timeout;
    if (age > most)
        for (struct exchange *x = s->live; x; x = x->next) generation_expire(x, EXPIRED_SHUTDOWN);
    if (age > most + 3) event_base_loopbreak(s->base); /* what has not ended by now is cut off */
    stop_if_done(s);
}

/* ---- listening ---- */

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address, int length,
                      void *context) {
    (void)listener;
    connection_accept(context, fd, address, length);
}

static bool add_listener(struct server *s, const struct sockaddr *address, socklen_t length, struct mx_error *err,
                         const char *name) {
    unsigned flags = LEV_OPT_CLOSE_ON_FREE | LEV_OPT_REUSEABLE | LEV_OPT_CLOSE_ON_EXEC;
    struct evconnlistener *l = evconnlistener_new_bind(s->base, on_accept, s, flags, 1024, address, (int)length);
    if (!l) return error_set(err, ERROR_IO, "cannot listen on %s: %s", name, strerror(errno));
    s->listeners[s->n_listeners++] = l;
    return true;
}

static bool listen_unix(struct server *s, struct mx_error *err) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = s->options->host;
    struct stat info;
    if (strlen(path) >= sizeof address.sun_path)
        return error_set(err, ERROR_USAGE, "--host: the path of the socket is too long");
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    /* A socket that nobody listens on is a leftover. */
    if (!lstat(path, &info) && S_ISSOCK(info.st_mode)) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool is_used = fd >= 0 && !connect(fd, (struct sockaddr *)&address, sizeof address);
        if (fd >= 0) close(fd);
        if (is_used) return error_set(err, ERROR_IO, "cannot listen on %s: another server does", path);
        unlink(path);
    }
    if (!add_listener(s, (struct sockaddr *)&address, sizeof address, err, path)) return false;
    snprintf(s->unix_path, sizeof s->unix_path, "%s", path);
    fprintf(stderr, "mlxcel: listening on unix:%s\n", path);
    return true;
}

static void print_address(struct evconnlistener *listener, bool is_tls) {
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    char host[NI_MAXHOST], port[NI_MAXSERV];
    if (getsockname(evconnlistener_get_fd(listener), (struct sockaddr *)&address, &length)) return;
    if (getnameinfo((struct sockaddr *)&address, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV))
        return;
    bool is_six = address.ss_family == AF_INET6;
    fprintf(stderr, "mlxcel: listening on %s://%s%s%s:%s\n", is_tls ? "https" : "http", is_six ? "[" : "", host,
            is_six ? "]" : "", port);
}

static bool listen_tcp(struct server *s, struct mx_error *err) {
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM}, *list;
    char port[16];
    snprintf(port, sizeof port, "%d", s->options->port);
    int status = getaddrinfo(s->options->host, port, &hints, &list);
    if (status) return error_set(err, ERROR_USAGE, "--host: %s: %s", s->options->host, gai_strerror(status));
    bool ok = true;
    for (struct addrinfo *a = list; ok && a && s->n_listeners < MAX_LISTENERS; a = a->ai_next) {
        /* A free port is chosen once. */
        if (!s->options->port && s->n_listeners) break;
        ok = add_listener(s, a->ai_addr, a->ai_addrlen, err, s->options->host);
        if (!ok) error_prefix(err, "port %d", s->options->port);
    }
    freeaddrinfo(list);
    for (size_t i = 0; ok && i < s->n_listeners; i++) print_address(s->listeners[i], s->tls != NULL);
    return ok;
}

static bool start_listening(struct server *s, struct mx_error *err) {
    const char *host = s->options->host;
    size_t n = strlen(host);
    return n > 5 && !strcmp(host + n - 5, ".sock") ? listen_unix(s, err) : listen_tcp(s, err);
}

static bool open_tls(struct server *s, struct mx_error *err) {
    const char *certificate = s->options->tls_certificate, *key = s->options->tls_key;
    if (!certificate && !key) return true;
    if (!certificate || !key)
        return error_set(err, ERROR_USAGE, "give both --ssl-cert-file and --ssl-key-file, or none");
    s->tls = SSL_CTX_new(TLS_server_method());
    if (!s->tls) return error_memory(err, "TLS");
    SSL_CTX_set_min_proto_version(s->tls, TLS1_2_VERSION);
    SSL_CTX_set_options(s->tls, SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_RENEGOTIATION);
    if (SSL_CTX_use_certificate_chain_file(s->tls, certificate) != 1)
        return error_set(err, ERROR_USAGE, "--ssl-cert-file: %s holds no certificate in PEM form", certificate);
    if (SSL_CTX_use_PrivateKey_file(s->tls, key, SSL_FILETYPE_PEM) != 1 || SSL_CTX_check_private_key(s->tls) != 1)
        return error_set(err, ERROR_USAGE,
                         "--ssl-key-file: %s holds no key in PEM form that belongs to the certificate", key);
    return true;
}

/* ---- life ---- */

static bool open_loop(struct server *s, struct mx_error *err) {
    struct timeval tick = {.tv_usec = TICK_MS * 1000};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, NULL);
    s->base = event_base_new();
    s->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (!s->base || s->wake_fd < 0) return error_set(err, ERROR_IO, "cannot start the event loop: %s", strerror(errno));
    s->wake_event = event_new(s->base, s->wake_fd, EV_READ | EV_PERSIST, on_wake, s);
    s->tick_event = event_new(s->base, -1, EV_PERSIST, on_tick, s);
    s->term_event = evsignal_new(s->base, SIGTERM, on_signal, s);
    s->int_event = evsignal_new(s->base, SIGINT, on_signal, s);
    if (!s->wake_event || !s->tick_event || !s->term_event || !s->int_event) return error_memory(err, "event loop");
    event_add(s->wake_event, NULL);
    event_add(s->tick_event, &tick);
    event_add(s->term_event, NULL);
    event_add(s->int_event, NULL);
    return true;
}

static void close_loop(struct server *s) {
    struct event *events[] = {s->wake_event, s->tick_event, s->term_event, s->int_event};
    for (size_t i = 0; i < s->n_listeners; i++) evconnlistener_free(s->listeners[i]);
    for (size_t i = 0; i < 4; i++)
        if (events[i]) event_free(events[i]);
    if (s->base) event_base_free(s->base);
    if (s->wake_fd >= 0) close(s->wake_fd);
    if (s->tls) SSL_CTX_free(s->tls);
    if (*s->unix_path) unlink(s->unix_path);
}

static void print_settings(struct server *s) {
    const struct server_options *o = s->options;
    struct served *served = s->registry.entries[0].served;
    if (served) {
        fprintf(stderr, "mlxcel: model %s (%s), loaded in %.2f s\n", served->id, served->path,
                (double)served->load_ns * 1e-9);
        uint32_t context = engine_most_tokens(served->engine);
        fprintf(stderr, "mlxcel: context of %u tokens a request%s, %u requests at a time, %u more may wait\n", context,
                context < served->model.options.max_cells ? " (what the cache budget holds)" : "", o->n_parallel,
                o->max_queue);
        if (context > served->model.graph.context_length)
            fprintf(stderr, "mlxcel: the model was made for %u tokens: beyond them answers may be worthless\n",
                    served->model.graph.context_length);
        const struct sampling_params *p = &served->sampling;
        fprintf(stderr,
                "mlxcel: sampling where a request is silent: temperature %g, top-k %lld, top-p %g, min-p %g, "
                "repetition penalty %g\n",
                p->temperature, (long long)p->top_k, p->top_p, p->min_p, p->repetition_penalty);
        fprintf(stderr, "mlxcel: prefix cache %s; chat template %s; replies read as %s\n",
                !o->has_cache       ? "off"
                : served->is_shared ? "on, whole pages for the clients of several keys"
                                    : "on",
                served->has_template ? "the model's" : "a plain one, the model has none",
                reply_format_name(served->format));
    }
    fprintf(stderr, "mlxcel: API keys: %zu; pages of other origins: %s\n", s->access.n_keys,
            s->access.origins ? s->access.origins : "none");
}

/* Ends what is left; the engines' threads still run and tell the ends. False when one does not. */
static bool end_work(struct server *s) {
    atomic_store(&s->is_stopping, true);
    workers_stop(&s->workers);
    if (!s->base) return true;
    connection_close_all(s);
    for (struct exchange *x = s->live; x; x = x->next) generation_expire(x, EXPIRED_SHUTDOWN);
    uint64_t start = clock_now_ns();
    while (s->live && clock_seconds_since(start) < 30) {
        struct pollfd wait = {.fd = s->wake_fd, .events = POLLIN};
        poll(&wait, 1, 100);
        on_wake(s->wake_fd, 0, s);
    }
    event_base_loop(s->base, EVLOOP_NONBLOCK);
    return !s->live;
}

int server_run(const struct server_options *options, struct mx_error *err) {
    struct server *s = calloc(1, sizeof *s);
    if (!s) return error_memory(err, "server"), 1;
    s->options = options;
    s->wake_fd = -1;
    s->started_ns = clock_now_ns();
    s->started_unix = (int64_t)time(NULL);
    pthread_mutex_init(&s->ready_lock, NULL);
    metrics_init(&s->metrics);
    bool ok = access_init(&s->access, options->api_keys, options->n_api_keys, options->api_key_file,
                          options->cors_origins, err) &&
              open_tls(s, err) && open_loop(s, err) &&
              responses_store_open(&s->responses, options->store_path, options->max_stored, err) &&
              registry_open(&s->registry, options, access_is_shared(&s->access), &s->metrics,
                            (struct step_hook){after_step, s}, err) &&
              workers_start(&s->workers, options->n_workers, err) && start_listening(s, err);
    if (ok) {
        print_settings(s);
        notify_ready(s);
        event_base_dispatch(s->base);
    }
    if (!end_work(s)) {
        log_text(s, "stuck", "a computation does not end; leaving it");
        _exit(1);
    }
    if (s->registry.options) registry_close(&s->registry);
    close_loop(s);
    responses_store_close(&s->responses);
    access_free(&s->access);
    pthread_mutex_destroy(&s->ready_lock);
    free(s);
    return ok ? 0 : 1;
}
