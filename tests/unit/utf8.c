/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 against table 3-7 of the Unicode standard (well-formed byte sequences), written down here once more, against
 * iconv, and against the standard's examples of maximal subparts (tables 3-8 to 3-11). */
#include "base/utf8.h"

#include <iconv.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* One row of table 3-7: the ranges of the bytes. */
static const struct row {
    size_t length;
    unsigned char range[4][2];
} table[] = {
    {1, {{0x00, 0x7f}}},
    {2, {{0xc2, 0xdf}, {0x80, 0xbf}}},
    {3, {{0xe0, 0xe0}, {0xa0, 0xbf}, {0x80, 0xbf}}},
    {3, {{0xe1, 0xec}, {0x80, 0xbf}, {0x80, 0xbf}}},
    {3, {{0xed, 0xed}, {0x80, 0x9f}, {0x80, 0xbf}}},
    {3, {{0xee, 0xef}, {0x80, 0xbf}, {0x80, 0xbf}}},
    {4, {{0xf0, 0xf0}, {0x90, 0xbf}, {0x80, 0xbf}, {0x80, 0xbf}}},
    {4, {{0xf1, 0xf3}, {0x80, 0xbf}, {0x80, 0xbf}, {0x80, 0xbf}}},
    {4, {{0xf4, 0xf4}, {0x80, 0x8f}, {0x80, 0xbf}, {0x80, 0xbf}}},
};
enum { N_ROWS = sizeof table / sizeof *table };

/* How many bytes at the start of bytes[0 .. n) follow some row, and whether that is all of the row. */
static size_t by_table(const unsigned char *bytes, size_t n, bool *is_whole) {
    size_t best = 0;
    *is_whole = false;
    for (int r = 0; r < N_ROWS; r++) {
        size_t i = 0;
        while (i < n && i < table[r].length && bytes[i] >= table[r].range[i][0] && bytes[i] <= table[r].range[i][1])
            i++;
        if (i == table[r].length) *is_whole = true;
        if (i > best) best = i;
    }
    return best;
}

/* Values of a byte that matter: every range's ends and their neighbours. */
static size_t interesting(unsigned char *out) {
    bool is_in[256] = {[0] = true, [0xff] = true};
    for (int r = 0; r < N_ROWS; r++) {
        for (size_t i = 0; i < table[r].length; i++) {
            for (int d = -1; d <= 1; d++) {
                is_in[(table[r].range[i][0] + d) & 255] = true;
                is_in[(table[r].range[i][1] + d) & 255] = true;
            }
        }
    }
    size_t n = 0;
    for (int b = 0; b < 256; b++)
        if (is_in[b]) out[n++] = (unsigned char)b;
    return n;
}

static void check_sequence(const unsigned char *bytes, size_t n) {
    const char *text = (const char *)bytes;
    uint32_t code_point;
    bool is_whole, is_valid;
    size_t expected = by_table(bytes, n, &is_whole), decoded = utf8_decode(text, n, &code_point);
    assert_int_equal(decoded, is_whole ? expected : 0);
    size_t maximal = utf8_next_maximal(text, n, &is_valid);
    assert_int_equal(is_valid, is_whole);
    assert_int_equal(maximal, expected ? expected : 1);
}

static void decoding_follows_table_3_7(void **state) {
    (void)state;
    unsigned char values[256], bytes[4];
    size_t n = interesting(values);
    for (int lead = 0; lead < 256; lead++) {
        for (int second = 0; second < 256; second++) {
            bytes[0] = (unsigned char)lead;
            bytes[1] = (unsigned char)second;
            check_sequence(bytes, 1);
            check_sequence(bytes, 2);
            for (size_t k = 0; k < n; k++) {
                bytes[2] = values[k];
                check_sequence(bytes, 3);
                bytes[3] = values[(k * 7 + (size_t)lead) % n];
                check_sequence(bytes, 4);
            }
        }
    }
}

static void every_code_point_agrees_with_iconv(void **state) {
    (void)state;
    iconv_t convert = iconv_open("UTF-8", "UTF-32LE");
    assert_true(convert != (iconv_t)-1);
    for (uint32_t c = 0; c < 0x110100; c++) {
        char out[4], expected[8], *to = expected;
        unsigned char from[4] = {(unsigned char)c, (unsigned char)(c >> 8), (unsigned char)(c >> 16), 0};
        char *in = (char *)from;
        size_t in_left = 4, out_left = sizeof expected;
        bool valid = c < 0xd800 || (c >= 0xe000 && c < 0x110000);
        size_t n = utf8_encode(c, out);
        if (!valid) {
            assert_int_equal(n, 0);
            continue;
        }
        assert_int_equal(iconv(convert, &in, &in_left, &to, &out_left), 0);
        assert_int_equal(n, sizeof expected - out_left);
        assert_memory_equal(out, expected, n);
        uint32_t back;
        assert_int_equal(utf8_decode(out, n, &back), n);
        assert_int_equal(back, c);
    }
    iconv_close(convert);
}

/* The lengths of the parts into which the text falls, "v" after the valid ones. */
static void assert_parts(const char *text, size_t length, const char *expected) {
    char found[100];
    size_t used = 0;
    for (size_t i = 0; i < length;) {
        bool valid;
        size_t n = utf8_next_maximal(text + i, length - i, &valid);
        used += (size_t)snprintf(found + used, sizeof found - used, "%zu%s ", n, valid ? "v" : "");
        i += n;
    }
    assert_string_equal(found, expected);
}

static void maximal_subparts_are_the_standards(void **state) {
    (void)state;
    assert_parts("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", 9, "1 1 1 1 1 1 1 1 1v ");  /* table 3-8: not shortest */
    assert_parts("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", 9, "1 1 1 1 1 1 1 1 1v ");  /* table 3-9: surrogates */
    assert_parts("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", 9, "1 1 1 1 1 1v 1 1 1v "); /* table 3-10: other */
    assert_parts("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", 9, "2 1 3 2 1v ");          /* table 3-11: truncated */
}

static void valid_prefix_ends_before_the_first_fault(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t prefix;
    } cases[] = {{"", 0},
                 {"abc", 3},
                 {"a\xc3\xa9z", 4},
                 {"a\xc3", 1},
                 {"\x80", 0},
                 {"ab\xff", 2},
                 {"\xe6\x97\xa5\xe6\x97", 3},
                 {"\xf0\x9f\x99\x82\xf0\x9f\x99", 4},
                 {"x\xed\xa0\x80", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(utf8_valid_prefix(cases[i].text, strlen(cases[i].text)), cases[i].prefix);
    assert_int_equal(utf8_valid_prefix("a\0b", 3), 3);
}

/* The definition: the longest end that is the start of a row, but no whole row. */
static size_t tail_by_definition(const unsigned char *bytes, size_t n) {
    for (size_t k = n < 3 ? n : 3; k > 0; k--) {
        bool is_whole;
        if (by_table(bytes + n - k, k, &is_whole) == k && !is_whole) return k;
    }
    return 0;
}

static void incomplete_tails_are_found(void **state) {
    (void)state;
    unsigned char values[256], bytes[4];
    size_t n = interesting(values);
    for (size_t a = 0; a < n; a++) {
        for (size_t b = 0; b < n; b++) {
            for (size_t c = 0; c < n; c++) {
                bytes[0] = 'x';
                bytes[1] = values[a];
                bytes[2] = values[b];
                bytes[3] = values[c];
                for (size_t length = 1; length <= 4; length++)
                    assert_int_equal(utf8_incomplete_tail((const char *)bytes, length),
                                     tail_by_definition(bytes, length));
            }
        }
    }
    assert_int_equal(utf8_incomplete_tail("", 0), 0);
}

static void code_points_are_counted(void **state) {
    (void)state;
    const char *text = "a\xc3\xa9\xe6\x97\xa5\xf0\x9f\x99\x82";
    assert_int_equal(utf8_count(text, strlen(text)), 4);
    assert_int_equal(utf8_count("", 0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoding_follows_table_3_7),
        cmocka_unit_test(every_code_point_agrees_with_iconv),
        cmocka_unit_test(maximal_subparts_are_the_standards),
        cmocka_unit_test(valid_prefix_ends_before_the_first_fault),
        cmocka_unit_test(incomplete_tails_are_found),
        cmocka_unit_test(code_points_are_counted),
    };
    return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}
