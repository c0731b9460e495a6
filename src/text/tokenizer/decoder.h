/* SPDX-License-Identifier: Apache-2.0 */
/* The "decoder" of tokenizer.json, made to run on a stream of tokens.
 *
 * The reference defines a decoder as a list of steps from a list of tokens to a list of tokens, joined at the end. Here
 * each step takes one token at a time and passes on what is settled. Steps that melt all tokens into one (Fuse,
 * ByteLevel) pass it on in parts, so that later steps see an unfinished token; each of them keeps back only what the rest
 * of the token can still change. Decoding a whole list is the same with all tokens pushed and finished. */
#ifndef MLXCEL_TEXT_DECODER_H
#define MLXCEL_TEXT_DECODER_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/json.h"

#include "text/tokenizer/regex.h"
#include "text/tokenizer/vocab.h"

enum decoder_kind {
    DECODE_BYTE_FALLBACK, /* runs of <0xXX> become text */
    DECODE_BYTE_LEVEL,    /* GPT-2's alphabet becomes bytes, bytes become text */
    DECODE_BYTES,         /* tokens are bytes already */
    DECODE_WORDPIECE,
    DECODE_METASPACE,
    DECODE_BPE, /* suffixes of words become spaces */
    DECODE_CTC,
    DECODE_FUSE,
    DECODE_STRIP,
    DECODE_REPLACE,
    DECODE_JOIN, /* a space between tokens: what is done without a decoder */
    DECODE_SENTENCEPIECE,
};

struct decoder_step {
    enum decoder_kind kind;
    const char *text; /* prefix, suffix, pad token, what to replace (NULL = regex) */
    size_t length;
    const char *content; /* replacement, word delimiter, SentencePiece's text for an unknown token */
    size_t content_length;
    uint32_t character; /* Strip, Metaspace */
    size_t start, stop; /* Strip */
    bool cleans_up;     /* WordPiece, CTC */
    bool drops_first;   /* Metaspace: no space in front; SentencePiece: likewise */
    bool drops_all;     /* SentencePiece: however many in front */
    struct regex *regex;
};

struct decoder {
    struct decoder_step *steps;
    size_t n_steps, capacity;
};

/* Reads a decoder (null = join with spaces). Strings are copied into the arena. */
bool decoder_load(struct decoder *decoder, const struct json *json, struct arena *arena, struct mx_error *err);
bool decoder_add(struct decoder *decoder, const struct decoder_step *step, struct mx_error *err);
void decoder_free(struct decoder *decoder);

/* What a step remembers between tokens. */
struct decode_state {
    size_t n_tokens;     /* tokens begun */
    bool in_token;       /* an unfinished token is under way */
    bool at_edge;        /* Strip: nothing but stripped characters so far; SentencePiece: a space was just dropped */
    size_t n_stripped;   /* Strip: of them */
    size_t n_waiting;    /* Strip: trailing characters kept back */
    bool has_text;       /* SentencePiece: something was written */
    bool is_begun;       /* SentencePiece: no space is dropped any more */
    struct buffer held;  /* a token that is not complete, or may still change */
    struct buffer bytes; /* bytes that are no text yet */
    size_t n_passed;     /* of those, already passed on */
    bool is_doubtful;    /* ByteFallback: the run holds what a tokenizer would not write as bytes */
    struct buffer work;  /* what is passed on */
};

/* What the source knows about a token. */
enum token_nature { NATURE_NORMAL, NATURE_BYTE, NATURE_SILENT, NATURE_UNKNOWN };

struct decoding {
    const struct decoder *decoder;
    struct decode_state *states;
    struct regex_scratch scratch;
    enum token_nature nature; /* of the token being pushed */
    /* With a vocabulary, runs of byte tokens are passed on character by character, although one bad byte later on would
     * turn the whole run into U+FFFD: but only characters that have no token of their own, as tokenizers write them. A run
     * that holds anything else waits for its end. */
    const struct vocab *eager_for;
    struct buffer *out;
    struct mx_error *err;
};

bool decoding_begin(struct decoding *decoding, const struct decoder *decoder, const struct vocab *eager_for,
                    struct mx_error *err);
bool decoding_push(struct decoding *decoding, const char *text, size_t length, enum token_nature nature,
                   struct buffer *out, struct mx_error *err);
bool decoding_finish(struct decoding *decoding, struct buffer *out, struct mx_error *err);
void decoding_free(struct decoding *decoding);

#endif
