/* SPDX-License-Identifier: Apache-2.0 */
/* Man pages and shell completions, made from the option table and the list of commands when the program is built. */
#ifndef MLXCEL_CLI_DOCUMENTS_H
#define MLXCEL_CLI_DOCUMENTS_H

#include "base/buffer.h"
#include "cli/options.h"

/* The page of one command, or of the program (command = N_COMMANDS), in man(7) roff. */
void man_page(struct buffer *out, enum command command);

/* False when there is no such shell. */
bool completion_script(struct buffer *out, const char *shell);

/* All spellings of a row, the name first: word[0 .. *length) is the next one after `at`, which begins as NULL. */
const char *option_next_spelling(const struct option *option, const char *at, size_t *length);

/* The row's option exists for this command and this version. */
bool option_is_offered(const struct option *option, enum command command);

/* `mlxcel man [COMMAND | --list]` and `mlxcel completion SHELL`; argv[0] is the word after these. */
int command_man(int argc, char **argv);
int command_completion(int argc, char **argv);

#endif
