/* SPDX-License-Identifier: Apache-2.0 */
/* A sign of life on stderr for what takes longer than two seconds: on a terminal one line that is rewritten and goes
 * away, elsewhere a line now and then. */
#ifndef MLXCEL_CLI_PROGRESS_H
#define MLXCEL_CLI_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool is_running, is_ending, is_terminal, is_shown; /* is_shown: the line stands on the terminal */
    const char *what;                                  /* "reading the prompt"; a static text */
    size_t done, of;                                   /* tokens; of 0 = unknown, both 0 = none */
    uint64_t start_ns;
};

/* Starts to watch; without a thread (a system at its limits) nothing is shown. */
void progress_begin(struct progress *progress, const char *what);
void progress_set(struct progress *progress, const char *what, size_t done, size_t of);
/* Removes the line. Does nothing for one that was not begun or has ended. */
void progress_end(struct progress *progress);

#endif
