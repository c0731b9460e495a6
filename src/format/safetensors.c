/* SPDX-License-Identifier: Apache-2.0 */
#include "format/safetensors.h"

#include "base/json.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

/* The reference implementation's bound on the header. */
enum { MAX_HEADER_BYTES = 100000000 };

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
    [DTYPE_F32] = {"F32", 4},         [DTYPE_F16] = {"F16", 2}, [DTYPE_BF16] = {"BF16", 2},
    [DTYPE_F8_E4M3] = {"F8_E4M3", 1}, [DTYPE_U8] = {"U8", 1},   [DTYPE_I8] = {"I8", 1},
    [DTYPE_U32] = {"U32", 4},         [DTYPE_I32] = {"I32", 4}, [DTYPE_I64] = {"I64", 8},
    [DTYPE_OTHER] = {"other", 0},
};

const char *dtype_name(enum dtype dtype) { return dtypes[dtype].name; }
size_t dtype_bytes(enum dtype dtype) { return dtypes[dtype].bytes; }

const char *tensor_shape_text(const struct tensor *tensor, char *text, size_t room) {
    int used = snprintf(text, room, "[");
    for (int i = 0; i < tensor->n_dims && used > 0 && (size_t)used < room; i++)
        used += snprintf(text + used, room - (size_t)used, i ? ", %llu" : "%llu", (unsigned long long)tensor->shape[i]);
    if (used > 0 && (size_t)used < room) snprintf(text + used, room - (size_t)used, "]");
    return text;
}

static bool tensor_error(const struct safetensors *file, const struct tensor *tensor, struct mx_error *err,
                         const char *what) {
    return error_set(err, ERROR_FORMAT, "%s: tensor '%.200s' %s", file->name, tensor->name, what);
}

static bool read_shape(struct safetensors *file, struct tensor *tensor, const struct json *shape,
                       struct mx_error *err) {
    if (!json_is_array(shape)) return tensor_error(file, tensor, err, "has no shape");
    if (shape->count > TENSOR_MAX_DIMS) return tensor_error(file, tensor, err, "has more than 8 dimensions");
    tensor->n_dims = (int)shape->count;
    for (uint32_t i = 0; i < shape->count; i++) {
        int64_t n = json_integer(&shape->items[i], -1);
        if (n < 0) return tensor_error(file, tensor, err, "has a shape that is not a list of sizes");
        tensor->shape[i] = (uint64_t)n;
    }
    return true;
}

static enum dtype dtype_from_name(const struct json *name) {
    for (int i = 0; i < DTYPE_OTHER; i++)
        if (json_string_is(name, dtypes[i].name)) return (enum dtype)i;
    return DTYPE_OTHER;
}

/* The extent of the tensor's data, checked against its shape and the file. */
static bool read_extent(struct safetensors *file, struct tensor *tensor, const struct json *offsets, size_t data_start,
                        struct mx_error *err) {
    int64_t begin = json_integer(json_at(offsets, 0), -1), end = json_integer(json_at(offsets, 1), -1);
    if (!json_is_array(offsets) || offsets->count != 2 || begin < 0 || end < begin)
        return tensor_error(file, tensor, err, "has no valid data_offsets");
    size_t available = file->map.size - data_start;
    if ((uint64_t)end > available)
        return error_set(err, ERROR_FORMAT,
                         "%s: tensor '%.200s' ends at byte %llu, but the file has only %zu bytes (is it cut?)",
                         file->name, tensor->name, (unsigned long long)end + data_start, file->map.size);
    tensor->bytes = (size_t)(end - begin);
    tensor->data = tensor->bytes ? file->map.data + data_start + (size_t)begin : NULL;
    if (tensor->dtype == DTYPE_OTHER) return true;
    size_t bytes = dtypes[tensor->dtype].bytes;
    for (int i = 0; i < tensor->n_dims; i++)
        if (!size_mul(bytes, tensor->shape[i], &bytes)) return tensor_error(file, tensor, err, "is too large");
    char shape[160];
    if (bytes != tensor->bytes)
        return error_set(err, ERROR_FORMAT, "%s: tensor '%.200s' of shape %s %s needs %zu bytes, but has %zu",
                         file->name, tensor->name, tensor_shape_text(tensor, shape, sizeof shape),
                         dtype_name(tensor->dtype), bytes, tensor->bytes);
    return true;
}

static int compare_places(const void *a, const void *b) {
    const struct tensor *x = *(const struct tensor *const *)a, *y = *(const struct tensor *const *)b;
    return x->data < y->data ? -1 : x->data > y->data;
}

static bool refuse_overlaps(const struct safetensors *file, struct mx_error *err) {
    const struct tensor **order = array_alloc(file->n_tensors, sizeof(const struct tensor *));
    if (!order) return error_memory(err, file->name);
    size_t n = 0;
    for (size_t i = 0; i < file->n_tensors; i++)
        if (file->tensors[i].bytes) order[n++] = &file->tensors[i];
    qsort(order, n, sizeof *order, compare_places);
    bool ok = true;
    for (size_t i = 1; i < n && ok; i++)
        if (order[i - 1]->data + order[i - 1]->bytes > order[i]->data)
            ok = error_set(err, ERROR_FORMAT, "%s: tensors '%.200s' and '%.200s' overlap", file->name,
                           order[i - 1]->name, order[i]->name);
    free(order);
    return ok;
}

static bool read_header(struct safetensors *file, struct mx_error *err) {
    uint64_t header_bytes = 0;
    if (file->map.size < 8)
        return error_set(err, ERROR_FORMAT, "%s: %s", file->name,
                         file->map.size ? "too short for a safetensors file" : "the file is empty");
    for (int i = 7; i >= 0; i--) header_bytes = header_bytes << 8 | file->map.data[i];
    if (header_bytes > MAX_HEADER_BYTES || header_bytes > file->map.size - 8)
        return error_set(err, ERROR_FORMAT, "%s: the header claims %llu bytes, but the file has %zu", file->name,
                         (unsigned long long)header_bytes, file->map.size);
    const struct json *header = json_parse(&file->arena, (const char *)file->map.data + 8, (size_t)header_bytes,
                                           JSON_REJECT_DUPLICATES, 16, err);
    if (!header) return error_prefix(err, "%s: header", file->name);
    if (!json_is_object(header)) return error_set(err, ERROR_FORMAT, "%s: the header is no JSON object", file->name);
    file->is_mlx = json_string_is(json_get(json_get(header, "__metadata__"), "format"), "mlx");
    file->tensors = arena_calloc(&file->arena, header->count, sizeof *file->tensors);
    if (!file->tensors) return error_memory(err, file->name);
    for (uint32_t i = 0; i < header->count; i++) {
        const struct json_member *member = &header->members[i];
        if (member->key_length == 12 && !memcmp(member->key, "__metadata__", 12)) continue;
        struct tensor *tensor = &file->tensors[file->n_tensors];
        if (memchr(member->key, '\0', member->key_length))
            return error_set(err, ERROR_FORMAT, "%s: a tensor's name holds a NUL character", file->name);
        tensor->name = arena_copy(&file->arena, member->key, member->key_length);
        if (!tensor->name) return error_memory(err, file->name);
        if (!json_is_object(&member->value)) return tensor_error(file, tensor, err, "is not described by an object");
        tensor->file = file;
        tensor->dtype = dtype_from_name(json_get(&member->value, "dtype"));
        if (!json_is_string(json_get(&member->value, "dtype"))) return tensor_error(file, tensor, err, "has no dtype");
        if (!read_shape(file, tensor, json_get(&member->value, "shape"), err) ||
            !read_extent(file, tensor, json_get(&member->value, "data_offsets"), (size_t)header_bytes + 8, err))
            return false;
        file->n_tensors++;
    }
    return refuse_overlaps(file, err);
}

bool safetensors_open(struct safetensors *file, const char *folder, const char *name, struct mx_error *err) {
    *file = (struct safetensors){.map.slot = -1};
    file->name = arena_copy(&file->arena, name, strlen(name));
    char *path = path_join(&file->arena, folder, name);
    bool ok =
        file->name && path ? file_map_open(&file->map, path, err) && read_header(file, err) : error_memory(err, name);
    if (!ok) safetensors_close(file);
    return ok;
}

void safetensors_close(struct safetensors *file) {
    file_map_close(&file->map);
    arena_free(&file->arena);
    *file = (struct safetensors){.map.slot = -1};
}
