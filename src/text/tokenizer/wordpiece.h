/* SPDX-License-Identifier: Apache-2.0 */
/* WordPiece: the longest token that begins a word, then the longest that continues it, and so on; a word that cannot be
 * made up is unknown as a whole. WordLevel: a word is a token or unknown. */
#ifndef MLXCEL_TEXT_WORDPIECE_H
#define MLXCEL_TEXT_WORDPIECE_H

#include "text/tokenizer/sink.h"
#include "text/tokenizer/vocab.h"
#include "text/tokenizer/wordcache.h"

#include "base/buffer.h"

struct wordpiece {
    const struct vocab *vocab; /* borrowed */
    const char *prefix;        /* of continuing tokens; in the owner's arena */
    size_t prefix_length;
    size_t max_characters; /* of a word; a longer one is unknown */
    uint32_t unk_id;       /* VOCAB_NONE = missing: an error where a word is unknown */
    bool whole_words;      /* WordLevel */
};

/* The tokens of one piece. `spelled` is scratch. */
bool wordpiece_encode(const struct wordpiece *w, struct buffer *spelled, struct wordcache *cache, const char *text,
                      size_t length, struct sink *sink, struct mx_error *err);

#endif
