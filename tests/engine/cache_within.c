/* SPDX-License-Identifier: Apache-2.0 */
/* Hits of the prefix cache that end within a page: as many cells as the prompts have in common, answers and
 * log-probabilities equal to the bit to those of an engine without a cache, the cached page unharmed, also where hardly a
 * page is free. Models whose windows or state need snapshots keep to whole pages. */
#include "engine/engine.h"
#include "tests/support/tap.h"
#include "tests/support/weights.h"

#include "base/rng.h"
#include "engine/choice.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_TOKENS = 256,
    N_PROMPT = 190,
    N_OTHER = 200,
    N_ANSWER = 21,
    N_TOGETHER = 3,
    MAX_STEPS = 1000,
    MAX_SPARE = 8
};

static char folder[4096];

struct talk {
    uint32_t tokens[MAX_TOKENS]; /* prompt, then answer */
    size_t n_prompt, n, n_cached;
    float logprobs[N_ANSWER];
};

struct setup {
    struct model model;
    struct engine *engine;
};

static bool open_setup(struct setup *s, uint32_t n_sequences, size_t cache_pages, bool within) {
    struct mx_error err = {0};
    struct model_options m = {.tier = -1,
                              .n_threads = 1,
                              .max_sequences = n_sequences,
                              .max_cells = MAX_TOKENS,
                              .max_rows = 64,
                              .n_snapshots = cache_pages ? 12 : 0,
                              .n_cache_pages = (uint32_t)cache_pages};
    struct engine_options e = {.cache_pages = cache_pages, .cache_within_pages = within};
    *s = (struct setup){0};
    bool ok = model_open(&s->model, folder, &m, &err) && (s->engine = engine_create(&s->model, &e, &err)) != NULL;
    if (!ok) tap_note("%s", err.message);
    return ok;
}

static void close_setup(struct setup *s) {
    engine_destroy(s->engine);
    model_close(&s->model);
}

static enum verdict on_event(void *context, const struct engine_event *event) {
    struct talk *talk = context;
    if (event->kind == EVENT_STARTED) talk->n_cached = event->n_cached;
    if (event->kind != EVENT_TOKEN) return VERDICT_GO_ON;
    talk->logprobs[talk->n - talk->n_prompt] = event->sample->logprob;
    talk->tokens[talk->n++] = event->token;
    return VERDICT_GO_ON;
}

/* All at the same time. */
static bool run(struct setup *s, struct talk *talks, int n_talks) {
    struct mx_error err = {0};
    bool ok = true;
    int steps = 0;
    for (int i = 0; i < n_talks; i++) {
        struct engine_request request = {.prompt = talks[i].tokens,
                                         .n_prompt = talks[i].n_prompt,
                                         .max_tokens = N_ANSWER,
                                         .sampling = sampling_defaults(),
                                         .on_event = on_event,
                                         .context = &talks[i]};
        uint64_t id;
        request.sampling.ignore_eos = true;
        request.sampling.want_logprobs = 1;
        talks[i].n = talks[i].n_prompt;
        ok = ok && engine_submit(s->engine, &request, &id, &err);
    }
    while (ok && steps < MAX_STEPS && engine_step(s->engine)) steps++;
    for (int i = 0; i < n_talks; i++) ok = ok && talks[i].n == talks[i].n_prompt + N_ANSWER;
    return ok;
}

static bool is_same(const struct talk *a, const struct talk *b) {
    return a->n == b->n && !memcmp(a->tokens, b->tokens, a->n * sizeof *a->tokens) &&
           !memcmp(a->logprobs, b->logprobs, sizeof a->logprobs);
}

static struct talk random_talk(uint64_t seed, size_t n, uint32_t vocab) {
    struct talk talk = {.n_prompt = n};
    for (size_t i = 0; i < n; i++) talk.tokens[i] = (uint32_t)(rng_next(&seed) % vocab);
    return talk;
}

/* n tokens, the first `same` of them those of the other prompt, the next one not. */
static struct talk branch(const struct talk *from, size_t same, size_t n, uint32_t vocab) {
    struct talk talk = random_talk(1000 * n + same, n, vocab);
    memcpy(talk.tokens, from->tokens, same * sizeof *talk.tokens);
    if (same < n) talk.tokens[same] = (from->tokens[same] + 1) % vocab;
    return talk;
}

/* What the cache gives of it, once the whole of `from` is there: its full pages hold 192 cells. */
static size_t expected_hit(const struct setup *s, size_t same, size_t n, bool within) {
    size_t most = same < n ? same : n - 1;
    return within && !s->engine->cache.needs_snapshots ? most : most / PAGE_CELLS * PAGE_CELLS;
}

static void hits_equal_fresh_answers(const char *name, struct setup *fresh, bool within) {
    static const struct {
        size_t same, n;
    } branches[] = {{1, N_OTHER},   {40, N_OTHER},  {63, N_OTHER},  {64, N_OTHER}, {65, N_OTHER},
                    {100, N_OTHER}, {150, N_OTHER}, {189, N_OTHER}, {10, 30},      {30, 30},
                    {64, 64},       {65, 65},       {99, 110},      {128, 128},    {180, 180}};
    struct setup warm = {0};
    uint32_t vocab = fresh->model.graph.vocab_size;
    struct talk first = random_talk(3, N_PROMPT, vocab), again = first;
    bool ok = open_setup(&warm, 1, 64, within) && run(&warm, &first, 1) && !first.n_cached, is_unharmed = ok;
    bool is_found = ok, needs_snapshots = ok && warm.engine->cache.needs_snapshots;
    for (size_t i = 0; ok && i < sizeof branches / sizeof *branches; i++) {
        size_t same = branches[i].same, n = branches[i].n;
        struct talk talk = branch(&first, same, n, vocab), alone = talk;
        ok = run(&warm, &talk, 1) && run(fresh, &alone, 1) && is_same(&talk, &alone);
        size_t hit = expected_hit(&warm, same, n, within);
        is_found = is_found &&
                   (needs_snapshots ? talk.n_cached <= hit && talk.n_cached % PAGE_CELLS == 0 : talk.n_cached == hit);
        if (!ok || !is_found) tap_note("%zu of %zu tokens in common: %zu cached", same, n, talk.n_cached);
        is_unharmed = is_unharmed && run(&warm, &again, 1) && is_same(&again, &first) && again.n_cached >= 128;
    }
    const char *mode = within ? "within pages" : "whole pages";
    tap_ok(ok, "%s, %s: hits_answer_like_fresh_engines", name, mode);
    tap_ok(is_found, "%s, %s: what_prompts_have_in_common_is_found", name, mode);
    tap_ok(is_unharmed, "%s, %s: the_cached_pages_stay_as_they_are", name, mode);
    if (warm.engine) close_setup(&warm);
}

/* Takes pages away until so many are free in each group, as if other sequences held them. */
static void leave_free(struct store *store, uint32_t n) {
    for (uint32_t g = 0; g < store->n_groups; g++)
        while (store->pages[g].n_free > n) ref_pool_take(&store->pages[g]);
}

static bool are_free(struct setup *s, uint32_t n) {
    prefix_cache_clear(&s->engine->cache);
    for (uint32_t g = 0; g < s->model.store.n_groups; g++)
        if (s->model.store.pages[g].n_free != n) return false;
    return true;
}

/* The first prompt left three pages in the cache; each of the requests needs three. Both share the second page in part. */
static void few_pages_suffice(const char *name, struct setup *fresh) {
    uint32_t vocab = fresh->model.graph.vocab_size;
    struct talk first = random_talk(3, N_PROMPT, vocab), alone[N_TOGETHER];
    bool ok = true;
    for (int i = 0; i < N_TOGETHER; i++) {
        alone[i] = branch(&first, 100 + 3 * (size_t)i, 120, vocab);
        ok = ok && run(fresh, &alone[i], 1);
    }
    for (uint32_t spare = 0; ok && spare <= MAX_SPARE; spare++) {
        for (int n = 1; ok && n <= N_TOGETHER; n++) {
            struct setup warm = {0};
            struct talk talks[N_TOGETHER], before = first;
            memcpy(talks, alone, sizeof talks);
            ok = open_setup(&warm, N_TOGETHER, 32, true) && run(&warm, &before, 1);
            if (ok) leave_free(&warm.model.store, spare);
            ok = ok && run(&warm, talks, n) && talks[0].n_cached == 100;
            for (int i = 0; i < n; i++) ok = ok && is_same(&talks[i], &alone[i]);
            ok = ok && are_free(&warm, 3 + spare);
            if (!ok) tap_note("%d requests, %u free pages", n, spare);
            close_setup(&warm);
        }
    }
    tap_ok(ok, "%s: few_free_pages_change_no_answer", name);
}

static void run_model(const char *name, bool is_random_access) {
    struct setup fresh = {0};
    bool ok = open_setup(&fresh, 1, 0, false);
    tap_ok(ok && sequence_is_random_access(&fresh.model) == is_random_access, "%s: opens", name);
    if (ok) hits_equal_fresh_answers(name, &fresh, true);
    if (ok) hits_equal_fresh_answers(name, &fresh, false);
    if (ok && is_random_access) few_pages_suffice(name, &fresh);
    close_setup(&fresh);
}

int main(void) {
    static const struct {
        const char *name;
        bool is_random_access;
    } cases[] = {{"llama-q4", true},        {"qwen3-q4", true},           {"deepseek_v3-q4", true},
                 {"deepseek_v32-q4", true}, {"hf-minimax-m3-text", true}, {"gemma3-text-q4", false},
                 {"qwen3_next-q4", false},  {"mamba2-q4", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char source[4096];
        struct mx_error err = {0};
        snprintf(source, sizeof source, "%s/tests/golden/cases/%s", SOURCE_DIR, cases[i].name);
        if (folder_make_temporary(folder, sizeof folder) && weights_generate(source, "config.json", folder, &err))
            run_model(cases[i].name, cases[i].is_random_access);
        else
            tap_ok(false, "%s: %s", cases[i].name, err.message);
        folder_remove(folder);
    }
    return tap_done();
}
