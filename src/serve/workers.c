/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/workers.h"

#include "base/memory.h"

#include <signal.h>

static void *run(void *context) {
    struct workers *w = context;
    pthread_mutex_lock(&w->lock);
    while (w->first || !w->is_stopping) {
        struct work_item *item = w->first;
        if (!item) {
            pthread_cond_wait(&w->wake, &w->lock);
            continue;
        }
        w->first = item->next;
        if (!w->first) w->end = &w->first;
        pthread_mutex_unlock(&w->lock);
        item->run(item->context);
        free(item);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

bool workers_start(struct workers *w, int n_threads, struct mx_error *err) {
    *w = (struct workers){.end = &w->first};
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    w->threads = array_calloc((size_t)n_threads, sizeof *w->threads);
    if (!w->threads) return error_memory(err, "threads");
    while (w->n_threads < n_threads) {
        if (pthread_create(&w->threads[w->n_threads], NULL, run, w))
            return error_set(err, ERROR_IO, "cannot start a thread");
        w->n_threads++;
    }
    return true;
}

void workers_stop(struct workers *w) {
    if (!w->threads) return;
    pthread_mutex_lock(&w->lock);
    w->is_stopping = true;
    pthread_cond_broadcast(&w->wake);
    pthread_mutex_unlock(&w->lock);
    for (int i = 0; i < w->n_threads; i++) pthread_join(w->threads[i], NULL);
    free(w->threads);
    w->threads = NULL; /* the lock stays, for late callers of workers_add */
}

bool workers_add(struct workers *w, work function, void *context) {
    struct work_item *item = malloc(sizeof *item);
    if (!item) return false;
    *item = (struct work_item){.run = function, .context = context};
    pthread_mutex_lock(&w->lock);
    bool takes = !w->is_stopping;
    if (takes) {
        *w->end = item;
        w->end = &item->next;
        pthread_cond_signal(&w->wake);
    }
    pthread_mutex_unlock(&w->lock);
    if (!takes) free(item);
    return takes;
}
