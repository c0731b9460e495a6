/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

bool array_reserve(void *data, size_t *capacity, size_t want, size_t size) {
    if (want <= *capacity) return true;
    size_t grown = *capacity < 8 ? 8 : *capacity;
    while (grown < want) {
        if (grown > SIZE_MAX / 2) return false;
        grown *= 2;
    }
    size_t bytes;
    if (!size_mul(grown, size, &bytes)) return false;
    void *old;
    memcpy(&old, data, sizeof old);
    void *fresh = realloc(old, bytes);
    if (!fresh) return false;
    memcpy(data, &fresh, sizeof fresh);
    *capacity = grown;
    return true;
}

void *aligned_calloc(size_t n, size_t size) {
    size_t bytes;
    if (!size_mul(n, size, &bytes) || bytes > SIZE_MAX - 64) return NULL;
    bytes = round_up(bytes ? bytes : 1, 64);
    void *memory = aligned_alloc(64, bytes);
    if (memory) memset(memory, 0, bytes);
    return memory;
}

uint64_t memory_available(void) {
    char line[200];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
    if (file) fclose(file);
    return (uint64_t)kib * 1024;
}
