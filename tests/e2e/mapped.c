/* SPDX-License-Identifier: Apache-2.0 */
/* Weights are read where the file is mapped: a model of 170 MB runs without a copy of them, and a file that is cut while
 * it runs is one clear line and exit 1. */
#include "tests/support/process.h"
#include "tests/support/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[4096];

static const char config[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 2048, \"num_hidden_layers\": 4, \"num_attention_heads\": 16,"
    " \"num_key_value_heads\": 4, \"intermediate_size\": 8192, \"vocab_size\": 32000, \"rms_norm_eps\": 1e-5,"
    " \"max_position_embeddings\": 4096, \"tie_word_embeddings\": true}";

static const char *in_folder(const char *name) {
    static char path[4200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static bool make_model(void) {
    if (!folder_make_temporary(folder, sizeof folder)) return false;
    FILE *file = fopen(in_folder("shape.json"), "w");
    if (!file) return false;
    bool ok = fputs(config, file) >= 0;
    ok = !fclose(file) && ok;
    char shape[4200];
    snprintf(shape, sizeof shape, "%s", in_folder("shape.json"));
    const char *argv[] = {
        program_path("mlxcel"), "synth", "--config", shape, "--quant", "4bit-g64", "-o", folder, NULL};
    struct process p;
    ok = ok && process_run(&p, argv, 60000) && p.status == 0;
    process_free(&p);
    return ok;
}

/* A line of /proc/PID/status in kB, or -1 once the process has ended. */
static long status_kb(pid_t pid, const char *name) {
    char path[64], line[200];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    long kb = -1;
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name))) kb = strtol(line + strlen(name), NULL, 10);
    if (file) fclose(file);
    return kb;
}

static bool start(struct process *p, const char *n_greedy) {
    const char *argv[] = {program_path("mlxcel"),
                          "logits",
                          "-m",
                          folder,
                          "--ids",
                          "1,2,3,4,5,6,7,8",
                          "--greedy",
                          n_greedy,
                          "--threads",
                          "1",
                          NULL};
    return process_start(p, argv, NULL, NULL, 0, false);
}

/* Waits until the process has touched that much of its files; returns the anonymous memory it had at most till then. */
static long wait_for_file_pages(const struct process *p, long kb) {
    long most = 0, anonymous;
    for (int i = 0; i < 60000 && (anonymous = status_kb(p->pid, "RssAnon:")) >= 0; i++) {
        if (anonymous > most) most = anonymous;
        if (status_kb(p->pid, "RssFile:") >= kb) return most;
        usleep(1000);
    }
    return -1;
}

static void weights_are_not_copied(long weights_kb) {
    struct process p;
    long anonymous = -1;
    bool ok = start(&p, "8");
    if (ok) {
        anonymous = wait_for_file_pages(&p, weights_kb * 9 / 10);
        long now = status_kb(p.pid, "RssAnon:");
        if (now > anonymous && anonymous >= 0) anonymous = now;
        process_finish(&p, 120000);
    }
    tap_ok(ok && p.status == 0 && anonymous >= 0 && anonymous < weights_kb / 10,
           "memory of its own is less than a tenth of the weights (%ld of %ld kB)", anonymous, weights_kb);
    process_free(&p);
}

static void a_cut_file_is_one_line(long weights_kb) {
    struct process p;
    bool ok = start(&p, "2000");
    if (ok) {
        ok = wait_for_file_pages(&p, weights_kb * 9 / 10) >= 0 &&
             !truncate(in_folder("model.safetensors"), (off_t)weights_kb * 512);
        process_finish(&p, 120000);
    }
    ok = ok && p.status == 1 && !strncmp(p.err.data, "mlxcel: ", 8) && strstr(p.err.data, "model.safetensors") &&
         strchr(p.err.data, '\n') == p.err.data + p.err.length - 1;
    if (!tap_ok(ok, "a file that is cut while it is mapped is one line and exit 1"))
        tap_note("status %d, stderr: %.500s", p.status, p.err.data);
    process_free(&p);
}

int main(void) {
    struct stat info;
    bool ok = make_model() && !stat(in_folder("model.safetensors"), &info);
    tap_ok(ok, "a model is made");
    if (ok) weights_are_not_copied(info.st_size / 1024);
    if (ok) a_cut_file_is_one_line(info.st_size / 1024);
    folder_remove(folder);
    return tap_done();
}
