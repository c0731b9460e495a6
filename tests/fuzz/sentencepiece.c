/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: SentencePiece models. The first byte is the length of a text, which follows; the rest is the file. */
#include "tests/fuzz/use_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    size_t length = data[0] < size - 1 ? data[0] : size - 1;
    fuzz_write_alone("spiece.model", data + 1 + length, size - 1 - length);
    use_tokenizer((const char *)data + 1, length);
    return 0;
}
