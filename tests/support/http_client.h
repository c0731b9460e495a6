/* SPDX-License-Identifier: Apache-2.0 */
/* A server under test, and a small HTTP client over raw sockets that can also do what no client should. */
#ifndef MLXCEL_TESTS_HTTP_CLIENT_H
#define MLXCEL_TESTS_HTTP_CLIENT_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/json.h"

#include <stdbool.h>
#include <sys/types.h>

struct test_server {
    pid_t pid;
    int port;
    char unix_path[100]; /* "" = TCP */
    char log_path[64];
};

/* Starts mlxcel-server with these further arguments (NULL-terminated) on a free port, or with a path on a Unix socket, and
 * waits until it listens. On failure prints why. */
bool server_start(struct test_server *server, const char *unix_path, const char *const *arguments);
/* SIGTERM; the exit status, or 128 + signal; -1 when it does not end in time (it is killed then). */
int server_stop(struct test_server *server, int timeout_ms);
int server_wait(struct test_server *server, int timeout_ms);
/* What it has written to stderr so far, appended. */
void server_log(const struct test_server *server, struct buffer *out);

/* A connected socket, or -1. */
int client_connect(const struct test_server *server);
bool client_send(int fd, const void *data, size_t length);
bool client_puts(int fd, const char *text);
/* METHOD path with a JSON body (NULL = none) and further header lines ("A: b\r\n" or ""). */
bool client_request(int fd, const char *method, const char *path, const char *body, const char *headers);

struct response {
    int status;               /* 0 = none came */
    struct buffer head, body; /* the body without chunks */
    struct buffer extra;      /* bytes behind it, of a next answer */
    bool is_complete;
};

/* Reads one answer. `ahead` holds bytes that came with an earlier one (may be NULL); it is emptied. */
bool client_receive(int fd, struct response *response, struct buffer *ahead, int timeout_ms);
void response_free(struct response *response);
/* Value of a header, in a buffer of the thread; NULL when absent. */
const char *response_header(const struct response *response, const char *name);

/* One request on a connection of its own. */
bool http_ask(const struct test_server *server, const char *method, const char *path, const char *body,
              struct response *response);
/* The body as JSON in the arena, or NULL. */
const struct json *response_json(const struct response *response, struct arena *arena);
/* A value inside: "choices.0.message.content". */
const struct json *json_path(const struct json *value, const char *path);
/* A string there, in the arena; "" when it is no string. */
const char *json_text(const struct json *value, const char *path, struct arena *arena);
/* http_ask and response_json; an answer that is no JSON is noted. */
const struct json *http_ask_json(const struct test_server *server, const char *method, const char *path,
                                 const char *body, int *status, struct arena *arena);

bool server_is_healthy(const struct test_server *server);
/* A number of GET /metrics; -1 when it is not there. */
double server_metric(const struct test_server *server, const char *name);
/* Requests that are being answered, as GET /slots tells; -1 when it does not. */
int server_n_busy(const struct test_server *server);

/* Calls visit with each `data:` of an event stream that is JSON; returns the number of events. */
size_t sse_visit(const struct response *response, struct arena *arena,
                 void (*visit)(void *context, const char *event, const struct json *data), void *context);
/* The string at `path` of every event, joined. */
void sse_join(const struct response *response, const char *path, struct buffer *out);

#endif
