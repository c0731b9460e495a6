/* SPDX-License-Identifier: Apache-2.0 */
/* Timing of kernels: a case is a number of tasks, taken by all threads of a pool as the backend's ops are. */
#ifndef MLXCEL_TESTS_CHECKKERN_BENCH_H
#define MLXCEL_TESTS_CHECKKERN_BENCH_H

#include "kernels/kernels.h"
#include "kernels/walls.h"

struct measuring;

struct bench_case {
    enum kernel_tier tier;
    int id;
    char label[80];
    uint32_t n_tasks;
    double n_calls; /* kernel calls of all tasks, for the time of one */
    double bytes;   /* that all tasks read and write, or */
    double flops;   /* multiply-adds count twice; if not 0 the wall is that of fma, else that of reading */
    bool is_int8;   /* the operations are integer ones */
    bool has_wall;  /* the wall says something about this case */
    void (*run)(const struct bench_case *bench, uint32_t task, int thread);
    const void *context;
};

/* Measures a case and prints its line. */
void bench_run(struct measuring *m, const struct bench_case *bench);

/* All cases of one kernel (bench_cases.c). */
void bench_kernel(struct measuring *m, const struct kernels *table, enum kernel_tier tier, int id, int n_threads);

#endif
