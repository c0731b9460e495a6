/* SPDX-License-Identifier: Apache-2.0 */
/* Small distributions with known results: the values that llama.cpp publishes in its own test of samplers
 * (tests/test-sampling.cpp), for the parameters that come from there, and examples worked out by hand. */
#include "engine/sampler.h"
#include "tests/support/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8 };

/* What tokens are drawn from, given probabilities of the model and a text. */
static bool distribution(const double *p, uint32_t n, const uint32_t *text, size_t n_text,
                         const struct sampling_params *params, const struct sampler_tokens *tokens, double *got) {
    struct sampling_params wanted = *params;
    struct sampling_scratch scratch;
    struct sampler sampler;
    struct sample_result result;
    float logits[MOST];
    wanted.want_logprobs = 1;
    wanted.logprobs_kind = LOGPROBS_FINAL;
    wanted.n_top_logprobs = -1;
    for (uint32_t i = 0; i < n; i++) logits[i] = logf((float)p[i]), got[i] = 0;
    if (!sampling_scratch_init(&scratch, n, NULL) || !sampler_init(&sampler, &wanted, n, tokens, NULL)) return false;
    bool ok = sampler_accept_prompt(&sampler, text, n_text, NULL);
    sampler_sample(&sampler, &scratch, logits, NULL, &result);
    for (uint32_t i = 0; i < result.n_top; i++) got[result.top[i].token] = exp((double)result.top[i].logprob);
    sampler_free(&sampler);
    sampling_scratch_free(&scratch);
    return ok;
}

struct example {
    const char *name;
    double p[MOST], want[MOST]; /* 0 ends p */
    struct {
        const char *field;
        double value;
    } set[6];
    uint32_t text[MOST];
    size_t n_text;
    uint32_t breaker[3]; /* one sequence of n_breaker tokens */
    size_t n_breaker;
};

static const struct example examples[] = {
    /* values of llama.cpp */
    {.name = "temperature 1", .p = {.1, .2, .3, .4}, .want = {.1, .2, .3, .4}, .set = {{"temperature", 1}}},
    {.name = "temperature 0", .p = {.1, .2, .3, .4}, .want = {0, 0, 0, 1}, .set = {{"temperature", 0}}},
    {.name = "top-k 1", .p = {.1, .2, .3, .4}, .want = {0, 0, 0, 1}, .set = {{"top_k", 1}}},
    {.name = "top-k 3", .p = {.1, .2, .3, .4}, .want = {0, .22222, .33333, .44444}, .set = {{"top_k", 3}}},
    {.name = "top-k 4", .p = {.1, .2, .3, .4}, .want = {.1, .2, .3, .4}, .set = {{"top_k", 4}}},
    {.name = "top-k 0", .p = {.1, .2, .3, .4}, .want = {.1, .2, .3, .4}, .set = {{"top_k", 0}}},
    {.name = "top-p 0.8", .p = {.1, .2, .3, .4}, .want = {0, .22222, .33333, .44444}, .set = {{"top_p", .8}}},
    {.name = "top-p 1", .p = {.1, .2, .3, .4}, .want = {.1, .2, .3, .4}, .set = {{"top_p", 1}}},
    {.name = "min-p 0", .p = {.1, .2, .3, .4}, .want = {.1, .2, .3, .4}, .set = {{"min_p", 0}}},
    {.name = "min-p 0.24", .p = {.1, .2, .3, .4}, .want = {.1, .2, .3, .4}, .set = {{"min_p", .24}}},
    {.name = "min-p 0.26", .p = {.1, .2, .3, .4}, .want = {0, .2 / .9, .3 / .9, .4 / .9}, .set = {{"min_p", .26}}},
    {.name = "min-p 0.49", .p = {.1, .2, .3, .4}, .want = {0, .2 / .9, .3 / .9, .4 / .9}, .set = {{"min_p", .49}}},
    {.name = "min-p 0.51", .p = {.1, .2, .3, .4}, .want = {0, 0, .3 / .7, .4 / .7}, .set = {{"min_p", .51}}},
    {.name = "min-p 0.74", .p = {.1, .2, .3, .4}, .want = {0, 0, .3 / .7, .4 / .7}, .set = {{"min_p", .74}}},
    {.name = "min-p 0.76", .p = {.1, .2, .3, .4}, .want = {0, 0, 0, 1}, .set = {{"min_p", .76}}},
    {.name = "min-p 1", .p = {.1, .2, .3, .4}, .want = {0, 0, 0, 1}, .set = {{"min_p", 1}}},
    {.name = "XTC over 0.09",
     .p = {.4, .3, .2, .1},
     .want = {0, 0, 0, 1},
     .set = {{"xtc_probability", 1}, {"xtc_threshold", .09}}},
    {.name = "XTC over 0.19",
     .p = {.4, .3, .2, .1},
     .want = {0, 0, .2 / .3, .1 / .3},
     .set = {{"xtc_probability", 1}, {"xtc_threshold", .19}}},
    {.name = "XTC over 0.29",
     .p = {.4, .3, .2, .1},
     .want = {0, .5, .2 / .6, .1 / .6},
     .set = {{"xtc_probability", 1}, {"xtc_threshold", .29}}},
    {.name = "XTC over 0.39",
     .p = {.4, .3, .2, .1},
     .want = {.4, .3, .2, .1},
     .set = {{"xtc_probability", 1}, {"xtc_threshold", .39}}},
    {.name = "typical, one sure token", .p = {.97, .01, .01, .01}, .want = {1, 0, 0, 0}, .set = {{"typical_p", .5}}},
    {.name = "typical, three alike",
     .p = {.4, .2, .2, .2},
     .want = {0, 1 / 3., 1 / 3., 1 / 3.},
     .set = {{"typical_p", .5}}},
    {.name = "top-n-sigma 1", .p = {.1, .2, .3, .4}, .want = {0, 0, .428571, .571429}, .set = {{"top_n_sigma", 1}}},
    {.name = "top-n-sigma 0", .p = {.1, .2, .3, .4}, .want = {.1, .2, .3, .4}, .set = {{"top_n_sigma", 0}}},
    {.name = "top-n-sigma 3", .p = {.1, .2, .3, .4}, .want = {.1, .2, .3, .4}, .set = {{"top_n_sigma", 3}}},
    {.name = "repetition 50, one token",
     .p = {.2, .2, .2, .2, .2},
     .want = {0, .25, .25, .25, .25},
     .set = {{"repetition_penalty", 50}},
     .text = {0},
     .n_text = 1},
    {.name = "repetition 50, three",
     .p = {.2, .2, .2, .2, .2},
     .want = {0, 0, 0, .5, .5},
     .set = {{"repetition_penalty", 50}},
     .text = {0, 1, 2},
     .n_text = 3},
    {.name = "repetition 50, one of them thrice",
     .p = {.2, .2, .2, .2, .2},
     .want = {0, 0, 0, .5, .5},
     .set = {{"repetition_penalty", 50}},
     .text = {0, 1, 2, 0, 0},
     .n_text = 5},
    {.name = "presence and frequency 5, one token",
     .p = {.2, .2, .2, .2, .2},
     .want = {.000011, .249997, .249997, .249997, .249997},
     .set = {{"presence_penalty", 5}, {"frequency_penalty", 5}},
     .text = {0},
     .n_text = 1},
    {.name = "presence and frequency 5, three",
     .p = {.2, .2, .2, .2, .2},
     .want = {.000023, .000023, .000023, .499966, .499966},
     .set = {{"presence_penalty", 5}, {"frequency_penalty", 5}},
     .text = {0, 1, 2},
     .n_text = 3},
    {.name = "presence and frequency 5, one of them thrice",
     .p = {.2, .2, .2, .2, .2},
     .want = {0, .000023, .000023, .499977, .499977},
     .set = {{"presence_penalty", 5}, {"frequency_penalty", 5}},
     .text = {0, 1, 2, 0, 0},
     .n_text = 5},
    {.name = "DRY without repetition",
     .p = {.25, .25, .25, .25},
     .want = {.25, .25, .25, .25},
     .set = {{"dry_multiplier", 1}, {"dry_base", 1.1}, {"dry_allowed_length", 2}, {"dry_last_n", 4}},
     .text = {0, 1},
     .n_text = 2},
    {.name = "DRY, two tokens again",
     .p = {.25, .25, .25, .25},
     .want = {.296923, .296923, .109232, .296923},
     .set = {{"dry_multiplier", 1}, {"dry_base", 1.1}, {"dry_allowed_length", 2}, {"dry_last_n", 5}},
     .text = {0, 1, 2, 0, 1},
     .n_text = 5},
    {.name = "DRY, the next one is a breaker",
     .p = {.2, .2, .2, .2, .2},
     .want = {.2, .2, .2, .2, .2},
     .set = {{"dry_multiplier", 1}, {"dry_base", 1.1}, {"dry_allowed_length", 2}, {"dry_last_n", 6}},
     .text = {0, 1, 3, 4, 0, 1},
     .n_text = 6,
     .breaker = {3},
     .n_breaker = 1},
    {.name = "DRY, multiplier 2",
     .p = {.2, .2, .2, .2, .2},
     .want = {.241818, .241818, .032727, .241818, .241818},
     .set = {{"dry_multiplier", 2}, {"dry_base", 1.1}, {"dry_allowed_length", 2}, {"dry_last_n", 5}},
     .text = {0, 1, 2, 0, 1},
     .n_text = 5},
    {.name = "DRY, shorter than allowed",
     .p = {.2, .2, .2, .2, .2},
     .want = {.2, .2, .2, .2, .2},
     .set = {{"dry_multiplier", 1}, {"dry_base", 1.1}, {"dry_allowed_length", 4}, {"dry_last_n", 7}},
     .text = {0, 1, 2, 3, 4, 0, 1},
     .n_text = 7},
    /* by hand */
    {.name = "top-p keeps the token that reaches a sum of exactly p and the next",
     .p = {.5, .25, .125, .125},
     .want = {4 / 7., 2 / 7., 1 / 7., 0},
     .set = {{"top_p", .75}}},
    {.name = "top-p 0 is off", .p = {.5, .25, .125, .125}, .want = {.5, .25, .125, .125}, .set = {{"top_p", 0}}},
    {.name = "top-k keeps ties", .p = {.1, .3, .3, .3}, .want = {0, 1 / 3., 1 / 3., 1 / 3.}, .set = {{"top_k", 2}}},
    {.name = "top-k 1 takes the lowest of equals", .p = {.1, .3, .3, .3}, .want = {0, 1, 0, 0}, .set = {{"top_k", 1}}},
    {.name = "temperature 2 is the square root",
     .p = {.64, .32, .04},
     .want = {.8 / 1.565685, .565685 / 1.565685, .2 / 1.565685},
     .set = {{"temperature", 2}}},
    {.name = "temperature does not change what top-p keeps",
     .p = {.64, .32, .04},
     .want = {.585786, .414214, 0},
     .set = {{"temperature", 2}, {"top_p", .9}}},
    {.name = "top-p is taken of what top-k left",
     .p = {.4, .3, .2, .1},
     .want = {4 / 7., 3 / 7., 0, 0},
     .set = {{"top_k", 3}, {"top_p", .76}}},
    {.name = "XTC is taken of what top-k left: 3/9 is above 0.31",
     .p = {.4, .3, .2, .1},
     .want = {0, .6, .4, 0},
     .set = {{"top_k", 3}, {"xtc_probability", 1}, {"xtc_threshold", .31}}},
    {.name = "penalties act before top-k",
     .p = {.4, .3, .2, .1},
     .want = {0, 0, 1, 0},
     .set = {{"presence_penalty", 2}, {"top_k", 1}},
     .text = {0, 1},
     .n_text = 2},
    {.name = "XTC above 0.5 is off",
     .p = {.4, .3, .2, .1},
     .want = {.4, .3, .2, .1},
     .set = {{"xtc_probability", 1}, {"xtc_threshold", .51}}},
    {.name = "XTC changes what is greedy",
     .p = {.4, .3, .2, .1},
     .want = {0, 1, 0, 0},
     .set = {{"temperature", 0}, {"xtc_probability", 1}, {"xtc_threshold", .25}}},
    {.name = "XTC leaves min_keep",
     .p = {.4, .3, .2, .1},
     .want = {.4, .3, .2, .1},
     .set = {{"xtc_probability", 1}, {"xtc_threshold", .19}, {"min_keep", 3}}},
    {.name = "dynamic temperature of an even choice is its upper end",
     .p = {.25, .25, .25, .25},
     .want = {.25, .25, .25, .25},
     .set = {{"temperature", 1}, {"dynatemp_range", .5}}},
    /* entropy of (1/2, 1/4, 1/8, 1/8) = 1.75 bits of 2: temperature 0.5 + 1 * (7/8)^2 = 1.265625 */
    {.name = "dynamic temperature by hand",
     .p = {.5, .25, .125, .125},
     .want = {.4450093, .2573465, .1488221, .1488221},
     .set = {{"temperature", 1}, {"dynatemp_range", .5}, {"dynatemp_exponent", 2}}},
    {.name = "presence window of 2",
     .p = {.25, .25, .25, .25},
     .want = {.365529, .365529, .134471, .134471},
     .set = {{"presence_penalty", 1}, {"presence_last_n", 2}},
     .text = {0, 1, 2, 3},
     .n_text = 4},
    {.name = "frequency window of 3: twice token 0",
     .p = {.5, .5},
     .want = {1 / (1 + M_E), M_E / (1 + M_E)},
     .set = {{"frequency_penalty", 1}, {"frequency_last_n", 3}},
     .text = {1, 1, 0, 0, 1},
     .n_text = 5},
    {.name = "the prompt does not count",
     .p = {.25, .75},
     .want = {.25, .75},
     .set = {{"presence_penalty", 3}, {"penalize_prompt", 0}},
     .text = {1},
     .n_text = 1},
    {.name = "repetition window of 0 is off",
     .p = {.25, .75},
     .want = {.25, .75},
     .set = {{"repetition_penalty", 3}, {"repetition_last_n", 0}},
     .text = {1},
     .n_text = 1},
    /* 1 would go on with "0 0 0": 2 * 1.5^2 = 4.5; 0 with "0 0": 2 * 1.5 = 3 */
    {.name = "DRY exponents by hand",
     .p = {.5, .5},
     .want = {.8175745, .1824255},
     .set = {{"dry_multiplier", 2}, {"dry_base", 1.5}, {"dry_allowed_length", 1}, {"dry_last_n", -1}},
     .text = {0, 0, 0, 1, 0, 0, 0},
     .n_text = 7},
    /* a breaker of two tokens: only "1" follows it, "0 2 1" before it does not count */
    {.name = "DRY, breaker of two tokens",
     .p = {.25, .25, .25, .25},
     .want = {.25, .25, .25, .25},
     .set = {{"dry_multiplier", 2}, {"dry_base", 1.5}, {"dry_allowed_length", 2}, {"dry_last_n", -1}},
     .text = {0, 2, 1, 3, 0, 2, 1},
     .n_text = 7,
     .breaker = {0, 2},
     .n_breaker = 2},
    {.name = "DRY, the same without breaker: three tokens again",
     .p = {.25, .25, .25, .25},
     .want = {.3278917, .3278917, .3278917, .0163248},
     .set = {{"dry_multiplier", 2}, {"dry_base", 1.5}, {"dry_allowed_length", 2}, {"dry_last_n", -1}},
     .text = {0, 2, 1, 3, 0, 2, 1},
     .n_text = 7},
};

static bool run(const struct example *e) {
    struct sampling_params params = sampling_defaults();
    struct mx_error err = {0};
    params.temperature = 1;
    params.seed = 3;
    for (size_t i = 0; i < 6 && e->set[i].field; i++)
        if (!sampling_set(&params, sampling_field_find(e->set[i].field), e->set[i].value, &err)) {
            tap_note("%s", err.message);
            return false;
        }
    uint32_t n = 0;
    while (n < MOST && e->p[n] > 0) n++;
    struct dry_breakers breakers = {0};
    double got[MOST];
    bool ok = dry_breakers_add(&breakers, (struct breaker_ids){e->breaker, e->n_breaker}, &err);
    dry_breakers_finish(&breakers);
    struct sampler_tokens tokens = {.breakers = &breakers};
    ok = ok && distribution(e->p, n, e->text, e->n_text, &params, &tokens, got);
    for (uint32_t i = 0; ok && i < n; i++)
        if (fabs(got[i] - e->want[i]) > 2e-6 + 2e-5 * e->want[i]) {
            tap_note("token %u has probability %.7g, expected %.7g", i, got[i], e->want[i]);
            ok = false;
        }
    dry_breakers_free(&breakers);
    return ok;
}

int main(void) {
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) tap_ok(run(&examples[i]), "%s", examples[i].name);
    return tap_done();
}
