/* SPDX-License-Identifier: Apache-2.0 */
/* The command line as a person meets it: wrong usage is exit 2 with one line that names the option, a failure is exit 1
 * with one line, output that cannot be written is noticed by every command, and what belongs together agrees. */
#include "tests/support/process.h"
#include "tests/support/tap.h"

#include "base/file.h"
#include "base/json.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_WORDS = 24, TIMEOUT_MS = 120000 };

static const char *out_of(const struct process *p) { return p->out.data ? p->out.data : ""; }
static const char *err_of(const struct process *p) { return p->err.data ? p->err.data : ""; }

static bool is_one_line(const char *text) {
    const char *end = strchr(text, '\n');
    return end && end > text && !end[1];
}

/* Runs mlxcel with the words of a line; words are separated by single spaces. */
static void run_words(struct process *p, const char *line, const char *input) {
    static char words[1024];
    const char *argv[MAX_WORDS] = {program_path("mlxcel")};
    size_t n = 1;
    snprintf(words, sizeof words, "%s", line);
    for (char *at = words; *at && n < MAX_WORDS - 1;) {
        argv[n++] = at;
        at += strcspn(at, " ");
        if (*at) *at++ = '\0';
    }
    if (process_start(p, argv, NULL, input, input ? strlen(input) : 0, false)) process_finish(p, TIMEOUT_MS);
}

/* ---- wrong usage ---- */

static const struct {
    const char *line, *named;
} wrong[] = {
    {"generate --bogus", "--bogus"},
    {"generate -p", "-p"},
    {"generate -p x -n abc", "-n:"},
    {"generate -p x --n-predict=1.5", "--n-predict:"},
    {"generate -p x -t nan", "-t:"},
    {"generate -p x --top-p 1.5", "--top-p:"},
    {"generate -p x --threads 1025", "--threads:"},
    {"generate -p x --tier sse", "--tier:"},
    {"generate -p x --tier neon", "--tier:"},
    {"generate -p x --precision half", "--precision:"},
    {"generate -p x --profile=maybe", "--profile"},
    {"generate -p x --image a.png", "--image"},
    {"generate -p x --cache-type-k int8", "--cache-type-k"},
    {"generate -p x --json --regex a", "--regex"},
    {"generate -p x -n 1 --regex (", "--regex:"},
    {"generate -p x --logit-bias 5", "--logit-bias:"},
    {"generate -p x y", "'y'"},
    {"generate -p x --model=", "--model:"},
    {"help nonsense", "nonsense"},
    {"nonsense", "nonsense"},
    {"logits", "--ids"},
    {"logits --ids 1 -p x", "--ids"},
    {"logits --ids 1 --greedy 2 --force-ids 3", "--greedy"},
    {"logits --ids 1,x", "--ids:"},
    {"bench-decode --prompt-tokens 0", "--prompt-tokens:"},
    {"bench-decode -p x --kv-cache-mode int8", "--kv-cache-mode"},
    {"grammar --regex a --gbnf b", "--gbnf"},
    {"grammar --regex (", "--regex:"},
    {"grammar --jsonl --regex a", "--jsonl"},
    {"tokenize --jsonl -p x", "--jsonl"},
    {"detokenize --jsonl 1", "--jsonl"},
    {"apply-template --jsonl --messages x", "--jsonl"},
    {"parse-reply", "--format"},
    {"parse-reply --format nonsense", "--format:"},
    {"synth --config x", "-o"},
    {"synth --config x -o y --quant 4bit-g63", "--quant:"},
    {"bench-decode -p x --quant bf16", "--quant"},
    {"perplexity", "--file"},
    {"inspect a b", "'b'"},
};

/* neon is there on ARM. */
static bool is_right_here(const char *line) {
#ifdef __aarch64__
    return strstr(line, "neon") != NULL;
#else
    (void)line;
    return false;
#endif
}

static void check_usage(void) {
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct process p;
        if (is_right_here(wrong[i].line)) continue;
        run_words(&p, wrong[i].line, "");
        bool ok = p.status == 2 && !p.out.length && is_one_line(err_of(&p)) && strstr(err_of(&p), wrong[i].named);
        if (!tap_ok(ok, "wrong_usage_is_named: %s", wrong[i].line)) tap_note("%d %s", p.status, err_of(&p));
        process_free(&p);
    }
}

/* ---- output that cannot be written ---- */

static const struct {
    const char *arguments, *input;
} writing[] = {
    {"--help", ""},
    {"--version", ""},
    {"logits --help", ""},
    {"arch", ""},
    {"inspect", ""},
    {"generate -p x -n 2", ""},
    {"run -n 2", "x\n"},
    {"tokenize -p x", ""},
    {"tokenize -p x --show", ""},
    {"tokenize --jsonl", "\"x\"\n"},
    {"detokenize 5", ""},
    {"detokenize --jsonl", "[5]\n"},
    {"apply-template --jsonl", "{\"template\":\"x\",\"context\":{}}\n"},
    {"grammar --jsonl", "{\"regex\":\"a\",\"text\":\"a\"}\n"},
    {"grammar --regex a --check", "a"},
    {"parse-reply --format hermes", "x"},
    {"logits --ids 1 --json", ""},
};

static void check_full(void) {
    if (!file_exists("/dev/full")) {
        tap_skip("a_full_disk_is_noticed", "there is no /dev/full");
        return;
    }
    for (size_t i = 0; i < sizeof writing / sizeof *writing; i++) {
        struct process p;
        char line[1200];
        snprintf(line, sizeof line, "exec '%s' %s >/dev/full", program_path("mlxcel"), writing[i].arguments);
        const char *argv[] = {"/bin/sh", "-c", line, NULL};
        if (process_start(&p, argv, NULL, writing[i].input, strlen(writing[i].input), false))
            process_finish(&p, TIMEOUT_MS);
        bool ok = p.status == 1 && strstr(err_of(&p), "No space left on device");
        if (!tap_ok(ok, "a_full_disk_is_noticed: %s", writing[i].arguments)) tap_note("%d %s", p.status, err_of(&p));
        process_free(&p);
    }
}

/* The first file that the program opens must not become its stdout. */
static void check_closed(void) {
    static const char *const commands[] = {"tokenize -p x >&-", "inspect --json >&-", "generate -p x -n 2 >&-",
                                           "tokenize --jsonl <&-"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        struct process p;
        char line[1200];
        snprintf(line, sizeof line, "exec '%s' %s", program_path("mlxcel"), commands[i]);
        const char *argv[] = {"/bin/sh", "-c", line, NULL};
        bool ok = process_run(&p, argv, TIMEOUT_MS) && p.status == 1 && is_one_line(err_of(&p)) &&
                  strstr(err_of(&p), "Bad file descriptor");
        if (!tap_ok(ok, "a_closed_stream_is_noticed: %s", commands[i])) tap_note("%d %s", p.status, err_of(&p));
        process_free(&p);
    }
}

static void check_stdin(void) {
    static const char *const readers[] = {
        "tokenize --jsonl", "tokenize", "detokenize", "apply-template --jsonl", "grammar --regex a --check", "run"};
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        struct process p;
        char line[1200];
        snprintf(line, sizeof line, "exec '%s' %s </", program_path("mlxcel"), readers[i]);
        const char *argv[] = {"/bin/sh", "-c", line, NULL};
        if (process_start(&p, argv, NULL, "", 0, false)) process_finish(&p, TIMEOUT_MS);
        bool ok = p.status == 1 && strstr(err_of(&p), "standard input: Is a directory");
        if (!tap_ok(ok, "unreadable_input_is_noticed: %s", readers[i])) tap_note("%d %s", p.status, err_of(&p));
        process_free(&p);
    }
}

/* ---- models that are none ---- */

static void check_folders(void) {
    char folder[256], gguf[300];
    struct mx_error err;
    if (!tap_ok(folder_make_temporary(folder, sizeof folder), "a temporary folder")) return;
    snprintf(gguf, sizeof gguf, "%s/x.gguf", folder);
    file_write_atomic(gguf, "GGUF", 4, &err);
    const char *const commands[] = {
        "generate -p x", "logits --ids 1", "tokenize -p x", "perplexity --file /dev/null", "bench-decode -p x", "run"};
    const struct {
        const char *path, *said;
    } models[] = {{"/nonexistent", "No such file or directory"},
                  {"/dev/null", "is a file, expected a folder"},
                  {gguf, "GGUF"},
                  {folder, "holds no"}};
    for (size_t c = 0; c < sizeof commands / sizeof *commands; c++)
        for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
            struct process p;
            char line[600];
            snprintf(line, sizeof line, "%s -m %s", commands[c], models[m].path);
            run_words(&p, line, "");
            bool ok = p.status == 1 && !p.out.length && is_one_line(err_of(&p)) && strstr(err_of(&p), models[m].path) &&
                      strstr(err_of(&p), models[m].said);
            if (!tap_ok(ok, "no_model_is_named: %s, model %zu", commands[c], m))
                tap_note("%d %s", p.status, err_of(&p));
            process_free(&p);
        }
    folder_remove(folder);
}

/* The bundled model's files as links in a new folder, with an index that names a file which is not there. */
static void link_model(const char *folder, bool with_weights) {
    static const char *const names[] = {"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"};
    static const char index[] = "{\"weight_map\": {\"model.norm.weight\": \"model-2.safetensors\"}}";
    char to[400];
    struct mx_error err;
    for (size_t i = 0; i < (with_weights ? 4 : 3); i++) {
        char from[1200];
        snprintf(from, sizeof from, "%s/models/novels-24m-4bit/%s", SOURCE_DIR, names[i]);
        snprintf(to, sizeof to, "%s/%s", folder, names[i]);
        if (symlink(from, to) != 0) tap_note("cannot link %s", to);
    }
    snprintf(to, sizeof to, "%s/model.safetensors.index.json", folder);
    file_write_atomic(to, index, sizeof index - 1, &err);
}

/* With all tensors elsewhere in the folder it is a remark; without, the one line that ends the program names the file. */
static void check_stale_index(void) {
    for (int with_weights = 0; with_weights < 2; with_weights++) {
        struct process p;
        char folder[256], line[400];
        if (!tap_ok(folder_make_temporary(folder, sizeof folder), "a temporary folder")) return;
        link_model(folder, with_weights);
        snprintf(line, sizeof line, "logits --ids 1 -m %s", folder);
        run_words(&p, line, "");
        bool ok = p.status == !with_weights && is_one_line(err_of(&p)) && strstr(err_of(&p), "model-2.safetensors");
        if (!tap_ok(ok, "a_stale_index_is_one_line: %s weights", with_weights ? "with" : "without"))
            tap_note("%d %s", p.status, err_of(&p));
        process_free(&p);
        folder_remove(folder);
    }
}

/* ---- what must agree ---- */

/* The number of rows under a key, or -1. */
static int n_rows(const struct json *object, const char *key) {
    const struct json *rows = json_get(object, key);
    return json_is_array(rows) ? (int)rows->count : -1;
}

static void check_logits(void) {
    struct process text, ids, tokens;
    struct arena arena = {0};
    struct mx_error err;
    run_words(&tokens, "tokenize -p hello", "");
    size_t n = strcspn(out_of(&tokens), "\n");
    char list[200];
    snprintf(list, sizeof list, "%.*s", n < 100 ? (int)n : 0, out_of(&tokens));
    for (char *c = list; *c; c++)
        if (*c == ' ') *c = ',';
    run_words(&text, "logits -p hello --json --all --layers --greedy 2", "");
    char line[400];
    snprintf(line, sizeof line, "logits --ids %s --json --all --layers --greedy 2", list);
    run_words(&ids, line, "");
    bool ok = text.status == 0 && text.out.length && !strcmp(out_of(&text), out_of(&ids));
    if (!tap_ok(ok, "logits_of_a_text_are_those_of_its_ids")) tap_note("%d %s", text.status, err_of(&text));
    const struct json *object =
        text.out.length ? json_parse(&arena, text.out.data, text.out.length, JSON_STRICT, 16, &err) : NULL;
    int n_ids = n_rows(object, "prompt_ids");
    tap_ok(n_ids > 0 && n_rows(object, "logits") == n_ids && n_rows(object, "greedy_ids") == 2 &&
               n_rows(object, "greedy_logits") == 2 && n_rows(object, "layers") > 0 &&
               json_is_object(json_get(object, "kernels")),
           "logits_holds_what_was_asked_for");
    arena_free(&arena);
    process_free(&text);
    process_free(&ids);
    process_free(&tokens);
}

static void check_odd_values(void) {
    struct process p;
    run_words(&p, "generate -p x -n 0", "");
    tap_ok(p.status == 0 && !p.out.length, "no_tokens_are_no_text");
    process_free(&p);
    run_words(&p, "generate -p x -n 2 --threads 1000", "");
    tap_ok(p.status == 0 && p.out.length && strstr(err_of(&p), "--threads"), "no_more_threads_than_processors");
    process_free(&p);
}

/* Random weights do not stay behind, even when the program is killed while it measures. */
static void check_temporary(void) {
    struct process p;
    char folder[256], setting[300], first = 0;
    struct arena arena = {0};
    struct mx_error err;
    char **names;
    size_t n_names = 1;
    if (!tap_ok(folder_make_temporary(folder, sizeof folder), "a temporary folder")) return;
    snprintf(setting, sizeof setting, "TMPDIR=%s", folder);
    const char *argv[] = {program_path("mlxcel"),
                          "bench-decode",
                          "--synthetic",
                          SOURCE_DIR "/models/novels-24m-4bit",
                          "-n",
                          "1000",
                          NULL};
    const char *environment[] = {setting, NULL};
    bool ok = process_start(&p, argv, environment, NULL, 0, false) && read(p.out_fd, &first, 1) == 1;
    if (ok) kill(p.pid, SIGTERM);
    process_finish(&p, TIMEOUT_MS);
    ok = ok && p.status == 128 + SIGTERM && folder_list(&arena, folder, "", &names, &n_names, &err) && !n_names;
    if (!tap_ok(ok, "random_weights_do_not_stay_behind")) tap_note("%d, %zu left, %s", p.status, n_names, err_of(&p));
    process_free(&p);
    arena_free(&arena);
    folder_remove(folder);
}

/* Writes a folder with a config of 64 layers, whose random weights take a while. */
static bool make_shape(char *folder, size_t room, char *config, size_t config_room) {
    static const char text[] = "{\"model_type\":\"llama\",\"hidden_size\":512,\"intermediate_size\":1152,"
                               "\"num_hidden_layers\":64,\"num_attention_heads\":8,\"vocab_size\":8192,"
                               "\"rms_norm_eps\":1e-5}";
    struct mx_error err;
    if (!folder_make_temporary(folder, room)) return false;
    snprintf(config, config_room, "%s/config.json", folder);
    return file_write_atomic(config, text, sizeof text - 1, &err);
}

/* Random weights are not written over those whose config they are made from. */
static void check_own_folder(void) {
    struct process p;
    char folder[256], config[300], weights[300], line[700];
    struct mx_error err;
    if (!tap_ok(make_shape(folder, sizeof folder, config, sizeof config), "a folder with a config")) return;
    snprintf(weights, sizeof weights, "%s/model.safetensors", folder);
    bool ok = file_write_atomic(weights, "precious", 8, &err);
    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof line, "synth --config %s -o %s", i ? config : folder, folder);
        run_words(&p, line, "");
        size_t length = 0;
        char *kept = file_read(weights, 1000, &length, &err);
        ok = ok && p.status == 2 && is_one_line(err_of(&p)) && strstr(err_of(&p), folder) && kept && length == 8;
        if (!ok) tap_note("%d %s", p.status, err_of(&p));
        free(kept);
        process_free(&p);
    }
    tap_ok(ok, "random_weights_do_not_replace_the_model_they_are_shaped_after");
    folder_remove(folder);
}

static void check_interrupted_synth(void) {
    struct process p;
    char folder[256], config[300], out[300], partial[400];
    if (!tap_ok(make_shape(folder, sizeof folder, config, sizeof config), "a folder with a large config")) return;
    snprintf(out, sizeof out, "%s/out", folder);
    snprintf(partial, sizeof partial, "%s/model.safetensors.partial", out);
    const char *argv[] = {program_path("mlxcel"), "synth", "--config", config, "--quant", "f32", "-o", out, NULL};
    bool ok = process_start(&p, argv, NULL, NULL, 0, false);
    for (int i = 0; ok && i < 10000 && !file_exists(partial); i++) usleep(1000);
    if (ok) kill(p.pid, SIGINT);
    process_finish(&p, TIMEOUT_MS);
    ok = ok && p.status == 130 && is_one_line(err_of(&p)) && !file_exists(out);
    if (!tap_ok(ok, "interrupted_random_weights_leave_nothing")) tap_note("%d %s", p.status, err_of(&p));
    process_free(&p);
    folder_remove(folder);
}

/* What a token costs more after many positions is told as the rate of the keys and values between: of the bundled model
 * 8 layers * 2 heads * 64 * 2 * 2 bytes for each of 800 - 32 positions. */
static void check_depth(void) {
    struct process p;
    struct arena arena = {0};
    struct mx_error err;
    const double bytes = 768.0 * 4096;
    run_words(&p, "bench-decode --prompt-tokens 32 --depth 800 -n 9 --warmup-tokens 1 --processor-time --json", "");
    const struct json *report = p.status ? NULL : json_parse(&arena, out_of(&p), p.out.length, 0, 8, &err);
    const struct json *row = report ? json_get(report, "median") : NULL;
    double shallow = row ? json_number(json_get(row, "shallow_decode_tok_s"), 0) : 0;
    double deep = row ? json_number(json_get(row, "decode_tok_s"), 0) : 0;
    double rate = row ? json_number(json_get(row, "depth_gb_s"), -1) : -1, more = 1 / deep - 1 / shallow;
    double share = row ? json_number(json_get(row, "depth_wall_share"), -1) : -1;
    double wall = row ? json_number(json_get(row, "wall_read_gb_s"), 0) : 0;
    bool ok = shallow > 0 && deep > 0 && wall > 0;
    /* Printed are six digits; a difference of nearly equal times has fewer. */
    double slack = 2e-5 * (1 / deep) / (more > 0 ? more : 1) + 1e-4;
    if (more > 0 && slack < 0.1)
        ok = ok && rate > bytes * 1e-9 / more * (1 - slack) && rate < bytes * 1e-9 / more * (1 + slack);
    ok = ok && share >= rate / wall * 0.999 && share <= rate / wall * 1.001;
    if (!tap_ok(ok, "depth_costs_the_bytes_of_its_keys_and_values"))
        tap_note("%d, %g and %g tok/s, %g GB/s, share %g of %g, %s", p.status, shallow, deep, rate, share, wall,
                 err_of(&p));
    process_free(&p);
    arena_free(&arena);
}

/* Each line is answered by one, those that are broken too. */
static void check_lines(void) {
    static const char *const commands[] = {"tokenize --jsonl",
                                           "detokenize --jsonl",
                                           "detokenize --jsonl --stream",
                                           "grammar --jsonl",
                                           "parse-reply --format hermes --jsonl",
                                           "apply-template --jsonl"};
    static const char *const lines[] = {"\"a\"",
                                        "[5,6]",
                                        "{\"regex\":\"a\",\"text\":\"a\"}",
                                        "{\"raw\":\"x\"}",
                                        "{\"template\":\"x\",\"context\":{}}",
                                        "{",
                                        "\"\xff\"",
                                        "nul",
                                        "5",
                                        " ",
                                        "[1e999]",
                                        "[-1]",
                                        "\"a\" \"b\"",
                                        "{\"template\":\"{% for %}\"}"};
    size_t n_lines = sizeof lines / sizeof *lines, n_sent = 3000;
    struct buffer input = {0};
    for (size_t i = 0; i < n_sent; i++) buffer_printf(&input, "%s%s", lines[i * 5 % n_lines], i % 3 ? "\n" : "\r\n");
    for (size_t c = 0; c < sizeof commands / sizeof *commands; c++) {
        struct process p;
        struct arena arena = {0};
        struct mx_error err;
        size_t n_answers = 0, n_values = 0, n_errors = 0;
        run_words(&p, commands[c], input.data);
        for (const char *at = out_of(&p); *at; n_answers++) {
            size_t length = strcspn(at, "\n");
            const struct json *value = json_parse(&arena, at, length, JSON_STRICT, 64, &err);
            n_values += value != NULL;
            n_errors += json_get(value, "error") != NULL;
            at += length + (at[length] == '\n');
        }
        bool ok = p.status == 0 && n_answers == n_sent && n_values == n_sent && n_errors > n_sent / 2 &&
                  n_errors < n_sent && !p.err.length;
        if (!tap_ok(ok, "each_line_is_answered_by_one: %s", commands[c]))
            tap_note("%d, %zu answers, %zu values, %zu errors %s", p.status, n_answers, n_values, n_errors, err_of(&p));
        arena_free(&arena);
        process_free(&p);
    }
    buffer_free(&input);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    check_usage();
    check_full();
    check_stdin();
    check_closed();
    check_folders();
    check_stale_index();
    check_logits();
    check_odd_values();
    check_temporary();
    check_own_folder();
    check_interrupted_synth();
    check_depth();
    check_lines();
    return tap_done();
}
