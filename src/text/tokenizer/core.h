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
#include "text/tokenizer/vocab.h"

#include <pthread.h>
#include <stdatomic.h>

enum model_kind { MODEL_NONE, MODEL_BPE };

struct encoder;
struct token_bytes;

struct tokenizer {
    struct arena arena; /* strings of all parts */
    struct vocab vocab;
    enum model_kind kind;
    struct bpe bpe;
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

/* Each loader fills an empty tokenizer from its kind of file. */
bool tokenizer_load_json(struct tokenizer *t, const char *path, struct mx_error *err);

/* Buffers of one encoding under way. */
struct encoder {
    struct encoder *next;
    struct aligned text, spare_text, part;
    struct pieces pieces, spare_pieces;
    struct regex_scratch regex;
    struct bpe_scratch bpe;
    struct sink sink;
    struct buffer clean;        /* the input with ill-formed sequences replaced */
    struct token_list texts[2]; /* encodings before the post-processor */
    uint32_t *characters;       /* code point index of each byte of the input */
    size_t character_capacity;
};

struct encoder *encoder_take(const struct tokenizer *t, struct mx_error *err);
void encoder_give_back(const struct tokenizer *t, struct encoder *encoder);
void encoder_free(struct encoder *encoder);

/* One text, without the post-processor. */
bool encoder_run(const struct tokenizer *t, struct encoder *e, const char *text, size_t length, unsigned flags,
                 struct token_list *out, struct mx_error *err);

#endif
