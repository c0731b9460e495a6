/* SPDX-License-Identifier: Apache-2.0 */
/* The walls of this machine: how fast all threads together can read memory, and how fast they can multiply and add
 * integers in registers. A benchmark alternates short slices of these with its own work in one process and reports
 * shares of them, since a shared processor changes its speed from second to second.
 *
 * Read: the best of prefetch distances 0, 2, 4 KiB into the first-level cache and 8, 16 KiB into the second, anonymous
 * memory and a mapped file, and two widths of loads.
 * int8: the fastest exact sequence of the tier for 4-bit codes: vpdpbusd, or vpmaddubsw + vpaddw with one vpmaddwd +
 * vpaddd for eight of them, or sdot, or what the compiler makes of plain C. fma: f32 multiply-adds. A multiply-add
 * counts as two operations. */
#ifndef MLXCEL_KERNELS_WALLS_H
#define MLXCEL_KERNELS_WALLS_H

#include "base/error.h"
#include "base/pool.h"
#include "kernels/kernels.h"

struct walls;

/* Tries all ways of reading, which takes about a second, and keeps the best. `mapped` is a file mapping of at least
 * 64 MiB that may be read (the model's weights), NULL for one of its own. The pool is borrowed and must be idle. */
struct walls *walls_create(struct pool *pool, enum kernel_tier tier, const void *mapped, size_t mapped_bytes,
                           struct mx_error *err);
void walls_destroy(struct walls *walls);

/* One slice of about that long: 10^9 bytes a second; 10^9 operations a second. */
double walls_read_gb_s(struct walls *walls, double seconds);
double walls_int8_gop_s(struct walls *walls, double seconds);
double walls_fma_gflop_s(struct walls *walls, double seconds);

/* From now on rates are those of a second of the processors' time for this process, which all threads of the pool share,
 * not of the clock on the wall: for machines on which other programs run. */
void walls_count_processor_time(struct walls *walls);
/* Seconds in that time, or by the clock, since some moment. */
double walls_now(const struct walls *walls);

/* The way of reading that was best: "32-byte loads, prefetch 2 KiB, mapped file". */
const char *walls_read_way(const struct walls *walls);

/* ---- what a tier supplies ---- */

enum { WALL_WIDTHS = 2, WALL_FAR = 8192 /* from this distance on, into the second-level cache */ };

struct wall_loops {
    int width[WALL_WIDTHS]; /* bytes of one load */
    /* The xor of the words, so that the loads cannot be left out; bytes is a multiple of 512, prefetch in bytes, 0 none. */
    uint64_t (*read[WALL_WIDTHS])(const void *memory, size_t bytes, size_t prefetch);
    /* A check sum of `rounds` rounds of `operations_per_round` operations. */
    uint64_t (*int8)(uint64_t rounds);
    uint64_t operations_per_round;
    uint64_t (*fma)(uint64_t rounds); /* FMA_FLOPS operations a round */
};

enum { FMA_FLOPS = 12 * 32 * 2 };

extern const struct wall_loops wall_loops_avx2, wall_loops_avx512, wall_loops_neon;

uint64_t avx2_wall_fma(uint64_t rounds);
uint64_t avx512_wall_fma(uint64_t rounds);

#endif
