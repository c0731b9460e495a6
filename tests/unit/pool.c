/* SPDX-License-Identifier: Apache-2.0 */
/* The thread pool: every thread runs once, barriers separate phases, the task counter gives each number once. Meant to
 * be run under the thread sanitizer too (preset tsan): the plain variables are only safe if the barriers are. */
#include "base/pool.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

enum { MAX_THREADS = 8, N_PHASES = 30, N_TASKS = 500 };

struct shared {
    struct pool *pool;
    int n_threads;
    int runs[MAX_THREADS];            /* each thread writes its own */
    int phase_of[MAX_THREADS];        /* written before a barrier, read by the others behind it */
    int total;                        /* plain: one thread writes it between two barriers */
    unsigned char taken[N_TASKS * 4]; /* plain: each number belongs to one thread */
    _Atomic int n_wrong;
};

static void count_run(void *context, int thread) {
    struct shared *s = context;
    s->runs[thread]++;
}

static void every_thread_runs_the_job_once(void **state) {
    (void)state;
    for (int n = 1; n <= MAX_THREADS; n++) {
        struct mx_error err = {0};
        struct pool *pool = pool_create(n, &err);
        assert_non_null(pool);
        assert_int_equal(pool_n_threads(pool), n);
        struct shared s = {.pool = pool, .n_threads = n};
        for (int i = 0; i < 100; i++) pool_run(pool, count_run, &s);
        for (int i = 0; i < MAX_THREADS; i++) assert_int_equal(s.runs[i], i < n ? 100 : 0);
        pool_destroy(pool);
    }
}

/* In each phase every thread writes its own entry; behind the barrier everyone sees all entries of this phase. */
static void run_phases(void *context, int thread) {
    struct shared *s = context;
    for (int phase = 1; phase <= N_PHASES; phase++) {
        s->phase_of[thread] = phase;
        pool_barrier(s->pool);
        for (int i = 0; i < s->n_threads; i++)
            if (s->phase_of[i] != phase) atomic_fetch_add(&s->n_wrong, 1);
        pool_barrier(s->pool);
        if (thread == phase % s->n_threads) s->total += phase;
        pool_barrier(s->pool);
        if (s->total != phase * (phase + 1) / 2) atomic_fetch_add(&s->n_wrong, 1);
    }
}

static void barriers_separate_phases(void **state) {
    (void)state;
    for (int n = 1; n <= MAX_THREADS; n++) {
        struct pool *pool = pool_create(n, NULL);
        struct shared s = {.pool = pool, .n_threads = n};
        pool_run(pool, run_phases, &s);
        assert_int_equal(s.n_wrong, 0);
        assert_int_equal(s.total, N_PHASES * (N_PHASES + 1) / 2);
        pool_destroy(pool);
    }
}

/* Four rounds of tasks; the counter begins again at every barrier. */
static void take_tasks(void *context, int thread) {
    struct shared *s = context;
    for (uint32_t round = 0; round < 4; round++) {
        for (uint32_t task; pool_take(s->pool, thread, N_TASKS, &task);) s->taken[round * N_TASKS + task]++;
        pool_barrier(s->pool);
    }
}

static void every_task_is_taken_once(void **state) {
    (void)state;
    for (int n = 1; n <= MAX_THREADS; n++) {
        struct pool *pool = pool_create(n, NULL);
        struct shared s = {.pool = pool, .n_threads = n};
        for (int again = 1; again <= 5; again++) {
            pool_run(pool, take_tasks, &s);
            for (int i = 0; i < N_TASKS * 4; i++) assert_int_equal(s.taken[i], again);
        }
        pool_destroy(pool);
    }
}

/* One thread takes all tasks: its own share first, then that of the next thread, each in ascending order. */
static void take_in_order(void *context, int thread) {
    struct shared *s = context;
    uint32_t task, expected = pool_first_task(s->pool, thread, N_TASKS), n = 0;
    if (thread != s->n_threads / 2) return;
    for (; pool_take(s->pool, thread, N_TASKS, &task); n++, expected = (expected + 1) % N_TASKS)
        if (task != expected) atomic_fetch_add(&s->n_wrong, 1);
    if (n != N_TASKS) atomic_fetch_add(&s->n_wrong, 1);
    if (pool_take(s->pool, thread, N_TASKS, &task)) atomic_fetch_add(&s->n_wrong, 1);
}

static void own_tasks_come_first(void **state) {
    (void)state;
    for (int n = 1; n <= MAX_THREADS; n++) {
        struct pool *pool = pool_create(n, NULL);
        struct shared s = {.pool = pool, .n_threads = n};
        pool_run(pool, take_in_order, &s);
        assert_int_equal(s.n_wrong, 0);
        pool_destroy(pool);
    }
}

/* Threads that arrive late, so that the others have gone to sleep. */
static void sleep_now_and_then(void *context, int thread) {
    struct shared *s = context;
    for (int phase = 0; phase < 20; phase++) {
        if (rng_at(7, (uint64_t)thread, (uint32_t)phase) % 8 == 0) {
            struct timespec pause = {.tv_nsec = 300000 + 100000 * thread};
            nanosleep(&pause, NULL);
        }
        pool_barrier(s->pool);
        if (thread == phase % s->n_threads) s->total++;
        pool_barrier(s->pool);
    }
}

static void sleeping_threads_are_woken(void **state) {
    (void)state;
    for (int n = 2; n <= MAX_THREADS; n += 3) {
        struct pool *pool = pool_create(n, NULL);
        struct shared s = {.pool = pool, .n_threads = n};
        pool_run(pool, sleep_now_and_then, &s);
        struct timespec pause = {.tv_nsec = 2000000};
        nanosleep(&pause, NULL); /* the workers sleep between runs as well */
        pool_run(pool, sleep_now_and_then, &s);
        assert_int_equal(s.total, 40);
        pool_destroy(pool);
    }
}

static void pools_come_and_go(void **state) {
    (void)state;
    for (int i = 0; i < 60; i++) {
        struct pool *pool = pool_create(1 + i % MAX_THREADS, NULL);
        assert_non_null(pool);
        struct shared s = {0};
        if (i % 3) pool_run(pool, count_run, &s);
        pool_destroy(pool);
    }
    pool_destroy(NULL);
}

static void impossible_pools_are_refused(void **state) {
    (void)state;
    struct mx_error err = {0};
    assert_null(pool_create(0, &err));
    assert_true(err.code != ERROR_NONE);
    assert_null(pool_create(-1, NULL));
    assert_true(pool_default_threads() >= 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_thread_runs_the_job_once), cmocka_unit_test(barriers_separate_phases),
        cmocka_unit_test(every_task_is_taken_once),       cmocka_unit_test(own_tasks_come_first),
        cmocka_unit_test(sleeping_threads_are_woken),     cmocka_unit_test(pools_come_and_go),
        cmocka_unit_test(impossible_pools_are_refused),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
