/* SPDX-License-Identifier: Apache-2.0 */
/* What sampling one row costs: median over rows, for several chains and shapes of logits.
 *
 *   build/release/bench/sampler [VOCABULARY [ROWS]]        default 151936 and 301
 *
 * Rows: `text` has the shape of a language model's (Zipf: logits fall with the logarithm of a random rank, one to three
 * tokens lead); `normal S` are independent normal numbers with standard deviation S, S = 1 being nearly flat: the
 * nucleus of 0.95 then holds two thirds of the vocabulary. A row is written just before it is sampled, as the model's
 * head leaves it. One line for each chain, in microseconds. */
#include "base/rng.h"
#include "engine/sampler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HISTORY = 1000, N_ROWS = 8 };

struct chain {
    const char *name;
    double temperature;
    int64_t top_k;
    double top_p, min_p, repetition, presence, dry;
    int64_t logprobs; /* number of alternatives; -1 = none */
};

static const struct chain chains[] = {
    /* clang-format off */
    /* name                         t    k    p     min_p  rep  pres dry  logprobs */
    {"greedy",                      0,   0,   1,    0,     1,   0,   0,   -1},
    {"temperature",                 0.8, 0,   1,    0,     1,   0,   0,   -1},
    {"usual: k 40 p .95 min .05",   0.8, 40,  0.95, 0.05,  1,   0,   0,   -1},
    {"usual + penalties",           0.8, 40,  0.95, 0.05,  1.1, 0.5, 0,   -1},
    {"usual + penalties + dry",     0.8, 40,  0.95, 0.05,  1.1, 0.5, 0.8, -1},
    {"usual + 5 logprobs",          0.8, 40,  0.95, 0.05,  1,   0,   0,   5},
    {"top-p .95 alone",             0.8, 0,   0.95, 0,     1,   0,   0,   -1},
    {"top-p .95 alone, t 1",        1,   0,   0.95, 0,     1,   0,   0,   -1},
    {"min-p .05 alone",             0.8, 0,   1,    0.05,  1,   0,   0,   -1},
    {"top-p .95 min-p .05",         0.8, 0,   0.95, 0.05,  1,   0,   0,   -1},
    /* clang-format on */
};

static double normal(uint64_t *state) {
    double u = 1 - rng_uniform_f64(rng_next(state)), v = rng_uniform_f64(rng_next(state));
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* shape 0: text; else independent normal numbers of that deviation. */
static void make_row(float *row, uint32_t n, double shape, uint64_t *state) {
    for (uint32_t i = 0; i < n; i++) {
        double rank = 1 + rng_uniform_f64(rng_next(state)) * (double)n;
        row[i] = (float)(shape > 0 ? shape * normal(state) : -1.5 * log(rank) + 0.7 * normal(state));
    }
    for (int i = 0; shape <= 0 && i < 3; i++) row[rng_next(state) % n] = (float)(4 - 1.2 * i + normal(state));
}

/* Time of this thread on a processor: other work on the machine counts only through the caches. */
static uint64_t thread_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static struct sampling_params params_of(const struct chain *chain) {
    struct sampling_params p = sampling_defaults();
    p.temperature = chain->temperature;
    p.top_k = chain->top_k;
    p.top_p = chain->top_p;
    p.min_p = chain->min_p;
    p.repetition_penalty = chain->repetition;
    p.presence_penalty = chain->presence;
    p.repetition_last_n = p.presence_last_n = p.dry_last_n = -1;
    p.dry_multiplier = chain->dry;
    p.want_logprobs = chain->logprobs >= 0;
    p.n_top_logprobs = chain->logprobs > 0 ? chain->logprobs : 0;
    p.seed = 1;
    return p;
}

/* Samples the N_ROWS rows in turn; fills times[0 .. n), sorted. */
static bool measure(const struct chain *chain, const float *rows, uint32_t vocab, float *row, uint64_t *times,
                    size_t n) {
    struct sampling_params params = params_of(chain);
    struct sampler_tokens tokens = {0};
    struct sampler sampler;
    struct sampling_scratch scratch;
    if (!sampling_scratch_init(&scratch, vocab, NULL)) return false;
    if (!sampler_init(&sampler, &params, vocab, &tokens, NULL)) return false;
    uint64_t state = 7;
    for (int i = 0; i < HISTORY; i++)
        if (!sampler_accept(&sampler, (uint32_t)(rng_next(&state) % 700))) return false;
    for (size_t i = 0; i < n; i++) {
        struct sample_result result;
        memcpy(row, rows + i % N_ROWS * vocab, vocab * sizeof *row);
        uint64_t start = thread_ns();
        uint32_t token = sampler_sample(&sampler, &scratch, row, NULL, &result);
        if (!sampler_accept(&sampler, token)) return false;
        times[i] = thread_ns() - start;
    }
    qsort(times, n, sizeof *times, compare);
    sampler_free(&sampler);
    sampling_scratch_free(&scratch);
    return true;
}

int main(int argc, char **argv) {
    uint32_t vocab = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 151936;
    size_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : 301;
    static const double shapes[] = {0, 3, 1};
    enum { N_SHAPES = sizeof shapes / sizeof *shapes };
    if (vocab < 1000 || !n) {
        fprintf(stderr, "usage: sampler [VOCABULARY [ROWS]], at least 1000 and 1\n");
        return 2;
    }
    float *rows[N_SHAPES], *row = malloc(vocab * sizeof *row);
    uint64_t *times = malloc(n * sizeof *times), state = 3;
    if (!row || !times) return 1;
    for (int shape = 0; shape < N_SHAPES; shape++) {
        rows[shape] = malloc((size_t)N_ROWS * vocab * sizeof *row);
        if (!rows[shape]) return 1;
        for (size_t i = 0; i < N_ROWS; i++) make_row(rows[shape] + i * vocab, vocab, shapes[shape], &state);
    }
    printf("microseconds a row, median (90th percentile)\n%-28s %15s %15s %15s\n", "chain", "text", "normal 3",
           "normal 1");
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        printf("%-28s", chains[i].name);
        for (int shape = 0; shape < N_SHAPES; shape++) {
            if (!measure(&chains[i], rows[shape], vocab, row, times, n)) return 1;
            printf("  %6.1f (%5.1f)", (double)times[n / 2] * 1e-3, (double)times[n * 9 / 10] * 1e-3);
            fflush(stdout);
        }
        printf("\n");
    }
    for (int shape = 0; shape < N_SHAPES; shape++) free(rows[shape]);
    free(row);
    free(times);
    return 0;
}
