/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MLXCEL_KERNELS_SIMD_SCALES_H
#define MLXCEL_KERNELS_SIMD_SCALES_H

#include "base/half.h"
#include "kernels/kernels.h"

#include <string.h>

/* Scale or bias number `group` of a row of scales, widened. */
static inline float scale_at(const struct weight_rows *w, const unsigned char *scales, uint32_t group) {
    uint16_t half;
    float value;
    switch (w->scale_dtype) {
    case DTYPE_U8: return e8m0_to_f32(scales[group]);
    case DTYPE_F8_E4M3: return e4m3_to_f32(scales[group]);
    case DTYPE_F16: memcpy(&half, scales + 2 * (size_t)group, 2); return f16_to_f32(half);
    case DTYPE_BF16: memcpy(&half, scales + 2 * (size_t)group, 2); return bf16_to_f32(half);
    default: memcpy(&value, scales + 4 * (size_t)group, 4); return value;
    }
}

#endif
