/* SPDX-License-Identifier: Apache-2.0 */
#include "text/tokenizer/vocab.h"

#include "base/memory.h"

#include <string.h>
#include <time.h>

static uint64_t mix(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Up to 8 bytes as a number, without reading beyond them. */
static uint64_t read_short(const unsigned char *bytes, size_t n) {
    uint32_t low, high;
    if (n >= 4) {
        memcpy(&low, bytes, 4);
        memcpy(&high, bytes + n - 4, 4);
        return (uint64_t)high << 32 | low;
    }
    return n ? (uint64_t)bytes[0] << 16 | (uint64_t)bytes[n >> 1] << 8 | bytes[n - 1] : 0;
}

uint32_t vocab_hash(const struct vocab *vocab, const char *text, size_t length) {
    const unsigned char *bytes = (const unsigned char *)text;
    uint64_t h = vocab->seed ^ length * 0x9e3779b97f4a7c15u;
    for (; length > 8; length -= 8, bytes += 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        h = mix(h ^ word, 0xd6e8feb86659fd93u);
    }
    h = mix(h ^ read_short(bytes, length), 0xa0761d6478bd642fu);
    return (uint32_t)(h ^ h >> 32);
}

static bool grow_slots(struct vocab *vocab, size_t n_texts) {
    if (n_texts > SIZE_MAX / 4) return false;
    if (vocab->n_slots >= 2 * n_texts && vocab->n_slots) return true;
    size_t n_slots = vocab->n_slots ? vocab->n_slots : 64;
    while (n_slots < 2 * n_texts) n_slots *= 2;
    struct vocab_slot *slots = array_alloc(n_slots, sizeof *slots);
    if (!slots) return false;
    memset(slots, 0xff, n_slots * sizeof *slots);
    if (!vocab->n_slots) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        vocab->seed = mix((uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 32, (uint64_t)(uintptr_t)slots | 1);
    }
    for (size_t i = 0; i < vocab->n_slots; i++) {
        if (vocab->slots[i].id == VOCAB_NONE) continue;
        size_t at = vocab->slots[i].hash & (n_slots - 1);
        while (slots[at].id != VOCAB_NONE) at = (at + 1) & (n_slots - 1);
        slots[at] = vocab->slots[i];
    }
    free(vocab->slots);
    vocab->slots = slots;
    vocab->n_slots = n_slots;
    return true;
}

static bool grow_tokens(struct vocab *vocab, size_t size) {
    size_t before = vocab->capacity;
    if (!array_reserve(&vocab->tokens, &vocab->capacity, size, sizeof *vocab->tokens)) return false;
    if (vocab->capacity > before) memset(vocab->tokens + before, 0, (vocab->capacity - before) * sizeof *vocab->tokens);
    return true;
}

bool vocab_reserve(struct vocab *vocab, size_t size, size_t n_texts, struct mx_error *err) {
    if (size > VOCAB_MAX_ID + 1u) return error_set(err, ERROR_LIMIT, "vocabulary of %zu tokens", size);
    return (grow_tokens(vocab, size) && grow_slots(vocab, n_texts)) || error_memory(err, "vocabulary");
}

/* The slot of a text, or the free one where it belongs. */
static struct vocab_slot *find_slot(const struct vocab *vocab, const char *text, size_t length, uint32_t hash) {
    size_t mask = vocab->n_slots - 1;
    for (size_t at = hash & mask;; at = (at + 1) & mask) {
        struct vocab_slot *slot = &vocab->slots[at];
        if (slot->id == VOCAB_NONE) return slot;
        if (slot->hash != hash) continue;
        const struct vocab_token *token = &vocab->tokens[slot->id];
        if (token->text && token->length == length && (!length || !memcmp(token->text, text, length))) return slot;
    }
}

bool vocab_add(struct vocab *vocab, const char *text, size_t length, uint32_t id, struct mx_error *err) {
    if (id > VOCAB_MAX_ID) return error_set(err, ERROR_LIMIT, "token id %u is above %u", id, VOCAB_MAX_ID);
    if (length > UINT32_MAX) return error_set(err, ERROR_LIMIT, "token of more than 4 GiB");
    if (!grow_tokens(vocab, (size_t)id + 1) || !grow_slots(vocab, vocab->n_texts + 1))
        return error_memory(err, "vocabulary");
    char *copy = arena_alloc(&vocab->pool, length ? length : 1);
    if (!copy) return error_memory(err, "vocabulary");
    memcpy(copy, text, length);
    uint32_t hash = vocab_hash(vocab, text, length);
    struct vocab_slot *slot = find_slot(vocab, text, length, hash);
    if (slot->id == VOCAB_NONE)
        vocab->n_texts++;
    else if (slot->id != id)
        vocab->tokens[slot->id].text = NULL;
    *slot = (struct vocab_slot){.hash = hash, .id = id};
    vocab->tokens[id] = (struct vocab_token){.text = copy, .length = (uint32_t)length};
    if (id >= vocab->size) vocab->size = (size_t)id + 1;
    if (length > vocab->longest) vocab->longest = length;
    return true;
}

bool vocab_find_hashed(const struct vocab *vocab, const char *text, size_t length, uint32_t hash, uint32_t *id) {
    if (!vocab->n_slots) return false;
    const struct vocab_slot *slot = find_slot(vocab, text, length, hash);
    *id = slot->id;
    return slot->id != VOCAB_NONE;
}

bool vocab_find(const struct vocab *vocab, const char *text, size_t length, uint32_t *id) {
    return vocab_find_hashed(vocab, text, length, vocab_hash(vocab, text, length), id);
}

void vocab_free(struct vocab *vocab) {
    free(vocab->tokens);
    free(vocab->slots);
    arena_free(&vocab->pool);
    *vocab = (struct vocab){0};
}
