/* SPDX-License-Identifier: Apache-2.0 */
#include "text/tokenizer/trie.h"

#include "base/memory.h"

#include <string.h>

enum {
    N_TRIED = 48
}; /* free nodes tried in one search before some are given up: more packs tighter and takes longer */

static int compare_keys(const void *a, const void *b) {
    const struct trie_key *x = a, *y = b;
    size_t n = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->text, y->text, n);
    if (order) return order;
    if (x->length != y->length) return x->length < y->length ? -1 : 1;
    return x->value < y->value ? -1 : x->value > y->value;
}

/* Keys first .. last share the bytes on the way to a node. */
struct range {
    uint32_t node, depth;
    size_t first, last;
};

/* Free nodes form a ring, whose head is node 0. A free node that was given up is in no ring: its `next` is itself. */
struct link {
    uint32_t next, before;
};

struct builder {
    struct trie *trie;
    const struct trie_key *keys;
    struct range *stack;
    size_t n_stack, stack_capacity;
    struct link *links; /* as many as nodes */
    size_t link_capacity;
};

/* Makes n nodes, the new ones free and at the end of the ring. */
static bool grow(struct builder *b, size_t n) {
    struct trie *trie = b->trie;
    if (n <= trie->n_nodes) return true;
    if (n >= UINT32_MAX - 512 || !array_reserve(&trie->nodes, &trie->capacity, n, sizeof *trie->nodes) ||
        !array_reserve(&b->links, &b->link_capacity, n, sizeof *b->links))
        return false;
    for (uint32_t i = (uint32_t)trie->n_nodes; i < n; i++) {
        trie->nodes[i] = (struct trie_node){.parent = TRIE_NONE, .value = TRIE_NONE};
        uint32_t last = i ? b->links[0].before : 0;
        b->links[i] = (struct link){.next = 0, .before = last};
        b->links[last].next = i;
        b->links[0].before = i;
    }
    trie->n_nodes = n;
    return true;
}

static void unlink_node(struct builder *b, uint32_t at) {
    struct link *link = &b->links[at];
    if (link->next == at) return;
    b->links[link->before].next = link->next;
    b->links[link->next].before = link->before;
    link->next = at;
}

/* A base at which all of the bytes find a free node, and 256 nodes behind it, so that a look-up needs no bound; 0 when
 * memory is out. */
static uint32_t find_base(struct builder *b, const unsigned char *bytes, size_t n_bytes) {
    unsigned n_tried = 0;
    for (uint32_t at = b->links[0].next;; at = b->links[at].next) {
        if (!at) { /* the end of the ring */
            at = (uint32_t)b->trie->n_nodes;
            if (!grow(b, b->trie->n_nodes + 1024)) return 0;
        }
        if (at <= bytes[0]) continue;
        uint32_t base = at - bytes[0];
        if (!grow(b, (size_t)base + 256)) return 0;
        const struct trie_node *nodes = b->trie->nodes;
        bool fits = true;
        for (size_t i = 1; i < n_bytes && fits; i++) fits = nodes[base + bytes[i]].parent == TRIE_NONE;
        if (fits) return base;
        if (++n_tried % N_TRIED) continue;
        for (unsigned i = 0; i < N_TRIED / 2 && b->links[0].next != at; i++) unlink_node(b, b->links[0].next);
    }
}

static bool push(struct builder *b, struct range range) {
    if (!array_reserve(&b->stack, &b->stack_capacity, b->n_stack + 1, sizeof *b->stack)) return false;
    b->stack[b->n_stack++] = range;
    return true;
}

static bool expand(struct builder *b, struct range range) {
    unsigned char bytes[256];
    size_t starts[257], n_bytes = 0, first = range.first;
    /* Shorter keys come first. */
    while (first < range.last && b->keys[first].length == range.depth) {
        b->trie->nodes[range.node].value = b->keys[first].value;
        first++;
    }
    for (size_t i = first; i < range.last; i++) {
        unsigned char byte = (unsigned char)b->keys[i].text[range.depth];
        if (n_bytes && bytes[n_bytes - 1] == byte) continue;
        bytes[n_bytes] = byte;
        starts[n_bytes++] = i;
    }
    if (!n_bytes) return true;
    starts[n_bytes] = range.last;
    uint32_t base = find_base(b, bytes, n_bytes);
    if (!base) return false;
    b->trie->nodes[range.node].base = base;
    for (size_t i = 0; i < n_bytes; i++) {
        unlink_node(b, base + bytes[i]);
        b->trie->nodes[base + bytes[i]] = (struct trie_node){.parent = range.node, .value = TRIE_NONE};
    }
    for (size_t i = n_bytes; i-- > 0;)
        if (!push(b, (struct range){base + bytes[i], range.depth + 1, starts[i], starts[i + 1]})) return false;
    return true;
}

bool trie_build(struct trie *trie, struct trie_key *keys, size_t n_keys, struct mx_error *err) {
    struct builder b = {.trie = trie, .keys = keys};
    if (n_keys) qsort(keys, n_keys, sizeof *keys, compare_keys);
    bool ok = grow(&b, 1024) && push(&b, (struct range){.last = n_keys});
    if (ok) trie->nodes[0] = (struct trie_node){.parent = 0, .value = TRIE_NONE};
    while (ok && b.n_stack) ok = expand(&b, b.stack[--b.n_stack]);
    free(b.stack);
    free(b.links);
    return ok || error_memory(err, "vocabulary");
}

void trie_free(struct trie *trie) {
    free(trie->nodes);
    *trie = (struct trie){0};
}

uint32_t trie_longest(const struct trie *trie, const char *text, size_t length, size_t *used) {
    uint32_t found = TRIE_NONE, node = 0;
    if (!trie->n_nodes) return TRIE_NONE;
    for (size_t i = 0; i < length; i++) {
        node = trie_child(trie, node, (unsigned char)text[i]);
        if (node == TRIE_NONE) break;
        if (trie->nodes[node].value == TRIE_NONE) continue;
        found = trie->nodes[node].value;
        *used = i + 1;
    }
    return found;
}
