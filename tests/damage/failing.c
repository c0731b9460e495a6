/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation and every read of some commands is made to fail once (with MLXCEL_TEST_FULL=1; else one in 40): the program
 * either does without it and prints what it always prints, or ends with status 1 and one line. No crash, no hang. */
#include "tests/support/process.h"
#include "tests/support/tap.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char preload[4096 + 32], folder[4096];
static const char *input = ""; /* of the program */

static bool run_with(const char *const *argv, const char *variable, struct process *p) {
    const char *environment[] = {preload, variable, NULL};
    if (!process_start(p, argv, environment, input, strlen(input), false)) return false;
    process_finish(p, 60000);
    return true;
}

static size_t lines_of(const char *text) {
    size_t n = 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

/* The program did its work, or gave up properly. */
static bool is_proper(const struct process *p, const struct buffer *normal) {
    if (p->status == 0) return p->out.length == normal->length && !memcmp(p->out.data, normal->data, normal->length);
    return p->status == 1 && lines_of(p->err.data) == 1 && !strncmp(p->err.data, "mlxcel: ", 8);
}

static unsigned long count_calls(const char *const *argv, struct buffer *normal) {
    char variable[4096 + 32], path[4096 + 16];
    struct process p;
    struct mx_error err;
    size_t length;
    snprintf(path, sizeof path, "%s/count", folder);
    snprintf(variable, sizeof variable, "FAIL_COUNT=%s", path);
    if (!run_with(argv, variable, &p) || p.status != 0) {
        tap_note("status %d: %s", p.status, p.err.data);
        process_free(&p);
        return 0;
    }
    buffer_append(normal, p.out.data, p.out.length);
    process_free(&p);
    char *text = file_read(path, 100, &length, &err);
    unsigned long n = text ? strtoul(text, NULL, 10) : 0;
    free(text);
    return n;
}

static void fail_each(const char *name, const char *const *argv) {
    struct buffer normal = {0};
    unsigned long n = count_calls(argv, &normal), step = getenv("MLXCEL_TEST_FULL") ? 1 : n / 40 + 1, n_runs = 0,
                  n_wrong = 0;
    for (unsigned long at = 1; at <= n; at += step) {
        char variable[64];
        struct process p;
        snprintf(variable, sizeof variable, "FAIL_AT=%lu", at);
        bool ok = run_with(argv, variable, &p) && is_proper(&p, &normal);
        if (!ok && n_wrong++ < 10) tap_note("call %lu: status %d, stderr: %.400s", at, p.status, p.err.data);
        n_runs++;
        process_free(&p);
    }
    tap_ok(n > 0 && n_wrong == 0, "%s: %lu of its %lu allocations and reads fail one at a time", name, n_runs, n);
    buffer_free(&normal);
}

/* A whole conversation with tools, its variables given on the command line; and cases line by line. */
static void fail_templates(void) {
    struct mx_error err = {0};
    size_t length;
    char messages[4096 + 16];
    const char *program = program_path("mlxcel"), *file = SOURCE_DIR "/tests/data/chat-example.jinja";
    char *context = file_read(SOURCE_DIR "/tests/data/chat-example.json", 1 << 20, &length, &err);
    snprintf(messages, sizeof messages, "%s/messages.json", folder);
    if (!context || !file_write_atomic(messages, "[]", 2, &err)) {
        tap_ok(false, "apply-template: %s", err.message);
        free(context);
        return;
    }
    const char *once[] = {
        program, "apply-template", "--chat-template-file", file, "--messages", messages, "--kwargs", context, NULL};
    fail_each("apply-template", once);
    free(context);
}

int main(void) {
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s/tests/libfail.so", BUILD_DIR);
    if (!file_exists(preload + 11)) {
        tap_skip("failing allocations", "the preload library is not built with sanitizers");
        return tap_done();
    }
    if (!folder_make_temporary(folder, sizeof folder)) return 1;
    const char *generate[] = {program_path("mlxcel"), "generate", "-p", "Hello", "-n", "2", "--threads", "2", NULL};
    fail_each("generate", generate);
    const char *chat[] = {program_path("mlxcel"),
                          "generate",
                          "-p",
                          "Hello",
                          "-n",
                          "3",
                          "--no-chat-template",
                          "-t",
                          "1",
                          "--seed",
                          "3",
                          "--top-p",
                          "0.9",
                          "--repetition-penalty",
                          "1.2",
                          "--stop",
                          "xyz",
                          NULL};
    fail_each("generate with sampling", chat);
    fail_templates();
    folder_remove(folder);
    return tap_done();
}
