/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/generation.h"

#include "base/clock.h"
#include "base/memory.h"
#include "serve/random_id.h"
#include "serve/server_parts.h"

#include <string.h>

struct generation *generation_create(struct exchange *x, const char *model_name, const struct answer_writer *writer,
                                     struct problem *problem) {
    struct served *served = registry_acquire(&x->server->registry, model_name, problem);
    if (!served) return NULL;
    struct generation *g = calloc(1, sizeof *g);
    void *extra = arena_calloc(&x->arena, 1, writer ? writer->extra_bytes : 0);
    if (!g || !extra) {
        free(g);
        registry_release(&x->server->registry, served);
        problem_set(problem, 500, NULL, "out of memory");
        return NULL;
    }
    *g = (struct generation){.exchange = x,
                             .served = served,
                             .writer = writer,
                             .extra = extra,
                             .n_per_prompt = 1,
                             .max_tokens = served->options->n_predict,
                             .sampling = served->sampling,
                             .breakers = &served->breakers,
                             .keeps_tokens = true,
                             .slot = -1,
                             .think_budget = served->options->reasoning_budget,
                             .may_think = served->thinks,
                             .created = (int64_t)time(NULL)};
    pthread_mutex_init(&g->lock, NULL);
    const char *name = arena_copy(&x->arena, served->id, strlen(served->id));
    pthread_mutex_lock(&x->lock);
    x->model_name = name;
    x->generation = g;
    pthread_mutex_unlock(&x->lock);
    return g;
}

static void free_choice(struct generation_choice *c) {
    if (c->reply) reply_destroy(c->reply);
    if (c->stream.tokenizer) text_stream_free(&c->stream);
    reply_result_free(&c->result);
    buffer_free(&c->logprobs);
    buffer_free(&c->all_logprobs);
    free(c->call_ids);
    free(c->tokens);
    free(c->vector);
}

void generation_free(struct generation *g) {
    if (g->writer && g->writer->dispose) g->writer->dispose(g);
    for (uint32_t i = 0; g->choices && i < g->n_choices; i++) free_choice(&g->choices[i]);
    for (uint32_t i = 0; i < g->n_prompts; i++) {
        free(g->prompts[i].tokens);
        guide_destroy(g->prompts[i].guide);
    }
    free(g->choices);
    free(g->prompts);
    buffer_free(&g->json);
    buffer_free(&g->head);
    dry_breakers_free(&g->own_breakers);
    registry_release(&g->exchange->server->registry, g->served);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

bool generation_add_prompt(struct generation *g, const uint32_t *tokens, size_t n, struct problem *problem) {
    struct generation_prompt *grown = realloc(g->prompts, (g->n_prompts + 1) * sizeof *grown);
    if (grown) g->prompts = grown;
    uint32_t *copy = array_alloc(n, sizeof *copy);
    if (!grown || !copy) {
        free(copy);
        return problem_set(problem, 500, NULL, "out of memory");
    }
    if (n) memcpy(copy, tokens, n * sizeof *copy);
    g->prompts[g->n_prompts] =
        (struct generation_prompt){.generation = g, .number = g->n_prompts, .tokens = copy, .n_tokens = n};
    g->n_prompts++;
    return true;
}

bool generation_add_stop(struct generation *g, const char *text, size_t length, struct problem *problem) {
    if (!length) return true;
    if (g->n_stops == MAX_STOPS)
        return problem_set(problem, 400, "stop", "'stop' may hold at most %d strings", MAX_STOPS);
    g->stops[g->n_stops++] = (struct stop_string){text, length};
    return true;
}

size_t generation_n_prompt(const struct generation *g) {
    size_t n = 0;
    for (uint32_t i = 0; i < g->n_prompts; i++) n += g->prompts[i].n_tokens;
    return n;
}

size_t generation_n_cached(const struct generation *g) {
    size_t n = 0;
    for (uint32_t i = 0; i < g->n_prompts; i++) n += g->prompts[i].n_cached;
    return n;
}

void generation_cache_text(const struct generation *g, bool is_for_client, char text[CACHE_FINDING_TEXT]) {
    uint32_t i = 0;
    while (i + 1 < g->n_prompts && g->prompts[i].n_cached) i++;
    struct cache_finding finding = g->prompts[g->prompts[i].n_cached ? 0 : i].cache;
    if (is_for_client && g->served->is_shared) finding = cache_finding_for_client(finding);
    cache_finding_text(finding, generation_n_cached(g), generation_n_prompt(g), text);
}

size_t generation_n_generated(const struct generation *g) {
    size_t n = 0;
    for (uint32_t i = 0; i < g->n_choices; i++) n += g->choices[i].n_generated;
    return n;
}

const struct stop_string *choice_stop(const struct generation_choice *c) {
    return c->stream.is_stopped ? &c->generation->stops[c->stream.stop_index] : NULL;
}

/* ---- tokens to pieces, with the generation's lock held ---- */

static void fail(struct generation *g, const struct problem *problem) {
    if (g->has_failed) return;
    g->has_failed = true;
    g->failure = *problem;
    for (uint32_t i = 0; i < g->n_prompts; i++)
        if (g->prompts[i].id) engine_cancel(g->served->engine, g->prompts[i].id);
}

static void fail_from_error(struct generation *g, const struct mx_error *err) {
    struct problem problem;
    problem_from_error(&problem, err, NULL);
    fail(g, &problem);
}

/* Calls get their names here: the model's id where it came in time, else one of ours in the form that the model's template
 * expects. */
static bool name_call(struct generation_choice *c, const struct reply_event *event) {
    if (!array_reserve(&c->call_ids, &c->call_ids_capacity, c->n_call_ids + 1, sizeof *c->call_ids)) return false;
    char *id = c->call_ids[c->n_call_ids++];
    const char *format = c->generation->served->format ? reply_format_name(c->generation->served->format) : "";
    if (event->id && event->id_length && event->id_length < CALL_ID_BYTES) {
        memcpy(id, event->id, event->id_length);
        id[event->id_length] = '\0';
    } else if (!strncmp(format, "mistral", 7)) {
        random_alphanumeric(id, 9);
    } else {
        random_id(id, c->generation->exchange->dialect == DIALECT_ANTHROPIC ? "toolu_" : "call_", 24);
    }
    return true;
}

static bool on_reply(void *context, const struct reply_event *event) {
    struct generation_choice *c = context;
    struct generation *g = c->generation;
    if (event->kind == REPLY_CALL_BEGIN && !name_call(c, event)) return false;
    if (event->kind == REPLY_CALL_CANCEL && c->n_call_ids) c->n_call_ids--;
    if (event->kind == REPLY_CALL_END) c->n_calls_ended++;
    if (!reply_collect(&c->result, event)) return false;
    if ((g->streams || g->writer->collects) && !(g->hides_reasoning && event->kind == REPLY_REASONING))
        g->writer->piece(c, event);
    return true;
}

static bool pass_on(struct generation_choice *c, struct mx_error *err) {
    const struct buffer *out = &c->stream.out;
    if (!out->length) return true;
    if (c->reply) return reply_push(c->reply, out->data, out->length, err);
    struct reply_event event = {.kind = REPLY_CONTENT, .text = out->data, .length = out->length};
    return on_reply(c, &event) || error_memory(err, "answer");
}

static void observe_token(struct generation_choice *c) {
    struct generation *g = c->generation;
    uint64_t now = clock_now_ns();
    if (!atomic_load(&g->first_token_ns)) {
        atomic_store(&g->first_token_ns, now);
        g->exchange->first_token_ns = now;
        metrics_observe(&g->served->metrics->first_token, (double)(now - g->exchange->arrived_ns) * 1e-9);
    }
    if (c->last_token_ns) metrics_observe(&g->served->metrics->inter_token, (double)(now - c->last_token_ns) * 1e-9);
    c->last_token_ns = now;
}

static bool take_token(struct generation_choice *c, const struct engine_event *event, struct mx_error *err) {
    struct generation *g = c->generation;
    c->n_generated = event->n_generated;
    observe_token(c);
    if (g->keeps_tokens) {
        if (!array_reserve(&c->tokens, &c->tokens_capacity, c->n_tokens + 1, sizeof *c->tokens))
            return error_memory(err, "answer");
        c->tokens[c->n_tokens++] = event->token;
    }
    if (g->sampling.want_logprobs && g->writer->logprob) g->writer->logprob(c, event->token, event->sample);
    size_t reasoning = c->result.reasoning.length;
    if (!text_stream_push(&c->stream, event->token, err) || !pass_on(c, err)) return false;
    if (c->result.reasoning.length > reasoning) c->n_reasoning++;
    const struct mx_error *failure = guide_failure(g->prompts[c->index / g->n_per_prompt].guide);
    if (failure) *err = *failure;
    return !failure;
}

static bool end_text(struct generation_choice *c, enum finish_reason reason, struct mx_error *err) {
    if (!text_stream_finish(&c->stream, err) || !pass_on(c, err)) return false;
    enum reply_finish how = reason == FINISH_LENGTH ? REPLY_FINISH_LENGTH : REPLY_FINISH_STOP;
    return !c->reply || reply_finish(c->reply, how, err);
}

static void tell_expiry(struct generation *g) {
    struct problem p;
    switch (atomic_load(&g->expired)) {
    case EXPIRED_QUEUE: problem_set(&p, 503, NULL, "the request waited longer than the server allows"); break;
    case EXPIRED_FIRST_TOKEN: problem_set(&p, 504, NULL, "the first token took longer than the server allows"); break;
    case EXPIRED_SHUTDOWN: problem_set(&p, 503, NULL, "the server is shutting down"); break;
    default: problem_set(&p, 504, NULL, "the answer took longer than the server allows");
    }
    metrics_count(&g->served->metrics->n_timed_out, 1);
    fail(g, &p);
}

static void finish_choice(struct generation_choice *c, const struct engine_event *event) {
    struct generation *g = c->generation;
    struct mx_error err = {0};
    c->is_finished = true;
    c->reason = event->reason;
    c->end_token = event->token;
    c->n_generated = event->n_generated;
    if (event->reason == FINISH_ERROR) {
        fail_from_error(g, event->error);
    } else if (event->reason == FINISH_CANCELLED && !g->is_abandoned && !g->has_failed) {
        tell_expiry(g);
    }
    if (g->pooling && event->hidden) {
        size_t bytes = g->served->model.graph.hidden_size * sizeof *c->vector;
        c->vector = malloc(bytes);
        if (c->vector)
            memcpy(c->vector, event->hidden, bytes);
        else
            fail_from_error(g, &(struct mx_error){.code = ERROR_MEMORY, .message = "out of memory"});
    }
    if (!g->has_failed && !g->is_abandoned && !g->pooling) {
        if (!end_text(c, event->reason, &err))
            fail_from_error(g, &err);
        else if (g->streams)
            g->writer->end_choice(c);
    }
}

/* The first prompt and its first answer, as far as it came. */
static void remember(struct generation *g) {
    const struct generation_prompt *p = &g->prompts[0];
    const struct generation_choice *c = &g->choices[0];
    size_t n_answer = g->remembers_prompt_only ? 0 : c->n_tokens;
    uint32_t *all = g->pooling ? NULL : array_alloc(p->n_tokens + n_answer, sizeof *all);
    if (!all) return;
    memcpy(all, p->tokens, p->n_tokens * sizeof *all);
    if (n_answer) memcpy(all + p->n_tokens, c->tokens, n_answer * sizeof *all);
    served_keep_slot(g->served, g->slot, all, p->n_tokens + n_answer);
}

/* All choices have ended. */
static void finish(struct generation *g) {
    struct metrics *m = g->served->metrics;
    struct exchange *x = g->exchange;
    size_t n_prompt = generation_n_prompt(g), n_cached = generation_n_cached(g),
           n_generated = generation_n_generated(g);
    uint64_t first = atomic_load(&g->first_token_ns), started = atomic_load(&g->started_ns);
    char cache[CACHE_FINDING_TEXT];
    g->ended_ns = clock_now_ns();
    x->n_prompt = n_prompt;
    x->n_cached = n_cached;
    x->n_generated = n_generated;
    generation_cache_text(g, true, cache);
    if (*cache) exchange_add_header(x, "X-Mlxcel-Cache", cache);
    generation_cache_text(g, false, x->cache);
    metrics_count(&m->n_prompt_tokens, n_prompt - n_cached);
    metrics_count(&m->n_cached_tokens, n_cached);
    metrics_count(&m->n_generated_tokens, n_generated);
    if (first) {
        metrics_count(&m->prompt_ns, first - started);
        metrics_count(&m->generated_ns, g->ended_ns - first);
        metrics_observe(&m->prompt_tokens, (double)n_prompt);
        metrics_observe(&m->generated_tokens, (double)n_generated);
        metrics_observe(&m->cached_share, (double)n_cached / (double)(n_prompt ? n_prompt : 1));
        metrics_observe(&m->request, (double)(g->ended_ns - x->arrived_ns) * 1e-9);
    }
    if (g->is_abandoned) {
        x->finish = "cancelled";
        metrics_count(&m->n_cancelled, 1);
        exchange_end(x);
    } else if (g->has_failed) {
        x->finish = atomic_load(&g->expired) ? "timeout" : "error";
        api_fail(x, &g->failure);
    } else {
        static const char *const words[] = {"stop", "length", "cancelled", "error"};
        x->finish = words[g->choices[0].reason];
        remember(g);
        g->writer->end(g);
    }
}

static enum verdict on_event(void *context, const struct engine_event *event) {
    struct generation_prompt *p = context;
    struct generation *g = p->generation;
    struct exchange *x = g->exchange;
    struct generation_choice *c = &g->choices[p->number * g->n_per_prompt + event->choice];
    struct mx_error err = {0};
    enum verdict verdict = VERDICT_GO_ON;
    bool is_over = false;
    pthread_mutex_lock(&g->lock);
    switch (event->kind) {
    case EVENT_STARTED:
        p->n_cached = event->n_cached;
        p->cache = event->cache;
        if (!atomic_load(&g->started_ns)) {
            atomic_store(&g->started_ns, clock_now_ns());
            metrics_observe(&g->served->metrics->queue, (double)(clock_now_ns() - x->arrived_ns) * 1e-9);
        }
        break;
    case EVENT_PROMPT: break;
    case EVENT_TOKEN:
        if (g->has_failed || g->is_abandoned)
            verdict = VERDICT_STOP;
        else if (!take_token(c, event, &err)) {
            fail_from_error(g, &err);
            verdict = VERDICT_STOP;
        } else if (c->stream.is_stopped || (g->one_call_only && c->n_calls_ended) ||
                   guide_is_complete(p->guide, event->choice)) {
            verdict = VERDICT_STOP;
        }
        break;
    case EVENT_FINISHED:
        finish_choice(c, event);
        is_over = ++g->n_finished == g->n_choices;
        if (is_over) finish(g);
        break;
    }
    pthread_mutex_unlock(&g->lock);
    if (is_over) exchange_release(x); /* the running generation's own */
    return verdict;
}

/* ---- starting ---- */

static bool check_lengths(struct generation *g, struct problem *problem) {
    size_t context = engine_most_tokens(g->served->engine);
    for (uint32_t i = 0; i < g->n_prompts; i++) {
        size_t n = g->prompts[i].n_tokens;
        if (!n) return problem_set(problem, 400, "prompt", "the prompt is empty");
        if (n < context) continue;
        problem_set(problem, 400, "messages",
                    "the prompt has %zu tokens, but the context has room for %zu, the answer included", n, context);
        problem->code = "context_length_exceeded";
        problem->n_prompt_tokens = (int64_t)n;
        problem->n_ctx = (int64_t)context;
        return false;
    }
    if (g->n_per_prompt > g->served->model.options.max_sequences)
        return problem_set(problem, 400, "n", "'n' is %u, but only %u answers are generated at a time", g->n_per_prompt,
                           g->served->model.options.max_sequences);
    int most = g->pooling ? MAX_VECTORS : MAX_CHOICES;
    if ((uint64_t)g->n_prompts * g->n_per_prompt > (unsigned)most)
        return problem_set(problem, 400, "n", "%llu answers are asked for, at most %d are given at a time",
                           (unsigned long long)g->n_prompts * g->n_per_prompt, most);
    return true;
}

static bool init_choices(struct generation *g, struct problem *problem) {
    struct mx_error err = {0};
    const struct reply_format *format = !g->parses_reply ? NULL : g->reply_format ? g->reply_format : g->served->format;
    const struct reply_format *markers = g->keeps_markers ? g->served->format : format;
    g->n_choices = g->n_prompts * g->n_per_prompt;
    g->choices = array_calloc(g->n_choices, sizeof *g->choices);
    if (!g->choices) return problem_set(problem, 500, NULL, "out of memory");
    static const struct json no_tools = {.type = JSON_ARRAY};
    struct reply_options options = {.format = format,
                                    .tools = g->tools ? g->tools : &no_tools,
                                    .prompt = g->prompt_text,
                                    .prompt_length = g->prompt_text_length,
                                    .streams_arguments = g->streams};
    for (uint32_t i = 0; i < g->n_choices; i++) {
        struct generation_choice *c = &g->choices[i];
        *c = (struct generation_choice){.generation = g, .index = i, .end_token = SAMPLE_NONE};
        if (g->pooling) continue;
        if (!text_stream_init(&c->stream, g->served->tokenizer, markers, g->stops, g->n_stops, &err) ||
            (format && !(c->reply = reply_create(&options, on_reply, c, &err))))
            return problem_from_error(problem, &err, NULL);
    }
    return true;
}

static bool init_guides(struct generation *g, struct problem *problem) {
    for (uint32_t i = 0; i < g->n_prompts; i++) {
        struct guide_options options = {.served = g->served,
                                        .rule = g->rule,
                                        .prompt = g->prompt_text,
                                        .prompt_length = g->prompt_text_length,
                                        .may_think = g->may_think && g->parses_reply,
                                        .think_budget = g->think_budget,
                                        .n_choices = g->n_per_prompt,
                                        .stop_ids = g->stop_ids,
                                        .n_stop_ids = g->n_stop_ids};
        if (!guide_create(&g->prompts[i].guide, &options, problem)) return false;
    }
    return true;
}

/* Under the lock. Before its requests are handed to the engine a generation belongs to the thread that prepares it. */
static void cancel_all(struct generation *g) {
    if (!g->is_submitted) return;
    for (uint32_t i = 0; i < g->n_prompts; i++)
        if (g->prompts[i].id) engine_cancel(g->served->engine, g->prompts[i].id);
}

bool generation_submit(struct generation *g, struct problem *problem) {
    struct mx_error err = {0};
    if (!check_lengths(g, problem)) return false;
    if (!sampling_check(&g->sampling, &err)) return problem_from_error(problem, &err, NULL);
    if (!init_choices(g, problem) || !init_guides(g, problem)) return false;
    pthread_mutex_lock(&g->lock);
    if (g->is_abandoned || atomic_load(&g->exchange->is_gone)) {
        pthread_mutex_unlock(&g->lock);
        return problem_set(problem, 500, NULL, "the client is gone");
    }
    g->submitted_ns = clock_now_ns();
    bool ok = true;
    for (uint32_t i = 0; i < g->n_prompts && ok; i++) {
        struct generation_prompt *p = &g->prompts[i];
        struct token_mask mask = {.context = p->guide, .fill = guide_fill, .accept = guide_accept};
        struct engine_request request = {.prompt = p->tokens,
                                         .n_prompt = p->n_tokens,
                                         .max_tokens = g->max_tokens,
                                         .n_choices = g->n_per_prompt,
                                         .sampling = g->sampling,
                                         .stop_ids = g->stop_ids,
                                         .n_stop_ids = g->n_stop_ids,
                                         .breakers = g->breakers,
                                         .mask = p->guide ? mask : (struct token_mask){0},
                                         .priority = g->priority,
                                         .pooling = g->pooling,
                                         .on_event = on_event,
                                         .context = p};
        ok = engine_submit(g->served->engine, &request, &p->id, &err);
        if (ok && !i) {
            exchange_hold(g->exchange);
            g->is_submitted = true;
            if (g->streams) g->writer->begin(g);
        }
        if (!ok && i) {
            /* Those that run are ended; this one and the rest count as finished. */
            struct problem late;
            problem_from_error(&late, &err, NULL);
            fail(g, &late);
            g->n_finished += (g->n_prompts - i) * g->n_per_prompt;
            ok = true;
            break;
        }
    }
    if (atomic_load(&g->expired)) cancel_all(g); /* its time ended while it was prepared */
    pthread_mutex_unlock(&g->lock);
    return ok || problem_from_error(problem, &err, NULL);
}

/* ---- ending from outside ---- */

static struct generation *of(struct exchange *x) {
    pthread_mutex_lock(&x->lock);
    struct generation *g = x->generation;
    pthread_mutex_unlock(&x->lock);
    return g;
}

void generation_abandon(struct exchange *x) {
    struct generation *g = of(x);
    if (!g) return;
    pthread_mutex_lock(&g->lock);
    g->is_abandoned = true;
    cancel_all(g);
    pthread_mutex_unlock(&g->lock);
}

void generation_expire(struct exchange *x, int why) {
    struct generation *g = of(x);
    int none = EXPIRED_NONE;
    if (!g || !atomic_compare_exchange_strong(&g->expired, &none, why)) return;
    pthread_mutex_lock(&g->lock);
    cancel_all(g);
    pthread_mutex_unlock(&g->lock);
}

void generation_check_time(struct exchange *x, uint64_t now_ns) {
    const struct server_options *o = x->server->options;
    struct generation *g = of(x);
    if (!g || atomic_load(&g->expired)) return;
    double age = (double)(now_ns - x->arrived_ns) * 1e-9;
    if (o->total_timeout > 0 && age > o->total_timeout)
        generation_expire(x, EXPIRED_TOTAL);
    else if (o->first_token_timeout > 0 && age > o->first_token_timeout && !atomic_load(&g->first_token_ns))
        generation_expire(x, EXPIRED_FIRST_TOKEN);
    else if (o->queue_timeout > 0 && age > o->queue_timeout && !atomic_load(&g->started_ns))
        generation_expire(x, EXPIRED_QUEUE);
}
