/* SPDX-License-Identifier: Apache-2.0 */
/* The web page as HTTP sees it: files, types, policy, tags. What it does is tests/web/check.py's, in a real browser. */
#include "tests/support/http_client.h"
#include "tests/support/tap.h"

#include "base/file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct test_server server;
static struct arena arena;

#define FOLDER SOURCE_DIR "/src/serve/web"

static int ask(const char *method, const char *path, const char *headers, struct response *r) {
    int fd = client_connect(&server);
    *r = (struct response){0};
    if (fd < 0) return 0;
    client_request(fd, method, path, NULL, headers);
    client_receive(fd, r, NULL, 5000);
    close(fd);
    return r->status;
}

static int status_of(const char *method, const char *path, const char *headers) {
    struct response r;
    int status = ask(method, path, headers, &r);
    response_free(&r);
    return status;
}

/* A header's value in the arena; "" when absent. */
static const char *header_of(const struct response *r, const char *name) {
    const char *value = response_header(r, name);
    return value ? arena_printf(&arena, "%s", value) : "";
}

/* What browsers want to see for each ending (RFC 9239 for scripts: modules do not run under another type). */
static const char *type_of(const char *name) {
    const char *dot = strrchr(name, '.');
    if (dot && !strcmp(dot, ".html")) return "text/html; charset=utf-8";
    if (dot && !strcmp(dot, ".css")) return "text/css; charset=utf-8";
    if (dot && !strcmp(dot, ".js")) return "text/javascript; charset=utf-8";
    if (dot && !strcmp(dot, ".svg")) return "image/svg+xml";
    return "?";
}

/* Whether a policy lets pages do no more than they need: what each directive must be, in any order. */
static bool is_strict(const char *policy) {
    static const char *const parts[] = {"default-src 'none'", "script-src 'self'",     "style-src 'self'",
                                        "connect-src 'self'", "img-src 'self' data:",  "base-uri 'none'",
                                        "form-action 'none'", "frame-ancestors 'none'"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *at = strstr(policy, parts[i]);
        if (!at || (at[strlen(parts[i])] != ';' && at[strlen(parts[i])])) return false;
    }
    return !strstr(policy, "unsafe") && !strchr(policy, '*') && strstr(policy, "require-trusted-types-for 'script'");
}

static void test_file(const char *name) {
    struct mx_error err;
    struct response r, again, head;
    size_t length;
    char *text = file_read(arena_printf(&arena, FOLDER "/%s", name), 1 << 20, &length, &err);
    const char *path = arena_printf(&arena, "/%s", name);
    int status = ask("GET", path, "", &r);
    tap_ok(text && status == 200 && r.body.length == length && !memcmp(r.body.data, text, length), "%s is served",
           path);
    tap_ok(!strcmp(header_of(&r, "Content-Type"), type_of(name)) &&
               !strcmp(header_of(&r, "X-Content-Type-Options"), "nosniff"),
           "%s has its type", path);
    tap_ok(is_strict(header_of(&r, "Content-Security-Policy")), "%s has the strict policy", path);
    const char *tag = header_of(&r, "ETag");
    tap_ok(strlen(tag) > 10 && tag[0] == '"' && strstr(header_of(&r, "Cache-Control"), "no-cache"), "%s has a tag",
           path);
    status = ask("GET", path, arena_printf(&arena, "If-None-Match: \"other\", W/%s\r\n", tag), &again);
    tap_ok(status == 304 && again.is_complete && again.body.length == 0 && !strcmp(header_of(&again, "ETag"), tag),
           "%s need not be sent twice", path);
    status = ask("HEAD", path, "Connection: close\r\n", &head);
    tap_ok(status == 200 && head.body.length == 0 && head.extra.length == 0 &&
               (size_t)atol(header_of(&head, "Content-Length")) == length && !strcmp(header_of(&head, "ETag"), tag),
           "%s has a head without a body", path);
    tap_ok(status_of("GET", path, "If-None-Match: \"other\"\r\n") == 200, "%s is sent for another tag", path);
    response_free(&r);
    response_free(&again);
    response_free(&head);
    free(text);
}

static void test_files(void) {
    DIR *folder = opendir(FOLDER);
    int n = 0;
    for (struct dirent *e; folder && (e = readdir(folder));) {
        if (e->d_name[0] == '.') continue;
        n++;
        test_file(e->d_name);
    }
    if (folder) closedir(folder);
    tap_ok(n >= 3, "the page has files: %d", n);
}

/* What the page asks for with src= and href= must be there, and nothing in it may need a weaker policy. */
static void test_page(void) {
    struct response root, index;
    int one = ask("GET", "/", "", &root), two = ask("GET", "/index.html", "", &index), n = 0;
    tap_ok(one == 200 && two == 200 && root.body.length == index.body.length && root.body.length > 0 &&
               !memcmp(root.body.data, index.body.data, root.body.length) &&
               !strcmp(header_of(&root, "Content-Type"), "text/html; charset=utf-8"),
           "/ is the page");
    buffer_putc(&root.body, '\0');
    const char *text = root.body.data ? root.body.data : "";
    static const char *const inlined[] = {"<style",  " style=",     "<script>",  " onclick",
                                          " onload", "javascript:", "http-equiv"};
    for (size_t i = 0; i < sizeof inlined / sizeof *inlined; i++)
        tap_ok(!strstr(text, inlined[i]), "the page has no %s", inlined[i]);
    static const char *const attributes[] = {"src=\"", "href=\""};
    for (size_t i = 0; i < 2; i++) {
        for (const char *at = text; (at = strstr(at, attributes[i]));) {
            at += strlen(attributes[i]);
            if (*at == '#') continue;
            const char *path = arena_printf(&arena, "/%.*s", (int)strcspn(at, "\""), at);
            tap_ok(!strstr(path, "//") && status_of("GET", path, "") == 200, "%s is there", path);
            n++;
        }
    }
    tap_ok(n >= 3, "the page asks for %d files", n);
    response_free(&root);
    response_free(&index);
}

static void test_others(void) {
    static const char *const unknown[] = {"/nothing.js", "/app.js/",      "/App.js",      "/web/app.js", "/../web.c",
                                          "/app.jsx",    "/%2e%2e/web.c", "/favicon.ico", "/.",          "/app"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        struct response r;
        int status = ask("GET", unknown[i], "", &r);
        const struct json *json = response_json(&r, &arena);
        tap_ok((status == 404 && *json_text(json, "error.message", &arena)) || status == 400, "%s is not there: %d",
               unknown[i], status);
        response_free(&r);
    }
    struct response r;
    int status = ask("POST", "/", "", &r);
    tap_ok(status == 405 && !strcmp(header_of(&r, "Allow"), "GET, HEAD"), "nothing can be sent to the page: %d",
           status);
    response_free(&r);
}

int main(void) {
    if (server_start(&server, NULL, (const char *const[]){"--log-disable", NULL})) {
        test_files();
        test_page();
        test_others();
        tap_ok(server_stop(&server, 5000) == 0, "the server ends well");
    } else {
        tap_ok(false, "the server starts");
    }
    if (server_start(&server, NULL, (const char *const[]){"--log-disable", "--api-prefix", "/llm", NULL})) {
        tap_ok(status_of("GET", "/llm/", "") == 200 && status_of("GET", "/llm/app.js", "") == 200 &&
                   status_of("GET", "/app.js", "") == 404,
               "with a prefix the page lies below it");
        server_stop(&server, 5000);
    }
    if (server_start(&server, NULL, (const char *const[]){"--log-disable", "--no-webui", NULL})) {
        tap_ok(status_of("GET", "/", "") == 404 && status_of("GET", "/app.js", "") == 404 &&
                   status_of("GET", "/health", "") == 200,
               "without the page nothing of it is there");
        server_stop(&server, 5000);
    }
    arena_free(&arena);
    return tap_done();
}
