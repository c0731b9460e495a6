/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: config.json. What is accepted describes a network, of shapes only. */
#include "tests/fuzz/files.h"

#include "format/config.h"
#include "models/models.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct config config = {0};
    struct graph graph = {0};
    struct mx_error err = {0};
    fuzz_write_alone("config.json", data, size);
    if (!config_open(&config, fuzz_folder(), &err)) {
        expect_message(&err);
        return 0;
    }
    if (model_build(&graph, &config, NULL, &err))
        graph_free(&graph);
    else
        expect_message(&err);
    config_close(&config);
    return 0;
}
