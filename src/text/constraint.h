/* SPDX-License-Identifier: Apache-2.0 */
/* A grammar imposed on the answers to one request, from the start or from a trigger on.
 *
 * constraint_fill and constraint_accept have the shape of the engine's struct token_mask. While a constraint waits for its
 * trigger every token may come. Once one of the trigger texts has been written the grammar begins, either with the trigger
 * itself or behind it; what the token that completed the trigger holds beyond it belongs to the grammar's text. */
#ifndef MLXCEL_TEXT_CONSTRAINT_H
#define MLXCEL_TEXT_CONSTRAINT_H

#include "text/token_mask.h"

struct constraint;

struct constraint_trigger {
    const char *text; /* NULL: the token below */
    size_t length;
    uint32_t token;
};

struct constraint_options {
    struct grammar *grammar;       /* taken over, freed on failure too */
    const struct token_trie *trie; /* borrowed */
    const uint32_t *end_ids;       /* tokens that end an answer; copied */
    size_t n_end_ids;
    uint32_t n_choices;                        /* answers that are written at the same time; 0 = 1 */
    const struct constraint_trigger *triggers; /* copied; none: the grammar holds from the start */
    size_t n_triggers;
    bool keeps_trigger; /* the trigger is the beginning of the grammar's text */
};

struct constraint *constraint_create(const struct constraint_options *options, struct mx_error *err);
void constraint_destroy(struct constraint *constraint);

/* Sets bits (cleared before) for the tokens that may come next in the answer; false = any. */
bool constraint_fill(void *constraint, uint32_t choice, uint32_t *bits);
/* Appends a token to the answer. */
void constraint_accept(void *constraint, uint32_t choice, uint32_t token);

/* The answer matches, and nothing can be added to it. */
bool constraint_is_complete(const struct constraint *constraint, uint32_t choice);
/* The answer so far, from the grammar's start on; GRAMMAR_INCOMPLETE while a trigger is waited for. */
enum grammar_verdict constraint_verdict(const struct constraint *constraint, uint32_t choice);
/* NULL, or why the grammar had to be given up (no token is allowed then). */
const struct mx_error *constraint_failure(const struct constraint *constraint);

#endif
