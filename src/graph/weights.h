/* SPDX-License-Identifier: Apache-2.0 */
/* Weight requests and where they are met: a checkpoint, or shapes only.
 *
 * A model's description asks for weights by module name, shape and role. With a checkpoint the request is bound to
 * tensors, whatever names and layout the file has: a request lists alternatives, separated by '|', and wrapper prefixes
 * (language_model. and the like) are found by themselves. Without one ("shapes only") every request is met with a matrix
 * that lies nowhere, in the format that the config promises; parameter counts and memory plans come from that. */
#ifndef MLXCEL_GRAPH_WEIGHTS_H
#define MLXCEL_GRAPH_WEIGHTS_H

#include "format/checkpoint.h"
#include "format/config.h"
#include "format/matrix.h"

enum weight_role {
    ROLE_EMBEDDING,
    ROLE_ATTENTION,
    ROLE_MLP,
    ROLE_EXPERTS,
    ROLE_ROUTER,
    ROLE_RECURRENT,
    ROLE_HEAD,
    ROLE_NORM, /* norms, biases and other vectors */
    N_ROLES,
};

struct weight {
    const char *name; /* the tensor that it was bound to; the first alternative when shapes only */
    enum weight_role role;
    uint32_t n_rows, n_cols; /* a vector has n_rows = 1 */
    uint32_t n_experts;      /* 0 = one matrix */
    struct matrix *matrices; /* max(1, n_experts) of them; NULL for a vector */
    float *vector;           /* n_cols values, widened; NULL for matrices and when shapes only */
    bool is_repeat;          /* another weight has the same tensor, and its bytes */
    uint64_t stored_bytes;   /* of codes, scales and biases, or of the vector, as in the file */
    /* The tensor that holds it, for shape-only builders: rows in all (0 = n_rows), and of a convolution its taps. */
    uint32_t tensor_rows, taps;
    bool is_flat; /* n_experts matrices that are rows of one [rows, n_cols] tensor */
};

struct weights {
    const struct checkpoint *checkpoint; /* NULL = shapes only; borrowed */
    struct config *config;               /* borrowed */
    struct quantization quantization;    /* what the config says for modules without an entry of their own */
    const char *foreign_method;          /* a quantisation that is not read: NULL = none */
    uint32_t foreign_bits;               /* of a code, where the config says it; else 0 */
    const struct json *plain_modules;    /* patterns of modules that are not quantised, or NULL */
    bool is_awq;                         /* modules hold qweight, qzeros, scales */
    bool inverts_ternary;                /* the scale of ternary tensors divides */
    bool is_ternary;                     /* all matrices but embedding and head, when shapes only */
    enum dtype plain_dtype;              /* of unquantised tensors when shapes only */
    struct weight **list;
    size_t n, capacity;
    struct map transposed; /* name of a tensor -> index of its copy with rows and columns exchanged */
    struct tensor *copies;
    size_t n_copies, copies_capacity;
    bool is_repeat;  /* what is asked for now was asked for before: it counts once */
    struct map used; /* names of tensors that a request took */
    int wrapper;     /* the wrapper prefix that matched last */
    struct arena arena;
};

bool weights_init(struct weights *weights, const struct checkpoint *checkpoint, struct config *config,
                  struct mx_error *err);
/* "4bit-g64", "8bit-g32", "mxfp4", "mxfp8", "nvfp4", "bf16", "f16", "f32": a format by its command-line name. Plain formats
 * give group 0 and set *plain (may be NULL). */
bool quantization_from_name(const char *name, struct quantization *quantization, enum dtype *plain);
void weights_free(struct weights *weights);

/* A selection of a tensor's rows: with tensor_rows = 0 the tensor has just the rows asked for. Else rows first_row ..
 * in runs of run_rows, the runs run_step rows apart (run_rows = 0: one run). */
struct row_selection {
    uint32_t tensor_rows, first_row, run_rows, run_step;
};

/* One way in which a file may hold a matrix. */
struct matrix_source {
    const char *module; /* "self_attn.q_proj|attention.wq"; NULL ends a list */
    struct row_selection rows;
    bool is_transposed; /* the tensor is [n_cols, rows]; it is copied the right way round at load */
};

/* A matrix [n_rows, n_cols] of the module scope + "." + module; the first source that exists is taken. NULL with the
 * error set when there is none or its shape is wrong. */
struct weight *weights_matrix(struct weights *weights, const char *scope, const struct matrix_source *sources,
                              size_t n_sources, enum weight_role role, uint32_t n_rows, uint32_t n_cols,
                              struct mx_error *err);

/* n_experts matrices. A source whose module holds "%u" has one module for each expert; otherwise it is a stacked tensor
 * [n_experts, rows, n_cols], named with or without ".weight". */
struct weight *weights_experts(struct weights *weights, const char *scope, const struct matrix_source *sources,
                               size_t n_sources, uint32_t n_experts, uint32_t n_rows, uint32_t n_cols,
                               struct mx_error *err);

/* A matrix for each head, as n_experts of the result. A source with tensor_rows holds all heads in one [tensor_rows, n_cols]
 * tensor, head h's rows from first_row + h * run_step on; one without is stacked, [n_heads, n_rows, n_cols]. */
struct weight *weights_heads(struct weights *weights, const char *scope, const struct matrix_source *source,
                             uint32_t n_heads, uint32_t n_rows, uint32_t n_cols, struct mx_error *err);

/* A vector of n values: scope + "." + name, where name is a full tensor name ("input_layernorm.weight"). Rows are
 * selected as for matrices (selection may be NULL). */
struct weight *weights_vector(struct weights *weights, const char *scope, const char *names,
                              const struct row_selection *selection, uint32_t n, struct mx_error *err);

/* Brings the rows of a plain matrix to unit length, in a copy of its own type. Nothing for other formats. */
bool weights_unit_rows(struct weights *weights, struct matrix *matrix, struct mx_error *err);

/* Whether a tensor of one of the names exists. When shapes only: `fallback`. */
bool weights_has(struct weights *weights, const char *scope, const char *names, bool fallback);
/* The tensor of one of the names, or NULL; for layouts that are told by a shape. */
const struct tensor *weights_find(struct weights *weights, const char *scope, const char *names);

/* Visits the tensors of the checkpoint that no request took. */
void weights_unused(const struct weights *weights, void (*visit)(void *context, const struct tensor *tensor),
                    void *context);

#endif
