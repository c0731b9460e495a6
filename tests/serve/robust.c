/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that vanish, dawdle, rush ahead or send rubbish; full queues; many at a time; the end of the server. */
#include "tests/support/http_client.h"
#include "tests/support/tap.h"

#include "base/clock.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct test_server server;
static struct arena arena;

#define TEXT "/v1/completions"
/* Longer than any test waits: the bundled model's whole context. */
#define LONG "{\"prompt\":\"The sea\",\"ignore_eos\":true,\"temperature\":0%s}"

static void wait_ms(int ms) { poll(NULL, 0, ms); }

static bool becomes_idle(int timeout_ms) {
    uint64_t start = clock_now_ns();
    while (clock_seconds_since(start) * 1e3 < timeout_ms) {
        if (server_n_busy(&server) == 0) return true;
        wait_ms(2);
    }
    return false;
}

static char *long_body(const char *more) { return arena_printf(&arena, LONG, more); }

/* ---- clients that vanish ---- */

static void vanish(const char *name, const char *more, int after_ms, bool reset) {
    int fd = client_connect(&server);
    struct linger hard = {.l_onoff = 1};
    client_request(fd, "POST", TEXT, long_body(more), "");
    if (after_ms) wait_ms(after_ms);
    int before = after_ms ? server_n_busy(&server) : 1;
    if (reset) setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(fd);
    uint64_t start = clock_now_ns();
    bool idle = becomes_idle(2000);
    if (!tap_ok(before == 1 && idle && clock_seconds_since(start) < 0.3, "a client vanishes: %s", name))
        tap_note("busy before %d, idle %d after %.3f s", before, idle, clock_seconds_since(start));
}

static void test_vanishing(void) {
    vanish("while its answer streams", ",\"stream\":true", 40, false);
    vanish("while its answer is collected", "", 40, false);
    vanish("with a reset", ",\"stream\":true", 40, true);
    vanish("right after sending", "", 0, false);
    int fd = client_connect(&server);
    client_request(fd, "POST", TEXT, long_body(""), "");
    wait_ms(30);
    shutdown(fd, SHUT_WR);
    tap_ok(becomes_idle(500), "an end of data while an answer is made ends it");
    close(fd);
}

static bool becomes_busy(int n, int timeout_ms) {
    uint64_t start = clock_now_ns();
    while (clock_seconds_since(start) * 1e3 < timeout_ms)
        if (server_n_busy(&server) == n) return true;
    return false;
}

/* A runs; B waits behind it and goes: A is unharmed. */
static void test_queued_cancel(void) {
    struct test_server all = server;
    struct response r;
    bool was_seen = false;
    int64_t n_generated = 0;
    if (!server_start(&server, NULL, (const char *const[]){"--log-disable", "--parallel", "1", NULL})) return;
    /* A busy machine may let A end in between. */
    for (int i = 0; i < 5 && !was_seen; i++) {
        int a = client_connect(&server), b = client_connect(&server);
        client_request(a, "POST", TEXT, "{\"prompt\":\"The sea\",\"ignore_eos\":true,\"max_tokens\":900}", "");
        becomes_busy(1, 1000);
        client_request(b, "POST", TEXT, long_body(""), "");
        was_seen = becomes_busy(2, 200);
        close(b);
        was_seen = was_seen && becomes_busy(1, 200);
        client_receive(a, &r, NULL, 60000);
        n_generated = json_integer(json_path(response_json(&r, &arena), "usage.completion_tokens"), 0);
        response_free(&r);
        close(a);
    }
    tap_ok(was_seen, "a waiting request goes with its client");
    tap_ok(n_generated == 900, "and the running one goes on to its end");
    server_stop(&server, 10000);
    server = all;
}

/* ---- HTTP ---- */

static int status_of(const char *request) {
    struct response r;
    int fd = client_connect(&server);
    client_puts(fd, request);
    client_receive(fd, &r, NULL, 5000);
    int status = r.status;
    response_free(&r);
    close(fd);
    return status;
}

static void test_heads(void) {
    static const struct {
        const char *name, *request;
        int status;
    } cases[] = {
        {"rubbish", "rubbish\r\n\r\n", 400},
        {"no version", "GET /health\r\n\r\n", 400},
        {"HTTP/2", "GET /health HTTP/2.0\r\n\r\n", 505},
        {"no host", "GET /health HTTP/1.1\r\n\r\n", 400},
        {"HTTP/1.0", "GET /health HTTP/1.0\r\n\r\n", 200},
        {"lines that end in LF", "GET /health HTTP/1.1\nHost: x\n\n", 200},
        {"the absolute form", "GET http://x/health HTTP/1.1\r\nHost: x\r\n\r\n", 200},
        {"an escaped path", "GET /%68ealth HTTP/1.1\r\nHost: x\r\n\r\n", 200},
        {"a NUL in the path", "GET /health%00 HTTP/1.1\r\nHost: x\r\n\r\n", 400},
        {"a folded line", "GET /health HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", 400},
        {"a space before the colon", "GET /health HTTP/1.1\r\nHost : x\r\n\r\n", 400},
        {"two lengths", "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400},
        {"length and chunks",
         "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", 400},
        {"a negative length", "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400},
        {"a huge length", "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n", 413},
        {"an endless length", "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
         400},
        {"another coding", "POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
        {"another expectation", "POST /tokenize HTTP/1.1\r\nHost: x\r\nExpect: tea\r\nContent-Length: 2\r\n\r\n{}",
         417},
        {"chunks",
         "POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
         "c;x=y\r\n{\"content\":\"\r\n3\r\na\"}\r\n0\r\nTrailer: x\r\n\r\n",
         200},
        {"a broken chunk", "POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400},
        {"a huge chunk", "POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n", 413},
        {"empty lines first", "\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n", 200},
        {"an unknown method", "BREW /health HTTP/1.1\r\nHost: x\r\n\r\n", 405},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int status = status_of(cases[i].request);
        if (!tap_ok(status == cases[i].status, "%s: %d", cases[i].name, cases[i].status)) tap_note("found %d", status);
    }
    struct buffer big = {0};
    buffer_puts(&big, "GET /health HTTP/1.1\r\nHost: x\r\nA: ");
    for (int i = 0; i < 5000; i++) buffer_puts(&big, "0123456789");
    buffer_puts(&big, "\r\n\r\n");
    tap_ok(status_of(big.data) == 431, "a head that is too large: 431");
    buffer_clear(&big);
    buffer_puts(&big, "GET /health HTTP/1.1\r\nHost: x\r\n");
    for (int i = 0; i < 200; i++) buffer_printf(&big, "A%d: b\r\n", i);
    buffer_puts(&big, "\r\n");
    tap_ok(status_of(big.data) == 431, "too many header lines: 431");
    buffer_free(&big);
}

static void test_expectation(void) {
    struct response r;
    char interim[64] = "";
    int fd = client_connect(&server);
    client_puts(fd, "POST /tokenize HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 15\r\n\r\n");
    ssize_t n = recv(fd, interim, sizeof interim - 1, 0);
    client_puts(fd, "{\"content\":\"a\"}");
    client_receive(fd, &r, NULL, 5000);
    tap_ok(n > 12 && !memcmp(interim, "HTTP/1.1 100", 12) && r.status == 200, "Expect: 100-continue");
    response_free(&r);
    close(fd);
}

static void test_pipelining(void) {
    struct response r;
    struct buffer ahead = {0};
    int fd = client_connect(&server), n_right = 0;
    const char *body = "{\"prompt\":\"A\",\"max_tokens\":3,\"temperature\":0}";
    for (int i = 0; i < 5; i++) {
        client_request(fd, "GET", "/health", NULL, "");
        client_request(fd, "POST", TEXT, body, "");
    }
    for (int i = 0; i < 10; i++) {
        client_receive(fd, &r, &ahead, 10000);
        bool right = r.status == 200 && strstr(r.body.data, i % 2 ? "text_completion" : "\"ok\"");
        n_right += right;
        buffer_append(&ahead, r.extra.data ? r.extra.data : "", r.extra.length);
        response_free(&r);
    }
    tap_ok(n_right == 10, "pipelined requests are answered in their order");
    buffer_free(&ahead);
    close(fd);
    fd = client_connect(&server);
    client_puts(fd, "GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n");
    shutdown(fd, SHUT_WR);
    char all[4096];
    size_t length = 0;
    for (ssize_t k; length < sizeof all - 1 && (k = recv(fd, all + length, sizeof all - 1 - length, 0)) > 0;)
        length += (size_t)k;
    all[length] = '\0';
    const char *first = strstr(all, "{\"status\":\"ok\"}");
    tap_ok(first && strstr(first + 1, "{\"status\":\"ok\"}"), "half-closed: what was asked is answered");
    close(fd);
}

static void test_large_bodies(void) {
    struct response r;
    size_t n = 40u << 20;
    char *blanks = malloc(n);
    int fd = client_connect(&server);
    memset(blanks, ' ', n);
    client_puts(fd, "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 41943040\r\n\r\n");
    client_send(fd, blanks, n);
    client_receive(fd, &r, NULL, 10000);
    tap_ok(r.status == 413, "a body over the limit is a 413 that the client gets to see");
    response_free(&r);
    close(fd);
    fd = client_connect(&server);
    client_puts(fd, "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 20971520\r\n\r\n");
    client_send(fd, blanks, 20u << 20);
    client_receive(fd, &r, NULL, 20000);
    tap_ok(r.status == 400, "twenty megabytes of blanks are read, and are no JSON");
    response_free(&r);
    close(fd);
    free(blanks);
}

/* A small receive buffer, and reads that take their time. */
static void test_slow_reader(void) {
    struct response r, fast;
    struct buffer text = {0}, quick = {0};
    int fd = client_connect(&server), small = 2048;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    const char *body = "{\"prompt\":\"The "
                       "sea\",\"ignore_eos\":true,\"temperature\":0,\"max_tokens\":300,\"stream\":true,\"logprobs\":5}";
    client_request(fd, "POST", TEXT, body, "");
    wait_ms(1000);
    tap_ok(server_is_healthy(&server), "the server is not held up by a client that does not read");
    client_receive(fd, &r, NULL, 60000);
    http_ask(&server, "POST", TEXT, body, &fast);
    sse_join(&r, "choices.0.text", &text);
    sse_join(&fast, "choices.0.text", &quick);
    tap_ok(r.is_complete && text.length > 500 && !strcmp(text.data, quick.data), "a slow reader gets all of it");
    response_free(&r);
    response_free(&fast);
    buffer_free(&text);
    buffer_free(&quick);
    close(fd);
}

/* ---- many ---- */

static void test_concurrent(void) {
    enum { N = 24 };
    static const char *const starts[] = {"The sea",  "A king", "In the morning",
                                         "She said", "Nobody", "It was a long road and"};
    char *alone[N];
    int fds[N], n_equal = 0;
    for (int i = 0; i < N; i++) {
        struct response r;
        char *body = arena_printf(&arena, "{\"prompt\":\"%s\",\"max_tokens\":%d,\"seed\":%d,\"temperature\":1}",
                                  starts[i % 6], 5 + 4 * i, i);
        http_ask(&server, "POST", TEXT, body, &r);
        alone[i] = arena_printf(&arena, "%s", json_text(response_json(&r, &arena), "choices.0.text", &arena));
        response_free(&r);
    }
    for (int i = 0; i < N; i++) {
        char *body =
            arena_printf(&arena, "{\"prompt\":\"%s\",\"max_tokens\":%d,\"seed\":%d,\"temperature\":1,\"stream\":%s}",
                         starts[i % 6], 5 + 4 * i, i, i % 2 ? "true" : "false");
        fds[i] = client_connect(&server);
        client_request(fds[i], "POST", TEXT, body, "");
        if (i % 5 == 4) { /* one that goes away in between */
            int fd = client_connect(&server);
            client_request(fd, "POST", TEXT, long_body(",\"stream\":true"), "");
            wait_ms(3);
            close(fd);
        }
    }
    for (int i = 0; i < N; i++) {
        struct response r;
        struct buffer joined = {0};
        client_receive(fds[i], &r, NULL, 120000);
        if (i % 2)
            sse_join(&r, "choices.0.text", &joined);
        else
            buffer_puts(&joined, json_text(response_json(&r, &arena), "choices.0.text", &arena));
        bool equal = *alone[i] && !strcmp(joined.data, alone[i]);
        if (!equal) tap_note("%d: '%.60s' instead of '%.60s'", i, joined.data, alone[i]);
        n_equal += equal;
        buffer_free(&joined);
        response_free(&r);
        close(fds[i]);
    }
    tap_ok(n_equal == N, "%d answers at a time are those of each alone", N);
    tap_ok(becomes_idle(2000), "and then nothing is busy");
}

static void test_full_queue(void) {
    struct test_server all = server;
    struct response r;
    if (!server_start(&server, NULL,
                      (const char *const[]){"--log-disable", "--parallel", "2", "--max-queue-depth", "1", NULL}))
        return;
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = client_connect(&server);
        client_request(fds[i], "POST", TEXT, long_body(",\"stream\":true"), "");
    }
    wait_ms(50);
    http_ask(&server, "POST", TEXT, long_body(""), &r);
    const char *after = response_header(&r, "Retry-After");
    tap_ok(r.status == 429 && after && atoi(after) >= 1, "a full queue is a 429 with Retry-After");
    response_free(&r);
    http_ask(&server, "GET", "/slots?fail_on_no_slot=1", NULL, &r);
    tap_ok(r.status == 503, "and no slot is free");
    response_free(&r);
    tap_ok(server_is_healthy(&server), "but the server is healthy");
    for (int i = 0; i < 3; i++) close(fds[i]);
    becomes_idle(2000);
    http_ask(&server, "POST", TEXT, "{\"prompt\":\"A\",\"max_tokens\":2}", &r);
    tap_ok(r.status == 200, "later there is room again");
    response_free(&r);
    server_stop(&server, 10000);
    server = all;
}

/* One at a time: who is more important goes first, whoever came first. */
static void test_priority(void) {
    struct test_server all = server;
    struct response r;
    char byte;
    if (!server_start(&server, NULL, (const char *const[]){"--log-disable", "--parallel", "1", NULL})) return;
    int a = client_connect(&server), low = client_connect(&server), high = client_connect(&server);
    client_request(a, "POST", TEXT, "{\"prompt\":\"The sea\",\"ignore_eos\":true,\"max_tokens\":600}", "");
    becomes_busy(1, 2000);
    client_request(low, "POST", TEXT, long_body(""), "X-Priority: low\r\n");
    becomes_busy(2, 2000);
    client_request(high, "POST", TEXT, "{\"prompt\":\"A\",\"max_tokens\":5,\"priority\":3}", "");
    client_receive(high, &r, NULL, 120000);
    bool waits = recv(low, &byte, 1, MSG_DONTWAIT) < 0;
    tap_ok(r.status == 200 && waits, "a request of higher priority overtakes");
    response_free(&r);
    close(a);
    close(low);
    close(high);
    server_stop(&server, 10000);
    server = all;
}

/* ---- limits of time ---- */

static void test_timeouts(void) {
    struct test_server all = server;
    struct response r;
    if (!server_start(&server, NULL,
                      (const char *const[]){"--log-disable", "--parallel", "1", "--queue-timeout", "0.6",
                                            "--header-timeout", "1", "--sse-ping-interval", "0.2", NULL}))
        return;
    int a = client_connect(&server), b = client_connect(&server), slow = client_connect(&server);
    client_puts(slow, "POST /tokenize HTTP/1.1\r\nHo");
    client_request(a, "POST", TEXT, "{\"prompt\":\"The sea\",\"ignore_eos\":true,\"n\":1,\"stream\":true}", "");
    wait_ms(20);
    client_request(b, "POST", TEXT, long_body(",\"stream\":true"), "");
    client_receive(b, &r, NULL, 5000);
    /* On a fast machine the first one may end before. */
    tap_ok(r.is_complete && (strstr(r.body.data, "waited longer") || strstr(r.body.data, "[DONE]")),
           "who waits too long is told so");
    if (strstr(r.body.data, "waited longer"))
        tap_ok(strstr(r.body.data, ": ping\n\n") != NULL, "and hears that the server lives, before that");
    response_free(&r);
    client_receive(slow, &r, NULL, 5000);
    tap_ok(r.status == 408, "half a head: 408");
    response_free(&r);
    close(a);
    close(b);
    close(slow);
    server_stop(&server, 10000);
    server = all;
}

/* ---- the end ---- */

static void test_drain(void) {
    struct response r, refused;
    struct test_server drained;
    if (!server_start(&drained, NULL, (const char *const[]){"--log-disable", NULL})) return;
    int idle = client_connect(&drained), busy = client_connect(&drained), late = client_connect(&drained);
    client_request(late, "GET", "/health", NULL, "");
    client_receive(late, &refused, NULL, 2000);
    response_free(&refused);
    client_request(busy, "POST", TEXT,
                   "{\"prompt\":\"The sea\",\"ignore_eos\":true,\"max_tokens\":300,\"stream\":true}", "");
    wait_ms(60);
    kill(drained.pid, SIGTERM);
    wait_ms(100);
    tap_ok(client_connect(&drained) < 0, "a draining server takes no connection");
    client_receive(busy, &r, NULL, 120000);
    tap_ok(r.is_complete && strstr(r.body.data, "[DONE]"), "what runs is finished");
    response_free(&r);
    uint64_t start = clock_now_ns();
    tap_ok(server_wait(&drained, 10000) == 0 && clock_seconds_since(start) < 5, "then it exits, with 0");
    close(idle);
    close(busy);
    close(late);
    if (!server_start(&drained, NULL, (const char *const[]){"--log-disable", NULL})) return;
    start = clock_now_ns();
    tap_ok(server_stop(&drained, 5000) == 0 && clock_seconds_since(start) < 0.5, "an idle server exits at once");
    if (!server_start(&drained, NULL, (const char *const[]){"--log-disable", NULL})) return;
    busy = client_connect(&drained);
    client_request(busy, "POST", TEXT, long_body(",\"n\":4"), "");
    wait_ms(30);
    kill(drained.pid, SIGTERM);
    for (int fd; (fd = client_connect(&drained)) >= 0;) close(fd); /* until it drains */
    start = clock_now_ns();
    kill(drained.pid, SIGTERM);
    client_receive(busy, &r, NULL, 5000);
    tap_ok(r.status == 503, "a second signal ends what runs, with an error");
    response_free(&r);
    tap_ok(server_wait(&drained, 12000) == 0 && clock_seconds_since(start) < 10, "and the server");
    close(busy);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    if (!server_start(&server, NULL, (const char *const[]){"--log-disable", NULL})) return 1;
    test_heads();
    test_expectation();
    test_pipelining();
    test_large_bodies();
    test_vanishing();
    test_queued_cancel();
    test_slow_reader();
    test_concurrent();
    test_full_queue();
    test_priority();
    test_timeouts();
    tap_ok(becomes_idle(2000), "at the end nothing is busy");
    tap_ok(server_stop(&server, 10000) == 0, "the server ends well");
    test_drain();
    arena_free(&arena);
    return tap_done();
}
