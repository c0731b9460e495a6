/* SPDX-License-Identifier: Apache-2.0 */
/* A conversation goes on where it stopped: a request that keeps its cells leaves the next one only the new tokens to
 * compute, and the answer is that of a fresh start. Models with full attention, windows, recurrent state. */
#include "engine/engine.h"
#include "tests/support/tap.h"
#include "tests/support/weights.h"

#include "base/rng.h"
#include "engine/choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 400, N_ANSWER = 21, N_TURNS = 4 };

static char folder[4096];

struct turn {
    uint32_t tokens[MAX_TOKENS]; /* prompt, then answer */
    size_t n_prompt, n, n_cached;
};

static enum verdict on_event(void *context, const struct engine_event *event) {
    struct turn *turn = context;
    if (event->kind == EVENT_STARTED) turn->n_cached = event->n_cached;
    if (event->kind == EVENT_TOKEN) turn->tokens[turn->n++] = event->token;
    return VERDICT_GO_ON;
}

static bool run(struct engine *e, struct turn *turn, bool keeps) {
    struct mx_error err = {0};
    struct engine_request request = {.prompt = turn->tokens,
                                     .n_prompt = turn->n_prompt,
                                     .max_tokens = N_ANSWER,
                                     .keeps = keeps,
                                     .sampling = sampling_defaults(),
                                     .on_event = on_event,
                                     .context = turn};
    uint64_t id;
    request.sampling.ignore_eos = true;
    turn->n = turn->n_prompt;
    bool ok = engine_submit(e, &request, &id, &err);
    while (ok && engine_step(e)) continue;
    if (!ok) tap_note("%s", err.message);
    return ok && turn->n == turn->n_prompt + N_ANSWER;
}

static void add_random(struct turn *turn, size_t n, uint64_t *state, uint32_t vocab) {
    for (size_t i = 0; i < n; i++) turn->tokens[turn->n++] = (uint32_t)(rng_next(state) % vocab);
    turn->n_prompt = turn->n;
}

static bool same_as_fresh(struct engine *fresh, const struct turn *turn) {
    struct turn alone = *turn;
    return run(fresh, &alone, false) && alone.n == turn->n &&
           !memcmp(alone.tokens, turn->tokens, turn->n * sizeof *turn->tokens);
}

/* Every page and slot is back. */
static bool is_all_free(const struct model *m) {
    for (uint32_t g = 0; g < m->store.n_groups; g++)
        if (m->store.pages[g].n_free != m->store.pages[g].n) return false;
    return m->store.states.n_free == m->store.states.n;
}

static void turns_compute_their_own_tokens_only(const char *name, struct engine *e, struct engine *fresh,
                                                uint32_t vocab) {
    struct turn turn = {0};
    uint64_t state = 5;
    bool ok = true, only_new = true;
    for (int i = 0; i < N_TURNS; i++) {
        size_t before = turn.n, expected = before ? before - 1 : 0; /* an answer's last token was drawn, not computed */
        add_random(&turn, 17 + (size_t)i, &state, vocab);
        ok = ok && run(e, &turn, true) && same_as_fresh(fresh, &turn);
        if (turn.n_prompt > e->kept.rope_limit) expected = 0; /* the rope of every cell changes with the length */
        only_new = only_new && turn.n_cached == expected;
        if (turn.n_cached != expected) tap_note("turn %d: %zu of %zu tokens were kept", i, turn.n_cached, before);
    }
    tap_ok(ok, "%s: kept_turns_answer_like_fresh_ones", name);
    tap_ok(only_new, "%s: turns_compute_their_own_tokens_only", name);
}

/* The conversation is changed in the middle, another request comes between. */
static void what_differs_is_computed_again(const char *name, struct engine *e, struct engine *fresh, uint32_t vocab) {
    struct turn turn = {0}, other = {0};
    uint64_t state = 9;
    add_random(&turn, 90, &state, vocab);
    bool ok = run(e, &turn, true);
    turn.tokens[70] = (turn.tokens[70] + 1) % vocab;
    turn.n_prompt = 100;
    ok = ok && run(e, &turn, true) && same_as_fresh(fresh, &turn);
    tap_ok(ok && turn.n_cached <= 70, "%s: what_differs_is_computed_again (%zu of 70 kept)", name, turn.n_cached);
    if (sequence_is_random_access(e->model) && e->kept.rope_limit >= turn.n_prompt)
        tap_ok(turn.n_cached == 70, "%s: what_is_equal_is_not", name);
    add_random(&other, 50, &state, vocab);
    ok = run(e, &other, false) && same_as_fresh(fresh, &other);
    tap_ok(ok && !other.n_cached, "%s: requests_that_keep_nothing_are_not_concerned", name);
    turn.n_prompt = 20; /* shorter than what was kept */
    ok = run(e, &turn, true) && same_as_fresh(fresh, &turn);
    tap_ok(ok && turn.n_cached < 20, "%s: a_shorter_prompt_leaves_a_token_to_compute", name);
}

static void run_model(const char *name) {
    struct model models[2] = {0};
    struct engine *engines[2] = {0};
    struct mx_error err = {0};
    bool ok = true;
    for (int i = 0; i < 2 && ok; i++) {
        struct model_options m = {
            .tier = -1, .n_threads = 1, .max_sequences = 1, .max_cells = MAX_TOKENS, .max_rows = 64};
        struct engine_options e = {0};
        ok = model_open(&models[i], folder, &m, &err) && (engines[i] = engine_create(&models[i], &e, &err)) != NULL;
    }
    uint32_t vocab = ok ? models[0].graph.vocab_size : 0;
    tap_ok(ok, "%s opens", name);
    if (ok) turns_compute_their_own_tokens_only(name, engines[0], engines[1], vocab);
    if (ok) what_differs_is_computed_again(name, engines[0], engines[1], vocab);
    if (ok) {
        kept_drop(&engines[0]->kept);
        tap_ok(is_all_free(&models[0]), "%s: everything_is_given_back", name);
    }
    for (int i = 0; i < 2; i++) {
        if (engines[i]) engine_destroy(engines[i]);
        model_close(&models[i]);
    }
}

int main(void) {
    static const char *const cases[] = {"llama-q4", "gemma3-text-q4", "qwen3_next-q4", "mamba2-q4",
                                        "llama-dynamic-bf16"};
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
