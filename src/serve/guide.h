/* SPDX-License-Identifier: Apache-2.0 */
/* What restricts the tokens of an answer: a grammar that the content must match, and a budget of tokens for thoughts.
 *
 * A grammar begins where the content does. If the prompt ends inside a thought, or the model opens one with its first
 * token, thoughts are free until their closing token. When the budget is spent the closing token is forced. */
#ifndef MLXCEL_SERVE_GUIDE_H
#define MLXCEL_SERVE_GUIDE_H

#include "serve/api_error.h"
#include "serve/served.h"

struct guide;

enum guide_source { GUIDE_NOTHING, GUIDE_JSON_OBJECT, GUIDE_SCHEMA, GUIDE_GBNF, GUIDE_REGEX, GUIDE_CHOICES };

struct guide_rule {
    enum guide_source source;
    const struct json *value; /* a schema, a string, or an array of strings */
    const char *param;        /* the request's field, for messages */
};

struct guide_options {
    struct served *served;
    struct guide_rule rule;
    const char *prompt; /* its end, rendered; may be NULL */
    size_t prompt_length;
    bool may_think;       /* the model may open a thought by itself */
    int64_t think_budget; /* -1 = none */
    uint32_t n_choices;
    const uint32_t *stop_ids; /* beside the model's */
    size_t n_stop_ids;
};

/* *guide stays NULL where nothing needs to be restricted. */
bool guide_create(struct guide **guide, const struct guide_options *options, struct problem *problem);
void guide_destroy(struct guide *guide);

/* As in struct token_mask. */
bool guide_fill(void *guide, uint32_t choice, uint32_t *bits);
void guide_accept(void *guide, uint32_t choice, uint32_t token);
/* The content matches and nothing can be added. */
bool guide_is_complete(const struct guide *guide, uint32_t choice);
const struct mx_error *guide_failure(const struct guide *guide);

#endif
