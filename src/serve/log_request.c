/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/log_request.h"

#include "base/clock.h"
#include "serve/server_parts.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static void time_text(char *out, size_t room) {
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t n = strftime(out, room, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(out + n, room - n, ".%03ldZ", now.tv_nsec / 1000000);
}

/* A path may hold anything but control characters; quotes and the like are kept out of the plain form. */
static void clean(char *out, size_t room, const char *text) {
    size_t n = 0;
    for (; *text && n + 1 < room; text++)
        out[n++] = (unsigned char)*text <= 32 || *text == 127 || *text == '"' ? '?' : *text;
    out[n] = '\0';
}

static void write_line(struct buffer *line) {
    buffer_putc(line, '\n');
    if (!line->failed) fwrite(line->data, 1, line->length, stderr);
    buffer_free(line);
}

static void write_json(const struct exchange *x, const char *when, double ms, double first_ms) {
    struct buffer line = {0};
    struct json_writer w = {.out = &line};
    json_begin_object(&w);
    json_add_string(&w, "time", when);
    json_add_string(&w, "event", "request");
    json_add_string(&w, "id", x->id);
    json_add_string(&w, "client", x->address);
    json_add_string(&w, "method", x->head.method_text ? x->head.method_text : "?");
    json_add_string(&w, "path", x->head.path ? x->head.path : "?");
    json_add_count(&w, "status", (size_t)x->status);
    json_add_real_as(&w, "ms", "%.1f", ms);
    if (x->owner) json_add_count(&w, "key", x->owner);
    if (x->model_name) json_add_string(&w, "model", x->model_name);
    if (x->n_prompt) {
        json_add_count(&w, "prompt_tokens", x->n_prompt);
        json_add_count(&w, "cached_tokens", x->n_cached);
        if (*x->cache) json_add_string(&w, "cache", x->cache);
        json_add_count(&w, "generated_tokens", x->n_generated);
        json_add_real_as(&w, "first_token_ms", "%.1f", first_ms);
    }
    if (x->finish) json_add_string(&w, "finish", x->finish);
    json_end_object(&w);
    write_line(&line);
}

void log_request(struct server *s, const struct exchange *x) {
    char when[48], path[256];
    uint64_t now = clock_now_ns();
    double ms = (double)(now - x->arrived_ns) * 1e-6;
    double first = x->first_token_ns ? (double)(x->first_token_ns - x->arrived_ns) * 1e-6 : 0;
    if (s->options->log_is_off) return;
    time_text(when, sizeof when);
    if (s->options->log_is_json) {
        write_json(x, when, ms, first);
        return;
    }
    struct buffer line = {0};
    clean(path, sizeof path, x->head.path ? x->head.path : "?");
    buffer_printf(&line, "%s %s %s \"%s %s\" %d %.1fms", when, x->id, x->address,
                  x->head.method_text ? x->head.method_text : "?", path, x->status, ms);
    if (x->n_prompt)
        buffer_printf(&line, " prompt=%zu cached=%zu generated=%zu first=%.1fms", x->n_prompt, x->n_cached,
                      x->n_generated, first);
    bool has_reason = *x->cache && (!x->n_cached || strchr(x->cache, ';'));
    if (has_reason) buffer_printf(&line, " (%s)", x->cache);
    if (x->finish) buffer_printf(&line, " %s", x->finish);
    write_line(&line);
}

void log_text(struct server *s, const char *event, const char *text) {
    char when[48];
    struct buffer line = {0};
    if (s->options->log_is_off) return;
    time_text(when, sizeof when);
    if (s->options->log_is_json) {
        struct json_writer w = {.out = &line};
        json_begin_object(&w);
        json_add_string(&w, "time", when);
        json_add_string(&w, "event", event);
        json_add_string(&w, "text", text);
        json_end_object(&w);
    } else {
        buffer_printf(&line, "%s %s: %s", when, event, text);
    }
    write_line(&line);
}
