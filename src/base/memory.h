/* SPDX-License-Identifier: Apache-2.0 */
/* Checked sizes, growable arrays, and what memory the machine has.
 *
 * Sizes that come from a file are multiplied only through size_mul/size_add, which fail on overflow. A growable array
 * is three fields of its owner (pointer, count, capacity) and array_reserve; the owner frees the pointer. */
#ifndef MLXCEL_BASE_MEMORY_H
#define MLXCEL_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static inline bool size_mul(size_t a, size_t b, size_t *product) { return !__builtin_mul_overflow(a, b, product); }
static inline bool size_add(size_t a, size_t b, size_t *sum) { return !__builtin_add_overflow(a, b, sum); }

/* n * size bytes, uninitialised; NULL on overflow or when memory is out. n = 0 gives a valid pointer. */
static inline void *array_alloc(size_t n, size_t size) {
    size_t bytes;
    if (!size_mul(n, size, &bytes)) return NULL;
    return malloc(bytes ? bytes : 1);
}

static inline void *array_calloc(size_t n, size_t size) { return calloc(n ? n : 1, size); }

/* Makes room for `want` elements of `size` bytes in *data (a pointer to the array's pointer), doubling the capacity.
 * On failure the array is unchanged and false is returned. */
bool array_reserve(void *data, size_t *capacity, size_t want, size_t size);

/* Memory aligned to 64 bytes (a cache line, an AVX-512 register), zeroed; free() releases it. */
void *aligned_calloc(size_t n, size_t size);

/* Bytes that programs can still take without swapping, as the kernel estimates; 0 where it does not say. */
uint64_t memory_available(void);

static inline size_t round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

#endif
