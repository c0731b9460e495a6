/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: older files of vocabularies. The first byte chooses the kind of file, the second is the length of a text,
 * which follows; the rest is the file. */
#include "tests/fuzz/use_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"tokenizer.model", "tekken.json",          "rwkv_vocab.txt",       "vocab.txt",
                                        "merges.txt",      "tiktoken_config.json", "tokenizer_config.json"};
    static const char vocab[] =
        "{\"a\":0,\"b\":1,\"ab\":2,\"aba\":3,\"\\u0120\":4,\"\\u0120a\":5,\"<s>\":6,\"</s>\":7}";
    if (size < 2) return 0;
    const char *name = names[data[0] % (sizeof names / sizeof *names)];
    size_t length = data[1] < size - 2 ? data[1] : size - 2;
    bool needs_vocab = !strcmp(name, "merges.txt") || !strcmp(name, "tokenizer_config.json");
    fuzz_write_alone(name, data + 2 + length, size - 2 - length);
    if (needs_vocab) fuzz_write("vocab.json", vocab, sizeof vocab - 1);
    if (!strcmp(name, "tokenizer_config.json")) fuzz_write("merges.txt", "a b\nab a\n\xc4\xa0 a\n", 15);
    if (!strcmp(name, "tiktoken_config.json")) {
        char ranks[256 * 12 + 1];
        size_t n = 0;
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        for (unsigned i = 0; i < 256; i++)
            n += (size_t)snprintf(ranks + n, sizeof ranks - n, "%c%c== %u\n", digits[i >> 2], digits[(i & 3) << 4], i);
        fuzz_write("x.tiktoken", ranks, n);
    }
    use_tokenizer((const char *)data + 2, length);
    return 0;
}
