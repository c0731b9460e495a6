/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint folder: its weight files and a table from tensor name to tensor.
 *
 * With model.safetensors.index.json the tensors come from the shards that it names. Where the index is stale (a shard
 * or a tensor is not where it says), all *.safetensors of the folder are looked at instead, with a notice; a tensor
 * that is in none of them is reported with the shard that the index names for it. */
#ifndef MLXCEL_FORMAT_CHECKPOINT_H
#define MLXCEL_FORMAT_CHECKPOINT_H

#include "base/map.h"
#include "format/safetensors.h"

struct checkpoint {
    const char *folder;
    struct safetensors *files;
    size_t n_files;
    struct map by_name; /* name -> pointer to struct tensor */
    struct map index;   /* name -> pointer to the NUL-terminated shard name; empty without an index */
    bool is_mlx;        /* written by an MLX conversion */
    bool is_stale;      /* the index was not followed */
    const char *absent; /* a file that the index names and the folder lacks; NULL = none */
    struct arena arena;
};

bool checkpoint_open(struct checkpoint *checkpoint, const char *folder, struct mx_error *err);
void checkpoint_close(struct checkpoint *checkpoint);

/* NULL when there is none. */
const struct tensor *checkpoint_find(const struct checkpoint *checkpoint, const char *name);
/* Fills err for a tensor that was not found, naming the index's shard if it has one. Returns false. */
bool checkpoint_missing(const struct checkpoint *checkpoint, const char *name, struct mx_error *err);
/* Logs what a model that runs all the same should be told about: an index that was not followed. */
void checkpoint_report(const struct checkpoint *checkpoint);
/* True once a mapped file was cut; names it in err. */
bool checkpoint_is_damaged(const struct checkpoint *checkpoint, struct mx_error *err);
/* Bytes of all weight files. */
size_t checkpoint_bytes(const struct checkpoint *checkpoint);

#endif
