/* SPDX-License-Identifier: Apache-2.0 */
/* Thread pool for lock-step work: every thread runs the same job and meets the others at barriers.
 *
 * The caller's thread is thread 0; the pool owns the other n_threads - 1. A waiting thread spins for a bounded time
 * (the next piece of work is usually microseconds away) and then sleeps in a futex, so an idle pool costs nothing. */
#ifndef MLXCEL_BASE_POOL_H
#define MLXCEL_BASE_POOL_H

#include "base/error.h"

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

/* Inside a job: returns when all threads of the pool have called it. Also resets the task counter to 0. */
void pool_barrier(struct pool *pool);

/* Inside a job: the next number of the task counter, 0, 1, 2, ... since the last barrier (or the job's start). Threads
 * take tasks from it until the number reaches the count that they all know. */
uint32_t pool_next_task(struct pool *pool);

/* The number of processors this process may run on. */
int pool_default_threads(void);

#endif
