/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/served.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "engine/sampler_dry.h"

#include <stdio.h>
#include <string.h>

/* ---- the engine's thread ---- */

static void publish(struct served *s, uint64_t began_ns) {
    struct engine_stats stats = engine_stats(s->engine);
    pthread_mutex_lock(&s->lock);
    uint64_t n_steps = stats.n_steps - s->stats.n_steps;
    s->stats = stats;
    if (began_ns) s->awake_ns += clock_now_ns() - began_ns;
    pthread_mutex_unlock(&s->lock);
    if (n_steps) metrics_observe(&s->metrics->batch_size, stats.n_decoding + stats.n_prefilling);
}

static void *run(void *context) {
    struct served *s = context;
    while (!atomic_load(&s->is_stopping)) {
        uint64_t now = clock_now_ns();
        atomic_store(&s->step_since_ns, now);
        bool has_more = engine_step(s->engine);
        /* Before clients learn of it, who may ask for the health next. */
        if (engine_failure(s->engine)) atomic_store(&s->is_damaged, true);
        if (s->after_step.call) s->after_step.call(s->after_step.context);
        atomic_store(&s->step_since_ns, 0);
        publish(s, has_more ? now : 0);
        if (!has_more) engine_wait(s->engine, 1000);
    }
    return NULL;
}

/* ---- loading ---- */

static bool open_template(struct served *s, struct mx_error *err) {
    const char *text = s->options->chat_template;
    s->chat = chat_template_open(s->path, err);
    if (!s->chat) return false;
    if (text && chat_template_text(s->chat, text))
        s->template_name = text;
    else if (text) {
        chat_template_close(s->chat);
        s->chat = chat_template_from_text(text, strlen(text), s->path, err);
        if (!s->chat) return false;
    }
    uint32_t id;
    s->has_template = chat_template_exists(s->chat);
    if (!s->has_template)
        return chat_template_set_fallback(s->chat, tokenizer_find(s->tokenizer, "<|im_start|>", 12, &id), err);
    return true;
}

static bool has_token(void *tokenizer, const char *text) {
    uint32_t id;
    return tokenizer_find(tokenizer, text, strlen(text), &id);
}

static bool parse_kwargs(struct served *s, struct mx_error *err) {
    const char *text = s->options->chat_template_kwargs;
    if (!text) return true;
    s->kwargs = json_parse(&s->arena, text, strlen(text), JSON_PYTHON_INTEGERS, 64, err);
    if (!s->kwargs) return error_prefix(err, "--chat-template-kwargs");
    return json_is_object(s->kwargs) || error_set(err, ERROR_USAGE, "--chat-template-kwargs is no JSON object");
}

/* generation_config.json gives defaults, the command line overrides them. Penalties of that file are left out: greedy
 * answers should be what the model says. */
static bool read_sampling(struct served *s, struct mx_error *err) {
    static const char *const names[] = {"temperature", "top_k", "top_p"};
    struct arena arena = {0};
    char *path = path_join(&arena, s->path, "generation_config.json"), *text = NULL;
    size_t length;
    bool ok = path != NULL || error_memory(err, s->path);
    s->sampling = sampling_server_defaults();
    if (ok && file_exists(path)) {
        text = file_read(path, 1 << 20, &length, err);
        const struct json *root = text ? json_parse(&arena, text, length, JSON_ALLOW_NAN, 64, err) : NULL;
        ok = root != NULL || error_prefix(err, "%s", path);
        for (size_t i = 0; ok && i < sizeof names / sizeof *names; i++) {
            const struct json *v = json_get(root, names[i]);
            struct mx_error ignored;
            if (json_is_number(v))
                sampling_set(&s->sampling, sampling_field_find(names[i]), json_number(v, 0), &ignored);
        }
        if (ok && json_get(root, "do_sample") && !json_bool(json_get(root, "do_sample"), true))
            s->sampling.temperature = 0;
    }
    free(text);
    arena_free(&arena);
    return ok &&
           (!s->options->set_sampling || s->options->set_sampling(s->options->sampling_context, &s->sampling, err));
}

/* Pools: as many pages as the budget allows, at most what every slot's longest sequence and the cache can use. */
static bool open_engine(struct served *s, struct mx_error *err) {
    const struct server_options *o = s->options;
    struct model_options m = o->model;
    m.max_sequences = o->n_parallel;
    m.max_cells = o->context;
    m.max_outputs = o->n_parallel < 64 ? 64 : o->n_parallel; /* so that embeddings take few steps */
    m.n_snapshots = o->has_cache ? 2 * o->n_parallel + 8 : 0;
    m.cache_bytes = o->kv_budget ? o->kv_budget : memory_available() / 2;
    struct config config;
    if (!config_open(&config, s->path, err)) return false;
    uint32_t context = o->context ? o->context : (uint32_t)config_size_or(&config, "max_position_embeddings", 4096);
    config_close(&config);
    if (o->has_cache) {
        uint64_t cells = (uint64_t)context * (o->n_parallel < 4 ? 4 : o->n_parallel);
        m.n_cache_pages = (uint32_t)(cells / PAGE_CELLS < 1 << 20 ? cells / PAGE_CELLS : 1 << 20);
    }
    if (!model_open(&s->model, s->path, &m, err)) return false;
    struct engine_options e = {.n_tokens = (uint32_t)tokenizer_vocab_size(s->tokenizer),
                               .cache_within_pages = !s->is_shared,
                               .diffusion = o->diffusion,
                               .step_ns = (uint64_t)(o->step_ms * 1e6)};
    if (o->has_cache) {
        uint64_t page_bytes = 1;
        enum kv_format format = m.precision == PRECISION_EXACT ? KV_F32 : KV_F16;
        for (size_t g = 0; g < s->model.graph.n_groups; g++)
            page_bytes += cache_group_page_bytes(&s->model.graph.groups[g], format);
        e.cache_pages = m.n_cache_pages;
        if (o->cache_bytes && o->cache_bytes / page_bytes < e.cache_pages) e.cache_pages = o->cache_bytes / page_bytes;
        if (!e.cache_pages) e.cache_pages = 1;
    }
    return (s->engine = engine_create(&s->model, &e, err)) != NULL;
}

static void describe(struct served *s) {
    const struct json *type = json_get(s->model.config.root, "model_type");
    size_t n = json_is_string(type) ? type->count : 0;
    if (n >= sizeof s->family) n = sizeof s->family - 1;
    if (n) memcpy(s->family, type->string, n);
    for (size_t i = 0; i < s->model.graph.weights.n; i++) {
        const struct weight *w = s->model.graph.weights.list[i];
        if (!w->is_repeat) s->n_parameters += (uint64_t)w->n_rows * w->n_cols * (w->n_experts ? w->n_experts : 1);
    }
}

struct served *served_open(const struct server_options *options, bool is_shared, struct metrics *metrics,
                           struct step_hook after_step, const char *path, const char *id, struct mx_error *err) {
    static const char breakers[] = "[\"\\n\",\":\",\"\\\"\",\"*\"]";
    uint64_t start = clock_now_ns();
    struct served *s = calloc(1, sizeof *s);
    if (!s) {
        error_memory(err, path);
        return NULL;
    }
    s->options = options;
    s->is_shared = is_shared;
    s->metrics = metrics;
    s->after_step = after_step;
    s->created_unix = (int64_t)time(NULL);
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->trie_lock, NULL);
    pthread_mutex_init(&s->slots_lock, NULL);
    s->slots = array_calloc(options->n_parallel, sizeof *s->slots);
    s->id = strdup(id);
    s->path = strdup(path);
    bool ok = (s->id && s->path && s->slots) || error_memory(err, path);
    ok = ok && (s->tokenizer = tokenizer_open(path, err)) != NULL && open_template(s, err) && parse_kwargs(s, err) &&
         read_sampling(s, err) && open_engine(s, err);
    if (ok) {
        const struct json *strings = json_parse(&s->arena, breakers, sizeof breakers - 1, 0, 4, err);
        ok = strings && served_make_breakers(s, strings, &s->breakers, err);
    }
    if (ok) {
        s->format = reply_format_detect(chat_template_text(s->chat, s->template_name), has_token, s->tokenizer);
        s->thinks = chat_vocabulary_thinks(has_token, s->tokenizer);
        s->has_thread = !pthread_create(&s->thread, NULL, run, s);
        ok = s->has_thread || error_set(err, ERROR_IO, "cannot start a thread");
    }
    if (ok) describe(s);
    s->load_ns = clock_now_ns() - start;
    if (ok) return s;
    served_close(s);
    return NULL;
}

void served_close(struct served *s) {
    if (!s) return;
    atomic_store(&s->is_stopping, true);
    if (s->has_thread) {
        engine_wake(s->engine);
        pthread_join(s->thread, NULL);
    }
    engine_destroy(s->engine);
    model_close(&s->model);
    dry_breakers_free(&s->breakers);
    if (s->chat) chat_template_close(s->chat);
    if (s->tokenizer) tokenizer_close(s->tokenizer);
    free((void *)(uintptr_t)s->sampling.logit_bias);
    arena_free(&s->arena);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->trie_lock);
    token_trie_destroy(s->trie);
    for (uint32_t i = 0; s->slots && i < s->options->n_parallel; i++) free(s->slots[i].tokens);
    free(s->slots);
    pthread_mutex_destroy(&s->slots_lock);
    free(s->id);
    free(s->path);
    free(s);
}

struct engine_stats served_stats(struct served *s) {
    pthread_mutex_lock(&s->lock);
    struct engine_stats stats = s->stats;
    pthread_mutex_unlock(&s->lock);
    return stats;
}

const struct token_trie *served_trie(struct served *s, struct mx_error *err) {
    pthread_mutex_lock(&s->trie_lock);
    if (!s->trie) s->trie = token_trie_create(s->tokenizer, s->model.graph.vocab_size, err);
    const struct token_trie *trie = s->trie;
    pthread_mutex_unlock(&s->trie_lock);
    return trie;
}

bool served_is_healthy(struct served *s, uint64_t now_ns) {
    uint64_t since = atomic_load(&s->step_since_ns);
    if (atomic_load(&s->is_damaged)) return false;
    return !since || now_ns < since || (double)(now_ns - since) < s->options->stuck_timeout * 1e9;
}

/* ---- slots ---- */

void served_keep_slot(struct served *s, int64_t slot, uint32_t *tokens, size_t n) {
    pthread_mutex_lock(&s->slots_lock);
    if (slot < 0 || slot >= s->options->n_parallel) {
        slot = 0;
        for (uint32_t i = 1; i < s->options->n_parallel; i++)
            if (s->slots[i].used_ns < s->slots[slot].used_ns) slot = i;
    }
    free(s->slots[slot].tokens);
    s->slots[slot] = (struct slot_tokens){tokens, n, clock_now_ns()};
    pthread_mutex_unlock(&s->slots_lock);
}

uint32_t *served_copy_slot(struct served *s, uint32_t slot, size_t *n) {
    pthread_mutex_lock(&s->slots_lock);
    *n = s->slots[slot].n;
    uint32_t *copy = *n ? array_alloc(*n, sizeof *copy) : NULL;
    if (copy) memcpy(copy, s->slots[slot].tokens, *n * sizeof *copy);
    pthread_mutex_unlock(&s->slots_lock);
    return copy;
}

/* ---- DRY breakers ---- */

static size_t encode(void *context, const char *text, size_t length, uint32_t *ids, size_t room) {
    struct token_list list = {0};
    struct mx_error err;
    size_t n = 0;
    if (tokenizer_encode(context, text, length, TOKENIZE_PLAIN, &list, &err))
        for (; n < list.count && n < room; n++) ids[n] = list.ids[n];
    token_list_free(&list);
    return n;
}

bool served_make_breakers(const struct served *s, const struct json *strings, struct dry_breakers *breakers,
                          struct mx_error *err) {
    size_t n_pieces = tokenizer_vocab_size(s->tokenizer);
    if (strings->count > 64)
        return error_set(err, ERROR_USAGE, "at most 64 breakers are taken, not %u", strings->count);
    struct byte_span *pieces = array_calloc(n_pieces, sizeof *pieces), spans[64];
    if (!pieces) return error_memory(err, "breakers");
    for (size_t i = 0; i < n_pieces; i++)
        if (!tokenizer_is_special(s->tokenizer, (uint32_t)i))
            tokenizer_token_bytes(s->tokenizer, (uint32_t)i, &pieces[i].bytes, &pieces[i].n);
    bool ok = true;
    for (uint32_t i = 0; i < strings->count && ok; i++) {
        const struct json *v = &strings->items[i];
        if (!json_is_string(v))
            ok = error_set(err, ERROR_USAGE, "breakers must be strings");
        else
            spans[i] = (struct byte_span){v->string, v->count};
    }
    ok = ok && dry_breakers_from_strings(breakers, spans, strings->count, pieces, (uint32_t)n_pieces, encode,
                                         s->tokenizer, err);
    free(pieces);
    return ok;
}
