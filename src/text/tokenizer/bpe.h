/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-pair encoding of one piece of text.
 *
 * A piece becomes symbols (characters, or bytes where the pre-tokenizer left bytes), which merges then join. Long pieces
 * are first cut wherever no merge can ever join the characters on both sides; the parts are short, repeat, and are
 * looked up in a cache of words. The cuts change nothing in the result, since merges act on neighbours only. */
#ifndef MLXCEL_TEXT_BPE_H
#define MLXCEL_TEXT_BPE_H

#include "text/tokenizer/merges.h"
#include "text/tokenizer/sink.h"
#include "text/tokenizer/vocab.h"
#include "text/tokenizer/wordcache.h"

#include "base/buffer.h"

struct character_pages;

/* Filled in by the owner up to unk_id; the rest is made by bpe_prepare and bpe_add_merge. */
struct bpe {
    const struct vocab *vocab; /* borrowed; the owner's must not move */
    struct merges merges;
    bool works_on_bytes;  /* pieces are bytes, not characters */
    bool texts_are_bytes; /* the vocabulary spells bytes as themselves, not in the byte-level alphabet */
    bool ignore_merges;   /* a piece that is a token is that token, whatever the merges say */
    bool byte_fallback, fuse_unk;
    bool has_unk;                /* there is an unknown token; its id may be missing all the same */
    uint32_t unk_id;             /* VOCAB_NONE = missing from the vocabulary: an error where one occurs */
    const char *prefix, *suffix; /* of continuing subwords, of the end of a word; NULL = none. In the owner's arena */
    size_t prefix_length, suffix_length;
    uint32_t byte_ids[256]; /* symbols of single bytes; byte tokens <0xXX> for byte_fallback */
    bool has_all_bytes;
    struct character_pages *characters; /* ids of single characters */
    uint64_t *joints;                   /* bit set of character pairs that some merge joins */
    uint32_t joint_mask;                /* its size in bits - 1 */
    bool can_cut;
};

/* After vocab and the flags are set; n_merges is about how many will follow. May be called again with other flags. */
bool bpe_prepare(struct bpe *bpe, size_t n_merges, struct mx_error *err);
/* Then one call for each merge, in any order. */
bool bpe_add_merge(struct bpe *bpe, uint32_t left, uint32_t right, uint32_t rank, uint32_t result,
                   struct mx_error *err);
void bpe_free(struct bpe *bpe);

struct bpe_scratch {
    struct symbol *symbols;
    size_t n_symbols, symbol_capacity;
    struct merge_scratch merge;
    struct wordcache cache;
    struct buffer spelled;
};
void bpe_scratch_free(struct bpe_scratch *scratch);

/* The tokens of a piece. False when an unknown character has no token, or memory is out. */
bool bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch, const char *text, size_t length, struct sink *sink,
                struct mx_error *err);

#endif
