/* SPDX-License-Identifier: Apache-2.0 */
/* The routes, and what is checked before any of them. */
#include "serve/api_anthropic.h"
#include "serve/api_embeddings.h"
#include "serve/api_error.h"
#include "serve/api_native.h"
#include "serve/api_ollama.h"
#include "serve/api_openai.h"
#include "serve/api_responses.h"
#include "serve/server_parts.h"
#include "serve/web.h"

#include <string.h>

static const struct route routes[] = {
    {METHOD_GET, "/health", DIALECT_OPENAI, ROUTE_INLINE | ROUTE_FREE, api_health},
    {METHOD_GET, "/v1/health", DIALECT_OPENAI, ROUTE_INLINE | ROUTE_FREE, api_health},
    {METHOD_GET, "/v1/models", DIALECT_OPENAI, 0, api_models},
    {METHOD_GET, "/models", DIALECT_OPENAI, 0, api_models},
    {METHOD_GET, "/v1/models/*", DIALECT_OPENAI, 0, api_model},
    {METHOD_POST, "/v1/chat/completions", DIALECT_OPENAI, ROUTE_GENERATES, api_chat_completions},
    {METHOD_POST, "/chat/completions", DIALECT_OPENAI, ROUTE_GENERATES, api_chat_completions},
    {METHOD_POST, "/v1/completions", DIALECT_OPENAI, ROUTE_GENERATES, api_completions},
    {METHOD_POST, "/v1/messages", DIALECT_ANTHROPIC, ROUTE_GENERATES, api_messages},
    {METHOD_POST, "/messages", DIALECT_ANTHROPIC, ROUTE_GENERATES, api_messages},
    {METHOD_POST, "/v1/messages/count_tokens", DIALECT_ANTHROPIC, 0, api_messages_count},
    {METHOD_POST, "/messages/count_tokens", DIALECT_ANTHROPIC, 0, api_messages_count},
    {METHOD_POST, "/v1/responses", DIALECT_OPENAI, ROUTE_GENERATES, api_responses},
    {METHOD_POST, "/responses", DIALECT_OPENAI, ROUTE_GENERATES, api_responses},
    {METHOD_POST, "/v1/responses/input_tokens", DIALECT_OPENAI, 0, api_responses_count},
    {METHOD_POST, "/responses/input_tokens", DIALECT_OPENAI, 0, api_responses_count},
    {METHOD_GET, "/v1/responses/*", DIALECT_OPENAI, 0, api_response_get},
    {METHOD_POST, "/v1/responses/*", DIALECT_OPENAI, 0, api_response_post},
    {METHOD_DELETE, "/v1/responses/*", DIALECT_OPENAI, 0, api_response_delete},
    {METHOD_POST, "/completion", DIALECT_NATIVE, ROUTE_GENERATES, api_completion},
    {METHOD_POST, "/completions", DIALECT_NATIVE, ROUTE_GENERATES, api_completion},
    {METHOD_POST, "/infill", DIALECT_NATIVE, ROUTE_GENERATES, api_infill},
    {METHOD_POST, "/tokenize", DIALECT_NATIVE, 0, api_tokenize},
    {METHOD_POST, "/detokenize", DIALECT_NATIVE, 0, api_detokenize},
    {METHOD_POST, "/apply-template", DIALECT_NATIVE, 0, api_apply_template},
    {METHOD_POST, "/v1/chat/completions/input_tokens", DIALECT_OPENAI, 0, api_count_tokens},
    {METHOD_POST, "/chat/completions/input_tokens", DIALECT_OPENAI, 0, api_count_tokens},
    {METHOD_GET, "/props", DIALECT_NATIVE, 0, api_props},
    {METHOD_POST, "/props", DIALECT_NATIVE, 0, api_set_props},
    {METHOD_GET, "/slots", DIALECT_NATIVE, ROUTE_INLINE, api_slots},
    {METHOD_POST, "/slots/*", DIALECT_NATIVE, ROUTE_GENERATES, api_slot_action},
    {METHOD_GET, "/metrics", DIALECT_NATIVE, 0, api_metrics},
    {METHOD_GET, "/lora-adapters", DIALECT_NATIVE, 0, api_lora_adapters},
    {METHOD_POST, "/lora-adapters", DIALECT_NATIVE, 0, api_set_lora_adapters},
    {METHOD_POST, "/models/load", DIALECT_NATIVE, 0, api_load_model},
    {METHOD_POST, "/models/unload", DIALECT_NATIVE, 0, api_unload_model},
    {METHOD_POST, "/v1/embeddings", DIALECT_OPENAI, ROUTE_GENERATES, api_embeddings},
    {METHOD_POST, "/embeddings", DIALECT_NATIVE, ROUTE_GENERATES, api_native_embeddings},
    {METHOD_POST, "/embedding", DIALECT_NATIVE, ROUTE_GENERATES, api_native_embeddings},
    {METHOD_POST, "/api/embed", DIALECT_OLLAMA, ROUTE_GENERATES, ollama_embed},
    {METHOD_POST, "/api/embeddings", DIALECT_OLLAMA, ROUTE_GENERATES, ollama_embeddings},
    {METHOD_POST, "/api/chat", DIALECT_OLLAMA, ROUTE_GENERATES, ollama_chat},
    {METHOD_POST, "/api/generate", DIALECT_OLLAMA, ROUTE_GENERATES, ollama_generate},
    {METHOD_GET, "/api/tags", DIALECT_OLLAMA, 0, ollama_tags},
    {METHOD_GET, "/api/ps", DIALECT_OLLAMA, 0, ollama_running},
    {METHOD_POST, "/api/show", DIALECT_OLLAMA, 0, ollama_show},
    {METHOD_GET, "/api/version", DIALECT_OLLAMA, ROUTE_INLINE, ollama_version},
    {METHOD_POST, "/api/pull", DIALECT_OLLAMA, 0, ollama_absent},
    {METHOD_POST, "/api/push", DIALECT_OLLAMA, 0, ollama_absent},
    {METHOD_POST, "/api/create", DIALECT_OLLAMA, 0, ollama_absent},
    {METHOD_POST, "/api/copy", DIALECT_OLLAMA, 0, ollama_absent},
    {METHOD_DELETE, "/api/delete", DIALECT_OLLAMA, 0, ollama_absent},
    /* The page and its files, last: any other path. */
    {METHOD_GET, "/*", DIALECT_OPENAI, ROUTE_INLINE | ROUTE_FREE, api_web},
};

static bool matches(const struct route *r, const char *path, const char **rest) {
    size_t n = strlen(r->path);
    if (r->path[n - 1] != '*') return !strcmp(r->path, path);
    if (strncmp(r->path, path, n - 1) != 0) return false;
    *rest = path + n - 1;
    return true;
}

/* The path below --api-prefix, which health checks and the page need not have. */
static const char *below_prefix(const struct server *s, const char *path) {
    const char *prefix = s->options->api_prefix;
    size_t n = prefix ? strlen(prefix) : 0;
    if (n && !strncmp(path, prefix, n) && path[n] == '/') return path + n;
    return n && strcmp(path, "/health") && strcmp(path, "/v1/health") ? NULL : path;
}

static const struct route *find(struct exchange *x, const char *path, unsigned *allowed) {
    unsigned method = x->head.method == METHOD_HEAD ? METHOD_GET : x->head.method;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const char *rest = "";
        if (!matches(&routes[i], path, &rest)) continue;
        if (routes[i].handle == api_web && (*allowed || !web_has(x->server, path))) continue;
        *allowed |= routes[i].methods;
        if (!(routes[i].methods & method)) continue;
        x->path_rest = rest;
        return &routes[i];
    }
    return NULL;
}

static void answer_preflight(struct exchange *x) {
    exchange_add_header(x, "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
    exchange_add_header(x, "Access-Control-Allow-Headers",
                        "Authorization, Content-Type, X-Api-Key, X-Request-Id, "
                        "Anthropic-Version, Anthropic-Beta, X-Priority");
    exchange_add_header(x, "Access-Control-Max-Age", "86400");
    exchange_reply(x, 204, NULL, NULL, 0);
}

static const struct route preflight = {METHOD_OPTIONS, "*", DIALECT_OPENAI, ROUTE_INLINE | ROUTE_FREE,
                                       answer_preflight};

static int check_key(struct exchange *x, const char **message) {
    switch (access_check_key(&x->server->access, &x->head, &x->owner)) {
    case KEY_OK: return 0;
    case KEY_MISSING: *message = "an API key is needed: 'Authorization: Bearer KEY' or 'X-Api-Key: KEY'"; break;
    case KEY_WRONG: *message = "the API key is not valid here"; break;
    }
    return 401;
}

int router_admit(struct exchange *x, const char **message) {
    struct server *s = x->server;
    const char *path = below_prefix(s, x->head.path), *origin = access_allowed_origin(&s->access, &x->head);
    unsigned allowed = 0;
    x->dialect = path && !strncmp(path, "/api/", 5) ? DIALECT_OLLAMA : DIALECT_OPENAI;
    if (origin) {
        exchange_add_header(x, "Access-Control-Allow-Origin", origin);
        exchange_add_header(x, "Access-Control-Expose-Headers", "X-Request-Id, X-Ignored-Fields, Retry-After");
        if (*origin != '*') exchange_add_header(x, "Vary", "Origin");
    }
    if (x->head.method == METHOD_OPTIONS && origin) {
        x->route = &preflight;
        return 0;
    }
    x->route = path ? find(x, path, &allowed) : NULL;
    if (x->route) x->dialect = x->route->dialect;
    if (!x->route || !(x->route->flags & ROUTE_FREE)) {
        int status = check_key(x, message);
        if (status) return status;
    }
    if (!x->route && allowed) {
        exchange_add_header(x, "Allow",
                            allowed & METHOD_GET ? allowed & METHOD_POST ? "GET, HEAD, POST" : "GET, HEAD" : "POST");
        *message = "this path has no such method";
        return 405;
    }
    if (!x->route) {
        *message = "there is nothing at this path";
        return 404;
    }
    if (x->head.method != METHOD_GET && access_is_foreign(&s->access, &x->head)) {
        *message = "pages of this origin may not use this server (see --cors-origins)";
        return 403;
    }
    return 0;
}

static void run(void *context) {
    struct exchange *x = context;
    x->route->handle(x);
    exchange_release(x);
}

void router_dispatch(struct exchange *x) {
    struct server *s = x->server;
    if (x->route->flags & ROUTE_INLINE) {
        x->route->handle(x);
        return;
    }
    if (s->is_draining) {
        api_refuse(x, 503, "the server is shutting down");
        return;
    }
    if (x->route->flags & ROUTE_GENERATES) {
        unsigned n = atomic_fetch_add(&s->n_generations, 1);
        x->counts = true;
        if (n >= s->options->n_parallel + s->options->max_queue) {
            metrics_count(&s->metrics.n_refused, 1);
            api_refuse(x, 429, "the queue is full; try again later");
            return;
        }
    }
    exchange_hold(x);
    if (workers_add(&s->workers, run, x)) return;
    exchange_release(x);
    api_no_memory(x);
}
