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

/* Describes the model of a config (model_build). checkpoint NULL: shapes only. On success the graph holds the unfused description and
 * borrows config and checkpoint, which must outlive it. */
/* The same for shapes only with another format than the config's: for synthetic checkpoints. NULL = the config's. */
bool model_build_as(struct graph *graph, struct config *config, const struct quantization *quantization,
                    enum dtype plain_dtype, struct mx_error *err);

bool model_build(struct graph *graph, struct config *config, const struct checkpoint *checkpoint, struct mx_error *err);

#endif
