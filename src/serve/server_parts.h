/* SPDX-License-Identifier: Apache-2.0 */
/* The server's own structures, for the files of this folder. */
#ifndef MLXCEL_SERVE_SERVER_PARTS_H
#define MLXCEL_SERVE_SERVER_PARTS_H

#include "serve/access.h"
#include "serve/exchange.h"
#include "serve/log_request.h"
#include "serve/metrics.h"
#include "serve/registry.h"
#include "serve/responses_store.h"
#include "serve/server.h"
#include "serve/workers.h"

#include <event2/event.h>
#include <event2/listener.h>
#include <openssl/ssl.h>

enum { MAX_LISTENERS = 8 };

struct server {
    const struct server_options *options;
    struct access access;
    struct registry registry;
    struct metrics metrics;
    struct workers workers;
    struct responses_store responses;
    uint64_t started_ns;
    int64_t started_unix;

    /* I/O thread */
    struct event_base *base;
    struct evconnlistener *listeners[MAX_LISTENERS];
    size_t n_listeners;
    SSL_CTX *tls;
    struct event *wake_event, *tick_event, *term_event, *int_event;
    struct connection *connections;
    size_t n_connections;
    struct exchange *live; /* requests that are not answered */
    bool is_draining;
    uint64_t drain_ns;
    uint64_t watchdog_ns; /* 0 = no systemd watchdog */
    uint64_t watchdog_sent_ns;
    char unix_path[108];

    /* any thread */
    int wake_fd;
    pthread_mutex_t ready_lock;
    struct exchange *ready;
    bool is_signalled; /* wake_fd was written and not read yet */
    atomic_uint n_generations;
    atomic_size_t body_bytes;
    atomic_bool is_stopping; /* draining, as other threads see it */
};

/* Any thread: the exchange has bytes to send or has ended. */
void server_push_ready(struct server *server, struct exchange *exchange);

/* ---- connection.c, all on the I/O thread ---- */

void connection_accept(struct server *server, evutil_socket_t fd, const struct sockaddr *address, int length);
/* The exchange has output, or has ended. */
void connection_flush(struct connection *connection, struct exchange *exchange);
/* Closes what is idle, too slow or full. */
void connection_check_all(struct server *server, uint64_t now_ns);
/* Those that nothing is owed to. */
void connection_close_idle(struct server *server);
void connection_close_all(struct server *server);

/* ---- router.c ---- */

enum {
    ROUTE_GENERATES = 1, /* counts against the queue; ends with its client */
    ROUTE_INLINE = 2,    /* answered on the I/O thread */
    ROUTE_FREE = 4,      /* needs no key */
};

struct route {
    unsigned methods; /* enum http_method bits */
    const char *path; /* ends in '/' '*': a prefix */
    enum dialect dialect;
    unsigned flags;
    void (*handle)(struct exchange *exchange);
};

/* Finds the route and checks who asks. 0, or the status of the refusal with a message. */
int router_admit(struct exchange *exchange, const char **message);
/* Hands the exchange, with its body, to its handler. */
void router_dispatch(struct exchange *exchange);

#endif
