/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: model.safetensors.index.json, beside one shard with two tensors. */
#include "tests/fuzz/files.h"

#include "format/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_shard(void) {
    static const char header[] =
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"U8\",\"shape\":[1,4],"
        "\"data_offsets\":[8,12]}}";
    char file[8 + sizeof header - 1 + 12] = {0};
    file[0] = (char)(sizeof header - 1);
    memcpy(file + 8, header, sizeof header - 1);
    fuzz_write("model-00001-of-00002.safetensors", file, sizeof file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct checkpoint checkpoint = {0};
    struct mx_error err = {0};
    fuzz_write_alone("model.safetensors.index.json", data, size);
    write_shard();
    if (checkpoint_open(&checkpoint, fuzz_folder(), &err)) {
        const struct tensor *tensor = checkpoint_find(&checkpoint, "a");
        if (tensor) expect(tensor->bytes == 8 && tensor->shape[0] == 2);
        if (!tensor) expect(!checkpoint_missing(&checkpoint, "a", &err));
        if (!tensor) expect_message(&err);
        checkpoint_close(&checkpoint);
    } else {
        expect_message(&err);
    }
    return 0;
}
