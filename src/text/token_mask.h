/* SPDX-License-Identifier: Apache-2.0 */
/* Which tokens may come next under a grammar.
 *
 * The vocabulary is sorted into a trie of the tokens' bytes once for each model. A mask is found by walking the trie and
 * the grammar together. Two things keep that cheap:
 *   - what a token does inside one place of the grammar does not depend on what surrounds the place, unless the token ends
 *     it: the tokens that are allowed whatever follows are remembered for each place, and only those that reach beyond it
 *     are tried anew;
 *   - inside a string nearly all tokens are allowed: those of plain characters are known beforehand, as one set. */
#ifndef MLXCEL_TEXT_TOKEN_MASK_H
#define MLXCEL_TEXT_TOKEN_MASK_H

#include "text/grammar.h"
#include "text/tokenizer.h"

struct token_trie;

/* The trie of a tokenizer's tokens with ids below n_tokens; special tokens and those without bytes are left out. Does not
 * change afterwards; serves any number of grammars, in any thread. */
struct token_trie *token_trie_create(const struct tokenizer *tokenizer, size_t n_tokens, struct mx_error *err);
/* The same of a list of byte strings; those of length 0 are left out. */
struct token_trie *token_trie_from_list(const char *const *tokens, const size_t *lengths, size_t n_tokens,
                                        struct mx_error *err);
void token_trie_destroy(struct token_trie *trie);
/* The bytes of a token; NULL for one that is not in the trie. */
const char *token_trie_bytes(const struct token_trie *trie, uint32_t token, size_t *length);
size_t token_trie_count(const struct token_trie *trie);

/* Sets bit t (of word t / 32) for each token t after which the text can still become a match. The bits, one for each token
 * of the trie, are cleared before. The trie must outlive the grammar. False when memory is out or the grammar had to give
 * up. */
bool matcher_mask(const struct matcher *matcher, const struct token_trie *trie, uint32_t *bits);

#endif
