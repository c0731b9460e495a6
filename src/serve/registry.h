/* SPDX-License-Identifier: Apache-2.0 */
/* The models that this server knows: the one named at the start, and the folders of --models-dir, which are loaded when
 * a request asks for them. When the number of loaded models is reached, the one not used for the longest time, which
 * nobody uses now and which is not pinned, is unloaded. */
#ifndef MLXCEL_SERVE_REGISTRY_H
#define MLXCEL_SERVE_REGISTRY_H

#include "serve/api_error.h"
#include "serve/served.h"

enum entry_state { ENTRY_UNLOADED, ENTRY_LOADING, ENTRY_LOADED, ENTRY_UNLOADING, ENTRY_FAILED };

struct registry_entry {
    char *name, *path;
    char *aliases; /* comma list, or NULL */
    enum entry_state state;
    struct served *served; /* while loaded */
    uint32_t n_users;
    uint64_t used_ns;
    bool is_pinned;
    struct mx_error failure;
};

struct registry {
    const struct server_options *options;
    bool is_shared; /* by clients that must not know of each other */
    struct metrics *metrics;
    struct step_hook after_step;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct registry_entry *entries; /* the array does not grow after registry_open */
    size_t n_entries;
};

/* Finds the models; loads the first one. is_shared: see served.h. */
bool registry_open(struct registry *registry, const struct server_options *options, bool is_shared,
                   struct metrics *metrics, struct step_hook after_step, struct mx_error *err);
void registry_close(struct registry *registry);

/* The model of that name (NULL or empty: the first), loaded, which stays so until registry_release. NULL with the problem
 * set. May take as long as loading takes. */
struct served *registry_acquire(struct registry *registry, const char *name, struct problem *problem);
void registry_release(struct registry *registry, struct served *served);

bool registry_load(struct registry *registry, const char *name, struct problem *problem);
bool registry_unload(struct registry *registry, const char *name, struct problem *problem);

/* Calls visit for each entry, with the registry locked. */
void registry_visit(struct registry *registry, void (*visit)(void *context, struct registry_entry *entry),
                    void *context);
/* False when a loaded model is not healthy. */
bool registry_is_healthy(struct registry *registry, uint64_t now_ns);

#endif
