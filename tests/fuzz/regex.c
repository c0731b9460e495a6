/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: regular expressions, up to the first NUL byte of the input; what stands behind it is the text. */
#include "tests/fuzz/check_grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *source = (const char *)data, *end = size ? memchr(source, '\0', size) : NULL;
    size_t n = end ? (size_t)(end - source) : size, length = end ? size - n - 1 : 0;
    struct mx_error err = {0};
    struct grammar *g = grammar_from_regex(source, n, &err);
    check_grammar(g, &err, end ? end + 1 : "", length);
    return 0;
}
