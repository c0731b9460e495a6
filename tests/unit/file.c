/* SPDX-License-Identifier: Apache-2.0 */
/* Files: whole reads and their errors, atomic writes, mappings, folders. (damage/mapping.c cuts mapped files: cmocka
 * takes the signal for itself.) */
#include "base/file.h"

#include "tests/support/tap.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[4096];

static int make_folder(void **state) {
    (void)state;
    return folder_make_temporary(folder, sizeof folder) ? 0 : -1;
}

static int drop_folder(void **state) {
    (void)state;
    folder_remove(folder);
    return 0;
}

static const char *path_of(const char *name) {
    static char paths[4][5000];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void write_file(const char *path, const char *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* ---- reading ---- */

static void whole_files_are_read(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 4095, 4096, 65536, 300001};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *bytes = malloc(sizes[i] + 1);
        for (size_t j = 0; j < sizes[i]; j++) bytes[j] = (char)(j * 31 >> 3);
        write_file(path_of("data"), bytes, sizes[i]);
        struct mx_error err = {0};
        size_t n;
        char *read = file_read(path_of("data"), sizes[i], &n, &err);
        assert_non_null(read);
        assert_int_equal(n, sizes[i]);
        assert_memory_equal(read, bytes, n);
        assert_int_equal(read[n], '\0');
        free(read);
        if (sizes[i]) {
            assert_null(file_read(path_of("data"), sizes[i] - 1, &n, &err));
            assert_int_equal(err.code, ERROR_LIMIT);
        }
        free(bytes);
    }
}

static void pipes_are_read_to_their_end(void **state) {
    (void)state;
    int ends[2];
    char path[64];
    assert_int_equal(pipe(ends), 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
    char bytes[40000];
    memset(bytes, 'p', sizeof bytes);
    assert_int_equal(write(ends[1], bytes, sizeof bytes), sizeof bytes);
    close(ends[1]);
    size_t n;
    char *read = file_read(path, 1 << 20, &n, NULL);
    assert_int_equal(n, sizeof bytes);
    free(read);
    close(ends[0]);
}

static void assert_read_error(const char *path, const char *expected) {
    struct mx_error err = {0};
    struct file_map map;
    size_t n;
    char message[6000];
    snprintf(message, sizeof message, "%s: %s", path, expected);
    message[sizeof err.message - 1] = '\0';
    assert_null(file_read(path, 1000, &n, &err));
    assert_int_equal(err.code, ERROR_IO);
    assert_string_equal(err.message, message);
    err = (struct mx_error){0};
    assert_false(file_map_open(&map, path, &err));
    assert_int_equal(err.code, ERROR_IO);
    assert_string_equal(err.message, message);
    file_map_close(&map);
}

static void errors_say_what_is_wrong(void **state) {
    (void)state;
    assert_read_error(path_of("absent"), "No such file or directory");
    assert_read_error(folder, "is a directory, expected a file");
    write_file(path_of("plain"), "x", 1);
    assert_read_error(path_of("plain/below"), "Not a directory");
    assert_int_equal(symlink("loop", path_of("loop")), 0);
    assert_read_error(path_of("loop"), "Too many levels of symbolic links");
    struct mx_error err = {0};
    struct file_map map;
    assert_false(file_map_open(&map, "/dev/null", &err));
    assert_string_equal(err.message, "/dev/null: is not a regular file, expected a file");
}

/* Root may read everything, so a child gives its rights up first. */
static void permissions_are_respected(void **state) {
    (void)state;
    write_file(path_of("secret"), "x", 1);
    chmod(path_of("secret"), 0);
    chmod(folder, 0755);
    pid_t child = fork();
    if (child == 0) {
        struct mx_error err = {0};
        size_t n;
        if (geteuid() == 0 && setuid(65534) != 0) _exit(2);
        bool ok = !file_read(path_of("secret"), 10, &n, &err) && strstr(err.message, "/secret: Permission denied");
        ok = ok && !file_write_atomic(path_of("new"), "y", 1, &err) && strstr(err.message, "/new: Permission denied");
        _exit(geteuid() != getuid() || ok ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    chmod(folder, 0700);
    if (getuid() == 0) assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- writing ---- */

static size_t count_entries(void) {
    struct arena arena = {0};
    char **names;
    size_t n;
    assert_true(folder_list(&arena, folder, "", &names, &n, NULL));
    arena_free(&arena);
    return n;
}

static void writing_replaces_the_whole_file(void **state) {
    (void)state;
    struct mx_error err = {0};
    size_t n, before = count_entries();
    mode_t mask = umask(027);
    assert_true(file_write_atomic(path_of("out"), "first", 5, &err));
    umask(mask);
    struct stat info;
    assert_int_equal(stat(path_of("out"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_true(file_write_atomic(path_of("out"), "2", 1, &err));
    char *text = file_read(path_of("out"), 100, &n, &err);
    assert_string_equal(text, "2");
    free(text);
    assert_true(file_write_atomic(path_of("out"), NULL, 0, &err));
    assert_int_equal(stat(path_of("out"), &info), 0);
    assert_int_equal(info.st_size, 0);
    assert_int_equal(count_entries(), before + 1); /* no temporary file is left */
}

static void a_failed_write_leaves_nothing_behind(void **state) {
    (void)state;
    struct mx_error err = {0};
    size_t before = count_entries();
    assert_int_equal(mkdir(path_of("sub"), 0700), 0);
    write_file(path_of("sub/x"), "x", 1);
    assert_false(file_write_atomic(path_of("sub"), "data", 4, &err)); /* a folder cannot be replaced by a file */
    assert_int_equal(err.code, ERROR_IO);
    assert_non_null(strstr(err.message, "/sub: Is a directory"));
    assert_false(file_write_atomic(path_of("no/such/file"), "data", 4, &err));
    assert_non_null(strstr(err.message, "/no/such/file: No such file or directory"));
    assert_int_equal(count_entries(), before + 1);
}

/* In a child whose files may not grow beyond 1000 bytes, as on a full disk. */
static void a_full_disk_keeps_the_old_file(void **state) {
    (void)state;
    assert_true(file_write_atomic(path_of("kept"), "old", 3, NULL));
    size_t before = count_entries();
    pid_t child = fork();
    if (child == 0) {
        static char large[5000];
        struct mx_error err = {0};
        struct rlimit limit = {.rlim_cur = 1000, .rlim_max = 1000};
        signal(SIGXFSZ, SIG_IGN);
        bool ok =
            setrlimit(RLIMIT_FSIZE, &limit) == 0 && !file_write_atomic(path_of("kept"), large, sizeof large, &err);
        _exit(ok && err.code == ERROR_IO && strstr(err.message, "/kept: File too large") ? 0 : 1);
    }
    int status;
    size_t n;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    char *text = file_read(path_of("kept"), 100, &n, NULL);
    assert_string_equal(text, "old");
    free(text);
    assert_int_equal(count_entries(), before);
}

/* The mask of permissions belongs to the whole process: setting it, even for a moment, would let other threads create
 * files that everyone may write. The program's own umask stands before the C library's. */
static int n_mask_changes;

mode_t umask(mode_t mask) {
    n_mask_changes++;
    return (mode_t)syscall(SYS_umask, mask);
}

static void writing_leaves_the_mask_alone(void **state) {
    (void)state;
    n_mask_changes = 0;
    assert_true(file_write_atomic(path_of("masked"), "x", 1, NULL));
    assert_int_equal(n_mask_changes, 0);
}

enum { TOGGLE_BYTES = 100000 };
static atomic_bool writer_is_done;

static void *toggle_file(void *context) {
    static char content[2][TOGGLE_BYTES];
    memset(content[0], 'a', TOGGLE_BYTES);
    memset(content[1], 'b', TOGGLE_BYTES);
    for (int i = 0; i < 60; i++) file_write_atomic(context, content[i & 1], TOGGLE_BYTES, NULL);
    atomic_store(&writer_is_done, true);
    return NULL;
}

static void readers_see_the_old_or_the_new_file(void **state) {
    (void)state;
    pthread_t writer;
    static char path[5000];
    snprintf(path, sizeof path, "%s/toggled", folder);
    assert_true(file_write_atomic(path, "", 0, NULL));
    atomic_store(&writer_is_done, false);
    assert_int_equal(pthread_create(&writer, NULL, toggle_file, path), 0);
    bool last = false;
    do {
        last = atomic_load(&writer_is_done);
        size_t n;
        char *text = file_read(path, TOGGLE_BYTES, &n, NULL);
        assert_non_null(text);
        assert_true(n == 0 || n == TOGGLE_BYTES);
        for (size_t i = 1; i < n; i++)
            if (text[i] != text[0]) fail_msg("a mixture of two files was read");
        free(text);
    } while (!last);
    pthread_join(writer, NULL);
}

/* ---- mappings ---- */

static void mappings_show_the_file(void **state) {
    (void)state;
    struct mx_error err = {0};
    struct file_map map, empty;
    write_file(path_of("m"), "mapped", 6);
    write_file(path_of("e"), "", 0);
    assert_true(file_map_open(&map, path_of("m"), &err));
    assert_int_equal(map.size, 6);
    assert_memory_equal(map.data, "mapped", 6);
    assert_false(file_map_is_damaged(&map));
    assert_true(file_map_open(&empty, path_of("e"), &err));
    assert_true(empty.data == NULL && empty.size == 0 && !file_map_is_damaged(&empty));
    file_map_close(&empty);
    file_map_close(&map);
    file_map_close(&map);
    struct file_map zeroed = {0};
    file_map_close(&zeroed);
}

/* ---- folders and names ---- */

static void folders_are_listed_in_order(void **state) {
    (void)state;
    struct arena arena = {0};
    struct mx_error err = {0};
    char **names;
    size_t n;
    assert_int_equal(mkdir(path_of("list"), 0700), 0);
    write_file(path_of("list/b.txt"), "", 0);
    write_file(path_of("list/a.txt"), "", 0);
    write_file(path_of("list/.hidden.txt"), "", 0);
    write_file(path_of("list/c.json"), "", 0);
    assert_true(folder_list(&arena, path_of("list"), ".txt", &names, &n, &err));
    assert_int_equal(n, 3);
    assert_string_equal(names[0], ".hidden.txt");
    assert_string_equal(names[1], "a.txt");
    assert_string_equal(names[2], "b.txt");
    assert_true(folder_list(&arena, path_of("list"), ".none", &names, &n, &err));
    assert_int_equal(n, 0);
    assert_false(folder_list(&arena, path_of("nowhere"), "", &names, &n, &err));
    assert_int_equal(err.code, ERROR_IO);
    assert_string_equal(path_join(&arena, "a", "b"), "a/b");
    assert_string_equal(path_join(&arena, "a/", "b"), "a/b");
    arena_free(&arena);
}

static void plain_names_stay_in_their_folder(void **state) {
    (void)state;
    static const struct {
        const char *name;
        bool is_plain;
    } cases[] = {{"a", true},   {"model.safetensors", true},
                 {"..a", true}, {".a", true},
                 {"", false},   {".", false},
                 {"..", false}, {"a/b", false},
                 {"/a", false}, {"../a", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(path_is_plain_name(cases[i].name, strlen(cases[i].name)), cases[i].is_plain);
    assert_false(path_is_plain_name("a\0b", 3));
}

static void existence_follows_links(void **state) {
    (void)state;
    write_file(path_of("there"), "", 0);
    assert_int_equal(symlink("there", path_of("link")), 0);
    assert_int_equal(symlink("gone", path_of("dangling")), 0);
    assert_true(file_exists(path_of("link")) && file_exists(folder));
    assert_false(file_exists(path_of("dangling")) || file_exists(path_of("gone")));
    assert_true(file_is_directory(folder));
    assert_false(file_is_directory(path_of("there")) || file_is_directory(path_of("gone")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_files_are_read),
        cmocka_unit_test(pipes_are_read_to_their_end),
        cmocka_unit_test(errors_say_what_is_wrong),
        cmocka_unit_test(permissions_are_respected),
        cmocka_unit_test(writing_replaces_the_whole_file),
        cmocka_unit_test(a_failed_write_leaves_nothing_behind),
        cmocka_unit_test(a_full_disk_keeps_the_old_file),
        cmocka_unit_test(writing_leaves_the_mask_alone),
        cmocka_unit_test(readers_see_the_old_or_the_new_file),
        cmocka_unit_test(mappings_show_the_file),
        cmocka_unit_test(folders_are_listed_in_order),
        cmocka_unit_test(plain_names_stay_in_their_folder),
        cmocka_unit_test(existence_follows_links),
    };
    return cmocka_run_group_tests_name("file", tests, make_folder, drop_folder);
}
