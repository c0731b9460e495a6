/* SPDX-License-Identifier: Apache-2.0 */
/* The "pre_tokenizer" of tokenizer.json: a list of steps, each of which cuts every piece of a text into smaller ones;
 * Metaspace and ByteLevel rewrite the text as well. */
#ifndef MLXCEL_TEXT_PRETOKENIZER_H
#define MLXCEL_TEXT_PRETOKENIZER_H

#include "text/tokenizer/aligned.h"
#include "text/tokenizer/regex.h"

#include "base/json.h"

/* A piece of a struct aligned. */
struct piece {
    uint32_t start, end; /* bytes of the current text */
    uint32_t shift;      /* where it begins in the input; exact only when origins are tracked */
};

struct pieces {
    struct piece *data;
    size_t count, capacity;
    bool failed;
};

void pieces_add(struct pieces *pieces, size_t start, size_t end, uint32_t shift);
void pieces_free(struct pieces *pieces);

struct pretokenizer_step;

struct pretokenizer {
    struct pretokenizer_step *steps; /* nested sequences are one list here */
    size_t n_steps, capacity;
    bool keeps_bytes; /* set by the owner: the last step, a ByteLevel, leaves bytes as they are */
};

/* Reads a pre-tokenizer (null = none). */
bool pretokenizer_load(struct pretokenizer *pretokenizer, const struct json *json, struct mx_error *err);
/* Adds a step that keeps what a pattern matches, and nothing else, as tiktoken does. */
bool pretokenizer_add_pattern(struct pretokenizer *pretokenizer, const char *pattern, size_t length,
                              struct mx_error *err);
void pretokenizer_free(struct pretokenizer *pretokenizer);

bool pretokenizer_ends_in_bytelevel(const struct pretokenizer *pretokenizer);
/* Some step asks where in the input a piece begins, after the text was rewritten. */
bool pretokenizer_needs_origins(const struct pretokenizer *pretokenizer, bool is_rewritten);

/* What the steps work on: the text, its pieces, and spare room for both. */
struct cutting {
    struct aligned *text, *spare_text;
    struct pieces *pieces, *spare_pieces;
    struct regex_scratch *scratch;
    struct mx_error *err;
};

bool pretokenizer_apply(const struct pretokenizer *pretokenizer, const struct cutting *cutting);

#endif
