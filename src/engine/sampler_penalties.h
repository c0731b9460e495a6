/* SPDX-License-Identifier: Apache-2.0 */
/* What changes the row of logits before any filter: bans, bias, and the penalties that count tokens. A ban is -inf and
 * stays; no penalty bans. */
#ifndef MLXCEL_ENGINE_SAMPLER_PENALTIES_H
#define MLXCEL_ENGINE_SAMPLER_PENALTIES_H

#include "engine/token_history.h"
#include "engine/sampling.h"

/* Bans the tokens below n whose bit (token mod 32 of word token / 32) is 0. */
void ban_by_mask(float *x, uint32_t n, const uint32_t *allowed_bits);
void ban_tokens(float *x, uint32_t n, const uint32_t *tokens, size_t n_tokens);
void add_biases(float *x, const struct logit_bias *biases, size_t n);

/* Repetition (Keskar et al. 2019, as everyone corrected it): positive logits are divided, others multiplied. */
void penalize_repetition(float *x, const struct token_history *history, double penalty);
/* frequency times the count, and presence once. */
void penalize_counts(float *x, const struct token_history *history, double frequency, double presence);

#endif
