/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

static log_sink current_sink;
static void *current_context;

void log_set_sink(log_sink sink, void *context) {
    current_sink = sink;
    current_context = context;
}

void log_line(enum log_level level, const char *format, ...) {
    if (!current_sink) return;
    char line[1200];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    current_sink(current_context, level, line);
}
