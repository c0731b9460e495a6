/* SPDX-License-Identifier: Apache-2.0 */
/* What a sampler remembers from token to token: mirostat's bound, the average of adaptive-p, windows of counts, loops;
 * and the table of parameters. */
#include "base/rng.h"
#include "engine/loop_stop.h"
#include "tests/support/sampling.h"
#include "tests/support/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- mirostat ---- */

static void mirostat(void) {
    const float row[4] = {logf(.5f), logf(.25f), logf(.125f), logf(.125f)};
    struct sampling_params params = drawing();
    struct sampling_scratch scratch = make_scratch(4);
    struct sample_result result;
    params.mirostat = 2;
    params.mirostat_tau = 1;
    params.mirostat_eta = 0.5;
    params.want_logprobs = 1;
    params.logprobs_kind = LOGPROBS_FINAL;
    params.n_top_logprobs = -1;
    struct sampler s = make_sampler(&params, 4, NULL);
    double mu = 2; /* 2 tau: surprises of 1 and 2 bits stay, those of 3 go */
    bool ok = true;
    for (int i = 0; i < 30; i++) {
        uint32_t token = sampler_sample(&s, &scratch, row, NULL, &result), kept = mu >= 3 - 1e-5   ? 4
                                                                                  : mu >= 2 - 1e-5 ? 2
                                                                                                   : 1;
        double p[4] = {.5, .25, .125, .125}, total = kept == 4 ? 1 : kept == 2 ? .75 : .5;
        ok = ok && result.n_top == kept && fabs(exp((double)result.logprob) - p[token] / total) < 1e-5;
        ok = ok && sampler_accept(&s, token);
        mu -= 0.5 * (-log2(p[token] / total) - 1);
        ok = ok && fabs(s.mirostat_mu - mu) < 1e-4;
    }
    tap_ok(ok, "mirostat 2: the bound moves with the surprise, by hand");
    double before = s.mirostat_mu;
    sampler_sample(&s, &scratch, row, NULL, &result);
    ok = sampler_accept(&s, (result.token + 1) % 4) && s.mirostat_mu == before;
    tap_ok(ok, "a forced token does not move the bound");
    sampler_free(&s);

    /* Probabilities fall with rank^-2: the estimate is s = 2, epsilon = 1. */
    enum { N = 500 };
    static float zipf[N];
    for (int i = 0; i < N; i++) zipf[(i * 7) % N] = (float)(-2 * log(i + 1.0)); /* 7 and 500 have no common factor */
    params.mirostat = 1;
    params.mirostat_tau = 3;
    struct sampling_scratch wide = make_scratch(N);
    s = make_sampler(&params, N, NULL);
    sampler_sample(&s, &wide, zipf, NULL, &result);
    uint32_t k = (uint32_t)pow(exp2(6) / (1 - 1.0 / N), 0.5);
    tap_ok(result.n_top == k, "mirostat 1: %u tokens kept, %u expected", result.n_top, k);
    sampler_free(&s);
    sampling_scratch_free(&wide);
    sampling_scratch_free(&scratch);
}

/* Adaptive-p keeps its average of chosen probabilities as the formula of llama.cpp has it. */
static void adaptive(void) {
    struct sampling_params params = drawing();
    struct sampling_scratch scratch = make_scratch(3);
    struct sample_result result;
    const float row[3] = {logf(.6f), logf(.3f), logf(.1f)};
    const double p[3] = {.6, .3, .1};
    params.adaptive_target = 0.4;
    params.adaptive_decay = 0.5;
    params.want_logprobs = 1;
    params.logprobs_kind = LOGPROBS_FINAL;
    struct sampler s = make_sampler(&params, 3, NULL);
    double sum = 0.8, weight = 2;
    bool ok = true;
    for (int i = 0; i < 40; i++) {
        uint32_t token = sampler_sample(&s, &scratch, row, NULL, &result);
        double target = fmin(fmax(2 * .4 - sum / weight, 0), 1), total = 0, mine = 0;
        for (int k = 0; k < 3; k++) {
            double d = fabs(p[k] - target) / .3, e = exp(5 - 10 * d * d / (1 + d));
            total += e;
            if (k == (int)token) mine = e;
        }
        ok = ok && fabs(exp((double)result.logprob) - mine / total) < 1e-5 && sampler_accept(&s, token);
        sum = p[token] + .5 * sum;
        weight = 1 + .5 * weight;
    }
    tap_ok(ok, "adaptive-p: target and average by hand over 40 tokens");
    sampler_free(&s);
    sampling_scratch_free(&scratch);
}

/* ---- windows ---- */

/* Counts of sliding windows against a recount of the whole text. */
static void windows(void) {
    enum { N = 3000, LETTERS = 30 };
    static const uint64_t lengths[4][N_WINDOWS] = {{HISTORY_ALL, 5, 64}, {3, HISTORY_ALL, 0}, {1, 2, 3}, {0, 700, 64}};
    uint32_t text[N];
    uint64_t state = 5;
    int n_bad = 0;
    for (int i = 0; i < N; i++) text[i] = (uint32_t)(rng_next(&state) % LETTERS);
    for (int k = 0; k < 8; k++) {
        struct token_history h = {.vocab_size = LETTERS, .keep = k % 3 ? 0 : 100};
        uint64_t prompt = 40;
        for (int w = 0; w < N_WINDOWS; w++) h.windows[w] = lengths[k / 2][w], h.skips_prompt[w] = k % 2 && w > 0;
        if (!token_history_init(&h)) abort();
        for (uint64_t n = 0; n < N; n++) {
            if (!token_history_push(&h, text[n], n < prompt)) abort();
            for (uint32_t t = 0; n % 7 == 0 && t < LETTERS; t++)
                for (int w = 0; w < N_WINDOWS; w++) {
                    uint64_t end = n + 1, first = h.windows[w] > end ? 0 : end - h.windows[w], count = 0;
                    if (h.skips_prompt[w] && first < prompt) first = prompt;
                    for (uint64_t i = first; i < end; i++) count += text[i] == t;
                    uint64_t got = h.entry_of[t] ? h.counts[h.entry_of[t] - 1].n[w] : 0;
                    n_bad += got != count;
                }
        }
        n_bad += h.n > 2 * 700 && h.windows[0] != HISTORY_ALL && h.windows[1] != HISTORY_ALL;
        token_history_free(&h);
    }
    tap_ok(n_bad == 0, "counts of sliding windows equal a recount at every seventh token of 3,000");
}

/* ---- loop stop ---- */

static void loops(void) {
    const uint32_t text[] = {9, 8, 1, 2, 3, 1, 2, 3, 1, 2, 3, 4, 4, 4};
    tap_ok(loop_stop(text, 11, 1, 20, 3) && !loop_stop(text, 11, 1, 20, 4) && !loop_stop(text, 10, 1, 20, 3),
           "a block of three, three times");
    tap_ok(!loop_stop(text, 11, 1, 2, 3) && !loop_stop(text, 11, 4, 20, 3) && loop_stop(text, 11, 3, 3, 3),
           "patterns outside [min, max] do not count");
    tap_ok(loop_stop(text, 14, 0, 1, 3) && !loop_stop(text, 14, 0, 0, 3) && !loop_stop(text, 14, 0, 1, 1) &&
               !loop_stop(text, 14, 0, 1, 0),
           "min 0 counts as 1; max 0 or a count below 2 is off");
    uint32_t longer[400];
    for (int i = 0; i < 400; i++) longer[i] = (uint32_t)(i % 65);
    tap_ok(!loop_stop(longer, 400, 1, 1000, 2), "patterns are at most 64 long");

    struct sampling_params params = sampling_defaults();
    params.loop_max_pattern = 20;
    params.loop_min_count = 4;
    struct sampler s = make_sampler(&params, 10, NULL);
    const uint32_t prompt[] = {1, 2, 1, 2, 1, 2, 1, 2};
    bool ok = sampler_accept_prompt(&s, prompt, 8, NULL) && !sampler_is_looping(&s);
    int when = 0;
    for (int i = 0; i < 8 && !when; i++) {
        ok = ok && sampler_accept(&s, i % 2 ? 2 : 1);
        if (sampler_is_looping(&s)) when = i + 1;
    }
    tap_ok(ok && when == 8, "only the answer counts: stop after %d tokens", when);
    sampler_free(&s);
}

/* ---- parameters ---- */

static void parameters(void) {
    struct sampling_params p = sampling_defaults();
    struct mx_error err = {0};
    tap_ok(p.temperature == 0 && p.top_k == 0 && p.top_p == 1 && p.min_p == 0 && p.repetition_penalty == 1 &&
               p.dry_multiplier == 0 && p.dry_base == 1.75 && p.dry_allowed_length == 2 && p.xtc_threshold == 0.1 &&
               p.mirostat_tau == 5 && p.mirostat_eta == 0.1 && p.seed == -1 && sampling_check(&p, &err),
           "the original's defaults");
    p.top_p = 1.5;
    tap_ok(!sampling_check(&p, &err) && !strcmp(err.message, "top_p must be at least 0 and at most 1, not 1.5"),
           "an error names the field: %s", err.message);
    p.top_p = NAN;
    tap_ok(!sampling_check(&p, &err), "NaN is out of every range");
    p = sampling_defaults();
    p.repetition_penalty = 0;
    tap_ok(!sampling_check(&p, &err) &&
               !strcmp(err.message, "repetition_penalty must be above 0 and at most 1000000, not 0"),
           "%s", err.message);
    tap_ok(!sampling_set(&p, sampling_field_find("top_k"), 2.5, &err) &&
               !strcmp(err.message, "top_k must be a whole number, not 2.5"),
           "%s", err.message);
    tap_ok(!sampling_field_find("nothing") && sampling_set(&p, sampling_field_find("seed"), 0x1p63, &err) &&
               p.seed == INT64_MAX,
           "the largest seed");
    int n_bad = 0;
    for (int i = 0; i < N_SAMPLING_FIELDS; i++) {
        const struct sampling_field *f = &sampling_fields[i];
        p = sampling_defaults();
        double beyond = f->maximum < 0x1p63 ? f->maximum * 1.5 + 1 : INFINITY;
        n_bad += sampling_field_find(f->name) != f || sampling_get(&p, f) != f->fallback ||
                 sampling_set(&p, f, f->minimum - 1, NULL) || sampling_set(&p, f, beyond, NULL) ||
                 !sampling_set(&p, f, f->maximum, NULL) || sampling_get(&p, f) != f->maximum;
    }
    tap_ok(n_bad == 0, "every field keeps its range");
    p = sampling_defaults();
    struct logit_bias bias = {7, 1};
    struct sampler s;
    p.logit_bias = &bias;
    p.n_logit_bias = 1;
    tap_ok(!sampler_init(&s, &p, 7, &(struct sampler_tokens){0}, &err) &&
               !strcmp(err.message, "logit_bias names token 7, the vocabulary has 7"),
           "%s", err.message);
    bias.bias = NAN;
    tap_ok(!sampler_init(&s, &p, 8, &(struct sampler_tokens){0}, &err), "%s", err.message);
}

int main(void) {
    mirostat();
    adaptive();
    windows();
    loops();
    parameters();
    return tap_done();
}
