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
    json_write_key(w, "n_vocab");
    json_write_integer(w, m->graph.vocab_size);
    json_write_key(w, "n_ctx");
    json_write_integer(w, m->options.max_cells);
    json_write_key(w, "n_ctx_train");
    json_write_integer(w, m->graph.context_length);
    json_write_key(w, "n_embd");
    json_write_integer(w, m->graph.hidden_size);
    json_write_key(w, "n_params");
    json_write_integer(w, (int64_t)served->n_parameters);
    json_write_key(w, "size");
    json_write_integer(w, (int64_t)checkpoint_bytes(&m->checkpoint));
    json_end_object(w);
    json_write_key(w, "max_model_len"); /* vLLM's name of the context */
    json_write_integer(w, m->options.max_cells);
}

static void write_entry(void *context, struct registry_entry *e) {
    struct listing *l = context;
    struct json_writer *w = l->w;
    if (l->only && strcmp(l->only, e->name) != 0) return;
    l->found = true;
    json_begin_object(w);
    json_write_key(w, "id");
    json_write_string(w, e->name);
    json_write_key(w, "object");
    json_write_string(w, "model");
    json_write_key(w, "created");
    json_write_integer(w, e->served ? e->served->created_unix : l->server->started_unix);
    json_write_key(w, "owned_by");
    json_write_string(w, "mlxcel");
    /* Anthropic's names. */
    json_write_key(w, "type");
    json_write_string(w, "model");
    json_write_key(w, "display_name");
    json_write_string(w, e->name);
    json_write_key(w, "status");
    json_begin_object(w);
    json_write_key(w, "value");
    json_write_string(w, state_name(e->state));
    json_end_object(w);
    if (e->served) write_meta(w, e->served);
    json_end_object(w);
}

void api_models(struct exchange *x) {
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    struct listing listing = {.w = &w, .server = x->server};
    json_begin_object(&w);
    json_write_key(&w, "object");
    json_write_string(&w, "list");
    json_write_key(&w, "data");
    json_begin_array(&w);
    registry_visit(&x->server->registry, write_entry, &listing);
    json_end_array(&w);
    json_write_key(&w, "has_more");
    json_write_bool(&w, false);
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
