/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of checkkern share: a comparison of one kernel of one table with ref's, its random values, and memory
 * that ends where it may not be touched.
 *
 * A check is a function that runs the kernel many times in both tables on equal input and compares everything that it
 * may have written, bit for bit (any NaN equals any NaN). Buffers come from check_room: each ends at a page without
 * access, so that a kernel that reads or writes past the end of a row dies there and then. */
#ifndef MLXCEL_TESTS_CHECKKERN_H
#define MLXCEL_TESTS_CHECKKERN_H

#include "kernels/kernels.h"

#include <setjmp.h>

struct check {
    const struct kernels *ref, *other;
    uint64_t random;
    unsigned long n_compared, n_different;
    jmp_buf *first_difference; /* where to go at the first difference; NULL = go on and count */
    unsigned next_room;
    char label[200]; /* of the running case */
    char note[400];  /* the first difference */
};

typedef void (*check_function)(struct check *c, int id);

void check_to_f32(struct check *c, int id);
void check_to_bf16(struct check *c, int id);
void check_to_q8(struct check *c, int id);
void check_dequantize_row(struct check *c, int id);
void check_dot(struct check *c, int id);
void check_rms_norm(struct check *c, int id);
void check_layer_norm(struct check *c, int id);
void check_two_rows(struct check *c, int id);   /* add, multiply */
void check_one_row(struct check *c, int id);    /* scale, add_scaled, softcap, ... */
void check_shaped_row(struct check *c, int id); /* grid, xielu */
void check_unary(struct check *c, int id);
void check_gated(struct check *c, int id);
void check_softmax(struct check *c, int id);
void check_rope(struct check *c, int id);
void check_rope_angles(struct check *c, int id);
void check_kv_store(struct check *c, int id);
void check_index_scores(struct check *c, int id);
void check_attention(struct check *c, int id);
void check_conv(struct check *c, int id);
void check_mamba2(struct check *c, int id);
void check_mamba1(struct check *c, int id);
void check_lru(struct check *c, int id);
void check_dplr(struct check *c, int id);
void check_delta(struct check *c, int id);
void check_row_load(struct check *c, int id);
void check_row_maxima(struct check *c, int id);
void check_row_weights(struct check *c, int id);
void check_row_split(struct check *c, int id);
void check_row_find(struct check *c, int id);
void check_row_keep(struct check *c, int id);
void check_matmul(struct check *c, int id);
void check_matmul_exact(struct check *c, int id);

/* ---- random values ---- */

enum values {
    VALUES_PLAIN,   /* within [-2, 2) */
    VALUES_WIDE,    /* exponents -40 to 40 */
    VALUES_TINY,    /* denormal to 2^-50, and zeros */
    VALUES_HUGE,    /* 2^50 to the largest */
    VALUES_EDGE,    /* 2^-66 to 2^-58: products near the smallest normal number */
    VALUES_ZERO,    /* zeros of both signs */
    VALUES_SPECIAL, /* plain, and often an infinity, a NaN or a zero at one place */
    VALUES_BITS,    /* any bits */
    N_VALUES,
};

extern const char *const values_names[N_VALUES];

uint32_t check_random(struct check *c, uint32_t below);
float check_value(struct check *c, enum values values);
/* n values in a room of their own. */
float *check_values(struct check *c, enum values values, uint32_t n);
/* Fills any memory with random bytes. */
void check_bytes(struct check *c, void *memory, size_t bytes);

/* ---- memory ---- */

/* Starts a case: all rooms are free again; the text names the case in messages. */
void check_case(struct check *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Memory for this case, which ends at a page without access. Its content is that of an earlier case. */
void *check_room(struct check *c, size_t bytes);
void *check_copy(struct check *c, const void *memory, size_t bytes);
/* Reserves the memory; false when there is none. Also arranges for the label of the running case to be printed when a
 * kernel touches memory that is not its own. */
bool check_memory_init(struct check *c);

/* ---- comparison ---- */

void check_same_f32(struct check *c, const char *what, const float *ref, const float *other, size_t n);
void check_same_f16(struct check *c, const char *what, const uint16_t *ref, const uint16_t *other, size_t n);
void check_same_bf16(struct check *c, const char *what, const uint16_t *ref, const uint16_t *other, size_t n);
void check_same_bytes(struct check *c, const char *what, const void *ref, const void *other, size_t n);

/* ---- weights and activations (weights.c) ---- */

/* A random run of rows. stretch > 1 leaves as many rows between two of them. */
struct weights_case {
    enum weight_format format;
    enum dtype scale_dtype;
    uint32_t n_rows, n_cols, group, stretch;
    enum values values;
};

void check_weights(struct check *c, const struct weights_case *w, struct weight_rows *rows);
/* Number `index` of the kinds of scales (group, dtype) that a format has; false when there are no more. */
bool check_weight_kind(struct weights_case *w, unsigned index);
/* Columns that a row of the format must be a multiple of. */
uint32_t check_column_step(const struct weights_case *w);
/* n_rows rows in a form, made by ref. */
void *check_activations(struct check *c, enum activation_form form, enum values values, uint32_t n_rows,
                        uint32_t n_cols);

/* ---- other parts ---- */

/* A table like ref's whose entry `id` gives a result whose last bit is wrong (mutants.c). */
void mutant_table(struct kernels *table, const struct kernels *ref, int id);
/* Software fma against the processor's or the C library's: number of differences (fused.c). */
unsigned long fused_differences(uint64_t seed, unsigned long n, char *note, size_t room);
/* Timing of all kernels whose name contains the pattern; exit status (bench.c). */
int bench_main(const char *pattern, const char *tier_name, int n_threads, bool processor_time);

#endif
