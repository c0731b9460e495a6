/* SPDX-License-Identifier: Apache-2.0 */
/* Constrained output: which texts may be generated, and which tokens may come next.
 *
 * A grammar is made from GBNF, a regular expression, a list of choices, a JSON Schema, or is "any JSON object". A matcher
 * follows one text through it, byte by byte; it is small and copied at will. Masks of tokens are in text/token_mask.h.
 *
 * A grammar remembers what it has worked out, so a grammar and all matchers on it belong to one thread at a time. */
#ifndef MLXCEL_TEXT_GRAMMAR_H
#define MLXCEL_TEXT_GRAMMAR_H

#include "base/error.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct grammar;

enum {
    GRAMMAR_MAX_BYTES = 4 << 20, /* of a grammar's text */
};

/* All return NULL with the error set. Texts are not kept. */
struct grammar *grammar_from_gbnf(const char *text, size_t length, struct mx_error *err);
struct grammar *grammar_from_regex(const char *text, size_t length, struct mx_error *err);
/* One of n texts, exactly. */
struct grammar *grammar_from_choices(const char *const *choices, size_t n, struct mx_error *err);
/* Any JSON object. */
struct grammar *grammar_from_json_object(struct mx_error *err);

enum {
    SCHEMA_FORMATS = 1, /* "format" restricts strings; JSON Schema takes it as a remark otherwise */
};

/* The JSON texts of the values that satisfy a JSON Schema (draft 4 to 2020-12; docs/constrained-output.md tells what is
 * supported). A keyword that would change which values are valid and is not supported is an error that names it. */
struct grammar *grammar_from_schema(const char *text, size_t length, unsigned flags, struct mx_error *err);
struct grammar *grammar_from_schema_value(const struct json *schema, unsigned flags, struct mx_error *err);

void grammar_destroy(struct grammar *grammar);

/* NULL, or why a text could not be followed to its end (it is rejected then): it nests too deeply, or the grammar is too
 * ambiguous. */
const struct mx_error *grammar_failure(const struct grammar *grammar);

enum grammar_verdict {
    GRAMMAR_REJECT,     /* nothing that follows can make the text match */
    GRAMMAR_INCOMPLETE, /* a start of matching texts, but no match yet */
    GRAMMAR_ACCEPT,     /* matches as it is; it may go on nevertheless */
};

const char *grammar_verdict_name(enum grammar_verdict verdict);

struct matcher {
    struct grammar *grammar; /* borrowed; must outlive the matcher */
    uint32_t state;
};

/* Begins at the start of the text; false when the grammar is broken (grammar_failure). */
bool matcher_init(struct matcher *matcher, struct grammar *grammar);
void matcher_copy(struct matcher *copy, const struct matcher *matcher);
void matcher_free(struct matcher *matcher);
/* Appends to the text. */
enum grammar_verdict matcher_push(struct matcher *matcher, const char *bytes, size_t length);
enum grammar_verdict matcher_verdict(const struct matcher *matcher);
/* The text matches and nothing can be added to it. */
bool matcher_is_complete(const struct matcher *matcher);

#endif
