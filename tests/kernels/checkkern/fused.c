/* SPDX-License-Identifier: Apache-2.0 */
/* ref's fused multiply-add for processors that have none, against the C library's fmaf (which is the processor's where
 * it has one, and integer arithmetic elsewhere). On processors whose base instruction set has it, ref uses that. */
#include "tests/kernels/checkkern/check.h"

#include "base/rng.h"
#include "kernels/ref/math.h"

#include <math.h>
#include <stdio.h>

/* Triples of any bits hardly ever round at the border; these do: products that nearly cancel the addend, addends far
 * below the product's last bit, results in the denormal range, results at the overflow. */
static void choose_operands(uint64_t *random, unsigned long i, float operands[3]) {
    uint64_t a = rng_next(random), b = rng_next(random);
    operands[0] = f32_from_bits((uint32_t)a);
    operands[1] = f32_from_bits((uint32_t)(a >> 32));
    operands[2] = f32_from_bits((uint32_t)b);
    int shift = (int)(b >> 58), exponent = (int)(b >> 40 & 31);
    switch (i % 5) {
    case 0: return;
    case 1: operands[2] = (float)(-(double)operands[0] * (double)operands[1]); return;
    case 2:
        operands[0] = ldexpf(1.0f + (float)(a & 0xfff) * 0x1p-12f, exponent);
        operands[1] = 1.0f + (float)(a >> 40 & 0xfff) * 0x1p-12f;
        operands[2] = ldexpf((b & 1) ? -1.0f : 1.0f, exponent - shift);
        return;
    case 3:
        operands[0] = ldexpf(1.0f + (float)(a & 0xffffff) * 0x1p-24f, -70 - exponent);
        operands[1] = ldexpf(1.0f + (float)(a >> 40) * 0x1p-24f, -60);
        operands[2] = ldexpf((b & 1) ? -1.0f : 1.0f, -120 - shift / 2);
        return;
    default:
        operands[0] = ldexpf(1.0f + (float)(a & 0xffffff) * 0x1p-24f, 63);
        operands[1] = ldexpf(1.0f + (float)(a >> 40) * 0x1p-24f, 64);
        operands[2] = ldexpf((b & 1) ? -1.0f : 1.0f, 127 - shift);
    }
}

unsigned long fused_differences(uint64_t seed, unsigned long n, char *note, size_t room) {
    unsigned long n_different = 0;
    for (unsigned long i = 0; i < n; i++) {
        float x[3];
        choose_operands(&seed, i, x);
        float ours = fused(x[0], x[1], x[2]), theirs = fmaf(x[0], x[1], x[2]);
        if (f32_to_bits(ours) == f32_to_bits(theirs) || (isnan(ours) && isnan(theirs))) continue;
        if (!n_different++)
            snprintf(note, room, "fused(%a, %a, %a) is %a, fmaf says %a", x[0], x[1], x[2], ours, theirs);
    }
    return n_different;
}
