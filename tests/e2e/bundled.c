/* SPDX-License-Identifier: Apache-2.0 */
/* The real program on the bundled model, against models/novels-24m-4bit/expected.json, which an independent implementation
 * computed in float32: greedy ids, their text, the chat answer, and the loss of the first windows of a held-out text. The
 * bf16 form in Hugging Face layout is checked the same way where the shared folder is there. */
#include "tests/support/process.h"
#include "tests/support/tap.h"

#include "base/file.h"
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct arena arena;

/* Runs mlxcel with arguments; the output as JSON or NULL. */
static const struct json *run_json(const char *const *argv) {
    struct process p;
    const struct json *result = NULL;
    struct mx_error err;
    if (process_run(&p, argv, 300000) && p.status == 0) {
        char *text = arena_copy(&arena, p.out.data, p.out.length);
        result = json_parse(&arena, text, p.out.length, 0, 16, &err);
    } else {
        tap_note("status %d: %.300s", p.status, p.err.data);
    }
    process_free(&p);
    return result;
}

static char *ids_text(const struct json *ids) {
    struct buffer text = {0};
    for (uint32_t i = 0; i < ids->count; i++)
        buffer_printf(&text, "%s%lld", i ? "," : "", (long long)json_integer(&ids->items[i], 0));
    char *copy = arena_copy(&arena, text.data, text.length);
    buffer_free(&text);
    return copy;
}

/* Ids are equal up to the first step whose gap is within the noise of another order of additions. */
static bool same_ids(const struct json *expected, const struct json *gaps, const struct json *found) {
    if (!json_is_array(found)) return false;
    for (uint32_t i = 0; i < expected->count; i++) {
        if (gaps && json_number(json_at(gaps, i), 1) < 1e-3) return true;
        if (json_integer(json_at(found, i), -1) != json_integer(&expected->items[i], -2)) return false;
    }
    return true;
}

static void check_greedy(const char *name, const char *folder, const struct json *expected) {
    for (uint32_t i = 0; i < expected->count; i++) {
        const struct json *e = &expected->items[i], *ids = json_get(e, "ids");
        char count[16], *prompt = json_string_copy(&arena, json_get(e, "prompt"));
        snprintf(count, sizeof count, "%u", ids->count);
        const char *argv[] = {program_path("mlxcel"),
                              "logits",
                              "-m",
                              folder,
                              "--precision",
                              "exact",
                              "--json",
                              "--greedy",
                              count,
                              "--ids",
                              ids_text(json_get(e, "prompt_ids")),
                              NULL};
        const struct json *found = run_json(argv);
        tap_ok(same_ids(ids, json_get(e, "gap"), json_get(found, "greedy_ids")), "%s: greedy ids for '%s'", name,
               prompt);
        struct process p;
        const char *generate[] = {
            program_path("mlxcel"), "generate",     "-m", folder, "--precision", "exact", "-n", count,
            "--no-chat-template",   "--ignore-eos", "-p", prompt, NULL};
        bool ok = process_run(&p, generate, 300000) && p.status == 0;
        const struct json *text = json_get(e, "text");
        bool same = ok && p.out.length == text->count + 1u && !memcmp(p.out.data, text->string, text->count);
        bool is_sure = json_number(json_get(e, "min_gap"), 1) >= 1e-3;
        tap_ok(same || (ok && !is_sure), "%s: greedy text for '%s'", name, prompt);
        process_free(&p);
    }
}

static void check_chat(const char *name, const char *folder, const struct json *chat) {
    struct process p;
    const struct json *text = json_get(chat, "text");
    const struct json *message = json_get(json_at(json_get(chat, "messages"), 0), "content");
    char *prompt = json_string_copy(&arena, message);
    const char *argv[] = {program_path("mlxcel"), "generate", "-m", folder, "--precision", "exact", "-p", prompt, NULL};
    bool ok = process_run(&p, argv, 300000) && p.status == 0 && p.out.length == text->count + 1u &&
              !memcmp(p.out.data, text->string, text->count);
    tap_ok(ok, "%s: the chat answer", name);
    process_free(&p);
}

/* Four significant digits of each of the first windows' sums. */
static void check_loss(const char *name, const char *folder, const struct json *heldout) {
    const struct json *sums = json_get(heldout, "first_windows_sum_nats");
    const char *argv[] = {program_path("mlxcel"),
                          "perplexity",
                          "-m",
                          folder,
                          "--file",
                          SOURCE_DIR "/tests/data/heldout-start.txt",
                          "--tokens",
                          "2049",
                          "--window",
                          "512",
                          "--precision",
                          "exact",
                          "--json",
                          NULL};
    const struct json *found = json_get(run_json(argv), "window_sums_nats");
    bool ok = json_is_array(found) && found->count == sums->count;
    for (uint32_t i = 0; ok && i < sums->count; i++)
        ok = fabs(json_number(&found->items[i], 0) / json_number(&sums->items[i], 1) - 1) < 5e-5;
    tap_ok(ok, "%s: loss of the first %u windows of the held-out text", name, sums->count);
}

/* Precision fast stays close to exact. */
static void check_fast(const char *name, const char *folder) {
    const char *argv[] = {program_path("mlxcel"),
                          "perplexity",
                          "-m",
                          folder,
                          "--file",
                          SOURCE_DIR "/tests/data/heldout-start.txt",
                          "--tokens",
                          "1025",
                          "--kl",
                          "--json",
                          NULL};
    const struct json *found = run_json(argv);
    double kl = json_number(json_get(found, "kl"), 1);
    tap_ok(kl >= 0 && kl < 0.01, "%s: KL of fast from exact is below 0.01 nats (%.6f)", name, kl);
}

static void check_model(const char *name, const char *folder, const struct json *expected) {
    if (!json_is_object(expected)) {
        tap_ok(false, "%s: expected values", name);
        return;
    }
    check_greedy(name, folder, json_get(expected, "greedy"));
    check_chat(name, folder, json_get(expected, "chat"));
    check_loss(name, folder, json_get(expected, "heldout"));
    check_fast(name, folder);
}

int main(void) {
    struct mx_error err;
    size_t length;
    const char *folder = SOURCE_DIR "/models/novels-24m-4bit", *shared = shared_folder();
    char *text = file_read(SOURCE_DIR "/models/novels-24m-4bit/expected.json", 1 << 20, &length, &err);
    const struct json *models = json_get(text ? json_parse(&arena, text, length, 0, 16, &err) : NULL, "models");
    check_model("novels-24m-4bit", folder, json_get(models, "novels-24m-4bit"));
    if (shared)
        check_model("novels-24m-bf16", arena_printf(&arena, "%s/models/novels-24m-bf16", shared),
                    json_get(models, "novels-24m-bf16"));
    else
        tap_skip("novels-24m-bf16", SHARED_ABSENT);
    free(text);
    arena_free(&arena);
    return tap_done();
}
