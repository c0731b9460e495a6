/* SPDX-License-Identifier: Apache-2.0 */
/* The option table: one row for each command-line option of every command.
 *
 * Parser, help, environment names, man pages and shell completions are all made from it. A row says to which commands it
 * belongs; a value is taken from the command line, else from the row's environment variables, else its default. */
#ifndef MLXCEL_CLI_OPTIONS_H
#define MLXCEL_CLI_OPTIONS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum command {
    COMMAND_GENERATE,
    COMMAND_RUN,
    COMMAND_SERVE,
    COMMAND_TOKENIZE,
    COMMAND_DETOKENIZE,
    COMMAND_APPLY_TEMPLATE,
    COMMAND_GRAMMAR,
    COMMAND_PARSE_REPLY,
    COMMAND_INSPECT,
    COMMAND_ARCH,
    COMMAND_SYNTH,
    COMMAND_PERPLEXITY,
    COMMAND_LOGITS,
    COMMAND_BENCH_DECODE,
    N_COMMANDS,
};

#define FOR(command) (1u << COMMAND_##command)

enum option_kind {
    OPTION_FLAG,    /* no value, or =true, =false and the like */
    OPTION_TEXT,    /* any string */
    OPTION_INTEGER, /* within [minimum, maximum] */
    OPTION_REAL,    /* within [minimum, maximum] */
    OPTION_CHOICE,  /* one of `choices`, separated by '|' */
    OPTION_ABSENT,  /* an option of the original that mlxcel does not have yet: naming it is wrong usage */
};

/* Rows of the table, in the order of the help text. */
enum option_id {
#define OPTION(id, ...) OPT_##id,
#include "cli/options.def"
#undef OPTION
    N_OPTIONS,
};

struct option {
    const char *name;    /* "--max-tokens" */
    const char *aliases; /* further spellings, separated by spaces: "-n --n-predict" */
    enum option_kind kind;
    unsigned commands; /* FOR(...) bits */
    const char *value_name;
    const char *default_text; /* NULL = none */
    const char *choices;
    double minimum, maximum;
    const char *environment; /* names, separated by spaces, the first that is set counts */
    const char *help;
    bool is_repeatable; /* values add up: options_values */
};

struct options;

extern const struct option option_table[N_OPTIONS];

struct command_info {
    const char *name;
    const char *aliases;
    const char *program; /* a name of the program that means this command; NULL = none */
    const char *summary;
    const char *positional; /* name of the positional argument, NULL = none; stored as the option below */
    enum option_id positional_option;
    int (*run)(const struct options *options); /* the exit status */
};

extern const struct command_info command_table[N_COMMANDS];

/* By name or alias; N_COMMANDS when there is none. */
enum command command_from_name(const char *word);

struct options {
    enum command command;
    const char *program;            /* argv[0] */
    const char *text[N_OPTIONS];    /* the last value given; NULL = not given, see options_text */
    const char **values[N_OPTIONS]; /* all values of repeatable options */
    size_t n_values[N_OPTIONS];
    bool is_from_file[N_OPTIONS];
    char *file_text; /* owned */
};

/* Reads argv[first ..] for options->command. On wrong usage returns false with one line in err. --help and --version
 * are the caller's. options_free releases the value lists. */
bool options_parse(struct options *options, int argc, char **argv, int first, struct mx_error *err);
void options_free(struct options *options);

/* Adds what an INI file says about options that are not set yet; the values stay in *options. */
bool options_read_file(struct options *options, const char *path, struct mx_error *err);
/* Checks and sets one option as if written `source`; a flag takes true and false words. */
bool options_set(struct options *options, enum option_id id, const char *source, const char *value,
                 struct mx_error *err);

/* Set on the command line or through the environment. */
bool options_is_set(const struct options *options, enum option_id id);
bool options_flag(const struct options *options, enum option_id id);
/* The value or the default; NULL when there is neither. */
const char *options_text(const struct options *options, enum option_id id);
int64_t options_integer(const struct options *options, enum option_id id);
double options_real(const struct options *options, enum option_id id);

/* The error is the fault of this option's value: names it, and makes it wrong usage. */
void options_blame(enum option_id id, struct mx_error *err);
/* Wrong usage where both options are given. */
bool options_exclude(const struct options *options, enum option_id a, enum option_id b, struct mx_error *err);

/* The help text of one command, or of the program (command = N_COMMANDS), on stdout. */
void options_print_help(enum command command);

#endif
