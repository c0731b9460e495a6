/* SPDX-License-Identifier: Apache-2.0 */
/* DRY ("don't repeat yourself"): a token that would go on with a repetition is made less likely, the more the longer
 * the repetition already is. Introduced by p-e-w for text-generation-webui in 2024; parameters and rules are those of
 * llama.cpp.
 *
 * Sequence breakers (a line break, a quotation mark, ...) end repetitions: what lies before the last breaker in the
 * text never counts. A breaker is a sequence of tokens; in a text, a string may begin inside a token and end inside
 * another, so one string gives many sequences (dry_breakers_from_strings). */
#ifndef MLXCEL_ENGINE_SAMPLER_DRY_H
#define MLXCEL_ENGINE_SAMPLER_DRY_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct breaker_ids {
    const uint32_t *tokens;
    size_t n;
};

enum { DRY_BREAKER_TAIL = 20, DRY_BREAKER_BYTES = 40 }; /* longer breakers are cut, as in llama.cpp */

/* Immutable once made; shared by all sequences that use the same breakers. */
struct dry_breakers {
    struct dry_breaker {
        uint32_t head;
        uint32_t tail, n_tail; /* the tokens after it: tails[tail .. tail + n_tail) */
    } * breakers;              /* by head ascending, longer tails first */
    size_t n, capacity;
    uint32_t *tails;
    size_t n_tails, tails_capacity;
};

/* A zeroed struct holds no breakers. Adds one sequence; an empty one is ignored. Call dry_breakers_finish after the
 * last. */
bool dry_breakers_add(struct dry_breakers *b, struct breaker_ids sequence, struct mx_error *err);
void dry_breakers_finish(struct dry_breakers *b);
void dry_breakers_free(struct dry_breakers *b);

struct byte_span {
    const char *bytes;
    size_t n;
};

/* Encodes text without special tokens into at most `room` ids, and returns their number. */
typedef size_t (*dry_encode)(void *context, const char *text, size_t length, uint32_t *ids, size_t room);

/* Adds every way in which each string can lie in tokens, and finishes: tokens that contain it, and tokens whose end is
 * its beginning followed by the encoding of its rest. pieces[i] are the bytes of token i (empty for special ones). */
bool dry_breakers_from_strings(struct dry_breakers *b, const struct byte_span *strings, size_t n_strings,
                               const struct byte_span *pieces, uint32_t n_pieces, dry_encode encode, void *context,
                               struct mx_error *err);

/* A token that is a breaker by itself. */
bool dry_is_breaker(const struct dry_breakers *b, uint32_t token);

struct dry_settings {
    double multiplier, base;
    int64_t allowed_length;
    const struct dry_breakers *breakers; /* or NULL */
};

/* Lowers the logits of row x that would go on with a repetition in tokens[0 .. n). repeats is scratch of n values;
 * longest is scratch of one value for each token of the vocabulary, zero before and after. */
void dry_apply(const struct dry_settings *settings, const uint32_t *tokens, size_t n, uint32_t *repeats,
               uint32_t *longest, float *x);

#endif
