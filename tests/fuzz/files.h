/* SPDX-License-Identifier: Apache-2.0 */
/* For targets whose parsers read files: a folder of this process, in which the input lies under the name it needs. */
#ifndef MLXCEL_TESTS_FUZZ_FILES_H
#define MLXCEL_TESTS_FUZZ_FILES_H

#include "base/error.h"

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

/* Made when first asked for; empty again at the end of the process. */
static char fuzz_path[64];
static const char *fuzz_file_name;

static inline void fuzz_remove_folder(void) {
    char path[400];
    if (fuzz_file_name) {
        snprintf(path, sizeof path, "%s/%s", fuzz_path, fuzz_file_name);
        unlink(path);
    }
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
    char path[400];
    if (fuzz_file_name && strcmp(name, fuzz_file_name) != 0) {
        snprintf(path, sizeof path, "%s/%s", fuzz_folder(), fuzz_file_name);
        unlink(path);
    }
    fuzz_file_name = name;
    fuzz_write(name, data, size);
}

#endif
