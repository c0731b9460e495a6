/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens that may still be drawn, and the memory that this takes: a working set which many samplers share, one
 * after the other.
 *
 * A set begins as a row: the whole vocabulary, x[i] being the logit of token i, -inf where it is excluded. Filters keep
 * the upper end of an order. As long as many tokens remain, the row stays and excluded places become -inf; when few
 * remain, they move into a list, x[i] being the logit of token ids[i], ids ascending. Neither is ever sorted as a
 * whole: the maxima of small blocks tell where large values lie, and cuts are found by selection. */
#ifndef MLXCEL_ENGINE_CANDIDATES_H
#define MLXCEL_ENGINE_CANDIDATES_H

#include "base/error.h"
#include "kernels/kernels.h"

#include <stdbool.h>
#include <stdint.h>

struct weighted { /* for selection */
    float key, w;
};

struct candidates {
    const struct kernels *kernels;
    uint32_t vocab_size;
    float *row, *row_w;         /* [vocab_size] */
    float *list, *list_w;       /* [vocab_size] */
    uint32_t *list_ids;         /* [vocab_size] */
    float *keys;                /* [vocab_size] scratch of filters */
    float *maxima;              /* [chunks * 16] of the row's blocks; upper bounds once places were excluded */
    float *chunk_maxima;        /* [chunks] */
    double *sums;               /* [chunks] of w */
    struct weighted *selection; /* [vocab_size] scratch */
    float *values;              /* [vocab_size + 16] scratch of selection */
    /* the set: */
    float *x;            /* row or list */
    float *w;            /* exp((x - max) * scale) after candidates_weigh */
    const uint32_t *ids; /* NULL: a row */
    uint32_t n;          /* places in x */
    float max;           /* largest x */
    double scale;        /* that scale; 0 = w is not that of x */
    double total;        /* sum of w */
};

/* Memory for rows of vocab_size logits; the kernels are those of the best tier. */
bool candidates_init(struct candidates *c, uint32_t vocab_size, struct mx_error *err);
void candidates_free(struct candidates *c);

/* Begins a row: NaN becomes -inf and +inf the largest finite number. c->x may be changed until candidates_measure. */
void candidates_load(struct candidates *c, const float *logits);
/* Begins a row in place: without NaN and +inf, and the filters may write to it. */
void candidates_begin(struct candidates *c, float *row);
/* Finds max (and the row's block maxima). False when every place is -inf. */
bool candidates_measure(struct candidates *c);
/* w = exp((x - max) * scale), and total. Does nothing where they are there already. */
void candidates_weigh(struct candidates *c, double scale);

static inline uint32_t candidates_token(const struct candidates *c, uint32_t i) { return c->ids ? c->ids[i] : i; }
/* Places that are not -inf. */
uint32_t candidates_count(const struct candidates *c);
/* Place of the largest x, the lowest token among equals. */
uint32_t candidates_best(const struct candidates *c);
/* Place of a token, or n when it is not there. */
uint32_t candidates_find(const struct candidates *c, uint32_t token);

/* The upper end of an order by key: places with key > value, and those with key == value and token <= last_tie. */
struct cut {
    float value;
    uint32_t last_tie;
};

/* Excludes every place outside the cut; weights are lost. key is c->x or c->keys. */
void candidates_keep(struct candidates *c, const float *key, struct cut cut);
/* The k places with the largest x and all that equal the k-th of them, as a list (k at least 1). */
void candidates_keep_largest(struct candidates *c, uint32_t k);
/* Where the sum of w, by descending key and ascending token, first passes target: the places before that point and the
 * one that passes it. Weights must be there; excluded places have weight 0. target >= 0. */
struct cut candidates_cut_by_mass(struct candidates *c, const float *key, double target);
/* Whether that cut by x of a row is likely to hold more than about 2,000 places. */
bool candidates_is_wide(struct candidates *c, double target);
/* The sum of w over places with x >= value. */
double candidates_mass_from(const struct candidates *c, float value);
/* The sum of w, by descending x and ascending token, before a place. */
double candidates_mass_before(const struct candidates *c, uint32_t place);
/* A value that at least k places of a row reach, and not many more. */
float candidates_reached_by(struct candidates *c, uint32_t k);
/* The row's places with x >= low, ascending, into found; their number. Costs little where they are few. */
uint32_t candidates_find_from(const struct candidates *c, float low, uint32_t *found);
/* Sorts a list by x descending, token ascending; weights are lost. */
void candidates_sort(struct candidates *c);

#endif
