/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of weights that products with quantised activations are compiled for, and what the compiler should know of
 * each. A kind is a format and the number of scale groups in a block of 64 columns: 1 (groups of 64 and 128, or one scale
 * for the tensor), 2 (groups of 32) or 4 (groups of 16). The questions below are asked with constants, so they cost
 * nothing. */
#ifndef MLXCEL_KERNELS_SIMD_Q8_KINDS_H
#define MLXCEL_KERNELS_SIMD_Q8_KINDS_H

#include "kernels/kernels.h"

#define Q8_INLINE static inline __attribute__((always_inline))

/* KIND(name, format, groups) */
#define Q8_KINDS(KIND)                                                                                                 \
    KIND(affine2_1, WEIGHT_AFFINE2, 1)                                                                                 \
    KIND(affine2_2, WEIGHT_AFFINE2, 2)                                                                                 \
    KIND(affine3_1, WEIGHT_AFFINE3, 1)                                                                                 \
    KIND(affine3_2, WEIGHT_AFFINE3, 2)                                                                                 \
    KIND(affine4_1, WEIGHT_AFFINE4, 1)                                                                                 \
    KIND(affine4_2, WEIGHT_AFFINE4, 2)                                                                                 \
    KIND(affine5_1, WEIGHT_AFFINE5, 1)                                                                                 \
    KIND(affine5_2, WEIGHT_AFFINE5, 2)                                                                                 \
    KIND(affine6_1, WEIGHT_AFFINE6, 1)                                                                                 \
    KIND(affine6_2, WEIGHT_AFFINE6, 2)                                                                                 \
    KIND(affine8_1, WEIGHT_AFFINE8, 1)                                                                                 \
    KIND(affine8_2, WEIGHT_AFFINE8, 2)                                                                                 \
    KIND(mxfp4_2, WEIGHT_MXFP4, 2)                                                                                     \
    KIND(nvfp4_4, WEIGHT_NVFP4, 4)                                                                                     \
    KIND(ternary_1, WEIGHT_TERNARY, 1)

Q8_INLINE bool q8_is_fp4(enum weight_format format) { return format == WEIGHT_MXFP4 || format == WEIGHT_NVFP4; }
Q8_INLINE bool q8_is_affine(enum weight_format format) { return !q8_is_fp4(format) && format != WEIGHT_TERNARY; }

/* Bytes of 64 codes. */
Q8_INLINE uint32_t q8_block_bytes(enum weight_format format) {
    switch (format) {
    case WEIGHT_AFFINE2: return 16;
    case WEIGHT_AFFINE3: return 24;
    case WEIGHT_AFFINE5: return 40;
    case WEIGHT_AFFINE6: return 48;
    case WEIGHT_AFFINE8:
    case WEIGHT_TERNARY: return 64; /* ternary: this row's two bits of 64 bytes */
    default: return 32;
    }
}

/* Kernels see codes as unsigned numbers: the true integer plus this. */
Q8_INLINE int q8_code_offset(enum weight_format format) {
    return q8_is_fp4(format) ? 12 : format == WEIGHT_TERNARY ? 1 : 0;
}

/* The largest unsigned code. */
Q8_INLINE int q8_largest_code(enum weight_format format) {
    switch (format) {
    case WEIGHT_AFFINE2:
    case WEIGHT_TERNARY: return 3;
    case WEIGHT_AFFINE3: return 7;
    case WEIGHT_AFFINE4: return 15;
    case WEIGHT_AFFINE5: return 31;
    case WEIGHT_AFFINE6: return 63;
    case WEIGHT_AFFINE8: return 255;
    default: return 24;
    }
}

/* The order of a block's codes, as matmul_activation_form gives it. */
Q8_INLINE enum activation_form q8_order(enum weight_format format) {
    switch (format) {
    case WEIGHT_AFFINE2: return ACTIVATION_CRUMBS;
    case WEIGHT_AFFINE4:
    case WEIGHT_MXFP4:
    case WEIGHT_NVFP4: return ACTIVATION_NIBBLES;
    default: return ACTIVATION_BYTES;
    }
}

/* Codes are visited four at a time, group by group: where quad `index` of group `group` stands in the block. */
Q8_INLINE int q8_quad(enum weight_format format, int groups, int group, int index) {
    int per_part = 16 / groups; /* quads of one group, when a block is one part */
    switch (q8_order(format)) {
    case ACTIVATION_NIBBLES: per_part /= 2; return index / per_part * 8 + group * per_part + index % per_part;
    case ACTIVATION_CRUMBS: per_part /= 4; return index / per_part * 4 + group * per_part + index % per_part;
    default: return group * per_part + index;
    }
}

/* Bytes of the scales (or biases) of `blocks` blocks, for a row that starts at a group's first block. */
Q8_INLINE uint32_t q8_scale_bytes(const struct weight_rows *w, int groups, uint32_t blocks) {
    if (w->format == WEIGHT_TERNARY) return 0;
    uint32_t n = w->group == 128 ? (blocks + 1) / 2 : blocks * (uint32_t)groups;
    return n * (uint32_t)dtype_bytes(w->scale_dtype);
}

/* Of the `blocks` blocks that end a row of n_cols columns: how many have a column in group `group`. */
Q8_INLINE uint32_t q8_blocks_with_group(uint32_t n_cols, uint32_t blocks, int groups, int group) {
    uint32_t left = n_cols % 64;
    return left && (uint32_t)group * (64 / (uint32_t)groups) >= left ? blocks - 1 : blocks;
}

#endif
