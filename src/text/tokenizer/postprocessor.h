/* SPDX-License-Identifier: Apache-2.0 */
/* The "post_processor" of tokenizer.json: puts special tokens around the texts of an encoding, says which segment each
 * token belongs to, and takes spaces out of offsets. */
#ifndef MLXCEL_TEXT_POSTPROCESSOR_H
#define MLXCEL_TEXT_POSTPROCESSOR_H

#include "text/tokenizer.h"

#include "base/arena.h"
#include "base/json.h"

struct template_token {
    uint32_t id;
    const char *text;
    uint32_t length;
};

/* Part of a template: text A, text B, or special tokens. */
struct template_part {
    int text; /* 0 = A, 1 = B, -1 = special tokens */
    uint32_t type_id;
    struct template_token *tokens;
    size_t n_tokens;
};

struct postprocessor {
    bool trims_offsets, has_prefix_space;
    bool has_template;              /* else the texts are simply joined */
    bool keeps_types;               /* without special tokens, segments stay 0 and 1 */
    struct template_part *parts[2]; /* for one text, for a pair */
    size_t n_parts[2];
};

/* Reads a post-processor (null = none). Everything is copied into the arena. */
bool postprocessor_load(struct postprocessor *post, const struct json *json, struct arena *arena, struct mx_error *err);
/* A template that puts one token before and one after each text (NULL = none), for folders without tokenizer.json. */
bool postprocessor_surround(struct postprocessor *post, const struct template_token *before,
                            const struct template_token *after, struct arena *arena, struct mx_error *err);

/* Joins n_texts (1 or 2) encodings into out. */
bool postprocessor_apply(const struct postprocessor *post, struct token_list *texts, int n_texts, unsigned flags,
                         struct token_list *out, struct mx_error *err);

#endif
