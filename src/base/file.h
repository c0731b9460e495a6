/* SPDX-License-Identifier: Apache-2.0 */
/* Files: whole reads, read-only mappings that survive a truncation, paths.
 *
 * Checkpoints are used where they lie, through mmap, in huge pages where the file system has them. When a mapped file
 * shrinks, touching a lost page raises SIGBUS. The first file_map_open installs a handler for it which puts a zero page
 * in the place of the lost one and marks the mapping as damaged; the computation runs on (with wrong numbers) and its
 * owner asks file_map_is_damaged after each step. A SIGBUS at any other address goes to the handler that was there
 * before. */
#ifndef MLXCEL_BASE_FILE_H
#define MLXCEL_BASE_FILE_H

#include "base/arena.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct file_map {
    const unsigned char *data; /* NULL when size is 0 */
    size_t size;
    int slot; /* in the table that the SIGBUS handler reads; -1 = none */
};

bool file_map_open(struct file_map *map, const char *path, struct mx_error *err);
/* Closing a zeroed or closed map does nothing. */
void file_map_close(struct file_map *map);
/* True once a page of the mapping was lost because the file was cut. */
bool file_map_is_damaged(const struct file_map *map);

/* Reads a regular file (or a pipe) of at most max_bytes into malloc'ed memory with a NUL after the last byte. */
char *file_read(const char *path, size_t max_bytes, size_t *length, struct mx_error *err);

/* Writes a file so that the path holds either the old or the new content, never a part: a temporary file in the same
 * folder, flushed to disk, renamed over the path. */
bool file_write_atomic(const char *path, const void *data, size_t length, struct mx_error *err);

/* Something other than a pipe is there, following links: opening a pipe may wait for ever. */
bool file_exists(const char *path);
bool file_is_directory(const char *path);

/* "folder/name" in the arena; NULL when memory is out. */
char *path_join(struct arena *arena, const char *folder, const char *name);
/* True for a plain file name: not empty, no '/' and no NUL, not "." or "..". */
bool path_is_plain_name(const char *name, size_t length);

/* Sorted names of the entries of a folder that end in `suffix` ("" = all), in the arena. */
bool folder_list(struct arena *arena, const char *folder, const char *suffix, char ***names, size_t *n_names,
                 struct mx_error *err);

#endif
