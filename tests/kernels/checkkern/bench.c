/* SPDX-License-Identifier: Apache-2.0 */
/* checkkern --bench: time of each kernel on shapes of real models, by all threads, beside the wall that bounds it.
 *
 * Each round measures the wall and then the kernel, for about as long; a line shows the median of the rounds and the
 * median of the rounds' shares, since machines are shared and a round's neighbours change both alike. */
#include "tests/kernels/checkkern/bench.h"

#include "tests/kernels/checkkern/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_ROUNDS = 7 };
static const double round_seconds = 0.03;

struct measuring {
    struct pool *pool;
    struct walls *walls;
};

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t n) {
    qsort(values, n, sizeof *values, compare_doubles);
    return values[n / 2];
}

struct running {
    const struct bench_case *bench;
    struct pool *pool;
};

static void run_tasks(void *context, int thread) {
    const struct running *r = context;
    uint32_t task;
    while (pool_take(r->pool, thread, r->bench->n_tasks, &task)) r->bench->run(r->bench, task, thread);
}

static double seconds_for(const struct measuring *m, const struct bench_case *bench, unsigned repeats) {
    struct running r = {bench, m->pool};
    double start = walls_now(m->walls);
    for (unsigned i = 0; i < repeats; i++) pool_run(m->pool, run_tasks, &r);
    return (walls_now(m->walls) - start) / repeats;
}

void bench_run(struct measuring *m, const struct bench_case *bench) {
    double seconds[N_ROUNDS], shares[N_ROUNDS], once = seconds_for(m, bench, 1);
    unsigned repeats = once < round_seconds ? (unsigned)(round_seconds / once) + 1 : 1;
    for (int round = 0; round < N_ROUNDS; round++) {
        double wall = 1e9 * (bench->flops <= 0 ? walls_read_gb_s(m->walls, 0.03)
                             : bench->is_int8  ? walls_int8_gop_s(m->walls, 0.01)
                                               : walls_fma_gflop_s(m->walls, 0.01));
        seconds[round] = seconds_for(m, bench, repeats);
        shares[round] = (bench->flops > 0 ? bench->flops : bench->bytes) / seconds[round] / wall;
    }
    double s = median(seconds, N_ROUNDS);
    printf("%-8s %-18s %-44s %10.0f ns %7.2f %s", kernel_tier_name(bench->tier), kernel_name(bench->id), bench->label,
           s * 1e9 / bench->n_calls, (bench->flops > 0 ? bench->flops : bench->bytes) * 1e-9 / s,
           bench->flops <= 0 ? "GB/s   "
           : bench->is_int8  ? "Gop/s  "
                             : "Gflop/s");
    if (bench->has_wall) printf(" %5.1f %% of the wall", 100 * median(shares, N_ROUNDS));
    printf("\n");
    fflush(stdout);
}

int bench_main(const char *pattern, const char *tier_name, int n_threads, bool processor_time) {
    struct mx_error err = {0};
    enum kernel_tier best = kernels_best_tier();
    struct measuring m = {.pool = pool_create(n_threads > 0 ? n_threads : pool_default_threads(), &err)};
    if (m.pool) m.walls = walls_create(m.pool, best, NULL, 0, &err);
    if (!m.walls) {
        fprintf(stderr, "checkkern: %s\n", err.message);
        return 1;
    }
    if (processor_time) walls_count_processor_time(m.walls);
    printf("walls (%s, %d threads): read %.1f GB/s (%s), fma %.1f Gflop/s, int8 %.1f Gop/s\n", kernel_tier_name(best),
           pool_n_threads(m.pool), walls_read_gb_s(m.walls, 0.5), walls_read_way(m.walls),
           walls_fma_gflop_s(m.walls, 0.1), walls_int8_gop_s(m.walls, 0.1));
    for (int tier = N_TIERS - 1; tier > TIER_REF; tier--) {
        const struct kernels *table = kernels_for_tier((enum kernel_tier)tier);
        if (!table || (tier_name && strcmp(tier_name, kernel_tier_name((enum kernel_tier)tier)))) continue;
        for (int id = 0; id < N_KERNELS; id++)
            if (table->tier[id] == tier && strstr(kernel_name(id), pattern))
                bench_kernel(&m, table, (enum kernel_tier)tier, id, pool_n_threads(m.pool));
    }
    walls_destroy(m.walls);
    pool_destroy(m.pool);
    return 0;
}
