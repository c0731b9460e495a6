/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sequence.h"

#include "base/memory.h"

#include <string.h>

static uint32_t pages_of(uint32_t cells) { return (cells + PAGE_CELLS - 1) / PAGE_CELLS; }

static bool has_state(const struct model *m) { return m->graph.state_floats > 0; }

bool sequence_is_random_access(const struct model *m) {
    if (has_state(m)) return false;
    for (size_t g = 0; g < m->graph.n_groups; g++)
        if (m->graph.groups[g].policy != CACHE_FULL) return false;
    return true;
}

/* The first page that a token at `cell` or later can see. */
static uint32_t first_needed_page(const struct cache_group *group, uint32_t cell) {
    if (group->policy == CACHE_WINDOW) return cell + 1 > group->window ? (cell + 1 - group->window) / PAGE_CELLS : 0;
    if (group->policy == CACHE_CHUNK) return cell / group->window * group->window / PAGE_CELLS;
    return 0;
}

bool sequence_init(struct sequence *s, struct model *model, struct mx_error *err) {
    size_t n = model->graph.n_groups;
    *s = (struct sequence){.model = model, .state = NO_SLOT, .table_pages = pages_of(model->options.max_cells)};
    s->tables = array_calloc(n, sizeof *s->tables);
    s->first_page = array_calloc(n, sizeof *s->first_page);
    bool ok = s->tables && s->first_page;
    for (size_t g = 0; g < n && ok; g++) {
        s->tables[g] = array_alloc(s->table_pages, sizeof **s->tables);
        ok = s->tables[g] != NULL;
        if (ok) memset(s->tables[g], 0xff, s->table_pages * sizeof **s->tables);
    }
    if (ok) return true;
    sequence_free(s);
    return error_memory(err, "sequence");
}

static void drop_pages(struct sequence *s, size_t g, uint32_t from, uint32_t to) {
    for (uint32_t p = from; p < to && p < s->table_pages; p++) {
        ref_pool_drop(&s->model->store.pages[g], s->tables[g][p]);
        s->tables[g][p] = NO_PAGE;
    }
}

void snapshot_release(struct snapshot *snap, struct model *m) {
    size_t n = m->graph.n_groups;
    ref_pool_drop(&m->store.states, snap->state);
    for (size_t g = 0; g < n && snap->pages; g++) {
        for (uint32_t p = 0; snap->pages[g] && p < snap->n_pages[g]; p++)
            ref_pool_drop(&m->store.pages[g], snap->pages[g][p]);
        free(snap->pages[g]);
    }
    free(snap->pages);
    free(snap->first_page);
    free(snap->n_pages);
    *snap = (struct snapshot){.state = NO_SLOT};
}

void sequence_clear(struct sequence *s) {
    for (size_t g = 0; s->tables && g < s->model->graph.n_groups; g++) {
        if (s->tables[g]) drop_pages(s, g, 0, s->table_pages);
        if (s->first_page) s->first_page[g] = 0;
    }
    for (size_t i = 0; i < s->n_snapshots; i++) snapshot_release(&s->snapshots[i], s->model);
    s->n_snapshots = 0;
    if (s->model) ref_pool_drop(&s->model->store.states, s->state);
    s->state = NO_SLOT;
    s->n_cells = 0;
}

void sequence_free(struct sequence *s) {
    if (!s->model) return;
    sequence_clear(s);
    for (size_t g = 0; s->tables && g < s->model->graph.n_groups; g++) free(s->tables[g]);
    free(s->tables);
    free(s->first_page);
    free(s->snapshots);
    *s = (struct sequence){0};
}

bool sequence_reserve(struct sequence *s, uint32_t n) {
    struct store *store = &s->model->store;
    if (n > s->model->options.max_cells - s->n_cells) return false;
    if (has_state(s->model) && s->state == NO_SLOT && (s->state = ref_pool_take(&store->states)) == NO_SLOT)
        return false;
    for (size_t g = 0; g < s->model->graph.n_groups; g++) {
        struct ref_pool *pool = &store->pages[g];
        for (uint32_t p = s->n_cells / PAGE_CELLS; p < pages_of(s->n_cells + n); p++) {
            uint32_t page = s->tables[g][p];
            if (page != NO_PAGE && pool->references[page] == 1) continue;
            uint32_t fresh = ref_pool_take(pool);
            if (fresh == NO_PAGE) return false;
            if (page != NO_PAGE) { /* shared: the cells that are there go along */
                s->model->backend->copy_page(s->model->compiled, (uint32_t)g, fresh, page);
                ref_pool_drop(pool, page);
            }
            s->tables[g][p] = fresh;
        }
    }
    return true;
}

void sequence_commit(struct sequence *s, uint32_t n) {
    s->n_cells += n;
    for (size_t g = 0; g < s->model->graph.n_groups; g++) {
        uint32_t first = first_needed_page(&s->model->graph.groups[g], s->n_cells);
        if (first <= s->first_page[g]) continue;
        drop_pages(s, g, s->first_page[g], first);
        s->first_page[g] = first;
    }
}

bool sequence_fork(struct sequence *copy, const struct sequence *s, struct mx_error *err) {
    struct store *store = &s->model->store;
    if (!sequence_init(copy, s->model, err)) return false;
    if (s->state != NO_SLOT) {
        copy->state = ref_pool_take(&store->states);
        if (copy->state == NO_SLOT) {
            sequence_free(copy);
            return error_set(err, ERROR_LIMIT, "no state slot is free");
        }
        s->model->backend->copy_state(s->model->compiled, copy->state, s->state);
    }
    for (size_t g = 0; g < s->model->graph.n_groups; g++) {
        copy->first_page[g] = s->first_page[g];
        for (uint32_t p = s->first_page[g]; p < pages_of(s->n_cells); p++) {
            copy->tables[g][p] = s->tables[g][p];
            ref_pool_share(&store->pages[g], s->tables[g][p]);
        }
    }
    copy->n_cells = s->n_cells;
    return true;
}

/* ---- going back ---- */

/* Whether the pages that a token at n_cells would see are still there. */
static bool pages_reach(const struct sequence *s, uint32_t n_cells) {
    for (size_t g = 0; g < s->model->graph.n_groups; g++)
        if (first_needed_page(&s->model->graph.groups[g], n_cells) < s->first_page[g]) return false;
    return true;
}

static void cut(struct sequence *s, uint32_t n_cells) {
    for (size_t g = 0; g < s->model->graph.n_groups; g++) drop_pages(s, g, pages_of(n_cells), pages_of(s->n_cells));
    s->n_cells = n_cells;
}

/* Puts the snapshot's state and window pages in the place of the sequence's. */
static void restore(struct sequence *s, const struct snapshot *snap) {
    struct store *store = &s->model->store;
    uint32_t n_cells = s->n_cells;
    if (snap->state != NO_SLOT) s->model->backend->copy_state(s->model->compiled, s->state, snap->state);
    for (size_t g = 0; g < s->model->graph.n_groups; g++) {
        if (!snap->pages[g]) continue;
        drop_pages(s, g, s->first_page[g], pages_of(n_cells));
        s->first_page[g] = snap->first_page[g];
        for (uint32_t p = 0; p < snap->n_pages[g]; p++) {
            s->tables[g][snap->first_page[g] + p] = snap->pages[g][p];
            ref_pool_share(&store->pages[g], snap->pages[g][p]);
        }
    }
    cut(s, snap->n_cells);
}

void sequence_truncate(struct sequence *s, uint32_t n_cells) {
    if (n_cells >= s->n_cells) return;
    if (!has_state(s->model) && pages_reach(s, n_cells)) {
        cut(s, n_cells);
    } else {
        size_t i = s->n_snapshots;
        while (i > 0 && s->snapshots[i - 1].n_cells > n_cells) i--;
        if (i > 0)
            restore(s, &s->snapshots[i - 1]);
        else
            sequence_clear(s);
    }
    while (s->n_snapshots && s->snapshots[s->n_snapshots - 1].n_cells > s->n_cells)
        snapshot_release(&s->snapshots[--s->n_snapshots], s->model);
}

/* References to the pages of a windowed group that are there now. */
static bool keep_pages(const struct sequence *s, struct snapshot *snap, size_t g) {
    uint32_t end = pages_of(s->n_cells), first = s->first_page[g];
    if (s->model->graph.groups[g].policy == CACHE_FULL) return true;
    snap->pages[g] = array_alloc(end - first, sizeof **snap->pages);
    if (!snap->pages[g]) return false;
    snap->first_page[g] = first;
    for (; snap->n_pages[g] < end - first; snap->n_pages[g]++) {
        uint32_t page = s->tables[g][first + snap->n_pages[g]];
        snap->pages[g][snap->n_pages[g]] = page;
        ref_pool_share(&s->model->store.pages[g], page);
    }
    return true;
}

bool snapshot_take(struct snapshot *snap, const struct sequence *s) {
    size_t n = s->model->graph.n_groups;
    *snap = (struct snapshot){.n_cells = s->n_cells, .state = NO_SLOT};
    snap->pages = array_calloc(n, sizeof *snap->pages);
    snap->first_page = array_calloc(n, sizeof *snap->first_page);
    snap->n_pages = array_calloc(n, sizeof *snap->n_pages);
    bool ok = snap->pages && snap->first_page && snap->n_pages;
    if (ok && s->state != NO_SLOT) ok = (snap->state = ref_pool_take(&s->model->store.states)) != NO_SLOT;
    for (size_t g = 0; g < n && ok; g++) ok = keep_pages(s, snap, g);
    if (!ok) {
        snapshot_release(snap, s->model);
        return false;
    }
    if (snap->state != NO_SLOT) s->model->backend->copy_state(s->model->compiled, snap->state, s->state);
    return true;
}

bool sequence_snapshot(struct sequence *s) {
    if (sequence_is_random_access(s->model) || !s->n_cells) return true;
    if (s->n_snapshots && s->snapshots[s->n_snapshots - 1].n_cells == s->n_cells) return true;
    if (!array_reserve(&s->snapshots, &s->snapshots_capacity, s->n_snapshots + 1, sizeof *s->snapshots)) return false;
    if (!snapshot_take(&s->snapshots[s->n_snapshots], s)) return false;
    s->n_snapshots++;
    return true;
}

bool sequence_adopt(struct sequence *s, uint32_t *const *pages, uint32_t n_pages, const struct snapshot *snap) {
    struct store *store = &s->model->store;
    if (snap && snap->state != NO_SLOT) {
        if (s->state == NO_SLOT) s->state = ref_pool_take(&store->states);
        if (s->state == NO_SLOT) return false;
        s->model->backend->copy_state(s->model->compiled, s->state, snap->state);
    }
    for (size_t g = 0; g < s->model->graph.n_groups; g++) {
        bool is_full = s->model->graph.groups[g].policy == CACHE_FULL;
        uint32_t first = is_full ? 0 : snap->first_page[g], n = is_full ? n_pages : snap->n_pages[g];
        s->first_page[g] = first;
        for (uint32_t p = 0; p < n; p++) {
            uint32_t page = is_full ? pages[g][p] : snap->pages[g][p];
            s->tables[g][first + p] = page;
            ref_pool_share(&store->pages[g], page);
        }
    }
    s->n_cells = n_pages * PAGE_CELLS;
    return true;
}

bool sequence_drop_snapshot(struct sequence *s) {
    if (!s->n_snapshots) return false;
    snapshot_release(&s->snapshots[0], s->model);
    s->n_snapshots--;
    memmove(s->snapshots, s->snapshots + 1, s->n_snapshots * sizeof *s->snapshots);
    return true;
}
