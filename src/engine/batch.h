/* SPDX-License-Identifier: Apache-2.0 */
/* Step assembly: tokens of several sequences become the rows and spans of one step. */
#ifndef MLXCEL_ENGINE_BATCH_H
#define MLXCEL_ENGINE_BATCH_H

#include "engine/sequence.h"

enum outputs { OUTPUT_NONE, OUTPUT_LAST, OUTPUT_ALL };

struct batch {
    struct model *model;
    struct step step;
    struct step_row *rows;       /* [max_rows] */
    struct step_span *spans;     /* [max_rows] */
    struct sequence **sequences; /* [max_rows] of each span */
    uint32_t *outputs;           /* [max_outputs] */
    uint32_t *kept;              /* [max_rows] rows of each span that become part of its sequence */
};

bool batch_init(struct batch *batch, struct model *model, struct mx_error *err);
void batch_free(struct batch *batch);

/* Rows and outputs that still fit. */
uint32_t batch_room(const struct batch *batch);
uint32_t batch_output_room(const struct batch *batch);

/* Adds n tokens of a sequence as one span. rope_length is the length of the request's whole prompt (for ropes that depend
 * on it). A sequence may appear once in a batch. Outputs are numbered in the order of their rows; *first_output (may be
 * NULL) receives the number of the span's first one. False when rows, outputs, pages or slots do not suffice; the batch
 * is then unchanged. */
bool batch_add(struct batch *batch, struct sequence *sequence, const uint32_t *tokens, uint32_t n, uint32_t rope_length,
               enum outputs outputs, uint32_t *first_output);

/* n tokens that see one another in both directions, as one span. */
struct block_rows {
    const uint32_t *tokens;
    uint32_t n;
    bool is_canvas;          /* being denoised: see struct step_row */
    const float *conditions; /* [n][hidden_size] or NULL */
    bool is_kept;            /* the cells become part of the sequence; else it stays as it was */
};

bool batch_add_block(struct batch *batch, struct sequence *sequence, const struct block_rows *block,
                     uint32_t rope_length, enum outputs outputs, uint32_t *first_output);

/* Runs the step and commits its cells; the batch is empty again, results stay readable until the next run. taps as in
 * struct step. */
void batch_run(struct batch *batch, float *const *taps);

/* The final norm of output i of the last run, [hidden_size]. */
const float *batch_hidden(const struct batch *batch, uint32_t output);

/* Logits of output i of the last run, [vocab_size]. */
const float *batch_logits(const struct batch *batch, uint32_t output);

#endif
