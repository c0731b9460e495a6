/* SPDX-License-Identifier: Apache-2.0 */
/* One sequence's sampler: from a row of logits to the next token.
 *
 * The chain, in this order (docs/sampling.md): bans and bias, penalties, top-n-sigma, top-k, typical, top-p, min-p,
 * XTC, temperature, draw. A sampler is the sequence's state (counts, mirostat's bound, seed); the memory for a row is a
 * struct sampling_scratch that any number of samplers share, one at a time.
 *
 * sampler_sample changes nothing but the scratch and the remark what it drew: called again it draws the same.
 * sampler_accept moves on. A random number is a function of (seed, position, use), so the text of a sequence depends on
 * nothing outside it. After sampler_reserve neither function allocates. */
#ifndef MLXCEL_ENGINE_SAMPLER_H
#define MLXCEL_ENGINE_SAMPLER_H

#include "engine/candidates.h"
#include "engine/token_history.h"
#include "engine/sampler_dry.h"
#include "engine/sampling.h"

struct sampling_scratch {
    struct candidates candidates;
    float *report;           /* [vocab_size] the row that log-probabilities are taken from */
    uint32_t *longest;       /* [vocab_size] for DRY: zero between calls */
    struct top_logprob *top; /* [vocab_size] */
};

bool sampling_scratch_init(struct sampling_scratch *scratch, uint32_t vocab_size, struct mx_error *err);
void sampling_scratch_free(struct sampling_scratch *scratch);

/* What sampling must know about the vocabulary. Everything is borrowed for the call of sampler_init and copied, but for
 * breakers, which must outlive the sampler. */
struct sampler_tokens {
    const uint32_t *stop_ids; /* end the text: banned before min_tokens and with ignore_eos, spared by XTC */
    size_t n_stop_ids;
    const uint32_t *newline_ids; /* spared by XTC */
    size_t n_newline_ids;
    const uint32_t *suppressed_ids; /* never drawn (places of images, ...) */
    size_t n_suppressed_ids;
    const struct dry_breakers *breakers; /* or NULL */
    uint32_t n_tokens; /* ids from here on are padding of the logits, never drawn, and have no bit in masks; 0 = none */
};

struct sampler {
    struct sampling_params params; /* logit_bias is the sampler's own copy */
    uint32_t vocab_size, n_tokens;
    uint32_t *spared_ids; /* stop ids, then newline ids */
    size_t n_stop_ids, n_spared_ids;
    struct logit_bias *biases; /* logit_bias, and suppressed ids as bans */
    size_t n_biases;
    const struct dry_breakers *breakers;
    struct token_history history;
    uint32_t *repeats; /* scratch of DRY, one for each token that the history can hold */
    size_t repeats_capacity;
    uint64_t seed; /* as used: params.seed, or drawn where that is -1 */
    uint64_t n_generated;
    double mirostat_mu;
    double adaptive_sum, adaptive_weight; /* of the probabilities of past tokens */
    struct {
        uint32_t token; /* what sampler_sample drew last; SAMPLE_NONE = nothing */
        double surprise, probability;
    } pending;
};

enum sample_status {
    SAMPLE_OK,
    SAMPLE_NO_NUMBERS, /* every logit is NaN or -infinity */
    SAMPLE_ALL_BANNED, /* mask, bans and bias leave no token that has a number */
};

#define SAMPLE_NONE UINT32_MAX

struct top_logprob {
    uint32_t token;
    float logprob;
};

struct sample_result {
    uint32_t token; /* SAMPLE_NONE unless status is SAMPLE_OK */
    enum sample_status status;
    float logprob;                 /* of the token; 0 when not wanted */
    const struct top_logprob *top; /* [n_top] most probable first; valid until the scratch is used again */
    uint32_t n_top;
};

/* vocab_size is the length of the rows of logits. Checks params and that every token is below vocab_size. */
bool sampler_init(struct sampler *sampler, const struct sampling_params *params, uint32_t vocab_size,
                  const struct sampler_tokens *tokens, struct mx_error *err);
void sampler_free(struct sampler *sampler);

/* *copy goes on from the same point as choice number `choice` of the same request: 0 draws the same numbers as the
 * original, others draw their own. */
bool sampler_fork(struct sampler *copy, const struct sampler *sampler, uint32_t choice, struct mx_error *err);

/* Memory for n more tokens, so that accepting them cannot fail. */
bool sampler_reserve(struct sampler *sampler, size_t n, struct mx_error *err);
/* The prompt, whole, before the first sampler_accept. */
bool sampler_accept_prompt(struct sampler *sampler, const uint32_t *tokens, size_t n, struct mx_error *err);
/* A token of the answer: drawn by sampler_sample or forced. False only when memory is out. Here and in prompts, ids
 * that the logits do not have are counted as positions and otherwise passed over. */
bool sampler_accept(struct sampler *sampler, uint32_t token);

/* Draws the next token from logits[0 .. vocab_size), which are not changed. allowed_bits may be NULL; else bit
 * (token mod 32) of word token / 32 says whether the token may come. A mask wins over ignore_eos and min_tokens where
 * they leave nothing together. Returns result->token. */
uint32_t sampler_sample(struct sampler *sampler, struct sampling_scratch *scratch, const float *logits,
                        const uint32_t *allowed_bits, struct sample_result *result);

/* Whether the answer so far ends in a block of tokens repeated loop_min_count times (see loop_stop.h). */
bool sampler_is_looping(const struct sampler *sampler);

#endif
