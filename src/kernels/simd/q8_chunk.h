/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks of Q8_LANES blocks of a weight row: where their codes, scales and biases lie, the scales as vectors with a block
 * in each lane, and the last chunk of a row, which may be short. A file that includes this has included its tier's
 * q8_vec.h. */
#ifndef MLXCEL_KERNELS_SIMD_Q8_CHUNK_H
#define MLXCEL_KERNELS_SIMD_Q8_CHUNK_H

#include "kernels/simd/q8_kinds.h"

#include <string.h>

struct q8_chunk {
    const unsigned char *codes, *scales, *biases;
};

/* The first chunk of row o. */
Q8_INLINE struct q8_chunk q8_row_start(enum weight_format format, const struct weight_rows *w, uint32_t o) {
    struct q8_chunk chunk = {w->codes + (size_t)o * w->row_bytes, w->scales, w->biases};
    if (format != WEIGHT_TERNARY) chunk.scales += (size_t)o * w->scale_row_bytes;
    if (q8_is_affine(format)) chunk.biases += (size_t)o * w->scale_row_bytes;
    return chunk;
}

/* Scales or biases of a chunk's blocks, one vector for each group of a block. */
Q8_INLINE void q8_scales(enum weight_format format, int groups, const struct weight_rows *w, const unsigned char *p,
                         q8_floats out[4]) {
    if (format == WEIGHT_TERNARY)
        out[0] = v_splat(w->tensor_scale);
    else if (format == WEIGHT_MXFP4)
        scales_mxfp4(p, out);
    else if (format == WEIGHT_NVFP4)
        scales_nvfp4(p, out);
    else if (groups == 2)
        scales_two(w->scale_dtype, p, out);
    else if (w->group == 128)
        out[0] = scales_half(w->scale_dtype, p);
    else
        out[0] = scales_one(w->scale_dtype, p);
}

/* Room for a chunk, with zeros after what the row has. */
struct q8_chunk_copy {
    unsigned char codes[Q8_LANES * 64], scales[Q8_LANES * 16], biases[Q8_LANES * 16];
};

/* Vectors are loaded whole: where the last chunk of row o, n blocks from `block` on, would be read past the end of the
 * tensor or of the row's last block, it is copied first. */
Q8_INLINE struct q8_chunk q8_last_chunk(enum weight_format format, int groups, const struct weight_rows *w, uint32_t o,
                                        uint32_t block, uint32_t n, struct q8_chunk chunk, struct q8_chunk_copy *copy) {
    size_t rows_after = w->n_rows - 1 - o, scale_bytes = q8_scale_bytes(w, groups, n);
    if (w->n_cols % 64 == 0 && rows_after * w->scale_row_bytes + scale_bytes >= q8_scale_bytes(w, groups, Q8_LANES))
        return chunk;
    size_t columns = w->n_cols - (size_t)block * 64;
    memset(copy, 0, sizeof *copy);
    memcpy(copy->codes, chunk.codes, format == WEIGHT_TERNARY ? columns : q8_block_bytes(format) * columns / 64);
    chunk.codes = copy->codes;
    if (format == WEIGHT_TERNARY) return chunk;
    scale_bytes = (columns + w->group - 1) / w->group * dtype_bytes(w->scale_dtype);
    memcpy(copy->scales, chunk.scales, scale_bytes);
    chunk.scales = copy->scales;
    if (!q8_is_affine(format)) return chunk;
    memcpy(copy->biases, chunk.biases, scale_bytes);
    chunk.biases = copy->biases;
    return chunk;
}

Q8_INLINE const char *job_x(const struct matmul_job *job, uint32_t r) {
    return (const char *)job->x + (size_t)(job->x_ids ? job->x_ids[r] : r) * job->x_row_bytes;
}

Q8_INLINE float *job_y(const struct matmul_job *job, uint32_t r) {
    return job->y + (size_t)(job->y_ids ? job->y_ids[r] : r) * job->y_stride;
}

#endif
