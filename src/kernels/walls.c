/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/walls.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WALL_BYTES = 256 << 20, PIECE = 256 << 10, N_DISTANCES = 5, N_PLACES = 2, N_BEST = 3, MAX_THREADS = 1024 };
enum { N_WAYS = WALL_WIDTHS * N_DISTANCES * N_PLACES };

static const size_t distances[N_DISTANCES] = {0, 2048, 4096, 8192, 16384};

struct memory {
    const unsigned char *data;
    size_t bytes, own_bytes; /* own_bytes: to be unmapped */
};

struct walls {
    struct pool *pool;
    const struct wall_loops *loops;
    struct memory places[N_PLACES]; /* anonymous, file */
    int best[N_BEST];
    char way[64];
    size_t positions[MAX_THREADS]; /* pieces that a thread has read */
    /* The slice in progress. */
    int current;
    uint64_t end_ns, done[MAX_THREADS], sink[MAX_THREADS];
    bool processor_time;
};

/* ---- plain C ---- */

static uint64_t read_words(const void *memory, size_t bytes, size_t prefetch) {
    const uint64_t *word = memory;
    uint64_t sum[8] = {0};
    for (size_t i = 0; i < bytes / 8; i += 8) {
        const char *soon = (const char *)(word + i) + prefetch;
        if (prefetch >= WALL_FAR)
            __builtin_prefetch(soon, 0, 2);
        else if (prefetch)
            __builtin_prefetch(soon);
        for (size_t j = 0; j < 8; j++) sum[j] ^= word[i + j];
    }
    for (int j = 1; j < 8; j++) sum[0] ^= sum[j];
    return sum[0];
}

enum { PLAIN_LANES = 64 };

static uint64_t multiply_plain(uint64_t rounds) {
    int16_t a[PLAIN_LANES], b[PLAIN_LANES];
    int32_t sums[PLAIN_LANES / 2] = {0};
    for (int i = 0; i < PLAIN_LANES; i++) a[i] = b[i] = (int16_t)(i - 20);
    for (uint64_t r = 0; r < rounds; r++) {
        __asm__ volatile("" : : "r"(a), "r"(b) : "memory");
        for (int i = 0; i < PLAIN_LANES; i += 2) sums[i / 2] += a[i] * b[i] + a[i + 1] * b[i + 1];
    }
    uint64_t sum = 0;
    for (int i = 0; i < PLAIN_LANES / 2; i++) sum += (uint32_t)sums[i];
    return sum;
}

static uint64_t fma_plain(uint64_t rounds) {
    float sums[PLAIN_LANES];
    for (int i = 0; i < PLAIN_LANES; i++) sums[i] = (float)i;
    for (uint64_t r = 0; r < rounds * (FMA_FLOPS / 2 / PLAIN_LANES); r++)
        for (int i = 0; i < PLAIN_LANES; i++) sums[i] = sums[i] * 0.5f + 0.25f;
    float sum = 0;
    for (int i = 0; i < PLAIN_LANES; i++) sum += sums[i];
    return (uint64_t)sum;
}

static const struct wall_loops wall_loops_plain = {
    {8, 8}, {read_words, read_words}, multiply_plain, (uint64_t)2 * PLAIN_LANES, fma_plain};

/* ---- slices ---- */

static void read_slice(void *context, int thread) {
    struct walls *w = context;
    int place = w->current % N_PLACES, distance = w->current / N_PLACES % N_DISTANCES;
    int width = w->current / N_PLACES / N_DISTANCES;
    const struct memory *memory = &w->places[place];
    size_t threads = (size_t)pool_n_threads(w->pool), pieces = memory->bytes / PIECE / threads;
    uint64_t bytes = 0, sum = 0;
    do {
        size_t piece = (size_t)thread * pieces + w->positions[thread]++ % pieces;
        sum ^= w->loops->read[width](memory->data + piece * PIECE, PIECE, distances[distance]);
        bytes += PIECE;
    } while (clock_now_ns() < w->end_ns);
    w->done[thread] = bytes;
    w->sink[thread] = sum;
}

static void int8_slice(void *context, int thread) {
    struct walls *w = context;
    uint64_t rounds = 0, sum = 0;
    do {
        sum += w->loops->int8(2000);
        rounds += 2000;
    } while (clock_now_ns() < w->end_ns);
    w->done[thread] = rounds * w->loops->operations_per_round;
    w->sink[thread] = sum;
}

static void fma_slice(void *context, int thread) {
    struct walls *w = context;
    uint64_t rounds = 0, sum = 0;
    do {
        sum += w->loops->fma(2000);
        rounds += 2000;
    } while (clock_now_ns() < w->end_ns);
    w->done[thread] = rounds * FMA_FLOPS;
    w->sink[thread] = sum;
}

void walls_count_processor_time(struct walls *w) { w->processor_time = true; }

double walls_now(const struct walls *w) {
    struct timespec now;
    if (!w->processor_time) return (double)clock_now_ns() * 1e-9;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return ((double)now.tv_sec + (double)now.tv_nsec * 1e-9) / pool_n_threads(w->pool);
}

/* Thousand millions a second. */
static double run_slice(struct walls *w, pool_job job, double seconds) {
    uint64_t total = 0;
    double start = walls_now(w);
    w->end_ns = clock_now_ns() + (uint64_t)(seconds * 1e9);
    pool_run(w->pool, job, w);
    double took = walls_now(w) - start;
    for (int t = 0; t < pool_n_threads(w->pool); t++) total += w->done[t];
    return (double)total / took * 1e-9;
}

double walls_int8_gop_s(struct walls *w, double seconds) { return run_slice(w, int8_slice, seconds); }
double walls_fma_gflop_s(struct walls *w, double seconds) { return run_slice(w, fma_slice, seconds); }

double walls_read_gb_s(struct walls *w, double seconds) {
    double best = 0;
    for (int i = 0; i < N_BEST; i++) {
        w->current = w->best[i];
        double speed = run_slice(w, read_slice, seconds / N_BEST);
        if (speed > best) best = speed;
    }
    return best;
}

const char *walls_read_way(const struct walls *w) { return w->way; }

/* ---- set-up ---- */

/* Twice what the last cache holds, or its speed would be measured. */
static size_t wall_bytes(void) {
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    size_t wanted = cache > 0 ? 2 * (size_t)cache : 0;
    return wanted > WALL_BYTES ? wanted / PIECE * PIECE : WALL_BYTES;
}

static bool map_memory(struct memory *memory, int fd) {
    const size_t bytes = wall_bytes();
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (data == MAP_FAILED) return false;
    memset(data, 1, bytes);
    *memory = (struct memory){data, bytes, bytes};
    return true;
}

static bool make_memory(struct walls *w, const void *mapped, size_t mapped_bytes) {
    if (!map_memory(&w->places[0], -1)) return false;
    if (mapped) {
        w->places[1] = (struct memory){mapped, mapped_bytes, 0};
        return mapped_bytes >= (size_t)64 << 20;
    }
    int fd = memfd_create("walls", MFD_CLOEXEC);
    bool ok = fd >= 0 && ftruncate(fd, (off_t)wall_bytes()) == 0 && map_memory(&w->places[1], fd);
    if (fd >= 0) close(fd);
    return ok;
}

/* Every way twice; the best of a few are kept, since one slice may have been disturbed. */
static void choose_ways(struct walls *w) {
    double speed[N_WAYS] = {0};
    for (int i = 0; i < 2 * N_WAYS; i++) {
        w->current = i % N_WAYS;
        double found = run_slice(w, read_slice, 0.02);
        if (found > speed[w->current]) speed[w->current] = found;
    }
    for (int n = 0; n < N_BEST; n++) {
        int best = 0;
        for (int i = 1; i < N_WAYS; i++)
            if (speed[i] > speed[best]) best = i;
        w->best[n] = best;
        speed[best] = 0;
    }
    int way = w->best[0];
    snprintf(w->way, sizeof w->way, "%d-byte loads, prefetch %zu KiB, %s",
             w->loops->width[way / N_PLACES / N_DISTANCES], distances[way / N_PLACES % N_DISTANCES] / 1024,
             way % N_PLACES ? "mapped file" : "anonymous");
}

static const struct wall_loops *loops_of(enum kernel_tier tier) {
#if defined(__x86_64__)
    if (tier == TIER_AVX2) return &wall_loops_avx2;
    if (tier == TIER_AVX512) return &wall_loops_avx512;
#elif defined(MLXCEL_TIER_NEON)
    if (tier == TIER_NEON) return &wall_loops_neon;
#endif
    (void)tier;
    return &wall_loops_plain;
}

struct walls *walls_create(struct pool *pool, enum kernel_tier tier, const void *mapped, size_t mapped_bytes,
                           struct mx_error *err) {
    struct walls *w = calloc(1, sizeof *w);
    bool ok = w && pool_n_threads(pool) <= MAX_THREADS;
    if (ok) {
        w->pool = pool;
        w->loops = loops_of(tier);
        ok = make_memory(w, mapped, mapped_bytes);
    }
    if (!ok) {
        walls_destroy(w);
        error_set(err, ERROR_MEMORY, "no memory to measure the walls in");
        return NULL;
    }
    choose_ways(w);
    return w;
}

void walls_destroy(struct walls *w) {
    if (!w) return;
    for (int i = 0; i < N_PLACES; i++)
        if (w->places[i].own_bytes) munmap((void *)(uintptr_t)w->places[i].data, w->places[i].own_bytes);
    free(w);
}
