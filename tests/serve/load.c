/* SPDX-License-Identifier: Apache-2.0 */
/* Many requests of mixed kinds from several clients at a time: right ones, broken ones, ones that are cut off anywhere. At
 * the end the server lives, nothing is busy, its memory has stopped growing, and every answer that was finished is the one
 * that the same request got alone. 400 requests, fewer under a sanitizer; with MLXCEL_TEST_FULL=1 10,000, which take
 * minutes; MLXCEL_LOAD sets another number. */
#include "tests/support/http_client.h"
#include "tests/support/tap.h"

#include "base/clock.h"
#include "base/rng.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { N_REQUESTS = 60 };
#else
enum { N_REQUESTS = 400 };
#endif
enum { N_CLIENTS = 8, N_KINDS = 12 };

static struct test_server server;
static atomic_int n_left, n_right, n_wrong, n_cut;
static char *oracles[N_KINDS];

struct kind {
    const char *path, *body, *member; /* of the answer that is compared */
    bool streams;
};

#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"Tell me about the sea.\"}]"
static const struct kind kinds[N_KINDS] = {
    {"/v1/completions", "{\"prompt\":\"The sea\",\"max_tokens\":20,\"temperature\":0}", "choices.0.text", false},
    {"/v1/completions", "{\"prompt\":\"A king of\",\"max_tokens\":40,\"seed\":5,\"temperature\":1,\"stream\":true}",
     "choices.0.text", true},
    {"/v1/chat/completions", "{" MESSAGES ",\"max_tokens\":30,\"seed\":9}", "choices.0.message.content", false},
    {"/v1/chat/completions",
     "{" MESSAGES ",\"max_tokens\":30,\"seed\":9,\"stream\":true,\"logprobs\":true,\"top_logprobs\":2}",
     "choices.0.delta.content", true},
    {"/v1/messages", "{" MESSAGES ",\"max_tokens\":25,\"temperature\":0,\"stream\":true}", "delta.text", true},
    {"/completion", "{\"prompt\":\"Once\",\"n_predict\":15,\"temperature\":0,\"stream\":true}", "content", true},
    {"/api/generate",
     "{\"model\":\"novels-24m-4bit\",\"prompt\":\"Hi\",\"stream\":false,\"options\":{\"num_predict\":12,"
     "\"temperature\":0}}",
     "response", false},
    {"/v1/responses", "{\"input\":\"Tell me.\",\"max_output_tokens\":12,\"temperature\":0}", "output.0.content.0.text",
     false},
    {"/v1/chat/completions",
     "{" MESSAGES ",\"max_tokens\":60,\"seed\":2,\"response_format\":{\"type\":\"json_object\"}}",
     "choices.0.message.content", false},
    {"/v1/embeddings", "{\"input\":[\"The sea\",\"the king\"],\"encoding_format\":\"base64\"}", "data.1.embedding",
     false},
    {"/tokenize", "{\"content\":\"The sea\",\"with_pieces\":true}", "tokens.0.piece", false},
    {"/v1/completions", "{\"prompt\":\"No\",\"max_tokens\":5,\"temperature\":-1}", "error.param", false},
};

/* What is compared, malloc'ed; NULL for an answer that is not whole. */
static char *essence(const struct response *r, const struct kind *kind) {
    struct buffer text = {0};
    struct arena arena = {0};
    if (!r->is_complete) return NULL;
    if (kind->streams)
        sse_join(r, kind->member, &text);
    else
        buffer_puts(&text, json_text(response_json(r, &arena), kind->member, &arena));
    arena_free(&arena);
    return buffer_take(&text);
}

static char *ask_alone(const struct kind *kind) {
    struct response r;
    http_ask(&server, "POST", kind->path, kind->body, &r);
    char *text = essence(&r, kind);
    response_free(&r);
    return text;
}

static uint32_t below(uint64_t *state, uint32_t n) { return (uint32_t)(rng_next(state) >> 33) % n; }

static void count(const struct response *r, int number) {
    char *text = essence(r, &kinds[number]);
    bool right = text && !strcmp(text, oracles[number]);
    atomic_fetch_add(right ? &n_right : &n_wrong, 1);
    if (!right && atomic_load(&n_wrong) < 5)
        tap_note("kind %d: %d '%.80s' instead of '%.80s': %.300s", number, r->status, text ? text : "(cut)",
                 oracles[number], r->body.data ? r->body.data : "");
    free(text);
}

static void compare(int fd, int number, struct buffer *ahead) {
    struct response r;
    client_receive(fd, &r, ahead, 120000);
    count(&r, number);
    if (ahead) buffer_append(ahead, r.extra.data ? r.extra.data : "", r.extra.length);
    response_free(&r);
}

/* Sends all or the beginning of a request and goes away, by FIN or RST. */
static void cut_off(uint64_t *state, int number) {
    const struct kind *k = &kinds[number];
    struct buffer out = {0};
    struct linger hard = {.l_onoff = 1};
    char some[512];
    int fd = client_connect(&server);
    buffer_printf(&out, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%s", k->path, strlen(k->body),
                  k->body);
    client_send(fd, out.data, below(state, 3) ? out.length : below(state, (uint32_t)out.length));
    if (below(state, 2)) poll(NULL, 0, (int)below(state, 12));
    if (below(state, 3) == 0) {
        ssize_t ignored = recv(fd, some, sizeof some, MSG_DONTWAIT);
        (void)ignored;
    }
    if (below(state, 3) == 0) shutdown(fd, SHUT_WR);
    if (below(state, 2)) setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(fd);
    buffer_free(&out);
    atomic_fetch_add(&n_cut, 1);
}

static void send_rubbish(uint64_t *state) {
    char bytes[600];
    struct response r;
    int fd = client_connect(&server);
    size_t n = below(state, sizeof bytes);
    for (size_t i = 0; i < n; i++) bytes[i] = (char)rng_next(state);
    if (below(state, 2))
        client_puts(fd, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 300\r\n\r\n");
    client_send(fd, bytes, n);
    shutdown(fd, SHUT_WR);
    client_receive(fd, &r, NULL, 2000);
    response_free(&r);
    close(fd);
}

static void pipeline(uint64_t *state) {
    int numbers[4], fd = client_connect(&server);
    struct buffer ahead = {0};
    for (int i = 0; i < 4; i++) {
        numbers[i] = (int)below(state, N_KINDS);
        client_request(fd, "POST", kinds[numbers[i]].path, kinds[numbers[i]].body, "");
    }
    for (int i = 0; i < 4; i++) compare(fd, numbers[i], &ahead);
    buffer_free(&ahead);
    close(fd);
}

/* Takes its answer in small bites, with pauses. */
static void read_slowly(uint64_t *state, int number) {
    int fd = client_connect(&server), small = 1;
    struct response r;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    client_request(fd, "POST", kinds[number].path, kinds[number].body, "Connection: close\r\n");
    struct buffer ahead = {0};
    char bite[48];
    for (int i = 0; i < 20; i++) {
        ssize_t n = recv(fd, bite, sizeof bite, 0);
        if (n <= 0) break;
        buffer_append(&ahead, bite, (size_t)n);
        poll(NULL, 0, (int)below(state, 8));
    }
    client_receive(fd, &r, &ahead, 120000);
    count(&r, number);
    response_free(&r);
    buffer_free(&ahead);
    close(fd);
}

/* A body over the limit, with a length or in chunks, of which a part is sent. */
static void send_too_much(uint64_t *state) {
    static char blanks[1 << 16];
    struct response r;
    int fd = client_connect(&server);
    bool is_chunked = below(state, 2);
    client_puts(fd, is_chunked ? "POST /completion HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                               : "POST /completion HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n");
    bool goes_on = true;
    for (int i = 0; goes_on && i < 40; i++) {
        if (is_chunked) goes_on = client_puts(fd, "10000\r\n");
        goes_on = goes_on && client_send(fd, blanks, sizeof blanks);
        if (is_chunked) goes_on = goes_on && client_puts(fd, "\r\n");
    }
    client_receive(fd, &r, NULL, 60000);
    if (r.status && r.status != 413) {
        atomic_fetch_add(&n_wrong, 1);
        tap_note("too large a body: %d", r.status);
    }
    response_free(&r);
    close(fd);
}

static void *run_client(void *context) {
    uint64_t state = *(const uint64_t *)context;
    int fd = -1;
    while (atomic_fetch_sub(&n_left, 1) > 0) {
        int number = (int)below(&state, N_KINDS);
        uint32_t what = below(&state, 20);
        if (what < 6)
            cut_off(&state, number);
        else if (what < 8)
            send_rubbish(&state);
        else if (what < 10)
            pipeline(&state);
        else if (what == 10)
            read_slowly(&state, number);
        else if (what == 11)
            send_too_much(&state);
        else {
            if (fd < 0) fd = client_connect(&server);
            client_request(fd, "POST", kinds[number].path, kinds[number].body, "");
            compare(fd, number, NULL);
            if (below(&state, 3) == 0) {
                close(fd);
                fd = -1;
            }
        }
    }
    if (fd >= 0) close(fd);
    return NULL;
}

/* Memory of its own, in KiB. */
static long memory_kib(void) {
    char path[64], line[200];
    long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)server.pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Private_Dirty: %ld kB", &kib) == 1) break;
    if (file) fclose(file);
    return kib;
}

static void run_round(int n, uint64_t seed) {
    pthread_t threads[N_CLIENTS];
    uint64_t seeds[N_CLIENTS];
    atomic_store(&n_left, n);
    for (int i = 0; i < N_CLIENTS; i++) {
        seeds[i] = seed * 100 + (uint64_t)i + 1;
        pthread_create(&threads[i], NULL, run_client, &seeds[i]);
    }
    for (int i = 0; i < N_CLIENTS; i++) pthread_join(threads[i], NULL);
}

static bool is_working(void) {
    return server_metric(&server, "llamacpp:requests_processing") != 0 ||
           server_metric(&server, "llamacpp:requests_deferred") != 0;
}

int main(void) {
    const char *wanted = getenv("MLXCEL_LOAD"), *full = getenv("MLXCEL_TEST_FULL");
    int n = wanted ? atoi(wanted) : full && *full == '1' ? 10000 : N_REQUESTS;
    signal(SIGPIPE, SIG_IGN);
    if (!server_start(&server, NULL,
                      (const char *const[]){"--log-disable", "--metrics", "--parallel", "6", "--max-queue-depth",
                                            "1000", "--max-body-size", "1", NULL}))
        return 1;
    for (int i = 0; i < N_KINDS; i++) {
        oracles[i] = ask_alone(&kinds[i]);
        if (!oracles[i] || !*oracles[i]) return tap_ok(false, "kind %d has an answer", i), tap_done();
    }
    run_round(n / 2, 1);
    long half = memory_kib();
    run_round(n - n / 2, 2);
    long end = memory_kib();
    uint64_t start = clock_now_ns();
    while ((server_n_busy(&server) > 0 || is_working()) && clock_seconds_since(start) < 20) poll(NULL, 0, 10);
    tap_ok(server_n_busy(&server) == 0, "no slot is busy");
    tap_ok(!is_working(), "nothing runs or waits, say the metrics");
    tap_ok(server_is_healthy(&server), "the server is healthy");
    tap_ok(n_wrong == 0 && n_right > n / 3, "%d answers are those of each alone, %d are not; %d requests were cut off",
           n_right, n_wrong, n_cut);
    tap_ok(end < half + half / 5 + 4096, "memory: %ld KiB at half time, %ld KiB at the end", half, end);
    tap_ok(server_stop(&server, 10000) == 0, "the server ends well");
    for (int i = 0; i < N_KINDS; i++) free(oracles[i]);
    return tap_done();
}
