/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding by blocks, against the same algorithms written down plainly here over the model's forward pass: the entropy
 * bound with its temperatures and conditions, masked blocks with their threshold. Greedy, so that the only chance is the
 * noise of the canvas. */
#include "engine/choice.h"
#include "tests/support/tap.h"
#include "tests/support/weights.h"

#include "base/memory.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 400, SEED = 9 };

static char folder[4096];

struct answer {
    uint32_t tokens[MAX_TOKENS]; /* prompt, then answer */
    size_t n_prompt, n;
    enum finish_reason reason;
    size_t stop_after; /* tokens after which the callback has enough; 0 = never */
    uint64_t id;
    struct engine *cancels; /* cancels itself after the first token */
};

static enum verdict on_event(void *context, const struct engine_event *event) {
    struct answer *a = context;
    if (event->kind == EVENT_TOKEN) a->tokens[a->n++] = event->token;
    if (event->kind == EVENT_TOKEN && a->cancels) engine_cancel(a->cancels, a->id);
    if (event->kind == EVENT_FINISHED) a->reason = event->reason;
    return a->stop_after && a->n - a->n_prompt == a->stop_after ? VERDICT_STOP : VERDICT_GO_ON;
}

static void make_prompt(struct answer *a, size_t n, uint32_t vocab) {
    uint64_t state = 3;
    *a = (struct answer){.n_prompt = n, .n = n};
    for (size_t i = 0; i < n; i++) a->tokens[i] = (uint32_t)(rng_next(&state) % vocab);
}

static bool run(struct engine *e, struct answer *a, int64_t n, const uint32_t *stop) {
    struct mx_error err = {0};
    struct engine_request request = {.prompt = a->tokens,
                                     .n_prompt = a->n_prompt,
                                     .max_tokens = n,
                                     .sampling = sampling_defaults(),
                                     .stop_ids = stop,
                                     .n_stop_ids = stop != NULL,
                                     .on_event = on_event,
                                     .context = a};
    request.sampling.temperature = 0;
    request.sampling.seed = SEED;
    request.sampling.ignore_eos = true;
    a->n = a->n_prompt;
    bool ok = engine_submit(e, &request, &a->id, &err);
    while (ok && engine_step(e)) continue;
    if (!ok) tap_note("%s", err.message);
    return ok;
}

/* ---- the plain algorithms ---- */

struct plain {
    struct model *model;
    struct batch batch;
    struct sequence sequence;
    uint32_t vocab, hidden, n; /* n: tokens of a block */
    double *p;                 /* [n][vocab] */
    uint32_t *best;
    double *entropy;
    float *conditions;
};

static void softmax_rows(struct plain *t, double temperature, uint32_t banned) {
    for (uint32_t i = 0; i < t->n; i++) {
        const float *x = batch_logits(&t->batch, i);
        double *p = t->p + (size_t)i * t->vocab, most = -INFINITY, sum = 0;
        for (uint32_t v = 0; v < t->vocab; v++)
            if (v != banned && (double)x[v] > most) most = (double)x[v], t->best[i] = v;
        for (uint32_t v = 0; v < t->vocab; v++) {
            p[v] = v == banned ? 0 : exp(((double)x[v] - most) / temperature);
            sum += p[v];
        }
        t->entropy[i] = 0;
        for (uint32_t v = 0; v < t->vocab; v++) {
            p[v] /= sum;
            if (p[v] > 0) t->entropy[i] -= p[v] * log(p[v]);
        }
    }
}

static void forward(struct plain *t, const uint32_t *tokens, bool is_canvas, bool is_kept, const float *conditions) {
    struct block_rows rows = {tokens, t->n, is_canvas, conditions, is_kept};
    batch_add_block(&t->batch, &t->sequence, &rows, 1, is_kept ? OUTPUT_NONE : OUTPUT_ALL, NULL);
    batch_run(&t->batch, NULL);
}

static uint32_t noise(const struct plain *t, uint32_t place, uint32_t step) {
    uint64_t word = rng_at(SEED ^ RNG_GOLDEN, t->sequence.n_cells + place, step);
    return (uint32_t)(rng_uniform_f64(word) * t->vocab);
}

/* The expected embeddings under the probabilities of the last pass. */
static void expect(struct plain *t) {
    const struct block_diffusion *d = &t->model->graph.diffusion;
    float *weights = array_calloc(t->vocab, sizeof *weights);
    for (uint32_t i = 0; i < t->n; i++) {
        for (uint32_t v = 0; v < t->vocab; v++) weights[v] = (float)t->p[(size_t)i * t->vocab + v];
        float *out = t->conditions + (size_t)i * t->hidden;
        t->model->backend->mix_table(t->model->compiled, d->embedding, (const float *const *)&weights, 1,
                                     d->embedding_factor, &out);
    }
    free(weights);
}

static void plain_canvas(struct plain *t, uint32_t *tokens, uint32_t n_steps) {
    const struct denoising *o = &t->model->denoising;
    const float *conditions = NULL;
    for (uint32_t i = 0; i < t->n; i++) tokens[i] = noise(t, i, 0);
    for (uint32_t step = 0; step < n_steps; step++) {
        forward(t, tokens, true, false, conditions);
        softmax_rows(t, o->t_min + (o->t_max - o->t_min) * (n_steps - step) / n_steps, UINT32_MAX);
        for (uint32_t i = 0; i < t->n; i++) {
            double before = 0; /* the entropies of all places that come first */
            for (uint32_t j = 0; j < t->n; j++)
                if (t->entropy[j] < t->entropy[i] || (t->entropy[j] == t->entropy[i] && j < i)) before += t->entropy[j];
            tokens[i] = before <= o->entropy_bound ? t->best[i] : noise(t, i, step + 1);
        }
        expect(t);
        conditions = t->conditions;
    }
    memcpy(tokens, t->best, t->n * sizeof *tokens);
}

static void plain_masked(struct plain *t, uint32_t *tokens, uint32_t n_known) {
    uint32_t mask = t->model->graph.diffusion.mask_id;
    for (uint32_t i = n_known; i < t->n; i++) tokens[i] = mask;
    for (uint32_t step = 0; step < t->n; step++) {
        uint32_t best = UINT32_MAX, n_revealed = 0, n_left = 0;
        for (uint32_t i = 0; i < t->n; i++) n_left += tokens[i] == mask;
        if (!n_left) return;
        forward(t, tokens, false, false, NULL);
        softmax_rows(t, 1, mask);
        for (uint32_t i = 0; i < t->n; i++) {
            double p = t->p[(size_t)i * t->vocab + t->best[i]];
            if (tokens[i] != mask) continue;
            if (best == UINT32_MAX || p > t->p[(size_t)best * t->vocab + t->best[best]]) best = i;
            if (p > 0.95) tokens[i] = t->best[i], n_revealed++;
        }
        if (!n_revealed) tokens[best] = t->best[best];
    }
}

/* The answer's first n tokens by the plain algorithms. */
static bool plain_answer(struct model *m, const struct answer *prompt, size_t n, uint32_t n_steps, uint32_t *out) {
    struct plain t = {.model = m, .vocab = m->graph.vocab_size, .hidden = m->graph.hidden_size};
    struct mx_error err;
    bool is_masked = m->graph.diffusion.kind == DIFFUSION_MASK;
    uint32_t block = t.n = m->graph.diffusion.block_length, text[MAX_TOKENS];
    size_t n_text = prompt->n_prompt, at;
    memcpy(text, prompt->tokens, n_text * sizeof *text);
    t.p = array_calloc((size_t)block * t.vocab, sizeof *t.p);
    t.best = array_calloc(block, sizeof *t.best);
    t.entropy = array_calloc(block, sizeof *t.entropy);
    t.conditions = array_calloc((size_t)block * t.hidden, sizeof *t.conditions);
    bool ok = batch_init(&t.batch, m, &err) && sequence_init(&t.sequence, m, &err);
    while (ok && n_text < prompt->n_prompt + n) {
        while (is_masked && (at = t.sequence.n_cells) + block <= n_text) forward(&t, text + at, false, true, NULL);
        at = t.sequence.n_cells;
        if (!is_masked && at < n_text) {
            ok = batch_add(&t.batch, &t.sequence, text + at, (uint32_t)(n_text - at), 1, OUTPUT_NONE, NULL);
            batch_run(&t.batch, NULL);
            at = n_text;
        }
        if (is_masked)
            plain_masked(&t, text + at, (uint32_t)(n_text - at));
        else
            plain_canvas(&t, text + at, n_steps);
        n_text = at + block;
    }
    memcpy(out, text + prompt->n_prompt, n * sizeof *out);
    sequence_free(&t.sequence);
    batch_free(&t.batch);
    free(t.p);
    free(t.best);
    free(t.entropy);
    free(t.conditions);
    return ok;
}

/* ---- tests ---- */

static bool is_all_free(const struct model *m) {
    for (uint32_t g = 0; g < m->store.n_groups; g++)
        if (m->store.pages[g].n_free != m->store.pages[g].n) return false;
    return true;
}

static void answers_equal_the_plain_algorithm(const char *name, struct model *m, struct engine *e, uint32_t n_steps) {
    static const size_t prompts[] = {1, 7, 8, 21, 150};
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++) {
        struct answer a;
        uint32_t expected[MAX_TOKENS];
        size_t n = 3 * (size_t)m->graph.diffusion.block_length - 2;
        make_prompt(&a, prompts[i], m->graph.vocab_size - 1);
        bool ok = plain_answer(m, &a, n, n_steps, expected) && run(e, &a, (int64_t)n, NULL);
        ok = ok && a.n == a.n_prompt + n && a.reason == FINISH_LENGTH &&
             !memcmp(a.tokens + a.n_prompt, expected, n * sizeof *expected);
        tap_ok(ok, "%s: an_answer_to_%zu_tokens_equals_the_plain_algorithm", name, prompts[i]);
    }
}

static void answers_end_where_they_should(const char *name, struct model *m, struct engine *e) {
    struct answer whole, part;
    make_prompt(&whole, 21, m->graph.vocab_size - 1);
    bool ok = run(e, &whole, 30, NULL) && whole.n == 51;
    part = whole;
    ok = ok && run(e, &part, 13, NULL) && part.n == 34 && part.reason == FINISH_LENGTH;
    tap_ok(ok, "%s: max_tokens_may_end_inside_a_block", name);
    part = whole;
    part.stop_after = 5;
    ok = run(e, &part, 30, NULL) && part.n == 26 && part.reason == FINISH_STOP && is_all_free(m);
    tap_ok(ok, "%s: the_callback_may_end_an_answer_inside_a_block", name);
    uint32_t stop = whole.tokens[whole.n_prompt + 11];
    size_t first = 0;
    while (whole.tokens[whole.n_prompt + first] != stop) first++;
    part = whole;
    ok = run(e, &part, 30, &stop) && part.n == part.n_prompt + first && part.reason == FINISH_STOP;
    tap_ok(ok, "%s: a_stop_token_ends_an_answer_inside_a_block", name);
    part = whole;
    part.cancels = e;
    ok = run(e, &part, 300, NULL) && part.reason == FINISH_CANCELLED && is_all_free(m);
    tap_ok(ok, "%s: a_cancelled_answer_gives_everything_back", name);
}

static void run_case(const char *name, uint32_t n_steps) {
    char source[4096];
    struct mx_error err = {0};
    struct model one, two;
    struct model_options options = {.precision = PRECISION_EXACT, .tier = -1, .n_threads = 1, .max_cells = 384};
    struct engine_options eo = {.diffusion = {.max_steps = n_steps}};
    snprintf(source, sizeof source, "%s/tests/golden/cases/%s", SOURCE_DIR, name);
    if (!folder_make_temporary(folder, sizeof folder) || !weights_generate(source, "config.json", folder, &err) ||
        !model_open(&one, folder, &options, &err)) {
        tap_ok(false, "%s: %s", name, err.message);
        return;
    }
    struct engine *e = engine_create(&one, &eo, &err), *other = NULL;
    answers_equal_the_plain_algorithm(name, &one, e, n_steps);
    answers_end_where_they_should(name, &one, e);
    options.n_threads = 2;
    options.max_sequences = 3;
    if (model_open(&two, folder, &options, &err) && (other = engine_create(&two, &eo, &err)) != NULL) {
        struct answer a, b;
        make_prompt(&a, 33, one.graph.vocab_size - 1);
        b = a;
        tap_ok(run(e, &a, 40, NULL) && run(other, &b, 40, NULL) && a.n == b.n &&
                   !memcmp(a.tokens, b.tokens, a.n * sizeof *a.tokens),
               "%s: threads_and_sequences_do_not_change_an_answer", name);
    }
    engine_destroy(other);
    model_close(&two);
    engine_destroy(e);
    model_close(&one);
    folder_remove(folder);
}

int main(void) {
    run_case("hf-diffusion-gemma", 6);
    run_case("llada2_moe-causal-bf16", 0);
    return tap_done();
}
