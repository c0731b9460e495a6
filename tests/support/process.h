/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a program and collects what it prints. */
#ifndef MLXCEL_TESTS_PROCESS_H
#define MLXCEL_TESTS_PROCESS_H

#include "base/buffer.h"

#include <stdbool.h>
#include <sys/types.h>

struct process {
    pid_t pid;
    int out_fd, err_fd;
    struct buffer out, err;
    int status; /* exit status, or 128 + signal */
    bool timed_out;
};

/* argv[0] is the program's path; the list ends with NULL. environment: "NAME=value" strings, NULL-terminated, added to
 * ours; may be NULL. input: what stdin holds (NULL = empty). unprivileged: as user nobody, where we are root. */
bool process_start(struct process *process, const char *const *argv, const char *const *environment, const char *input,
                   size_t input_length, bool unprivileged);
/* Reads both streams to their ends and waits; after timeout_ms the process is killed. */
void process_finish(struct process *process, int timeout_ms);
bool process_run(struct process *process, const char *const *argv, int timeout_ms);
void process_free(struct process *process);

/* BUILD_DIR/name. */
const char *program_path(const char *name);

#endif
