/* SPDX-License-Identifier: Apache-2.0 */
/* What the server is and does: /props, /slots, /metrics, /lora-adapters; loading and unloading of models. */
#include "base/clock.h"
#include "serve/api_native.h"
#include "serve/api_openai.h"
#include "serve/server_parts.h"

#include <stdio.h>
#include <string.h>

/* ---- props ---- */

void api_props(struct exchange *x) {
    const struct server_options *o = x->server->options;
    struct problem problem;
    struct served *s = registry_acquire(&x->server->registry, http_query(&x->head, "model", &x->arena), &problem);
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    if (!s) {
        api_fail(x, &problem);
        return;
    }
    json_begin_object(&w);
    json_write_key(&w, "default_generation_settings");
    json_begin_object(&w);
    json_write_key(&w, "params");
    json_begin_object(&w);
    native_write_settings(&w, &s->sampling);
    json_add_integer(&w, "n_predict", o->n_predict);
    json_end_object(&w);
    json_add_count(&w, "n_ctx", engine_most_tokens(s->engine));
    json_end_object(&w);
    json_add_count(&w, "total_slots", o->n_parallel);
    json_add_string(&w, "model_alias", s->id);
    json_add_string(&w, "model_path", s->path);
    json_write_key(&w, "modalities");
    json_begin_object(&w);
    json_add_bool(&w, "vision", false);
    json_add_bool(&w, "audio", false);
    json_end_object(&w);
    json_add_bool(&w, "endpoint_slots", o->has_slots);
    json_add_bool(&w, "endpoint_props", o->has_props);
    json_add_bool(&w, "endpoint_metrics", o->has_metrics);
    json_add_bool(&w, "webui", o->has_web);
    json_add_string(&w, "chat_template", chat_template_text(s->chat, s->template_name));
    json_add_string(&w, "bos_token", tokenizer_role_text(s->tokenizer, TOKEN_BOS));
    json_add_string(&w, "eos_token", tokenizer_role_text(s->tokenizer, TOKEN_EOS));
    json_add_string(&w, "build_info", SYSTEM_FINGERPRINT);
    json_add_bool(&w, "is_sleeping", false);
    json_end_object(&w);
    registry_release(&x->server->registry, s);
    exchange_reply_json(x, 200, &out);
}

void api_set_props(struct exchange *x) {
    if (x->server->options->has_props)
        api_refuse(x, 501, "there is no property that can be changed while the server runs");
    else
        api_refuse(x, 403, "POST /props is off (see --props)");
}

/* ---- slots: on the I/O thread, which owns the list of requests ---- */

static void write_slot(struct json_writer *w, struct exchange *x, unsigned id) {
    pthread_mutex_lock(&x->lock); /* a worker may be filling these in */
    struct generation *g = x->generation;
    const char *model = x->model_name;
    pthread_mutex_unlock(&x->lock);
    json_begin_object(w);
    json_add_count(w, "id", id);
    json_add_string(w, "id_task", x->id);
    json_add_string(w, "model", model);
    json_add_bool(w, "is_processing", true);
    json_add_string(w, "state",
                    !g || !atomic_load(&g->started_ns) ? "queued"
                    : atomic_load(&g->first_token_ns)  ? "decoding"
                                                       : "prompt");
    json_add_real_as(w, "age_ms", "%.1f", (double)(clock_now_ns() - x->arrived_ns) * 1e-6);
    json_end_object(w);
}

void api_slots(struct exchange *x) {
    struct server *s = x->server;
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    unsigned n = 0;
    if (!s->options->has_slots) {
        api_refuse(x, 403, "GET /slots is off (see --slots)");
        return;
    }
    json_begin_array(&w);
    for (struct exchange *live = s->live; live; live = live->next)
        if (live->counts) write_slot(&w, live, n++);
    bool is_full = n >= s->options->n_parallel;
    for (; n < s->options->n_parallel; n++) {
        json_begin_object(&w);
        json_add_count(&w, "id", n);
        json_add_bool(&w, "is_processing", false);
        json_add_string(&w, "state", "idle");
        json_end_object(&w);
    }
    json_end_array(&w);
    if (is_full && http_query(&x->head, "fail_on_no_slot", &x->arena)) {
        buffer_free(&out);
        api_refuse(x, 503, "no slot is free");
        return;
    }
    exchange_reply_json(x, 200, &out);
}

/* ---- metrics ---- */

struct totals {
    struct engine_stats stats;
    uint64_t awake_ns;
    unsigned n_loaded;
};

static void add_model(void *context, struct registry_entry *e) {
    struct totals *t = context;
    if (!e->served) return;
    pthread_mutex_lock(&e->served->lock);
    struct engine_stats s = e->served->stats;
    t->awake_ns += e->served->awake_ns;
    pthread_mutex_unlock(&e->served->lock);
    t->n_loaded++;
    t->stats.n_waiting += s.n_waiting;
    t->stats.n_prefilling += s.n_prefilling;
    t->stats.n_decoding += s.n_decoding;
    t->stats.n_steps += s.n_steps;
    t->stats.n_rows += s.n_rows;
    t->stats.n_preempted += s.n_preempted;
    t->stats.n_prompt_tokens += s.n_prompt_tokens;
    t->stats.n_cached_tokens += s.n_cached_tokens;
    t->stats.n_cache_pages += s.n_cache_pages;
    t->stats.n_cache_snapshots += s.n_cache_snapshots;
    t->stats.busy_ns += s.busy_ns;
}

static void write_counters(struct buffer *out, struct metrics *m, const struct totals *t) {
    double prompt = (double)atomic_load(&m->n_prompt_tokens), prompt_s = (double)atomic_load(&m->prompt_ns) * 1e-9;
    double generated = (double)atomic_load(&m->n_generated_tokens),
           generated_s = (double)atomic_load(&m->generated_ns) * 1e-9;
    metrics_write_value(out, "llamacpp:prompt_tokens_total", "counter", "Prompt tokens computed.", prompt);
    metrics_write_value(out, "llamacpp:prompt_seconds_total", "counter", "Time spent on prompts.", prompt_s);
    metrics_write_value(out, "llamacpp:tokens_predicted_total", "counter", "Tokens generated.", generated);
    metrics_write_value(out, "llamacpp:tokens_predicted_seconds_total", "counter", "Time spent generating.",
                        generated_s);
    metrics_write_value(out, "llamacpp:prompt_tokens_seconds", "gauge", "Prompt tokens a second.",
                        prompt_s > 0 ? prompt / prompt_s : 0);
    metrics_write_value(out, "llamacpp:predicted_tokens_seconds", "gauge", "Generated tokens a second.",
                        generated_s > 0 ? generated / generated_s : 0);
    metrics_write_value(out, "llamacpp:n_decode_total", "counter", "Steps of the engine.", (double)t->stats.n_steps);
    metrics_write_value(out, "llamacpp:n_busy_slots_per_decode", "gauge", "Rows of a step, on average.",
                        t->stats.n_steps ? (double)t->stats.n_rows / (double)t->stats.n_steps : 0);
    metrics_write_value(out, "mlxcel_cached_tokens_total", "counter", "Prompt tokens found in the prefix cache.",
                        (double)atomic_load(&m->n_cached_tokens));
    metrics_write_value(out, "mlxcel_rows_total", "counter", "Rows computed.", (double)t->stats.n_rows);
    metrics_write_value(out, "mlxcel_preemptions_total", "counter", "Sequences that gave their pages back.",
                        (double)t->stats.n_preempted);
    metrics_write_value(out, "mlxcel_compute_seconds_total", "counter", "Time spent computing.",
                        (double)t->stats.busy_ns * 1e-9);
    metrics_write_value(out, "mlxcel_active_seconds_total", "counter", "Time in which there was work.",
                        (double)t->awake_ns * 1e-9);
    metrics_write_value(out, "mlxcel_cancelled_total", "counter", "Requests whose client went away.",
                        (double)atomic_load(&m->n_cancelled));
    metrics_write_value(out, "mlxcel_refused_total", "counter", "Requests refused because the queue was full.",
                        (double)atomic_load(&m->n_refused));
    metrics_write_value(out, "mlxcel_timed_out_total", "counter", "Requests that took too long.",
                        (double)atomic_load(&m->n_timed_out));
}

void api_metrics(struct exchange *x) {
    struct server *s = x->server;
    struct totals t = {0};
    struct buffer out = {0};
    if (!s->options->has_metrics) {
        api_refuse(x, 403, "GET /metrics is off (see --metrics)");
        return;
    }
    registry_visit(&s->registry, add_model, &t);
    unsigned n_live = atomic_load(&s->n_generations), n_running = t.stats.n_prefilling + t.stats.n_decoding;
    metrics_write_value(&out, "llamacpp:requests_processing", "gauge", "Sequences being computed.", n_running);
    metrics_write_value(&out, "llamacpp:requests_deferred", "gauge", "Sequences that wait.", t.stats.n_waiting);
    metrics_write_value(&out, "mlxcel_requests", "gauge", "Requests that are not answered yet.", n_live);
    metrics_write_value(&out, "mlxcel_cache_pages", "gauge", "Pages in the prefix cache.",
                        (double)t.stats.n_cache_pages);
    metrics_write_value(&out, "mlxcel_cache_snapshots", "gauge", "Snapshots in the prefix cache.",
                        (double)t.stats.n_cache_snapshots);
    metrics_write_value(&out, "mlxcel_models_loaded", "gauge", "Models that are loaded.", t.n_loaded);
    write_counters(&out, &s->metrics, &t);
    buffer_puts(&out, "# HELP mlxcel_answers_total Answers by class of status.\n# TYPE mlxcel_answers_total counter\n");
    for (int i = 2; i < 6; i++)
        buffer_printf(&out, "mlxcel_answers_total{class=\"%dxx\"} %llu\n", i,
                      (unsigned long long)atomic_load(&s->metrics.n_answers[i]));
    metrics_write_histograms(&out, &s->metrics);
    if (out.failed)
        api_no_memory(x);
    else
        exchange_reply(x, 200, "text/plain; version=0.0.4; charset=utf-8", out.data, out.length);
    buffer_free(&out);
}

/* ---- adapters ---- */

void api_lora_adapters(struct exchange *x) { exchange_reply(x, 200, "application/json", "[]", 2); }

void api_set_lora_adapters(struct exchange *x) {
    struct mx_error err;
    const struct json *list = json_parse(&x->arena, x->body.length ? x->body.data : "", x->body.length, 0, 8, &err);
    if (list && json_is_array(list) && !list->count)
        exchange_reply(x, 200, "application/json", "{\"success\":true}", 16);
    else
        api_refuse(x, 400, "adapters are not supported");
}

/* ---- models ---- */

static void change_model(struct exchange *x, bool (*change)(struct registry *, const char *, struct problem *)) {
    struct problem problem;
    const struct json *body = fields_parse_body(x, &problem);
    const char *name = body ? request_string(x, body, "model") : NULL;
    bool ok = body && (name || problem_set(&problem, 400, "model", "'model' is missing")) &&
              change(&x->server->registry, name, &problem);
    if (ok)
        exchange_reply(x, 200, "application/json", "{\"success\":true}", 16);
    else
        api_fail(x, &problem);
}

void api_load_model(struct exchange *x) { change_model(x, registry_load); }
void api_unload_model(struct exchange *x) { change_model(x, registry_unload); }
