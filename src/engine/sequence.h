/* SPDX-License-Identifier: Apache-2.0 */
/* A sequence: where the keys, values and recurrent state of its tokens lie.
 *
 * Cells are numbered from 0 in token order. Each cache group has a page table; a group with windows gives up pages that
 * no later token can see. Recurrent state holds the whole past in one slot and cannot go back by itself: snapshots, taken
 * after chosen cells, can. A snapshot keeps a copy of the state and references to the pages that windows still need. */
#ifndef MLXCEL_ENGINE_SEQUENCE_H
#define MLXCEL_ENGINE_SEQUENCE_H

#include "engine/model.h"

struct snapshot {
    uint32_t n_cells;               /* cells before it */
    uint32_t state;                 /* slot, or NO_SLOT */
    uint32_t **pages;               /* [groups] references to pages of windowed groups that a token at n_cells sees */
    uint32_t *first_page, *n_pages; /* [groups] */
};

/* Snapshots outside a sequence (a prefix cache keeps them). snapshot_take: of the sequence as it is; false when no slot or
 * memory is free. */
struct sequence;
bool snapshot_take(struct snapshot *snapshot, const struct sequence *sequence);
void snapshot_release(struct snapshot *snapshot, struct model *model);

struct sequence {
    struct model *model;
    uint32_t n_cells;
    uint32_t **tables;          /* [groups][table_pages] */
    uint32_t *first_page;       /* [groups] pages below it are given up */
    uint32_t table_pages;       /* capacity of each table */
    uint32_t state;             /* slot, or NO_SLOT before the first step */
    struct snapshot *snapshots; /* ascending */
    size_t n_snapshots, snapshots_capacity;
};

/* An empty sequence; its tables have room for the model's max_cells, so that later calls do not allocate. */
bool sequence_init(struct sequence *sequence, struct model *model, struct mx_error *err);
void sequence_free(struct sequence *sequence);

/* Makes pages (and a state slot) for n more cells, with copies of shared pages that would be written. False when the
 * pools are exhausted or max_cells would be passed; the sequence is then unchanged but for pages made ready. */
bool sequence_reserve(struct sequence *sequence, uint32_t n);
/* The cells of a step that ran are part of the sequence now; windows give up pages. */
void sequence_commit(struct sequence *sequence, uint32_t n);

/* *copy becomes a sequence with the same cells: pages are shared, the state is copied. False when no slot is free. */
bool sequence_fork(struct sequence *copy, const struct sequence *sequence, struct mx_error *err);

/* Goes back to n_cells cells or fewer: what recurrent state and windows allow. The caller computes the tokens from
 * sequence->n_cells on again. */
void sequence_truncate(struct sequence *sequence, uint32_t n_cells);

/* Keeps the present point as a snapshot (a copy of the state, references to window pages). Does nothing for models that
 * can truncate anywhere. False when no slot is free. */
bool sequence_snapshot(struct sequence *sequence);
/* Drops the oldest snapshot; false when there is none. */
bool sequence_drop_snapshot(struct sequence *sequence);

/* Fills an empty sequence with cells that are elsewhere too: n_pages full pages of each group without windows (pages[g][p];
 * references are added) and, for models that need one, a snapshot at n_pages * 64 cells. False when no slot is free. */
bool sequence_adopt(struct sequence *sequence, uint32_t *const *pages, uint32_t n_pages,
                    const struct snapshot *snapshot);

/* Gives everything back; n_cells becomes 0. */
void sequence_clear(struct sequence *sequence);

/* Whether truncating to any length needs no snapshot: no recurrent state and no windows. */
bool sequence_is_random_access(const struct model *model);

#endif
