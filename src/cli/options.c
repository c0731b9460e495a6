/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options.h"

#include "base/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct option option_table[N_OPTIONS] = {
#define OPTION(id, ...) [OPT_##id] = {__VA_ARGS__},
#include "cli/options.def"
#undef OPTION
};

/* True when word[0 .. length) stands in the space-separated list. */
static bool list_has(const char *list, const char *word, size_t length) {
    while (list && *list) {
        size_t n = strcspn(list, " |");
        if (n == length && !memcmp(list, word, n)) return true;
        list += n + (list[n] != '\0');
    }
    return false;
}

static const struct option *find_option(enum command command, const char *word, size_t length) {
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option *o = &option_table[i];
        if (!(o->commands & 1u << command)) continue;
        if ((strlen(o->name) == length && !memcmp(o->name, word, length)) || list_has(o->aliases, word, length))
            return o;
    }
    return NULL;
}

/* Checks a value against its row; `source` is how the person wrote the option. */
static bool check_value(const struct option *o, const char *source, const char *value, struct mx_error *err) {
    char *end;
    errno = 0;
    switch (o->kind) {
    case OPTION_FLAG:
    case OPTION_TEXT:
    case OPTION_ABSENT: return true;
    case OPTION_CHOICE:
        return list_has(o->choices, value, strlen(value)) ||
               error_set(err, ERROR_USAGE, "%s: '%s' is not one of %s", source, value, o->choices);
    case OPTION_INTEGER: {
        long long n = strtoll(value, &end, 10);
        if (end == value || *end || errno) return error_set(err, ERROR_USAGE, "%s: '%s' is no integer", source, value);
        if ((double)n >= o->minimum && (double)n <= o->maximum) return true;
        return error_set(err, ERROR_USAGE, "%s: %s is not between %.0f and %.0f", source, value, o->minimum,
                         o->maximum);
    }
    case OPTION_REAL: {
        double x = strtod(value, &end);
        if (end == value || *end) return error_set(err, ERROR_USAGE, "%s: '%s' is no number", source, value);
        if (x >= o->minimum && x <= o->maximum) return true;
        return error_set(err, ERROR_USAGE, "%s: %s is not between %g and %g", source, value, o->minimum, o->maximum);
    }
    }
    return true;
}

static bool store(struct options *options, const struct option *o, const char *value, struct mx_error *err) {
    size_t id = (size_t)(o - option_table);
    options->text[id] = value;
    if (!o->is_repeatable) return true;
    const char **grown = realloc(options->values[id], (options->n_values[id] + 1) * sizeof *grown);
    if (!grown) return error_memory(err, "options");
    grown[options->n_values[id]++] = value;
    options->values[id] = grown;
    return true;
}

/* Takes values from the environment for options that the command line left open. */
static bool read_environment(struct options *options, struct mx_error *err) {
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option *o = &option_table[i];
        const char *names = o->environment;
        if (options->text[i] || !(o->commands & 1u << options->command)) continue;
        while (names && *names) {
            char name[64];
            size_t n = strcspn(names, " ");
            snprintf(name, sizeof name, "%.*s", (int)n, names);
            const char *value = getenv(name);
            names += n + (names[n] != '\0');
            if (!value || !*value) continue;
            if (o->kind == OPTION_FLAG && list_has("0 false off no", value, strlen(value))) break;
            if (!check_value(o, name, value, err) || !store(options, o, value, err)) return false;
            break;
        }
    }
    return true;
}

static bool take_option(struct options *options, int argc, char **argv, int *at, struct mx_error *err) {
    char source[160]; /* the option as the person wrote it, without its value */
    const char *word = argv[*at], *equals = strchr(word, '='), *value = NULL;
    const char *command = command_table[options->command].name;
    size_t length = strncmp(word, "--", 2) == 0 && equals ? (size_t)(equals - word) : strlen(word);
    const struct option *o = find_option(options->command, word, length);
    if (!o)
        return error_set(err, ERROR_USAGE, "unknown option '%.*s' (see mlxcel %s --help)", (int)length, word, command);
    if (o->kind == OPTION_ABSENT)
        return error_set(err, ERROR_USAGE, "option '%.*s' of the original is not available in this version",
                         (int)length, word);
    snprintf(source, sizeof source, "%.*s", (int)length, word);
    if (length < strlen(word)) value = equals + 1;
    if (o->kind == OPTION_FLAG) {
        if (value && !list_has("1 true on yes 0 false off no", value, strlen(value)))
            return error_set(err, ERROR_USAGE, "%s takes no value", source);
        return store(options, o, value ? value : "1", err);
    }
    if (!value) {
        if (*at + 1 >= argc) return error_set(err, ERROR_USAGE, "option '%s' needs a value", word);
        value = argv[++*at];
    }
    return check_value(o, source, value, err) && store(options, o, value, err);
}

bool options_parse(struct options *options, int argc, char **argv, int first, struct mx_error *err) {
    const struct command_info *info = &command_table[options->command];
    bool only_positional = false, has_positional = false;
    for (int i = first; i < argc; i++) {
        if (!only_positional && !strcmp(argv[i], "--")) {
            only_positional = true;
        } else if (!only_positional && argv[i][0] == '-' && argv[i][1]) {
            if (!take_option(options, argc, argv, &i, err)) return false;
        } else {
            const struct option *o = &option_table[info->positional_option];
            if (!info->positional || (has_positional && !o->is_repeatable))
                return error_set(err, ERROR_USAGE, "unexpected argument '%s' (see mlxcel %s --help)", argv[i],
                                 info->name);
            has_positional = true;
            if (!store(options, o, argv[i], err)) return false;
        }
    }
    if (!read_environment(options, err)) return false;
    const char *file = options->command == COMMAND_SERVE ? options_text(options, OPT_SERVE_CONFIG) : NULL;
    return !file || options_read_file(options, file, err);
}

bool options_set(struct options *options, enum option_id id, const char *source, const char *value,
                 struct mx_error *err) {
    const struct option *o = &option_table[id];
    if (o->kind == OPTION_FLAG && !list_has("1 true on yes enabled 0 false off no disabled", value, strlen(value)))
        return error_set(err, ERROR_USAGE, "%s: '%s' is neither true nor false", source, value);
    return check_value(o, source, value, err) && store(options, o, value, err);
}

void options_blame(enum option_id id, struct mx_error *err) {
    error_prefix(err, "%s", option_table[id].name);
    if (err->code != ERROR_MEMORY) err->code = ERROR_USAGE;
}

bool options_exclude(const struct options *options, enum option_id a, enum option_id b, struct mx_error *err) {
    return !options_is_set(options, a) || !options_is_set(options, b) ||
           error_set(err, ERROR_USAGE, "give one of %s and %s", option_table[a].name, option_table[b].name);
}

void options_free(struct options *options) {
    for (size_t i = 0; i < N_OPTIONS; i++) free(options->values[i]);
    free(options->file_text);
}

bool options_is_set(const struct options *options, enum option_id id) { return options->text[id] != NULL; }

bool options_flag(const struct options *options, enum option_id id) {
    const char *value = options->text[id];
    return value && !list_has("0 false off no disabled", value, strlen(value));
}

const char *options_text(const struct options *options, enum option_id id) {
    return options->text[id] ? options->text[id] : option_table[id].default_text;
}

int64_t options_integer(const struct options *options, enum option_id id) {
    const char *text = options_text(options, id);
    return text ? strtoll(text, NULL, 10) : 0;
}

double options_real(const struct options *options, enum option_id id) {
    const char *text = options_text(options, id);
    return text ? strtod(text, NULL) : 0;
}

enum { HELP_COLUMN = 36, HELP_WIDTH = 118 };

/* Words of the text from HELP_COLUMN on; `at` is where the line is. */
static int print_wrapped(const char *text, int at) {
    while (*text) {
        int n = (int)strcspn(text, " ");
        if (at > HELP_COLUMN && at + 1 + n > HELP_WIDTH)
            at = printf("\n%*s", HELP_COLUMN, "") - 1;
        else if (at > HELP_COLUMN)
            at += printf(" ");
        at += printf("%.*s", n, text);
        text += n + (text[n] == ' ');
    }
    return at;
}

static void print_option(const struct option *o) {
    char source[200];
    int n = printf("  %s", o->name);
    for (const char *a = o->aliases; a && *a; a += strcspn(a, " "), a += *a == ' ')
        n += printf(", %.*s", (int)strcspn(a, " "), a);
    if (o->choices || o->value_name) n += printf(" %s", o->choices ? o->choices : o->value_name);
    printf(n < HELP_COLUMN ? "%*s" : "\n%*s", n < HELP_COLUMN ? HELP_COLUMN - n : HELP_COLUMN, "");
    n = print_wrapped(o->help, HELP_COLUMN);
    if (o->default_text && *o->default_text) {
        snprintf(source, sizeof source, "(default %s)", o->default_text);
        n = print_wrapped(source, n);
    }
    if (o->environment) {
        snprintf(source, sizeof source, "[%s]", o->environment);
        print_wrapped(source, n);
    }
    putchar('\n');
}

void options_print_help(enum command command) {
    if (command == N_COMMANDS) {
        printf(
            "usage: mlxcel COMMAND [OPTIONS]\n\nRuns language models from MLX and Hugging Face safetensors folders.\n\n"
            "commands:\n");
        for (size_t i = 0; i < N_COMMANDS; i++)
            if (command_table[i].run) printf("  %-16s %s\n", command_table[i].name, command_table[i].summary);
        printf("\nmlxcel COMMAND --help describes one command; mlxcel --version prints the version.\n");
        return;
    }
    const struct command_info *info = &command_table[command];
    printf("usage: mlxcel %s [OPTIONS]%s%s%s\n\n%s\n\noptions:\n", info->name, info->positional ? " [" : "",
           info->positional ? info->positional : "", info->positional ? "]" : "", info->summary);
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (option_table[i].commands & 1u << command && option_table[i].kind != OPTION_ABSENT)
            print_option(&option_table[i]);
}
