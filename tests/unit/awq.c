/* SPDX-License-Identifier: Apache-2.0 */
/* AWQ repacking: the eight columns of a word come out in the order of the layout's definition, zeros become biases, and
 * tensors that do not fit one another are named. */
#include "format/awq.h"

#include "base/half.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static struct safetensors file = {.name = "file"};

static struct tensor tensor(const char *name, enum dtype dtype, uint64_t rows, uint64_t cols, const void *data) {
    return (struct tensor){.name = name,
                           .dtype = dtype,
                           .n_dims = 2,
                           .shape = {rows, cols},
                           .data = data,
                           .bytes = (size_t)(rows * cols) * dtype_bytes(dtype),
                           .file = &file};
}

/* Input k of output o has code (k + 2 o) mod 16; the word of row k holds outputs 0 2 4 6 1 3 5 7 from its low end up. */
static void codes_and_biases_are_those_of_the_layout(void **state) {
    (void)state;
    uint32_t words[8], zeros = 0x76543210; /* outputs 0, 2, 4, 6, 1, 3, 5, 7 have zeros 0, 1, 2, 3, 4, 5, 6, 7 */
    static const unsigned order[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    uint16_t scales[8];
    for (uint32_t k = 0; k < 8; k++) {
        words[k] = 0;
        for (unsigned place = 0; place < 8; place++) words[k] |= ((k + 2 * order[place]) & 15) << 4 * place;
    }
    for (unsigned o = 0; o < 8; o++) scales[o] = f32_to_f16(0.5f * (float)(o + 1));
    struct tensor q = tensor("q", DTYPE_I32, 8, 1, words), z = tensor("z", DTYPE_I32, 1, 1, &zeros);
    struct tensor s = tensor("s", DTYPE_F16, 1, 8, scales);
    struct arena arena = {0};
    struct awq_tensors out;
    struct mx_error err = {0};
    assert_true(awq_repack(&arena, &q, &z, &s, &out, &err));
    assert_int_equal(out.codes.shape[0], 8);
    assert_int_equal(out.codes.shape[1], 1);
    for (unsigned place = 0; place < 8; place++) {
        unsigned o = order[place];
        uint32_t row;
        uint16_t bias;
        memcpy(&row, out.codes.data + 4 * (size_t)o, 4);
        for (uint32_t k = 0; k < 8; k++) assert_int_equal(row >> 4 * k & 15, (k + 2 * o) & 15);
        memcpy(&bias, out.biases.data + 2 * (size_t)o, 2);
        assert_true(f16_to_f32(bias) == -(float)place * 0.5f * (float)(o + 1));
    }
    arena_free(&arena);
}

static void assert_names(struct tensor q, struct tensor z, struct tensor s, const char *name) {
    struct arena arena = {0};
    struct awq_tensors out;
    struct mx_error err = {0};
    assert_false(awq_repack(&arena, &q, &z, &s, &out, &err));
    assert_non_null(strstr(err.message, name));
    arena_free(&arena);
}

static void tensors_that_do_not_fit_are_named(void **state) {
    (void)state;
    static const unsigned char zeros[1024];
    struct tensor q = tensor("Q", DTYPE_I32, 16, 2, zeros), z = tensor("Z", DTYPE_I32, 2, 2, zeros);
    struct tensor s = tensor("S", DTYPE_F16, 2, 16, zeros);
    assert_names(tensor("Q", DTYPE_I32, 12, 2, zeros), z, s, "'Q'");
    assert_names(tensor("Q", DTYPE_F16, 16, 2, zeros), z, s, "'Q'");
    assert_names(q, tensor("Z", DTYPE_I32, 1, 2, zeros), s, "'Z'");
    assert_names(q, z, tensor("S", DTYPE_F16, 2, 8, zeros), "'S'");
    assert_names(q, z, tensor("S", DTYPE_F16, 0, 16, zeros), "'S'");
    assert_names(q, z, tensor("S", DTYPE_F16, 3, 16, zeros), "'S'");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_and_biases_are_those_of_the_layout),
        cmocka_unit_test(tensors_that_do_not_fit_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
