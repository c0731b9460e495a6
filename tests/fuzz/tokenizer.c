/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: tokenizer.json, up to the first NUL byte; behind it a text. */
#include "tests/fuzz/use_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    size_t length = end ? (size_t)(end - data) : size;
    fuzz_write_alone("tokenizer.json", data, length);
    use_tokenizer(end ? (const char *)end + 1 : "", end ? size - length - 1 : 0);
    return 0;
}
