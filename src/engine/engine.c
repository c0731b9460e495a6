/* SPDX-License-Identifier: Apache-2.0 */
/* The stepping side of the engine: admission, step assembly, sampling, delivery. */
#include "engine/engine.h"

#include "base/clock.h"
#include "base/memory.h"
#include "engine/choice.h"

#include <errno.h>
#include <string.h>

/* Prompts of models that need snapshots to go back get one at every so many tokens, and at the last page border. */
enum { SNAPSHOT_CELLS = 512 };

/* ---- lists ---- */

/* Into the waiting list: after its equals in priority, or before them where it goes back. */
static void enqueue(struct engine *e, struct choice *c, bool before_equals) {
    struct choice **at = &e->waiting;
    int priority = c->shared->request.priority;
    while (*at && ((*at)->shared->request.priority > priority ||
                   (!before_equals && (*at)->shared->request.priority == priority)))
        at = &(*at)->next;
    c->next = *at;
    *at = c;
    e->stats.n_waiting++;
}

static void empty_inbox(struct engine *e) {
    pthread_mutex_lock(&e->lock);
    struct choice *list = e->inbox;
    e->inbox = NULL;
    e->is_woken = false;
    pthread_mutex_unlock(&e->lock);
    while (list) {
        struct choice *next = list->next;
        enqueue(e, list, false);
        list = next;
    }
}

static void remove_admitted(struct engine *e, uint32_t index) {
    memmove(e->admitted + index, e->admitted + index + 1, (e->n_admitted - index - 1) * sizeof *e->admitted);
    e->n_admitted--;
}

static uint32_t index_of(const struct engine *e, const struct choice *c) {
    uint32_t i = 0;
    while (i < e->n_admitted && e->admitted[i] != c) i++;
    return i;
}

/* Ends an admitted choice. Those that waited for its prompt compute it for themselves. */
void engine_end_choice(struct engine *e, struct choice *c, struct engine_event event) {
    remove_admitted(e, index_of(e, c));
    for (struct choice *w = e->waiting; w && c->number == 0; w = w->next)
        if (w->shared == c->shared && w->state == STATE_SHARING) w->state = STATE_WAITING;
    choice_finish(e, c, event);
}

static void drop_cancelled(struct engine *e, bool all, struct engine_event event) {
    for (uint32_t i = e->n_admitted; i-- > 0;)
        if (all || atomic_load(&e->admitted[i]->shared->is_cancelled)) engine_end_choice(e, e->admitted[i], event);
    for (struct choice **at = &e->waiting; *at;) {
        struct choice *c = *at;
        if (!all && !atomic_load(&c->shared->is_cancelled)) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        e->stats.n_waiting--;
        choice_finish(e, c, event);
    }
}

/* ---- admission ---- */

/* Pages of a group that the sequence has. A last one that it shares and will write into takes a page for the copy. */
static size_t pages_held(const struct sequence *s, size_t g) {
    const struct ref_pool *pool = &s->model->store.pages[g];
    uint32_t n_whole = s->n_cells / PAGE_CELLS, n = n_whole - s->first_page[g];
    if (s->n_cells % PAGE_CELLS && pool->references[s->tables[g][n_whole]] == 1) n++;
    return n;
}

/* Whether the pools have pages for the choice's tokens and one more page of each group, and a state slot. */
static bool pages_suffice(const struct engine *e, const struct choice *c) {
    const struct model *m = e->model;
    for (size_t g = 0; g < m->graph.n_groups; g++) {
        size_t needed = model_pages_for(&m->graph.groups[g], (uint32_t)c->n_tokens, m->options.max_rows) + 1;
        if (m->store.pages[g].n_free + pages_held(&c->sequence, g) < needed) return false;
    }
    return !m->graph.state_floats || c->sequence.state != NO_SLOT || m->store.states.n_free > 0;
}

/* Takes something from the caches. */
static bool shrink_cache(struct engine *e) {
    if (kept_drop(&e->kept)) return true;
    if (e->model->graph.state_floats && !e->model->store.states.n_free && prefix_cache_evict(&e->cache, true))
        return true;
    return prefix_cache_evict(&e->cache, false);
}

/* What the prefix cache, or the sequence that was kept, knows of the tokens. */
static void use_cache(struct engine *e, struct choice *c) {
    if (c->sequence.n_cells) return;
    struct cache_finding finding = {CACHE_ALL_NEEDED, 0};
    if (c->shared->request.pooling == POOLING_MEAN) {
        c->cache = finding;
        return;
    }
    uint32_t n = prefix_cache_lookup(&e->cache, c->tokens, c->n_tokens, &c->sequence, &finding);
    if (c->shared->request.keeps) {
        uint32_t common = kept_common(&e->kept, c->tokens, c->n_tokens);
        if (common > n && kept_take(&e->kept, &c->sequence, common, n + 1)) n = c->sequence.n_cells;
        kept_drop(&e->kept);
    }
    if (c->n_tokens != c->n_prompt) return; /* preempted: the request's figures stand */
    c->n_cached = n;
    c->cache = finding;
    e->stats.n_prompt_tokens += c->n_prompt;
    e->stats.n_cached_tokens += n;
}

/* Admits in order; choices that share a prompt come with their first one. */
static void admit(struct engine *e) {
    /* Models that denoise blocks serve one request after another. */
    uint32_t most = e->model->graph.diffusion.kind ? 1 : e->model->options.max_sequences;
    for (struct choice **at = &e->waiting; *at && e->n_admitted < most;) {
        struct choice *c = *at;
        if (c->state == STATE_SHARING) {
            at = &c->next;
            continue;
        }
        use_cache(e, c);
        while (!pages_suffice(e, c) && shrink_cache(e)) continue;
        if (e->n_admitted && !pages_suffice(e, c)) {
            if (c->sequence.n_cells) sequence_clear(&c->sequence);
            return;
        }
        *at = c->next;
        e->stats.n_waiting--;
        c->state = STATE_PREFILL;
        e->admitted[e->n_admitted++] = c;
    }
}

/* The youngest choice gives its pages back and waits again. */
static bool preempt_youngest(struct engine *e, const struct choice *but) {
    for (uint32_t i = e->n_admitted; i-- > 0;) {
        struct choice *c = e->admitted[i];
        if (c == but || c->is_in_step || !c->sequence.n_cells) continue;
        sequence_clear(&c->sequence);
        c->state = STATE_WAITING;
        remove_admitted(e, i);
        enqueue(e, c, true);
        e->stats.n_preempted++;
        return true;
    }
    return false;
}

/* Whether no other admitted choice has cells. */
static bool holds_all(const struct engine *e, const struct choice *c) {
    for (uint32_t i = 0; i < e->n_admitted; i++)
        if (e->admitted[i] != c && e->admitted[i]->sequence.n_cells) return false;
    return true;
}

/* ---- assembling a step ---- */

static bool add_rows(struct engine *e, struct choice *c, uint32_t n, enum outputs outputs) {
    const uint32_t *tokens = c->tokens + c->sequence.n_cells;
    if (!batch_add(&e->batch, &c->sequence, tokens, n, (uint32_t)c->n_prompt, outputs, &c->output)) return false;
    c->is_in_step = true;
    c->n_rows = n;
    c->wants_token = outputs == OUTPUT_LAST;
    e->stepping[e->n_stepping++] = c;
    return true;
}

/* One row for each decoding choice. Where pages are out, others are preempted; a choice that finds none and nobody else has
 * any has reached the end of what can be held. */
static void add_decode_rows(struct engine *e) {
    for (uint32_t i = 0; i < e->n_admitted; i++) {
        struct choice *c = e->admitted[i];
        if (c->state != STATE_DECODE) continue;
        bool ok = add_rows(e, c, 1, OUTPUT_LAST);
        while (!ok && batch_room(&e->batch) && (shrink_cache(e) || preempt_youngest(e, c))) {
            i = index_of(e, c);
            ok = add_rows(e, c, 1, OUTPUT_LAST);
        }
        if (!ok && batch_room(&e->batch) && holds_all(e, c)) {
            engine_end_choice(e, c, choice_ending(FINISH_LENGTH));
            i--;
        }
    }
}

/* Prompt rows that the step may take: all that fit, or beside decoding sequences what keeps its duration. */
static uint32_t prompt_budget(const struct engine *e) {
    uint32_t room = batch_room(&e->batch);
    if (!e->batch.step.n_rows || !e->options.step_ns || e->row_ns <= 0) return room;
    double rows = (double)e->options.step_ns / e->row_ns;
    uint32_t least = 16; /* a prompt must get on even when one row takes longer than the wanted step */
    if (rows < least) return room < least ? room : least;
    return rows < room ? (uint32_t)rows : room;
}

/* Where a model needs snapshots, steps end at the places for them. */
static uint32_t rows_to_border(const struct engine *e, const struct choice *c) {
    uint32_t at = c->sequence.n_cells, border = at / SNAPSHOT_CELLS * SNAPSHOT_CELLS + SNAPSHOT_CELLS;
    uint32_t last = (uint32_t)(c->n_tokens - 1) / PAGE_CELLS * PAGE_CELLS;
    if (!e->cache.root || !e->cache.needs_snapshots) return UINT32_MAX;
    if (last > at && last < border) border = last;
    return border - at;
}

static void add_prompt_rows(struct engine *e) {
    uint32_t budget = prompt_budget(e);
    for (uint32_t i = 0; i < e->n_admitted && budget; i++) {
        struct choice *c = e->admitted[i];
        if (c->state != STATE_PREFILL) continue;
        uint32_t left = (uint32_t)(c->n_tokens - c->sequence.n_cells), n = left < budget ? left : budget;
        uint32_t to_border = rows_to_border(e, c);
        if (n > to_border) n = to_border;
        bool is_last = n == left, pools_all = c->shared->request.pooling == POOLING_MEAN;
        if (!c->was_started) {
            c->was_started = true;
            choice_tell(c, (struct engine_event){.kind = EVENT_STARTED, .token = SAMPLE_NONE});
        }
        if (pools_all) {
            uint32_t room = batch_output_room(&e->batch);
            if (!room) continue;
            if (n > room) n = room;
        } else if (is_last && !batch_output_room(&e->batch)) {
            if (n == 1) continue;
            n--;
            is_last = false;
        }
        enum outputs outputs = pools_all ? OUTPUT_ALL : is_last ? OUTPUT_LAST : OUTPUT_NONE;
        bool ok = add_rows(e, c, n, outputs);
        while (!ok && shrink_cache(e)) ok = add_rows(e, c, n, outputs);
        if (!ok && !e->batch.step.n_rows && holds_all(e, c)) {
            /* Nobody else has pages and still there are none: fewer rows may fit (a page at a time), else nothing will. */
            ok = n > PAGE_CELLS && add_rows(e, c, PAGE_CELLS, pools_all ? OUTPUT_ALL : OUTPUT_NONE);
            if (!ok) {
                engine_end_choice(e, c, choice_ending(FINISH_LENGTH));
                i--;
                continue;
            }
        }
        if (ok) budget -= c->n_rows;
    }
}

/* ---- after a step ---- */

void engine_fail_choice(struct engine *e, struct choice *c, enum error_code code, const char *message) {
    struct mx_error err;
    error_set(&err, code, "%s", message);
    struct engine_event event = choice_ending(FINISH_ERROR);
    event.error = &err;
    engine_end_choice(e, c, event);
}

static bool is_stop_token(const struct engine *e, const struct choice *c, uint32_t token) {
    const struct engine_request *r = &c->shared->request;
    for (size_t i = 0; i < r->n_stop_ids; i++)
        if (r->stop_ids[i] == token) return true;
    return !r->sampling.ignore_eos && model_is_stop_id(e->model, token);
}

bool engine_take_token(struct engine *e, struct choice *c, const struct sample_result *result) {
    const struct engine_request *r = &c->shared->request;
    uint32_t token = result->token;
    struct engine_event event = {.kind = EVENT_TOKEN, .token = token, .sample = result};
    if (is_stop_token(e, c, token)) {
        event.reason = FINISH_STOP;
        engine_end_choice(e, c, event);
        return false;
    }
    if (!sampler_accept(&c->sampler, token)) {
        engine_fail_choice(e, c, ERROR_MEMORY, "out of memory (sampler)");
        return false;
    }
    if (r->mask.accept) r->mask.accept(r->mask.context, c->number, token);
    c->tokens[c->n_tokens++] = token;
    c->state = STATE_DECODE;
    if (choice_tell(c, event) == VERDICT_STOP || sampler_is_looping(&c->sampler)) {
        engine_end_choice(e, c, choice_ending(FINISH_STOP));
        return false;
    }
    if (c->n_tokens < c->room) return true;
    engine_end_choice(e, c, choice_ending(FINISH_LENGTH));
    return false;
}

/* Draws the next token of a choice from its row of logits. */
static void sample(struct engine *e, struct choice *c, const float *logits) {
    const struct engine_request *r = &c->shared->request;
    const uint32_t *allowed = NULL;
    struct sample_result result;
    if (r->mask.fill) {
        memset(e->mask_bits, 0, ((size_t)e->model->graph.vocab_size + 31) / 32 * sizeof *e->mask_bits);
        if (r->mask.fill(r->mask.context, c->number, e->mask_bits)) allowed = e->mask_bits;
    }
    sampler_sample(&c->sampler, &e->scratch, logits, allowed, &result);
    if (result.status != SAMPLE_OK) {
        engine_fail_choice(e, c, result.status == SAMPLE_NO_NUMBERS ? ERROR_FORMAT : ERROR_USAGE,
                           result.status == SAMPLE_NO_NUMBERS
                               ? "the model computed no number for any token (damaged weights?)"
                               : "no token is left that the grammar and bans allow");
        return;
    }
    engine_take_token(e, c, &result);
}

/* The prompt of a request's first choice is done: the others take copies and draw from the same logits. A choice for which
 * there is no room computes the prompt for itself later. */
static void share_prompt(struct engine *e, struct choice *first, const float *logits) {
    struct choice **at = &e->waiting;
    while (*at) {
        struct choice *c = *at;
        struct mx_error err;
        if (c->shared != first->shared || c->state != STATE_SHARING) {
            at = &c->next;
            continue;
        }
        c->state = STATE_WAITING;
        struct sequence copy;
        if (e->n_admitted == e->model->options.max_sequences || !sequence_fork(&copy, &first->sequence, &err)) {
            at = &c->next;
            continue;
        }
        sequence_free(&c->sequence);
        c->sequence = copy;
        *at = c->next;
        e->stats.n_waiting--;
        c->was_started = true;
        choice_tell(c, (struct engine_event){.kind = EVENT_STARTED, .token = SAMPLE_NONE});
        e->admitted[e->n_admitted++] = c;
        sample(e, c, logits);
    }
}

/* Full pages go into the prefix cache as they come; snapshots at the borders of prompts, and while decoding a single one
 * that moves along. */
static void remember(struct engine *e, struct choice *c) {
    uint32_t n = c->sequence.n_cells;
    bool is_border = n % PAGE_CELLS == 0;
    if (c->state == STATE_PREFILL) {
        if (c->wants_token || n % SNAPSHOT_CELLS == 0 || is_border)
            prefix_cache_insert(&e->cache, c->tokens, c->n_prompt, &c->sequence, is_border);
        return;
    }
    if (!is_border) return;
    prefix_cache_insert(&e->cache, c->tokens, c->n_prompt, &c->sequence, true);
    if (c->snapshot_at) prefix_cache_forget_snapshot(&e->cache, c->tokens, c->snapshot_at);
    c->snapshot_at = n;
}

/* Adds up the hidden states of a step's rows; at the prompt's end the vector is told. */
static void pool(struct engine *e, struct choice *c) {
    const struct model *m = e->model;
    bool takes_all = c->shared->request.pooling == POOLING_MEAN, is_done = c->sequence.n_cells == c->n_tokens;
    uint32_t n = takes_all ? c->n_rows : is_done;
    if (c->sequence.n_cells == c->n_rows) /* the first rows, perhaps again after preemption */
        memset(c->pooled, 0, m->graph.hidden_size * sizeof *c->pooled);
    for (uint32_t r = 0; r < n; r++) {
        const float *row = m->backend->hidden(m->compiled, c->output + r);
        for (uint32_t i = 0; i < m->graph.hidden_size; i++) c->pooled[i] += row[i];
    }
    if (!is_done) {
        choice_tell(c, (struct engine_event){.kind = EVENT_PROMPT, .token = SAMPLE_NONE});
        return;
    }
    for (uint32_t i = 0; takes_all && i < m->graph.hidden_size; i++) c->pooled[i] /= (float)c->n_tokens;
    struct engine_event event = choice_ending(FINISH_STOP);
    event.hidden = c->pooled;
    engine_end_choice(e, c, event);
}

static void deliver(struct engine *e) {
    for (uint32_t i = 0; i < e->n_stepping; i++) {
        struct choice *c = e->stepping[i];
        c->is_in_step = false;
        remember(e, c);
        if (c->shared->request.pooling) {
            pool(e, c);
            continue;
        }
        if (!c->wants_token) {
            choice_tell(c, (struct engine_event){.kind = EVENT_PROMPT, .token = SAMPLE_NONE});
            continue;
        }
        const float *logits = batch_logits(&e->batch, c->output);
        if (c->state == STATE_PREFILL && c->shared->request.n_choices > 1 && !c->number) share_prompt(e, c, logits);
        sample(e, c, logits);
    }
    e->n_stepping = 0;
}

/* The time of a prompt row, smoothed, from steps that are mostly prompt rows. */
static void learn_speed(struct engine *e, uint32_t n_rows, uint64_t ns) {
    if (n_rows < 16) return;
    double row = (double)ns / n_rows;
    e->row_ns = e->row_ns > 0 ? 0.8 * e->row_ns + 0.2 * row : row;
}

bool engine_run_batch(struct engine *e) {
    uint32_t n_rows = e->batch.step.n_rows;
    uint64_t start = clock_now_ns();
    batch_run(&e->batch, NULL);
    uint64_t took = clock_now_ns() - start;
    learn_speed(e, n_rows, took);
    e->stats.n_steps++;
    e->stats.n_rows += n_rows;
    e->stats.busy_ns += took;
    /* Once damaged, nothing that is computed can be trusted. */
    if (!e->failure.code && !checkpoint_is_damaged(&e->model->checkpoint, &e->failure)) return true;
    struct engine_event event = choice_ending(FINISH_ERROR);
    event.error = &e->failure;
    e->n_stepping = 0;
    drop_cancelled(e, true, event);
    return false;
}

bool engine_step(struct engine *e) {
    empty_inbox(e);
    drop_cancelled(e, false, choice_ending(FINISH_CANCELLED));
    admit(e);
    if (!e->n_admitted) return false;
    if (e->model->graph.diffusion.kind) {
        diffusion_step(e);
        return true;
    }
    add_decode_rows(e);
    add_prompt_rows(e);
    /* Prompts that hold all pages and can't go on: the first one does, in place of the last. */
    while (!e->batch.step.n_rows && e->n_admitted && preempt_youngest(e, e->admitted[0])) add_prompt_rows(e);
    if (!e->batch.step.n_rows) return e->n_admitted > 0 || e->waiting;
    if (engine_run_batch(e)) deliver(e);
    return true;
}

/* ---- life ---- */

struct engine *engine_create(struct model *model, const struct engine_options *options, struct mx_error *err) {
    struct engine *e = calloc(1, sizeof *e);
    if (!e) {
        error_memory(err, "engine");
        return NULL;
    }
    e->model = model;
    e->options = *options;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    uint32_t n = model->options.max_sequences;
    e->admitted = array_calloc(n, sizeof(struct choice *));
    e->stepping = array_calloc(n, sizeof(struct choice *));
    e->mask_bits = array_calloc(((size_t)model->graph.vocab_size + 31) / 32, sizeof *e->mask_bits);
    bool ok = (e->admitted && e->stepping && e->mask_bits) || error_memory(err, "engine");
    ok = ok && prefix_cache_init(&e->cache, model, model->graph.diffusion.kind ? 0 : options->cache_pages,
                                 options->cache_within_pages, err);
    e->kept.rope_limit = e->cache.rope_limit;
    if (ok && sampling_scratch_init(&e->scratch, model->graph.vocab_size, err) && batch_init(&e->batch, model, err))
        return e;
    engine_destroy(e);
    return NULL;
}

void engine_destroy(struct engine *e) {
    if (!e) return;
    empty_inbox(e);
    drop_cancelled(e, true, choice_ending(FINISH_CANCELLED));
    kept_drop(&e->kept);
    prefix_cache_free(&e->cache);
    sampling_scratch_free(&e->scratch);
    batch_free(&e->batch);
    free(e->admitted);
    free(e->stepping);
    free(e->mask_bits);
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->wake);
    free(e);
}

bool engine_wait(struct engine *e, int timeout_ms) {
    if (e->n_admitted || e->waiting) return true;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_mutex_lock(&e->lock);
    int status = 0;
    while (!e->is_woken && status != ETIMEDOUT) status = pthread_cond_timedwait(&e->wake, &e->lock, &until);
    bool has_work = e->inbox != NULL;
    e->is_woken = false;
    pthread_mutex_unlock(&e->lock);
    return has_work;
}

void engine_wake(struct engine *e) {
    pthread_mutex_lock(&e->lock);
    e->is_woken = true;
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
}

struct engine_stats engine_stats(const struct engine *e) {
    struct engine_stats stats = e->stats;
    for (uint32_t i = 0; i < e->n_admitted; i++) {
        if (e->admitted[i]->state == STATE_DECODE)
            stats.n_decoding++;
        else
            stats.n_prefilling++;
    }
    stats.n_cache_pages = e->cache.n_nodes;
    stats.n_cache_snapshots = e->cache.n_snapshots;
    return stats;
}

const struct mx_error *engine_failure(const struct engine *e) { return e->failure.code ? &e->failure : NULL; }
