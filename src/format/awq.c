/* SPDX-License-Identifier: Apache-2.0 */
#include "format/awq.h"

#include "base/half.h"

#include <string.h>

static const unsigned shifts[8] = {0, 16, 4, 20, 8, 24, 12, 28};

static bool wrong(const struct tensor *tensor, const char *expected, struct mx_error *err) {
    char shape[160];
    return error_set(err, ERROR_FORMAT, "%s: tensor '%s' is %s %s, expected %s", tensor->file->name, tensor->name,
                     dtype_name(tensor->dtype), tensor_shape_text(tensor, shape, sizeof shape), expected);
}

static uint32_t read_word(const struct tensor *tensor, uint64_t index) {
    uint32_t word;
    memcpy(&word, tensor->data + 4 * index, 4);
    return word;
}

/* The number at row r and column c of packed columns. */
static unsigned packed_at(const struct tensor *tensor, uint64_t r, uint64_t c) {
    return read_word(tensor, r * tensor->shape[1] + c / 8) >> shifts[c % 8] & 15;
}

static uint16_t half_at(const struct tensor *tensor, uint64_t r, uint64_t c) {
    uint16_t half;
    memcpy(&half, tensor->data + 2 * (r * tensor->shape[1] + c), 2);
    return half;
}

static bool check(const struct tensor *qweight, const struct tensor *qzeros, const struct tensor *scales,
                  struct mx_error *err) {
    if (qweight->dtype != DTYPE_I32 || qweight->n_dims != 2 || !qweight->shape[0] || qweight->shape[0] % 8 ||
        !qweight->shape[1])
        return wrong(qweight, "I32 [in, out / 8]", err);
    uint64_t n_in = qweight->shape[0], n_out = qweight->shape[1] * 8;
    if (scales->dtype != DTYPE_F16 || scales->n_dims != 2 || scales->shape[1] != n_out || !scales->shape[0] ||
        n_in % scales->shape[0])
        return wrong(scales, "F16 [in / group, out]", err);
    if (qzeros->dtype != DTYPE_I32 || qzeros->n_dims != 2 || qzeros->shape[0] != scales->shape[0] ||
        qzeros->shape[1] != qweight->shape[1])
        return wrong(qzeros, "I32 [in / group, out / 8]", err);
    return true;
}

/* A tensor like `source` with rows and columns of its own, and room for its data. */
static bool make(struct arena *arena, const struct tensor *source, enum dtype dtype, uint64_t rows, uint64_t cols,
                 struct tensor *out, unsigned char **data) {
    *out = *source;
    out->dtype = dtype;
    out->shape[0] = rows;
    out->shape[1] = cols;
    out->bytes = (size_t)(rows * cols) * dtype_bytes(dtype); /* of the size of the source */
    out->data = *data = arena_calloc(arena, out->bytes, 1);
    return *data != NULL;
}

static void repack_codes(const struct tensor *qweight, unsigned char *codes) {
    uint64_t n_in = qweight->shape[0], n_out = qweight->shape[1] * 8;
    for (uint64_t o = 0; o < n_out; o++)
        for (uint64_t k = 0; k < n_in; k += 8) {
            uint32_t word = 0;
            for (unsigned j = 0; j < 8; j++) word |= packed_at(qweight, k + j, o) << 4 * j;
            memcpy(codes + (o * (n_in / 8) + k / 8) * 4, &word, 4);
        }
}

bool awq_repack(struct arena *arena, const struct tensor *qweight, const struct tensor *qzeros,
                const struct tensor *scales, struct awq_tensors *out, struct mx_error *err) {
    unsigned char *codes, *new_scales, *biases;
    if (!check(qweight, qzeros, scales, err)) return false;
    uint64_t n_in = qweight->shape[0], n_out = qweight->shape[1] * 8, groups = scales->shape[0];
    if (!make(arena, qweight, DTYPE_U32, n_out, n_in / 8, &out->codes, &codes) ||
        !make(arena, scales, DTYPE_F16, n_out, groups, &out->scales, &new_scales) ||
        !make(arena, qzeros, DTYPE_F16, n_out, groups, &out->biases, &biases))
        return error_memory(err, qweight->name);
    repack_codes(qweight, codes);
    for (uint64_t o = 0; o < n_out; o++)
        for (uint64_t g = 0; g < groups; g++) {
            uint16_t scale = half_at(scales, g, o);
            uint16_t bias = f32_to_f16(-(float)packed_at(qzeros, g, o) * f16_to_f32(scale));
            memcpy(new_scales + 2 * (o * groups + g), &scale, 2);
            memcpy(biases + 2 * (o * groups + g), &bias, 2);
        }
    return true;
}
