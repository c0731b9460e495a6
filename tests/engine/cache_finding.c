/* SPDX-License-Identifier: Apache-2.0 */
/* The prefix cache names what ended the known beginning of a prompt: each cause is brought about, and must be the one that
 * is told, with the number of tokens up to there. */
#include "engine/engine.h"
#include "tests/support/tap.h"
#include "tests/support/weights.h"

#include "engine/choice.h"

#include <stdio.h>
#include <string.h>

enum { N_PROMPT = 200, MAX_CELLS = 256 };

static char folder[4096];

struct setup {
    struct model model;
    struct engine *engine;
};

static bool open_setup(struct setup *s, const char *name, size_t cache_pages, uint32_t n_rows, uint32_t n_snapshots,
                       bool within) {
    char source[4096];
    struct mx_error err = {0};
    struct model_options m = {.tier = -1,
                              .n_threads = 1,
                              .max_sequences = 1,
                              .max_cells = MAX_CELLS,
                              .max_rows = n_rows,
                              .n_snapshots = n_snapshots,
                              .n_cache_pages = (uint32_t)cache_pages};
    struct engine_options e = {.cache_pages = cache_pages, .cache_within_pages = within};
    *s = (struct setup){0};
    snprintf(source, sizeof source, "%s/tests/golden/cases/%s", SOURCE_DIR, name);
    bool ok = folder_make_temporary(folder, sizeof folder) && weights_generate(source, "config.json", folder, &err) &&
              model_open(&s->model, folder, &m, &err) && (s->engine = engine_create(&s->model, &e, &err)) != NULL;
    if (!tap_ok(ok, "%s: opens", name)) tap_note("%s", err.message);
    return ok;
}

static void close_setup(struct setup *s) {
    if (s->engine) engine_destroy(s->engine);
    model_close(&s->model);
    folder_remove(folder);
}

struct told {
    struct cache_finding finding;
    size_t n_cached;
};

static enum verdict on_event(void *context, const struct engine_event *event) {
    struct told *told = context;
    if (event->kind == EVENT_STARTED) *told = (struct told){event->cache, event->n_cached};
    return VERDICT_GO_ON;
}

/* Computes one token after n prompt tokens: token i is i % 50, but for `other` from position `from` on. */
static struct told ask(struct setup *s, size_t n, size_t from, uint32_t other, enum pooling pooling) {
    uint32_t prompt[MAX_CELLS];
    struct told told = {0};
    struct mx_error err;
    uint64_t id;
    for (size_t i = 0; i < n; i++) prompt[i] = i < from ? (uint32_t)(i % 50) : other;
    struct engine_request r = {.prompt = prompt,
                               .n_prompt = n,
                               .max_tokens = 1,
                               .sampling = sampling_defaults(),
                               .pooling = pooling,
                               .on_event = on_event,
                               .context = &told};
    if (!engine_submit(s->engine, &r, &id, &err)) tap_note("%s", err.message);
    while (engine_step(s->engine)) continue;
    return told;
}

/* Beside the finding, also its words. */
static void expect(const char *name, struct told told, size_t n_prompt, enum cache_end end, uint32_t n_tokens,
                   const char *words) {
    char text[CACHE_FINDING_TEXT];
    cache_finding_text(told.finding, told.n_cached, n_prompt, text);
    bool counts = end == CACHE_DIFFERS || end == CACHE_EVICTED || end == CACHE_NO_SNAPSHOT || end == CACHE_LONG_PROMPT;
    bool ok = told.finding.end == end && (!counts || told.finding.n_tokens == n_tokens) && !strcmp(text, words);
    if (!tap_ok(ok, "%s", name)) tap_note("%d, %u tokens: %s", told.finding.end, told.finding.n_tokens, text);
}

static void test_full_attention(void) {
    struct setup s;
    if (open_setup(&s, "llama-q4", 0, 64, 0, false))
        expect("no_cache", ask(&s, N_PROMPT, 200, 0, POOLING_NONE), N_PROMPT, CACHE_OFF, 0, "miss: the cache is off");
    close_setup(&s);
    if (!open_setup(&s, "llama-q4", 5, 64, 0, false)) return;
    expect("a_short_prompt", ask(&s, 64, 64, 0, POOLING_NONE), 64, CACHE_SHORT_PROMPT, 0,
           "miss: shorter than a page of 64 tokens and one more");
    prefix_cache_clear(&s.engine->cache);
    s.engine->cache.n_evicted = 0;
    expect("the_first_prompt", ask(&s, N_PROMPT, 200, 0, POOLING_NONE), N_PROMPT, CACHE_EMPTY, 0,
           "miss: nothing is kept");
    expect("the_same_again", ask(&s, N_PROMPT, 200, 0, POOLING_NONE), N_PROMPT, CACHE_WHOLE, 0, "hit 192 of 200");
    expect("another_beginning", ask(&s, N_PROMPT, 10, 60, POOLING_NONE), N_PROMPT, CACHE_DIFFERS, 10,
           "miss: differs after 10 tokens");
    expect("room_was_made", ask(&s, N_PROMPT, 200, 0, POOLING_NONE), N_PROMPT, CACHE_EVICTED, 128,
           "hit 128 of 200; evicted after 128 tokens");
    expect("another_end", ask(&s, N_PROMPT, 100, 61, POOLING_NONE), N_PROMPT, CACHE_DIFFERS, 100,
           "hit 64 of 200; differs after 100 tokens");
    for (uint32_t i = 0; i < 3; i++) ask(&s, N_PROMPT, 0, 62 + i, POOLING_NONE);
    expect("everything_made_room", ask(&s, N_PROMPT, 200, 0, POOLING_NONE), N_PROMPT, CACHE_EVICTED, 0,
           "miss: evicted after 0 tokens");
    expect("the_mean_needs_every_token", ask(&s, N_PROMPT, 200, 0, POOLING_MEAN), N_PROMPT, CACHE_ALL_NEEDED, 0,
           "miss: every token must be computed");
    close_setup(&s);
}

/* Hits may end within a page. */
static void test_within_pages(void) {
    struct setup s;
    if (!open_setup(&s, "llama-q4", 5, 64, 0, true)) return;
    expect("one_token", ask(&s, 1, 1, 0, POOLING_NONE), 1, CACHE_SHORT_PROMPT, 0,
           "miss: shorter than a page of 64 tokens and one more");
    expect("within: a_short_prompt", ask(&s, 64, 64, 0, POOLING_NONE), 64, CACHE_SHORT_PROMPT, 0,
           "miss: shorter than a page of 64 tokens and one more");
    expect("all_but_the_last_token", ask(&s, 64, 64, 0, POOLING_NONE), 64, CACHE_WHOLE, 0, "hit 63 of 64");
    expect("a_page_ends_the_prompt", ask(&s, 65, 65, 0, POOLING_NONE), 65, CACHE_WHOLE, 0, "hit 64 of 65");
    expect("a_short_prompt_differs", ask(&s, 40, 30, 60, POOLING_NONE), 40, CACHE_DIFFERS, 30,
           "hit 30 of 40; differs after 30 tokens");
    expect("a_short_prompt_like_no_other", ask(&s, 40, 0, 60, POOLING_NONE), 40, CACHE_SHORT_PROMPT, 0,
           "miss: shorter than a page of 64 tokens and one more");
    prefix_cache_clear(&s.engine->cache);
    s.engine->cache.n_evicted = 0;
    expect("within: the_first_prompt", ask(&s, N_PROMPT, 200, 0, POOLING_NONE), N_PROMPT, CACHE_EMPTY, 0,
           "miss: nothing is kept");
    expect("the_rest_was_no_full_page", ask(&s, N_PROMPT, 200, 0, POOLING_NONE), N_PROMPT, CACHE_WHOLE, 0,
           "hit 192 of 200");
    expect("a_prefix_of_it", ask(&s, 150, 150, 0, POOLING_NONE), 150, CACHE_WHOLE, 0, "hit 149 of 150");
    expect("its_last_page_differs", ask(&s, 150, 140, 62, POOLING_NONE), 150, CACHE_DIFFERS, 140,
           "hit 140 of 150; differs after 140 tokens");
    expect("within: another_end", ask(&s, N_PROMPT, 100, 61, POOLING_NONE), N_PROMPT, CACHE_DIFFERS, 100,
           "hit 100 of 200; differs after 100 tokens");
    ask(&s, 150, 150, 0, POOLING_NONE);     /* so that the other end is what was used least recently */
    ask(&s, N_PROMPT, 0, 62, POOLING_NONE); /* leaves the first two pages */
    expect("a_page_that_went_had_more", ask(&s, N_PROMPT, 100, 61, POOLING_NONE), N_PROMPT, CACHE_EVICTED, 64,
           "hit 100 of 200; evicted after 64 tokens");
    close_setup(&s);
}

static void test_recurrent(void) {
    struct setup s;
    /* One step reads the whole prompt, which ends beside a border: pages stay, a snapshot does not. */
    if (open_setup(&s, "qwen3_next-q4", 8, 256, 4, false)) {
        ask(&s, N_PROMPT, 200, 0, POOLING_NONE);
        expect("pages_without_a_snapshot", ask(&s, N_PROMPT, 150, 60, POOLING_NONE), N_PROMPT, CACHE_NO_SNAPSHOT, 128,
               "miss: known up to 128 tokens, without a snapshot");
    }
    close_setup(&s);
}

static void test_length_matters(void) {
    struct setup s;
    if (open_setup(&s, "llama-dynamic-bf16", 8, 64, 0, false)) {
        char words[CACHE_FINDING_TEXT];
        uint32_t limit = s.engine->cache.rope_limit;
        snprintf(words, sizeof words, "miss: longer than %u tokens, positions depend on the length", limit);
        expect("positions_depend_on_the_length", ask(&s, limit + 1, limit, 0, POOLING_NONE), limit + 1,
               CACHE_LONG_PROMPT, limit, words);
    }
    close_setup(&s);
}

/* Prompts that differ anywhere in one page say the same. */
static void test_client(void) {
    struct cache_finding first = cache_finding_for_client((struct cache_finding){CACHE_DIFFERS, 64}),
                         last = cache_finding_for_client((struct cache_finding){CACHE_DIFFERS, 127}),
                         next = cache_finding_for_client((struct cache_finding){CACHE_DIFFERS, 128}),
                         evicted = cache_finding_for_client((struct cache_finding){CACHE_EVICTED, 64});
    tap_ok(first.end == CACHE_DIFFERS_WITHIN && last.end == first.end && first.n_tokens == 128 &&
               last.n_tokens == 128 && next.n_tokens == 192,
           "a_client_learns_the_page_only");
    tap_ok(evicted.end == CACHE_EVICTED && evicted.n_tokens == 64, "other_causes_stand");
}

int main(void) {
    test_client();
    test_full_attention();
    test_within_pages();
    test_recurrent();
    test_length_matters();
    return tap_done();
}
