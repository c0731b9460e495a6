/* SPDX-License-Identifier: Apache-2.0 */
/* Notices for the person who runs the program (a fallback taken, a file ignored). The library prints nothing itself:
 * the program installs a sink; without one, notices are dropped. */
#ifndef MLXCEL_BASE_LOG_H
#define MLXCEL_BASE_LOG_H

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARNING };

typedef void (*log_sink)(void *context, enum log_level level, const char *line);

/* Set once, before threads start. */
void log_set_sink(log_sink sink, void *context);
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
