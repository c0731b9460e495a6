/* SPDX-License-Identifier: Apache-2.0 */
/* The web page: the files of src/serve/web, which are part of the program. */
#ifndef MLXCEL_SERVE_WEB_H
#define MLXCEL_SERVE_WEB_H

#include "serve/exchange.h"

struct web_file {
    const char *name; /* path below the root, without '/' */
    const unsigned char *start, *end;
};

extern const struct web_file web_files[]; /* generated; ended by a NULL name */

bool web_has(const struct server *server, const char *path);
void api_web(struct exchange *exchange);

#endif
