/* SPDX-License-Identifier: Apache-2.0 */
/* How long tokenizers take to load, and how fast one thread encodes and decodes.
 *
 *   build/PRESET/bench/tokenizer TEXT FOLDER...
 *
 * TEXT is a file; each FOLDER holds a tokenizer. Each figure is the median of several runs: of wall time, and of the
 * thread's processor time, which other load disturbs less. Encoding is measured without offsets, of the whole text in
 * one call, after one call to warm up. */
#include "text/tokenizer.h"

#include "base/clock.h"
#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_RUNS = 7, MAX_TEXT = 1 << 30 };

struct times {
    double wall[N_RUNS], cpu[N_RUNS];
};

struct stopwatch {
    uint64_t wall_ns, cpu_ns;
};

static uint64_t cpu_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct stopwatch begin(void) { return (struct stopwatch){clock_now_ns(), cpu_now_ns()}; }

static void end(struct stopwatch start, struct times *times, size_t run) {
    times->wall[run] = (double)(clock_now_ns() - start.wall_ns) * 1e-6;
    times->cpu[run] = (double)(cpu_now_ns() - start.cpu_ns) * 1e-6;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values) {
    qsort(values, N_RUNS, sizeof *values, compare);
    return values[N_RUNS / 2];
}

static bool measure(const char *folder, const char *text, size_t length, struct mx_error *err) {
    struct times load = {{0}}, encode = {{0}}, decode = {{0}};
    struct token_list list = {0};
    struct buffer decoded = {0};
    struct tokenizer *t = NULL;
    for (size_t run = 0; run < N_RUNS; run++) {
        tokenizer_close(t);
        struct stopwatch start = begin();
        t = tokenizer_open(folder, err);
        end(start, &load, run);
        if (!t) return false;
    }
    bool ok = tokenizer_encode(t, text, length, 0, &list, err);
    for (size_t run = 0; run < N_RUNS && ok; run++) {
        struct stopwatch start = begin();
        ok = tokenizer_encode(t, text, length, 0, &list, err);
        end(start, &encode, run);
    }
    for (size_t run = 0; run < N_RUNS && ok; run++) {
        buffer_clear(&decoded);
        struct stopwatch start = begin();
        ok = tokenizer_decode(t, list.ids, list.count, false, &decoded, err);
        end(start, &decode, run);
    }
    double bytes = (double)length * 1e-3; /* over milliseconds: MB/s */
    const char *name = strrchr(folder, '/');
    if (ok)
        printf(
            "%-24s %-9s  load %6.1f ms (cpu %6.1f)   encode %6.1f MB/s (cpu %6.1f)   decode %6.1f MB/s (cpu %6.1f)   "
            "%zu tokens\n",
            name ? name + 1 : folder, tokenizer_kind(t), median(load.wall), median(load.cpu),
            bytes / median(encode.wall), bytes / median(encode.cpu), bytes / median(decode.wall),
            bytes / median(decode.cpu), list.count);
    tokenizer_close(t);
    token_list_free(&list);
    buffer_free(&decoded);
    return ok;
}

int main(int argc, char **argv) {
    struct mx_error err = {0};
    size_t length = 0;
    if (argc < 3) {
        fprintf(stderr, "usage: tokenizer TEXT FOLDER...\n");
        return 2;
    }
    char *text = file_read(argv[1], MAX_TEXT, &length, &err);
    bool ok = text != NULL;
    for (int i = 2; i < argc && ok; i++) {
        size_t n = strlen(argv[i]);
        while (n > 1 && argv[i][n - 1] == '/') argv[i][--n] = '\0';
        ok = measure(argv[i], text, length, &err);
        fflush(stdout);
    }
    free(text);
    if (!ok) fprintf(stderr, "tokenizer: %s\n", err.message);
    return ok ? 0 : 1;
}
