/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers: SplitMix64 against published outputs; the counter-based form is a pure function whose words are as
 * evenly spread as chance allows. */
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <cmocka.h>

static void the_stream_is_splitmix64(void **state) {
    (void)state;
    /* The sequence for seed 1234567 that rosettacode.org gives for the algorithm of Steele, Lea and Flood. */
    static const uint64_t expected[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                        4593380528125082431u, 16408922859458223821u};
    uint64_t stream = 1234567;
    for (int i = 0; i < 5; i++) assert_true(rng_next(&stream) == expected[i]);
    stream = 0;
    assert_true(rng_next(&stream) == 0xe220a8397b1dcdafu); /* the first output of seed 0 in xoshiro's seeding tests */
}

static void words_depend_on_all_three_numbers(void **state) {
    (void)state;
    uint64_t word = rng_at(1, 2, 3);
    assert_true(word == rng_at(1, 2, 3));
    assert_true(word != rng_at(2, 2, 3) && word != rng_at(1, 3, 3) && word != rng_at(1, 2, 4));
    assert_true(word != rng_at(2, 1, 3) && word != rng_at(1, 3, 2));
}

/* Chi-square of 256 buckets over 65,536 words: expected 255, standard deviation 22.6; beyond 6 of those it is no
 * chance. Checked along each of the three arguments, for every byte of the words. */
static void words_are_evenly_spread(void **state) {
    (void)state;
    for (int argument = 0; argument < 3; argument++) {
        unsigned counts[8][256] = {{0}};
        for (uint32_t i = 0; i < 65536; i++) {
            uint64_t word = rng_at(argument == 0 ? i : 7, argument == 1 ? i : 7, argument == 2 ? i : 7);
            for (int byte = 0; byte < 8; byte++) counts[byte][word >> 8 * byte & 255]++;
        }
        for (int byte = 0; byte < 8; byte++) {
            double chi = 0;
            for (int b = 0; b < 256; b++) chi += (counts[byte][b] - 256.0) * (counts[byte][b] - 256.0) / 256;
            assert_true(chi > 255 - 136 && chi < 255 + 136);
        }
    }
}

static void uniform_numbers_stay_below_one(void **state) {
    (void)state;
    assert_true(rng_uniform(0) == 0 && rng_uniform_f64(0) == 0);
    assert_true(rng_uniform(UINT64_MAX) == 1 - 0x1p-24f);
    assert_true(rng_uniform_f64(UINT64_MAX) == 1 - 0x1p-53);
    assert_true(rng_uniform((uint64_t)1 << 63) == 0.5f && rng_uniform_f64((uint64_t)1 << 62) == 0.25);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_stream_is_splitmix64),
        cmocka_unit_test(words_depend_on_all_three_numbers),
        cmocka_unit_test(words_are_evenly_spread),
        cmocka_unit_test(uniform_numbers_stay_below_one),
    };
    return cmocka_run_group_tests_name("rng", tests, NULL, NULL);
}
