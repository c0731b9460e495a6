/* SPDX-License-Identifier: Apache-2.0 */
/* Unigram language model: the cut of a text into tokens whose scores have the greatest sum (Kudo 2018), found by one
 * pass from left to right (Viterbi).
 *
 * The two references differ in what they compute in: the Hugging Face library sums in f64, SentencePiece stores sums in
 * f32; where sums are close the roundings decide, so each is followed to the letter. */
#ifndef MLXCEL_TEXT_UNIGRAM_H
#define MLXCEL_TEXT_UNIGRAM_H

#include "text/tokenizer/sink.h"
#include "text/tokenizer/trie.h"
#include "text/tokenizer/vocab.h"
#include "text/tokenizer/wordcache.h"

#define UNIGRAM_UNKNOWN_PENALTY 10.0 /* of an unknown character, below the lowest score */

struct unigram {
    const struct vocab *vocab; /* borrowed */
    struct trie trie;          /* values are ids */
    double *scores;            /* by id */
    size_t n_scores;
    double unk_score;
    uint32_t unk_id; /* VOCAB_NONE = none: an unknown character is an error */
    bool byte_fallback;
    bool sums_in_f32;       /* as SentencePiece does */
    uint32_t byte_ids[256]; /* of the tokens <0xXX> */
    bool has_all_bytes;
};

/* The best cut that ends at a byte. */
struct unigram_node {
    double sum;
    uint32_t length; /* of its last token; 0 = nothing ends here */
    uint32_t id;
};

struct unigram_scratch {
    struct unigram_node *nodes;
    size_t capacity;
};
void unigram_scratch_free(struct unigram_scratch *scratch);

/* After vocab, scores, unk_id and the flags are set. Tokens for which `skip` (by id, NULL = none) is set are left out of
 * the trie. */
bool unigram_prepare(struct unigram *unigram, const bool *skip, struct mx_error *err);
void unigram_free(struct unigram *unigram);

/* The tokens of a piece. Runs of unknown characters are one token, or bytes. */
bool unigram_encode(const struct unigram *unigram, struct unigram_scratch *scratch, struct wordcache *cache,
                    const char *text, size_t length, struct sink *sink, struct mx_error *err);

#endif
