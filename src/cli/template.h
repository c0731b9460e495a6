/* SPDX-License-Identifier: Apache-2.0 */
/* The chat template that the command line asks for. */
#ifndef MLXCEL_CLI_TEMPLATE_H
#define MLXCEL_CLI_TEMPLATE_H

#include "cli/options.h"
#include "text/chat_template.h"

/* The folder's templates, or the one of --chat-template TEXT or --chat-template-file, which has the folder's special
 * tokens. folder may be NULL where the options give a template. *name: of the folder's template that --chat-template
 * names (text without a brace is a name), else NULL; borrowed from the options. */
struct chat_template *template_open(const struct options *options, const char *folder, const char **name,
                                    struct mx_error *err);
/* The options give the text of a template. */
bool template_is_given(const struct options *options);
/* The object of --chat-template-kwargs in the arena, or NULL where there is none. */
bool template_kwargs(const struct options *options, struct arena *arena, const struct json **kwargs,
                     struct mx_error *err);

#endif
