/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON writer. */
#include "base/json.h"
#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void line_break(struct json_writer *w) {
    if (w->indent <= 0) return;
    buffer_putc(w->out, '\n');
    for (int i = 0; i < w->indent * w->depth; i++) buffer_putc(w->out, ' ');
}

/* Before a value or a key: the comma and the line break that belong there. */
static void separate(struct json_writer *w) {
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (w->has_items) buffer_putc(w->out, ',');
    if (w->depth) line_break(w);
    w->has_items = true;
}

static void begin(struct json_writer *w, char bracket) {
    separate(w);
    buffer_putc(w->out, bracket);
    w->depth++;
    w->has_items = false;
}

static void end(struct json_writer *w, char bracket) {
    w->depth--;
    if (w->has_items) line_break(w);
    buffer_putc(w->out, bracket);
    w->has_items = true;
}

void json_begin_object(struct json_writer *w) { begin(w, '{'); }
void json_end_object(struct json_writer *w) { end(w, '}'); }
void json_begin_array(struct json_writer *w) { begin(w, '['); }
void json_end_array(struct json_writer *w) { end(w, ']'); }

void json_append_quoted(struct buffer *out, const char *text, size_t length) {
    buffer_putc(out, '"');
    size_t i = 0;
    while (i < length) {
        size_t plain = i;
        while (i < length && (unsigned char)text[i] >= 0x20 && (unsigned char)text[i] < 0x7f && text[i] != '"' &&
               text[i] != '\\')
            i++;
        if (i > plain) buffer_append(out, text + plain, i - plain);
        if (i == length) break;
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x80) {
            bool valid;
            size_t n = utf8_next_maximal(text + i, length - i, &valid);
            if (valid)
                buffer_append(out, text + i, n);
            else
                buffer_puts(out, "\xef\xbf\xbd");
            i += n;
            continue;
        }
        i++;
        switch (c) {
        case '"': buffer_puts(out, "\\\""); break;
        case '\\': buffer_puts(out, "\\\\"); break;
        case '\b': buffer_puts(out, "\\b"); break;
        case '\f': buffer_puts(out, "\\f"); break;
        case '\n': buffer_puts(out, "\\n"); break;
        case '\r': buffer_puts(out, "\\r"); break;
        case '\t': buffer_puts(out, "\\t"); break;
        case 0x7f: buffer_putc(out, 0x7f); break;
        default: buffer_printf(out, "\\u%04x", c); break;
        }
    }
    buffer_putc(out, '"');
}

void json_write_key_n(struct json_writer *w, const char *key, size_t length) {
    separate(w);
    json_append_quoted(w->out, key, length);
    buffer_puts(w->out, w->indent > 0 ? ": " : ":");
    w->after_key = true;
}

void json_write_key(struct json_writer *w, const char *key) { json_write_key_n(w, key, strlen(key)); }

void json_write_string_n(struct json_writer *w, const char *text, size_t length) {
    separate(w);
    json_append_quoted(w->out, text, length);
}

void json_write_string(struct json_writer *w, const char *text) { json_write_string_n(w, text, strlen(text)); }

void json_write_integer(struct json_writer *w, int64_t value) {
    separate(w);
    buffer_printf(w->out, "%lld", (long long)value);
}

/* printf writes the decimal point of the process's locale; JSON wants a full stop. */
static void append_real(struct json_writer *w, const char *format, double value) {
    char text[64];
    separate(w);
    if (!isfinite(value)) {
        buffer_puts(w->out, "null");
        return;
    }
    if (format) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(text, sizeof text, format, value);
#pragma GCC diagnostic pop
    } else {
        for (int digits = 15; digits <= 17; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, value);
            if (strtod(text, NULL) == value) break;
        }
    }
    for (char *c = text; *c; c++)
        if (*c == ',') *c = '.';
    buffer_puts(w->out, text);
}

void json_write_real(struct json_writer *w, double value) { append_real(w, NULL, value); }
void json_write_real_as(struct json_writer *w, const char *format, double value) { append_real(w, format, value); }

void json_write_bool(struct json_writer *w, bool value) {
    separate(w);
    buffer_puts(w->out, value ? "true" : "false");
}

void json_write_null(struct json_writer *w) {
    separate(w);
    buffer_puts(w->out, "null");
}

void json_write_raw(struct json_writer *w, const char *text, size_t length) {
    separate(w);
    buffer_append(w->out, text, length);
}

/* Recursive: the depth is that of a parsed tree, which json_parse bounds at 10,000 (about 1 MiB of stack). */
void json_write_value(struct json_writer *w, const struct json *value) {
    switch (value->type) {
    case JSON_NULL: json_write_null(w); return;
    case JSON_FALSE:
    case JSON_TRUE: json_write_bool(w, value->type == JSON_TRUE); return;
    case JSON_INTEGER: json_write_integer(w, value->integer); return;
    case JSON_REAL: json_write_real(w, value->real); return;
    case JSON_STRING: json_write_string_n(w, value->string, value->count); return;
    case JSON_BIG_INTEGER: json_write_raw(w, value->string, value->count); return;
    case JSON_ARRAY:
        json_begin_array(w);
        for (uint32_t i = 0; i < value->count; i++) json_write_value(w, &value->items[i]);
        json_end_array(w);
        return;
    case JSON_OBJECT:
        json_begin_object(w);
        for (uint32_t i = 0; i < value->count; i++) {
            json_write_key_n(w, value->members[i].key, value->members[i].key_length);
            json_write_value(w, &value->members[i].value);
        }
        json_end_object(w);
        return;
    }
}

/* ---- members ---- */

void json_add_string(struct json_writer *w, const char *key, const char *text) {
    json_write_key(w, key);
    if (text)
        json_write_string(w, text);
    else
        json_write_null(w);
}

void json_add_text(struct json_writer *w, const char *key, const char *text, size_t length) {
    json_write_key(w, key);
    json_write_string_n(w, text, length);
}

void json_add_buffer(struct json_writer *w, const char *key, const struct buffer *text) {
    json_add_text(w, key, text->data ? text->data : "", text->length);
}

void json_add_integer(struct json_writer *w, const char *key, int64_t value) {
    json_write_key(w, key);
    json_write_integer(w, value);
}

void json_add_count(struct json_writer *w, const char *key, uint64_t value) {
    json_add_integer(w, key, (int64_t)value);
}

void json_add_real(struct json_writer *w, const char *key, double value) {
    json_write_key(w, key);
    json_write_real(w, value);
}

void json_add_real_as(struct json_writer *w, const char *key, const char *format, double value) {
    json_write_key(w, key);
    json_write_real_as(w, format, value);
}

void json_add_bool(struct json_writer *w, const char *key, bool value) {
    json_write_key(w, key);
    json_write_bool(w, value);
}

void json_add_null(struct json_writer *w, const char *key) {
    json_write_key(w, key);
    json_write_null(w);
}

void json_add_value(struct json_writer *w, const char *key, const struct json *value) {
    json_write_key(w, key);
    json_write_value(w, value);
}

void json_add_raw(struct json_writer *w, const char *key, const char *text, size_t length) {
    json_write_key(w, key);
    json_write_raw(w, text, length);
}
