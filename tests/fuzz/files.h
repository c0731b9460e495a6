/* SPDX-License-Identifier: Apache-2.0 */
/* For targets whose parsers read files: a folder of this process, in which the input lies under the name it needs. */
#ifndef MLXCEL_TESTS_FUZZ_FILES_H
#define MLXCEL_TESTS_FUZZ_FILES_H

#include "base/error.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void expect(bool claim) {
    if (!claim) abort();
}

/* A refusal has a code and one line. */
static inline void expect_message(const struct mx_error *err) {
    expect(err->code != ERROR_NONE && err->message[0] && !strchr(err->message, '\n'));
}

/* Made when first asked for; gone again at the end of the process. */
static char fuzz_path[64];

static inline void fuzz_clear_folder(void) {
    char path[400];
    DIR *folder = opendir(fuzz_path);
    expect(folder != NULL);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", fuzz_path, entry->d_name);
        if (entry->d_type == DT_REG) unlink(path);
    }
    closedir(folder);
}

static inline void fuzz_remove_folder(void) {
    fuzz_clear_folder();
    rmdir(fuzz_path);
}

static inline const char *fuzz_folder(void) {
    if (fuzz_path[0]) return fuzz_path;
    snprintf(fuzz_path, sizeof fuzz_path, "%s/mlxcel-fuzz-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    expect(mkdtemp(fuzz_path) != NULL);
    atexit(fuzz_remove_folder);
    return fuzz_path;
}

static inline void fuzz_write(const char *name, const void *data, size_t size) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    FILE *file = fopen(path, "wb");
    expect(file && (!size || fwrite(data, 1, size, file) == size) && fclose(file) == 0);
}

/* Leaves no file but this one. */
static inline void fuzz_write_alone(const char *name, const void *data, size_t size) {
    fuzz_folder();
    fuzz_clear_folder();
    fuzz_write(name, data, size);
}

#endif
