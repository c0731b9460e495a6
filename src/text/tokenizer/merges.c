/* SPDX-License-Identifier: Apache-2.0 */
#include "text/tokenizer/merges.h"

#include "base/memory.h"

#include <string.h>
#include <time.h>

#define SHORT_PIECE 40 /* up to here a scan for the lowest rank beats a heap */
#define NO_NODE     UINT32_MAX

static size_t slot_of(const struct merges *merges, uint64_t pair) {
    uint64_t h = (pair ^ merges->seed) * 0x9e3779b97f4a7c15u;
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    return (h >> 32) & (merges->n_slots - 1);
}

static struct merge *find_slot(const struct merges *merges, uint64_t pair) {
    size_t at = slot_of(merges, pair);
    while (merges->table[at].pair != pair && merges->table[at].pair != UINT64_MAX)
        at = (at + 1) & (merges->n_slots - 1);
    return &merges->table[at];
}

bool merges_reserve(struct merges *merges, size_t n, struct mx_error *err) {
    if (merges->n_slots && merges->n_slots >= 2 * n) return true;
    size_t n_slots = merges->n_slots ? merges->n_slots : 64;
    while (n_slots / 2 < n) {
        if (n_slots > SIZE_MAX / 4) return error_memory(err, "merges");
        n_slots *= 2;
    }
    struct merge *table = array_alloc(n_slots, sizeof *table);
    if (!table) return error_memory(err, "merges");
    memset(table, 0xff, n_slots * sizeof *table);
    struct merges grown = {.table = table, .n_slots = n_slots, .count = merges->count, .seed = merges->seed};
    if (!merges->n_slots) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        grown.seed = ((uint64_t)now.tv_nsec ^ (uint64_t)(uintptr_t)table) * 0xa0761d6478bd642fu;
    }
    for (size_t i = 0; i < merges->n_slots; i++)
        if (merges->table[i].pair != UINT64_MAX) *find_slot(&grown, merges->table[i].pair) = merges->table[i];
    free(merges->table);
    *merges = grown;
    return true;
}

bool merges_add(struct merges *merges, uint32_t left, uint32_t right, uint32_t rank, uint32_t result,
                struct mx_error *err) {
    if (!merges_reserve(merges, merges->count + 1, err)) return false;
    uint64_t pair = (uint64_t)left << 32 | right;
    struct merge *slot = find_slot(merges, pair);
    if (slot->pair == UINT64_MAX) merges->count++;
    *slot = (struct merge){.pair = pair, .rank = rank, .result = result};
    return true;
}

void merges_prefetch(const struct merges *merges, uint32_t left, uint32_t right) {
    if (merges->n_slots) __builtin_prefetch(&merges->table[slot_of(merges, (uint64_t)left << 32 | right)]);
}

const struct merge *merges_find(const struct merges *merges, uint32_t left, uint32_t right) {
    if (!merges->count) return NULL;
    const struct merge *slot = find_slot(merges, (uint64_t)left << 32 | right);
    return slot->pair == UINT64_MAX ? NULL : slot;
}

void merges_free(struct merges *merges) {
    free(merges->table);
    *merges = (struct merges){0};
}

/* ---- short pieces: a scan for the lowest rank ---- */

struct join {
    uint32_t rank, result;
};

static struct join join_of(const struct merges *merges, const struct symbol *left) {
    const struct merge *merge = merges_find(merges, left[0].id, left[1].id);
    return merge ? (struct join){merge->rank, merge->result} : (struct join){MERGE_NONE, 0};
}

static size_t apply_short(const struct merges *merges, struct symbol *symbols, size_t n) {
    struct join joins[SHORT_PIECE];
    for (size_t i = 0; i + 1 < n; i++) joins[i] = join_of(merges, &symbols[i]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (joins[i].rank < joins[best].rank) best = i;
        if (joins[best].rank == MERGE_NONE) break;
        symbols[best].id = joins[best].result;
        symbols[best].length += symbols[best + 1].length;
        n--;
        memmove(&symbols[best + 1], &symbols[best + 2], (n - best - 1) * sizeof *symbols);
        if (best + 1 < n) {
            memmove(&joins[best], &joins[best + 1], (n - best - 1) * sizeof *joins);
            joins[best] = join_of(merges, &symbols[best]);
        }
        if (best) joins[best - 1] = join_of(merges, &symbols[best - 1]);
    }
    return n;
}

/* ---- long pieces: a list and a heap ---- */

struct node {
    uint32_t id, length;
    uint32_t before, after;
    uint32_t rank, result; /* of the join with the node after */
};

/* Ordered by rank, then position; an entry counts only while its node still has that rank and result. */
struct heap_entry {
    uint64_t order; /* rank << 32 | node */
    uint32_t result;
};

struct heap {
    struct heap_entry *entries;
    size_t count;
};

static void heap_push(struct heap *heap, struct heap_entry entry) {
    size_t i = heap->count++;
    while (i) {
        size_t parent = (i - 1) / 4;
        if (heap->entries[parent].order <= entry.order) break;
        heap->entries[i] = heap->entries[parent];
        i = parent;
    }
    heap->entries[i] = entry;
}

static void sift_down(struct heap *heap, size_t i) {
    struct heap_entry entry = heap->entries[i];
    for (;;) {
        size_t child = 4 * i + 1, best = child;
        if (child >= heap->count) break;
        for (size_t k = child + 1; k < child + 4 && k < heap->count; k++)
            if (heap->entries[k].order < heap->entries[best].order) best = k;
        if (heap->entries[best].order >= entry.order) break;
        heap->entries[i] = heap->entries[best];
        i = best;
    }
    heap->entries[i] = entry;
}

static struct heap_entry heap_pop(struct heap *heap) {
    struct heap_entry top = heap->entries[0];
    heap->entries[0] = heap->entries[--heap->count];
    if (heap->count) sift_down(heap, 0);
    return top;
}

static bool find_join(const struct merges *merges, struct node *nodes, uint32_t at) {
    struct node *node = &nodes[at];
    node->rank = MERGE_NONE;
    if (node->after == NO_NODE) return false;
    const struct merge *merge = merges_find(merges, node->id, nodes[node->after].id);
    if (!merge) return false;
    node->rank = merge->rank;
    node->result = merge->result;
    return true;
}

static struct heap_entry entry_of(const struct node *nodes, uint32_t at) {
    return (struct heap_entry){.order = (uint64_t)nodes[at].rank << 32 | at, .result = nodes[at].result};
}

static void join_nodes(const struct merges *merges, struct node *nodes, struct heap *heap, uint32_t at) {
    struct node *node = &nodes[at], *gone = &nodes[node->after];
    node->id = node->result;
    node->length += gone->length;
    node->after = gone->after;
    gone->rank = MERGE_NONE;
    if (node->after != NO_NODE) nodes[node->after].before = at;
    if (find_join(merges, nodes, at)) heap_push(heap, entry_of(nodes, at));
    if (node->before != NO_NODE && find_join(merges, nodes, node->before))
        heap_push(heap, entry_of(nodes, node->before));
}

static bool apply_long(const struct merges *merges, struct merge_scratch *scratch, struct symbol *symbols, size_t *n) {
    size_t heap_room;
    /* Each join pushes at most two entries and there are fewer joins than symbols. */
    if (*n >= UINT32_MAX || !size_mul(*n, 3, &heap_room) ||
        !array_reserve(&scratch->nodes, &scratch->node_capacity, *n, sizeof(struct node)) ||
        !array_reserve(&scratch->heap, &scratch->heap_capacity, heap_room, sizeof(struct heap_entry)))
        return false;
    struct node *nodes = scratch->nodes;
    struct heap heap = {.entries = scratch->heap};
    uint32_t count = (uint32_t)*n;
    for (uint32_t i = 0; i < count; i++)
        nodes[i] = (struct node){.id = symbols[i].id,
                                 .length = symbols[i].length,
                                 .before = i ? i - 1 : NO_NODE,
                                 .after = i + 1 < count ? i + 1 : NO_NODE};
    for (uint32_t i = 0; i < count; i++)
        if (find_join(merges, nodes, i)) heap.entries[heap.count++] = entry_of(nodes, i);
    for (size_t i = heap.count / 4 + 1; i-- > 0;)
        if (i < heap.count) sift_down(&heap, i);
    while (heap.count) {
        struct heap_entry top = heap_pop(&heap);
        uint32_t at = (uint32_t)top.order;
        if (nodes[at].rank == (uint32_t)(top.order >> 32) && nodes[at].result == top.result &&
            nodes[at].rank != MERGE_NONE)
            join_nodes(merges, nodes, &heap, at);
    }
    size_t left = 0;
    for (uint32_t i = 0; i != NO_NODE && count; i = nodes[i].after)
        symbols[left++] = (struct symbol){nodes[i].id, nodes[i].length};
    *n = left;
    return true;
}

bool merges_apply(const struct merges *merges, struct merge_scratch *scratch, struct symbol *symbols, size_t *n) {
    if (*n < 2 || !merges->count) return true;
    if (*n > SHORT_PIECE) return apply_long(merges, scratch, symbols, n);
    *n = apply_short(merges, symbols, *n);
    return true;
}

void merge_scratch_free(struct merge_scratch *scratch) {
    free(scratch->nodes);
    free(scratch->heap);
    *scratch = (struct merge_scratch){0};
}
