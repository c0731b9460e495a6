/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar that the options of a command ask for: --json, --json-schema, --grammar-file, --regex, --choice. */
#ifndef MLXCEL_CLI_CONSTRAIN_H
#define MLXCEL_CLI_CONSTRAIN_H

#include "cli/session.h"
#include "text/constraint.h"

/* *constraint is NULL when no option asks for one. The session's model must be open. */
bool constrain_answer(struct session *session, const struct options *options, struct constraint **constraint,
                      struct mx_error *err);

#endif
