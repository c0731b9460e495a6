/* SPDX-License-Identifier: Apache-2.0 */
#include "text/tokenizer/unigram.h"

#include <stdio.h>
#include <string.h>

bool unigram_prepare(struct unigram *u, const bool *skip, struct mx_error *err) {
    size_t n_keys = 0;
    struct trie_key *keys = array_alloc(u->vocab->size, sizeof *keys);
    if (!keys) return error_memory(err, "vocabulary");
    for (uint32_t id = 0; id < u->vocab->size; id++) {
        const struct vocab_token *token = vocab_token(u->vocab, id);
        if (token && token->length && !(skip && skip[id]))
            keys[n_keys++] = (struct trie_key){.text = token->text, .length = token->length, .value = id};
    }
    bool ok = trie_build(&u->trie, keys, n_keys, err);
    free(keys);
    u->has_all_bytes = true;
    for (unsigned i = 0; i < 256; i++) {
        char text[8];
        size_t n = (size_t)snprintf(text, sizeof text, "<0x%02X>", i);
        if (vocab_find(u->vocab, text, n, &u->byte_ids[i])) continue;
        u->byte_ids[i] = VOCAB_NONE;
        u->has_all_bytes = false;
    }
    return ok;
}

void unigram_free(struct unigram *u) {
    trie_free(&u->trie);
    free(u->scores);
    *u = (struct unigram){0};
}

void unigram_scratch_free(struct unigram_scratch *scratch) {
    free(scratch->nodes);
    *scratch = (struct unigram_scratch){0};
}

static size_t character_length(const char *text) {
    unsigned char c = (unsigned char)*text;
    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

/* Offers a token that ends at `end`. The comparison is with the unrounded sum. */
static inline void offer(struct unigram_node *end, double sum, size_t length, uint32_t id, bool sums_in_f32) {
    if (end->length && !(sum > end->sum)) return;
    *end = (struct unigram_node){.sum = sums_in_f32 ? (double)(float)sum : sum, .length = (uint32_t)length, .id = id};
}

static bool find_best(const struct unigram *u, struct unigram_node *nodes, const char *text, size_t length,
                      struct mx_error *err) {
    const struct trie_node *trie = u->trie.nodes;
    for (size_t i = 0; i <= length; i++) nodes[i].length = 0;
    nodes[0].sum = 0;
    for (size_t at = 0; at < length;) {
        size_t n_character = character_length(text + at);
        double sum = nodes[at].sum;
        bool has_character = false;
        uint32_t node = 0;
        if (n_character > length - at) n_character = length - at;
        for (size_t i = at; i < length;) {
            node = trie_child(&u->trie, node, (unsigned char)text[i++]);
            if (node == TRIE_NONE) break;
            uint32_t id = trie[node].value;
            if (id == TRIE_NONE) continue;
            has_character = has_character || i - at == n_character;
            offer(&nodes[i], sum + u->scores[id], i - at, id, u->sums_in_f32);
        }
        if (!has_character) {
            if (u->unk_id == VOCAB_NONE)
                return error_set(err, ERROR_FORMAT, "an unknown character, and the model has no unknown token");
            offer(&nodes[at + n_character], sum + u->unk_score, n_character, u->unk_id, u->sums_in_f32);
        }
        at += n_character;
    }
    return true;
}

/* Turns the way back into tokens from the front: `length` of a node becomes that of the token that begins there. */
static void reverse(struct unigram_node *nodes, size_t length) {
    uint32_t carried_length = 0, carried_id = 0;
    for (size_t at = length;;) {
        uint32_t n = nodes[at].length, id = nodes[at].id;
        nodes[at].length = carried_length;
        nodes[at].id = carried_id;
        if (!at) break;
        carried_length = n;
        carried_id = id;
        at -= n;
    }
}

static void add_unknown(const struct unigram *u, const char *text, size_t start, size_t end, struct sink *sink) {
    bool as_bytes = u->byte_fallback;
    for (size_t i = start; i < end && as_bytes && !u->has_all_bytes; i++)
        as_bytes = u->byte_ids[(unsigned char)text[i]] != VOCAB_NONE;
    if (!as_bytes) {
        sink_add(sink, u->unk_id, start, end);
        return;
    }
    for (size_t i = start; i < end; i++) {
        struct origin range = {(uint32_t)start, (uint32_t)end};
        if (u->sums_in_f32) range = (struct origin){(uint32_t)i, (uint32_t)i + 1};
        sink_add(sink, u->byte_ids[(unsigned char)text[i]], range.start, range.end);
    }
}

static bool encode(const struct unigram *u, struct unigram_scratch *scratch, const char *text, size_t length,
                   struct sink *sink, struct mx_error *err) {
    if (!array_reserve(&scratch->nodes, &scratch->capacity, length + 1, sizeof *scratch->nodes))
        return error_memory(err, "tokens");
    struct unigram_node *nodes = scratch->nodes;
    if (!find_best(u, nodes, text, length, err)) return false;
    reverse(nodes, length);
    for (size_t at = 0; at < length;) {
        size_t end = at + nodes[at].length;
        if (nodes[at].id != u->unk_id) {
            sink_add(sink, nodes[at].id, at, end);
            at = end;
            continue;
        }
        while (end < length && nodes[end].id == u->unk_id) end += nodes[end].length;
        add_unknown(u, text, at, end, sink);
        at = end;
    }
    return !sink->failed || error_memory(err, "tokens");
}

bool unigram_encode(const struct unigram *u, struct unigram_scratch *scratch, struct wordcache *cache, const char *text,
                    size_t length, struct sink *sink, struct mx_error *err) {
    size_t before = sink->count;
    if (!length) return true;
    if (length > WORDCACHE_MAX_BYTES || sink->is_tracked || !cache) return encode(u, scratch, text, length, sink, err);
    const struct word *word = wordcache_find(cache, text, length);
    if (!word) {
        if (!encode(u, scratch, text, length, sink, err)) return false;
        wordcache_add(cache, text, length, sink->ids + before, sink->count - before);
        return true;
    }
    if (!sink_reserve(sink, word->n_ids)) return error_memory(err, "tokens");
    memcpy(sink->ids + before, word->ids, word->n_ids * sizeof *word->ids);
    sink->count += word->n_ids;
    return true;
}
