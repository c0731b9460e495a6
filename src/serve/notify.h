/* SPDX-License-Identifier: Apache-2.0 */
/* systemd's notify protocol: ready, stopping, watchdog. Without $NOTIFY_SOCKET nothing is sent. */
#ifndef MLXCEL_SERVE_NOTIFY_H
#define MLXCEL_SERVE_NOTIFY_H

#include <stdint.h>

struct server;

void notify_ready(struct server *server);
void notify_stopping(void);
/* Tells systemd that the server is alive, in time, while it is healthy. */
void notify_watchdog(struct server *server, uint64_t now_ns);

#endif
