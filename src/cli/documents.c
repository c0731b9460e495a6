/* SPDX-License-Identifier: Apache-2.0 */
/* `mlxcel man` and `mlxcel completion`: for the build, and so absent from the help text. */
#include "cli/documents.h"

#include "cli/commands.h"

#include <stdio.h>
#include <string.h>

const char *option_next_spelling(const struct option *option, const char *at, size_t *length) {
    if (!at) {
        *length = strlen(option->name);
        return option->name;
    }
    const char *next = at == option->name ? option->aliases : at + *length;
    next = next ? next + strspn(next, " ") : "";
    *length = strcspn(next, " ");
    return *length ? next : NULL;
}

bool option_is_offered(const struct option *option, enum command command) {
    return (option->commands & 1u << command) && option->kind != OPTION_ABSENT;
}

static int wrong_usage(const char *usage) {
    fprintf(stderr, "mlxcel: expected %s\n", usage);
    return 2;
}

static int print(struct buffer *out) {
    int status = 1;
    if (out->failed)
        fprintf(stderr, "mlxcel: out of memory\n");
    else
        status = command_print(out);
    buffer_free(out);
    return status;
}

int command_man(int argc, char **argv) {
    struct buffer out = {0};
    enum command command = N_COMMANDS;
    if (argc > 1) return wrong_usage("mlxcel man [COMMAND | --list]");
    if (argc == 1 && !strcmp(argv[0], "--list")) {
        for (int i = 0; i < N_COMMANDS; i++) buffer_printf(&out, "%s\n", command_table[i].name);
        return print(&out);
    }
    if (argc == 1 && (command = command_from_name(argv[0])) == N_COMMANDS)
        return wrong_usage("mlxcel man [COMMAND | --list]");
    man_page(&out, command);
    return print(&out);
}

int command_completion(int argc, char **argv) {
    struct buffer out = {0};
    if (argc != 1 || !completion_script(&out, argv[0])) return wrong_usage("mlxcel completion bash|zsh|fish");
    return print(&out);
}
