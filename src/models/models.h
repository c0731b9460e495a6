/* SPDX-License-Identifier: Apache-2.0 */
/* The model families: from a config (and a checkpoint) to a graph. Nothing outside this folder knows a family's name. */
#ifndef MLXCEL_MODELS_MODELS_H
#define MLXCEL_MODELS_MODELS_H

#include "graph/builder.h"

struct family {
    const char *name;
    const char *model_types; /* values of the config's model_type, separated by spaces */
    void (*build)(struct builder *b);
    const char *blocks; /* what it is made of, for the arch table */
};

/* All families, in the order of the table; a NULL name ends it. */
extern const struct family families[];

/* Describes the model of a config. checkpoint NULL: shapes only. On success the graph holds the unfused description and
 * borrows config and checkpoint, which must outlive it. */
bool model_build(struct graph *graph, struct config *config, const struct checkpoint *checkpoint, struct mx_error *err);

#endif
