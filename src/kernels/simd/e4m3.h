/* SPDX-License-Identifier: Apache-2.0 */
/* e4m3 codes: 16 of them widened. */
#ifndef MLXCEL_KERNELS_SIMD_E4M3_H
#define MLXCEL_KERNELS_SIMD_E4M3_H

/* Bytes in 16-bit elements, their upper half ignored. f16 holds e4m3 as value * 2^-8, denormals included; the code of
 * NaN becomes one. */
SIMD_INLINE lanes lanes_from_e4m3(halves codes) {
    halves magnitude = halves_and(halves_shl(codes, 7), halves_set1(0x3f80));
    halves sign = halves_and(halves_shl(codes, 8), halves_set1(0x8000));
    halves nan = halves_equal(magnitude, halves_set1(0x3f80));
    return lanes_mul(lanes_from_f16(halves_or(halves_or(magnitude, sign), nan)), lanes_set1(256.0f));
}

#endif
