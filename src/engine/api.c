/* SPDX-License-Identifier: Apache-2.0 */
/* The public C API over the engine. */
#include <mlxcel/mlxcel.h>

#include "base/memory.h"
#include "engine/engine.h"
#include "text/chat_template.h"
#include "text/constraint.h"
#include "text/text_stream.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct mlxcel_model {
    struct model model;
    struct engine *engine;
    struct tokenizer *tokenizer;
    struct chat_template *chat;
    struct token_trie *trie; /* made with the first request that asks for a form */
    pthread_mutex_t trie_lock;
};

/* A running request: from tokens to text. */
struct job {
    struct mlxcel_model *owner;
    bool (*on_event)(void *context, const struct mlxcel_event *event);
    void *context;
    struct text_stream stream;
    struct stop_string *stops;
    char **stop_texts;
    size_t n_stops;
    struct constraint *constraint; /* NULL = any text */
    bool *is_done;                 /* for mlxcel_generate */
    struct mx_error failure;
};

static void give_error(struct mlxcel_error *out, const struct mx_error *err) {
    static const enum mlxcel_error_code codes[] = {
        [ERROR_NONE] = MLXCEL_OK,
        [ERROR_USAGE] = MLXCEL_ERROR_USAGE,
        [ERROR_IO] = MLXCEL_ERROR_IO,
        [ERROR_FORMAT] = MLXCEL_ERROR_FORMAT,
        [ERROR_UNSUPPORTED] = MLXCEL_ERROR_UNSUPPORTED,
        [ERROR_MEMORY] = MLXCEL_ERROR_MEMORY,
        [ERROR_LIMIT] = MLXCEL_ERROR_LIMIT,
        [ERROR_CANCELLED] = MLXCEL_ERROR_CANCELLED,
    };
    if (!out) return;
    out->code = codes[err->code];
    snprintf(out->message, sizeof out->message, "%s", err->message);
}

struct mlxcel_model *mlxcel_open(const char *folder, const struct mlxcel_model_options *options,
                                 struct mlxcel_error *error) {
    struct mlxcel_model_options o = options ? *options : (struct mlxcel_model_options){0};
    struct mx_error err = {0};
    struct mlxcel_model *m = calloc(1, sizeof *m);
    if (!m) {
        error_memory(&err, "model");
        give_error(error, &err);
        return NULL;
    }
    pthread_mutex_init(&m->trie_lock, NULL);
    struct model_options mo = {.precision = o.exact ? PRECISION_EXACT : PRECISION_FAST,
                               .tier = -1,
                               .n_threads = o.threads,
                               .max_sequences = o.max_sequences,
                               .max_cells = o.max_tokens,
                               .n_cache_pages = o.prefix_cache_tokens / PAGE_CELLS,
                               .n_snapshots = o.prefix_cache_tokens ? 8 : 0};
    /* All requests are this program's own. */
    struct engine_options eo = {.cache_pages = o.prefix_cache_tokens / PAGE_CELLS, .cache_within_pages = true};
    bool ok = (m->tokenizer = tokenizer_open(folder, &err)) != NULL &&
              (m->chat = chat_template_open(folder, &err)) != NULL && model_open(&m->model, folder, &mo, &err);
    if (ok) {
        eo.n_tokens = (uint32_t)tokenizer_vocab_size(m->tokenizer);
        ok = (m->engine = engine_create(&m->model, &eo, &err)) != NULL;
    }
    if (ok) return m;
    give_error(error, &err);
    mlxcel_close(m);
    return NULL;
}

void mlxcel_close(struct mlxcel_model *m) {
    if (!m) return;
    engine_destroy(m->engine);
    model_close(&m->model);
    token_trie_destroy(m->trie);
    pthread_mutex_destroy(&m->trie_lock);
    if (m->chat) chat_template_close(m->chat);
    if (m->tokenizer) tokenizer_close(m->tokenizer);
    free(m);
}

uint32_t mlxcel_vocab_size(const struct mlxcel_model *m) { return m->model.graph.vocab_size; }
uint32_t mlxcel_context_length(const struct mlxcel_model *m) { return m->model.graph.context_length; }
void mlxcel_free(void *memory) { free(memory); }

uint32_t *mlxcel_tokenize(const struct mlxcel_model *m, const char *text, bool special, size_t *n_tokens,
                          struct mlxcel_error *error) {
    struct token_list list = {0};
    struct mx_error err = {0};
    uint32_t *ids = NULL;
    if (tokenizer_encode(m->tokenizer, text, strlen(text), special ? TOKENIZE_SPECIAL : 0, &list, &err)) {
        ids = array_alloc(list.count, sizeof *ids);
        if (ids && list.count) memcpy(ids, list.ids, list.count * sizeof *ids);
        *n_tokens = list.count;
        if (!ids) error_memory(&err, "tokens");
    }
    if (!ids) give_error(error, &err);
    token_list_free(&list);
    return ids;
}

char *mlxcel_detokenize(const struct mlxcel_model *m, const uint32_t *tokens, size_t n_tokens,
                        struct mlxcel_error *error) {
    struct buffer text = {0};
    struct mx_error err = {0};
    char *result = tokenizer_decode(m->tokenizer, tokens, n_tokens, true, &text, &err) ? buffer_take(&text) : NULL;
    if (!result) {
        if (!err.code) error_memory(&err, "text");
        give_error(error, &err);
    }
    buffer_free(&text);
    return result;
}

char *mlxcel_chat_prompt(const struct mlxcel_model *m, const char *messages_json, const char *tools_json,
                         struct mlxcel_error *error) {
    struct arena arena = {0};
    struct buffer text = {0};
    struct mx_error err = {0};
    struct chat_request request = {.add_generation_prompt = true, .adapts_messages = true};
    request.messages = json_parse(&arena, messages_json, strlen(messages_json), JSON_PYTHON_INTEGERS, 64, &err);
    bool ok = request.messages != NULL;
    if (ok && tools_json) {
        request.tools = json_parse(&arena, tools_json, strlen(tools_json), JSON_PYTHON_INTEGERS, 64, &err);
        ok = request.tools != NULL;
    }
    ok = ok && chat_template_render(m->chat, &request, NULL, &text, NULL, &err);
    char *result = ok ? buffer_take(&text) : NULL;
    if (!result) {
        if (!err.code) error_memory(&err, "prompt");
        give_error(error, &err);
    }
    buffer_free(&text);
    arena_free(&arena);
    return result;
}

/* ---- requests ---- */

static void free_job(struct job *job) {
    constraint_destroy(job->constraint);
    text_stream_free(&job->stream);
    for (size_t i = 0; i < job->n_stops && job->stop_texts; i++) free(job->stop_texts[i]);
    free(job->stop_texts);
    free(job->stops);
    free(job);
}

static bool tell(struct job *job, const struct engine_event *e, struct mlxcel_event event) {
    event.request = e->request;
    event.text = job->stream.out.data ? job->stream.out.data : "";
    event.length = job->stream.out.length;
    event.n_prompt = e->n_prompt;
    event.n_cached = e->n_cached;
    event.n_generated = e->n_generated;
    return !job->on_event || job->on_event(job->context, &event);
}

static void finish(struct job *job, const struct engine_event *e) {
    static const enum mlxcel_finish reasons[] = {
        [FINISH_STOP] = MLXCEL_FINISH_STOP,
        [FINISH_LENGTH] = MLXCEL_FINISH_LENGTH,
        [FINISH_CANCELLED] = MLXCEL_FINISH_CANCELLED,
        [FINISH_ERROR] = MLXCEL_FINISH_ERROR,
    };
    struct mlxcel_event event = {.token = UINT32_MAX, .is_last = true, .finish = reasons[e->reason]};
    if (e->error) event.error_message = e->error->message;
    if (job->constraint && constraint_failure(job->constraint)) job->failure = *constraint_failure(job->constraint);
    if (!job->failure.code) text_stream_finish(&job->stream, &job->failure);
    if (job->failure.code) {
        event.finish = MLXCEL_FINISH_ERROR;
        event.error_message = job->failure.message;
    }
    tell(job, e, event);
    if (job->is_done) *job->is_done = true;
    free_job(job);
}

static enum verdict on_engine_event(void *context, const struct engine_event *e) {
    struct job *job = context;
    if (e->kind == EVENT_FINISHED) {
        finish(job, e);
        return VERDICT_STOP;
    }
    if (e->kind != EVENT_TOKEN) return VERDICT_GO_ON;
    if (!text_stream_push(&job->stream, e->token, &job->failure)) return VERDICT_STOP;
    bool goes_on = tell(job, e, (struct mlxcel_event){.token = e->token});
    if (job->constraint && constraint_is_complete(job->constraint, e->choice)) return VERDICT_STOP;
    return goes_on && !job->stream.is_stopped ? VERDICT_GO_ON : VERDICT_STOP;
}

static struct job *make_job(struct mlxcel_model *m, const struct mlxcel_request *r, struct mx_error *err) {
    struct job *job = calloc(1, sizeof *job);
    bool ok = job != NULL;
    if (ok) {
        *job = (struct job){.owner = m, .on_event = r->on_event, .context = r->context, .n_stops = r->n_stop};
        job->stops = array_calloc(r->n_stop, sizeof *job->stops);
        job->stop_texts = array_calloc(r->n_stop, sizeof *job->stop_texts);
        ok = job->stops && job->stop_texts;
        for (size_t i = 0; i < r->n_stop && ok; i++) {
            ok = (job->stop_texts[i] = strdup(r->stop[i])) != NULL;
            if (ok) job->stops[i] = (struct stop_string){job->stop_texts[i], strlen(r->stop[i])};
        }
        if (!ok) error_memory(err, "request");
        ok = ok && text_stream_init(&job->stream, m->tokenizer, NULL, job->stops, r->n_stop, err);
    } else {
        error_memory(err, "request");
    }
    if (ok) return job;
    if (job) free_job(job);
    return NULL;
}

static struct token_trie *trie_of(struct mlxcel_model *m, struct mx_error *err) {
    pthread_mutex_lock(&m->trie_lock);
    if (!m->trie) m->trie = token_trie_create(m->tokenizer, m->model.graph.vocab_size, err);
    pthread_mutex_unlock(&m->trie_lock);
    return m->trie;
}

static struct grammar *grammar_of(const struct mlxcel_request *r, struct mx_error *err) {
    const char *text = r->form_text;
    if (r->form == MLXCEL_FORM_JSON) return grammar_from_json_object(err);
    if (text && r->form == MLXCEL_FORM_JSON_SCHEMA) return grammar_from_schema(text, strlen(text), SCHEMA_FORMATS, err);
    if (text && r->form == MLXCEL_FORM_GBNF) return grammar_from_gbnf(text, strlen(text), err);
    if (text && r->form == MLXCEL_FORM_REGEX) return grammar_from_regex(text, strlen(text), err);
    error_set(err, ERROR_USAGE, text ? "form is %d, which is none of MLXCEL_FORM_..." : "form %d needs a form_text",
              (int)r->form);
    return NULL;
}

/* Holds the job's answer to the form that was asked for. */
static bool constrain(struct mlxcel_model *m, struct job *job, const struct mlxcel_request *r, struct engine_request *e,
                      struct mx_error *err) {
    if (r->form == MLXCEL_FORM_TEXT) return true;
    struct constraint_options options = {
        .trie = trie_of(m, err), .end_ids = m->model.stop_ids, .n_end_ids = m->model.n_stop_ids};
    if (!options.trie || !(options.grammar = grammar_of(r, err))) return false;
    if (!(job->constraint = constraint_create(&options, err))) return false;
    e->mask = (struct token_mask){.context = job->constraint, .fill = constraint_fill, .accept = constraint_accept};
    return true;
}

void mlxcel_request_init(struct mlxcel_request *r) {
    *r = (struct mlxcel_request){.max_tokens = -1, .top_p = 1, .repetition_penalty = 1, .seed = -1};
}

static uint64_t submit(struct mlxcel_model *m, const struct mlxcel_request *r, const uint32_t *prompt, size_t n_prompt,
                       bool *is_done, struct mx_error *err) {
    struct engine_request e = {.prompt = prompt,
                               .n_prompt = n_prompt,
                               .max_tokens = r->max_tokens,
                               .sampling = sampling_defaults(),
                               .on_event = on_engine_event};
    e.sampling.temperature = r->temperature;
    e.sampling.top_k = r->top_k;
    e.sampling.top_p = r->top_p;
    e.sampling.min_p = r->min_p;
    e.sampling.repetition_penalty = r->repetition_penalty;
    e.sampling.presence_penalty = r->presence_penalty;
    e.sampling.frequency_penalty = r->frequency_penalty;
    e.sampling.seed = r->seed;
    e.sampling.ignore_eos = r->ignore_eos;
    struct job *job = make_job(m, r, err);
    uint64_t id = 0;
    if (!job) return 0;
    job->is_done = is_done;
    e.context = job;
    if (constrain(m, job, r, &e, err) && engine_submit(m->engine, &e, &id, err)) return id;
    free_job(job);
    return 0;
}

uint64_t mlxcel_submit(struct mlxcel_model *m, const struct mlxcel_request *request, struct mlxcel_error *error) {
    struct mx_error err = {0};
    uint64_t id = submit(m, request, request->prompt, request->n_prompt, NULL, &err);
    if (!id) give_error(error, &err);
    return id;
}

void mlxcel_cancel(struct mlxcel_model *m, uint64_t request) { engine_cancel(m->engine, request); }

bool mlxcel_step(struct mlxcel_model *m) { return engine_step(m->engine); }

bool mlxcel_generate(struct mlxcel_model *m, const char *prompt, const struct mlxcel_request *request,
                     struct mlxcel_error *error) {
    struct token_list list = {0};
    struct mx_error err = {0};
    bool is_done = false;
    bool ok = tokenizer_encode(m->tokenizer, prompt, strlen(prompt), TOKENIZE_SPECIAL, &list, &err) &&
              submit(m, request, list.ids, list.count, &is_done, &err) != 0;
    token_list_free(&list);
    while (ok && !is_done) engine_step(m->engine);
    if (!ok) give_error(error, &err);
    return ok;
}

const char *mlxcel_version(void) { return MLXCEL_VERSION; }
