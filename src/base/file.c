/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/rng.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The mappings that the SIGBUS handler knows. A slot is taken by setting `start` from 0; the handler only reads. */
enum { MAX_GUARDED_MAPS = 8192 };
static struct {
    _Atomic uintptr_t start;
    _Atomic uintptr_t end;
    atomic_bool is_damaged;
} guarded[MAX_GUARDED_MAPS];

static struct sigaction previous_sigbus;
static pthread_once_t guard_once = PTHREAD_ONCE_INIT;
static uintptr_t page_bytes;

static void pass_on(int number, siginfo_t *info, void *context) {
    if (previous_sigbus.sa_flags & SA_SIGINFO) {
        previous_sigbus.sa_sigaction(number, info, context);
    } else if (previous_sigbus.sa_handler != SIG_DFL && previous_sigbus.sa_handler != SIG_IGN) {
        previous_sigbus.sa_handler(number);
    } else {
        signal(SIGBUS, SIG_DFL); /* the faulting instruction runs again and ends the process */
    }
}

static void handle_sigbus(int number, siginfo_t *info, void *context) {
    int saved_errno = errno;
    uintptr_t address = (uintptr_t)info->si_addr;
    for (int i = 0; i < MAX_GUARDED_MAPS; i++) {
        uintptr_t start = atomic_load_explicit(&guarded[i].start, memory_order_acquire);
        if (!start || address < start || address >= atomic_load(&guarded[i].end)) continue;
        void *page = (void *)(address & ~(page_bytes - 1));
        if (mmap(page, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) break;
        atomic_store(&guarded[i].is_damaged, true);
        errno = saved_errno;
        return;
    }
    errno = saved_errno;
    pass_on(number, info, context);
}

static void install_guard(void) {
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    struct sigaction action = {.sa_sigaction = handle_sigbus, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &previous_sigbus);
}

static int guard_add(const void *data, size_t size) {
    pthread_once(&guard_once, install_guard);
    for (int i = 0; i < MAX_GUARDED_MAPS; i++) {
        uintptr_t free_slot = 0;
        if (atomic_load(&guarded[i].start)) continue;
        atomic_store(&guarded[i].is_damaged, false);
        /* end is 0 in a free slot, so the handler cannot match before both are set */
        if (!atomic_compare_exchange_strong(&guarded[i].start, &free_slot, (uintptr_t)data)) continue;
        atomic_store(&guarded[i].end, (uintptr_t)data + size);
        return i;
    }
    return -1;
}

static void guard_remove(int slot) {
    if (slot < 0) return;
    atomic_store(&guarded[slot].end, 0);
    atomic_store(&guarded[slot].start, 0);
}

/* Opens path for reading and checks that it is a regular file; -1 with the error set otherwise. */
static int open_regular(const char *path, size_t *size, struct mx_error *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0) {
        error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
        if (fd >= 0) close(fd);
        return -1;
    }
    if (!S_ISREG(info.st_mode)) {
        error_set(err, ERROR_IO, "%s: is %s, expected a file", path,
                  S_ISDIR(info.st_mode) ? "a directory" : "not a regular file");
        close(fd);
        return -1;
    }
    *size = (size_t)info.st_size;
    return fd;
}

/* Smaller files are read sparsely, or at once. */
enum { HUGE_PAGES_FROM = 64 << 20 };

bool file_map_open(struct file_map *map, const char *path, struct mx_error *err) {
    *map = (struct file_map){.slot = -1};
    int fd = open_regular(path, &map->size, err);
    if (fd < 0) return false;
    if (map->size) {
        void *data = mmap(NULL, map->size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) {
            error_set(err, ERROR_IO, "%s: cannot map %zu bytes: %s", path, map->size, strerror(errno));
            close(fd);
            map->size = 0;
            return false;
        }
        /* Where the file system keeps large folios, pages that are not in memory yet come as huge ones. */
        if (map->size >= HUGE_PAGES_FROM) madvise(data, map->size, MADV_HUGEPAGE);
        map->data = data;
        map->slot = guard_add(data, map->size);
    }
    close(fd);
    if (map->size && map->slot < 0) {
        file_map_close(map);
        return error_set(err, ERROR_LIMIT, "%s: more than %d files are mapped", path, MAX_GUARDED_MAPS);
    }
    return true;
}

void file_map_close(struct file_map *map) {
    if (map->data) {
        guard_remove(map->slot);
        munmap((void *)(uintptr_t)map->data, map->size);
    }
    *map = (struct file_map){.slot = -1};
}

bool file_map_is_damaged(const struct file_map *map) {
    return map->data && map->slot >= 0 && atomic_load(&guarded[map->slot].is_damaged);
}

char *file_read(const char *path, size_t max_bytes, size_t *length, struct mx_error *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0) {
        error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
        if (fd >= 0) close(fd);
        return NULL;
    }
    char *data = NULL;
    size_t capacity = 0, used = 0;
    if (S_ISDIR(info.st_mode)) {
        error_set(err, ERROR_IO, "%s: is a directory, expected a file", path);
        goto fail;
    }
    size_t guess = S_ISREG(info.st_mode) && info.st_size > 0 ? (size_t)info.st_size + 1 : 65536;
    if (guess > max_bytes + 1) guess = max_bytes + 1;
    for (;;) {
        if (used + 1 >= capacity && !array_reserve(&data, &capacity, used ? capacity + 1 : guess + 1, 1)) {
            error_memory(err, path);
            goto fail;
        }
        ssize_t n = read(fd, data + used, capacity - used - 1);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
            goto fail;
        }
        if (n == 0) break;
        used += (size_t)n;
        if (used > max_bytes) {
            error_set(err, ERROR_LIMIT, "%s: larger than the %zu bytes expected of such a file", path, max_bytes);
            goto fail;
        }
    }
    close(fd);
    data[used] = '\0';
    *length = used;
    return data;
fail:
    close(fd);
    free(data);
    return NULL;
}

static bool write_all(int fd, const char *data, size_t length) {
    while (length) {
        ssize_t n = write(fd, data, length);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        data += n;
        length -= (size_t)n;
    }
    return true;
}

/* Opens a new file beside path, with the permissions that any new file gets. mkstemp would give 0600, and the umask
 * that says what to widen it to cannot be read without setting it for every thread. */
static int open_temporary(const char *path, char *temporary, size_t room) {
    uint64_t state = clock_now_ns() ^ (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)temporary;
    int fd = -1;
    for (int attempt = 0; fd < 0 && attempt < 100; attempt++) {
        snprintf(temporary, room, "%s.%012llx", path, (unsigned long long)(rng_next(&state) >> 16));
        fd = open(temporary, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST) break;
    }
    return fd;
}

bool file_write_atomic(const char *path, const void *data, size_t length, struct mx_error *err) {
    size_t room = strlen(path) + 16;
    char *temporary = malloc(room);
    if (!temporary) return error_memory(err, path);
    int fd = open_temporary(path, temporary, room);
    bool ok = fd >= 0;
    if (ok) {
        ok = write_all(fd, data, length) && fsync(fd) == 0;
        if (close(fd) != 0) ok = false;
        ok = ok && rename(temporary, path) == 0;
    }
    if (!ok) {
        error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
        if (fd >= 0) unlink(temporary);
    }
    free(temporary);
    return ok;
}

bool file_exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && !S_ISFIFO(info.st_mode);
}

bool file_is_directory(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

char *path_join(struct arena *arena, const char *folder, const char *name) {
    size_t n = strlen(folder);
    return arena_printf(arena, n && folder[n - 1] == '/' ? "%s%s" : "%s/%s", folder, name);
}

bool path_is_plain_name(const char *name, size_t length) {
    if (!length || (length == 1 && name[0] == '.') || (length == 2 && name[0] == '.' && name[1] == '.')) return false;
    return !memchr(name, '/', length) && !memchr(name, '\0', length);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool folder_list(struct arena *arena, const char *folder, const char *suffix, char ***names, size_t *n_names,
                 struct mx_error *err) {
    DIR *dir = opendir(folder);
    if (!dir) return error_set(err, ERROR_IO, "%s: %s", folder, strerror(errno));
    char **found = NULL;
    size_t capacity = 0, n = 0, suffix_length = strlen(suffix);
    bool ok = true;
    struct dirent *entry;
    while (ok && (entry = readdir(dir))) {
        size_t length = strlen(entry->d_name);
        if (!path_is_plain_name(entry->d_name, length) || length < suffix_length ||
            strcmp(entry->d_name + length - suffix_length, suffix) != 0)
            continue;
        char *name = arena_copy(arena, entry->d_name, length);
        ok = name && array_reserve(&found, &capacity, n + 1, sizeof *found);
        if (ok) found[n++] = name;
    }
    closedir(dir);
    if (ok && n) {
        qsort(found, n, sizeof *found, compare_names);
        *names = arena_calloc(arena, n, sizeof **names);
        ok = *names != NULL;
        if (ok) memcpy(*names, found, n * sizeof *found);
    }
    free(found);
    *n_names = ok ? n : 0;
    return ok || error_memory(err, folder);
}
