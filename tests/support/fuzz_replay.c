/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target on the files of its corpus, each in a process of its own: what the target finds is one failed case,
 * and the rest goes on. */
#include "tests/support/tap.h"

#include "base/file.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_INPUT = 1 << 22, MAX_SECONDS = 30 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The exit status of the child, or 128 + signal. */
static int replay(const char *path) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        size_t length;
        char *text = path ? file_read(path, MAX_INPUT, &length, NULL) : calloc(1, 1);
        if (!path) length = 0;
        /* Without room behind the end, so that a sanitizer sees what is read beyond it. */
        uint8_t *data = text ? malloc(length ? length : 1) : NULL;
        if (!data) exit(1);
        memcpy(data, text, length);
        free(text);
        alarm(MAX_SECONDS);
        LLVMFuzzerTestOneInput(data, length);
        free(data);
        exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv) {
    struct arena arena = {0};
    char **names = NULL;
    size_t n = 0;
    for (int i = 1; i < argc; i++) tap_ok(replay(argv[i]) == 0, "%s", argv[i]);
    if (argc > 1) return tap_done();
    const char *folder = SOURCE_DIR "/tests/fuzz/corpus/" FUZZ_NAME;
    folder_list(&arena, folder, "", &names, &n, NULL);
    tap_ok(n > 0, "the_corpus_is_there (%zu files)", n);
    tap_ok(replay(NULL) == 0, "empty_input");
    for (size_t i = 0; i < n; i++) {
        int status = replay(path_join(&arena, folder, names[i]));
        if (!tap_ok(status == 0, "%s", names[i])) tap_note("ended with status %d", status);
    }
    arena_free(&arena);
    return tap_done();
}
