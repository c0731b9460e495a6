/* SPDX-License-Identifier: Apache-2.0 */
/* Weights that are computed from their names, by the rule of the golden set: word i of a tensor is SplitMix64 started at
 * FNV-1a(name) xor (seed * 0x9e3779b97f4a7c15). */
#ifndef MLXCEL_TESTS_WEIGHTS_H
#define MLXCEL_TESTS_WEIGHTS_H

#include "base/error.h"

/* Writes out_folder/model.safetensors from case_folder/tensors.json, and copies config_name of the case there as
 * config.json. */
bool weights_generate(const char *case_folder, const char *config_name, const char *out_folder, struct mx_error *err);

#endif
