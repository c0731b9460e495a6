/* SPDX-License-Identifier: Apache-2.0 */
#include "text/grammar/token_trie.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TOKEN_BYTES = 4096 }; /* longer tokens are never allowed */

struct entry {
    const char *bytes;
    size_t length;
    uint32_t id;
};

static int compare_entries(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    size_t n = x->length < y->length ? x->length : y->length;
    int c = memcmp(x->bytes, y->bytes, n);
    if (c) return c;
    if (x->length != y->length) return x->length < y->length ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static bool is_plain(const char *bytes, size_t length) {
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)bytes[i] < 0x20 || bytes[i] == 0x7f || bytes[i] == '"' || bytes[i] == '\\') return false;
    size_t valid = utf8_valid_prefix(bytes, length);
    if (utf8_count(bytes, valid) + (valid < length) > TRIE_PLAIN_CHARACTERS) return false;
    return utf8_incomplete_tail(bytes, length) == length - valid;
}

/* Nodes of the tokens that are (not) plain. data has room enough. */
static void make_nodes(const struct token_trie *trie, bool skips_plain, struct trie_nodes *nodes) {
    const char *last = "";
    size_t last_length = 0;
    uint32_t path[MAX_TOKEN_BYTES + 1];
    nodes->n = 0;
    for (uint32_t t = 0; t < trie->n; t++) {
        uint32_t id = trie->ids[t];
        if (skips_plain && trie->plain[id / 32] >> id % 32 & 1) continue;
        const char *bytes = trie->bytes + trie->starts[t];
        size_t length = trie->starts[t + 1] - trie->starts[t], common = 0;
        while (common < length && common < last_length && bytes[common] == last[common]) common++;
        for (size_t d = last_length; d > common; d--) nodes->data[path[d]].next = nodes->n;
        for (size_t d = common; d < length; d++) {
            path[d + 1] = nodes->n;
            nodes->data[nodes->n++] = (struct trie_node){.first_token = t,
                                                         .end_token = t,
                                                         .last_token = t,
                                                         .depth = (uint16_t)(d + 1),
                                                         .byte = (uint8_t)bytes[d]};
        }
        nodes->data[path[length]].end_token = t + 1;
        for (size_t d = 1; d <= length; d++) nodes->data[path[d]].last_token = t + 1;
        last = bytes;
        last_length = length;
    }
    for (size_t d = last_length; d > 0; d--) nodes->data[path[d]].next = nodes->n;
}

static bool fill(struct token_trie *trie, const struct entry *entries, size_t n, size_t total) {
    size_t at = 0;
    trie->ids = array_alloc(n, sizeof *trie->ids);
    trie->starts = array_alloc(n + 1, sizeof *trie->starts);
    trie->bytes = array_alloc(total, 1);
    trie->order = array_alloc(trie->n_ids, sizeof *trie->order);
    trie->plain = array_calloc((trie->n_ids + 31) / 32, sizeof *trie->plain);
    trie->all.data = array_alloc(total, sizeof *trie->all.data);
    trie->rest.data = array_alloc(total, sizeof *trie->rest.data);
    if (!trie->ids || !trie->starts || !trie->bytes || !trie->order || !trie->plain || !trie->all.data ||
        !trie->rest.data)
        return false;
    memset(trie->order, 0xff, trie->n_ids * sizeof *trie->order);
    trie->n = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        const struct entry *e = &entries[i];
        trie->ids[i] = e->id;
        trie->starts[i] = at;
        trie->order[e->id] = (uint32_t)i;
        memcpy(trie->bytes + at, e->bytes, e->length);
        at += e->length;
        if (e->length > trie->longest) trie->longest = e->length;
        if (is_plain(e->bytes, e->length)) trie->plain[e->id / 32] |= 1u << e->id % 32;
    }
    trie->starts[n] = at;
    make_nodes(trie, false, &trie->all);
    make_nodes(trie, true, &trie->rest);
    return true;
}

/* Gives back what the nodes do not need. */
static void shrink(struct trie_nodes *nodes) {
    void *smaller = realloc(nodes->data, (nodes->n ? nodes->n : 1) * sizeof *nodes->data);
    if (smaller) nodes->data = smaller;
}

static struct token_trie *create(struct entry *entries, size_t n, size_t n_ids, struct mx_error *err) {
    struct token_trie *trie = calloc(1, sizeof *trie);
    size_t total = 0;
    for (size_t i = 0; i < n; i++) total += entries[i].length;
    if (n) qsort(entries, n, sizeof *entries, compare_entries);
    if (trie && total < UINT32_MAX) {
        trie->n_ids = n_ids;
        if (fill(trie, entries, n, total)) {
            shrink(&trie->all);
            shrink(&trie->rest);
            return trie;
        }
    }
    token_trie_destroy(trie);
    error_memory(err, "the vocabulary");
    return NULL;
}

struct token_trie *token_trie_from_list(const char *const *tokens, const size_t *lengths, size_t n_tokens,
                                        struct mx_error *err) {
    struct entry *entries = array_alloc(n_tokens, sizeof *entries);
    size_t n = 0;
    for (size_t i = 0; entries && i < n_tokens; i++)
        if (lengths[i] && lengths[i] <= MAX_TOKEN_BYTES)
            entries[n++] = (struct entry){tokens[i], lengths[i], (uint32_t)i};
    struct token_trie *trie = entries ? create(entries, n, n_tokens, err) : NULL;
    if (!entries) error_memory(err, "the vocabulary");
    free(entries);
    return trie;
}

struct token_trie *token_trie_create(const struct tokenizer *tokenizer, size_t n_tokens, struct mx_error *err) {
    struct entry *entries = array_alloc(n_tokens, sizeof *entries);
    size_t n = 0;
    for (size_t i = 0; entries && i < n_tokens; i++) {
        const char *bytes;
        size_t length;
        if (tokenizer_is_special(tokenizer, (uint32_t)i) ||
            !tokenizer_token_bytes(tokenizer, (uint32_t)i, &bytes, &length))
            continue;
        if (length && length <= MAX_TOKEN_BYTES) entries[n++] = (struct entry){bytes, length, (uint32_t)i};
    }
    struct token_trie *trie = entries ? create(entries, n, n_tokens, err) : NULL;
    if (!entries) error_memory(err, "the vocabulary");
    free(entries);
    return trie;
}

void token_trie_destroy(struct token_trie *trie) {
    if (!trie) return;
    free(trie->ids);
    free(trie->starts);
    free(trie->bytes);
    free(trie->order);
    free(trie->plain);
    free(trie->all.data);
    free(trie->rest.data);
    free(trie);
}

size_t token_trie_count(const struct token_trie *trie) { return trie->n_ids; }

const char *token_trie_bytes(const struct token_trie *trie, uint32_t token, size_t *length) {
    if (token >= trie->n_ids || trie->order[token] == UINT32_MAX) return NULL;
    size_t place = trie->order[token];
    *length = trie->starts[place + 1] - trie->starts[place];
    return trie->bytes + trie->starts[place];
}
