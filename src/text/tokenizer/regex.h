/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions of tokenizer files, run by PCRE2 with its JIT.
 *
 * Files are written for other engines: tokenizer.json for Oniguruma with Ruby's syntax, tiktoken for Rust's fancy-regex.
 * A pattern is translated first (regex_translate.c), so that classes and properties mean what they mean there, in
 * Unicode 16. Hostile patterns cannot run away: depth, memory and backtracking are bounded, and a search that reaches a
 * bound is an error. */
#ifndef MLXCEL_TEXT_REGEX_H
#define MLXCEL_TEXT_REGEX_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum regex_dialect {
    REGEX_ONIGURUMA, /* Ruby's syntax */
    REGEX_RUST,      /* the crates regex and fancy-regex */
};

struct regex;

struct regex *regex_compile(const char *pattern, size_t length, enum regex_dialect dialect, struct mx_error *err);
void regex_destroy(struct regex *regex);

/* What one thread needs to search; start from {0}. */
struct regex_scratch {
    void *match_data, *match_context, *jit_stack;
    uint64_t deadline_ns; /* the searches in one text share a budget of time */
    uint64_t n_searches;
};
void regex_scratch_free(struct regex_scratch *scratch);
/* Before the searches in a new text of `length` bytes. */
bool regex_scratch_begin(struct regex_scratch *scratch, size_t length, struct mx_error *err);

enum regex_result { REGEX_MATCH, REGEX_NONE, REGEX_ERROR };

/* The first match that begins at or after `at`. text is valid UTF-8 and `at` begins a character. */
enum regex_result regex_find(const struct regex *regex, struct regex_scratch *scratch, const char *text, size_t length,
                             size_t at, size_t *start, size_t *end, struct mx_error *err);

/* Appends the PCRE2 form of a pattern to out. */
bool regex_translate(const char *pattern, size_t length, enum regex_dialect dialect, struct buffer *out,
                     struct mx_error *err);

#endif
