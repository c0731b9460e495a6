/* SPDX-License-Identifier: Apache-2.0 */
/* Man pages and completions against the option table: each page has every option of its command with its help, default and
 * environment, and no other one; each completion offers the same options. The formatters and shells that are installed
 * judge the syntax; bash also completes. */
#include "cli/options.h"
#include "tests/support/process.h"
#include "tests/support/tap.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_MS = 60000 };

const struct option option_table[N_OPTIONS] = {
#define OPTION(id, ...) [OPT_##id] = {__VA_ARGS__},
#include "cli/options.def"
#undef OPTION
};

static const char *const names[N_COMMANDS] = {
    [COMMAND_GENERATE] = "generate",     [COMMAND_RUN] = "run",
    [COMMAND_SERVE] = "serve",           [COMMAND_TOKENIZE] = "tokenize",
    [COMMAND_DETOKENIZE] = "detokenize", [COMMAND_APPLY_TEMPLATE] = "apply-template",
    [COMMAND_GRAMMAR] = "grammar",       [COMMAND_PARSE_REPLY] = "parse-reply",
    [COMMAND_INSPECT] = "inspect",       [COMMAND_ARCH] = "arch",
    [COMMAND_SYNTH] = "synth",           [COMMAND_PERPLEXITY] = "perplexity",
    [COMMAND_LOGITS] = "logits",         [COMMAND_BENCH_DECODE] = "bench-decode",
};

static bool is_offered(const struct option *o, int command) {
    return (o->commands & 1u << command) && o->kind != OPTION_ABSENT;
}

/* The name and the aliases, with something between. */
static void put_spellings(struct buffer *out, const struct option *o, const char *between) {
    buffer_puts(out, o->name);
    for (const char *a = o->aliases; a && *a; a++) {
        size_t n = strcspn(a, " ");
        buffer_printf(out, "%s%.*s", between, (int)n, a);
        a += n;
        if (!*a) break;
    }
}

/* Runs mlxcel; the caller frees what it printed. */
static char *run_mlxcel(const char *word, const char *argument) {
    struct process p;
    const char *argv[] = {program_path("mlxcel"), word, argument, NULL};
    char *text = NULL;
    if (process_run(&p, argv, TIMEOUT_MS) && p.status == 0 && p.err.length == 0) text = buffer_take(&p.out);
    process_free(&p);
    return text ? text : calloc(1, 1);
}

/* ---- pages ---- */

/* The text that roff would set, lines joined, without requests: what stands in them is counted elsewhere. */
static void read_roff(struct buffer *out, const char *page) {
    static const struct {
        const char *escape, *text;
    } escapes[] = {{"\\e", "\\"},  {"\\-", "-"}, {"\\(aq", "'"}, {"\\(dq", "\""}, {"\\(ga", "`"}, {"\\(ha", "^"},
                   {"\\(ti", "~"}, {"\\&", ""},  {"\\fB", ""},   {"\\fI", ""},    {"\\fR", ""}};
    for (bool at_start = true; *page;) {
        if (at_start && (*page == '.' || *page == '\'')) {
            page += strcspn(page, "\n");
            page += *page == '\n';
            continue;
        }
        at_start = *page == '\n';
        if (*page != '\\') {
            buffer_putc(out, at_start ? ' ' : *page);
            page++;
            continue;
        }
        size_t i = 0;
        while (i < sizeof escapes / sizeof *escapes && strncmp(page, escapes[i].escape, strlen(escapes[i].escape)) != 0)
            i++;
        if (i == sizeof escapes / sizeof *escapes) {
            buffer_puts(out, "<unknown escape>");
            page++;
            continue;
        }
        buffer_puts(out, escapes[i].text);
        page += strlen(escapes[i].escape);
    }
}

static void expect_option(struct buffer *out, const struct option *o) {
    buffer_putc(out, ' ');
    put_spellings(out, o, ", ");
    if (o->choices || o->value_name) buffer_printf(out, " %s", o->choices ? o->choices : o->value_name);
    buffer_printf(out, " %s ", o->help);
    if (o->default_text && *o->default_text) buffer_printf(out, "Default: %s ", o->default_text);
    const char *names_left = o->environment;
    if (names_left) buffer_puts(out, "Environment: ");
    while (names_left && *names_left) {
        size_t n = strcspn(names_left, " ");
        buffer_printf(out, "%.*s%s", (int)n, names_left, names_left[n] ? ", " : " ");
        names_left += n + (names_left[n] != '\0');
    }
}

/* The part of a text from `start` up to `end`, as a copy; NULL when one of them is missing. */
static char *part(const char *text, const char *start, const char *end) {
    const char *from = strstr(text, start), *to = from ? strstr(from + strlen(start), end) : NULL;
    return to ? strndup(from, (size_t)(to - from)) : NULL;
}

static size_t count(const char *text, const char *word) {
    size_t n = 0;
    for (const char *s = text; (s = strstr(s, word)) != NULL; s += strlen(word)) n++;
    return n;
}

static bool has_sections(const char *page) {
    static const char *const sections[] = {"NAME",        "SYNOPSIS",    "DESCRIPTION", "OPTIONS",
                                           "ENVIRONMENT", "EXIT STATUS", "SEE ALSO"};
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        char title[40];
        snprintf(title, sizeof title, "\n.SH %s\n", sections[i]);
        page = strstr(page, title);
        if (!page || !strncmp(page + strlen(title), ".SH", 3)) return false;
    }
    return true;
}

static void check_page(int command) {
    char *page = run_mlxcel("man", names[command]), *options = part(page, "\n.SH OPTIONS\n", "\n.SH ENVIRONMENT\n");
    struct buffer text = {0};
    size_t n_options = 2, n_bad = 0; /* --help, --version */
    read_roff(&text, options ? options : "");
    buffer_putc(&text, ' ');
    for (size_t i = 0; i < N_OPTIONS; i++) {
        struct buffer wanted = {0};
        if (!is_offered(&option_table[i], command)) continue;
        n_options++;
        expect_option(&wanted, &option_table[i]);
        if (!strstr(text.data, wanted.data) && n_bad++ == 0) tap_note("missing:%s", wanted.data);
        buffer_free(&wanted);
    }
    tap_ok(n_bad == 0, "%s_page_has_every_option", names[command]);
    tap_ok(has_sections(page), "%s_page_has_its_sections", names[command]);
    size_t found = options ? count(options, "\n.TP\n") : 0;
    if (!tap_ok(found == n_options, "%s_page_has_no_other_option", names[command]))
        tap_note("%zu options, expected %zu", found, n_options);
    buffer_free(&text);
    free(options);
    free(page);
}

/* ---- completions ---- */

/* Lines that the script must print for one command: "NAME: SPELLING". */
static void expect_spellings(struct buffer *out, int command) {
    char between[60];
    snprintf(between, sizeof between, "\n%s: ", names[command]);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        if (!is_offered(&option_table[i], command)) continue;
        buffer_printf(out, "%s: ", names[command]);
        put_spellings(out, &option_table[i], between);
        buffer_putc(out, '\n');
    }
    buffer_printf(out, "%s: --help\n%s: -h\n%s: --version\n", names[command], names[command], names[command]);
}

/* A bash that has read the completion; `complete WORD ...` prints what is offered for the last word. */
static const char bash_head[] = "set -u; source <(\"$1\" completion bash)\n"
                                "complete_words() { COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _mlxcel; "
                                "((${#COMPREPLY[@]})) && printf '%s\\n' \"${COMPREPLY[@]}\"; }\n";

/* What bash prints must be `wanted`, byte for byte. */
static void bash_prints(const char *name, const char *folder, const char *commands, const char *wanted) {
    struct process p;
    struct buffer script = {0};
    buffer_printf(&script, "%scd \"$2\"\n%s", bash_head, commands);
    const char *argv[] = {"/bin/bash", "-c", script.data, "bash", program_path("mlxcel"), folder, NULL};
    bool ok = process_run(&p, argv, TIMEOUT_MS) && p.err.length == 0 && p.out.data && !strcmp(p.out.data, wanted);
    if (!tap_ok(ok, "%s", name))
        tap_note("stdout %.600s, expected %.300s, stderr %.300s", p.out.data ? p.out.data : "", wanted,
                 p.err.data ? p.err.data : "");
    process_free(&p);
    buffer_free(&script);
}

static void check_bash(void) {
    char folder[256];
    struct buffer commands = {0}, wanted = {0};
    if (!file_exists("/bin/bash")) {
        tap_skip("bash_completion", "bash is not installed");
        return;
    }
    if (!tap_ok(folder_make_temporary(folder, sizeof folder), "a temporary folder")) return;
    bash_prints("a_command_is_completed", folder, "complete_words mlxcel gen", "generate\n");
    bash_prints("an_option_is_completed", folder, "complete_words mlxcel generate --tem", "--temp\n--temperature\n");
    bash_prints("an_alias_of_a_command_counts", folder, "complete_words mlxcel gen --temper", "--temperature\n");
    bash_prints("the_server_has_its_options", folder, "complete_words /x/mlxcel-server --por", "--port\n");
    bash_prints("a_value_after_an_equals_sign", folder, "complete_words mlxcel generate --precision = fa", "fast\n");
    bash_prints("no_value_yet_after_an_equals_sign", folder,
                "complete_words mlxcel generate --precision =", "fast\nexact\n");
    bash_prints("nothing_for_a_free_value", folder, "complete_words mlxcel generate --top-k 4; echo done", "done\n");
    bash_prints("nothing_for_an_unknown_command", folder, "complete_words mlxcel dance --; echo done", "done\n");
    bash_prints("folders_for_a_model", folder, "mkdir 'a b'; touch ac; complete_words mlxcel generate -m a", "a b\n");
    bash_prints("folders_for_an_argument", folder, "complete_words mlxcel run a", "a b\n");
    bash_prints("files_for_a_file", folder, "complete_words mlxcel serve --ssl-key-file a | sort", "a b\nac\n");

    for (int c = 0; c < N_COMMANDS; c++) {
        buffer_printf(&commands, "complete_words mlxcel %s - | sed 's/^/%s: /'\n", names[c], names[c]);
        expect_spellings(&wanted, c);
    }
    bash_prints("bash_offers_the_options_of_the_table", folder, commands.data, wanted.data);
    buffer_clear(&commands);
    buffer_clear(&wanted);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option *o = &option_table[i];
        for (int c = 0; o->choices && c < N_COMMANDS; c++) {
            if (!is_offered(o, c)) continue;
            buffer_printf(&commands, "complete_words mlxcel %s %s ''\n", names[c], o->name);
            for (const char *s = o->choices; *s; s++) buffer_putc(&wanted, *s == '|' ? '\n' : *s);
            buffer_putc(&wanted, '\n');
        }
    }
    bash_prints("bash_offers_the_values_of_the_table", folder, commands.data, wanted.data);
    buffer_free(&commands);
    buffer_free(&wanted);
    folder_remove(folder);
}

/* In zsh's script each spelling begins a quoted argument of the command's function, after what it excludes. */
static void check_zsh_text(int command, const char *script) {
    char start[60];
    snprintf(start, sizeof start, "\n_mlxcel_%s() {\n", names[command]);
    char *function = part(script, start, "\n}\n");
    size_t n_lines = 3, n_missing = 0;
    for (size_t i = 0; i < N_OPTIONS && function; i++) {
        const struct option *o = &option_table[i];
        struct buffer list = {0};
        if (!is_offered(o, command)) continue;
        put_spellings(&list, o, " ");
        for (char *save = NULL, *s = strtok_r(list.data, " ", &save); s; s = strtok_r(NULL, " ", &save), n_lines++) {
            char wanted[100];
            bool has_equals = o->kind != OPTION_FLAG && s[1] == '-';
            snprintf(wanted, sizeof wanted, "%c%s%s[", o->is_repeatable ? '*' : ')', s, has_equals ? "=" : "");
            if (!strstr(function, wanted) && n_missing++ == 0) tap_note("missing: %s", wanted);
        }
        buffer_free(&list);
    }
    size_t found = function ? count(function, "\n        ") : 0;
    bool is_argument = command == COMMAND_RUN || command == COMMAND_INSPECT || command == COMMAND_DETOKENIZE;
    if (!tap_ok(function && n_missing == 0 && found + 1 == n_lines + is_argument, "zsh_has_the_options_of_%s",
                names[command]))
        tap_note("%zu lines, expected %zu", found + 1, n_lines + is_argument);
    free(function);
}

/* In fish's script each option is a line, with its spellings in order. */
static void check_fish_text(const char *program, int command, const char *script) {
    char start[120];
    struct buffer lines = {0};
    size_t n_missing = 0;
    if (strcmp(program, "mlxcel") == 0)
        snprintf(start, sizeof start, "\ncomplete -c mlxcel -n '__mlxcel_has_command %s", names[command]);
    else
        snprintf(start, sizeof start, "\ncomplete -c %s ", program);
    for (const char *at = script; (at = strstr(at, start)) != NULL;) {
        size_t skipped = strlen(start);
        at += program[6] ? skipped - 1 : skipped + strcspn(at + skipped, "'") + 1;
        buffer_printf(&lines, "%.*s\n", (int)strcspn(at, "\n"), at);
    }
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option *o = &option_table[i];
        struct buffer list = {0}, wanted = {0};
        if (!is_offered(o, command)) continue;
        put_spellings(&list, o, " ");
        for (char *save = NULL, *s = strtok_r(list.data, " ", &save); s; s = strtok_r(NULL, " ", &save))
            buffer_printf(&wanted, " %s %s", s[1] == '-' ? "-l" : s[2] ? "-o" : "-s", s + 1 + (s[1] == '-'));
        buffer_puts(&wanted, " -");
        if ((!lines.data || !strstr(lines.data, wanted.data)) && n_missing++ == 0) tap_note("missing:%s", wanted.data);
        buffer_free(&list);
        buffer_free(&wanted);
    }
    tap_ok(lines.length && n_missing == 0, "fish_has_the_options_of_%s_%s", program, names[command]);
    buffer_free(&lines);
}

/* ---- what is installed judges the syntax ---- */

static void check_syntax(const char *name, const char *tool, const char *command) {
    char *found = NULL;
    struct process p;
    const char *where[] = {"/bin/sh", "-c", "command -v \"$1\"", "sh", tool, NULL};
    if (process_run(&p, where, TIMEOUT_MS) && p.status == 0) found = buffer_take(&p.out);
    process_free(&p);
    if (!found) {
        tap_skip(name, "the program that could tell is not installed");
        return;
    }
    free(found);
    struct buffer script = {0};
    buffer_puts(&script, "set -e; f=$(mktemp -d); trap 'rm -rf \"$f\"' EXIT; \"$1\" man >\"$f/mlxcel.1\"; "
                         "for c in $(\"$1\" man --list); do \"$1\" man $c >\"$f/$c.1\"; done; "
                         "for s in bash zsh fish; do \"$1\" completion $s >\"$f/$s\"; done; cd \"$f\"; ");
    buffer_puts(&script, command);
    const char *argv[] = {"/bin/sh", "-c", script.data, "sh", program_path("mlxcel"), NULL};
    bool ok = process_run(&p, argv, TIMEOUT_MS) && p.status == 0 && p.out.length == 0 && p.err.length == 0;
    if (!tap_ok(ok, "%s", name))
        tap_note("%d %.500s %.500s", p.status, p.out.data ? p.out.data : "", p.err.data ? p.err.data : "");
    process_free(&p);
    buffer_free(&script);
}

static void check_usage(void) {
    static const char *const wrong[][2] = {{"man", "dance"}, {"completion", "csh"}, {"completion", NULL}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct process p;
        const char *argv[] = {program_path("mlxcel"), wrong[i][0], wrong[i][1], NULL};
        bool ok = process_run(&p, argv, TIMEOUT_MS) && p.status == 2 && p.out.length == 0 && p.err.data &&
                  strchr(p.err.data, '\n') == p.err.data + p.err.length - 1;
        tap_ok(ok, "%s_%s_is_wrong_usage", wrong[i][0], wrong[i][1] ? wrong[i][1] : "without_a_shell");
        process_free(&p);
    }
}

/* The names above are all commands that there are, and the program's page has them. */
static void check_program_page(void) {
    char *page = run_mlxcel("man", NULL), *list = run_mlxcel("man", "--list");
    struct buffer text = {0};
    size_t n_found = 0;
    read_roff(&text, page);
    for (int c = 0; c < N_COMMANDS; c++) {
        char reference[60];
        snprintf(reference, sizeof reference, " mlxcel-%s(1)", names[c]);
        n_found += text.data && strstr(text.data, reference) != NULL;
    }
    tap_ok(n_found == N_COMMANDS && count(list, "\n") == N_COMMANDS, "the_program_page_has_every_command");
    tap_ok(has_sections(page) && strstr(page, "\n.SH COMMANDS\n") && strstr(page, "\n.SH FILES\n"),
           "the_program_page_has_its_sections");
    buffer_free(&text);
    free(page);
    free(list);
}

int main(void) {
    check_program_page();
    for (int c = 0; c < N_COMMANDS; c++) check_page(c);
    check_bash();
    char *zsh = run_mlxcel("completion", "zsh"), *fish = run_mlxcel("completion", "fish");
    for (int c = 0; c < N_COMMANDS; c++) check_zsh_text(c, zsh);
    for (int c = 0; c < N_COMMANDS; c++) check_fish_text("mlxcel", c, fish);
    check_fish_text("mlxcel-server", COMMAND_SERVE, fish);
    check_fish_text("mlxcel-bench-decode", COMMAND_BENCH_DECODE, fish);
    free(zsh);
    free(fish);
    check_syntax("bash_reads_its_script", "bash", "bash -n bash");
    check_syntax("zsh_reads_its_script", "zsh", "zsh -n zsh");
    check_syntax("fish_reads_its_script", "fish", "fish --no-execute fish");
    check_syntax("groff_formats_the_pages", "groff", "for p in *.1; do groff -man -ww -Tutf8 -z $p; done");
    check_syntax("mandoc_finds_no_fault", "mandoc", "mandoc -Tlint -W all *.1");
    check_usage();
    return tap_done();
}
