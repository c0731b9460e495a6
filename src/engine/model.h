/* SPDX-License-Identifier: Apache-2.0 */
/* A loaded model: checkpoint, graph, plan, thread pool, compiled plan with its page and state pools. */
#ifndef MLXCEL_ENGINE_MODEL_H
#define MLXCEL_ENGINE_MODEL_H

#include "backend/backend.h"
#include "engine/store.h"
#include "models/models.h"

struct model_options {
    enum precision precision;
    int tier;                  /* enum kernel_tier; -1 = the best of this processor */
    int n_threads;             /* 0 = one for each processor */
    unsigned disabled_fusions; /* enum fusion bits */
    uint32_t max_rows;         /* of a step; 0 = 512 */
    uint32_t max_outputs;      /* of a step; 0 = max(16, max_sequences) */
    uint32_t max_sequences;    /* held at the same time; 0 = 1 */
    uint32_t max_cells;        /* longest sequence; 0 = the model's context length */
    uint32_t n_snapshots;      /* snapshot slots for recurrent state, and page references of windows */
    uint32_t n_cache_pages; /* pages of each group without windows beside those of max_sequences, for a prefix cache */
    uint64_t cache_bytes;   /* budget for pages and state; 0 = what max_sequences of max_cells need */
};

/* How blocks are denoised (models with graph.diffusion): generation_config.json, else the usual values. */
struct denoising {
    uint32_t max_steps;   /* of one block */
    double t_min, t_max;  /* temperature of the last and of the first step */
    double entropy_bound; /* tokens are accepted while the others' entropies stay below it together */
    /* A canvas is ready when its best guess was the same for so many steps and its mean entropy is below the threshold. */
    bool stops_early;
    uint32_t stability;
    double confidence;
};

struct model {
    char *folder;
    struct config config;
    struct checkpoint checkpoint;
    struct graph graph;
    struct plan plan;
    struct pool *pool;
    const struct backend *backend;
    struct compiled *compiled;
    struct store store;
    struct model_options options; /* with defaults filled in */
    struct denoising denoising;
    uint32_t *stop_ids; /* end-of-sequence ids of generation_config.json and config.json */
    size_t n_stop_ids;
    bool is_open;
};

/* Opens the checkpoint folder. On failure nothing stays open. */
bool model_open(struct model *model, const char *folder, const struct model_options *options, struct mx_error *err);
void model_close(struct model *model);

bool model_is_stop_id(const struct model *model, uint32_t id);

/* Pages of each cache group that one sequence of `cells` cells needs at most, with steps of max_rows rows. */
uint32_t model_pages_for(const struct cache_group *group, uint32_t cells, uint32_t max_rows);

#endif
