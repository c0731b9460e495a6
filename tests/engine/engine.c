/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: what a request gets does not depend on its neighbours, on preemption, on the prefix cache or on the way it
 * was submitted; cancelling and ending give everything back. Three kinds of models: full attention, windows, recurrent. */
#include "engine/engine.h"
#include "tests/support/tap.h"
#include "tests/support/weights.h"

#include "base/memory.h"
#include "base/rng.h"
#include "engine/batch.h"
#include "engine/choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_REQUESTS = 6, MAX_PROMPT = 200, MAX_ANSWER = 40, MAX_CHOICES = 3 };

struct job {
    uint32_t prompt[MAX_PROMPT];
    size_t n_prompt;
    uint64_t id;
    uint32_t answer[MAX_CHOICES][MAX_ANSWER + 1];
    size_t n_answer[MAX_CHOICES], n_cached;
    enum finish_reason reason[MAX_CHOICES];
    uint32_t n_finished, n_choices;
    int64_t stop_after; /* the callback stops after so many tokens; 0 = never */
    bool only_even;
    int64_t seed;
};

static char folder[4096];

static void make_job(struct job *job, int number, uint32_t vocab) {
    uint64_t state = 77 + (uint64_t)number;
    *job = (struct job){.n_prompt = 20 + 30 * (size_t)number, .seed = number, .n_choices = 1};
    for (size_t i = 0; i < job->n_prompt; i++) job->prompt[i] = (uint32_t)(rng_next(&state) % vocab);
}

static enum verdict on_event(void *context, const struct engine_event *event) {
    struct job *job = context;
    if (event->kind == EVENT_STARTED) job->n_cached = event->n_cached;
    if (event->kind == EVENT_TOKEN) {
        job->answer[event->choice][job->n_answer[event->choice]++] = event->token;
        if (job->stop_after && (int64_t)job->n_answer[event->choice] >= job->stop_after) return VERDICT_STOP;
    }
    if (event->kind == EVENT_FINISHED) {
        job->reason[event->choice] = event->reason;
        job->n_finished++;
    }
    return VERDICT_GO_ON;
}

static bool even_tokens(void *context, uint32_t choice, uint32_t *bits) {
    (void)context, (void)choice;
    for (int i = 0; i < 4; i++) bits[i] = 0x55555555;
    return true;
}

static bool submit(struct engine *e, struct job *job) {
    struct mx_error err = {0};
    struct engine_request request = {.prompt = job->prompt,
                                     .n_prompt = job->n_prompt,
                                     .max_tokens = MAX_ANSWER,
                                     .n_choices = job->n_choices,
                                     .sampling = sampling_defaults(),
                                     .on_event = on_event,
                                     .context = job};
    request.sampling.temperature = 1.5;
    request.sampling.seed = job->seed;
    request.sampling.ignore_eos = true;
    if (job->only_even) request.mask.fill = even_tokens;
    bool ok = engine_submit(e, &request, &job->id, &err);
    if (!ok) tap_note("%s", err.message);
    return ok;
}

struct setup {
    struct model model;
    struct engine *engine;
};

static bool open_setup(struct setup *s, uint32_t max_sequences, uint64_t cache_bytes, size_t cache_pages) {
    struct mx_error err = {0};
    struct model_options m = {.tier = -1,
                              .n_threads = 1,
                              .max_sequences = max_sequences,
                              .max_cells = MAX_PROMPT + MAX_ANSWER + 1,
                              .max_rows = 64,
                              .n_snapshots = cache_pages ? 12 : 0,
                              .n_cache_pages = (uint32_t)cache_pages,
                              .cache_bytes = cache_bytes};
    struct engine_options e = {.cache_pages = cache_pages};
    bool ok = model_open(&s->model, folder, &m, &err) && (s->engine = engine_create(&s->model, &e, &err)) != NULL;
    if (!ok) tap_note("%s", err.message);
    return ok;
}

/* All pages and slots are free, but for what the prefix cache keeps. */
static bool is_all_free(struct setup *s) {
    struct store *store = &s->model.store;
    prefix_cache_clear(&s->engine->cache);
    for (uint32_t g = 0; g < store->n_groups; g++)
        if (store->pages[g].n_free != store->pages[g].n) return false;
    return store->states.n_free == store->states.n;
}

static void close_setup(struct setup *s) {
    engine_destroy(s->engine);
    model_close(&s->model);
}

static void run_to_end(struct engine *e) {
    while (engine_step(e)) continue;
}

static bool same_answer(const struct job *a, uint32_t ca, const struct job *b, uint32_t cb) {
    return a->n_answer[ca] == b->n_answer[cb] && a->n_answer[ca] == MAX_ANSWER &&
           !memcmp(a->answer[ca], b->answer[cb], MAX_ANSWER * sizeof(uint32_t));
}

static bool same_answers(const struct job *a, const struct job *b) {
    for (int i = 0; i < N_REQUESTS; i++)
        if (!same_answer(&a[i], 0, &b[i], 0)) return false;
    return true;
}

/* The oracle: each request alone in an engine of its own. */
static bool run_alone(struct job *jobs) {
    bool ok = true;
    for (int i = 0; i < N_REQUESTS && ok; i++) {
        struct setup s = {0};
        ok = open_setup(&s, 1, 0, 0);
        if (ok) make_job(&jobs[i], i, s.model.graph.vocab_size);
        ok = ok && submit(s.engine, &jobs[i]);
        if (ok) run_to_end(s.engine);
        ok = ok && jobs[i].n_finished == 1 && jobs[i].reason[0] == FINISH_LENGTH && is_all_free(&s);
        close_setup(&s);
    }
    return ok;
}

/* All requests at once; `rounds` times, with the same jobs again. Returns the last round's. */
static bool run_together(struct job *jobs, uint32_t max_sequences, uint64_t cache_bytes, size_t cache_pages, int rounds,
                         struct engine_stats *stats) {
    struct setup s = {0};
    bool ok = open_setup(&s, max_sequences, cache_bytes, cache_pages);
    for (int round = 0; round < rounds && ok; round++) {
        for (int i = 0; i < N_REQUESTS; i++) make_job(&jobs[i], i, s.model.graph.vocab_size);
        for (int i = 0; i < N_REQUESTS && ok; i++) ok = submit(s.engine, &jobs[i]);
        if (ok) run_to_end(s.engine);
    }
    if (ok) *stats = engine_stats(s.engine);
    ok = ok && is_all_free(&s);
    close_setup(&s);
    return ok;
}

/* A budget that holds less than half of what four sequences need. */
static uint64_t small_budget(void) {
    struct setup s = {0};
    uint64_t bytes = 0;
    if (open_setup(&s, 4, 0, 0)) {
        uint64_t states = s.model.graph.state_floats * sizeof(float) * s.model.store.states.n;
        bytes = states + (s.model.backend->pool_bytes(s.model.compiled) - states) * 2 / 5;
    }
    close_setup(&s);
    return bytes;
}

static void test_choices(const struct job *alone, const char *name) {
    struct setup s = {0};
    static struct job a, b;
    bool ok = open_setup(&s, 4, 0, 0);
    if (ok) {
        make_job(&a, 3, s.model.graph.vocab_size);
        make_job(&b, 3, s.model.graph.vocab_size);
        a.n_choices = b.n_choices = 3;
    }
    ok = ok && submit(s.engine, &a);
    if (ok) run_to_end(s.engine);
    ok = ok && submit(s.engine, &b);
    if (ok) run_to_end(s.engine);
    ok = ok && a.n_finished == 3 && same_answer(&a, 0, &alone[3], 0) && same_answer(&a, 1, &b, 1) &&
         same_answer(&a, 2, &b, 2) && !same_answer(&a, 0, &a, 1) && !same_answer(&a, 1, &a, 2) && is_all_free(&s);
    tap_ok(ok, "%s: several choices share a prompt, the first is the single answer, all are repeatable", name);
    close_setup(&s);
}

static void test_cancel(const struct job *alone, const char *name) {
    struct setup s = {0};
    static struct job jobs[N_REQUESTS];
    bool ok = open_setup(&s, 3, 0, 0);
    for (int i = 0; i < N_REQUESTS && ok; i++) make_job(&jobs[i], i, s.model.graph.vocab_size);
    for (int i = 0; i < N_REQUESTS && ok; i++) ok = submit(s.engine, &jobs[i]);
    for (int step = 0; step < 6 && ok; step++) engine_step(s.engine);
    if (ok) {
        engine_cancel(s.engine, jobs[1].id); /* running */
        engine_cancel(s.engine, jobs[5].id); /* waiting */
        engine_cancel(s.engine, 999999);     /* nobody */
        run_to_end(s.engine);
    }
    ok = ok && jobs[1].reason[0] == FINISH_CANCELLED && jobs[5].reason[0] == FINISH_CANCELLED &&
         jobs[5].n_answer[0] == 0;
    for (int i = 0; i < N_REQUESTS && ok; i++)
        if (i != 1 && i != 5) ok = same_answer(&jobs[i], 0, &alone[i], 0);
    tap_ok(ok && is_all_free(&s), "%s: cancelled requests end, the others do not notice, nothing is kept", name);
    close_setup(&s);
}

static void test_ends(const struct job *alone, const char *name) {
    struct setup s = {0};
    static struct job stopped, masked;
    bool ok = open_setup(&s, 2, 0, 0);
    if (ok) {
        make_job(&stopped, 2, s.model.graph.vocab_size);
        make_job(&masked, 2, s.model.graph.vocab_size);
        stopped.stop_after = 7;
        masked.only_even = true;
    }
    ok = ok && submit(s.engine, &stopped) && submit(s.engine, &masked);
    if (ok) run_to_end(s.engine);
    ok = ok && stopped.reason[0] == FINISH_STOP && stopped.n_answer[0] == 7 &&
         !memcmp(stopped.answer[0], alone[2].answer[0], 7 * sizeof(uint32_t));
    tap_ok(ok, "%s: the callback ends an answer", name);
    bool all_even = masked.n_answer[0] == MAX_ANSWER;
    for (size_t i = 0; i < masked.n_answer[0]; i++) all_even = all_even && masked.answer[0][i] % 2 == 0;
    tap_ok(ok && all_even, "%s: a mask restricts the tokens", name);
    close_setup(&s);
}

static void test_wrong_requests(const char *name) {
    struct setup s = {0};
    struct mx_error err = {0};
    uint64_t id;
    uint32_t ids[MAX_PROMPT + MAX_ANSWER + 1] = {0};
    bool ok = open_setup(&s, 1, 0, 0);
    struct engine_request r = {.prompt = ids, .n_prompt = 0, .max_tokens = 1, .sampling = sampling_defaults()};
    tap_ok(ok && !engine_submit(s.engine, &r, &id, &err) && strstr(err.message, "empty"), "%s: an empty prompt", name);
    r.n_prompt = MAX_PROMPT + MAX_ANSWER + 1;
    tap_ok(ok && !engine_submit(s.engine, &r, &id, &err) && strstr(err.message, "241 tokens"), "%s: a long prompt",
           name);
    r.n_prompt = 1;
    ids[0] = 100000;
    tap_ok(ok && !engine_submit(s.engine, &r, &id, &err) && strstr(err.message, "token 100000"), "%s: an unknown id",
           name);
    ids[0] = 1;
    r.sampling.temperature = -1;
    tap_ok(ok && !engine_submit(s.engine, &r, &id, &err) && strstr(err.message, "temperature"), "%s: wrong sampling",
           name);
    tap_ok(ok && !engine_step(s.engine) && is_all_free(&s), "%s: refused requests leave nothing", name);
    close_setup(&s);
}

static bool open_pages(struct setup *s, uint32_t n_pages) {
    bool ok = open_setup(s, 1, 0, 0);
    uint64_t page = ok ? s->model.backend->pool_bytes(s->model.compiled) / s->model.store.pages[0].n : 0;
    close_setup(s);
    *s = (struct setup){0};
    return ok && open_setup(s, 4, n_pages * page, 0) && s->model.store.pages[0].n == n_pages;
}

/* Three pages in all. Prompts of three pages come first, and go as far as the pages do; those behind them, which are
 * admitted beside them while all pages are free, get what is due to them. */
static void test_few_pages(const struct job *alone, const char *name) {
    static const int numbers[] = {5, 1, 5, 0, 4};
    enum { N = sizeof numbers / sizeof *numbers, MOST_STEPS = 2000 };
    static struct job jobs[N], wide;
    struct setup s = {0};
    struct mx_error err = {0};
    bool ok = open_pages(&s, 3);
    for (int i = 0; i < N && ok; i++) {
        make_job(&jobs[i], numbers[i], s.model.graph.vocab_size);
        ok = submit(s.engine, &jobs[i]);
    }
    int steps = 0;
    while (ok && steps < MOST_STEPS && engine_step(s.engine)) steps++;
    ok = ok && steps < MOST_STEPS;
    for (int i = 0; i < N && ok; i++) {
        const struct job *job = &jobs[i], *whole = &alone[numbers[i]];
        size_t room = 3 * PAGE_CELLS - job->n_prompt, n = room < MAX_ANSWER ? room : MAX_ANSWER;
        ok = job->n_finished == 1 && job->reason[0] == FINISH_LENGTH && job->n_answer[0] == n &&
             !memcmp(job->answer[0], whole->answer[0], n * sizeof(uint32_t));
        if (!ok) tap_note("request %d: %zu tokens, expected %zu", i, job->n_answer[0], n);
    }
    tap_ok(ok && is_all_free(&s), "%s: where pages end, answers do, and the others do not notice (%d steps)", name,
           steps);
    close_setup(&s);
    s = (struct setup){0};
    ok = open_pages(&s, 2);
    if (ok) make_job(&wide, 5, s.model.graph.vocab_size);
    struct engine_request r = {.prompt = wide.prompt, .n_prompt = wide.n_prompt, .max_tokens = 1};
    r.sampling = sampling_defaults();
    ok = ok && !engine_submit(s.engine, &r, &wide.id, &err);
    tap_ok(ok && !strcmp(err.message, "the prompt has 170 tokens, the context has room for 128"),
           "%s: a prompt that all pages cannot hold", name);
    close_setup(&s);
}

static void run_model(const char *name) {
    static struct job alone[N_REQUESTS], other[N_REQUESTS];
    struct engine_stats stats = {0};
    bool ok = run_alone(alone);
    tap_ok(ok, "%s: requests alone", name);
    ok = run_together(other, 4, 0, 0, 1, &stats);
    tap_ok(ok && same_answers(alone, other) && stats.n_preempted == 0, "%s: together equals alone", name);
    ok = run_together(other, 4, small_budget(), 0, 1, &stats);
    tap_ok(ok && same_answers(alone, other), "%s: with few pages equals alone (%llu preemptions)", name,
           (unsigned long long)stats.n_preempted);
    ok = run_together(other, 2, 0, 64, 2, &stats);
    bool has_hits = true, length_matters = !strcmp(name, "llama-dynamic-bf16"); /* such prompts are not kept */
    for (int i = 2; i < N_REQUESTS && !length_matters; i++) has_hits = has_hits && other[i].n_cached >= 64;
    tap_ok(ok && same_answers(alone, other) && has_hits,
           "%s: a prefix from the cache changes nothing (%llu of %llu tokens)", name,
           (unsigned long long)stats.n_cached_tokens, (unsigned long long)stats.n_prompt_tokens);
    test_choices(alone, name);
    test_cancel(alone, name);
    test_ends(alone, name);
    test_wrong_requests(name);
    if (!strcmp(name, "llama-q4")) test_few_pages(alone, name);
}

int main(void) {
    static const char *const cases[] = {"llama-q4",      "gemma3-text-q4",     "qwen3_next-q4",
                                        "mamba2-q4",     "llama-dynamic-bf16", "kimi_linear-q4",
                                        "gemma4-e2b-q4", "rwkv7-q4",           "recurrent_gemma-q4"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char source[4096];
        struct mx_error err = {0};
        snprintf(source, sizeof source, "%s/tests/golden/cases/%s", SOURCE_DIR, cases[i]);
        if (folder_make_temporary(folder, sizeof folder) && weights_generate(source, "config.json", folder, &err))
            run_model(cases[i]);
        else
            tap_ok(false, "%s: %s", cases[i], err.message);
        folder_remove(folder);
    }
    return tap_done();
}
