/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/exchange.h"

#include "base/clock.h"
#include "serve/generation.h"
#include "serve/server_parts.h"

#include <stdlib.h>
#include <string.h>

struct exchange *exchange_create(struct server *server) {
    struct exchange *x = calloc(1, sizeof *x);
    if (!x) return NULL;
    x->server = server;
    atomic_init(&x->n_refs, 1);
    pthread_mutex_init(&x->lock, NULL);
    x->arrived_ns = clock_now_ns();
    return x;
}

void exchange_hold(struct exchange *x) { atomic_fetch_add(&x->n_refs, 1); }

void exchange_release(struct exchange *x) {
    if (atomic_fetch_sub(&x->n_refs, 1) != 1) return;
    if (x->generation) generation_free(x->generation);
    atomic_fetch_sub(&x->server->body_bytes, x->body.capacity);
    buffer_free(&x->body);
    buffer_free(&x->out);
    buffer_free(&x->extra_headers);
    pthread_mutex_destroy(&x->lock);
    arena_free(&x->arena);
    free(x);
}

void exchange_add_header(struct exchange *x, const char *name, const char *value) {
    pthread_mutex_lock(&x->lock);
    buffer_printf(&x->extra_headers, "%s: %s\r\n", name, value);
    pthread_mutex_unlock(&x->lock);
}

/* With the lock held. length SIZE_MAX = not known. */
static void begin(struct exchange *x, int status, const char *content_type, size_t length) {
    x->is_begun = true;
    x->status = status;
    buffer_printf(&x->out, "HTTP/1.1 %d %s\r\nServer: mlxcel\r\nX-Request-Id: %s\r\nRequest-Id: %s\r\n", status,
                  http_reason(status), x->id, x->id);
    if (content_type) buffer_printf(&x->out, "Content-Type: %s\r\n", content_type);
    if (length == SIZE_MAX) {
        x->is_chunked = x->head.minor_version > 0;
        if (!x->is_chunked) x->closes = true;
        buffer_puts(&x->out, "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n");
        if (x->is_chunked) buffer_puts(&x->out, "Transfer-Encoding: chunked\r\n");
    } else if (status != 204 && status != 304) {
        buffer_printf(&x->out, "Content-Length: %zu\r\n", length);
    }
    if (x->extra_headers.length) buffer_append(&x->out, x->extra_headers.data, x->extra_headers.length);
    buffer_printf(&x->out, "Connection: %s\r\n\r\n", x->closes ? "close" : "keep-alive");
}

static void append(struct exchange *x, const void *bytes, size_t length) {
    if (!length || x->head.method == METHOD_HEAD || atomic_load(&x->is_gone)) return;
    if (x->is_chunked) buffer_printf(&x->out, "%zx\r\n", length);
    buffer_append(&x->out, bytes, length);
    if (x->is_chunked) buffer_puts(&x->out, "\r\n");
    x->last_write_ns = clock_now_ns();
}

static void finish(struct exchange *x) {
    if (x->is_chunked && x->head.method != METHOD_HEAD) buffer_puts(&x->out, "0\r\n\r\n");
    x->is_ended = true;
}

/* With the lock held: unlocks, and tells the I/O thread. */
static void unlock_and_wake(struct exchange *x) {
    bool was_ready = x->is_ready;
    x->is_ready = true;
    pthread_mutex_unlock(&x->lock);
    if (!was_ready) server_push_ready(x->server, x);
}

void exchange_reply(struct exchange *x, int status, const char *content_type, const void *content, size_t length) {
    pthread_mutex_lock(&x->lock);
    if (!x->is_begun) {
        begin(x, status, content_type, length);
        append(x, content, length);
        finish(x);
    }
    unlock_and_wake(x);
}

void exchange_reply_json(struct exchange *x, int status, struct buffer *json) {
    static const char no_memory[] =
        "{\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\",\"param\":null,\"code\":null}}";
    if (json->failed)
        exchange_reply(x, 500, "application/json", no_memory, sizeof no_memory - 1);
    else
        exchange_reply(x, status, "application/json", json->data, json->length);
    buffer_free(json);
}

void exchange_begin_stream(struct exchange *x, const char *content_type, const char *ping) {
    pthread_mutex_lock(&x->lock);
    if (!x->is_begun) {
        begin(x, 200, content_type, SIZE_MAX);
        x->ping = ping;
        x->last_write_ns = clock_now_ns();
    }
    unlock_and_wake(x);
}

void exchange_write(struct exchange *x, const void *bytes, size_t length) {
    pthread_mutex_lock(&x->lock);
    append(x, bytes, length);
    unlock_and_wake(x);
}

void exchange_end(struct exchange *x) { exchange_write_end(x, NULL, 0); }

void exchange_write_end(struct exchange *x, const void *bytes, size_t length) {
    pthread_mutex_lock(&x->lock);
    append(x, bytes, length);
    finish(x);
    unlock_and_wake(x);
}

bool exchange_has_begun(struct exchange *x) {
    pthread_mutex_lock(&x->lock);
    bool begun = x->is_begun;
    pthread_mutex_unlock(&x->lock);
    return begun;
}
