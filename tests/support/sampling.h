/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of sampling share. Failures that no test expects abort. */
#ifndef MLXCEL_TESTS_SAMPLING_H
#define MLXCEL_TESTS_SAMPLING_H

#include "engine/sampler.h"

/* One number of a standard normal distribution. */
double normal(uint64_t *state);

/* The logits of a model that looks at its last token only: a function of (seed, token), normal with deviation 1.5. */
void model_row(float *row, uint32_t n, uint64_t seed, uint32_t token);

/* Defaults with temperature 1 and seed 42. */
struct sampling_params drawing(void);

/* tokens may be NULL. */
struct sampler make_sampler(const struct sampling_params *params, uint32_t vocab, const struct sampler_tokens *tokens);
struct sampling_scratch make_scratch(uint32_t vocab);

#endif
