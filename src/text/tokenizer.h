/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizers: text to token ids and back.
 *
 * A tokenizer is read from a checkpoint folder, which needs neither config.json nor weights. The first of these counts:
 * tokenizer.json (the format of the Hugging Face library, whose results are matched exactly), tokenizer.model
 * (SentencePiece, or tiktoken ranks under that name), tekken.json, *.tiktoken, vocab.json + merges.txt, vocab.txt
 * (WordPiece), and the RWKV World vocabulary. Names of special tokens come from tokenizer_config.json.
 *
 * A tokenizer does not change after it is opened: any number of threads may use it at the same time. */
#ifndef MLXCEL_TEXT_TOKENIZER_H
#define MLXCEL_TEXT_TOKENIZER_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tokenizer;

/* NULL with the error set when the folder holds no tokenizer, or a broken one. */
struct tokenizer *tokenizer_open(const char *folder, struct mx_error *err);
void tokenizer_close(struct tokenizer *tokenizer);

/* ---- encoding ---- */

enum {
    TOKENIZE_SPECIAL = 1, /* add BOS, EOS and the like, as the post-processor says */
    TOKENIZE_OFFSETS = 2, /* fill `spans` and `texts` too */
    TOKENIZE_PLAIN = 4,   /* special tokens written out in the text are ordinary text */
};

/* Where one token comes from. */
struct token_span {
    uint32_t start, end;              /* half open, in code points of the input; 0, 0 for tokens that were added */
    uint32_t text_start, text_length; /* the token's own text, in token_list.texts */
    uint32_t type_id;                 /* segment id, as models of BERT's kind want it */
    bool is_special;                  /* put there by the post-processor */
};

/* Owned by the caller: start from {0}, reuse at will (each encoding replaces the content), release by
 * token_list_free. */
struct token_list {
    uint32_t *ids;
    size_t count, capacity;
    struct token_span *spans; /* count of them, with TOKENIZE_OFFSETS */
    size_t span_capacity;
    struct buffer texts;
};

void token_list_free(struct token_list *list);

/* Encodes text[0 .. length), UTF-8 of at most 1 GiB; each ill-formed sequence counts as U+FFFD. False with the error
 * set when the model has no token for an unknown character, or memory is out. */
bool tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t length, unsigned flags,
                      struct token_list *out, struct mx_error *err);
/* Two texts in one encoding, joined as the post-processor says. Offsets count from the start of each text. */
bool tokenizer_encode_pair(const struct tokenizer *tokenizer, const char *text, size_t length, const char *pair,
                           size_t pair_length, unsigned flags, struct token_list *out, struct mx_error *err);

/* ---- decoding ---- */

/* Appends the text of ids[0 .. n) to out. Unknown ids are skipped; skip_special leaves special tokens out. The text is
 * always valid UTF-8. */
bool tokenizer_decode(const struct tokenizer *tokenizer, const uint32_t *ids, size_t n, bool skip_special,
                      struct buffer *out, struct mx_error *err);

/* Decoding one token at a time. The pieces put together equal tokenizer_decode of all ids; only what a later token can
 * still change is held back, such as the first bytes of a character. */
struct detokenizer;

struct detokenizer *detokenizer_create(const struct tokenizer *tokenizer, bool skip_special, struct mx_error *err);
/* Appends to out what can be shown now. Allocates nothing once its buffers have grown. */
bool detokenizer_push(struct detokenizer *detokenizer, uint32_t id, struct buffer *out, struct mx_error *err);
/* Appends what was held back, and begins anew. */
bool detokenizer_finish(struct detokenizer *detokenizer, struct buffer *out, struct mx_error *err);
void detokenizer_destroy(struct detokenizer *detokenizer);

/* ---- the vocabulary ---- */

/* One more than the highest id. */
size_t tokenizer_vocab_size(const struct tokenizer *tokenizer);
/* The id of a token spelled as in the vocabulary, added tokens included. */
bool tokenizer_find(const struct tokenizer *tokenizer, const char *text, size_t length, uint32_t *id);
/* The token as the vocabulary spells it ("Ġthe"); false for an id that does not exist. Not NUL-terminated. */
bool tokenizer_token_text(const struct tokenizer *tokenizer, uint32_t id, const char **text, size_t *length);
/* The bytes that the token adds in the middle of a text (" the", or a single byte of a character). Special tokens give
 * their content. False for an id that does not exist, or when memory is out. */
bool tokenizer_token_bytes(const struct tokenizer *tokenizer, uint32_t id, const char **bytes, size_t *length);
/* A special token: left out of decoded text with skip_special. */
bool tokenizer_is_special(const struct tokenizer *tokenizer, uint32_t id);
/* A token that is found in text before anything else. */
bool tokenizer_is_added(const struct tokenizer *tokenizer, uint32_t id);

/* Special tokens by role, from tokenizer_config.json or the vocabulary file itself. -1 = none. */
enum token_role { TOKEN_BOS, TOKEN_EOS, TOKEN_PAD, TOKEN_UNK, N_TOKEN_ROLES };
int64_t tokenizer_role_id(const struct tokenizer *tokenizer, enum token_role role);
/* NUL-terminated; NULL = none. */
const char *tokenizer_role_text(const struct tokenizer *tokenizer, enum token_role role);
/* "BPE", "Unigram", "WordPiece", "WordLevel", "RWKV". */
const char *tokenizer_kind(const struct tokenizer *tokenizer);

#endif
