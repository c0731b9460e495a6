/* SPDX-License-Identifier: Apache-2.0 */
/* SentencePiece models (tokenizer.model): how a text is normalized and cut into pieces, as the library of that name
 * does it (version 0.1.97).
 *
 * Unlike in tokenizer.json, the whole text goes to the model at once. Unigram and BPE are the models of unigram.h and
 * bpe.h; char and word models look pieces up. */
#ifndef MLXCEL_TEXT_SENTENCEPIECE_H
#define MLXCEL_TEXT_SENTENCEPIECE_H

#include "text/tokenizer/charsmap.h"
#include "text/tokenizer/sink.h"
#include "text/tokenizer/trie.h"

/* The numbers are those of the file. */
enum sentencepiece_kind { SENTENCEPIECE_UNIGRAM = 1, SENTENCEPIECE_BPE, SENTENCEPIECE_WORD, SENTENCEPIECE_CHAR };
enum piece_type { PIECE_NORMAL = 1, PIECE_UNKNOWN, PIECE_CONTROL, PIECE_USER_DEFINED, PIECE_UNUSED, PIECE_BYTE };

struct sentencepiece {
    enum sentencepiece_kind kind;
    uint8_t *types; /* enum piece_type of each id */
    size_t n_pieces;
    struct charsmap charsmap;  /* n_units 0 = none */
    struct trie user_defined;  /* values are ids; n_nodes 0 = none */
    bool adds_prefix;          /* a space in front of the text, or behind it with spaces_end_words */
    bool removes_extra_spaces; /* at both ends, and all but one in a row */
    bool escapes_spaces;       /* U+2581 for a space */
    bool spaces_end_words;
    bool byte_fallback;
    int64_t unk_id, bos_id, eos_id, pad_id; /* -1 = none */
};

void sentencepiece_free(struct sentencepiece *sp);

/* A normalized text. */
struct sentencepiece_text {
    char *text;
    uint32_t *origin; /* length + 1 of them: the byte of the input that each byte comes from; only when tracked */
    size_t length, capacity, origin_capacity;
    bool is_tracked;
};
void sentencepiece_text_free(struct sentencepiece_text *text);

/* Normalizes valid UTF-8. */
bool sentencepiece_normalize(const struct sentencepiece *sp, const char *text, size_t length,
                             struct sentencepiece_text *out, struct mx_error *err);

/* The end of the next user-defined piece or character at `at`; *id is the piece's id, or TRIE_NONE for a character. */
size_t sentencepiece_next(const struct sentencepiece *sp, const char *text, size_t length, size_t at, uint32_t *id);

#endif
