/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/store.h"

#include "base/memory.h"

static bool pool_init(struct ref_pool *pool, uint32_t n) {
    *pool = (struct ref_pool){.n = n, .n_free = n};
    pool->free_list = array_calloc(n, sizeof *pool->free_list);
    pool->references = array_calloc(n, sizeof *pool->references);
    if (!pool->free_list || !pool->references) return false;
    for (uint32_t i = 0; i < n; i++) pool->free_list[i] = n - 1 - i; /* low numbers first */
    return true;
}

static void pool_free(struct ref_pool *pool) {
    free(pool->free_list);
    free(pool->references);
}

bool store_init(struct store *store, uint32_t n_groups, const uint32_t *n_pages, uint32_t n_states,
                struct mx_error *err) {
    *store = (struct store){0};
    store->pages = array_calloc(n_groups, sizeof *store->pages);
    bool ok = store->pages != NULL && pool_init(&store->states, n_states);
    for (uint32_t g = 0; g < n_groups && ok; g++) {
        store->n_groups = g + 1;
        ok = pool_init(&store->pages[g], n_pages[g]);
    }
    if (ok) return true;
    store_free(store);
    return error_memory(err, "page tables");
}

void store_free(struct store *store) {
    for (uint32_t g = 0; g < store->n_groups; g++) pool_free(&store->pages[g]);
    free(store->pages);
    pool_free(&store->states);
    *store = (struct store){0};
}

uint32_t ref_pool_take(struct ref_pool *pool) {
    if (!pool->n_free) return NO_PAGE;
    uint32_t id = pool->free_list[--pool->n_free];
    pool->references[id] = 1;
    return id;
}

void ref_pool_share(struct ref_pool *pool, uint32_t id) { pool->references[id]++; }

void ref_pool_drop(struct ref_pool *pool, uint32_t id) {
    if (id == NO_PAGE || --pool->references[id]) return;
    pool->free_list[pool->n_free++] = id;
}
