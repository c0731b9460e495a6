/* SPDX-License-Identifier: Apache-2.0 */
/* JSON: the parsing tests of JSONTestSuite (y_ is accepted, n_ is refused, i_ may be either), when the shared archive is
 * there; nesting up to the stated depth; numbers against the C library; what the writer makes of values reads back. */
#include "tests/support/tap.h"

#include "base/file.h"
#include "base/json.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 1 << 20, MAX_DEPTH = 10000 };

static bool is_accepted(const char *text, size_t n, int flags, int depth, struct mx_error *err) {
    struct arena arena = {0};
    bool accepted = json_parse(&arena, text, n, flags, depth, err) != NULL;
    arena_free(&arena);
    return accepted;
}

/* ---- the suite ---- */

/* Whether one file is treated as its name demands; a refusal must come with line and column. */
static bool is_as_named(const char *folder, const char *name) {
    struct arena arena = {0};
    struct mx_error err = {0};
    size_t n;
    char *text = file_read(path_join(&arena, folder, name), MAX_FILE, &n, &err);
    bool accepted = text && is_accepted(text, n, JSON_STRICT, MAX_DEPTH, &err);
    bool ok = text && (name[0] == 'i' || accepted == (name[0] == 'y'));
    unsigned line, column;
    if (!accepted) ok = ok && sscanf(err.message, "line %u, column %u: ", &line, &column) == 2;
    if (!ok) tap_note("%s: %s", name, accepted ? "accepted" : err.message);
    free(text);
    arena_free(&arena);
    return ok;
}

static void the_suite_is_followed(const char *shared) {
    struct arena arena = {0};
    char folder[4096], **names = NULL;
    size_t n = 0, n_right = 0;
    if (!folder_make_temporary(folder, sizeof folder)) return;
    char *command =
        arena_printf(&arena, "tar -xJf '%s/data/json/json-test-suite.tar.xz' -C '%s' 2>/dev/null", shared, folder);
    bool unpacked = system(command) == 0;
    const char *cases = path_join(&arena, folder, "test_parsing");
    unpacked = unpacked && folder_list(&arena, cases, ".json", &names, &n, NULL);
    for (size_t i = 0; unpacked && i < n; i++) n_right += is_as_named(cases, names[i]);
    tap_ok(unpacked && n == 318 && n_right == n, "the_suite_is_followed (%zu of %zu)", n_right, n);
    folder_remove(folder);
    arena_free(&arena);
}

/* ---- depth ---- */

static char *nested(size_t depth, const char *open, const char *inner, char close, size_t *n) {
    struct buffer text = {0};
    for (size_t i = 0; i < depth; i++) buffer_puts(&text, open);
    buffer_puts(&text, inner);
    for (size_t i = 0; i < depth; i++) buffer_putc(&text, close);
    *n = text.length;
    return buffer_take(&text);
}

static void depth_is_what_the_caller_says(void) {
    static const struct {
        const char *open, *inner;
        char close;
    } kinds[] = {{"[", "", ']'}, {"[", "1", ']'}, {"{\"a\":", "{}", '}'}, {" [ ", "{}", ']'}};
    bool ok = true;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (int limit = 1; limit <= MAX_DEPTH; limit = limit * 10) {
            size_t n, inside = strchr(kinds[k].inner, '{') ? 1 : 0;
            for (size_t depth = (size_t)limit - inside; depth <= (size_t)limit - inside + 1; depth++) {
                char *text = nested(depth, kinds[k].open, kinds[k].inner, kinds[k].close, &n);
                ok &= is_accepted(text, n, JSON_STRICT, limit, NULL) == (depth + inside <= (size_t)limit);
                free(text);
            }
        }
    }
    tap_ok(ok, "depth_is_what_the_caller_says");
    size_t n;
    char *text = nested(100000, "[", "", ']', &n);
    struct mx_error err = {0};
    tap_ok(!is_accepted(text, n, JSON_STRICT, 1000000, &err) && strstr(err.message, "column 10001: nested too deeply"),
           "depth_never_exceeds_ten_thousand");
    free(text);
    text = nested(100000, "[", "", ' ', &n);
    tap_ok(!is_accepted(text, 100000, JSON_STRICT, MAX_DEPTH, &err), "a_hundred_thousand_open_brackets_are_refused");
    free(text);
}

/* ---- numbers ---- */

/* A random decimal in one of the ways in which JSON can write numbers. */
static void write_number(char *text, size_t room, uint64_t *state) {
    uint64_t word = rng_next(state);
    unsigned long long digits = rng_next(state) >> (word & 63);
    int exponent = (int)(word >> 8 & 1023) % 700 - 350;
    switch (word >> 32 & 3) {
    case 0: snprintf(text, room, "%s%llu", word >> 40 & 1 ? "-" : "", digits); break;
    case 1:
        snprintf(text, room, "%llu.%llu", digits, (unsigned long long)(rng_next(state) >> (word >> 41 & 63)));
        break;
    case 2: snprintf(text, room, "%llue%d", digits, exponent); break;
    default:
        snprintf(text, room, "-0.%0*llu%sE%+d", (int)(word >> 50 & 31), digits, digits % 3 ? "" : "000000", exponent);
    }
}

static void numbers_are_rounded_as_by_strtod(void) {
    uint64_t state = 1;
    size_t n_wrong = 0;
    for (int i = 0; i < 300000; i++) {
        char text[128];
        struct arena arena = {0};
        write_number(text, sizeof text, &state);
        double found = json_number(json_parse(&arena, text, strlen(text), JSON_STRICT, 1, NULL), (double)NAN);
        double expected = strtod(text, NULL);
        if (memcmp(&found, &expected, sizeof found) != 0 && n_wrong++ < 5)
            tap_note("%s: %.17g, expected %.17g", text, found, expected);
        arena_free(&arena);
    }
    tap_ok(!n_wrong, "numbers_are_rounded_as_by_strtod");
}

static void integers_are_exact_up_to_64_bits(void) {
    static const struct {
        const char *text;
        enum json_type type;
        int64_t value;
    } cases[] = {{"9223372036854775807", JSON_INTEGER, INT64_MAX},
                 {"-9223372036854775807", JSON_INTEGER, -INT64_MAX},
                 {"9223372036854775808", JSON_REAL, 0},
                 {"9007199254740993", JSON_INTEGER, 9007199254740993},
                 {"-0", JSON_REAL, 0},
                 {"1.0", JSON_REAL, 1},
                 {"1e2", JSON_REAL, 100},
                 {"0", JSON_INTEGER, 0}};
    bool ok = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena = {0};
        const struct json *v = json_parse(&arena, cases[i].text, strlen(cases[i].text), JSON_STRICT, 1, NULL);
        ok &= v && v->type == cases[i].type && (v->type == JSON_REAL || v->integer == cases[i].value);
        arena_free(&arena);
    }
    tap_ok(ok, "integers_are_exact_up_to_64_bits");
}

/* Every bit pattern of a double that is finite is written in at most 17 digits and read back as the same one. */
static void reals_survive_writing(void) {
    uint64_t state = 2;
    size_t n_wrong = 0;
    for (int i = 0; i < 100000; i++) {
        uint64_t bits = rng_next(&state);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) continue;
        struct arena arena = {0};
        struct buffer out = {0};
        json_write_real(&(struct json_writer){.out = &out}, value);
        double back = json_number(json_parse(&arena, out.data, out.length, JSON_STRICT, 1, NULL), (double)NAN);
        if (back != value) n_wrong++;
        buffer_free(&out);
        arena_free(&arena);
    }
    tap_ok(!n_wrong, "reals_survive_writing");
}

/* ---- strings ---- */

static void every_code_point_survives_writing(void) {
    size_t n_wrong = 0;
    for (uint32_t c = 0; c < 0x110000; c++) {
        char escaped[16], raw[4];
        if (c >= 0xd800 && c < 0xe000) continue;
        if (c < 0x10000)
            snprintf(escaped, sizeof escaped, "\"\\u%04x\"", c);
        else
            snprintf(escaped, sizeof escaped, "\"\\u%04X\\u%04x\"", 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
        struct arena arena = {0};
        struct buffer out = {0};
        const struct json *v = json_parse(&arena, escaped, strlen(escaped), JSON_STRICT, 1, NULL);
        if (!v || v->count > 4) {
            n_wrong++;
        } else {
            memcpy(raw, v->string, v->count);
            json_append_quoted(&out, raw, v->count);
            const struct json *again = json_parse(&arena, out.data, out.length, JSON_STRICT, 1, NULL);
            if (!again || again->count != v->count || memcmp(again->string, raw, v->count) != 0) n_wrong++;
        }
        buffer_free(&out);
        arena_free(&arena);
    }
    tap_ok(!n_wrong, "every_code_point_survives_writing");
}

int main(void) {
    const char *shared = shared_folder();
    if (shared)
        the_suite_is_followed(shared);
    else
        tap_skip("the_suite_is_followed", SHARED_ABSENT);
    depth_is_what_the_caller_says();
    numbers_are_rounded_as_by_strtod();
    integers_are_exact_up_to_64_bits();
    reals_survive_writing();
    every_code_point_survives_writing();
    return tap_done();
}
