/* SPDX-License-Identifier: Apache-2.0 */
/* The "normalizer" of tokenizer.json: a list of steps, each of which rewrites the text. */
#ifndef MLXCEL_TEXT_NORMALIZER_H
#define MLXCEL_TEXT_NORMALIZER_H

#include "text/tokenizer/aligned.h"
#include "text/tokenizer/regex.h"

#include "base/arena.h"
#include "base/json.h"

struct normalizer_step;

struct normalizer {
    struct normalizer_step *steps; /* nested sequences are one list here */
    size_t n_steps, capacity;
};

/* Reads a normalizer (null = none). Strings it needs are copied into the arena. */
bool normalizer_load(struct normalizer *normalizer, const struct json *json, struct arena *arena, struct mx_error *err);
void normalizer_free(struct normalizer *normalizer);

/* Runs all steps over *text, with *spare as second buffer; the result is in *text. `start` is where the text begins in
 * the input. */
bool normalizer_apply(const struct normalizer *normalizer, struct regex_scratch *scratch, struct aligned *text,
                      struct aligned *spare, uint32_t start, struct mx_error *err);

#endif
