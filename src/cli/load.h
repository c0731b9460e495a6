/* SPDX-License-Identifier: Apache-2.0 */
/* Options that several commands share: which model, precision, kernels, threads. */
#ifndef MLXCEL_CLI_LOAD_H
#define MLXCEL_CLI_LOAD_H

#include "cli/options.h"
#include "engine/engine.h"

/* The model folder: --model, else the bundled model. */
bool load_model_path(const struct options *options, char *path, size_t room, struct mx_error *err);

/* Precision, tier, threads and switched-off fusions from the command line; the rest of *model_options is kept. */
bool load_model_options(const struct options *options, struct model_options *model_options, struct mx_error *err);

/* How blocks are denoised, as far as the command line says. */
struct diffusion_options load_diffusion_options(const struct options *options);

/* The bundled model: models/ beside the build tree, then the installed share folder. False when there is none. */
bool model_bundled_path(char *path, size_t room);

/* Ids "1,2,3" (commas or white space between). The caller frees *ids. */
bool parse_ids(const char *text, const char *option, uint32_t **ids, size_t *n, struct mx_error *err);

#endif
