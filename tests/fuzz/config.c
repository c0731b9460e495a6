/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: config.json. What is accepted describes a network, of shapes only; the keys that were not
 * asked for are keys of the text. */
#include "tests/fuzz/files.h"

#include "format/config.h"
#include "models/models.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void add_length(void *sum, const char *key, size_t length) {
    expect(key != NULL);
    *(size_t *)sum += length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t unread = 0;
    struct config config = {0};
    struct graph graph = {0};
    struct mx_error err = {0};
    fuzz_write_alone("config.json", data, size);
    if (!config_open(&config, fuzz_folder(), &err)) {
        expect_message(&err);
        return 0;
    }
    if (model_build(&graph, &config, NULL, &err)) {
        const char *part = config_other_part(&config);
        expect(!part || *part);
        config_unread(&config, add_length, &unread);
        expect(unread <= size);
        graph_free(&graph);
    } else {
        expect_message(&err);
    }
    config_close(&config);
    return 0;
}
