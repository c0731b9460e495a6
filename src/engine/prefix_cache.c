/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/prefix_cache.h"

#include "base/memory.h"

#include <string.h>

struct prefix_node {
    struct prefix_node *parent, *child, *sibling;
    uint64_t used;
    uint64_t key; /* hash of all tokens from the root to here */
    bool has_snapshot;
    struct snapshot snapshot;
    uint32_t tokens[PAGE_CELLS];
    uint32_t pages[]; /* [groups]; NO_PAGE for groups with windows */
};

static uint64_t hash_page(uint64_t key, const uint32_t *tokens) {
    for (size_t i = 0; i < PAGE_CELLS; i++) key = (key ^ tokens[i]) * 0x100000001b3u; /* FNV-1a's prime */
    return key;
}

static struct prefix_node *new_node(struct prefix_cache *cache, struct prefix_node *parent, const uint32_t *tokens) {
    size_t n = cache->model->graph.n_groups;
    struct prefix_node *node = calloc(1, sizeof *node + n * sizeof *node->pages);
    if (!node) return NULL;
    memset(node->pages, 0xff, n * sizeof *node->pages);
    node->snapshot.state = NO_SLOT;
    if (!parent) return node;
    memcpy(node->tokens, tokens, sizeof node->tokens);
    node->key = hash_page(parent->key, tokens);
    node->parent = parent;
    node->sibling = parent->child;
    parent->child = node;
    cache->n_nodes++;
    return node;
}

static void drop_snapshot(struct prefix_cache *cache, struct prefix_node *node) {
    if (!node->has_snapshot) return;
    snapshot_release(&node->snapshot, cache->model);
    node->has_snapshot = false;
    cache->n_snapshots--;
}

/* Frees a leaf. */
static void drop_leaf(struct prefix_cache *cache, struct prefix_node *node) {
    struct prefix_node **at = &node->parent->child;
    while (*at != node) at = &(*at)->sibling;
    *at = node->sibling;
    drop_snapshot(cache, node);
    for (size_t g = 0; g < cache->model->graph.n_groups; g++)
        ref_pool_drop(&cache->model->store.pages[g], node->pages[g]);
    free(node);
    cache->n_nodes--;
}

static struct prefix_node *find_child(const struct prefix_node *node, const uint32_t *tokens) {
    struct prefix_node *child = node->child;
    while (child && memcmp(child->tokens, tokens, sizeof child->tokens) != 0) child = child->sibling;
    return child;
}

/* The next node of a walk over the whole tree, children first. */
static struct prefix_node *next_node(struct prefix_node *node) {
    if (node->child) return node->child;
    while (node->parent && !node->sibling) node = node->parent;
    return node->parent ? node->sibling : NULL;
}

bool prefix_cache_evict(struct prefix_cache *cache, bool only_snapshot) {
    struct prefix_node *oldest = NULL;
    if (!cache->root) return false;
    for (struct prefix_node *n = cache->root; n; n = next_node(n)) {
        bool fits = only_snapshot ? n->has_snapshot : n != cache->root && !n->child;
        if (fits && (!oldest || n->used < oldest->used)) oldest = n;
    }
    if (!oldest) return false;
    if (only_snapshot) {
        drop_snapshot(cache, oldest);
    } else {
        cache->evicted[cache->n_evicted++ % N_REMEMBERED_EVICTIONS] = oldest->key;
        drop_leaf(cache, oldest);
    }
    return true;
}

void prefix_cache_clear(struct prefix_cache *cache) {
    while (prefix_cache_evict(cache, false)) continue;
}

bool prefix_cache_init(struct prefix_cache *cache, struct model *model, size_t max_nodes, bool within_pages,
                       struct mx_error *err) {
    size_t n_groups = model->graph.n_groups, most = model->options.max_cells / PAGE_CELLS + 1;
    *cache = (struct prefix_cache){.model = model, .max_nodes = max_nodes, .rope_limit = UINT32_MAX};
    cache->needs_snapshots = !sequence_is_random_access(model);
    cache->within_pages = within_pages && !cache->needs_snapshots;
    for (size_t i = 0; i < model->graph.n_ropes; i++) {
        const struct rope *rope = &model->graph.ropes[i];
        if (rope->kind != ROPE_PLAIN && rope->original_length < cache->rope_limit)
            cache->rope_limit = rope->original_length;
    }
    if (!max_nodes) return true;
    cache->root = new_node(cache, NULL, NULL);
    cache->found = array_calloc(n_groups, sizeof *cache->found);
    bool ok = cache->root && cache->found;
    for (size_t g = 0; g < n_groups && ok; g++)
        ok = (cache->found[g] = array_alloc(most, sizeof **cache->found)) != NULL;
    if (ok) return true;
    prefix_cache_free(cache);
    return error_memory(err, "prefix cache");
}

void prefix_cache_free(struct prefix_cache *cache) {
    if (!cache->model) return;
    prefix_cache_clear(cache);
    for (size_t g = 0; cache->found && g < cache->model->graph.n_groups; g++) free(cache->found[g]);
    free(cache->found);
    free(cache->root);
    *cache = (struct prefix_cache){0};
}

/* The child that agrees longest with tokens[0 .. n), in *same of them; NULL and 0 where none does at all. */
static struct prefix_node *closest_child(const struct prefix_node *node, const uint32_t *tokens, size_t n,
                                         uint32_t *same) {
    struct prefix_node *closest = NULL;
    uint32_t most = n < PAGE_CELLS ? (uint32_t)n : PAGE_CELLS;
    *same = 0;
    for (struct prefix_node *child = node->child; child; child = child->sibling) {
        uint32_t i = 0;
        while (i < most && child->tokens[i] == tokens[i]) i++;
        if (i <= *same) continue;
        *same = i;
        closest = child;
    }
    return closest;
}

/* Why the node has no child with this page of tokens; n_before tokens lead to the node. */
static struct cache_finding explain(const struct prefix_cache *cache, const struct prefix_node *node,
                                    const uint32_t *tokens, uint32_t n_before) {
    uint64_t key = hash_page(node->key, tokens);
    size_t n = cache->n_evicted < N_REMEMBERED_EVICTIONS ? cache->n_evicted : N_REMEMBERED_EVICTIONS;
    for (size_t i = 0; i < n; i++)
        if (cache->evicted[i] == key) return (struct cache_finding){CACHE_EVICTED, n_before};
    if (!cache->root->child) return (struct cache_finding){CACHE_EMPTY, 0};
    uint32_t same;
    closest_child(node, tokens, PAGE_CELLS, &same);
    return (struct cache_finding){CACHE_DIFFERS, n_before + same};
}

static void find_page(struct prefix_cache *cache, struct prefix_node *node, uint32_t depth) {
    for (size_t g = 0; g < cache->model->graph.n_groups; g++) cache->found[g][depth] = node->pages[g];
    node->used = ++cache->clock;
}

/* Finds, after the node's `depth` pages, the page that begins with most of the n tokens that may come from it. Returns how
 * many: fewer than 64, since a page that agrees as a whole is the node's child and n is less than a page. */
static uint32_t find_within(struct prefix_cache *cache, const struct prefix_node *node, uint32_t depth,
                            const uint32_t *tokens, size_t n, struct cache_finding *finding) {
    uint32_t same;
    struct prefix_node *child = closest_child(node, tokens, n, &same);
    if (!child) return 0;
    find_page(cache, child, depth);
    if (same == n)
        *finding = (struct cache_finding){CACHE_WHOLE, 0};
    else if (n < PAGE_CELLS) /* for more, explain has said why there is no whole page */
        *finding = (struct cache_finding){CACHE_DIFFERS, depth * PAGE_CELLS + same};
    return same;
}

/* Fills the sequence with the first n_pages pages that were found, and the node's snapshot where one is needed. */
static bool take_up(struct prefix_cache *cache, struct sequence *s, uint32_t n_pages, const struct prefix_node *node) {
    if (!cache->needs_snapshots) return sequence_adopt(s, cache->found, n_pages, NULL);
    bool ok = sequence_adopt(s, cache->found, n_pages, &node->snapshot);
    /* Out of slots: a snapshot other than the one wanted may give its slot. */
    while (!ok && cache->n_snapshots > 1 && prefix_cache_evict(cache, true) && node->has_snapshot)
        ok = sequence_adopt(s, cache->found, n_pages, &node->snapshot);
    return ok;
}

uint32_t prefix_cache_lookup(struct prefix_cache *cache, const uint32_t *tokens, size_t n, struct sequence *s,
                             struct cache_finding *finding) {
    struct prefix_node *node = cache->root, *best = NULL;
    uint32_t depth = 0, best_depth = 0, same = 0, most = (uint32_t)((n - 1) / PAGE_CELLS);
    *finding = (struct cache_finding){!node                   ? CACHE_OFF
                                      : n > cache->rope_limit ? CACHE_LONG_PROMPT
                                      : !most                 ? CACHE_SHORT_PROMPT
                                                              : CACHE_WHOLE,
                                      node ? cache->rope_limit : 0};
    if (!node || n > cache->rope_limit) return 0;
    while (depth < most) {
        struct prefix_node *child = find_child(node, tokens + (size_t)depth * PAGE_CELLS);
        if (!child) {
            *finding = explain(cache, node, tokens + (size_t)depth * PAGE_CELLS, depth * PAGE_CELLS);
            break;
        }
        node = child;
        find_page(cache, node, depth++);
        if (cache->needs_snapshots && !node->has_snapshot) continue;
        best = node;
        best_depth = depth;
    }
    if (best_depth < depth) *finding = (struct cache_finding){CACHE_NO_SNAPSHOT, depth * PAGE_CELLS};
    uint32_t n_whole = depth * PAGE_CELLS;
    if (cache->within_pages) same = find_within(cache, node, depth, tokens + n_whole, n - 1 - n_whole, finding);
    if (!best && !same) return 0;
    if (!take_up(cache, s, best_depth + (same > 0), best)) {
        *finding = (struct cache_finding){CACHE_NO_STATE_SLOT, 0};
        return 0;
    }
    if (same) sequence_truncate(s, n_whole + same);
    return s->n_cells;
}

static void attach_snapshot(struct prefix_cache *cache, struct prefix_node *node, const struct sequence *s) {
    if (node->has_snapshot || s->n_cells % PAGE_CELLS) return;
    node->has_snapshot = snapshot_take(&node->snapshot, s);
    if (!node->has_snapshot && prefix_cache_evict(cache, true)) node->has_snapshot = snapshot_take(&node->snapshot, s);
    if (node->has_snapshot) cache->n_snapshots++;
}

void prefix_cache_insert(struct prefix_cache *cache, const uint32_t *tokens, size_t n_prompt, const struct sequence *s,
                         bool snapshot) {
    struct prefix_node *node = cache->root;
    uint32_t n_cells = s->n_cells < cache->rope_limit ? s->n_cells : cache->rope_limit;
    if (!node || n_prompt > cache->rope_limit) return;
    for (uint32_t p = 0; p < n_cells / PAGE_CELLS; p++) {
        struct prefix_node *parent = node;
        node = find_child(parent, tokens + (size_t)p * PAGE_CELLS);
        if (!node) {
            if (cache->n_nodes >= cache->max_nodes && cache->n_nodes == p) return; /* nothing but the path */
            parent->used = ++cache->clock; /* so that making room does not take the path away */
            while (cache->n_nodes >= cache->max_nodes && prefix_cache_evict(cache, false)) continue;
            if (cache->n_nodes >= cache->max_nodes) return;
            node = new_node(cache, parent, tokens + (size_t)p * PAGE_CELLS);
            if (!node) return;
            for (size_t g = 0; g < cache->model->graph.n_groups; g++) {
                if (cache->model->graph.groups[g].policy != CACHE_FULL) continue;
                node->pages[g] = s->tables[g][p];
                ref_pool_share(&cache->model->store.pages[g], node->pages[g]);
            }
        }
        node->used = ++cache->clock;
    }
    if (snapshot && cache->needs_snapshots && node != cache->root && n_cells == s->n_cells)
        attach_snapshot(cache, node, s);
}

void prefix_cache_forget_snapshot(struct prefix_cache *cache, const uint32_t *tokens, uint32_t n_cells) {
    struct prefix_node *node = cache->root;
    for (uint32_t p = 0; node && p < n_cells / PAGE_CELLS; p++)
        node = find_child(node, tokens + (size_t)p * PAGE_CELLS);
    if (node) drop_snapshot(cache, node);
}
