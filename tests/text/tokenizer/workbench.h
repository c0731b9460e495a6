/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a tokenizer's normalizer or pre-tokenizer alone. */
#ifndef MLXCEL_TESTS_TOKENIZER_WORKBENCH_H
#define MLXCEL_TESTS_TOKENIZER_WORKBENCH_H

#include "text/tokenizer/core.h"

struct workbench {
    struct aligned text, spare;
    struct pieces pieces, spare_pieces;
    struct regex_scratch scratch;
};

void workbench_free(struct workbench *w);
/* The normal form is in w->text. */
bool workbench_normalize(struct workbench *w, const struct tokenizer *t, const char *text, size_t length);
/* The pieces are in w->pieces, of w->text. */
bool workbench_cut(struct workbench *w, const struct tokenizer *t, const char *text, size_t length);
/* The code points of text that a piece comes from. */
void workbench_range(const struct workbench *w, struct piece piece, const char *text, size_t *start, size_t *end);

#endif
