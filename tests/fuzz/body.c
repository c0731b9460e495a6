/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the body of every route. The first byte chooses the route, the rest is the body. */
#include "tests/fuzz/ask.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const paths[] = {"/v1/chat/completions",
                                    "/v1/completions",
                                    "/v1/messages",
                                    "/v1/messages/count_tokens",
                                    "/v1/responses",
                                    "/completion",
                                    "/infill",
                                    "/tokenize",
                                    "/detokenize",
                                    "/apply-template",
                                    "/api/chat",
                                    "/api/generate",
                                    "/api/show",
                                    "/v1/embeddings",
                                    "/lora-adapters",
                                    "/models/unload",
                                    "/slots/0?action=restore",
                                    "/slots/0?action=save",
                                    "/slots/0?action=erase",
                                    "/v1/responses/input_tokens",
                                    "/v1/responses/x/cancel",
                                    "/v1/chat/completions/input_tokens",
                                    "/embeddings",
                                    "/api/embed",
                                    "/api/embeddings",
                                    "/props",
                                    "/models/load"};

/* What 'restore' can find: two tokens for the vocabulary of the bundled model. */
static void write_slot(void) {
    static const uint32_t slot[] = {0x636c786d, 0x31736c65, 8192, 2, 5, 7};
    fuzz_write_alone("kept", slot, sizeof slot);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    const char *path = paths[data[0] % (sizeof paths / sizeof *paths)];
    if (strstr(path, "slots")) write_slot();
    ask(path, data + 1, size - 1);
    return 0;
}
