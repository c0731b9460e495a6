/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/http_client.h"

#include "base/clock.h"
#include "base/file.h"
#include "tests/support/process.h"
#include "tests/support/tap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ARGUMENTS = 60 };

static void sleep_ms(int ms) { poll(NULL, 0, ms); }

/* ---- the server ---- */

static void run_child(const struct test_server *s, const char *const *arguments) {
    const char *argv[MAX_ARGUMENTS + 8] = {program_path("mlxcel"),
                                           "serve",
                                           "--host",
                                           *s->unix_path ? s->unix_path : "127.0.0.1",
                                           "--port",
                                           "0",
                                           "--threads",
                                           "1"};
    size_t n = 8;
    for (size_t i = 0; arguments && arguments[i] && n < MAX_ARGUMENTS; i++) argv[n++] = arguments[i];
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that is killed leaves no server behind */
    int log = open(s->log_path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600), in = open("/dev/null", O_RDONLY);
    dup2(in, 0);
    dup2(log, 1);
    dup2(log, 2);
    execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

void server_log(const struct test_server *s, struct buffer *out) {
    struct mx_error err;
    size_t length;
    char *text = file_read(s->log_path, 64 << 20, &length, &err);
    if (text) buffer_append(out, text, length);
    free(text);
}

static bool find_port(struct test_server *s) {
    struct buffer log = {0};
    server_log(s, &log);
    const char *at = log.data ? strstr(log.data, "mlxcel: listening on ") : NULL;
    const char *end = at ? strchr(at, '\n') : NULL;
    bool found = end != NULL;
    if (found && !*s->unix_path) {
        while (end > at && end[-1] != ':') end--;
        s->port = atoi(end);
    }
    buffer_free(&log);
    return found;
}

bool server_start(struct test_server *s, const char *unix_path, const char *const *arguments) {
    static int number;
    *s = (struct test_server){.pid = -1};
    if (unix_path) snprintf(s->unix_path, sizeof s->unix_path, "%s", unix_path);
    snprintf(s->log_path, sizeof s->log_path, "/tmp/mlxcel-test-%d-%d.log", (int)getpid(), number++);
    unlink(s->log_path);
    s->pid = fork();
    if (s->pid == 0) run_child(s, arguments);
    uint64_t start = clock_now_ns();
    while (clock_seconds_since(start) < 60) {
        int status;
        if (find_port(s)) return true;
        if (waitpid(s->pid, &status, WNOHANG) == s->pid) break;
        sleep_ms(10);
    }
    struct buffer log = {0};
    server_log(s, &log);
    tap_note("the server did not start: %.400s", log.data ? log.data : "");
    buffer_free(&log);
    return false;
}

int server_wait(struct test_server *s, int timeout_ms) {
    uint64_t start = clock_now_ns();
    int status = 0;
    while (clock_seconds_since(start) * 1e3 < timeout_ms) {
        if (waitpid(s->pid, &status, WNOHANG) == s->pid) {
            unlink(s->log_path);
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        sleep_ms(5);
    }
    kill(s->pid, SIGKILL);
    waitpid(s->pid, &status, 0);
    unlink(s->log_path);
    return -1;
}

int server_stop(struct test_server *s, int timeout_ms) {
    kill(s->pid, SIGTERM);
    return server_wait(s, timeout_ms);
}

/* ---- sockets ---- */

int client_connect(const struct test_server *s) {
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in inet = {.sin_family = AF_INET, .sin_port = htons((uint16_t)s->port)};
    inet.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bool is_local = *s->unix_path != '\0';
    int fd = socket(is_local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    memcpy(local.sun_path, s->unix_path, strlen(s->unix_path));
    int status = is_local ? connect(fd, (struct sockaddr *)&local, sizeof local)
                          : connect(fd, (struct sockaddr *)&inet, sizeof inet);
    if (status) {
        close(fd);
        return -1;
    }
    if (!is_local) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

bool client_send(int fd, const void *data, size_t length) {
    const char *at = data;
    while (length) {
        ssize_t n = send(fd, at, length, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n;
        length -= (size_t)n;
    }
    return true;
}

bool client_puts(int fd, const char *text) { return client_send(fd, text, strlen(text)); }

bool client_request(int fd, const char *method, const char *path, const char *body, const char *headers) {
    struct buffer out = {0};
    buffer_printf(&out, "%s %s HTTP/1.1\r\nHost: test\r\n%s", method, path, headers ? headers : "");
    if (body) buffer_printf(&out, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body));
    buffer_puts(&out, "\r\n");
    if (body) buffer_puts(&out, body);
    bool ok = client_send(fd, out.data, out.length);
    buffer_free(&out);
    return ok;
}

/* ---- answers ---- */

const char *response_header(const struct response *r, const char *name) {
    static _Thread_local char value[2000];
    size_t n = strlen(name);
    for (const char *line = r->head.data; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        if (strncasecmp(line, name, n) != 0 || line[n] != ':') continue;
        const char *at = line + n + 1 + strspn(line + n + 1, " ");
        snprintf(value, sizeof value, "%.*s", (int)strcspn(at, "\r\n"), at);
        return value;
    }
    return NULL;
}

/* What a body of chunks holds so far; true when it is complete, with *used the bytes it took. */
static bool read_chunks(const struct buffer *raw, size_t from, struct buffer *body, size_t *used) {
    size_t at = from;
    buffer_clear(body);
    for (;;) {
        const char *line = raw->data + at, *end = memchr(line, '\n', raw->length - at);
        if (!end) return false;
        size_t n = strtoul(line, NULL, 16), next = (size_t)(end + 1 - raw->data);
        if (next + n + 2 > raw->length) return false;
        buffer_append(body, raw->data + next, n);
        at = next + n + 2;
        if (!n) break;
    }
    *used = at;
    return true;
}

static bool is_whole(struct response *r, struct buffer *raw, bool ended) {
    const char *gap = raw->length ? memmem(raw->data, raw->length, "\r\n\r\n", 4) : NULL;
    if (!gap) return false;
    size_t head = (size_t)(gap + 4 - raw->data), used;
    buffer_clear(&r->head);
    buffer_append(&r->head, raw->data, head);
    r->status = atoi(raw->data + 9);
    if (r->status == 100) {
        memmove(raw->data, raw->data + head, raw->length - head + 1);
        raw->length -= head;
        return is_whole(r, raw, ended);
    }
    const char *length = response_header(r, "Content-Length"), *coding;
    if (r->status == 204 || r->status == 304) {
        used = head;
    } else if (length) {
        used = head + strtoul(length, NULL, 10);
        buffer_clear(&r->body);
        buffer_append(&r->body, raw->data + head, (raw->length < used ? raw->length : used) - head);
        if (raw->length < used) return false;
    } else if ((coding = response_header(r, "Transfer-Encoding")) && !strcmp(coding, "chunked")) {
        if (!read_chunks(raw, head, &r->body, &used)) return false;
    } else {
        buffer_clear(&r->body);
        buffer_append(&r->body, raw->data + head, raw->length - head);
        if (!ended) return false;
        used = raw->length;
    }
    buffer_clear(&r->extra);
    buffer_append(&r->extra, raw->data + used, raw->length - used);
    return r->is_complete = true;
}

bool client_receive(int fd, struct response *r, struct buffer *ahead, int timeout_ms) {
    struct buffer raw = {0};
    uint64_t start = clock_now_ns();
    bool ended = false;
    *r = (struct response){0};
    if (ahead && ahead->length) buffer_append(&raw, ahead->data, ahead->length);
    if (ahead) buffer_clear(ahead);
    while (!is_whole(r, &raw, ended) && !ended) {
        char chunk[65536];
        int left = timeout_ms - (int)(clock_seconds_since(start) * 1e3);
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (left <= 0 || poll(&wait, 1, left) <= 0) break;
        ssize_t n = recv(fd, chunk, sizeof chunk, 0);
        if (n <= 0)
            ended = true;
        else
            buffer_append(&raw, chunk, (size_t)n);
    }
    buffer_append(&r->body, "", 0);
    buffer_free(&raw);
    return r->is_complete;
}

void response_free(struct response *r) {
    buffer_free(&r->head);
    buffer_free(&r->body);
    buffer_free(&r->extra);
}

bool http_ask(const struct test_server *s, const char *method, const char *path, const char *body, struct response *r) {
    int fd = client_connect(s);
    *r = (struct response){0};
    bool ok = fd >= 0 && client_request(fd, method, path, body, "") && client_receive(fd, r, NULL, 60000);
    if (fd >= 0) close(fd);
    return ok;
}

/* ---- JSON ---- */

const struct json *response_json(const struct response *r, struct arena *arena) {
    struct mx_error err;
    char *copy = arena_copy(arena, r->body.data ? r->body.data : "", r->body.length);
    return json_parse(arena, copy, r->body.length, 0, 64, &err);
}

const struct json *http_ask_json(const struct test_server *server, const char *method, const char *path,
                                 const char *body, int *status, struct arena *arena) {
    struct response r;
    http_ask(server, method, path, body, &r);
    const struct json *json = response_json(&r, arena);
    if (!json) tap_note("%s: status %d: %.200s", path, r.status, r.body.data ? r.body.data : "");
    *status = r.status;
    response_free(&r);
    return json;
}

bool server_is_healthy(const struct test_server *server) {
    struct response r;
    http_ask(server, "GET", "/health", NULL, &r);
    response_free(&r);
    return r.status == 200;
}

double server_metric(const struct test_server *server, const char *name) {
    struct response r;
    char line[128];
    double value = -1;
    http_ask(server, "GET", "/metrics", NULL, &r);
    snprintf(line, sizeof line, "\n%s ", name);
    const char *at = r.body.data ? strstr(r.body.data, line) : NULL;
    if (at) value = strtod(at + strlen(line), NULL);
    response_free(&r);
    return value;
}

int server_n_busy(const struct test_server *server) {
    struct arena arena = {0};
    int status, n = 0;
    const struct json *slots = http_ask_json(server, "GET", "/slots", NULL, &status, &arena);
    if (!json_is_array(slots)) n = -1;
    for (uint32_t i = 0; n >= 0 && i < slots->count; i++)
        n += json_bool(json_get(&slots->items[i], "is_processing"), false);
    arena_free(&arena);
    return n;
}

const struct json *json_path(const struct json *value, const char *path) {
    while (value && *path) {
        char key[64];
        size_t n = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)n, path);
        value = json_is_array(value) ? json_at(value, strtoul(key, NULL, 10)) : json_get(value, key);
        path += n + (path[n] == '.');
    }
    return value;
}

const char *json_text(const struct json *value, const char *path, struct arena *arena) {
    const char *text = json_string_copy(arena, json_path(value, path));
    return text ? text : "";
}

size_t sse_visit(const struct response *r, struct arena *arena,
                 void (*visit)(void *context, const char *event, const struct json *data), void *context) {
    size_t n = 0;
    char event[80] = "";
    for (const char *line = r->body.data; line && *line;) {
        size_t length = strcspn(line, "\n");
        if (!strncmp(line, "event: ", 7)) snprintf(event, sizeof event, "%.*s", (int)(length - 7), line + 7);
        if (!strncmp(line, "data: ", 6)) {
            struct mx_error err;
            const struct json *data = line[6] == '{' ? json_parse(arena, line + 6, length - 6, 0, 64, &err) : NULL;
            visit(context, event, data);
            *event = '\0';
            n++;
        }
        line += length + (line[length] == '\n');
    }
    return n;
}

struct join {
    const char *path;
    struct buffer *out;
};

static void join_one(void *context, const char *event, const struct json *data) {
    struct join *j = context;
    const struct json *v = json_path(data, j->path);
    (void)event;
    if (json_is_string(v)) buffer_append(j->out, v->string, v->count);
}

void sse_join(const struct response *r, const char *path, struct buffer *out) {
    struct arena arena = {0};
    struct join join = {path, out};
    buffer_append(out, "", 0);
    sse_visit(r, &arena, join_one, &join);
    arena_free(&arena);
}
