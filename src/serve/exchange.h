/* SPDX-License-Identifier: Apache-2.0 */
/* One request and its answer.
 *
 * The I/O thread makes an exchange when a request is complete and hands it to a handler. Any one thread at a time may
 * then write the answer; bytes are put into `out` under the lock, and the I/O thread, woken, moves them to the socket.
 * When the client vanishes, is_gone is set and `abandon` called; writing goes on into the void until the handler notices.
 * The exchange is freed when its last reference is given back. */
#ifndef MLXCEL_SERVE_EXCHANGE_H
#define MLXCEL_SERVE_EXCHANGE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"
#include "engine/cache_finding.h"
#include "serve/http.h"

#include <pthread.h>
#include <stdatomic.h>

struct server;
struct connection;
struct route;
struct generation;

/* Whose shapes errors and streams have. */
enum dialect { DIALECT_OPENAI, DIALECT_ANTHROPIC, DIALECT_OLLAMA, DIALECT_NATIVE };

struct exchange {
    struct server *server;
    atomic_int n_refs;
    struct exchange *prev, *next;  /* I/O thread: all that are not answered */
    struct connection *connection; /* I/O thread; NULL once it is gone */
    const struct route *route;
    enum dialect dialect;
    const char *path_rest; /* what follows a route's prefix */
    struct arena arena;    /* of the request; one thread at a time */
    struct http_head head;
    struct buffer body;
    char id[65];
    char address[64]; /* of the client */
    uint32_t owner;   /* which API key, 0 = none */
    uint64_t arrived_ns;
    atomic_bool is_gone;

    pthread_mutex_t lock; /* what follows, up to the empty line */
    struct buffer out, extra_headers;
    bool is_begun, is_ended, is_chunked, is_ready;
    bool closes; /* the connection ends with this answer */
    int status;
    uint64_t last_write_ns;
    const char *ping; /* keep-alive bytes of a stream; NULL = none */
    struct exchange *next_ready;
    struct generation *generation; /* NULL = none; owned */

    bool was_settled; /* I/O thread: its end was dealt with */
    bool counts;      /* in the server's number of running generations */
    /* For the log line. */
    const char *model_name, *finish; /* in the arena or static */
    size_t n_prompt, n_cached, n_generated;
    char cache[CACHE_FINDING_TEXT];
    uint64_t first_token_ns;
};

struct exchange *exchange_create(struct server *server);
void exchange_hold(struct exchange *exchange);
void exchange_release(struct exchange *exchange);

/* A header of the answer, before it begins. */
void exchange_add_header(struct exchange *exchange, const char *name, const char *value);
/* A whole answer. content may be NULL. */
void exchange_reply(struct exchange *exchange, int status, const char *content_type, const void *content,
                    size_t length);
/* JSON in the buffer, which is freed; 500 when its memory ran out. */
void exchange_reply_json(struct exchange *exchange, int status, struct buffer *json);

/* An answer in pieces. ping: bytes sent when nothing else was for a while; NULL = none. */
void exchange_begin_stream(struct exchange *exchange, const char *content_type, const char *ping);
void exchange_write(struct exchange *exchange, const void *bytes, size_t length);
void exchange_end(struct exchange *exchange);
/* Both, without waking the I/O thread twice. */
void exchange_write_end(struct exchange *exchange, const void *bytes, size_t length);

bool exchange_has_begun(struct exchange *exchange);

#endif
