/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pool.h"

#include "base/clock.h"
#include "base/memory.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How long a thread spins before it sleeps. A futex wake-up costs about 5 us of latency on an idle core and up to
 * 50 us on a busy virtual machine; between two ops of a decode step lie 1 to 500 us. */
enum { SPIN_NS = 100000, SPINS_PER_CLOCK = 64 };

/* The tasks of one thread: the generation in which the last one was taken in the upper half, how many were taken in it
 * in the lower one, so that a barrier need not touch the lanes. */
struct lane {
    _Alignas(64) _Atomic uint64_t taken;
};

/* Fields written by different threads lie on different cache lines. */
struct pool {
    _Atomic int n_threads; /* lowered only when a start failed */
    pthread_t *threads;
    struct lane *lanes;
    pool_job job;
    void *context;
    bool is_stopping;
    _Alignas(64) _Atomic uint32_t generation; /* of barriers; changes when all have arrived */
    _Atomic uint32_t n_sleeping;
    _Alignas(64) _Atomic uint32_t n_arrived;
};

struct worker {
    struct pool *pool;
    int thread;
};

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void sleep_while_equal(struct pool *pool, uint32_t seen) {
    atomic_fetch_add(&pool->n_sleeping, 1);
    while (atomic_load(&pool->generation) == seen)
        syscall(SYS_futex, (uint32_t *)&pool->generation, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    atomic_fetch_sub(&pool->n_sleeping, 1);
}

static void wait_for_change(struct pool *pool, uint32_t seen) {
    uint64_t deadline = 0;
    for (;;) {
        for (int i = 0; i < SPINS_PER_CLOCK; i++) {
            if (atomic_load_explicit(&pool->generation, memory_order_acquire) != seen) return;
            relax();
        }
        uint64_t now = clock_now_ns();
        if (!deadline) deadline = now + SPIN_NS;
        if (now > deadline) break;
    }
    sleep_while_equal(pool, seen);
}

void pool_barrier(struct pool *pool) {
    uint32_t seen = atomic_load_explicit(&pool->generation, memory_order_relaxed);
    if (pool->n_threads == 1) {
        atomic_store_explicit(&pool->generation, seen + 1, memory_order_relaxed);
        return;
    }
    uint32_t before = atomic_fetch_add_explicit(&pool->n_arrived, 1, memory_order_acq_rel);
    if (before + 1 < (uint32_t)pool->n_threads) {
        wait_for_change(pool, seen);
        return;
    }
    atomic_store_explicit(&pool->n_arrived, 0, memory_order_relaxed);
    atomic_fetch_add(&pool->generation, 1);
    if (atomic_load(&pool->n_sleeping))
        syscall(SYS_futex, (uint32_t *)&pool->generation, FUTEX_WAKE_PRIVATE, pool->n_threads, NULL, NULL, 0);
}

uint32_t pool_first_task(const struct pool *pool, int thread, uint32_t n_tasks) {
    return (uint32_t)((uint64_t)n_tasks * (uint64_t)thread / (uint64_t)pool->n_threads);
}

/* Takes the next of a lane's `share` tasks. */
static bool take_from(struct lane *lane, uint32_t generation, uint32_t share, uint32_t *index) {
    uint64_t seen = atomic_load_explicit(&lane->taken, memory_order_relaxed), begun = (uint64_t)generation << 32, now;
    do {
        now = seen >> 32 == generation ? seen : begun;
        if ((uint32_t)now >= share) return false;
    } while (!atomic_compare_exchange_weak_explicit(&lane->taken, &seen, now + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    *index = (uint32_t)now;
    return true;
}

bool pool_take(struct pool *pool, int thread, uint32_t n_tasks, uint32_t *task) {
    uint32_t generation = atomic_load_explicit(&pool->generation, memory_order_relaxed), index;
    for (int i = 0, lane = thread; i < pool->n_threads; i++, lane = lane + 1 < pool->n_threads ? lane + 1 : 0) {
        uint32_t first = pool_first_task(pool, lane, n_tasks), end = pool_first_task(pool, lane + 1, n_tasks);
        if (first == end || !take_from(&pool->lanes[lane], generation, end - first, &index)) continue;
        *task = first + index;
        return true;
    }
    return false;
}

static void *worker_main(void *argument) {
    struct worker self = *(struct worker *)argument;
    free(argument);
    for (;;) {
        pool_barrier(self.pool); /* opened by pool_run or pool_destroy */
        if (self.pool->is_stopping) return NULL;
        self.pool->job(self.pool->context, self.thread);
        pool_barrier(self.pool); /* all have finished */
    }
}

void pool_run(struct pool *pool, pool_job job, void *context) {
    pool->job = job;
    pool->context = context;
    pool_barrier(pool);
    job(context, 0);
    pool_barrier(pool);
}

static void stop_threads(struct pool *pool, int n_started) {
    pool->is_stopping = true;
    pool->n_threads = n_started + 1; /* fewer than asked for where a start failed */
    pool_barrier(pool);
    for (int i = 0; i < n_started; i++) pthread_join(pool->threads[i], NULL);
}

struct pool *pool_create(int n_threads, struct mx_error *err) {
    struct pool *pool = aligned_calloc(1, sizeof *pool);
    if (!pool || n_threads < 1) {
        free(pool);
        error_memory(err, "thread pool");
        return NULL;
    }
    pool->n_threads = n_threads;
    pool->threads = array_calloc((size_t)n_threads, sizeof *pool->threads);
    pool->lanes = aligned_calloc((size_t)n_threads, sizeof *pool->lanes);
    int started = 0, failure = pool->threads && pool->lanes ? 0 : 1;
    while (!failure && started < n_threads - 1) {
        struct worker *worker = malloc(sizeof *worker);
        if (!worker) break;
        *worker = (struct worker){.pool = pool, .thread = started + 1};
        failure = pthread_create(&pool->threads[started], NULL, worker_main, worker);
        if (failure)
            free(worker);
        else
            started++;
    }
    if (started == n_threads - 1 && !failure) return pool;
    stop_threads(pool, started);
    free(pool->lanes);
    free(pool->threads);
    free(pool);
    error_set(err, ERROR_MEMORY, "cannot start %d threads", n_threads);
    return NULL;
}

void pool_destroy(struct pool *pool) {
    if (!pool) return;
    stop_threads(pool, pool->n_threads - 1);
    free(pool->lanes);
    free(pool->threads);
    free(pool);
}

int pool_n_threads(const struct pool *pool) { return pool->n_threads; }

int pool_default_threads(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}
