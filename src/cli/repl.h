/* SPDX-License-Identifier: Apache-2.0 */
/* The state of `mlxcel run`, and its slash commands. */
#ifndef MLXCEL_CLI_REPL_H
#define MLXCEL_CLI_REPL_H

#include "cli/answer.h"
#include "cli/conversation.h"
#include "cli/line_input.h"

struct repl {
    struct session session;
    const struct options *options;
    struct sampling_params sampling;
    int64_t max_tokens;
    int status; /* of the last turn that failed, for input that is piped */
    bool shows_reasoning, is_done;
    struct conversation conversation;
    struct line_input input;
    struct { /* of the last answer */
        size_t n_prompt, n_cached, n_generated;
        double prefill, decode; /* seconds */
    } last;
};

/* Names of the commands, NULL-terminated. */
extern const char *const repl_command_names[];

/* Runs a line that starts with '/'. */
void repl_command(struct repl *repl, const char *line);

#endif
