/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic time. */
#ifndef MLXCEL_BASE_CLOCK_H
#define MLXCEL_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline double clock_seconds_since(uint64_t start_ns) { return (double)(clock_now_ns() - start_ns) * 1e-9; }

#endif
