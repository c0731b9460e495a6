/* SPDX-License-Identifier: Apache-2.0 */
/* What the families of latent attention share. */
#ifndef MLXCEL_MODELS_LATENT_H
#define MLXCEL_MODELS_LATENT_H

#include "models/stack.h"

/* Sizes, rope and scale by the config; theta is that of a config without rope_theta. */
struct mla_spec mla_from_config(struct builder *b, const struct decoder *d, double theta, uint32_t default_value_dim);

/* A stack whose mixer is latent attention; latent_build builds it. */
void latent_build(struct builder *b, struct stack *s, const struct mla_spec *mla);

#endif
