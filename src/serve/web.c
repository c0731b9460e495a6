/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/web.h"

#include "serve/api_error.h"
#include "serve/server_parts.h"

#include <stdio.h>
#include <string.h>

static const struct web_file *find(const char *path) {
    const char *name = path + 1;
    if (!*name) name = "index.html";
    for (const struct web_file *f = web_files; f->name; f++)
        if (!strcmp(f->name, name)) return f;
    return NULL;
}

bool web_has(const struct server *server, const char *path) { return server->options->has_web && find(path); }

static const char *content_type(const char *name) {
    static const char *const types[][2] = {
        {".html", "text/html; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
        {".svg", "image/svg+xml"},
        {".png", "image/png"},
        {".ico", "image/x-icon"},
        {".json", "application/json"},
        {".webmanifest", "application/manifest+json"},
    };
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof types / sizeof *types; i++)
        if (!strcmp(dot, types[i][0])) return types[i][1];
    return "application/octet-stream";
}

/* FNV-1a of the bytes: the page changes only with the program. */
static void make_tag(const struct web_file *f, char *tag, size_t room) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (const unsigned char *c = f->start; c < f->end; c++) hash = (hash ^ *c) * 0x100000001b3u;
    snprintf(tag, room, "\"%016llx\"", (unsigned long long)hash);
}

/* Only the page's own files, no inline code, and no way to make HTML of text (trusted types). */
static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
                             "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
                             "require-trusted-types-for 'script'; trusted-types 'none'";

void api_web(struct exchange *x) {
    const char *path = x->head.path, *prefix = x->server->options->api_prefix;
    size_t n = prefix ? strlen(prefix) : 0;
    const struct web_file *f = find(n && !strncmp(path, prefix, n) ? path + n : path);
    char tag[32];
    if (!f) {
        api_refuse(x, 404, "there is nothing at this path");
        return;
    }
    make_tag(f, tag, sizeof tag);
    exchange_add_header(x, "ETag", tag);
    exchange_add_header(x, "Cache-Control", "no-cache");
    exchange_add_header(x, "X-Content-Type-Options", "nosniff");
    exchange_add_header(x, "Referrer-Policy", "no-referrer");
    exchange_add_header(x, "Content-Security-Policy", policy);
    const char *known = http_header(&x->head, "if-none-match");
    if (known && (strstr(known, tag) || !strcmp(known, "*")))
        exchange_reply(x, 304, NULL, NULL, 0);
    else
        exchange_reply(x, 200, content_type(f->name), f->start, (size_t)(f->end - f->start));
}
