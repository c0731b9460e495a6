/* SPDX-License-Identifier: Apache-2.0 */
/* What each step of a decoder does with a token, or a part of one (see decoder.h). */
#ifndef MLXCEL_TEXT_DECODER_STEPS_H
#define MLXCEL_TEXT_DECODER_STEPS_H

#include "text/tokenizer/decoder.h"

/* Gives text to step `at` (to the output, after the last); `ends` says that the token is complete with it. */
bool decoding_feed(struct decoding *decoding, size_t at, const char *text, size_t length, bool ends);
/* No more tokens: the step passes on what it kept back. */
bool decoding_finish_step(struct decoding *decoding, size_t at);

#endif
