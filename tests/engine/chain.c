/* SPDX-License-Identifier: Apache-2.0 */
/* The chain of filters against a plain one: everything sorted, everything in double, one step after the other as
 * docs/sampling.md states them. Compared is the whole distribution that the token is drawn from. */
#include "base/rng.h"
#include "tests/support/sampling.h"
#include "tests/support/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the plain chain ---- */

struct plain_token {
    uint32_t id;
    double x, p, key;
};

struct plain {
    struct plain_token *tokens;
    size_t n;
};

static int by_logit(const void *left, const void *right) {
    const struct plain_token *a = left, *b = right;
    if (a->x != b->x) return a->x > b->x ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static int by_key(const void *left, const void *right) {
    const struct plain_token *a = left, *b = right;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static double largest_of(const struct plain *s) {
    double max = -INFINITY;
    for (size_t i = 0; i < s->n; i++) max = fmax(max, s->tokens[i].x);
    return max;
}

/* Probabilities of logits / temperature. */
static void softmax(struct plain *s, double temperature) {
    double max = largest_of(s), total = 0;
    for (size_t i = 0; i < s->n; i++) total += s->tokens[i].p = exp((s->tokens[i].x - max) / temperature);
    for (size_t i = 0; i < s->n; i++) s->tokens[i].p /= total;
}

static double entropy(const struct plain *s) {
    double sum = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->tokens[i].p > 0) sum -= s->tokens[i].p * log(s->tokens[i].p);
    return sum;
}

static void keep_first(struct plain *s, size_t n, const struct sampling_params *params) {
    size_t least = params->min_keep > 1 ? (size_t)params->min_keep : 1;
    if (n < least) n = least;
    if (n < s->n) s->n = n;
}

static void plain_top_n_sigma(struct plain *s, double n) {
    double mean = 0, variance = 0, max = largest_of(s);
    for (size_t i = 0; i < s->n; i++) mean += s->tokens[i].x / (double)s->n;
    for (size_t i = 0; i < s->n; i++) variance += pow(s->tokens[i].x - mean, 2) / (double)s->n;
    size_t kept = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->tokens[i].x >= max - n * sqrt(variance)) s->tokens[kept++] = s->tokens[i];
    s->n = kept;
}

static void plain_top_k(struct plain *s, size_t k) {
    qsort(s->tokens, s->n, sizeof *s->tokens, by_logit);
    while (k < s->n && s->tokens[k].x == s->tokens[k - 1].x) k++; /* ties stay */
    if (k < s->n) s->n = k;
}

static void plain_typical(struct plain *s, const struct sampling_params *params) {
    softmax(s, 1);
    double h = entropy(s), sum = 0;
    for (size_t i = 0; i < s->n; i++) s->tokens[i].key = fabs(-log(s->tokens[i].p) - h);
    qsort(s->tokens, s->n, sizeof *s->tokens, by_key);
    size_t n = 0;
    while (n < s->n && sum <= params->typical_p) sum += s->tokens[n++].p;
    keep_first(s, n, params);
}

static void plain_top_p(struct plain *s, const struct sampling_params *params) {
    softmax(s, 1);
    qsort(s->tokens, s->n, sizeof *s->tokens, by_logit);
    double before = 0;
    size_t n = 0;
    for (; n < s->n && before <= params->top_p; n++) before += s->tokens[n].p;
    keep_first(s, n, params);
}

static void plain_min_p(struct plain *s, const struct sampling_params *params) {
    softmax(s, 1);
    qsort(s->tokens, s->n, sizeof *s->tokens, by_logit);
    size_t n = 0;
    while (n < s->n && s->tokens[n].p >= params->min_p * s->tokens[0].p) n++;
    keep_first(s, n, params);
}

/* What equals the least probable of those above the threshold stays with it. */
static void plain_xtc(struct plain *s, const struct sampling_params *params) {
    softmax(s, 1);
    qsort(s->tokens, s->n, sizeof *s->tokens, by_logit);
    size_t above = 0, first = 0;
    while (above < s->n && s->tokens[above].p > params->xtc_threshold) above++;
    if (above < 2) return;
    while (s->tokens[first].x > s->tokens[above - 1].x) first++;
    if (s->n - first < (size_t)params->min_keep) return;
    s->n -= first;
    memmove(s->tokens, s->tokens + first, s->n * sizeof *s->tokens);
}

static void plain_draw(struct plain *s, const struct sampling_params *params) {
    double temperature = params->temperature;
    softmax(s, 1);
    if (params->dynatemp_range > 0 && s->n > 1) {
        double low = fmax(0, temperature - params->dynatemp_range), high = temperature + params->dynatemp_range;
        temperature = low + (high - low) * pow(entropy(s) / log((double)s->n), params->dynatemp_exponent);
    }
    softmax(s, temperature);
    if (params->adaptive_target < 0) return;
    for (size_t i = 0; i < s->n; i++) {
        double d = fabs(s->tokens[i].p - params->adaptive_target) / 0.3;
        s->tokens[i].x = 5 - 10 * d * d / (1 + d);
    }
    softmax(s, 1);
}

static void plain_chain(struct plain *s, const float *logits, uint32_t n, const struct sampling_params *params) {
    s->n = 0;
    for (uint32_t i = 0; i < n; i++)
        if (logits[i] > -INFINITY) s->tokens[s->n++] = (struct plain_token){.id = i, .x = (double)logits[i]};
    if (params->top_n_sigma > 0) plain_top_n_sigma(s, params->top_n_sigma);
    if (params->top_k > 0) plain_top_k(s, (size_t)params->top_k);
    if (params->typical_p > 0 && params->typical_p < 1) plain_typical(s, params);
    if (params->top_p > 0 && params->top_p < 1) plain_top_p(s, params);
    if (params->min_p > 0) plain_min_p(s, params);
    if (params->xtc_probability > 0) plain_xtc(s, params);
    plain_draw(s, params);
}

/* ---- rows ---- */

enum shape { PEAKED, NORMAL, FLAT, LEVELS, EQUAL, HOLES, N_SHAPES };
static const char *const shape_names[N_SHAPES] = {"peaked", "normal", "flat", "levels", "equal", "holes"};

static void make_row(float *row, uint32_t n, enum shape shape, uint64_t seed) {
    uint64_t state = seed;
    for (uint32_t i = 0; i < n; i++) {
        double x = normal(&state);
        switch (shape) {
        case PEAKED: x = -1.6 * log(1 + rng_uniform_f64(rng_next(&state)) * n) + 0.5 * x; break;
        case NORMAL: x *= 3; break;
        case FLAT: x *= 0.5; break;
        case LEVELS: x = floor(2 * x); break; /* many ties */
        case EQUAL: x = 1.25; break;
        default: x = i > 0 && rng_next(&state) % 3 ? -INFINITY : 2 * x;
        }
        row[i] = (float)x;
    }
}

/* ---- comparison ---- */

struct fixture {
    struct sampling_scratch scratch;
    float *row;
    double *got, *want;
    struct plain plain;
    uint32_t n;
};

static bool fixture_init(struct fixture *f, uint32_t n) {
    f->n = n;
    f->row = malloc(n * sizeof *f->row);
    f->got = malloc(n * sizeof *f->got);
    f->want = malloc(n * sizeof *f->want);
    f->plain.tokens = malloc(n * sizeof *f->plain.tokens);
    return f->row && f->got && f->want && f->plain.tokens && sampling_scratch_init(&f->scratch, n, NULL);
}

static void fixture_free(struct fixture *f) {
    sampling_scratch_free(&f->scratch);
    free(f->row);
    free(f->got);
    free(f->want);
    free(f->plain.tokens);
}

static bool distribution(struct fixture *f, const struct sampling_params *params, uint32_t *token) {
    struct sampler sampler;
    struct sampler_tokens tokens = {0};
    struct sample_result result;
    if (!sampler_init(&sampler, params, f->n, &tokens, NULL)) return false;
    *token = sampler_sample(&sampler, &f->scratch, f->row, NULL, &result);
    for (uint32_t i = 0; i < f->n; i++) f->got[i] = 0;
    for (uint32_t i = 0; i < result.n_top; i++) f->got[result.top[i].token] = exp((double)result.top[i].logprob);
    sampler_free(&sampler);
    return result.status == SAMPLE_OK;
}

static bool compare(struct fixture *f, const struct sampling_params *params, const char *what) {
    uint32_t token, worst = 0;
    if (!distribution(f, params, &token)) return false;
    plain_chain(&f->plain, f->row, f->n, params);
    for (uint32_t i = 0; i < f->n; i++) f->want[i] = 0;
    for (size_t i = 0; i < f->plain.n; i++) f->want[f->plain.tokens[i].id] = f->plain.tokens[i].p;
    double worst_error = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        double error = fabs(f->got[i] - f->want[i]) / (1e-9 + 2e-5 * f->want[i]);
        if (error > worst_error) worst_error = error, worst = i;
    }
    bool ok = worst_error <= 1 && f->got[token] > 0;
    if (!ok)
        tap_note("%s: token %u has probability %.9g, expected %.9g (%zu kept); drawn %u", what, worst, f->got[worst],
                 f->want[worst], f->plain.n, token);
    return ok;
}

struct chain {
    const char *name;
    double temperature, dynatemp_range;
    int64_t top_k;
    double top_p, min_p, typical_p, top_n_sigma, xtc_threshold; /* xtc_threshold 0: XTC off */
    int64_t min_keep;
    double adaptive_target;
};

static const struct chain chains[] = {
    /* clang-format off */
    /* name                                          t    dyn  k     p       min    typ     sigma  xtc    keep  adapt */
    {"temperature alone",                            0.7, 0,   0,    1,      0,     1,      -1,    0,     0,    -1},
    {"high temperature",                             7,   0,   0,    1,      0,     1,      -1,    0,     0,    -1},
    {"top-k",                                        1.3, 0,   5,    1,      0,     1,      -1,    0,     0,    -1},
    {"top-k of many",                                0.8, 0,   2000, 1,      0,     1,      -1,    0,     0,    -1},
    {"top-p",                                        0.8, 0,   0,    0.9003, 0,     1,      -1,    0,     0,    -1},
    {"narrow top-p",                                 1,   0,   0,    0.151,  0,     1,      -1,    0,     0,    -1},
    {"wide top-p",                                   1,   0,   0,    0.9933, 0,     1,      -1,    0,     0,    -1},
    {"min-p",                                        0.8, 0,   0,    1,      0.048, 1,      -1,    0,     0,    -1},
    {"typical",                                      0.8, 0,   0,    1,      0,     0.6203, -1,    0,     0,    -1},
    {"top-n-sigma",                                  0.8, 0,   0,    1,      0,     1,      1.51,  0,     0,    -1},
    {"XTC",                                          0.8, 0,   0,    1,      0,     1,      -1,    0.011, 0,    -1},
    {"dynamic temperature",                          0.9, 0.4, 0,    1,      0,     1,      -1,    0,     0,    -1},
    {"adaptive-p",                                   1.1, 0,   0,    1,      0,     1,      -1,    0,     0,    0.3},
    {"usual: top-k, top-p, min-p, temperature",      0.8, 0,   40,   0.9513, 0.049, 1,      -1,    0,     0,    -1},
    {"top-p, min-p without top-k",                   1.2, 0,   0,    0.9513, 0.021, 1,      -1,    0,     0,    -1},
    {"all: sigma, k, typical, p, min, XTC, dynamic", 0.8, 0.5, 300,  0.9703, 0.007, 0.9503, 3.01,  0.013, 0,    -1},
    {"all without top-k, adaptive-p",                1.4, 0,   0,    0.9703, 0.007, 0.9533, 3.01,  0.013, 0,    0.2},
    {"min_keep above what filters leave",            0.8, 0,   0,    0.1003, 0.9,   1,      -1,    0,     12,   -1},
    {"typical with min_keep",                        0.8, 0,   0,    1,      0,     0.0503, -1,    0,     9,    -1},
    /* clang-format on */
};

static struct sampling_params params_of(const struct chain *chain) {
    struct sampling_params p = sampling_defaults();
    p.temperature = chain->temperature;
    p.dynatemp_range = chain->dynatemp_range;
    p.dynatemp_exponent = 1.3;
    p.top_k = chain->top_k;
    p.top_p = chain->top_p;
    p.min_p = chain->min_p;
    p.typical_p = chain->typical_p;
    p.top_n_sigma = chain->top_n_sigma;
    p.xtc_probability = chain->xtc_threshold > 0;
    p.xtc_threshold = chain->xtc_threshold;
    p.min_keep = chain->min_keep;
    p.adaptive_target = chain->adaptive_target;
    p.seed = 1;
    p.want_logprobs = 1;
    p.logprobs_kind = LOGPROBS_FINAL;
    p.n_top_logprobs = -1;
    return p;
}

/* The sums of p stand off every multiple of 1/n, so that no row of equal logits has its border on one. */

/* A tie at the border of min_keep or typical may go either way in the plain chain: such shapes are left out there. */
static bool is_ambiguous(const struct chain *chain, enum shape shape) {
    bool ties = shape == LEVELS || shape == EQUAL;
    return ties && (chain->min_keep > 1 || (chain->typical_p < 1 && shape == LEVELS));
}

static void every_chain(uint32_t n, uint64_t n_seeds) {
    struct fixture f = {0};
    if (!fixture_init(&f, n)) {
        tap_ok(false, "memory");
        return;
    }
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        struct sampling_params params = params_of(&chains[i]);
        int n_bad = 0;
        for (int shape = 0; shape < N_SHAPES; shape++) {
            if (is_ambiguous(&chains[i], (enum shape)shape)) continue;
            for (uint64_t seed = 1; seed <= n_seeds; seed++) {
                make_row(f.row, n, (enum shape)shape, seed * 1000 + i);
                n_bad += !compare(&f, &params, shape_names[shape]);
            }
        }
        tap_ok(n_bad == 0, "%s: distribution over %u tokens equals the plain chain's", chains[i].name, n);
    }
    fixture_free(&f);
}

/* The largest vocabularies, with the filters that look at the whole row. */
static void top_p_of_a_large_row(void) {
    enum { N = 151936 };
    struct fixture f = {0};
    struct sampling_params params = drawing();
    bool ok = fixture_init(&f, N);
    params.want_logprobs = 1;
    params.logprobs_kind = LOGPROBS_FINAL;
    params.n_top_logprobs = -1;
    for (int shape = 0; ok && shape < N_SHAPES; shape++) {
        params.top_p = shape % 2 ? 0.5003 : 0.9503;
        make_row(f.row, N, (enum shape)shape, 77);
        tap_ok(compare(&f, &params, shape_names[shape]), "top-p %g of 151,936 tokens, %s", params.top_p,
               shape_names[shape]);
    }
    fixture_free(&f);
}

int main(void) {
    every_chain(3, 40);
    every_chain(50, 40);
    every_chain(700, 10);
    every_chain(9001, 1);
    every_chain(20000, 1);
    top_p_of_a_large_row();
    return tap_done();
}
