/* SPDX-License-Identifier: Apache-2.0 */
/* Reference encodings and decodings: one JSON object a line, as described in the README of tokenizer-vectors. */
#ifndef MLXCEL_TESTS_TOKENIZER_VECTORS_H
#define MLXCEL_TESTS_TOKENIZER_VECTORS_H

#include "text/tokenizer.h"

#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>

/* The lines of a file (plain or .xz), parsed one by one. */
struct vector_file {
    struct arena arena;
    char *text;
    size_t length;
    const struct json **lines;
    size_t n_lines;
};

/* The text of a file (plain or .xz) alone. */
bool text_read(struct vector_file *file, const char *path);
bool vectors_read(struct vector_file *file, const char *path);
void vectors_free(struct vector_file *file);

/* Counts what was compared and remembers the first differences. */
struct tally {
    const char *name;
    size_t n_lines, n_wrong, n_notes;
    size_t n_excused; /* broken runs of bytes in a stream, of which a few are allowed */
};

/* Counts one line, with a note when it is wrong. */
void tally_line(struct tally *tally, const struct json *line, const char *what);

/* What a vector file is compared with. */
enum vector_kind {
    VECTORS_JSON,   /* tokenizer.json: ids with special tokens, and without */
    VECTORS_SPARSE, /* the same, but ids_no_special only where it differs */
    VECTORS_PLAIN,  /* ids without special tokens: SentencePiece, tiktoken, RWKV */
};

/* Each compares all lines of one file. */
void compare_encodings(struct tally *tally, const struct tokenizer *t, const struct vector_file *file,
                       enum vector_kind kind);
void compare_pairs(struct tally *tally, const struct tokenizer *t, const struct vector_file *file);
void compare_decodings(struct tally *tally, const struct tokenizer *t, const struct vector_file *file);
/* Pieces of the streaming detokenizer, put together, against the decoding of all ids. With is_prompt, also that no more
 * than an incomplete character is held back. */
void compare_streams(struct tally *tally, const struct tokenizer *t, const struct vector_file *file, bool is_prompt);
/* The bytes of single tokens, put together, against the decoded text (but for spaces). */
void compare_token_bytes(struct tally *tally, const struct tokenizer *t, const struct vector_file *file);
/* "normalized" and "pre": the normalizer and the pre-tokenizer alone. */
void compare_parts(struct tally *tally, const struct tokenizer *t, const struct vector_file *file);

/* The tables of single code points in the folder "unicode". */
void compare_unicode_tables(const char *vectors, const char *synthetic, const char *real);

#endif
