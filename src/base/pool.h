/* SPDX-License-Identifier: Apache-2.0 */
/* Thread pool for lock-step work: every thread runs the same job and meets the others at barriers.
 *
 * The caller's thread is thread 0; the pool owns the other n_threads - 1. A waiting thread spins for a bounded time
 * (the next piece of work is usually microseconds away) and then sleeps in a futex, so an idle pool costs nothing. */
#ifndef MLXCEL_BASE_POOL_H
#define MLXCEL_BASE_POOL_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct pool;

/* Runs on every thread, 0 <= thread < n_threads. */
typedef void (*pool_job)(void *context, int thread);

/* n_threads >= 1. Returns NULL with the error set when a thread cannot be started. */
struct pool *pool_create(int n_threads, struct mx_error *err);
void pool_destroy(struct pool *pool);
int pool_n_threads(const struct pool *pool);

/* Runs job on all threads and returns when all have finished. Not reentrant; one caller at a time. */
void pool_run(struct pool *pool, pool_job job, void *context);

/* Inside a job: returns when all threads of the pool have called it. All tasks can be taken again behind it. */
void pool_barrier(struct pool *pool);

/* Inside a job: takes one of the tasks 0 .. n_tasks - 1, each of which is given once between two barriers; false when none
 * is left. Every thread passes the same n_tasks. A thread is given neighbouring tasks in ascending order, from
 * pool_first_task() on, and then helps others with theirs. */
bool pool_take(struct pool *pool, int thread, uint32_t n_tasks, uint32_t *task);
/* Where a thread's own tasks begin. */
uint32_t pool_first_task(const struct pool *pool, int thread, uint32_t n_tasks);

/* The number of processors this process may run on. */
int pool_default_threads(void);

#endif
