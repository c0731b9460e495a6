/* SPDX-License-Identifier: Apache-2.0 */
/* Every golden case of the families that mlxcel knows, in precision exact, on every tier: logits, layer outputs and
 * greedy choices equal the reference's within the case's tolerance, and all tiers give identical bits.
 *
 *   golden [--case NAME]     one case only
 *
 * Beside it, how far precision fast is from exact: the divergence (KL, nats) of the mean prompt row, best tier, of the
 * cases without experts, whose choices tip over; its median must be under 0.01.
 *
 * Cases in tests/golden/cases always run; those of the shared folder when it is there (a case in its index that fails or
 * cannot run is a failure). */
#include "tests/support/golden.h"
#include "tests/support/tap.h"
#include "tests/support/weights.h"

#include "base/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *only;

/* Cases whose answer is not what their config says. They run with the config that the answer belongs to. */
static const struct {
    const char *name, *key, *replacement, *reason;
} errata[] = {
    {"gpt_oss-mxfp4", "\"truncate\": false", "\"truncate\": true",
     "the upper bound of the ramp is 32 ln(16 / 2 pi) / (2 ln 150000) = 1.25 and was rounded to 2"},
    {"hf/phimoe", "\"long_factor\"", "\"long_factor\": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7], \"was\"",
     "beyond the original length the answer has long_mscale, but the frequencies of short_factor: its rotary embedding "
     "asks for those without a length"},
    {"gpt_oss-mxfp4-q8", "\"truncate\": false", "\"truncate\": true", "as in gpt_oss-mxfp4"},
};

static bool same_bits(const struct golden *g, const struct golden_result *a, const struct golden_result *b) {
    size_t n_logits = g->n_canvas ? g->n_canvas : g->n_prompt, n_greedy = g->n_canvas ? g->n_canvas : g->n_greedy;
    return !memcmp(a->logits, b->logits, n_logits * a->vocab * sizeof(float)) &&
           !memcmp(a->greedy_logits, b->greedy_logits, n_greedy * a->vocab * sizeof(float)) &&
           !memcmp(a->layers, b->layers, g->n_prompt * a->hidden * a->n_layers * sizeof(float));
}

/* Exchanges the key of an erratum in the generated folder's config. */
static bool apply_errata(const char *name, const char *folder, struct mx_error *err) {
    for (size_t i = 0; i < sizeof errata / sizeof *errata; i++) {
        char path[4200];
        size_t length;
        if (strcmp(errata[i].name, name)) continue;
        snprintf(path, sizeof path, "%s/config.json", folder);
        char *text = file_read(path, 1 << 20, &length, err), *at = text ? strstr(text, errata[i].key) : NULL;
        FILE *file = at ? fopen(path, "w") : NULL;
        if (file) {
            fprintf(file, "%.*s%s%s", (int)(at - text), text, errata[i].replacement, at + strlen(errata[i].key));
            tap_note("%s with %s: %s", name, errata[i].replacement, errata[i].reason);
        }
        bool ok = file && !fclose(file);
        free(text);
        return ok || error_set(err, ERROR_IO, "%s: the config has no %s", name, errata[i].key);
    }
    return true;
}

/* ---- fast against exact ---- */

enum { MOST_DENSE = 1000 };
static double divergences[MOST_DENSE];
static size_t n_divergences;

/* log of the sum of exponentials of a row. */
static double log_sum(const float *row, uint32_t n) {
    double most = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < n; i++) most = fmax(most, (double)row[i]);
    for (uint32_t i = 0; i < n; i++) sum += exp((double)row[i] - most);
    return most + log(sum);
}

/* KL(exact || fast), the mean of all rows. */
static double divergence(const float *exact, const float *fast, size_t n_rows, uint32_t vocab) {
    double sum = 0;
    for (size_t r = 0; r < n_rows; r++, exact += vocab, fast += vocab) {
        double z_exact = log_sum(exact, vocab), z_fast = log_sum(fast, vocab);
        for (uint32_t i = 0; i < vocab; i++) {
            double p = exp((double)exact[i] - z_exact);
            if (p > 0) sum += p * ((double)exact[i] - z_exact - (double)fast[i] + z_fast);
        }
    }
    return sum / (double)n_rows;
}

static bool has_experts(const char *folder) {
    struct config config;
    struct mx_error err = {0};
    struct graph graph;
    bool found = false;
    if (!config_open(&config, folder, &err)) return true;
    if (model_build(&graph, &config, NULL, &err)) {
        for (size_t i = 0; i < graph.n_ops; i++) found |= graph.ops[i].kind == OP_ROUTE;
        graph_free(&graph);
    } else {
        found = true;
    }
    config_close(&config);
    return found;
}

static void add_divergence(const struct golden *g, const char *folder, const struct golden_result *exact) {
    struct golden_result fast;
    struct mx_error err = {0};
    struct model_options options = {.precision = PRECISION_FAST, .tier = (int)kernels_best_tier(), .n_threads = 1};
    if (g->n_canvas || n_divergences == MOST_DENSE || has_experts(folder)) return;
    if (golden_compute(g, folder, options, 0, &fast, &err)) {
        double kl = divergence(exact->logits, fast.logits, g->n_prompt, exact->vocab);
        divergences[n_divergences++] = isnan(kl) ? INFINITY : kl;
    } else {
        tap_ok(false, "precision fast: %s", err.message);
    }
    golden_result_free(&fast);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void check_divergences(void) {
    if (!n_divergences || only) return;
    qsort(divergences, n_divergences, sizeof *divergences, by_size);
    double median = divergences[n_divergences / 2];
    tap_ok(median < 0.01,
           "precision fast is close to exact: %zu cases without experts, median KL %.2g, largest %.2g nats",
           n_divergences, median, divergences[n_divergences - 1]);
}

/* One case with one config on all tiers. */
static void run_case(const char *folder, const char *name, const char *config_name) {
    struct golden g;
    struct mx_error err = {0};
    char temporary[4096], note[200] = "";
    if (!golden_open(&g, folder, &err)) {
        tap_ok(false, "%s", name);
        tap_note("%s", err.message);
        return;
    }
    if (golden_needs_kv_mode(&g)) {
        tap_skip(name, "needs a KV cache mode");
        golden_close(&g);
        return;
    }
    struct golden_result first = {0};
    bool ok = folder_make_temporary(temporary, sizeof temporary) &&
              weights_generate(folder, config_name, temporary, &err) && apply_errata(name, temporary, &err),
         have_first = false;
    for (int tier = 0; tier < N_TIERS && ok; tier++) {
        if (!kernels_for_tier((enum kernel_tier)tier)) continue;
        struct golden_result result;
        struct model_options options = {.precision = PRECISION_EXACT, .tier = tier, .n_threads = 1};
        ok = golden_compute(&g, temporary, options, 0, &result, &err);
        if (ok) ok = golden_compare(&g, &result, note, sizeof note);
        if (ok && have_first && !same_bits(&g, &first, &result)) {
            ok = false;
            snprintf(note, sizeof note, "tier %s gives other bits than ref", kernel_tier_name((enum kernel_tier)tier));
        }
        if (!have_first)
            first = result;
        else
            golden_result_free(&result);
        have_first = true;
    }
    if (ok && !strcmp(config_name, "config.json")) add_divergence(&g, temporary, &first);
    golden_result_free(&first);
    folder_remove(temporary);
    if (!tap_ok(ok, "%s%s%s", name, strcmp(config_name, "config.json") ? " with " : "",
                strcmp(config_name, "config.json") ? config_name : ""))
        tap_note("%s%s", err.message, note);
    golden_close(&g);
}

static void run_with_configs(const char *folder, const char *name) {
    char path[8192];
    run_case(folder, name, "config.json");
    snprintf(path, sizeof path, "%s/config-released.json", folder);
    if (file_exists(path)) run_case(folder, name, "config-released.json");
}

/* Whether a build function exists for the case's config. Foreign quantisation waits for its own support. */
static bool is_known(const char *folder) {
    struct config config;
    struct mx_error err = {0};
    struct graph graph;
    if (!config_open(&config, folder, &err)) return true;
    bool known = model_build(&graph, &config, NULL, &err);
    if (known) graph_free(&graph);
    config_close(&config);
    return known || (!strstr(err.message, "is not supported") && !strstr(err.message, "not implemented"));
}

/* Cases that the project has a copy of ran already ("hf/llama" is hf-llama there). */
static bool is_own(const char *name) {
    char path[8192];
    snprintf(path, sizeof path, "%s/tests/golden/cases/%s", SOURCE_DIR, name);
    char *slash = strstr(path, "cases/hf/");
    if (slash) slash[8] = '-';
    return file_is_directory(path);
}

/* First column of a line of an index. */
static bool next_name(char **line, char *name, size_t room) {
    if (!*line || !**line) return false;
    size_t n = strcspn(*line, ",");
    snprintf(name, room, "%.*s", (int)n, *line);
    char *end = strchr(*line, '\n');
    *line = end ? end + 1 : NULL;
    return true;
}

static void run_index(const char *shared, const char *index, const char *prefix) {
    char path[4096], name[200], folder[4096 + 300];
    size_t length;
    struct mx_error err;
    snprintf(path, sizeof path, "%s/golden/%s", shared, index);
    char *text = file_read(path, 1 << 20, &length, &err), *line = text;
    unsigned n_known = 0, n_waiting = 0;
    next_name(&line, name, sizeof name); /* heading */
    while (next_name(&line, name, sizeof name)) {
        if (!strncmp(name, "vlm/", 4) || (only && strcmp(name, only))) continue;
        snprintf(folder, sizeof folder, "%s/golden/%s%s", shared, prefix, name);
        if (!is_known(folder)) {
            n_waiting++;
            continue;
        }
        n_known++;
        if (!is_own(name)) run_with_configs(folder, name);
    }
    tap_note("%s: %u cases of known families, %u of families to come", index, n_known, n_waiting);
    free(text);
}

static void run_own(void) {
    struct arena arena = {0};
    char **names = NULL;
    size_t n = 0;
    struct mx_error err;
    if (folder_list(&arena, SOURCE_DIR "/tests/golden/cases", "", &names, &n, &err))
        for (size_t i = 0; i < n; i++)
            if (!only || !strcmp(only, names[i]))
                run_with_configs(path_join(&arena, SOURCE_DIR "/tests/golden/cases", names[i]), names[i]);
    arena_free(&arena);
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "--case")) only = argv[2];
    const char *shared = shared_folder();
    run_own();
    if (shared) {
        run_index(shared, "index.csv", "text/");
        run_index(shared, "index-hf.csv", "");
    } else {
        tap_skip("the other golden cases", SHARED_ABSENT);
    }
    check_divergences();
    return tap_done();
}
