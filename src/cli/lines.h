/* SPDX-License-Identifier: Apache-2.0 */
/* Standard input as a whole, and as lines of JSON: one value a line in, one a line out. */
#ifndef MLXCEL_CLI_LINES_H
#define MLXCEL_CLI_LINES_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"

#include <stdbool.h>

/* All of standard input, byte for byte, at most 1 GiB. */
bool read_standard_input(struct buffer *text, struct mx_error *err);

/* Handles one value; appends one JSON value to out. False with the error set makes the line {"error": ...}. */
typedef bool (*line_handler)(void *context, const struct json *value, struct json_writer *out, struct mx_error *err);

/* Runs the handler for each line of standard input that is not blank. A line that fails is answered by an error and the
 * next goes on. False when standard input or output cannot be used. */
bool for_each_json_line(line_handler handle, void *context, struct mx_error *err);

#endif
