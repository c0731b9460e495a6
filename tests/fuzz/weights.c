/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a config and the tensors that it is to find: kinds of quantisation, shapes, names, slices. Up to the first
 * NUL byte the input is config.json, behind it the header of the weight file; the tensors are zeros. */
#include "tests/fuzz/files.h"

#include "format/checkpoint.h"
#include "models/models.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_HEADER_BYTES = 1 << 16, DATA_BYTES = 1 << 20 };

static void write_tensors(const uint8_t *header, size_t length) {
    static const char name[] = "model.safetensors";
    uint8_t file[8 + MAX_HEADER_BYTES] = {0};
    char path[400];
    if (length > MAX_HEADER_BYTES) length = MAX_HEADER_BYTES;
    for (int i = 0; i < 3; i++) file[i] = (uint8_t)(length >> 8 * i);
    memcpy(file + 8, header, length);
    fuzz_write(name, file, 8 + length);
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    expect(truncate(path, (off_t)(8 + length + DATA_BYTES)) == 0);
}

static void count(void *n, const struct tensor *tensor) {
    expect(tensor->name && tensor->bytes <= DATA_BYTES);
    ++*(size_t *)n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    struct config config = {0};
    struct checkpoint checkpoint = {0};
    struct graph graph = {0};
    struct mx_error err = {0};
    size_t unused = 0;
    if (!end) return 0;
    fuzz_write_alone("config.json", data, (size_t)(end - data));
    write_tensors(end + 1, size - (size_t)(end - data) - 1);
    if (config_open(&config, fuzz_folder(), &err) && checkpoint_open(&checkpoint, fuzz_folder(), &err) &&
        model_build(&graph, &config, &checkpoint, &err)) {
        weights_unused(&graph.weights, count, &unused);
        expect(unused < size);
        graph_free(&graph);
    } else {
        expect_message(&err);
    }
    checkpoint_close(&checkpoint);
    config_close(&config);
    return 0;
}
