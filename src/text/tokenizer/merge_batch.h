/* SPDX-License-Identifier: Apache-2.0 */
/* Merges given as text, a few at a time: half a million of them take three look-ups each in tables that no cache holds,
 * so memory is asked for ahead. */
#ifndef MLXCEL_TEXT_MERGE_BATCH_H
#define MLXCEL_TEXT_MERGE_BATCH_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdint.h>

struct tokenizer;

struct merge_text {
    const char *left, *right;
    size_t left_length, right_length;
};

enum { MERGE_BATCH = 32 };

/* Start from {.t = tokenizer}, whose model is prepared. */
struct merge_batch {
    struct tokenizer *t;
    struct merge_text merges[MERGE_BATCH];
    size_t count;
    uint32_t rank;        /* of the first of them */
    struct buffer joined; /* their results, one after the other */
};

/* The text must last until the batch is finished. Ranks rise from call to call. */
bool merge_batch_add(struct merge_batch *batch, const struct merge_text *merge, struct mx_error *err);
/* Adds what waits (if ok so far) and frees the batch. */
bool merge_batch_finish(struct merge_batch *batch, bool ok, struct mx_error *err);

#endif
