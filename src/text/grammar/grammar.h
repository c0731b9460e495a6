/* SPDX-License-Identifier: Apache-2.0 */
/* What a grammar holds, for the files of this folder. */
#ifndef MLXCEL_TEXT_GRAMMAR_GRAMMAR_H
#define MLXCEL_TEXT_GRAMMAR_GRAMMAR_H

#include "text/grammar.h"
#include "text/grammar/machine.h"
#include "text/grammar/pattern.h"

struct mask_cache;
void mask_cache_destroy(struct mask_cache *cache); /* token_mask.c */

struct grammar {
    struct machine *machine;
    struct mask_cache *masks; /* made with the first mask */
};

/* Takes the source over. */
struct grammar *grammar_create(const struct node_source *source, struct mx_error *err);
struct grammar *grammar_from_rules(const struct grammar_rules *rules, struct mx_error *err);

#endif
