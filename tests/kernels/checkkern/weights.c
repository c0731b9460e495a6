/* SPDX-License-Identifier: Apache-2.0 */
/* Random weights of every format, and the checks of matrix products and dequantisation. */
#include "tests/kernels/checkkern/check.h"

#include "base/half.h"

#include <math.h>
#include <string.h>

/* ---- weights ---- */

bool check_weight_kind(struct weights_case *w, unsigned index) {
    static const enum dtype float_dtypes[] = {DTYPE_F16, DTYPE_BF16, DTYPE_F32};
    static const uint32_t groups[] = {64, 32, 128};
    switch (w->format) {
    case WEIGHT_MXFP4:
    case WEIGHT_MXFP8: w->group = 32, w->scale_dtype = DTYPE_U8; return index < 1;
    case WEIGHT_NVFP4: w->group = 16, w->scale_dtype = DTYPE_F8_E4M3; return index < 1;
    case WEIGHT_E4M3: w->group = 128, w->scale_dtype = float_dtypes[index % 3]; return index < 3;
    case WEIGHT_F32:
    case WEIGHT_F16:
    case WEIGHT_BF16:
    case WEIGHT_TERNARY: w->group = 0, w->scale_dtype = DTYPE_F32; return index < 1;
    default: w->group = groups[index / 3 % 3], w->scale_dtype = float_dtypes[index % 3]; return index < 9;
    }
}

uint32_t check_column_step(const struct weights_case *w) {
    return w->format == WEIGHT_E4M3 || !w->group ? 1 : w->group;
}

static void put_float(enum dtype dtype, unsigned char *at, size_t index, float value) {
    uint16_t half = dtype == DTYPE_F16 ? f32_to_f16(value) : f32_to_bf16(value);
    if (dtype == DTYPE_F32)
        memcpy(at + 4 * index, &value, 4);
    else
        memcpy(at + 2 * index, &half, 2);
}

static unsigned char random_e4m3(struct check *c, enum values values) {
    unsigned char code = (unsigned char)check_random(c, 256);
    bool is_nan = (code & 0x7f) == 0x7f, may_be_nan = values == VALUES_SPECIAL && check_random(c, 8) == 0;
    return is_nan && !may_be_nan ? code & 0x80 : code;
}

static void put_scale(struct check *c, const struct weights_case *w, unsigned char *at, size_t index) {
    enum values values = w->values;
    float value = check_value(c, values == VALUES_SPECIAL ? VALUES_PLAIN : values);
    switch (w->scale_dtype) {
    case DTYPE_U8:
        at[index] = (unsigned char)(values == VALUES_TINY ? check_random(c, 20) : 110 + check_random(c, 34));
        if (values == VALUES_HUGE || (values == VALUES_SPECIAL && !check_random(c, 9)))
            at[index] = (unsigned char)(230 + check_random(c, 26));
        break;
    case DTYPE_F8_E4M3: at[index] = random_e4m3(c, values); break;
    default:
        if (w->scale_dtype == DTYPE_F16 && (values == VALUES_WIDE || values == VALUES_TINY))
            value = ldexpf(check_value(c, VALUES_PLAIN), (int)check_random(c, 28) - 26);
        if (values == VALUES_SPECIAL && !check_random(c, 40)) value = check_random(c, 2) ? INFINITY : NAN;
        put_float(w->scale_dtype, at, index, value);
    }
}

static void put_codes(struct check *c, const struct weights_case *w, unsigned char *row, size_t row_bytes) {
    uint32_t special = w->values == VALUES_SPECIAL && !check_random(c, 4) ? check_random(c, w->n_cols) : UINT32_MAX;
    switch (w->format) {
    case WEIGHT_F32:
    case WEIGHT_F16:
    case WEIGHT_BF16:
        for (uint32_t k = 0; k < w->n_cols; k++) {
            enum dtype dtype = weight_formats[w->format].code_dtype;
            float value = check_value(c, w->values == VALUES_SPECIAL ? VALUES_PLAIN : w->values);
            if (dtype == DTYPE_F16 && w->values == VALUES_TINY)
                value = ldexpf(check_value(c, VALUES_PLAIN), -14 - (int)check_random(c, 12));
            put_float(dtype, row, k, k == special ? NAN : value);
        }
        break;
    case WEIGHT_MXFP8:
    case WEIGHT_E4M3:
        for (size_t k = 0; k < row_bytes; k++) row[k] = random_e4m3(c, w->values);
        break;
    default: check_bytes(c, row, row_bytes);
    }
}

void check_weights(struct check *c, const struct weights_case *w, struct weight_rows *rows) {
    uint32_t stretch = w->stretch ? w->stretch : 1;
    size_t groups = w->group ? (w->n_cols + w->group - 1) / w->group : 0;
    size_t row_bytes = ((size_t)w->n_cols * (size_t)weight_formats[w->format].bits + 7) / 8;
    if (w->format == WEIGHT_TERNARY) row_bytes = w->n_cols;
    size_t scale_bytes = groups * dtype_bytes(w->scale_dtype), all_rows = (size_t)(w->n_rows - 1) * stretch + 1;
    bool shares_scales = w->format == WEIGHT_E4M3;
    size_t codes_bytes = all_rows * row_bytes, scales_bytes = (shares_scales ? 1 : all_rows) * scale_bytes;
    size_t shift = check_random(c, 2) ? check_random(c, 4) : 0; /* tensors lie at any alignment */
    *rows = (struct weight_rows){.format = w->format,
                                 .scale_dtype = w->scale_dtype,
                                 .n_rows = w->n_rows,
                                 .n_cols = w->n_cols,
                                 .group = w->group,
                                 .shift = 2 * check_random(c, 4),
                                 .row_bytes = row_bytes * stretch,
                                 .tensor_scale = check_value(c, VALUES_PLAIN),
                                 .scale_row_bytes = shares_scales ? 0 : scale_bytes * stretch};
    unsigned char *codes = check_room(c, codes_bytes + shift);
    for (size_t r = 0; r < all_rows; r++) put_codes(c, w, codes + r * row_bytes, row_bytes);
    rows->codes = codes;
    if (!groups) return;
    unsigned char *scales = check_room(c, scales_bytes + shift), *biases = NULL;
    if (weight_formats[w->format].has_biases) biases = check_room(c, scales_bytes + shift);
    size_t n = scales_bytes / dtype_bytes(w->scale_dtype);
    for (size_t i = 0; i < n; i++) put_scale(c, w, scales, i);
    for (size_t i = 0; i < n && biases; i++) put_scale(c, w, biases, i);
    rows->scales = scales;
    rows->biases = biases;
}

void *check_activations(struct check *c, enum activation_form form, enum values values, uint32_t n_rows,
                        uint32_t n_cols) {
    size_t row_bytes = activation_row_bytes(form, n_cols);
    unsigned char *all = check_room(c, n_rows * row_bytes);
    for (uint32_t r = 0; r < n_rows; r++) {
        unsigned room = c->next_room;
        const float *x = check_values(c, values, n_cols);
        c->next_room = room;
        if (form == ACTIVATION_F32)
            c->ref->to_f32(x, n_cols, all + r * row_bytes);
        else if (form == ACTIVATION_BF16)
            c->ref->to_bf16(x, n_cols, all + r * row_bytes);
        else
            c->ref->to_q8(x, n_cols, form, all + r * row_bytes);
    }
    return all;
}

/* ---- products ---- */

struct shape {
    uint32_t n_rows, n_steps, n_x; /* weight rows; columns in steps of the format; activation rows */
};

/* Columns are n_steps times the group, or n_steps times 16 plus something where a format takes any number. */
static const struct shape shapes[] = {
    {1, 1, 1},   {1, 3, 2},   {2, 2, 1},    {3, 5, 3},   {4, 4, 4},  {5, 1, 7},    {7, 9, 5},
    {8, 2, 8},   {9, 7, 1},   {15, 3, 6},   {16, 8, 2},  {17, 5, 9}, {24, 4, 10},  {31, 2, 12},
    {33, 6, 13}, {48, 3, 3},  {63, 2, 17},  {64, 4, 16}, {65, 3, 1}, {70, 5, 2},   {100, 2, 4},
    {130, 1, 5}, {32, 3, 33}, {12, 2, 70},  {64, 1, 64}, {6, 33, 3}, {35, 17, 11}, {11, 40, 1},
    {256, 2, 1}, {3, 65, 24}, {50, 18, 40}, {2, 130, 8}, {3, 15, 2}, {2, 31, 9},   {9, 47, 40},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static uint32_t columns(struct check *c, const struct weights_case *w, uint32_t n_steps) {
    uint32_t step = check_column_step(w);
    if (step >= 128 && n_steps > 10) n_steps = 5 + n_steps % 5;
    if (step > 1) return step * n_steps;
    return n_steps * 16 + (check_random(c, 3) ? check_random(c, 32) : 0);
}

/* A random choice of n of `of` rows, each at most once. */
static uint32_t *choose(struct check *c, uint32_t n, uint32_t of) {
    uint32_t *all = check_room(c, of * sizeof *all);
    for (uint32_t i = 0; i < of; i++) all[i] = i;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t other = i + check_random(c, of - i), id = all[i];
        all[i] = all[other];
        all[other] = id;
    }
    return all;
}

typedef void (*matmul_function)(const struct matmul_job *job);

/* Both tables' products of the same weights and activations; y lies apart, gathered or in strange places. */
static void compare_products(struct check *c, const struct weight_rows *rows, const void *x, enum activation_form form,
                             uint32_t n_x, matmul_function ref, matmul_function other) {
    bool gathers = check_random(c, 2), scatters = check_random(c, 2), far_apart = scatters && check_random(c, 2);
    struct matmul_job job = {.weights = rows,
                             .x = x,
                             .x_row_bytes = activation_row_bytes(form, rows->n_cols),
                             .n_rows = gathers ? n_x - check_random(c, n_x) : n_x};
    job.y_stride = rows->n_rows + (check_random(c, 2) ? check_random(c, 50) : 0);
    uint32_t y_rows = scatters ? job.n_rows + 3 : job.n_rows;
    size_t y_floats = (y_rows - 1) * job.y_stride + rows->n_rows, scratch_bytes = matmul_scratch_bytes(rows->n_cols);
    if (gathers) job.x_ids = choose(c, job.n_rows, n_x);
    if (scatters) {
        uint32_t *ids = choose(c, job.n_rows, y_rows);
        if (far_apart)
            for (uint32_t r = 0; r < job.n_rows; r++) ids[r] *= (uint32_t)job.y_stride;
        job.y_ids = ids;
    }
    if (far_apart) job.y_stride = 1; /* as experts place their results */
    job.scratch = check_room(c, scratch_bytes);
    memset(job.scratch, 0xff, scratch_bytes);
    job.y = check_values(c, VALUES_PLAIN, (uint32_t)y_floats);
    float *y_ref = job.y;
    ref(&job);
    job.y = check_copy(c, y_ref, y_floats * sizeof *y_ref);
    /* what ref has not written stays as it was: start the other from ref's result with the outputs spoilt */
    for (uint32_t r = 0; r < job.n_rows; r++)
        memset(job.y + (job.y_ids ? job.y_ids[r] : r) * job.y_stride, 0xaa, rows->n_rows * sizeof *job.y);
    memset(job.scratch, 0xff, scratch_bytes);
    other(&job);
    check_same_f32(c, "y", y_ref, job.y, y_floats);
}

static void check_products(struct check *c, int id, enum weight_format format, enum activation_form form,
                           bool is_exact) {
    struct weights_case w = {.format = format};
    for (unsigned kind = 0; check_weight_kind(&w, kind); kind++)
        for (unsigned i = kind; i < N_SHAPES * 2; i += kind ? 3 : 1) {
            const struct shape *shape = &shapes[i % N_SHAPES];
            w.values = i < N_SHAPES ? (enum values)(i % VALUES_BITS) : VALUES_PLAIN;
            w.n_rows = shape->n_rows;
            w.n_cols = columns(c, &w, shape->n_steps);
            w.stretch = check_random(c, 4) ? 1 : 2;
            check_case(c, "%s %s, group %u, scales %s, rows %u, columns %u, activations %u, %s values", kernel_name(id),
                       weight_formats[format].name, w.group, dtype_name(w.scale_dtype), w.n_rows, w.n_cols, shape->n_x,
                       values_names[w.values]);
            struct weight_rows rows;
            check_weights(c, &w, &rows);
            const void *x =
                check_activations(c, form, check_random(c, 3) ? w.values : VALUES_PLAIN, shape->n_x, w.n_cols);
            compare_products(c, &rows, x, form, shape->n_x, is_exact ? c->ref->matmul_exact : c->ref->matmul[format],
                             is_exact ? c->other->matmul_exact : c->other->matmul[format]);
        }
}

/* Sums that end just below the smallest normal number: first 2^-126, then a little less is taken away. Whether such a
 * result is flushed to zero is decided after its rounding. */
static void check_flush_border(struct check *c) {
    enum { N_COLS = 64, N_ROWS = 50 };
    struct weight_rows rows = {.format = WEIGHT_BF16, .n_rows = N_ROWS, .n_cols = N_COLS, .row_bytes = 2 * N_COLS};
    for (int i = 0; i < 20; i++) {
        check_case(c, "matmul bf16, results at the smallest normal number");
        uint16_t *codes = check_room(c, N_ROWS * N_COLS * sizeof *codes), *x = check_room(c, N_COLS * sizeof *x);
        for (uint32_t k = 0; k < N_COLS; k++) x[k] = f32_to_bf16(k & 1 ? 0x1p-63f : 0x1p-75f);
        for (uint32_t k = 0; k < N_COLS * N_ROWS; k++)
            codes[k] = k % N_COLS >= 32
                           ? 0
                           : f32_to_bf16(k & 1 ? 0x1p-63f : -ldexpf(fabsf(check_value(c, VALUES_PLAIN)), -76));
        rows.codes = (const unsigned char *)codes;
        compare_products(c, &rows, x, ACTIVATION_BF16, 1, c->ref->matmul[WEIGHT_BF16], c->other->matmul[WEIGHT_BF16]);
    }
}

void check_matmul(struct check *c, int id) {
    enum weight_format format = (enum weight_format)(id - KERNEL_matmul);
    check_products(c, id, format, matmul_activation_form(format), false);
    if (format == WEIGHT_BF16 && c->other->tier[id] != TIER_NEON) check_flush_border(c);
}

void check_matmul_exact(struct check *c, int id) {
    for (enum weight_format format = 0; format < N_WEIGHT_FORMATS; format++)
        check_products(c, id, format, ACTIVATION_F32, true);
}

void check_dequantize_row(struct check *c, int id) {
    for (enum weight_format format = 0; format < N_WEIGHT_FORMATS; format++) {
        struct weights_case w = {.format = format};
        for (unsigned kind = 0; check_weight_kind(&w, kind); kind++)
            for (unsigned i = 0; i < 120; i++) {
                uint32_t step = check_column_step(&w);
                w.values = i % VALUES_BITS;
                w.n_rows = 1 + check_random(c, 4);
                w.n_cols = step * (1 + check_random(c, step > 1 ? 256 / step : 300));
                check_case(c, "%s %s, group %u, scales %s, rows %u, columns %u, %s values", kernel_name(id),
                           weight_formats[format].name, w.group, dtype_name(w.scale_dtype), w.n_rows, w.n_cols,
                           values_names[w.values]);
                struct weight_rows rows;
                check_weights(c, &w, &rows);
                float *ref = check_values(c, VALUES_PLAIN, w.n_cols), *other = check_values(c, VALUES_PLAIN, w.n_cols);
                for (uint32_t row = 0; row < w.n_rows; row++) {
                    c->ref->dequantize_row(&rows, row, ref);
                    c->other->dequantize_row(&rows, row, other);
                    check_same_f32(c, "out", ref, other, w.n_cols);
                }
            }
    }
}
