/* SPDX-License-Identifier: Apache-2.0 */
/* A weight matrix where it lies: format, codes, scales, and how rows are found.
 *
 *   affine B bits   codes: a row is a little-endian bit string, code j in bits j*B .. j*B+B-1; value = scale*code + bias,
 *                   one scale and one bias for each group of 32, 64 or 128 columns, f32, f16 or bf16
 *   mxfp4           codes: e2m1 nibbles, low nibble first; one e8m0 scale for 32 columns (OCP MX)
 *   mxfp8           codes: e4m3 bytes; one e8m0 scale for 32 columns
 *   nvfp4           codes: e2m1 nibbles; one e4m3 scale for 16 columns
 *   e4m3 block      codes: e4m3 bytes; one f32 or bf16 scale for a block of 128 x 128, the last blocks may be smaller
 *   ternary         codes: 2 bits, value = code - 1; one scale for the whole tensor. Row o of n lies in byte row
 *                   o mod n/4, bits 2*(o div n/4) of each byte (BitNet b1.58)
 *
 * Rows of a matrix may be a selection of a tensor's rows: runs of `run_rows` rows, the runs `run_step` file rows apart.
 * So a slice of a fused tensor, or every second row of an interleaved one, is a matrix like any other. */
#ifndef MLXCEL_FORMAT_MATRIX_H
#define MLXCEL_FORMAT_MATRIX_H

#include "format/safetensors.h"

enum weight_format {
    WEIGHT_F32,
    WEIGHT_F16,
    WEIGHT_BF16,
    WEIGHT_AFFINE2,
    WEIGHT_AFFINE3,
    WEIGHT_AFFINE4,
    WEIGHT_AFFINE5,
    WEIGHT_AFFINE6,
    WEIGHT_AFFINE8,
    WEIGHT_MXFP4,
    WEIGHT_MXFP8,
    WEIGHT_NVFP4,
    WEIGHT_E4M3,
    WEIGHT_TERNARY,
    N_WEIGHT_FORMATS,
};

struct weight_format_info {
    const char *name;      /* "affine-4" */
    int bits;              /* of one code */
    int group;             /* columns that share a scale; 0 = see the matrix */
    enum dtype code_dtype; /* of the tensor that holds the codes */
    bool has_biases;
};

extern const struct weight_format_info weight_formats[N_WEIGHT_FORMATS];

/* How a config says that modules are quantised. bits 0 = not quantised. */
struct quantization {
    enum weight_format format;
    uint32_t group;
};

struct matrix {
    enum weight_format format;
    enum dtype scale_dtype; /* of scales and biases; DTYPE_U8 = e8m0, DTYPE_F8_E4M3 for nvfp4 */
    uint32_t n_rows, n_cols;
    uint32_t group;      /* columns for one scale */
    uint32_t scale_rows; /* rows for one scale: 128 for e4m3 blocks, else 1 */
    uint32_t first_row, run_rows, run_step;
    const unsigned char *codes;
    size_t row_bytes; /* of codes */
    const unsigned char *scales;
    size_t scale_row_bytes;
    const unsigned char *biases; /* laid out like scales; NULL where the format has none */
    float tensor_scale;          /* ternary */
    uint32_t tensor_rows;        /* ternary: rows of the whole tensor */
};

/* A run of rows with constant strides: what kernels work on. */
struct weight_rows {
    enum weight_format format;
    enum dtype scale_dtype;
    uint32_t n_rows, n_cols, group;
    uint32_t shift; /* ternary: bit position in each byte */
    const unsigned char *codes;
    size_t row_bytes;
    const unsigned char *scales;
    size_t scale_row_bytes; /* 0 where all rows of the run share one row of scales */
    const unsigned char *biases;
    float tensor_scale;
};

/* The longest run that starts at `row` and has at most `n` rows; run->n_rows >= 1 for row < n_rows. */
void matrix_run(const struct matrix *matrix, uint32_t row, uint32_t n, struct weight_rows *run);

/* Describes [n_rows, n_cols] in the tensors of one module; `expert` >= 0 takes that slice of stacked [E, ..] tensors.
 * scales and biases may be NULL. The shapes decide about bits and group; `hint` (may be NULL) is what the config says and
 * appears in messages. Errors name file, tensor, expected and found shape. */
bool matrix_from_tensors(struct matrix *matrix, const struct tensor *codes, const struct tensor *scales,
                         const struct tensor *biases, uint32_t n_rows, uint32_t n_cols, int64_t expert,
                         const struct quantization *hint, struct mx_error *err);

/* A matrix of that format and shape that lies nowhere, as shape-only builders need it. */
void matrix_shape_only(struct matrix *matrix, enum weight_format format, uint32_t group, enum dtype scale_dtype,
                       uint32_t n_rows, uint32_t n_cols);

/* Restricts the matrix to rows of it: `n_rows` of them in runs of run_rows, run_step apart, from first_row on. */
void matrix_select_rows(struct matrix *matrix, uint32_t first_row, uint32_t n_rows, uint32_t run_rows,
                        uint32_t run_step);

/* Bytes of codes, and of scales and biases, that a product with the matrix reads. */
uint64_t matrix_code_bytes(const struct matrix *matrix);
uint64_t matrix_scale_bytes(const struct matrix *matrix);

/* Widens a vector (any shape, f32, f16, bf16, or i64 as tables of numbers) to f32; out has room for n elements, which must be its size. */
bool vector_widen(const struct tensor *tensor, uint64_t n, float *out, struct mx_error *err);

#endif
