/* SPDX-License-Identifier: Apache-2.0 */
/* Log-probabilities of the drawn token and of the most probable ones. */
#ifndef MLXCEL_ENGINE_LOGPROBS_H
#define MLXCEL_ENGINE_LOGPROBS_H

#include "engine/sampler.h"

struct logprobs_request {
    uint32_t token;
    int64_t n_top;           /* wanted alternatives; negative = all */
    struct top_logprob *top; /* room for the whole vocabulary */
    /* results: */
    float logprob;
    uint32_t n_reported; /* fewer than n_top when fewer tokens are possible */
};

/* Log-softmax of a row of vocab_size logits without NaN and +inf. The candidates are used as scratch. */
void logprobs_of_row(struct candidates *c, float *row, struct logprobs_request *request);

/* Of the set as it was drawn from: weights are those of the draw, and w = exp((x - max) * scale); scale 0 means that
 * `place` had probability 1. The set is lost. */
void logprobs_of_set(struct candidates *c, uint32_t place, double scale, struct logprobs_request *request);

#endif
