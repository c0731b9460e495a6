/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sampler.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/rng.h"
#include "engine/logprobs.h"
#include "engine/loop_stop.h"
#include "engine/sampler_draw.h"
#include "engine/sampler_filters.h"
#include "engine/sampler_penalties.h"

#include <math.h>
#include <string.h>
#include <sys/random.h>

/* Which use a random number is for. */
enum { DRAW_XTC, DRAW_TOKEN, DRAW_NUCLEUS };

/* ---- scratch ---- */

bool sampling_scratch_init(struct sampling_scratch *scratch, uint32_t vocab_size, struct mx_error *err) {
    memset(scratch, 0, sizeof *scratch);
    if (!candidates_init(&scratch->candidates, vocab_size, err)) return false;
    scratch->report = aligned_calloc(vocab_size, sizeof *scratch->report);
    scratch->longest = aligned_calloc(vocab_size, sizeof *scratch->longest);
    scratch->top = aligned_calloc(vocab_size, sizeof *scratch->top);
    if (scratch->report && scratch->longest && scratch->top) return true;
    sampling_scratch_free(scratch);
    return error_memory(err, "sampling");
}

void sampling_scratch_free(struct sampling_scratch *scratch) {
    candidates_free(&scratch->candidates);
    free(scratch->report);
    free(scratch->longest);
    free(scratch->top);
    memset(scratch, 0, sizeof *scratch);
}

/* ---- life of a sampler ---- */

static bool has_dry(const struct sampling_params *p) { return p->dry_multiplier > 0 && p->dry_last_n != 0; }

static uint64_t window_of(bool is_on, int64_t last_n) {
    if (!is_on) return 0;
    return last_n < 0 ? HISTORY_ALL : (uint64_t)last_n;
}

static bool token_history_prepare(struct sampler *s) {
    const struct sampling_params *p = &s->params;
    struct token_history *h = &s->history;
    h->vocab_size = s->vocab_size;
    h->windows[WINDOW_REPETITION] = window_of(p->repetition_penalty != 1, p->repetition_last_n);
    h->windows[WINDOW_PRESENCE] = window_of(p->presence_penalty != 0, p->presence_last_n);
    h->windows[WINDOW_FREQUENCY] = window_of(p->frequency_penalty != 0, p->frequency_last_n);
    h->skips_prompt[WINDOW_PRESENCE] = h->skips_prompt[WINDOW_FREQUENCY] = !p->penalize_prompt;
    h->keep = window_of(has_dry(p), p->dry_last_n);
    uint64_t loop = loop_stop_window((uint64_t)p->loop_max_pattern, (uint64_t)p->loop_min_count);
    if (loop > h->keep) h->keep = loop;
    return token_history_init(h);
}

static bool copy_ids(struct sampler *s, const struct sampler_tokens *tokens) {
    size_t n = tokens->n_stop_ids + tokens->n_newline_ids;
    s->spared_ids = array_alloc(n, sizeof *s->spared_ids);
    if (!s->spared_ids) return false;
    for (size_t i = 0; i < tokens->n_stop_ids; i++) s->spared_ids[s->n_spared_ids++] = tokens->stop_ids[i];
    s->n_stop_ids = s->n_spared_ids;
    for (size_t i = 0; i < tokens->n_newline_ids; i++) s->spared_ids[s->n_spared_ids++] = tokens->newline_ids[i];
    return true;
}

static bool copy_biases(struct sampler *s, const struct sampler_tokens *tokens) {
    size_t n;
    if (!size_add(s->params.n_logit_bias, tokens->n_suppressed_ids, &n)) return false;
    s->biases = array_alloc(n, sizeof *s->biases);
    if (!s->biases) return false;
    for (size_t i = 0; i < s->params.n_logit_bias; i++) s->biases[s->n_biases++] = s->params.logit_bias[i];
    for (size_t i = 0; i < tokens->n_suppressed_ids; i++)
        if (tokens->suppressed_ids[i] < s->vocab_size)
            s->biases[s->n_biases++] = (struct logit_bias){tokens->suppressed_ids[i], -INFINITY};
    s->params.logit_bias = s->biases;
    return true;
}

static uint64_t fresh_seed(void) {
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) seed = rng_mix(clock_now_ns());
    return seed >> 11; /* so that it can be given back as a parameter, through JSON too */
}

bool sampler_init(struct sampler *s, const struct sampling_params *params, uint32_t vocab_size,
                  const struct sampler_tokens *tokens, struct mx_error *err) {
    memset(s, 0, sizeof *s);
    if (!sampling_check(params, err)) return false;
    for (size_t i = 0; i < params->n_logit_bias; i++)
        if (params->logit_bias[i].token >= vocab_size)
            return error_set(err, ERROR_USAGE, "logit_bias names token %u, the vocabulary has %u",
                             params->logit_bias[i].token, vocab_size);
    s->params = *params;
    s->vocab_size = vocab_size;
    s->n_tokens = tokens->n_tokens && tokens->n_tokens < vocab_size ? tokens->n_tokens : vocab_size;
    s->breakers = tokens->breakers;
    s->seed = params->seed < 0 ? fresh_seed() : (uint64_t)params->seed;
    s->mirostat_mu = 2 * params->mirostat_tau;
    if (s->params.adaptive_decay > 0.99) s->params.adaptive_decay = 0.99;
    s->adaptive_weight = 1 / (1 - s->params.adaptive_decay);
    s->adaptive_sum = params->adaptive_target * s->adaptive_weight;
    s->pending.token = SAMPLE_NONE;
    if (copy_ids(s, tokens) && copy_biases(s, tokens) && token_history_prepare(s)) return true;
    sampler_free(s);
    return error_memory(err, "sampling");
}

void sampler_free(struct sampler *s) {
    free(s->spared_ids);
    free(s->biases);
    free(s->repeats);
    token_history_free(&s->history);
    memset(s, 0, sizeof *s);
}

bool sampler_fork(struct sampler *copy, const struct sampler *s, uint32_t choice, struct mx_error *err) {
    *copy = *s;
    memset(&copy->history, 0, sizeof copy->history);
    copy->repeats = array_alloc(s->repeats_capacity, sizeof *s->repeats);
    copy->spared_ids = array_alloc(s->n_spared_ids, sizeof *s->spared_ids);
    copy->biases = array_alloc(s->n_biases, sizeof *s->biases);
    if (!copy->repeats || !copy->spared_ids || !copy->biases || !token_history_copy(&copy->history, &s->history)) {
        sampler_free(copy);
        return error_memory(err, "sampling");
    }
    if (s->n_spared_ids) memcpy(copy->spared_ids, s->spared_ids, s->n_spared_ids * sizeof *s->spared_ids);
    if (s->n_biases) memcpy(copy->biases, s->biases, s->n_biases * sizeof *s->biases);
    copy->params.logit_bias = copy->biases;
    if (choice) copy->seed = rng_mix(s->seed + choice * RNG_GOLDEN);
    return true;
}

/* ---- history ---- */

/* The tokens that DRY looks at. */
static size_t dry_length(const struct sampler *s) {
    if (!has_dry(&s->params)) return 0;
    uint64_t window = window_of(true, s->params.dry_last_n);
    return window < s->history.n ? (size_t)window : s->history.n;
}

static bool reserve(struct sampler *s, size_t n) {
    if (!token_history_reserve(&s->history, n)) return false;
    return !has_dry(&s->params) ||
           array_reserve(&s->repeats, &s->repeats_capacity, s->history.capacity, sizeof *s->repeats);
}

bool sampler_reserve(struct sampler *s, size_t n, struct mx_error *err) {
    return reserve(s, n) || error_memory(err, "the tokens of a sequence");
}

static bool push(struct sampler *s, uint32_t token, bool is_prompt) {
    if (token < s->vocab_size) return token_history_push(&s->history, token, is_prompt);
    s->history.position++;
    return true;
}

bool sampler_accept_prompt(struct sampler *s, const uint32_t *tokens, size_t n, struct mx_error *err) {
    bool ok = reserve(s, n);
    for (size_t i = 0; ok && i < n; i++) ok = push(s, tokens[i], s->n_generated == 0);
    return ok || error_memory(err, "the tokens of a sequence");
}

bool sampler_accept(struct sampler *s, uint32_t token) {
    if (!push(s, token, false) || !reserve(s, 0)) return false;
    s->n_generated++;
    if (s->pending.token == token) {
        const struct sampling_params *p = &s->params;
        if (p->mirostat) s->mirostat_mu -= p->mirostat_eta * (s->pending.surprise - p->mirostat_tau);
        if (p->adaptive_target >= 0) {
            s->adaptive_sum = s->pending.probability + p->adaptive_decay * s->adaptive_sum;
            s->adaptive_weight = 1 + p->adaptive_decay * s->adaptive_weight;
        }
    }
    s->pending.token = SAMPLE_NONE;
    return true;
}

bool sampler_is_looping(const struct sampler *s) {
    const struct sampling_params *p = &s->params;
    size_t n = s->n_generated < s->history.n ? (size_t)s->n_generated : s->history.n;
    if (!n) return false;
    return loop_stop(s->history.tokens + (s->history.n - n), n, (uint64_t)p->loop_min_pattern,
                     (uint64_t)p->loop_max_pattern, (uint64_t)p->loop_min_count);
}

/* ---- the chain ---- */

static double random_number(const struct sampler *s, uint32_t use) {
    return rng_uniform_f64(rng_at(s->seed, s->history.position, use));
}

static bool bans_stop_ids(const struct sampler *s) {
    return s->params.ignore_eos || s->n_generated < (uint64_t)s->params.min_tokens;
}

/* Steps 1 and 2: bans, bias, penalties. False when no token is left. */
static bool begin_row(struct sampler *s, struct sampling_scratch *scratch, const float *logits,
                      const uint32_t *allowed_bits, bool ban_stop_ids) {
    const struct sampling_params *p = &s->params;
    struct candidates *c = &scratch->candidates;
    candidates_load(c, logits);
    if (allowed_bits) ban_by_mask(c->x, s->n_tokens, allowed_bits);
    for (uint32_t i = s->n_tokens; i < s->vocab_size; i++) c->x[i] = -INFINITY;
    if (ban_stop_ids) ban_tokens(c->x, s->vocab_size, s->spared_ids, s->n_stop_ids);
    add_biases(c->x, s->biases, s->n_biases);
    if (s->history.n_counts && p->repetition_penalty != 1)
        penalize_repetition(c->x, &s->history, p->repetition_penalty);
    size_t n = dry_length(s);
    if (n) {
        struct dry_settings dry = {p->dry_multiplier, p->dry_base, p->dry_allowed_length, s->breakers};
        dry_apply(&dry, s->history.tokens + (s->history.n - n), n, s->repeats, scratch->longest, c->x);
    }
    if (s->history.n_counts && (p->frequency_penalty != 0 || p->presence_penalty != 0))
        penalize_counts(c->x, &s->history, p->frequency_penalty, p->presence_penalty);
    return candidates_measure(c);
}

/* The largest logit wins and no filter can change that. */
static bool is_greedy(const struct sampling_params *p) {
    if (p->mirostat) return p->temperature == 0;
    if (p->top_k == 1) return true;
    bool has_typical = p->typical_p > 0 && p->typical_p < 1;
    return p->temperature == 0 && !(p->dynatemp_range > 0) && !(p->xtc_probability > 0) && !has_typical;
}

/* Steps 3 to 8: the filters. removed as in filter_xtc. */
static void filter(struct sampler *s, struct candidates *c, float *removed) {
    const struct sampling_params *p = &s->params;
    filter_top_n_sigma(c, p->top_n_sigma);
    filter_top_k(c, p->top_k);
    filter_typical(c, p->typical_p, p->min_keep);
    filter_top_p(c, p->top_p, p->min_p, p->min_keep);
    filter_min_p(c, p->min_p, p->min_keep);
    if (p->xtc_probability > 0 && random_number(s, DRAW_XTC) < p->xtc_probability)
        filter_xtc(c, p->xtc_threshold, p->min_keep, s->spared_ids, s->n_spared_ids, removed);
}

/* Only top-p and min-p act before the temperature. */
static bool has_nucleus_alone(const struct sampling_params *p) {
    bool others = p->top_n_sigma > 0 || p->top_k > 0 || (p->typical_p > 0 && p->typical_p < 1) || p->min_keep > 1 ||
                  p->xtc_probability > 0 || p->dynatemp_range > 0 || p->adaptive_target >= 0;
    return p->top_p > 0 && p->top_p < 1 && !others;
}

/* The set that a token was drawn from, where someone asks for it. */
static uint32_t settle(struct sampler *s, struct candidates *c, uint32_t token, double *scale) {
    const struct sampling_params *p = &s->params;
    if (!p->want_logprobs || p->logprobs_kind != LOGPROBS_FINAL) return token;
    filter(s, c, NULL);
    *scale = 1 / p->temperature;
    candidates_weigh(c, *scale);
    return candidates_find(c, token);
}

/* Filters, temperature, draw: the place of the token. *scale receives the factor on logits that gives the distribution
 * drawn from (0: the place alone). */
static uint32_t choose(struct sampler *s, struct candidates *c, float *removed, double *scale) {
    const struct sampling_params *p = &s->params;
    double u = random_number(s, DRAW_TOKEN);
    *scale = 0;
    s->pending.surprise = 0;
    s->pending.probability = 1;
    if (is_greedy(p)) return candidates_best(c);
    *scale = 1;
    if (p->mirostat) return draw_mirostat(c, p, s->mirostat_mu, u, &s->pending.surprise);
    uint32_t place;
    if (has_nucleus_alone(p) && draw_from_nucleus(c, p->top_p, p->min_p, p->temperature, random_number(s, DRAW_NUCLEUS),
                                                  &place) == NUCLEUS_TAKEN)
        return settle(s, c, place, scale);
    filter(s, c, removed);
    double temperature = draw_temperature(c, p);
    if (temperature <= 0) *scale = 0;
    if (p->adaptive_target >= 0) {
        double target = 2 * p->adaptive_target - s->adaptive_sum / s->adaptive_weight;
        target = target < 0 ? 0 : target > 1 ? 1 : target;
        return draw_adaptive(c, temperature, target, u, &s->pending.probability);
    }
    if (temperature > 0) *scale = 1 / temperature;
    return draw_tempered(c, temperature, u);
}

static bool has_number(const float *logits, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (logits[i] > -INFINITY) return true;
    return false;
}

/* Keeps the row that log-probabilities are to be taken from. */
static void keep_report(const struct sampling_params *p, struct sampling_scratch *scratch, const float *logits) {
    const struct candidates *c = &scratch->candidates;
    if (!p->want_logprobs) return;
    if (p->logprobs_kind == LOGPROBS_RAW) c->kernels->row_load(logits, c->vocab_size, scratch->report);
    if (p->logprobs_kind == LOGPROBS_CHAIN) memcpy(scratch->report, c->x, c->vocab_size * sizeof *c->x);
}

/* Fills in the log-probabilities of the token at `place`. */
static void report(const struct sampling_params *p, struct sampling_scratch *scratch, uint32_t place, double scale,
                   struct sample_result *result) {
    struct logprobs_request request = {.token = result->token, .n_top = p->n_top_logprobs, .top = scratch->top};
    if (p->logprobs_kind == LOGPROBS_FINAL)
        logprobs_of_set(&scratch->candidates, place, scale, &request);
    else
        logprobs_of_row(&scratch->candidates, scratch->report, &request);
    result->logprob = request.logprob;
    result->top = scratch->top;
    result->n_top = request.n_reported;
}

uint32_t sampler_sample(struct sampler *s, struct sampling_scratch *scratch, const float *logits,
                        const uint32_t *allowed_bits, struct sample_result *result) {
    struct candidates *c = &scratch->candidates;
    const struct sampling_params *p = &s->params;
    *result = (struct sample_result){.token = SAMPLE_NONE};
    s->pending.token = SAMPLE_NONE;
    bool ban = bans_stop_ids(s), ok = begin_row(s, scratch, logits, allowed_bits, ban);
    if (!ok && ban && allowed_bits) ok = begin_row(s, scratch, logits, allowed_bits, false);
    if (!ok) {
        result->status = has_number(logits, s->vocab_size) ? SAMPLE_ALL_BANNED : SAMPLE_NO_NUMBERS;
        return SAMPLE_NONE;
    }
    keep_report(p, scratch, logits);
    bool xtc_counts = p->want_logprobs && p->logprobs_kind == LOGPROBS_CHAIN;
    double scale;
    uint32_t place = choose(s, c, xtc_counts ? scratch->report : NULL, &scale);
    result->token = s->pending.token = candidates_token(c, place);
    if (p->want_logprobs) report(p, scratch, place, scale, result);
    return result->token;
}
