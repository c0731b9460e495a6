/* SPDX-License-Identifier: Apache-2.0 */
/* 16- and 8-bit formats: every code against the formula of its format (sign, 2^(e - bias), 1 + f / 2^bits) in double
 * arithmetic, rounding against the definition (nearest, ties to even) at every midpoint between two neighbours. */
#include "base/half.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <cmocka.h>

/* The value of a finite code with the given field widths, by the definition of such formats. */
static double by_formula(unsigned code, int exponent_bits, int fraction_bits, int bias) {
    unsigned fraction = code & ((1u << fraction_bits) - 1),
             exponent = code >> fraction_bits & ((1u << exponent_bits) - 1);
    double sign = code >> (exponent_bits + fraction_bits) & 1 ? -1 : 1, part = (double)fraction / (1 << fraction_bits);
    return sign * (exponent ? ldexp(1 + part, (int)exponent - bias) : ldexp(part, 1 - bias));
}

static void assert_same_bits(float a, double b) {
    float wanted = (float)b;
    assert_int_equal(f32_to_bits(a), f32_to_bits(wanted));
}

static void every_f16_code_widens_exactly(void **state) {
    (void)state;
    for (unsigned code = 0; code < 0x10000; code++) {
        float value = f16_to_f32((uint16_t)code);
        if ((code & 0x7c00) != 0x7c00)
            assert_same_bits(value, by_formula(code, 5, 10, 15));
        else if (code & 0x3ff)
            assert_true(isnan(value));
        else
            assert_true(isinf(value) && (value < 0) == (code >> 15 != 0));
    }
}

static void every_bf16_code_widens_exactly(void **state) {
    (void)state;
    for (unsigned code = 0; code < 0x10000; code++) {
        float value = bf16_to_f32((uint16_t)code);
        if ((code & 0x7f80) != 0x7f80)
            assert_same_bits(value, by_formula(code, 8, 7, 127));
        else if (code & 0x7f)
            assert_true(isnan(value));
        else
            assert_true(isinf(value) && (value < 0) == (code >> 15 != 0));
    }
}

static void every_code_survives_the_round_trip(void **state) {
    (void)state;
    for (unsigned code = 0; code < 0x10000; code++) {
        uint16_t f16 = f32_to_f16(f16_to_f32((uint16_t)code)), bf16 = f32_to_bf16(bf16_to_f32((uint16_t)code));
        bool is_f16_nan = (code & 0x7fff) > 0x7c00, is_bf16_nan = (code & 0x7fff) > 0x7f80;
        if (is_f16_nan)
            assert_true((f16 & 0x7fff) > 0x7c00 && f16 >> 15 == code >> 15);
        else
            assert_int_equal(f16, code);
        if (is_bf16_nan)
            assert_true((bf16 & 0x7fff) > 0x7f80 && bf16 >> 15 == code >> 15);
        else
            assert_int_equal(bf16, code);
    }
}

/* Between the positive neighbours with codes c and c + 1: just below the middle goes down, just above goes up, the
 * middle goes to the even one. The middle is exact in f32. */
static void check_neighbours(uint16_t c, float low, float high, uint16_t (*round_to)(float)) {
    float middle = (float)(((double)low + (double)high) / 2);
    uint16_t even = c & 1 ? (uint16_t)(c + 1) : c;
    assert_int_equal(round_to(middle), even);
    assert_int_equal(round_to(-middle), even | 0x8000);
    assert_int_equal(round_to(nextafterf(middle, 0)), c);
    assert_int_equal(round_to(nextafterf(middle, INFINITY)), c + 1);
}

static void rounding_is_to_nearest_ties_to_even(void **state) {
    (void)state;
    for (uint16_t c = 0; c < 0x7bff; c++) check_neighbours(c, f16_to_f32(c), f16_to_f32((uint16_t)(c + 1)), f32_to_f16);
    for (uint16_t c = 0; c < 0x7f7f; c++)
        check_neighbours(c, bf16_to_f32(c), bf16_to_f32((uint16_t)(c + 1)), f32_to_bf16);
}

static void too_large_becomes_infinity(void **state) {
    (void)state;
    assert_int_equal(f32_to_f16(65504), 0x7bff);
    assert_int_equal(f32_to_f16(nextafterf(65520, 0)), 0x7bff);
    assert_int_equal(f32_to_f16(65520), 0x7c00); /* halfway to 2^16, whose code would be even */
    assert_int_equal(f32_to_f16(-1e30f), 0xfc00);
    assert_int_equal(f32_to_f16(INFINITY), 0x7c00);
    assert_int_equal(f32_to_bf16(f32_from_bits(0x7f7f8000)), 0x7f80); /* halfway above the largest bf16 */
    assert_int_equal(f32_to_bf16(f32_from_bits(0x7f7f7fff)), 0x7f7f);
    assert_int_equal(f32_to_f16(0x1p-25f), 0); /* half the smallest: a tie with zero, which is even */
    assert_int_equal(f32_to_f16(nextafterf(0x1p-25f, 1)), 1);
    assert_int_equal(f32_to_f16(-0.0f), 0x8000);
    assert_int_equal(f32_to_f16(f32_from_bits(1)), 0);
}

static void every_signalling_nan_stays_nan(void **state) {
    (void)state;
    for (int bit = 0; bit < 23; bit++) {
        float nan = f32_from_bits(0x7f800000u | 1u << bit);
        assert_true((f32_to_f16(nan) & 0x7fff) > 0x7c00);
        assert_true((f32_to_bf16(nan) & 0x7fff) > 0x7f80);
    }
}

static void small_formats_follow_their_formulas(void **state) {
    (void)state;
    for (unsigned code = 0; code < 256; code++) {
        if ((code & 0x7f) == 0x7f)
            assert_true(isnan(e4m3_to_f32((uint8_t)code)));
        else
            assert_same_bits(e4m3_to_f32((uint8_t)code), by_formula(code, 4, 3, 7));
        if (code < 255) assert_same_bits(e8m0_to_f32((uint8_t)code), ldexp(1, (int)code - 127));
    }
    assert_true(e4m3_to_f32(0x7e) == 448); /* the largest, from the OCP specification */
    for (unsigned code = 0; code < 16; code++) assert_true(e2m1_doubled(code) == (int)(2 * by_formula(code, 2, 1, 1)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_f16_code_widens_exactly),       cmocka_unit_test(every_bf16_code_widens_exactly),
        cmocka_unit_test(every_code_survives_the_round_trip),  cmocka_unit_test(rounding_is_to_nearest_ties_to_even),
        cmocka_unit_test(too_large_becomes_infinity),          cmocka_unit_test(every_signalling_nan_stays_nan),
        cmocka_unit_test(small_formats_follow_their_formulas),
    };
    return cmocka_run_group_tests_name("half", tests, NULL, NULL);
}
