/* SPDX-License-Identifier: Apache-2.0 */
/* Mapped files that shrink: what is lost reads as zeros, the mapping says so, nothing crashes; bus errors at other
 * addresses still end the process. */
#include "tests/support/tap.h"

#include "base/file.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_PAGES = 400, N_THREADS = 4 };

static char folder[4096];
static size_t page;

/* A file of n_pages full of 'x', mapped. */
static bool map_new(struct file_map *map, char *path, size_t room, const char *name, size_t n_pages) {
    snprintf(path, room, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    char *bytes = malloc(page);
    bool ok = f && bytes;
    if (bytes) memset(bytes, 'x', page);
    for (size_t i = 0; ok && i < n_pages; i++) ok = fwrite(bytes, 1, page, f) == page;
    free(bytes);
    return f && fclose(f) == 0 && ok && file_map_open(map, path, NULL);
}

static bool all_equal(const volatile unsigned char *data, size_t from, size_t to, unsigned char byte) {
    for (size_t i = from; i < to; i += 97)
        if (data[i] != byte) return false;
    return true;
}

static void a_file_cut_while_mapped_reads_as_zeros(void) {
    struct file_map map, other;
    char path[5000], other_path[5000];
    bool ok = map_new(&map, path, sizeof path, "cut", 5) && map_new(&other, other_path, sizeof other_path, "other", 5);
    const volatile unsigned char *data = map.data;
    ok = ok && truncate(path, (off_t)page + 10) == 0;
    tap_ok(ok && all_equal(data, 0, page + 10, 'x') && !file_map_is_damaged(&map),
           "what_is_left_of_a_cut_file_can_be_read");
    tap_ok(ok && all_equal(data, 2 * page, 5 * page, 0) && data[5 * page - 1] == 0, "lost_pages_read_as_zeros");
    tap_ok(ok && file_map_is_damaged(&map), "a_mapping_that_lost_pages_says_so");
    tap_ok(ok && all_equal(data, 0, page + 10, 'x'), "the_rest_is_unharmed");
    tap_ok(ok && all_equal(other.data, 0, 5 * page, 'x') && !file_map_is_damaged(&other),
           "other_mappings_are_unharmed");
    file_map_close(&map);
    tap_ok(ok && file_map_open(&map, path, NULL) && !file_map_is_damaged(&map), "a_new_mapping_is_not_damaged");
    file_map_close(&map);
    file_map_close(&other);
}

/* The thread sanitizer takes the handler's mmap for a write that races with these reads; the kernel swaps pages whole. */
__attribute__((no_sanitize("thread"))) static void *touch_all_pages(void *context) {
    const struct file_map *map = context;
    const volatile unsigned char *data = map->data;
    uintptr_t sum = 0;
    for (size_t i = 0; i < map->size; i += 512) sum += data[i];
    return (void *)sum;
}

static void threads_can_lose_the_same_pages_at_once(void) {
    struct file_map map;
    char path[5000];
    pthread_t threads[N_THREADS];
    bool ok = map_new(&map, path, sizeof path, "shared", N_PAGES) && truncate(path, 0) == 0;
    for (int i = 0; i < N_THREADS; i++) ok = ok && pthread_create(&threads[i], NULL, touch_all_pages, &map) == 0;
    for (int i = 0; ok && i < N_THREADS; i++) {
        void *sum;
        ok = pthread_join(threads[i], &sum) == 0 && !sum;
    }
    tap_ok(ok && file_map_is_damaged(&map), "threads_can_lose_the_same_pages_at_once");
    file_map_close(&map);
}

/* In a child: a mapping that base/file.h does not know loses a page. */
static void other_bus_errors_end_the_process(void) {
    struct file_map map;
    char path[5000];
    bool ok = map_new(&map, path, sizeof path, "foreign", 4);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY), fd = open(path, O_RDWR);
        dup2(null, 2);
        const volatile char *data = mmap(NULL, 4 * page, PROT_READ, MAP_PRIVATE, fd, 0);
        if (ftruncate(fd, 0) != 0) _exit(42);
        _exit(data[3 * page] ? 41 : 40);
    }
    int status = 0;
    ok = ok && waitpid(child, &status, 0) == child;
    bool went_on = WIFEXITED(status) && WEXITSTATUS(status) >= 40;
    bool died = WIFSIGNALED(status) ? WTERMSIG(status) == SIGBUS : WIFEXITED(status); /* sanitizers exit instead */
    tap_ok(ok && died && !went_on, "other_bus_errors_end_the_process");
    file_map_close(&map);
}

int main(void) {
    page = (size_t)sysconf(_SC_PAGESIZE);
    if (!folder_make_temporary(folder, sizeof folder)) return 1;
    a_file_cut_while_mapped_reads_as_zeros();
    threads_can_lose_the_same_pages_at_once();
    other_bus_errors_end_the_process();
    folder_remove(folder);
    return tap_done();
}
