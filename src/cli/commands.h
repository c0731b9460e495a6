/* SPDX-License-Identifier: Apache-2.0 */
/* One function for each command; each returns the exit status: 0 done, 1 run-time failure, 2 wrong usage, 130
 * interrupted. Results go to stdout, everything else to stderr. */
#ifndef MLXCEL_CLI_COMMANDS_H
#define MLXCEL_CLI_COMMANDS_H

#include "base/buffer.h"
#include "cli/options.h"

int command_tokenize(const struct options *options);
int command_detokenize(const struct options *options);

/* Prints "mlxcel: message" on stderr and returns the exit status that belongs to the error's code. */
int command_fail(const struct mx_error *err);

/* Writes the buffer to stdout; 0, or 1 with a message when it cannot be written (full disk, closed pipe). */
int command_print(const struct buffer *out);

int command_logits(const struct options *options);
int command_synth(const struct options *options);
int command_inspect(const struct options *options);
int command_arch(const struct options *options);
int command_generate(const struct options *options);
int command_run(const struct options *options);
int command_serve(const struct options *options);
int command_parse_reply(const struct options *options);
int command_bench_decode(const struct options *options);
int command_perplexity(const struct options *options);
int command_grammar(const struct options *options);
int command_apply_template(const struct options *options);

#endif
