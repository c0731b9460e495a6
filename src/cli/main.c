/* SPDX-License-Identifier: Apache-2.0 */
/* The program: picks the command from argv, or from its own name (mlxcel-server, mlxcel-bench-decode). */
#include "cli/commands.h"
#include "cli/documents.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

const struct command_info command_table[N_COMMANDS] = {
    [COMMAND_GENERATE] = {.name = "generate",
                          .aliases = "gen",
                          .summary = "generate text for one prompt",
                          .run = command_generate},
    [COMMAND_RUN] = {.name = "run",
                     .summary = "chat with a model on the terminal",
                     .run = command_run,
                     .positional = "DIR",
                     .positional_option = OPT_MODEL},
    [COMMAND_SERVE] = {.name = "serve",
                       .aliases = "server",
                       .program = "mlxcel-server",
                       .summary = "answer requests over HTTP (also mlxcel-server)",
                       .run = command_serve},
    [COMMAND_LOGITS] = {.name = "logits",
                        .summary = "print logits, for comparing with a reference",
                        .run = command_logits},
    [COMMAND_SYNTH] = {.name = "synth",
                       .summary = "write a checkpoint of random weights in a real model's shape",
                       .run = command_synth},
    [COMMAND_INSPECT] = {.name = "inspect",
                         .summary = "sizes and memory needs of a model, from its config alone",
                         .run = command_inspect,
                         .positional = "DIR",
                         .positional_option = OPT_MODEL},
    [COMMAND_ARCH] = {.name = "arch",
                      .aliases = "supported",
                      .summary = "list the supported model families",
                      .run = command_arch},
    [COMMAND_PERPLEXITY] = {.name = "perplexity",
                            .summary = "how well a model predicts a text",
                            .run = command_perplexity},
    [COMMAND_BENCH_DECODE] = {.name = "bench-decode",
                              .program = "mlxcel-bench-decode",
                              .summary = "measure prefill and decode as shares of what the machine allows",
                              .run = command_bench_decode},
    [COMMAND_TOKENIZE] = {.name = "tokenize", .summary = "show how a text is cut into tokens", .run = command_tokenize},
    [COMMAND_DETOKENIZE] = {.name = "detokenize",
                            .summary = "turn token ids into text",
                            .positional = "ID ...",
                            .positional_option = OPT_IDS,
                            .run = command_detokenize},
    [COMMAND_APPLY_TEMPLATE] = {.name = "apply-template",
                                .summary = "render a conversation with a chat template",
                                .run = command_apply_template},
    [COMMAND_GRAMMAR] = {.name = "grammar",
                         .summary = "check a text against a grammar, regular expression or JSON Schema",
                         .run = command_grammar},
    [COMMAND_PARSE_REPLY] = {.name = "parse-reply",
                             .summary = "split a model's output into content, reasoning and tool calls",
                             .run = command_parse_reply},
};

static void print_notice(void *context, enum log_level level, const char *line) {
    (void)context;
    if (level != LOG_DEBUG) fprintf(stderr, "mlxcel: %s\n", line);
}

int command_fail(const struct mx_error *err) {
    fprintf(stderr, "mlxcel: %s\n", err->message);
    return err->code == ERROR_USAGE ? 2 : err->code == ERROR_CANCELLED ? 130 : 1;
}

int command_print(const struct buffer *out) {
    if (fwrite(out->data, 1, out->length, stdout) == out->length && fflush(stdout) == 0) return 0;
    fprintf(stderr, "mlxcel: cannot write the result: %s\n", strerror(errno));
    return 1;
}

static bool is_command_name(const struct command_info *info, const char *word) {
    if (!info->name || !info->run) return false;
    if (!strcmp(info->name, word)) return true;
    const char *found = info->aliases ? strstr(info->aliases, word) : NULL;
    size_t n = strlen(word);
    return found && (found == info->aliases || found[-1] == ' ') && (found[n] == ' ' || found[n] == '\0');
}

enum command command_from_name(const char *word) {
    for (int i = 0; i < N_COMMANDS; i++)
        if (is_command_name(&command_table[i], word)) return (enum command)i;
    return N_COMMANDS;
}

/* What printf left in the buffer must still reach stdout; a failure there is one of the program. */
static int finish(int status) {
    bool is_flushed = fflush(stdout) == 0;
    if ((is_flushed && !ferror(stdout)) || status != 0) return status;
    fprintf(stderr, "mlxcel: cannot write the result: %s\n", is_flushed ? "write error" : strerror(errno));
    return 1;
}

static int print_help(enum command command) {
    options_print_help(command);
    return finish(0);
}

static int print_version(void) {
    printf("mlxcel %s\n", MLXCEL_VERSION);
    return finish(0);
}

static int unknown_command(const char *word) {
    fprintf(stderr, "mlxcel: unknown command '%.100s' (see mlxcel --help)\n", word);
    return 2;
}

static bool is_help(const char *word) { return !strcmp(word, "--help") || !strcmp(word, "-h"); }

/* A closed standard stream stays unusable, but its number is taken: no file that is opened later becomes stdout. */
static void fill_closed_streams(void) {
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) return;
}

int main(int argc, char **argv) {
    fill_closed_streams();
    log_set_sink(print_notice, NULL);
    const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];
    struct options options = {.command = N_COMMANDS, .program = argv[0]};
    int first = 1;
    for (int i = 0; i < N_COMMANDS; i++)
        if (command_table[i].program && !strcmp(name, command_table[i].program)) options.command = (enum command)i;
    if (options.command == N_COMMANDS) {
        const char *word = argc > 1 ? argv[1] : "";
        if (is_help(word) || !strcmp(word, "help")) {
            enum command about = argc > 2 ? command_from_name(argv[2]) : N_COMMANDS;
            return argc > 2 && about == N_COMMANDS ? unknown_command(argv[2]) : print_help(about);
        }
        if (!strcmp(word, "--version") || !strcmp(word, "-V")) return print_version();
        if (!strcmp(word, "man")) return finish(command_man(argc - 2, argv + 2));
        if (!strcmp(word, "completion")) return finish(command_completion(argc - 2, argv + 2));
        options.command = command_from_name(word);
        if (options.command == N_COMMANDS) {
            if (*word) return unknown_command(word);
            fprintf(stderr, "mlxcel: a command is needed (see mlxcel --help)\n");
            return 2;
        }
        first = 2;
    }
    for (int i = first; i < argc; i++) {
        if (!strcmp(argv[i], "--")) break;
        if (is_help(argv[i])) return print_help(options.command);
        if (!strcmp(argv[i], "--version")) return print_version();
    }
    struct mx_error err = {0};
    int status = options_parse(&options, argc, argv, first, &err) ? command_table[options.command].run(&options)
                                                                  : command_fail(&err);
    options_free(&options);
    return finish(status);
}
