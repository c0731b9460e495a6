/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: weight files. Each tensor that is accepted lies in the file and is as large as its shape says. */
#include "tests/fuzz/files.h"

#include "format/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct safetensors file = {0};
    struct mx_error err = {0};
    uint64_t sum = 0;
    fuzz_write_alone("model.safetensors", data, size);
    if (!safetensors_open(&file, fuzz_folder(), "model.safetensors", &err)) {
        expect_message(&err);
        return 0;
    }
    for (size_t i = 0; i < file.n_tensors; i++) {
        const struct tensor *tensor = &file.tensors[i];
        uint64_t bytes = dtype_bytes(tensor->dtype);
        char text[256];
        expect(tensor->bytes <= size && tensor->n_dims >= 0 && tensor->n_dims <= TENSOR_MAX_DIMS);
        for (int k = 0; k < tensor->n_dims; k++) bytes *= tensor->shape[k];
        expect(!bytes || bytes == tensor->bytes);
        expect(tensor_shape_text(tensor, text, sizeof text) && dtype_name(tensor->dtype) &&
               strlen(tensor->name) <= size);
        if (tensor->bytes) sum += (uint64_t)tensor->data[0] + tensor->data[tensor->bytes - 1];
    }
    expect(sum <= 510 * (uint64_t)file.n_tensors);
    safetensors_close(&file);
    return 0;
}
