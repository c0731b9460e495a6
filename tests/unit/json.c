/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static const struct json *parse(struct arena *arena, const char *text, int flags, struct mx_error *err) {
    return json_parse(arena, text, strlen(text), flags, 64, err);
}

static void values_are_read(void **state) {
    (void)state;
    struct arena arena = {0};
    struct mx_error err;
    const struct json *v =
        parse(&arena, " {\"a\": [1, -2.5, 1e3, true, false, null], \"b\": {\"c\": \"x\\ny\\u00e9\\ud83d\\ude00\"}} ", 0,
              &err);
    assert_non_null(v);
    const struct json *a = json_get(v, "a");
    assert_int_equal(a->count, 6);
    assert_int_equal(json_integer(json_at(a, 0), 0), 1);
    assert_true(json_number(json_at(a, 1), 0) == -2.5);
    assert_int_equal(json_integer(json_at(a, 2), 0), 1000);
    assert_true(json_bool(json_at(a, 3), false));
    assert_false(json_bool(json_at(a, 4), true));
    assert_true(json_is_null(json_at(a, 5)));
    assert_true(json_string_is(json_get(json_get(v, "b"), "c"), "x\ny\xc3\xa9\xf0\x9f\x98\x80"));
    arena_free(&arena);
}

static void numbers_are_exact(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double value;
    } cases[] = {{"0.1", 0.1},
                 {"123456789012345678901234567890", 123456789012345678901234567890.0},
                 {"1e-400", 0.0},
                 {"2.2250738585072011e-308", 2.2250738585072011e-308},
                 {"9007199254740993", 9007199254740993.0},
                 {"-0", -0.0},
                 {"1.7976931348623157e308", 1.7976931348623157e308},
                 {"0.000000000000000000000000000000000000001", 1e-39},
                 {"9223372036854775808", 9223372036854775808.0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena = {0};
        const struct json *v = parse(&arena, cases[i].text, 0, NULL);
        assert_non_null(v);
        double d = json_number(v, NAN);
        assert_memory_equal(&d, &cases[i].value, sizeof d);
        arena_free(&arena);
    }
}

static void errors_name_line_and_column(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{\"a\": 1,\n  \"b\" 2}", "line 2, column 7: expected ':' after a key"},
        {"[1,]", "line 1, column 4: expected a value"},
        {"[1", "line 1, column 3: the text ends inside an array or object"},
        {"\"\\ud800\"", "line 1, column 2: a high surrogate stands alone"},
        {"[\"\xff\"]", "line 1, column 3: invalid UTF-8"},
        {"01", "line 1, column 1: number with a leading zero"},
        {"1 2", "line 1, column 3: text after the end of the value"},
        {"NaN", "line 1, column 1: expected a value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena = {0};
        struct mx_error err = {0};
        assert_null(parse(&arena, cases[i].text, 0, &err));
        assert_string_equal(err.message, cases[i].message);
        arena_free(&arena);
    }
}

static void python_words_only_where_allowed(void **state) {
    (void)state;
    struct arena arena = {0};
    const struct json *v = parse(&arena, "[NaN, Infinity, -Infinity]", JSON_ALLOW_NAN, NULL);
    assert_non_null(v);
    assert_true(isnan(json_number(json_at(v, 0), 0)));
    assert_true(isinf(json_number(json_at(v, 1), 0)) && json_number(json_at(v, 2), 0) < 0);
    arena_free(&arena);
}

static void big_integers_stay_integers_where_asked_for(void **state) {
    (void)state;
    struct arena arena = {0};
    const char *text = "[18446744073709551615,-9223372036854775809,9223372036854775807,-0,-0.0]";
    const struct json *v = parse(&arena, text, JSON_PYTHON_INTEGERS, NULL);
    assert_non_null(v);
    assert_int_equal(json_at(v, 0)->type, JSON_BIG_INTEGER);
    assert_true(json_number(json_at(v, 0), 0) == 18446744073709551616.0);
    assert_true(json_number(json_at(v, 1), 0) == -9223372036854775808.0);
    assert_int_equal(json_integer(json_at(v, 1), 7), 7);
    assert_int_equal(json_at(v, 2)->type, JSON_INTEGER);
    assert_int_equal(json_at(v, 3)->type, JSON_INTEGER);
    assert_int_equal(json_at(v, 4)->type, JSON_REAL);
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    json_write_value(&w, json_at(v, 0));
    assert_string_equal(out.data, "18446744073709551615");
    buffer_free(&out);
    arena_free(&arena);
}

static void duplicate_keys(void **state) {
    (void)state;
    struct arena arena = {0};
    struct mx_error err = {0};
    const struct json *v = parse(&arena, "{\"a\":1,\"a\":2}", 0, &err);
    assert_int_equal(json_integer(json_get(v, "a"), 0), 2);
    assert_null(parse(&arena, "{\"a\":1,\"a\":2}", JSON_REJECT_DUPLICATES, &err));
    assert_string_equal(err.message, "key 'a' stands twice in one object");
    assert_null(parse(&arena, "{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"b\":2}",
                      JSON_REJECT_DUPLICATES, &err));
    arena_free(&arena);
}

static void depth_is_bounded(void **state) {
    (void)state;
    struct arena arena = {0};
    struct mx_error err = {0};
    char deep[200];
    memset(deep, '[', sizeof deep);
    assert_null(json_parse(&arena, deep, 65, 0, 64, &err));
    assert_string_equal(err.message, "line 1, column 65: nested too deeply");
    arena_free(&arena);
}

static void written_text_reads_back(void **state) {
    (void)state;
    struct arena arena = {0};
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    const char *text = "{\"a\":[1,2.5,\"q\\\"\\\\\\n\\u0001\",null,true,[],{}],\"b\":0.1}";
    json_write_value(&w, parse(&arena, text, 0, NULL));
    assert_string_equal(out.data, text);
    buffer_clear(&out);
    w = (struct json_writer){.out = &out};
    json_write_string_n(&w, "a\xff\x62", 3);
    assert_string_equal(out.data, "\"a\xef\xbf\xbd\x62\"");
    buffer_free(&out);
    arena_free(&arena);
}

static void members_are_keys_with_values(void **state) {
    (void)state;
    struct buffer out = {0}, text = {0}, nothing = {0};
    struct json_writer w = {.out = &out};
    struct json value = {.type = JSON_TRUE};
    buffer_puts(&text, "b\"");
    json_begin_object(&w);
    json_add_string(&w, "a", "x");
    json_add_string(&w, "absent", NULL);
    json_add_text(&w, "t", "xyz", 2);
    json_add_buffer(&w, "b", &text);
    json_add_buffer(&w, "e", &nothing);
    json_add_integer(&w, "i", -1);
    json_add_count(&w, "n", 1ull << 40);
    json_add_real(&w, "r", 0.1);
    json_add_real_as(&w, "f", "%.2f", 0.125);
    json_add_bool(&w, "y", false);
    json_add_null(&w, "z");
    json_add_value(&w, "v", &value);
    json_add_raw(&w, "raw", "[1]", 3);
    json_end_object(&w);
    assert_string_equal(out.data, "{\"a\":\"x\",\"absent\":null,\"t\":\"xy\",\"b\":\"b\\\"\",\"e\":\"\",\"i\":-1,"
                                  "\"n\":1099511627776,\"r\":0.1,\"f\":0.12,\"y\":false,\"z\":null,\"v\":true,"
                                  "\"raw\":[1]}");
    buffer_free(&out);
    buffer_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read),
        cmocka_unit_test(numbers_are_exact),
        cmocka_unit_test(errors_name_line_and_column),
        cmocka_unit_test(python_words_only_where_allowed),
        cmocka_unit_test(big_integers_stay_integers_where_asked_for),
        cmocka_unit_test(duplicate_keys),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(written_text_reads_back),
        cmocka_unit_test(members_are_keys_with_values),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
