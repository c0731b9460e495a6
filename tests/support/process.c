/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/process.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void run_child(const char *const *argv, const char *const *environment, int in, int out, int err,
                      bool unprivileged) {
    dup2(in, 0);
    dup2(out, 1);
    dup2(err, 2);
    for (size_t i = 0; environment && environment[i]; i++) putenv((char *)(uintptr_t)environment[i]);
    /* Opened before, since an ordinary user may not look into the folder that the program lies in. */
    int program = open(argv[0], O_PATH | O_CLOEXEC);
    if (unprivileged && getuid() == 0 && (setgroups(0, NULL) || setgid(65534) || setuid(65534))) _exit(126);
    fexecve(program, (char *const *)(uintptr_t)argv, environ);
    execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

bool process_start(struct process *p, const char *const *argv, const char *const *environment, const char *input,
                   size_t input_length, bool unprivileged) {
    int out[2], err[2];
    FILE *in = tmpfile();
    *p = (struct process){.pid = -1, .out_fd = -1, .err_fd = -1};
    if (!in || (input_length && fwrite(input, 1, input_length, in) != input_length) || fflush(in)) return false;
    rewind(in);
    lseek(fileno(in), 0, SEEK_SET);
    if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) return false;
    p->pid = fork();
    if (p->pid == 0) run_child(argv, environment, fileno(in), out[1], err[1], unprivileged);
    fclose(in);
    close(out[1]);
    close(err[1]);
    p->out_fd = out[0];
    p->err_fd = err[0];
    return p->pid > 0;
}

static bool drain(int *fd, struct buffer *into) {
    char chunk[65536];
    ssize_t n = read(*fd, chunk, sizeof chunk);
    if (n > 0) return buffer_append(into, chunk, (size_t)n);
    if (n < 0 && errno == EINTR) return true;
    close(*fd);
    *fd = -1;
    return false;
}

void process_finish(struct process *p, int timeout_ms) {
    uint64_t deadline = clock_now_ns() + (uint64_t)timeout_ms * 1000000u;
    while (p->out_fd >= 0 || p->err_fd >= 0) {
        struct pollfd fds[2] = {{.fd = p->out_fd, .events = POLLIN}, {.fd = p->err_fd, .events = POLLIN}};
        uint64_t now = clock_now_ns();
        if (now >= deadline) {
            kill(p->pid, SIGKILL);
            p->timed_out = true;
            break;
        }
        poll(fds, 2, (int)((deadline - now) / 1000000u) + 1);
        if (fds[0].revents) drain(&p->out_fd, &p->out);
        if (fds[1].revents) drain(&p->err_fd, &p->err);
    }
    if (p->out_fd >= 0) close(p->out_fd);
    if (p->err_fd >= 0) close(p->err_fd);
    int status = 0;
    while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR) continue;
    p->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    buffer_append(&p->out, "", 0);
    buffer_append(&p->err, "", 0);
}

bool process_run(struct process *p, const char *const *argv, int timeout_ms) {
    if (!process_start(p, argv, NULL, NULL, 0, false)) return false;
    process_finish(p, timeout_ms);
    return true;
}

void process_free(struct process *p) {
    buffer_free(&p->out);
    buffer_free(&p->err);
}

const char *program_path(const char *name) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", BUILD_DIR, name);
    return path;
}
