/* SPDX-License-Identifier: Apache-2.0 */
/* One safetensors file, mapped.
 *
 *   8 bytes   length N of the header, little endian
 *   N bytes   JSON: { "name": {"dtype": "BF16", "shape": [..], "data_offsets": [begin, end]}, "__metadata__": {..} }
 *   rest      the tensors; offsets count from here
 *
 * Everything is checked before use: the header against the file, each tensor's extent against its shape and the file,
 * and that no two tensors overlap. Tensor data stays where it lies, at any alignment. */
#ifndef MLXCEL_FORMAT_SAFETENSORS_H
#define MLXCEL_FORMAT_SAFETENSORS_H

#include "base/arena.h"
#include "base/error.h"
#include "base/file.h"

#include <stddef.h>
#include <stdint.h>

enum dtype {
    DTYPE_F32,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_F8_E4M3,
    DTYPE_U8,
    DTYPE_I8,
    DTYPE_U32,
    DTYPE_I32,
    DTYPE_I64,
    DTYPE_OTHER, /* a type that no weight of ours has: its bytes are bounded by the offsets only */
};

enum { TENSOR_MAX_DIMS = 8 };

struct tensor {
    const char *name; /* NUL-terminated */
    enum dtype dtype;
    int n_dims;
    uint64_t shape[TENSOR_MAX_DIMS];
    const unsigned char *data; /* row-major; may be unaligned; NULL when it is empty */
    size_t bytes;
    const struct safetensors *file;
};

struct safetensors {
    const char *name; /* the file's name without its folder, for messages */
    struct file_map map;
    struct tensor *tensors;
    size_t n_tensors;
    bool is_mlx; /* metadata "format": "mlx" */
    struct arena arena;
};

/* Opens folder/name. The struct must not move afterwards: its tensors point to it. */
bool safetensors_open(struct safetensors *file, const char *folder, const char *name, struct mx_error *err);
void safetensors_close(struct safetensors *file);

/* "BF16" and the like; bytes of one element (0 for DTYPE_OTHER). */
const char *dtype_name(enum dtype dtype);
size_t dtype_bytes(enum dtype dtype);

/* "[64, 16]" for messages, in a buffer of the caller's. */
const char *tensor_shape_text(const struct tensor *tensor, char *text, size_t room);

#endif
