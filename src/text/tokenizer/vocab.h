/* SPDX-License-Identifier: Apache-2.0 */
/* The vocabulary of a tokenizer model: token text by id, and id by token text.
 *
 * Ids may have gaps. Texts are copied into one pool, so a vocabulary outlives the file it was read from. The table is
 * open addressing with linear probing over (hash, id) pairs; the hash is seeded per vocabulary, because texts come from
 * hostile files. */
#ifndef MLXCEL_TEXT_VOCAB_H
#define MLXCEL_TEXT_VOCAB_H

#include "base/arena.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VOCAB_MAX_ID 16777215u
#define VOCAB_NONE   UINT32_MAX

struct vocab_token {
    const char *text; /* NULL = no token has this id; not NUL-terminated */
    uint32_t length;
};

struct vocab_slot {
    uint32_t hash;
    uint32_t id; /* VOCAB_NONE = free */
};

struct vocab {
    struct vocab_token *tokens; /* by id */
    size_t size;                /* highest id + 1 */
    size_t capacity;
    size_t n_texts; /* distinct texts; less than size where there are gaps */
    size_t longest; /* bytes of the longest text */
    struct vocab_slot *slots;
    size_t n_slots; /* a power of two */
    uint64_t seed;
    struct arena pool;
};

/* Makes room for ids below size and n_texts texts. */
bool vocab_reserve(struct vocab *vocab, size_t size, size_t n_texts, struct mx_error *err);
/* Adds a token. A text that is there already gets the new id. */
bool vocab_add(struct vocab *vocab, const char *text, size_t length, uint32_t id, struct mx_error *err);
bool vocab_find(const struct vocab *vocab, const char *text, size_t length, uint32_t *id);
/* NULL when no token has this id. */
static inline const struct vocab_token *vocab_token(const struct vocab *vocab, uint32_t id) {
    return id < vocab->size && vocab->tokens[id].text ? &vocab->tokens[id] : NULL;
}
void vocab_free(struct vocab *vocab);

/* For many look-ups at once: the hash, and hints to fetch what a look-up will read: the slot, the token that the slot
 * names (once the slot is there), and the token's text (once the token is). */
uint32_t vocab_hash(const struct vocab *vocab, const char *text, size_t length);
static inline void vocab_prefetch_slot(const struct vocab *vocab, uint32_t hash) {
    __builtin_prefetch(&vocab->slots[hash & (vocab->n_slots - 1)]);
}
static inline void vocab_prefetch_token(const struct vocab *vocab, uint32_t hash) {
    uint32_t id = vocab->slots[hash & (vocab->n_slots - 1)].id;
    if (id != VOCAB_NONE) __builtin_prefetch(&vocab->tokens[id]);
}
static inline void vocab_prefetch_text(const struct vocab *vocab, uint32_t hash) {
    uint32_t id = vocab->slots[hash & (vocab->n_slots - 1)].id;
    if (id != VOCAB_NONE) __builtin_prefetch(vocab->tokens[id].text);
}
bool vocab_find_hashed(const struct vocab *vocab, const char *text, size_t length, uint32_t hash, uint32_t *id);

#endif
