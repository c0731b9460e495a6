/* SPDX-License-Identifier: Apache-2.0 */
/* Arena, buffer, growable arrays, map and error messages. */
#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* The address sanitizer's allocator ends the program where malloc returns NULL, unless told otherwise. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }

/* ---- arena ---- */

static void arena_pieces_are_aligned_and_apart(void **state) {
    (void)state;
    enum { N = 3000 };
    struct arena arena = {0};
    unsigned char *pieces[N];
    size_t sizes[N], total = 0;
    uint64_t stream = 1;
    for (size_t i = 0; i < N; i++) {
        sizes[i] = i % 500 == 499 ? 2000000 : rng_next(&stream) % 700;
        pieces[i] = arena_alloc(&arena, sizes[i]);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        memset(pieces[i], (int)(i % 251), sizes[i]);
        total += sizes[i];
    }
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < sizes[i]; j++) assert_int_equal(pieces[i][j], i % 251);
    assert_true(arena.total_bytes >= total);
    arena_free(&arena);
    assert_null(arena.blocks);
    assert_int_equal(arena.total_bytes, 0);
}

static void arena_refuses_sizes_that_overflow(void **state) {
    (void)state;
    struct arena arena = {0};
    assert_null(arena_calloc(&arena, SIZE_MAX / 2, 3));
    assert_null(arena_alloc(&arena, SIZE_MAX));
    assert_null(arena_alloc(&arena, SIZE_MAX - 64));
    assert_null(arena_copy(&arena, "x", SIZE_MAX));
    arena_free(&arena);
}

static void arena_texts_are_terminated(void **state) {
    (void)state;
    struct arena arena = {0};
    char *copy = arena_copy(&arena, "abc\0def", 7);
    assert_memory_equal(copy, "abc\0def", 8);
    assert_string_equal(arena_copy(&arena, NULL, 0), "");
    char *text = arena_printf(&arena, "%0*d|%s", 5000, 7, "end");
    assert_int_equal(strlen(text), 5004);
    assert_string_equal(text + 4999, "7|end");
    const unsigned char *zeros = arena_calloc(&arena, 100, 7);
    for (int i = 0; i < 700; i++) assert_int_equal(zeros[i], 0);
    arena_free(&arena);
}

/* ---- buffer ---- */

static void buffer_collects_text(void **state) {
    (void)state;
    struct buffer b = {0};
    for (int i = 0; i < 1000; i++) {
        assert_true(buffer_printf(&b, "%d,", i));
        assert_int_equal(b.data[b.length], '\0');
    }
    assert_int_equal(b.length, 10 * 2 + 90 * 3 + 900 * 4);
    buffer_clear(&b);
    assert_int_equal(b.length, 0);
    assert_true(buffer_append(&b, "a\0b", 3) && buffer_putc(&b, 'c') && buffer_puts(&b, "de") &&
                buffer_append(&b, NULL, 0));
    assert_memory_equal(b.data, "a\0bcde", 7);
    char *text = buffer_take(&b);
    assert_memory_equal(text, "a\0bcde", 7);
    assert_true(b.data == NULL && b.length == 0 && b.capacity == 0);
    free(text);
    buffer_free(&b);
}

static void buffer_remembers_a_failure(void **state) {
    (void)state;
    struct buffer b = {0};
    assert_true(buffer_puts(&b, "kept"));
    assert_false(buffer_reserve(&b, SIZE_MAX - 2));
    assert_true(b.failed);
    assert_false(buffer_puts(&b, "more"));
    assert_string_equal(b.data, "kept");
    assert_null(buffer_take(&b));
    buffer_free(&b);
}

static void an_empty_buffer_can_be_taken(void **state) {
    (void)state;
    struct buffer b = {0};
    char *text = buffer_take(&b);
    assert_string_equal(text, "");
    free(text);
}

/* ---- arrays and sizes ---- */

static void arrays_grow_and_keep_their_content(void **state) {
    (void)state;
    uint32_t *items = NULL;
    size_t capacity = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        assert_true(array_reserve(&items, &capacity, i + 1, sizeof *items));
        assert_true(capacity > i);
        items[i] = i * 3;
    }
    for (uint32_t i = 0; i < 10000; i++) assert_int_equal(items[i], i * 3);
    size_t before = capacity;
    assert_false(array_reserve(&items, &capacity, SIZE_MAX, sizeof *items));
    assert_false(array_reserve(&items, &capacity, SIZE_MAX / 4 + 2, sizeof *items));
    assert_int_equal(capacity, before);
    assert_int_equal(items[9999], 29997);
    free(items);
}

static void sizes_are_checked(void **state) {
    (void)state;
    size_t result;
    assert_true(size_mul(1u << 31, 1u << 31, &result) && result == (size_t)1 << 62);
    assert_false(size_mul((size_t)1 << 32, (size_t)1 << 32, &result));
    assert_false(size_add(SIZE_MAX, 1, &result));
    assert_null(array_alloc((size_t)1 << 40, (size_t)1 << 30));
    assert_null(aligned_calloc((size_t)1 << 40, (size_t)1 << 30));
    unsigned char *memory = aligned_calloc(3, 50);
    assert_int_equal((uintptr_t)memory % 64, 0);
    for (int i = 0; i < 150; i++) assert_int_equal(memory[i], 0);
    free(memory);
    assert_int_equal(round_up(0, 64), 0);
    assert_int_equal(round_up(65, 64), 128);
}

/* ---- map ---- */

static void map_holds_what_was_put(void **state) {
    (void)state;
    enum { N = 20000 };
    struct arena arena = {0};
    struct map map = {0};
    bool was_present;
    uint64_t value;
    assert_false(map_get(&map, "x", 1, &value));
    for (uint64_t i = 0; i < N; i++) {
        char *key = arena_printf(&arena, "key%llu", (unsigned long long)i * 7919);
        assert_true(map_put(&map, key, strlen(key), i, &was_present));
        assert_false(was_present);
    }
    assert_int_equal(map.count, N);
    assert_true(map.capacity >= 2 * N && (map.capacity & (map.capacity - 1)) == 0);
    for (uint64_t i = 0; i < N; i++) {
        char key[40];
        int n = snprintf(key, sizeof key, "key%llu", (unsigned long long)i * 7919);
        assert_true(map_get(&map, key, (size_t)n, &value));
        assert_int_equal(value, i);
        key[0] = 'K';
        assert_false(map_get(&map, key, (size_t)n, &value));
    }
    map_free(&map);
    arena_free(&arena);
}

static void map_keys_are_bytes(void **state) {
    (void)state;
    struct map map = {0};
    bool was_present;
    uint64_t value;
    assert_true(map_put(&map, "", 0, 1, NULL) && map_put(&map, "\0", 1, 2, NULL) && map_put(&map, "\0\0", 2, 3, NULL));
    assert_true(map_put(&map, "12345678", 8, 4, NULL) && map_put(&map, "123456789", 9, 5, NULL));
    assert_true(map_put(&map, "", 0, 6, &was_present) && was_present);
    assert_int_equal(map.count, 5);
    assert_true(map_get(&map, "", 0, &value) && value == 6);
    assert_true(map_get(&map, "\0", 1, &value) && value == 2);
    assert_true(map_get(&map, "\0\0", 2, &value) && value == 3);
    assert_true(map_get(&map, "12345678", 8, &value) && value == 4);
    assert_false(map_get(&map, "\0\0\0", 3, &value));
    map_free(&map);
    assert_false(map_reserve(&map, SIZE_MAX / 2));
}

static void reserved_maps_do_not_grow(void **state) {
    (void)state;
    struct map map = {0};
    char keys[1000][4];
    assert_true(map_reserve(&map, 1000));
    const struct map_entry *entries = map.entries;
    for (int i = 0; i < 1000; i++) {
        memcpy(keys[i], &i, 4);
        assert_true(map_put(&map, keys[i], 4, (uint64_t)i, NULL));
    }
    assert_ptr_equal(map.entries, entries);
    map_free(&map);
}

/* ---- errors ---- */

static void errors_are_one_line(void **state) {
    (void)state;
    struct mx_error err = {0};
    assert_false(error_set(&err, ERROR_FORMAT, "tensor '%s' is bad", "a\nb\x1b[31m\x7f"));
    assert_string_equal(err.message, "tensor 'a?b?[31m?' is bad");
    assert_int_equal(err.code, ERROR_FORMAT);
    error_prefix(&err, "%s", "file\n1");
    assert_string_equal(err.message, "file?1: tensor 'a?b?[31m?' is bad");
    assert_false(error_set(NULL, ERROR_IO, "nobody reads this"));
    assert_false(error_memory(&err, "a thing"));
    assert_string_equal(err.message, "out of memory (a thing)");
    char long_name[3000];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    error_set(&err, ERROR_IO, "%s", long_name);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    error_prefix(&err, "%s", long_name);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_pieces_are_aligned_and_apart),
        cmocka_unit_test(arena_refuses_sizes_that_overflow),
        cmocka_unit_test(arena_texts_are_terminated),
        cmocka_unit_test(buffer_collects_text),
        cmocka_unit_test(buffer_remembers_a_failure),
        cmocka_unit_test(an_empty_buffer_can_be_taken),
        cmocka_unit_test(arrays_grow_and_keep_their_content),
        cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test(map_holds_what_was_put),
        cmocka_unit_test(map_keys_are_bytes),
        cmocka_unit_test(reserved_maps_do_not_grow),
        cmocka_unit_test(errors_are_one_line),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
