/* SPDX-License-Identifier: Apache-2.0 */
/* Behaviour of samplers: seeds, forks, frequencies of draws, masks, end tokens, odd rows, log-probabilities. */
#include "base/rng.h"
#include "tests/support/sampling.h"
#include "tests/support/tap.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One step with a row of its own. */
static uint32_t step(struct sampler *s, struct sampling_scratch *scratch, float *row, uint32_t vocab, uint32_t *last) {
    struct sample_result result;
    model_row(row, vocab, 1, *last);
    *last = sampler_sample(s, scratch, row, NULL, &result);
    if (!sampler_accept(s, *last)) abort();
    return *last;
}

/* ---- seeds, forks ---- */

enum { VOCAB = 900, STEPS = 60 };

static struct sampling_params everything(void) {
    struct sampling_params p = drawing();
    p.top_p = 0.9;
    p.min_p = 0.01;
    p.repetition_penalty = 1.2;
    p.presence_penalty = 0.3;
    p.frequency_penalty = 0.1;
    p.presence_last_n = 10;
    p.dry_multiplier = 0.5;
    p.xtc_probability = 0.4;
    p.xtc_threshold = 0.02;
    p.adaptive_target = 0.2;
    return p;
}

static void text_depends_on_seed_and_text_alone(void) {
    struct sampling_params params = everything();
    struct sampling_scratch scratch = make_scratch(VOCAB);
    float row[VOCAB];
    uint32_t alone[STEPS], last = 7, others[3] = {1, 2, 3};
    struct sampler s = make_sampler(&params, VOCAB, NULL), t = make_sampler(&params, VOCAB, NULL), neighbours[3];
    for (int i = 0; i < STEPS; i++) alone[i] = step(&s, &scratch, row, VOCAB, &last);
    for (int k = 0; k < 3; k++) {
        params.seed = k;
        params.top_k = 5 * k;
        neighbours[k] = make_sampler(&params, VOCAB, NULL);
    }
    int n_bad = 0;
    last = 7;
    for (int i = 0; i < STEPS; i++) {
        for (int k = 0; k < 3; k++) step(&neighbours[k], &scratch, row, VOCAB, &others[k]);
        n_bad += step(&t, &scratch, row, VOCAB, &last) != alone[i];
    }
    tap_ok(n_bad == 0, "a text drawn among others on one scratch equals the text drawn alone");

    params = everything();
    params.seed = 43;
    struct sampler other = make_sampler(&params, VOCAB, NULL);
    int n_same = 0;
    last = 7;
    for (int i = 0; i < STEPS; i++) n_same += step(&other, &scratch, row, VOCAB, &last) == alone[i];
    tap_ok(n_same < STEPS / 2, "another seed gives another text (%d of %d equal)", n_same, STEPS);

    params.seed = -1;
    struct sampler fresh = make_sampler(&params, VOCAB, NULL), fresher = make_sampler(&params, VOCAB, NULL);
    tap_ok(fresh.seed != fresher.seed && (int64_t)fresh.seed >= 0, "seed -1 draws a seed that can be given back");
    sampler_free(&s);
    sampler_free(&t);
    sampler_free(&other);
    sampler_free(&fresh);
    sampler_free(&fresher);
    for (int k = 0; k < 3; k++) sampler_free(&neighbours[k]);
    sampling_scratch_free(&scratch);
}

/* Half of an answer given back as prompt goes on in the same way: the number drawn depends on the position. */
static void goes_on_after_a_restart(void) {
    struct sampling_params params = everything();
    params.adaptive_target = -1; /* its average is over what this sampler drew */
    struct sampling_scratch scratch = make_scratch(VOCAB);
    float row[VOCAB];
    uint32_t text[STEPS], prompt[3] = {5, 6, 7}, last = 7;
    struct sampler s = make_sampler(&params, VOCAB, NULL), t = make_sampler(&params, VOCAB, NULL);
    bool ok = sampler_accept_prompt(&s, prompt, 3, NULL) && sampler_accept_prompt(&t, prompt, 3, NULL);
    for (int i = 0; i < STEPS; i++) text[i] = step(&s, &scratch, row, VOCAB, &last);
    ok = ok && sampler_accept_prompt(&t, text, STEPS / 2, NULL);
    last = text[STEPS / 2 - 1];
    for (int i = STEPS / 2; i < STEPS; i++) ok = ok && step(&t, &scratch, row, VOCAB, &last) == text[i];
    tap_ok(ok, "a text cut in two and resumed equals the whole");
    sampler_free(&s);
    sampler_free(&t);
    sampling_scratch_free(&scratch);
}

static void forks(void) {
    struct sampling_params params = everything();
    struct sampling_scratch scratch = make_scratch(VOCAB);
    float row[VOCAB];
    uint32_t last = 7;
    struct sampler s = make_sampler(&params, VOCAB, NULL), copies[3];
    for (int i = 0; i < 20; i++) step(&s, &scratch, row, VOCAB, &last);
    bool ok = sampler_fork(&copies[0], &s, 0, NULL) && sampler_fork(&copies[1], &s, 1, NULL) &&
              sampler_fork(&copies[2], &s, 1, NULL);
    uint32_t at[4] = {last, last, last, last};
    int n_same = 0, n_bad = 0, n_twin = 0;
    for (int i = 0; ok && i < STEPS; i++) {
        step(&s, &scratch, row, VOCAB, &at[3]);
        for (int k = 0; k < 3; k++) step(&copies[k], &scratch, row, VOCAB, &at[k]);
        n_bad += at[0] != at[3];
        n_same += at[1] == at[3];
        n_twin += at[1] != at[2];
    }
    tap_ok(ok && n_bad == 0, "choice 0 of a fork goes on as the original");
    tap_ok(ok && n_same < STEPS / 2 && n_twin == 0, "choice 1 draws its own numbers, the same each time");
    for (int k = 0; k < 3; k++) sampler_free(&copies[k]);
    sampler_free(&s);
    sampling_scratch_free(&scratch);
}

static void sampling_twice_is_the_same(void) {
    struct sampling_params params = everything();
    params.mirostat = 2;
    struct sampling_scratch scratch = make_scratch(VOCAB);
    float row[VOCAB], before[VOCAB];
    struct sampler s = make_sampler(&params, VOCAB, NULL);
    struct sample_result result;
    model_row(row, VOCAB, 3, 1);
    memcpy(before, row, sizeof row);
    uint32_t first = sampler_sample(&s, &scratch, row, NULL, &result);
    bool ok = sampler_sample(&s, &scratch, row, NULL, &result) == first;
    tap_ok(ok && !memcmp(before, row, sizeof row), "sampling again draws the same, and the logits are not touched");
    sampler_free(&s);
    sampling_scratch_free(&scratch);
}

/* ---- frequencies ---- */

/* Chi-square of draws at n_draws positions against the wanted probabilities, of 300 groups of neighbouring tokens
 * (what is expected less than 5 times counts as one). The bound is the 0.9999 quantile by Wilson and Hilferty. A
 * token of probability 0 must not be drawn at all. */
static void draws_follow(const char *name, const struct sampling_params *params, const float *row, uint32_t n,
                         const double *want, int n_draws) {
    enum { GROUPS = 300 };
    struct sampling_scratch scratch = make_scratch(n);
    struct sampler s = make_sampler(params, n, NULL);
    double count[GROUPS] = {0}, expected[GROUPS] = {0}, chi = 0, rest = 0, rest_count = 0;
    int freedom = -1, n_wrong = 0;
    for (int i = 0; i < n_draws; i++) {
        struct sample_result result;
        uint32_t token = sampler_sample(&s, &scratch, row, NULL, &result);
        count[(uint64_t)token * GROUPS / n]++;
        n_wrong += !(want[token] > 0);
        if (!sampler_accept(&s, 0)) abort();
    }
    for (uint32_t i = 0; i < n; i++) expected[(uint64_t)i * GROUPS / n] += want[i] * n_draws;
    for (int i = 0; i < GROUPS; i++) {
        if (expected[i] < 5) {
            rest += expected[i];
            rest_count += count[i];
            continue;
        }
        chi += (count[i] - expected[i]) * (count[i] - expected[i]) / expected[i];
        freedom++;
    }
    if (rest >= 5) chi += (rest_count - rest) * (rest_count - rest) / rest, freedom++;
    double k = freedom, bound = k * pow(1 - 2 / (9 * k) + 3.719 * sqrt(2 / (9 * k)), 3);
    tap_ok(chi < bound && (rest >= 5 || rest_count <= rest + 20) && n_wrong == 0,
           "%s: chi-square %.1f of %d (bound %.1f), %d outside", name, chi, freedom, bound, n_wrong);
    sampler_free(&s);
    sampling_scratch_free(&scratch);
}

struct place {
    uint32_t token;
    double p;
};

static int by_probability(const void *left, const void *right) {
    const struct place *a = left, *b = right;
    return a->p > b->p ? -1 : a->p < b->p;
}

/* Rows whose nucleus holds thousands of tokens are drawn from in another way (draw_from_nucleus). */
static void wide_nuclei_have_their_frequencies(void) {
    enum { N = 5000 };
    static float row[N];
    static double want[N];
    static struct place places[N];
    uint64_t state = 5;
    double total = 0, before = 0, kept = 0;
    for (uint32_t i = 0; i < N; i++) {
        /* Falls with the token: a number drawn again by mistake would favour the last tokens of the nucleus. */
        row[i] = (float)(0.2 * normal(&state) - 1.0 * i / N);
        places[i] = (struct place){i, exp((double)row[i])};
        total += places[i].p;
    }
    qsort(places, N, sizeof *places, by_probability);
    for (uint32_t i = 0; i < N && before <= 0.7 * total; before += places[i++].p)
        kept += want[places[i].token] = pow(places[i].p, 1 / 0.6);
    for (uint32_t i = 0; i < N; i++) want[i] /= kept;
    struct sampling_params params = drawing();
    params.temperature = 0.6;
    params.top_p = 0.7;
    draws_follow("a nucleus of thousands", &params, row, N, want, 12000);
    params.min_p = 0.01; /* keeps more than the nucleus */
    draws_follow("the same with a small min-p", &params, row, N, want, 3000);
}

/* What is reported must not change what is drawn. */
static void reports_change_nothing(void) {
    enum { N = 6000 };
    static float row[N];
    struct sampling_scratch scratch = make_scratch(N);
    int n_bad = 0;
    for (int round = 0; round < 60; round++) {
        struct sampling_params params = round % 2 ? everything() : drawing();
        if (round % 3 == 0) params = drawing(), params.top_p = 0.8;
        model_row(row, N, 20, (uint32_t)round);
        uint32_t drawn[4];
        for (int kind = 0; kind < 4; kind++) {
            struct sample_result result;
            params.want_logprobs = kind < 3;
            params.logprobs_kind = kind % 3;
            params.n_top_logprobs = 4;
            struct sampler s = make_sampler(&params, N, NULL);
            drawn[kind] = sampler_sample(&s, &scratch, row, NULL, &result);
            sampler_free(&s);
        }
        for (int kind = 0; kind < 3; kind++) n_bad += drawn[kind] != drawn[3];
    }
    tap_ok(n_bad == 0, "log-probabilities of any kind leave the drawn token as it is");
    sampling_scratch_free(&scratch);
}

static void draws_have_their_frequencies(void) {
    enum { N = 1300 };
    static float row[N];
    static double want[N];
    struct sampling_params params = drawing();
    double total = 0;
    params.temperature = 0.7;
    model_row(row, N, 9, 9);
    for (int i = 0; i < N; i++) total += want[i] = exp((double)row[i] / 0.7);
    for (int i = 0; i < N; i++) want[i] /= total;
    draws_follow("a row of 1,300 at temperature 0.7", &params, row, N, want, 30000);

    const float few[6] = {logf(.4f), logf(.3f), logf(.15f), logf(.1f), logf(.04f), logf(.01f)};
    params = drawing();
    params.top_k = 4;
    draws_follow("top-k 4 of 6", &params, few, 6, (double[6]){.4 / .95, .3 / .95, .15 / .95, .1 / .95, 0, 0}, 40000);

    wide_nuclei_have_their_frequencies();

    /* With probability 0.25, .4 and .3 go (the least of those above 0.12 is .15). */
    params = drawing();
    params.xtc_probability = 0.25;
    params.xtc_threshold = 0.12;
    double x = .25 / .3, y = .75;
    draws_follow("XTC in a quarter of the steps", &params, few, 6,
                 (double[6]){y * .4, y * .3, .15 * (x + y), .1 * (x + y), .04 * (x + y), .01 * (x + y)}, 40000);
}

/* ---- masks, bans ---- */

static uint32_t sample_once(const struct sampling_params *params, const struct sampler_tokens *tokens, const float *row,
                            uint32_t n, const uint32_t *mask, struct sample_result *result) {
    struct sampling_scratch scratch = make_scratch(n);
    struct sampler s = make_sampler(params, n, tokens);
    uint32_t token = sampler_sample(&s, &scratch, row, mask, result);
    sampler_free(&s);
    sampling_scratch_free(&scratch);
    return token;
}

static void masks(void) {
    enum { N = 1000 };
    static float row[N];
    uint32_t mask[(N + 31) / 32] = {0};
    struct sampling_params greedy = sampling_defaults(), draw = drawing();
    struct sample_result result;
    model_row(row, N, 4, 4);
    row[999] = 50;
    row[31] = 40;
    row[32] = 30;
    mask[1] = 1;       /* 32 */
    mask[20] = 0xf000; /* 652..655 */
    bool ok = sample_once(&greedy, NULL, row, N, mask, &result) == 32;
    for (int seed = 0; seed < 50; seed++) {
        draw.seed = seed;
        draw.temperature = 1e6;
        uint32_t token = sample_once(&draw, NULL, row, N, mask, &result);
        ok = ok && (token == 32 || (token >= 652 && token <= 655));
    }
    tap_ok(ok, "only tokens that the mask allows are drawn");
    memset(mask, 0, sizeof mask);
    tap_ok(sample_once(&greedy, NULL, row, N, mask, &result) == SAMPLE_NONE && result.status == SAMPLE_ALL_BANNED,
           "an empty mask leaves nothing");

    struct logit_bias biases[] = {{999, -INFINITY}, {31, -30}, {5, 100}, {31, -30}};
    greedy.logit_bias = biases;
    greedy.n_logit_bias = 2;
    ok = sample_once(&greedy, NULL, row, N, NULL, &result) == 32;
    greedy.n_logit_bias = 4;
    tap_ok(ok && sample_once(&greedy, NULL, row, N, NULL, &result) == 5, "logit_bias adds, and -inf bans");
    greedy.n_logit_bias = 0;

    uint32_t suppressed[] = {999, 31};
    struct sampler_tokens tokens = {.suppressed_ids = suppressed, .n_suppressed_ids = 2};
    tap_ok(sample_once(&greedy, &tokens, row, N, NULL, &result) == 32, "suppressed tokens are never drawn");
    tokens = (struct sampler_tokens){.n_tokens = 32};
    memset(mask, 0xff, 4); /* a mask has bits for the 32 tokens only */
    tap_ok(sample_once(&greedy, &tokens, row, N, NULL, &result) == 31 &&
               sample_once(&greedy, &tokens, row, N, mask, &result) == 31,
           "padding of the logits is never drawn");
}

static void end_tokens(void) {
    const float row[4] = {1, 5, 4, 2};
    uint32_t stop[] = {1, 2}, only_stop = 1u << 1;
    struct sampler_tokens tokens = {.stop_ids = stop, .n_stop_ids = 2};
    struct sampling_params params = sampling_defaults();
    struct sampling_scratch scratch = make_scratch(4);
    struct sample_result result;
    params.min_tokens = 2;
    struct sampler s = make_sampler(&params, 4, &tokens);
    uint32_t got[4];
    bool ok = sampler_accept_prompt(&s, stop, 2, NULL);
    for (int i = 0; i < 4; i++) {
        got[i] = sampler_sample(&s, &scratch, row, NULL, &result);
        ok = ok && sampler_accept(&s, got[i]);
    }
    tap_ok(ok && got[0] == 3 && got[1] == 3 && got[2] == 1 && got[3] == 1,
           "end tokens come after min_tokens, not before");
    sampler_free(&s);
    s = make_sampler(&params, 4, &tokens);
    tap_ok(sampler_sample(&s, &scratch, row, &only_stop, &result) == 1, "a mask that allows the end only wins");
    sampler_free(&s);
    params.min_tokens = 0;
    params.ignore_eos = 1;
    tap_ok(sample_once(&params, &tokens, row, 4, NULL, &result) == 3, "ignore_eos bans end tokens");

    params = drawing();
    params.xtc_probability = 1;
    params.temperature = 0;
    uint32_t newline = 2;
    tokens = (struct sampler_tokens){.stop_ids = stop, .n_stop_ids = 1, .newline_ids = &newline, .n_newline_ids = 1};
    /* All four are above 0.1; 0 is the least. 1 (end) and 2 (newline) are spared, 3 goes. */
    const float even[4] = {1.0f, 1.1f, 1.2f, 1.3f};
    tap_ok(sample_once(&params, &tokens, even, 4, NULL, &result) == 2, "XTC spares newline and end tokens");
    sampling_scratch_free(&scratch);
}

/* ---- odd rows ---- */

static void odd_rows(void) {
    struct sample_result result;
    struct sampling_params greedy = sampling_defaults(), draw = everything();
    draw.want_logprobs = 1;
    draw.n_top_logprobs = 3;
    float row[700];
    for (int i = 0; i < 700; i++) row[i] = NAN;
    tap_ok(sample_once(&greedy, NULL, row, 700, NULL, &result) == SAMPLE_NONE && result.status == SAMPLE_NO_NUMBERS &&
               sample_once(&draw, NULL, row, 700, NULL, &result) == SAMPLE_NONE && result.status == SAMPLE_NO_NUMBERS,
           "a row of NaN gives no token");
    row[600] = -3;
    row[650] = -INFINITY;
    bool ok = sample_once(&draw, NULL, row, 700, NULL, &result) == 600 && result.logprob == 0 && result.n_top == 1;
    tap_ok(ok && sample_once(&greedy, NULL, row, 700, NULL, &result) == 600, "the one number among NaN is taken");
    row[3] = INFINITY;
    ok = sample_once(&draw, NULL, row, 700, NULL, &result) == 3 && !isnan(result.logprob);
    tap_ok(ok && sample_once(&greedy, NULL, row, 700, NULL, &result) == 3, "+inf is larger than all");
    for (int i = 0; i < 700; i++) row[i] = i % 2 ? FLT_MAX : -FLT_MAX;
    draw.temperature = 1e-300;
    uint32_t token = sample_once(&draw, NULL, row, 700, NULL, &result);
    ok = token < 700 && token % 2;
    draw.temperature = 1e6;
    token = sample_once(&draw, NULL, row, 700, NULL, &result);
    tap_ok(ok && token < 700 && token % 2, "the largest finite numbers at extreme temperatures");
    for (int kind = 0; kind < 3; kind++) {
        draw = everything();
        draw.mirostat = kind;
        draw.typical_p = kind == 0 ? 0.5 : 1;
        draw.top_n_sigma = 1;
        float one = 2;
        ok = ok && sample_once(&draw, NULL, &one, 1, NULL, &result) == 0;
    }
    tap_ok(ok, "a vocabulary of one");
    for (int i = 0; i < 700; i++) row[i] = 0;
    row[513] = row[77] = row[602] = 1;
    tap_ok(sample_once(&greedy, NULL, row, 700, NULL, &result) == 77, "the lowest of equal maxima");
}

/* ---- log-probabilities ---- */

static void logprobs(void) {
    enum { N = 5 };
    const float row[N] = {logf(.1f), logf(.4f), logf(.2f), logf(.2f), logf(.1f)};
    uint32_t text[] = {1};
    struct sampling_params params = drawing();
    struct sampling_scratch scratch = make_scratch(N);
    struct sample_result result;
    params.temperature = 0.01;
    params.presence_penalty = log(4); /* token 1 falls from .4 to .1 */
    params.want_logprobs = 1;
    params.n_top_logprobs = 3;
    params.top_k = 2;
    struct sampler s = make_sampler(&params, N, NULL);
    bool ok = sampler_accept_prompt(&s, text, 1, NULL);
    sampler_sample(&s, &scratch, row, NULL, &result);
    tap_ok(ok && fabs((double)result.logprob - log(.2 / .7)) < 1e-6 && result.n_top == 3 && result.top[0].token == 2 &&
               result.top[1].token == 3 && result.top[2].token == 0 &&
               fabs((double)result.top[2].logprob - log(.1 / .7)) < 1e-6,
           "chain: after penalties, before filters and temperature; equals by token");
    s.params.logprobs_kind = LOGPROBS_RAW;
    sampler_sample(&s, &scratch, row, NULL, &result);
    tap_ok(fabs((double)result.logprob - log(.2)) < 1e-6 && result.n_top == 3 && result.top[0].token == 1 &&
               fabs((double)result.top[0].logprob - log(.4)) < 1e-6,
           "raw: what the model said");
    s.params.logprobs_kind = LOGPROBS_FINAL;
    sampler_sample(&s, &scratch, row, NULL, &result);
    tap_ok(fabs((double)result.logprob - log(.5)) < 1e-5 && result.n_top == 2 && result.top[0].token == 2,
           "final: what the token was drawn from");
    sampler_free(&s);

    params = drawing();
    params.xtc_probability = 1;
    params.xtc_threshold = .15;
    params.want_logprobs = 1;
    params.n_top_logprobs = -1;
    s = make_sampler(&params, N, NULL);
    sampler_sample(&s, &scratch, row, NULL, &result);
    tap_ok(result.n_top == 4 && fabs((double)result.top[0].logprob - log(.2 / .6)) < 1e-6 && result.top[3].token == 4,
           "chain: without the tokens that XTC took");
    s.params.want_logprobs = 0;
    sampler_sample(&s, &scratch, row, NULL, &result);
    tap_ok(result.n_top == 0 && result.logprob == 0, "none unless wanted");
    sampler_free(&s);
    sampling_scratch_free(&scratch);
}

int main(void) {
    text_depends_on_seed_and_text_alone();
    goes_on_after_a_restart();
    forks();
    sampling_twice_is_the_same();
    draws_have_their_frequencies();
    reports_change_nothing();
    masks();
    end_tokens();
    odd_rows();
    logprobs();
    return tap_done();
}
