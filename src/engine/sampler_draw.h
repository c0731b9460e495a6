/* SPDX-License-Identifier: Apache-2.0 */
/* From the filtered set to one token: temperature, mirostat, adaptive-p, and the draw. Each draw takes one uniform
 * number u in [0, 1); places are walked in the order of their tokens. */
#ifndef MLXCEL_ENGINE_SAMPLER_DRAW_H
#define MLXCEL_ENGINE_SAMPLER_DRAW_H

#include "engine/candidates.h"
#include "engine/sampling.h"

/* The temperature of this step: params->temperature, or with a dynamic range between temperature - range and
 * temperature + range by the entropy of the candidates. */
double draw_temperature(struct candidates *c, const struct sampling_params *params);

/* Place drawn with probability w / total. Weights must be there. */
uint32_t draw_place(const struct candidates *c, double u);

/* Temperature (0: the best place), then a draw. Leaves the weights that it drew from. */
uint32_t draw_tempered(struct candidates *c, double temperature, double u);

/* Mirostat 1 and 2 (Basu et al. 2021; version 1 as in llama.cpp estimates its exponent from the 100 best). mu is the
 * bound on surprise in bits. *surprise receives that of the token drawn, after which the caller sets
 * mu -= eta * (surprise - tau). */
uint32_t draw_mirostat(struct candidates *c, const struct sampling_params *params, double mu, double u,
                       double *surprise);

/* Adaptive-p (llama.cpp): favours tokens whose probability is near target. *probability receives that of the token
 * drawn before the transformation. */
uint32_t draw_adaptive(struct candidates *c, double temperature, double target, double u, double *probability);

#endif
