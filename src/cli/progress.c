/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Seconds until the first line, and on a terminal between two. */
#define FIRST   2.0
#define REFRESH 0.25

static void write_line(struct progress *p, double seconds) {
    char text[160];
    int n = snprintf(text, sizeof text, "%s%s", p->is_terminal ? "\r\033[K" : "mlxcel: ", p->what);
    if (p->of)
        n += snprintf(text + n, sizeof text - (size_t)n, ": %zu of %zu tokens", p->done, p->of);
    else if (p->done)
        n += snprintf(text + n, sizeof text - (size_t)n, ": %zu tokens", p->done);
    snprintf(text + n, sizeof text - (size_t)n, ", %.0f s%s", seconds, p->is_terminal ? "" : "\n");
    fputs(text, stderr);
    p->is_shown = p->is_terminal;
}

static struct timespec after(double seconds) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    uint64_t ns = (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec + (uint64_t)(seconds * 1e9);
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
}

static void *watch(void *context) {
    struct progress *p = context;
    double pause = FIRST;
    pthread_mutex_lock(&p->lock);
    while (!p->is_ending) {
        struct timespec until = after(pause);
        int status = 0;
        while (!p->is_ending && status != ETIMEDOUT) status = pthread_cond_timedwait(&p->wake, &p->lock, &until);
        if (p->is_ending) break;
        write_line(p, clock_seconds_since(p->start_ns));
        pause = p->is_terminal ? REFRESH : pause * 2;
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

void progress_begin(struct progress *p, const char *what) {
    pthread_condattr_t monotonic;
    *p = (struct progress){.what = what, .start_ns = clock_now_ns(), .is_terminal = isatty(STDERR_FILENO)};
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    p->is_running = pthread_create(&p->thread, NULL, watch, p) == 0;
    if (p->is_running) return;
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->wake);
}

void progress_set(struct progress *p, const char *what, size_t done, size_t of) {
    if (!p->is_running) return;
    pthread_mutex_lock(&p->lock);
    p->what = what;
    p->done = done;
    p->of = of;
    pthread_mutex_unlock(&p->lock);
}

void progress_end(struct progress *p) {
    if (!p->is_running) return;
    pthread_mutex_lock(&p->lock);
    p->is_ending = true;
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    if (p->is_shown) fputs("\r\033[K", stderr);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->wake);
    p->is_running = false;
}
