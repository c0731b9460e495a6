/* SPDX-License-Identifier: Apache-2.0 */
/* Health and the list of models. */
#include "serve/api_openai.h"

#include "base/clock.h"
#include "serve/server_parts.h"

#include <string.h>

void api_health(struct exchange *x) {
    struct server *s = x->server;
    if (s->is_draining)
        api_refuse(x, 503, "the server is shutting down");
    else if (!registry_is_healthy(&s->registry, clock_now_ns()))
        api_refuse(x, 503, "the engine is dead or stuck");
    else
        exchange_reply(x, 200, "application/json", "{\"status\":\"ok\"}", 15);
}

struct listing {
    struct json_writer *w;
    const char *only; /* a name, or NULL */
    struct server *server;
    bool found;
};

static const char *state_name(enum entry_state state) {
    static const char *const names[] = {"unloaded", "loading", "loaded", "unloading", "failed"};
    return names[state];
}

static void write_meta(struct json_writer *w, const struct served *served) {
    const struct model *m = &served->model;
    json_write_key(w, "meta");
    json_begin_object(w);
    json_add_integer(w, "n_vocab", m->graph.vocab_size);
    json_add_integer(w, "n_ctx", engine_most_tokens(served->engine));
    json_add_integer(w, "n_ctx_train", m->graph.context_length);
    json_add_integer(w, "n_embd", m->graph.hidden_size);
    json_add_count(w, "n_params", served->n_parameters);
    json_add_count(w, "size", checkpoint_bytes(&m->checkpoint));
    json_end_object(w);
    json_write_key(w, "max_model_len"); /* vLLM's name of the context */
    json_write_integer(w, engine_most_tokens(served->engine));
}

static void write_entry(void *context, struct registry_entry *e) {
    struct listing *l = context;
    struct json_writer *w = l->w;
    if (l->only && strcmp(l->only, e->name) != 0) return;
    l->found = true;
    json_begin_object(w);
    json_add_string(w, "id", e->name);
    json_add_string(w, "object", "model");
    json_add_integer(w, "created", e->served ? e->served->created_unix : l->server->started_unix);
    json_add_string(w, "owned_by", "mlxcel");
    /* Anthropic's names. */
    json_add_string(w, "type", "model");
    json_add_string(w, "display_name", e->name);
    json_write_key(w, "status");
    json_begin_object(w);
    json_add_string(w, "value", state_name(e->state));
    json_end_object(w);
    if (e->served) write_meta(w, e->served);
    json_end_object(w);
}

void api_models(struct exchange *x) {
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    struct listing listing = {.w = &w, .server = x->server};
    json_begin_object(&w);
    json_add_string(&w, "object", "list");
    json_write_key(&w, "data");
    json_begin_array(&w);
    registry_visit(&x->server->registry, write_entry, &listing);
    json_end_array(&w);
    json_add_bool(&w, "has_more", false);
    json_end_object(&w);
    exchange_reply_json(x, 200, &out);
}

void api_model(struct exchange *x) {
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    struct listing listing = {.w = &w, .server = x->server, .only = x->path_rest};
    registry_visit(&x->server->registry, write_entry, &listing);
    if (listing.found) {
        exchange_reply_json(x, 200, &out);
        return;
    }
    struct problem problem;
    problem_set(&problem, 404, "model", "the model '%.200s' does not exist here", x->path_rest);
    problem.code = "model_not_found";
    buffer_free(&out);
    api_fail(x, &problem);
}
