/* SPDX-License-Identifier: Apache-2.0 */
/* Messages from the person at the terminal, through libedit (history, editing), or from a pipe line by line.
 *
 * A line is a message. A line that ends in a backslash goes on with the next one; a block between """ and """ is one
 * message, line breaks and all. */
#ifndef MLXCEL_CLI_LINE_INPUT_H
#define MLXCEL_CLI_LINE_INPUT_H

#include <stdbool.h>
#include <stddef.h>

struct line_input {
    bool is_terminal;
    struct editline *editor;
    struct history *history;
    const char *prompt;
    bool was_interrupted;
    const char *const *commands; /* words that Tab completes, NULL-terminated */
    char *line;                  /* of getline, without a terminal */
    size_t line_room;
};

enum input_kind { INPUT_MESSAGE, INPUT_COMMAND, INPUT_DISCARDED, INPUT_END };

/* False when memory runs out. */
bool line_input_open(struct line_input *input, const char *const *commands);
void line_input_close(struct line_input *input);

/* *text (malloc'ed, trimmed; NULL but for a message or a command): a command is a single line that starts with '/'.
 * Ctrl-C discards what was typed, with a notice on stdout. */
enum input_kind line_input_read(struct line_input *input, char **text);

#endif
