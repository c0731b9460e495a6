/* SPDX-License-Identifier: Apache-2.0 */
/* Filters: each takes the set of candidates and keeps a part of it, never none. They look at the untempered
 * distribution of what earlier filters kept. The order is sampler.c's; docs/sampling.md says where each comes from. */
#ifndef MLXCEL_ENGINE_SAMPLER_FILTERS_H
#define MLXCEL_ENGINE_SAMPLER_FILTERS_H

#include "engine/candidates.h"
#include "engine/sampling.h"

/* Logits within n standard deviations of the largest (Tang et al. 2024); off unless n > 0. */
void filter_top_n_sigma(struct candidates *c, double n);
/* The k largest logits and those equal to the k-th; off unless k > 0. */
void filter_top_k(struct candidates *c, int64_t k);
/* Tokens whose surprise is closest to the entropy, until their sum passes p (Meister et al. 2022); off unless
 * 0 < p < 1. */
void filter_typical(struct candidates *c, double p, int64_t min_keep);
/* The most probable tokens, each kept while the sum before it is at most p (Holtzman et al. 2020); off unless
 * 0 < p < 1. Does nothing where min-p, which follows with the same min_keep, keeps no more. */
void filter_top_p(struct candidates *c, double p, double min_p, int64_t min_keep);
/* Probabilities of at least p times the largest (Nguyen et al. 2024); off unless p > 0. */
void filter_min_p(struct candidates *c, double p, int64_t min_keep);
/* Exclude top choices: of the tokens with a probability above the threshold all but the least probable go, except those
 * in spared[0 .. n_spared). The caller has drawn whether it acts. Where removed is not NULL, -inf is written to
 * removed[token] of each. Off above 0.5. */
void filter_xtc(struct candidates *c, double threshold, int64_t min_keep, const uint32_t *spared, size_t n_spared,
                float *removed);

/* Whether what min-p keeps (0 = off) lies within the nucleus of that mass; weights of scale 1 must be there. */
bool is_within_nucleus(const struct candidates *c, double target, double min_p);

/* Entropy of the candidates' distribution in nats; weighs them with scale 1. */
double candidates_entropy(struct candidates *c);

#endif
