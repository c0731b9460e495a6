/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded with LD_PRELOAD: lets one allocation or read of a program fail.
 *
 *   FAIL_AT=N        the N-th call (from 1) of malloc, calloc, realloc, aligned_alloc, mmap or read fails
 *   FAIL_COUNT=FILE  at exit, the number of calls is written there as text
 *
 * Calls are counted over all threads. The dynamic linker's and this file's own calls do not count. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static atomic_ulong n_calls;
static unsigned long fail_at;
static char count_file[1024];

__attribute__((constructor)) static void start(void) {
    const char *at = getenv("FAIL_AT"), *file = getenv("FAIL_COUNT");
    if (file && strlen(file) < sizeof count_file) strcpy(count_file, file);
    atomic_store(&n_calls, 0);
    fail_at = at ? strtoul(at, NULL, 10) : 0;
}

__attribute__((destructor)) static void stop(void) {
    char text[24];
    int i = sizeof text;
    unsigned long n = atomic_load(&n_calls);
    if (!count_file[0]) return;
    do text[--i] = (char)('0' + n % 10);
    while (n /= 10);
    int fd = open(count_file, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd >= 0 && write(fd, text + i, sizeof text - (size_t)i) < 0) return;
    if (fd >= 0) close(fd);
}

static int fails(void) { return atomic_fetch_add(&n_calls, 1) + 1 == fail_at; }

void *malloc(size_t size) {
    if (!fails()) return __libc_malloc(size);
    errno = ENOMEM;
    return NULL;
}

void *calloc(size_t n, size_t size) {
    if (!fails()) return __libc_calloc(n, size);
    errno = ENOMEM;
    return NULL;
}

void *realloc(void *memory, size_t size) {
    if (!fails()) return __libc_realloc(memory, size);
    errno = ENOMEM;
    return NULL;
}

void *aligned_alloc(size_t alignment, size_t size) {
    if (!fails()) return __libc_memalign(alignment, size);
    errno = ENOMEM;
    return NULL;
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    if (fails()) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}

ssize_t read(int fd, void *buffer, size_t n) {
    if (fails()) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_read, fd, buffer, n);
}
