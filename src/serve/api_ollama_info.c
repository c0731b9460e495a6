/* SPDX-License-Identifier: Apache-2.0 */
/* ollama's routes that tell about models. */
#include "serve/api_ollama.h"
#include "serve/request.h"
#include "serve/server_parts.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static void write_text(struct json_writer *w, const char *key, const char *value) {
    json_add_string(w, key, value ? value : "");
}

static void write_unix_time(struct json_writer *w, const char *key, int64_t when) {
    char text[48];
    time_t seconds = (time_t)when;
    struct tm parts;
    gmtime_r(&seconds, &parts);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    write_text(w, key, text);
}

static void write_details(struct json_writer *w, const struct served *s) {
    const char *family = s ? s->family : "";
    char size[32] = "";
    if (s) snprintf(size, sizeof size, "%.1fM", (double)s->n_parameters * 1e-6);
    json_write_key(w, "details");
    json_begin_object(w);
    write_text(w, "parent_model", "");
    write_text(w, "format", "safetensors");
    write_text(w, "family", family);
    json_write_key(w, "families");
    json_begin_array(w);
    if (s) json_write_string(w, family);
    json_end_array(w);
    write_text(w, "parameter_size", size);
    write_text(w, "quantization_level", "");
    json_end_object(w);
}

struct listing {
    struct json_writer *w;
    int64_t started;
    bool only_loaded;
};

static void write_entry(void *context, struct registry_entry *e) {
    struct listing *l = context;
    struct json_writer *w = l->w;
    if (l->only_loaded && !e->served) return;
    json_begin_object(w);
    write_text(w, "name", e->name);
    write_text(w, "model", e->name);
    write_unix_time(w, "modified_at", e->served ? e->served->created_unix : l->started);
    json_add_count(w, "size", e->served ? checkpoint_bytes(&e->served->model.checkpoint) : 0);
    write_text(w, "digest", "");
    write_details(w, e->served);
    if (l->only_loaded) {
        json_add_count(w, "size_vram", 0);
        json_add_count(w, "context_length", engine_most_tokens(e->served->engine));
    }
    json_end_object(w);
}

static void list_models(struct exchange *x, bool only_loaded) {
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    struct listing listing = {&w, x->server->started_unix, only_loaded};
    json_begin_object(&w);
    json_write_key(&w, "models");
    json_begin_array(&w);
    registry_visit(&x->server->registry, write_entry, &listing);
    json_end_array(&w);
    json_end_object(&w);
    exchange_reply_json(x, 200, &out);
}

void ollama_tags(struct exchange *x) { list_models(x, false); }
void ollama_running(struct exchange *x) { list_models(x, true); }

static void write_info(struct json_writer *w, const struct served *s) {
    char key[96];
    const char *family = s->family;
    json_write_key(w, "model_info");
    json_begin_object(w);
    write_text(w, "general.architecture", family);
    json_add_count(w, "general.parameter_count", s->n_parameters);
    snprintf(key, sizeof key, "%.60s.context_length", family);
    json_add_count(w, key, s->model.options.max_cells);
    snprintf(key, sizeof key, "%.60s.embedding_length", family);
    json_add_count(w, key, s->model.graph.hidden_size);
    json_end_object(w);
}

void ollama_show(struct exchange *x) {
    static const struct field fields[] = {{"model", T_STRING, FIELD_USED},
                                          {"name", T_STRING, FIELD_USED},
                                          {"verbose", T_BOOL, FIELD_IGNORED},
                                          {NULL, 0, FIELD_USED}};
    struct problem problem;
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    const struct json *body = fields_parse_body(x, &problem);
    bool ok = body && fields_check(x, body, fields, &problem);
    const char *name = ok ? request_string(x, body, field_get(body, "model") ? "model" : "name") : NULL;
    if (ok && !name) ok = problem_set(&problem, 400, "model", "'model' is missing");
    struct served *s = ok ? registry_acquire(&x->server->registry, name, &problem) : NULL;
    if (!s) {
        api_fail(x, &problem);
        return;
    }
    const char *format = reply_format_name(s->format);
    json_begin_object(&w);
    write_text(&w, "modelfile", "");
    write_text(&w, "parameters", "");
    write_text(&w, "template", chat_template_text(s->chat, s->template_name));
    write_details(&w, s);
    write_info(&w, s);
    json_write_key(&w, "capabilities");
    json_begin_array(&w);
    json_write_string(&w, "completion");
    if (strcmp(format, "none") != 0) json_write_string(&w, "tools");
    if (s->thinks) json_write_string(&w, "thinking");
    json_end_array(&w);
    write_unix_time(&w, "modified_at", s->created_unix);
    json_end_object(&w);
    registry_release(&x->server->registry, s);
    exchange_reply_json(x, 200, &out);
}

void ollama_version(struct exchange *x) {
    static const char version[] = "{\"version\":\"" MLXCEL_VERSION "\"}";
    exchange_reply(x, 200, "application/json", version, sizeof version - 1);
}

void ollama_absent(struct exchange *x) {
    api_refuse(x, 501,
               "models are folders that the server is started with; they are not pulled, made or removed over HTTP");
}
