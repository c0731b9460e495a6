/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: bytes in, requests out; answers in, bytes out. One request at a time; what a client sends ahead waits in
 * the input buffer.
 *
 * Reading goes on while an answer is pending, up to a bound, so that a client that closes is noticed at once; a separate
 * event for the peer's end of data covers the time when the bound is reached. An end of data while an answer is being
 * generated counts as the client's going away: nothing else distinguishes them on TCP. Other answers are still sent. */
#include "serve/server_parts.h"

#include "base/clock.h"
#include "serve/api_error.h"
#include "serve/generation.h"
#include "serve/random_id.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    AHEAD_BYTES = 64 << 10,   /* read while an answer is pending */
    INPUT_BYTES = 256 << 10,  /* read at a time otherwise */
    PENDING_BYTES = 16 << 20, /* answer bytes that a slow client may leave unread */
    LINGER_NS = 2000000000,   /* how long a refused client may go on sending */
};

enum connection_state {
    CONNECTION_HEAD, /* between requests, or reading a head */
    CONNECTION_BODY,
    CONNECTION_BUSY,   /* a request is being answered */
    CONNECTION_FLUSH,  /* the last answer leaves */
    CONNECTION_LINGER, /* what comes is thrown away until the client closes */
    CONNECTION_DEAD,   /* freed when the event loop turns to it */
};

struct connection {
    struct connection *prev, *next;
    struct server *server;
    struct bufferevent *bev;
    struct event *end_event; /* the peer's end of data */
    enum connection_state state;
    uint64_t since_ns;    /* the state began, or the first byte of a head came */
    uint64_t progress_ns; /* bytes came (reading) or left (writing) */
    struct exchange *exchange;
    struct http_chunked chunked;
    bool has_begun_head, is_tls;
    bool peer_ended; /* and all that it sent was read */
    bool end_seen;   /* the peer's end of data is known; some may be unread */
    char address[64];
};

static void process(struct connection *c);

static void set_state(struct connection *c, enum connection_state state) {
    c->state = state;
    c->since_ns = c->progress_ns = clock_now_ns();
    c->has_begun_head = false;
    bufferevent_setwatermark(c->bev, EV_READ, 0, state == CONNECTION_BUSY ? AHEAD_BYTES : INPUT_BYTES);
}

static void free_later(evutil_socket_t fd, short what, void *context) {
    struct connection *c = context;
    (void)fd, (void)what;
    bufferevent_free(c->bev);
    free(c);
}

/* The client is gone: its request is abandoned. */
static void drop(struct connection *c) {
    struct exchange *x = c->exchange;
    struct timeval now = {0};
    if (c->state == CONNECTION_DEAD) return;
    if (x) {
        x->connection = NULL;
        atomic_store(&x->is_gone, true);
        if (c->state == CONNECTION_BUSY)
            generation_abandon(x);
        else
            exchange_release(x); /* not handed out yet */
    }
    c->exchange = NULL;
    c->state = CONNECTION_DEAD;
    if (c->prev)
        c->prev->next = c->next;
    else
        c->server->connections = c->next;
    if (c->next) c->next->prev = c->prev;
    c->server->n_connections--;
    if (c->end_event) event_free(c->end_event);
    bufferevent_disable(c->bev, EV_READ | EV_WRITE);
    bufferevent_setcb(c->bev, NULL, NULL, NULL, NULL);
    event_base_once(c->server->base, -1, EV_TIMEOUT, free_later, c, &now);
}

/* Everything was sent: tell the client so, and read on for a moment, lest a reset overtake the answer. */
static void end_flush(struct connection *c) {
    if (c->is_tls || c->peer_ended) {
        drop(c);
        return;
    }
    shutdown(bufferevent_getfd(c->bev), SHUT_WR);
    set_state(c, CONNECTION_LINGER);
    process(c);
}

static size_t output_length(const struct connection *c) { return evbuffer_get_length(bufferevent_get_output(c->bev)); }

static void close_after_output(struct connection *c) {
    set_state(c, CONNECTION_FLUSH);
    if (!output_length(c)) end_flush(c);
}

/* ---- requests ---- */

/* Answers a request that goes to no handler; unread bytes of its body end the connection. */
static void refuse(struct connection *c, int status, const char *message, bool keeps) {
    struct exchange *x = c->exchange;
    x->closes = !keeps;
    x->next = c->server->live;
    if (x->next) x->next->prev = x;
    c->server->live = x;
    set_state(c, CONNECTION_BUSY);
    api_refuse(x, status, message);
}

static void dispatch(struct connection *c) {
    struct exchange *x = c->exchange;
    set_state(c, CONNECTION_BUSY);
    x->next = c->server->live;
    if (x->next) x->next->prev = x;
    c->server->live = x;
    x->closes = !x->head.keeps_alive || c->server->is_draining;
    router_dispatch(x);
    if ((c->peer_ended || c->end_seen) && x->route->flags & ROUTE_GENERATES) drop(c);
}

/* NULL, and the connection dropped, when memory is out. */
static struct exchange *make_exchange(struct connection *c) {
    struct exchange *x = c->exchange = exchange_create(c->server);
    if (!x) {
        drop(c);
        return NULL;
    }
    x->connection = c;
    snprintf(x->address, sizeof x->address, "%s", c->address);
    random_id(x->id, "req_", 24);
    return x;
}

/* A whole head has come: the exchange is made, and the request refused where head and key suffice for that. */
static void begin_request(struct connection *c, const char *text, size_t length) {
    struct exchange *x = make_exchange(c);
    const char *message = NULL;
    bool is_well_formed = false;
    if (!x) return;
    int status = http_parse_head(text, length, &x->head, &x->arena, &message);
    if (!status) {
        const char *id = http_header(&x->head, "x-request-id");
        if (id && request_id_is_good(id)) snprintf(x->id, sizeof x->id, "%s", id);
        status = router_admit(x, &message);
        is_well_formed = true;
    }
    if (!status && x->head.content_length > c->server->options->max_body_bytes) {
        status = 413;
        message = "the body is too large";
    }
    bool has_body = x->head.is_chunked || x->head.content_length;
    if (status) {
        refuse(c, status, message ? message : "bad request", is_well_formed && !has_body && x->head.keeps_alive);
    } else if (!has_body) {
        dispatch(c);
    } else {
        if (x->head.expects_continue) bufferevent_write(c->bev, "HTTP/1.1 100 Continue\r\n\r\n", 25);
        c->chunked = (struct http_chunked){0};
        set_state(c, CONNECTION_BODY);
    }
}

static void read_head(struct connection *c) {
    struct evbuffer *in = bufferevent_get_input(c->bev);
    size_t most = c->server->options->max_header_bytes;
    if (!c->has_begun_head) {
        /* Empty lines before a request are passed over (RFC 9112, 2.2). */
        unsigned char first;
        while (evbuffer_copyout(in, &first, 1) == 1 && (first == '\r' || first == '\n')) evbuffer_drain(in, 1);
        if (!evbuffer_get_length(in)) return;
        c->has_begun_head = true;
        c->since_ns = clock_now_ns();
    }
    size_t length = evbuffer_get_length(in), looked = length < most ? length : most;
    const char *text = (const char *)evbuffer_pullup(in, (ev_ssize_t)looked);
    size_t head = text ? http_head_length(text, looked) : 0;
    if (head) {
        begin_request(c, text, head);
        if (c->state != CONNECTION_DEAD) evbuffer_drain(in, head);
        return;
    }
    if (text && looked < most) return;
    if (make_exchange(c)) refuse(c, 431, "the request head is too large", false);
}

/* Makes room in the body's buffer, counted against what all bodies together may take. */
static int reserve_body(struct server *s, struct exchange *x, size_t extra) {
    size_t before = x->body.capacity;
    bool ok = buffer_reserve(&x->body, extra);
    size_t more = x->body.capacity - before, total = atomic_fetch_add(&s->body_bytes, more) + more;
    return !ok || total > s->options->max_total_body_bytes ? 503 : 0;
}

static void read_body(struct connection *c) {
    struct exchange *x = c->exchange;
    struct evbuffer *in = bufferevent_get_input(c->bev);
    bool is_done = false;
    int status = 0;
    while (!status && !is_done) {
        size_t n = evbuffer_get_contiguous_space(in);
        if (!n) return;
        const char *data = (const char *)evbuffer_pullup(in, (ev_ssize_t)n);
        uint64_t left = x->head.content_length - x->body.length;
        if (!x->head.is_chunked && n > left) n = (size_t)left;
        status = reserve_body(c->server, x, n);
        if (status) break;
        if (x->head.is_chunked) {
            n = http_chunked_feed(&c->chunked, data, n, &x->body, c->server->options->max_body_bytes, &status);
            is_done = c->chunked.state == CHUNK_DONE;
        } else {
            buffer_append(&x->body, data, n);
            is_done = x->body.length == x->head.content_length;
        }
        evbuffer_drain(in, n);
    }
    if (!status)
        dispatch(c);
    else if (status == 413)
        refuse(c, status, "the body is too large", false);
    else if (status == 400)
        refuse(c, status, "malformed chunked body", false);
    else
        refuse(c, status, "too many request bodies at a time", false);
}

static void process(struct connection *c) {
    struct evbuffer *in = bufferevent_get_input(c->bev);
    c->progress_ns = clock_now_ns();
    if (c->state == CONNECTION_HEAD) read_head(c);
    if (c->state == CONNECTION_BODY) read_body(c);
    if (c->state == CONNECTION_FLUSH || c->state == CONNECTION_LINGER) evbuffer_drain(in, evbuffer_get_length(in));
    if (!c->peer_ended) return;
    if (c->state == CONNECTION_HEAD)
        close_after_output(c);
    else if (c->state == CONNECTION_BODY || c->state == CONNECTION_LINGER)
        drop(c);
}

/* ---- answers ---- */

void connection_flush(struct connection *c, struct exchange *x) {
    bool is_ended, closes, failed;
    pthread_mutex_lock(&x->lock);
    failed =
        x->out.failed || (x->out.length && evbuffer_add(bufferevent_get_output(c->bev), x->out.data, x->out.length));
    buffer_clear(&x->out);
    is_ended = x->is_ended;
    closes = x->closes;
    pthread_mutex_unlock(&x->lock);
    if (failed || output_length(c) > PENDING_BYTES) {
        drop(c);
        return;
    }
    if (!is_ended) return;
    c->exchange = NULL;
    x->connection = NULL;
    if (closes || c->server->is_draining) {
        close_after_output(c);
        return;
    }
    set_state(c, CONNECTION_HEAD);
    process(c);
}

/* ---- events ---- */

static void on_read(struct bufferevent *bev, void *context) {
    (void)bev;
    process(context);
}

static void on_write(struct bufferevent *bev, void *context) {
    struct connection *c = context;
    (void)bev;
    c->progress_ns = clock_now_ns();
    if (c->state == CONNECTION_FLUSH && !output_length(c)) end_flush(c);
}

static void on_event(struct bufferevent *bev, short what, void *context) {
    struct connection *c = context;
    (void)bev;
    if (what & BEV_EVENT_CONNECTED) return; /* TLS is up */
    if (!(what & BEV_EVENT_EOF)) {
        drop(c);
        return;
    }
    c->peer_ended = true;
    bool generates = c->exchange && c->exchange->route && c->exchange->route->flags & ROUTE_GENERATES;
    if (c->is_tls || (c->state == CONNECTION_BUSY && generates))
        drop(c);
    else
        process(c);
}

static void on_peer_end(evutil_socket_t fd, short what, void *context) {
    struct connection *c = context;
    (void)fd, (void)what;
    c->end_seen = true;
    if (c->state == CONNECTION_BUSY && c->exchange->route && c->exchange->route->flags & ROUTE_GENERATES) drop(c);
}

static void on_output(struct evbuffer *buffer, const struct evbuffer_cb_info *info, void *context) {
    struct connection *c = context;
    (void)buffer;
    if (info->n_deleted) c->progress_ns = clock_now_ns();
}

static void set_address(struct connection *c, const struct sockaddr *address) {
    const void *source = NULL;
    if (address->sa_family == AF_INET) source = &((const struct sockaddr_in *)(const void *)address)->sin_addr;
    if (address->sa_family == AF_INET6) source = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    if (!source || !inet_ntop(address->sa_family, source, c->address, sizeof c->address))
        snprintf(c->address, sizeof c->address, "local");
}

static struct bufferevent *open_bufferevent(struct server *s, evutil_socket_t fd) {
    if (!s->tls) return bufferevent_socket_new(s->base, fd, BEV_OPT_CLOSE_ON_FREE);
    SSL *ssl = SSL_new(s->tls);
    if (!ssl) return NULL;
    struct bufferevent *bev =
        bufferevent_openssl_socket_new(s->base, fd, ssl, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
    if (bev)
        bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
    else
        SSL_free(ssl);
    return bev;
}

static void refuse_connection(evutil_socket_t fd, bool is_tls) {
    static const char answer[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
                                 "Retry-After: 1\r\nConnection: close\r\nContent-Length: 70\r\n\r\n"
                                 "{\"error\":{\"message\":\"too many connections\",\"type\":\"overloaded_error\"}}";
    if (!is_tls) {
        ssize_t ignored = send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void)ignored;
    }
    evutil_closesocket(fd);
}

void connection_accept(struct server *s, evutil_socket_t fd, const struct sockaddr *address, int length) {
    (void)length;
    struct connection *c = s->n_connections < s->options->max_connections ? calloc(1, sizeof *c) : NULL;
    struct bufferevent *bev = c ? open_bufferevent(s, fd) : NULL;
    if (!bev) {
        free(c);
        refuse_connection(fd, s->tls != NULL);
        return;
    }
    int on = 1;
    if (address->sa_family != AF_UNIX) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    *c = (struct connection){.server = s, .bev = bev, .next = s->connections, .is_tls = s->tls != NULL};
    if (c->next) c->next->prev = c;
    s->connections = c;
    s->n_connections++;
    set_address(c, address);
    set_state(c, CONNECTION_HEAD);
    bufferevent_set_max_single_read(bev, INPUT_BYTES);
    bufferevent_setcb(bev, on_read, on_write, on_event, c);
    evbuffer_add_cb(bufferevent_get_output(bev), on_output, c);
    bufferevent_enable(bev, EV_READ | EV_WRITE);
    if (event_base_get_features(s->base) & EV_FEATURE_EARLY_CLOSE) {
        c->end_event = event_new(s->base, fd, EV_CLOSED, on_peer_end, c);
        if (c->end_event) event_add(c->end_event, NULL);
    }
}

/* ---- limits of time ---- */

static bool has_passed(uint64_t since_ns, uint64_t now_ns, double seconds) {
    return now_ns > since_ns && (double)(now_ns - since_ns) > seconds * 1e9;
}

static void refuse_slow(struct connection *c) {
    if (c->exchange || make_exchange(c)) refuse(c, 408, "the request did not come in time", false);
}

static void check(struct connection *c, uint64_t now_ns) {
    const struct server_options *o = c->server->options;
    switch (c->state) {
    case CONNECTION_HEAD:
        if (c->has_begun_head && has_passed(c->since_ns, now_ns, o->header_timeout))
            refuse_slow(c);
        else if (!c->has_begun_head && has_passed(c->since_ns, now_ns, o->idle_timeout))
            drop(c);
        break;
    case CONNECTION_BODY:
        if (has_passed(c->progress_ns, now_ns, o->header_timeout) || has_passed(c->since_ns, now_ns, o->body_timeout))
            refuse_slow(c);
        break;
    case CONNECTION_BUSY:
    case CONNECTION_FLUSH:
        if (!output_length(c)) c->progress_ns = now_ns;
        if (has_passed(c->progress_ns, now_ns, o->write_timeout)) drop(c);
        break;
    case CONNECTION_LINGER:
        if (now_ns - c->since_ns > LINGER_NS) drop(c);
        break;
    case CONNECTION_DEAD: break;
    }
}

void connection_check_all(struct server *s, uint64_t now_ns) {
    for (struct connection *c = s->connections, *next; c; c = next) {
        next = c->next;
        check(c, now_ns);
    }
}

void connection_close_idle(struct server *s) {
    for (struct connection *c = s->connections, *next; c; c = next) {
        next = c->next;
        if ((c->state == CONNECTION_HEAD && !c->has_begun_head) || c->state == CONNECTION_LINGER) drop(c);
    }
}

void connection_close_all(struct server *s) {
    while (s->connections) drop(s->connections);
}
