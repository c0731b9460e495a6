/* SPDX-License-Identifier: Apache-2.0 */
/* A few threads that prepare requests, and a queue in front of them. */
#ifndef MLXCEL_SERVE_WORKERS_H
#define MLXCEL_SERVE_WORKERS_H

#include "base/error.h"

#include <pthread.h>
#include <stddef.h>

typedef void (*work)(void *context);

struct work_item {
    struct work_item *next;
    work run;
    void *context;
};

struct workers {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct work_item *first, **end;
    pthread_t *threads;
    int n_threads;
    bool is_stopping;
};

bool workers_start(struct workers *workers, int n_threads, struct mx_error *err);
/* What is queued still runs. */
void workers_stop(struct workers *workers);
/* False when memory is out, or the workers are stopping. */
bool workers_add(struct workers *workers, work run, void *context);

#endif
