/* SPDX-License-Identifier: Apache-2.0 */
/* AutoAWQ's GEMM layout (Lin et al. 2023), which no kernel reads as it lies: four-bit codes packed along the output rows.
 *
 *   qweight  I32 [in, out / 8]     column j of a group of eight at bit 4 * {0, 4, 1, 5, 2, 6, 3, 7}[j]
 *   qzeros   I32 [in / g, out / 8] the same
 *   scales   F16 [in / g, out]     value = (code - zero) * scale
 *
 * Repacked at load as affine codes of 4 bits in groups of g columns, bias = -zero * scale in the type of the scales. */
#ifndef MLXCEL_FORMAT_AWQ_H
#define MLXCEL_FORMAT_AWQ_H

#include "format/safetensors.h"

struct awq_tensors {
    struct tensor codes, scales, biases; /* they keep the names of qweight, scales, qzeros */
};

/* The data lies in the arena. Errors name the tensor whose shape or type is wrong. */
bool awq_repack(struct arena *arena, const struct tensor *qweight, const struct tensor *qzeros,
                const struct tensor *scales, struct awq_tensors *out, struct mx_error *err);

#endif
