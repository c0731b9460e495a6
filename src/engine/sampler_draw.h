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

enum nucleus_draw {
    NUCLEUS_NARROW, /* nothing was drawn: few tokens hold the nucleus */
    NUCLEUS_TAKEN,
    NUCLEUS_REJECTED, /* the draw fell outside the nucleus: filter, and draw again with another number */
};

/* Draws from the nucleus of top-p of a row where it is wide and within what min-p keeps, without finding where it ends:
 * from the whole row, then it is tested whether the place belongs to the nucleus. With a fresh draw after a rejection
 * the token has the distribution of filters, temperature and draw. The row stays as it is. */
enum nucleus_draw draw_from_nucleus(struct candidates *c, double top_p, double min_p, double temperature, double u,
                                    uint32_t *place);

/* Mirostat 1 and 2 (Basu et al. 2021; version 1 as in llama.cpp estimates its exponent from the 100 best). mu is the
 * bound on surprise in bits. *surprise receives that of the token drawn, after which the caller sets
 * mu -= eta * (surprise - tau). */
uint32_t draw_mirostat(struct candidates *c, const struct sampling_params *params, double mu, double u,
                       double *surprise);

/* Adaptive-p (llama.cpp): favours tokens whose probability is near target. *probability receives that of the token
 * drawn before the transformation. */
uint32_t draw_adaptive(struct candidates *c, double temperature, double target, double u, double *probability);

#endif
