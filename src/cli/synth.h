/* SPDX-License-Identifier: Apache-2.0 */
/* Synthetic checkpoints: random weights of a real model's shape, for benchmarks and tests of size. */
#ifndef MLXCEL_CLI_SYNTH_H
#define MLXCEL_CLI_SYNTH_H

#include "base/error.h"

#include <stdint.h>

/* Writes folder/config.json and folder/model.safetensors for a config in a format ("4bit-g64", ..., see
 * quantization_from_name). Codes are random; scales are uniform within 10 % of what keeps activations at their size
 * (1 / (sqrt(columns) * 2^(bits-2)) and bias -2^(bits-1) * scale for affine formats). The same seed gives the same file.
 * The folder is created; it may not be the config's own. On failure, and when interrupted, no part of it stays. */
bool synth_write(const char *config_path, const char *format, uint64_t seed, const char *folder, struct mx_error *err);

#endif
