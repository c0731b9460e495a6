/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/tap.h"

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int n_cases, n_failed;

static void print_line(const char *format, va_list args) {
    char line[2000];
    vsnprintf(line, sizeof line, format, args);
    for (char *c = line; *c; c++)
        if (*c == '\n' || *c == '#') *c = ' ';
    printf("%s\n", line);
    fflush(stdout);
}

bool tap_ok(bool ok, const char *format, ...) {
    n_cases++;
    if (!ok) n_failed++;
    printf("%s %d - ", ok ? "ok" : "not ok", n_cases);
    va_list args;
    va_start(args, format);
    print_line(format, args);
    va_end(args);
    return ok;
}

void tap_note(const char *format, ...) {
    printf("# ");
    va_list args;
    va_start(args, format);
    print_line(format, args);
    va_end(args);
}

void tap_skip(const char *name, const char *reason) {
    printf("ok %d - %s # SKIP %s\n", ++n_cases, name, reason);
    fflush(stdout);
}

int tap_done(void) {
    printf("1..%d\n", n_cases);
    return n_failed ? 1 : 0;
}

const char *shared_folder(void) {
    static char path[4096];
    const char *set = getenv("MLXCEL_SHARED");
    snprintf(path, sizeof path, "%s", set ? set : SOURCE_DIR "/../shared");
    return access(path, R_OK | X_OK) == 0 ? path : NULL;
}

bool folder_make_temporary(char *path, unsigned long room) {
    const char *base = getenv("TMPDIR");
    snprintf(path, room, "%s/mlxcel-test-XXXXXX", base && *base ? base : "/tmp");
    return mkdtemp(path) != NULL;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)kind, (void)where;
    return remove(path);
}

void folder_remove(const char *path) {
    if (strstr(path, "mlxcel-test-")) nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}
