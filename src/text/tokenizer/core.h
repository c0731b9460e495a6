/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of struct tokenizer: what the loaders fill in and what encoding and decoding read. */
#ifndef MLXCEL_TEXT_TOKENIZER_CORE_H
#define MLXCEL_TEXT_TOKENIZER_CORE_H

#include "text/tokenizer.h"
#include "text/tokenizer/added.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/postprocessor.h"
#include "text/tokenizer/pretokenizer.h"
#include "text/tokenizer/sentencepiece.h"
#include "text/tokenizer/unigram.h"
#include "text/tokenizer/vocab.h"
#include "text/tokenizer/wordpiece.h"

#include <pthread.h>
#include <stdatomic.h>

enum model_kind { MODEL_NONE, MODEL_BPE, MODEL_UNIGRAM, MODEL_WORDPIECE, MODEL_WORDLEVEL, MODEL_GREEDY };

struct encoder;
struct token_bytes;

struct tokenizer {
    struct arena arena; /* strings of all parts */
    struct vocab vocab;
    enum model_kind kind;
    struct bpe bpe; /* of these the one that `kind` names */
    struct unigram unigram;
    struct wordpiece wordpiece;
    struct trie greedy;                  /* MODEL_GREEDY: values are ids */
    struct sentencepiece *sentencepiece; /* NULL = the text goes through the four parts that follow */
    struct normalizer normalizer;
    struct pretokenizer pretokenizer;
    struct postprocessor postprocessor;
    struct decoder decoder;

    struct added_token *added; /* in the order of the file */
    size_t n_added, added_capacity;
    struct added_set raw_added, normalized_added;
    uint32_t *added_by_id; /* n_ids of them: index into added, or UINT32_MAX */
    size_t n_ids;

    int64_t role_ids[N_TOKEN_ROLES];
    const char *role_texts[N_TOKEN_ROLES];

    pthread_mutex_t lock;                      /* of what follows */
    struct encoder *idle;                      /* encoders to use again, each with its word cache */
    _Atomic(struct token_bytes *) token_bytes; /* made when first asked for */
};

/* Adds a token to the list; ids are given out by tokenizer_number_added. */
bool tokenizer_add_token(struct tokenizer *t, const struct added_token *token, struct mx_error *err);
/* After the model and all added tokens are there: builds the search sets and the table by id. */
bool tokenizer_finish_added(struct tokenizer *t, struct mx_error *err);

void token_bytes_destroy(struct token_bytes *bytes);

/* What a loader may look at beside its file. */
struct tokenizer_folder {
    const char *path;
    const struct json *config; /* tokenizer_config.json; NULL = none */
    const struct json *model;  /* config.json; NULL = none */
};

/* Each loader fills an empty tokenizer from its kind of file. */
typedef bool tokenizer_loader(struct tokenizer *t, const struct tokenizer_folder *folder, const char *path,
                              struct mx_error *err);
tokenizer_loader tokenizer_load_json;
tokenizer_loader tokenizer_load_model; /* tokenizer.model: SentencePiece, or tiktoken ranks under that name */
tokenizer_loader tokenizer_load_sentencepiece;
tokenizer_loader tokenizer_load_tiktoken;
tokenizer_loader tokenizer_load_tekken;
tokenizer_loader tokenizer_load_pair;   /* vocab.json, with merges.txt beside it */
tokenizer_loader tokenizer_load_words;  /* vocab.txt */
tokenizer_loader tokenizer_load_greedy; /* rwkv_vocab_*.txt */

/* Parts of tokenizer.json that other loaders use: all but the model and the added tokens; model.vocab. */
bool tokenizer_load_parts(struct tokenizer *t, const struct json *root, struct mx_error *err);
bool tokenizer_load_vocab(struct tokenizer *t, const struct json *vocab, struct mx_error *err);
/* Decides whether the model may work on bytes; after its vocabulary and flags, before its merges. */
bool tokenizer_prepare_bpe(struct tokenizer *t, size_t n_merges, struct mx_error *err);

/* Adds special tokens with given ids: of an object {"text": id, ...}, or one. */
bool tokenizer_add_list(struct tokenizer *t, const struct json *list, struct mx_error *err);
bool tokenizer_add_special(struct tokenizer *t, const char *text, uint32_t id, bool lstrip, struct mx_error *err);

/* Adds the tokens that tokenizer_config.json (or added_tokens.json) lists, and says whether special tokens begin and end
 * a text; for files that hold no such things themselves. */
bool tokenizer_add_configured(struct tokenizer *t, const struct tokenizer_folder *folder, struct mx_error *err);
bool tokenizer_surround(struct tokenizer *t, const struct tokenizer_folder *folder, bool adds_bos, bool adds_eos,
                        struct mx_error *err);

/* Buffers of one encoding under way. */
struct encoder {
    struct encoder *next;
    struct aligned text, spare_text, part;
    struct pieces pieces, spare_pieces;
    struct regex_scratch regex;
    struct bpe_scratch bpe;
    struct unigram_scratch unigram;
    struct sentencepiece_text normal;
    bool sink_ends_known; /* the next unknown piece is a token of its own */
    struct sink sink;
    struct buffer clean;        /* the input with ill-formed sequences replaced */
    struct token_list texts[2]; /* encodings before the post-processor */
    uint32_t *characters;       /* code point index of each byte of the input */
    size_t character_capacity;
};

struct encoder *encoder_take(const struct tokenizer *t, struct mx_error *err);
void encoder_give_back(const struct tokenizer *t, struct encoder *encoder);
void encoder_free(struct encoder *encoder);

/* A section of the input between added tokens, with a SentencePiece model: tokens go to the sink, with ranges of e->normal
 * when they are tracked. */
bool encoder_sentencepiece(const struct tokenizer *t, struct encoder *e, const char *text, size_t length,
                           bool is_tracked, struct mx_error *err);

/* One text, without the post-processor. */
bool encoder_run(const struct tokenizer *t, struct encoder *e, const char *text, size_t length, unsigned flags,
                 struct token_list *out, struct mx_error *err);

#endif
