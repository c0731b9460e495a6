/* SPDX-License-Identifier: Apache-2.0 */
/* The log: one line for each request, on stderr, never with its text. */
#ifndef MLXCEL_SERVE_LOG_REQUEST_H
#define MLXCEL_SERVE_LOG_REQUEST_H

struct exchange;
struct server;

void log_request(struct server *server, const struct exchange *exchange);
/* Something else worth a line. */
void log_text(struct server *server, const char *event, const char *text);

#endif
