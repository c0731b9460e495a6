/* SPDX-License-Identifier: Apache-2.0 */
/* `mlxcel inspect` on configs alone: which part of a model runs, and what entries of the quantization block weigh. */
#include "tests/support/process.h"
#include "tests/support/tap.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CASES SOURCE_DIR "/tests/golden/cases/"

enum { TIMEOUT_MS = 120000 };

static bool run(struct process *p, const char *const *words) {
    *p = (struct process){0};
    return process_run(p, words, TIMEOUT_MS) && p->status == 0;
}

/* The report on a config, or NULL. */
static const struct json *inspect(struct arena *arena, const char *path) {
    struct process p;
    struct mx_error err = {0};
    const char *words[] = {program_path("mlxcel"), "inspect", path, "--json", NULL};
    const struct json *report = NULL;
    char *text = run(&p, words) ? arena_copy(arena, p.out.data, p.out.length) : NULL;
    if (text) report = json_parse(arena, text, strlen(text), 0, 16, &err);
    if (!report) tap_note("%s", p.err.data ? p.err.data : err.message);
    process_free(&p);
    return report;
}

static void check_parts(void) {
    struct arena arena = {0};
    const struct json *vision = inspect(&arena, CASES "hf-mllama-text/config.json");
    const struct json *text = inspect(&arena, CASES "hf-gptj/config.json");
    tap_ok(json_string_is(json_get(vision, "unused_part"), "vision_config"), "the part that does not run is named");
    tap_ok(text && json_is_null(json_get(text, "unused_part")), "a text model has no such part");
    arena_free(&arena);
}

static void check_notice(void) {
    char folder[4096];
    struct process p;
    if (!folder_make_temporary(folder, sizeof folder)) {
        tap_ok(false, "no temporary folder");
        return;
    }
    const char *synth[] = {program_path("mlxcel"), "synth", "--config", CASES "hf-mllama-text", "-o", folder, NULL};
    const char *logits[] = {program_path("mlxcel"), "logits", "-m", folder, "--ids", "1,2", NULL};
    bool ok = run(&p, synth);
    process_free(&p);
    ok = ok && run(&p, logits);
    const char *line = ok && p.err.data ? p.err.data : "";
    const char *found = strstr(line, "only the text part of the model runs (vision_config is not used)\n");
    tap_ok(found && strchr(line, '\n') == found + strlen(found) - 1, "running its text part is told in one line");
    process_free(&p);
    folder_remove(folder);
}

/* The bytes of a config of experts with an entry put into its quantization block. */
static int64_t bytes_with(const char *entry) {
    struct arena arena = {0};
    struct mx_error err = {0};
    char folder[4096], path[4200];
    size_t length;
    int64_t bytes = -1;
    char *text = file_read(CASES "qwen3_moe-q4/config.json", 1 << 20, &length, &err);
    char *block = text ? strstr(text, "\"quantization\": {") : NULL;
    if (block && folder_make_temporary(folder, sizeof folder)) {
        int head = (int)(block - text) + (int)strlen("\"quantization\": {");
        char *changed = arena_printf(&arena, "%.*s%s%s", head, text, entry, text + head);
        snprintf(path, sizeof path, "%.4096s/config.json", folder);
        if (changed && file_write_atomic(path, changed, strlen(changed), &err)) {
            const struct json *report = inspect(&arena, folder);
            bytes = json_integer(json_get(report, "weight_bytes"), -1);
        }
        folder_remove(folder);
    }
    free(text);
    arena_free(&arena);
    return bytes;
}

static void check_entries(void) {
    int64_t plain = bytes_with("");
    int64_t ours = bytes_with("\"model.layers.0.mlp.switch_mlp.down_proj\": {\"bits\": 8, \"group_size\": 32},");
    int64_t other = bytes_with("\"model.layers.0.mlp.experts.down_proj\": {\"bits\": 8, \"group_size\": 32},");
    tap_ok(plain > 0 && ours > plain, "an entry for a module changes its bytes");
    tap_ok(other == ours, "also under the other name of the module");
}

int main(void) {
    check_parts();
    check_notice();
    check_entries();
    return tap_done();
}
