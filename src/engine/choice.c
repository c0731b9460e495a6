/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: checking, copying, the inbox, cancelling. */
#include "engine/choice.h"

#include "base/memory.h"

#include <string.h>

static void release_shared(struct engine *e, struct shared_request *shared) {
    if (--shared->n_left) return;
    pthread_mutex_lock(&e->lock);
    if (shared->prev)
        shared->prev->next = shared->next;
    else if (e->live == shared)
        e->live = shared->next;
    if (shared->next) shared->next->prev = shared->prev;
    pthread_mutex_unlock(&e->lock);
    free((void *)(uintptr_t)shared->request.prompt);
    free((void *)(uintptr_t)shared->request.stop_ids);
    free(shared);
}

static void free_choice(struct engine *e, struct choice *c) {
    if (c->sequence.model) sequence_free(&c->sequence);
    if (c->has_sampler) sampler_free(&c->sampler);
    diffusion_free(c->diffusion);
    free(c->tokens);
    free(c->pooled);
    release_shared(e, c->shared);
    free(c);
}

enum verdict choice_tell(struct choice *c, struct engine_event event) {
    const struct engine_request *r = &c->shared->request;
    event.request = c->shared->id;
    event.choice = c->number;
    event.n_prompt = c->n_prompt;
    event.n_cached = c->n_cached;
    event.cache = c->cache;
    event.n_computed = c->sequence.n_cells < c->n_prompt ? c->sequence.n_cells : c->n_prompt;
    event.n_generated = c->n_tokens - c->n_prompt;
    return r->on_event ? r->on_event(r->context, &event) : VERDICT_GO_ON;
}

void choice_finish(struct engine *e, struct choice *c, struct engine_event event) {
    event.kind = EVENT_FINISHED;
    choice_tell(c, event);
    if (c->shared->request.keeps && !c->number && !e->model->graph.diffusion.kind && event.reason != FINISH_ERROR)
        kept_put(&e->kept, &c->sequence, &c->tokens, c->n_prompt);
    free_choice(e, c);
}

uint32_t engine_most_tokens(const struct engine *e) {
    const struct model *m = e->model;
    uint32_t most = m->options.max_cells;
    for (size_t g = 0; g < m->graph.n_groups; g++) {
        uint32_t n_pages = m->store.pages[g].n;
        if (m->graph.groups[g].policy == CACHE_FULL && n_pages < most / PAGE_CELLS + 1) most = n_pages * PAGE_CELLS;
    }
    return most > m->graph.diffusion.block_length ? most - m->graph.diffusion.block_length : 0;
}

static bool check_request(const struct engine *e, const struct engine_request *r, struct mx_error *err) {
    uint32_t vocab = e->model->graph.vocab_size, most = engine_most_tokens(e);
    if (!r->n_prompt) return error_set(err, ERROR_USAGE, "the prompt is empty");
    if (r->n_prompt >= most)
        return error_set(err, ERROR_USAGE, "the prompt has %zu tokens, the context has room for %u", r->n_prompt, most);
    for (size_t i = 0; i < r->n_prompt; i++)
        if (r->prompt[i] >= vocab)
            return error_set(err, ERROR_USAGE, "token %u of the prompt is not below the vocabulary's %u", r->prompt[i],
                             vocab);
    if (r->max_tokens == 0 || r->max_tokens < -1)
        return error_set(err, ERROR_USAGE, "max_tokens is %lld, expected -1 or at least 1", (long long)r->max_tokens);
    if (r->n_choices > e->model->options.max_sequences)
        return error_set(err, ERROR_USAGE, "%u choices, but only %u sequences are held at a time", r->n_choices,
                         e->model->options.max_sequences);
    if (r->pooling && e->model->graph.diffusion.kind)
        return error_set(err, ERROR_UNSUPPORTED, "models that denoise blocks give no vectors");
    if (r->mask.fill && e->model->graph.diffusion.kind)
        return error_set(err, ERROR_UNSUPPORTED, "models that denoise blocks do not take grammars or schemas");
    return sampling_check(&r->sampling, err);
}

/* The end of the answer: cells for the prompt and max_tokens, within the context. */
static size_t last_length(const struct engine *e, const struct engine_request *r) {
    size_t most = engine_most_tokens(e);
    if (r->max_tokens < 0 || (uint64_t)r->max_tokens > most - r->n_prompt) return most;
    return r->n_prompt + (size_t)r->max_tokens;
}

static void *copy_ids(const uint32_t *ids, size_t n) {
    uint32_t *copy = array_alloc(n, sizeof *copy);
    if (copy && n) memcpy(copy, ids, n * sizeof *copy);
    return copy;
}

static bool init_sampler(struct engine *e, struct choice *c, struct mx_error *err) {
    const struct engine_request *r = &c->shared->request;
    const struct model *m = e->model;
    size_t n = m->n_stop_ids + r->n_stop_ids;
    uint32_t *stops = array_alloc(n, sizeof *stops);
    if (!stops) return error_memory(err, "request");
    if (m->n_stop_ids) memcpy(stops, m->stop_ids, m->n_stop_ids * sizeof *stops);
    if (r->n_stop_ids) memcpy(stops + m->n_stop_ids, r->stop_ids, r->n_stop_ids * sizeof *stops);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (stops[i] < m->graph.vocab_size) stops[kept++] = stops[i];
    struct sampler_tokens tokens = {.stop_ids = stops,
                                    .n_stop_ids = kept,
                                    .breakers = r->breakers,
                                    .n_tokens = e->options.n_tokens < m->graph.vocab_size ? e->options.n_tokens : 0};
    c->has_sampler = sampler_init(&c->sampler, &r->sampling, m->graph.vocab_size, &tokens, err);
    free(stops);
    return c->has_sampler && sampler_reserve(&c->sampler, c->room, err) &&
           sampler_accept_prompt(&c->sampler, c->tokens, c->n_prompt, err);
}

/* The sampler of a further choice goes on from that of the first, with numbers of its own. */
static bool fork_sampler(struct choice *c, const struct choice *first, struct mx_error *err) {
    c->has_sampler = sampler_fork(&c->sampler, &first->sampler, c->number, err);
    return c->has_sampler && sampler_reserve(&c->sampler, c->room, err);
}

static struct choice *make_choice(struct engine *e, struct shared_request *shared, uint32_t number,
                                  const struct choice *first, struct mx_error *err) {
    struct choice *c = calloc(1, sizeof *c);
    if (!c) {
        error_memory(err, "request");
        return NULL;
    }
    shared->n_left++;
    *c = (struct choice){.shared = shared, .number = number, .state = number ? STATE_SHARING : STATE_WAITING};
    c->n_tokens = c->n_prompt = shared->request.n_prompt;
    c->room = last_length(e, &shared->request);
    c->tokens = array_alloc(c->room + 1, sizeof *c->tokens);
    if (!c->tokens)
        error_memory(err, "request");
    else
        memcpy(c->tokens, shared->request.prompt, c->n_prompt * sizeof *c->tokens);
    if (c->tokens && shared->request.pooling) {
        c->pooled = array_calloc(e->model->graph.hidden_size, sizeof *c->pooled);
        if (!c->pooled) {
            error_memory(err, "request");
            free_choice(e, c);
            return NULL;
        }
    }
    if (c->tokens && sequence_init(&c->sequence, e->model, err) &&
        (first ? fork_sampler(c, first, err) : init_sampler(e, c, err)))
        return c;
    free_choice(e, c);
    return NULL;
}

bool engine_submit(struct engine *e, const struct engine_request *request, uint64_t *id, struct mx_error *err) {
    if (!check_request(e, request, err)) return false;
    struct shared_request *shared = calloc(1, sizeof *shared);
    if (!shared) return error_memory(err, "request");
    shared->n_left = 1; /* held here until the choices are linked */
    shared->request = *request;
    if (!shared->request.n_choices) shared->request.n_choices = 1;
    shared->request.prompt = copy_ids(request->prompt, request->n_prompt);
    shared->request.stop_ids = copy_ids(request->stop_ids, request->n_stop_ids);
    bool ok = (shared->request.prompt && shared->request.stop_ids) || error_memory(err, "request");
    struct choice *first = NULL, **end = &first;
    for (uint32_t i = 0; ok && i < shared->request.n_choices; i++) {
        ok = (*end = make_choice(e, shared, i, first, err)) != NULL;
        if (ok) end = &(*end)->next;
    }
    if (ok) {
        pthread_mutex_lock(&e->lock);
        shared->id = ++e->next_id;
        *id = shared->id;
        shared->next = e->live;
        if (e->live) e->live->prev = shared;
        e->live = shared;
        struct choice **last = &e->inbox;
        while (*last) last = &(*last)->next;
        *last = first;
        e->is_woken = true;
        pthread_cond_signal(&e->wake);
        shared->n_left--;
        pthread_mutex_unlock(&e->lock);
        return true;
    }
    while (first) {
        struct choice *next = first->next;
        free_choice(e, first);
        first = next;
    }
    release_shared(e, shared);
    return false;
}

void engine_cancel(struct engine *e, uint64_t id) {
    pthread_mutex_lock(&e->lock);
    for (struct shared_request *r = e->live; r; r = r->next)
        if (r->id == id) atomic_store(&r->is_cancelled, true);
    e->is_woken = true;
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
}
