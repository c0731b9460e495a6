/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of sequences: reference-counted pages of each cache group, and slots of recurrent state.
 *
 * A page holds 64 cells of all layers of its group. Sequences own references; a page with one reference may be written,
 * a shared one is copied first. Nothing here touches the pages' content: the backend holds it. */
#ifndef MLXCEL_ENGINE_STORE_H
#define MLXCEL_ENGINE_STORE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NO_PAGE = 0xffffffff, NO_SLOT = 0xffffffff };

/* A set of numbered things with reference counts and a free list. */
struct ref_pool {
    uint32_t n, n_free;
    uint32_t *free_list; /* a stack */
    uint32_t *references;
};

struct store {
    struct ref_pool *pages; /* [n_groups] */
    uint32_t n_groups;
    struct ref_pool states;
};

bool store_init(struct store *store, uint32_t n_groups, const uint32_t *n_pages, uint32_t n_states,
                struct mx_error *err);
void store_free(struct store *store);

/* One thing with one reference, or 0xffffffff when none is free. */
uint32_t ref_pool_take(struct ref_pool *pool);
void ref_pool_share(struct ref_pool *pool, uint32_t id);
/* Gives one reference back. 0xffffffff is ignored. */
void ref_pool_drop(struct ref_pool *pool, uint32_t id);

#endif
