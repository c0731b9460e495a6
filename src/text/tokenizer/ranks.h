/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-pair encoding by ranks alone, as tiktoken does it: of all neighbours that make up a token, the pair whose token
 * has the lowest rank is joined first; a piece that is a token is that token. */
#ifndef MLXCEL_TEXT_RANKS_H
#define MLXCEL_TEXT_RANKS_H

#include "text/tokenizer/bpe.h"

/* Makes a model of a vocabulary of byte strings, whose ids rise with the ranks. */
bool ranks_build(struct bpe *bpe, const struct vocab *vocab, struct mx_error *err);

#endif
