/* SPDX-License-Identifier: Apache-2.0 */
#include "text/reply_values.h"

#include <string.h>
#include <strings.h>

enum { MAX_DEPTH = 128, JSON_DEPTH = 256 };

static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

static void trim(const char **text, size_t *length) {
    while (*length && is_space(**text)) (*text)++, (*length)--;
    while (*length && is_space((*text)[*length - 1])) (*length)--;
}

/* The type of a text that is JSON; 0 when it is not. */
static unsigned json_type_of(const char *text, size_t length, bool *no_memory) {
    static const unsigned types[] = {
        [JSON_NULL] = TYPE_NULL,      [JSON_FALSE] = TYPE_BOOLEAN, [JSON_TRUE] = TYPE_BOOLEAN,
        [JSON_INTEGER] = TYPE_NUMBER, [JSON_REAL] = TYPE_NUMBER,   [JSON_STRING] = TYPE_STRING,
        [JSON_ARRAY] = TYPE_ARRAY,    [JSON_OBJECT] = TYPE_OBJECT};
    struct arena arena = {0};
    struct mx_error err = {0};
    const struct json *value = json_parse(&arena, text, length, JSON_STRICT, JSON_DEPTH, &err);
    unsigned type = value ? types[value->type] : 0;
    *no_memory |= err.code == ERROR_MEMORY;
    arena_free(&arena);
    return type;
}

bool reply_is_json_object(const char *text, size_t length, bool *no_memory) {
    return json_type_of(text, length, no_memory) == TYPE_OBJECT;
}

/* A value of one of the allowed types: JSON, then a Python literal. Strings do not count here. */
static bool append_typed(struct buffer *out, const char *text, size_t length, unsigned types) {
    trim(&text, &length);
    if (!length) return false;
    if (types & TYPE_BOOLEAN && length == 4 && !strncasecmp(text, "true", 4)) return buffer_puts(out, "true");
    if (types & TYPE_BOOLEAN && length == 5 && !strncasecmp(text, "false", 5)) return buffer_puts(out, "false");
    unsigned type = json_type_of(text, length, &out->failed) & ~(unsigned)TYPE_STRING;
    if (type & types) return buffer_append(out, text, length);
    if (type) return false;
    struct buffer python = {0};
    bool ok = reply_python_value(&python, text, length) &&
              json_type_of(python.data, python.length, &out->failed) & types &&
              buffer_append(out, python.data, python.length);
    out->failed |= python.failed;
    buffer_free(&python);
    return ok;
}

bool reply_typed_value(struct buffer *out, const char *text, size_t length, unsigned types) {
    unsigned others = types & ~(unsigned)TYPE_STRING;
    const char *inner = text;
    size_t n = length;
    trim(&inner, &n);
    if (types != TYPE_STRING && append_typed(out, text, length, others ? others : ~(unsigned)TYPE_STRING)) return true;
    /* JSON of a type that the schema does not name is still better than its text in quotes. */
    if (!(types & TYPE_STRING) && json_type_of(inner, n, &out->failed)) return buffer_append(out, inner, n);
    json_append_quoted(out, text, length);
    return !out->failed;
}

/* ---- Gemma's notation ---- */

struct gemma {
    const char *at, *end, *quote;
    const struct reply_tools *tools;
    const struct buffer *name;
    const char *key; /* the outermost object's key that is being read */
    size_t key_length;
};

static void skip_space(struct gemma *g) {
    while (g->at < g->end && is_space(*g->at)) g->at++;
}

static bool take_quote(struct gemma *g) {
    size_t n = strlen(g->quote);
    if ((size_t)(g->end - g->at) < n || memcmp(g->at, g->quote, n) != 0) return false;
    g->at += n;
    return true;
}

/* Text up to the closing quote. */
static bool read_quoted(struct gemma *g, const char **text, size_t *length) {
    *text = g->at;
    const char *close = memmem(g->at, (size_t)(g->end - g->at), g->quote, strlen(g->quote));
    if (!close) return false;
    *length = (size_t)(close - g->at);
    g->at = close + strlen(g->quote);
    return true;
}

/* A string in JSON's own quotes, quotes included. */
static bool read_json_string(struct gemma *g, struct buffer *out, const char **text, size_t *length) {
    *text = g->at++;
    while (g->at < g->end && *g->at != '"') g->at += *g->at == '\\' && g->at + 1 < g->end ? 2 : 1;
    if (g->at >= g->end) return false;
    *length = (size_t)(++g->at - *text);
    return json_type_of(*text, *length, &out->failed) == TYPE_STRING;
}

static bool read_until(struct gemma *g, const char *stops, const char **text, size_t *length) {
    *text = g->at;
    while (g->at < g->end && (!*g->at || !strchr(stops, *g->at))) g->at++;
    *length = (size_t)(g->at - *text);
    trim(text, length);
    return g->at<g->end && * length> 0;
}

static bool read_key(struct gemma *g, struct buffer *out, bool is_outermost) {
    const char *text;
    size_t n;
    skip_space(g);
    if (g->at < g->end && *g->at == '"') {
        if (!read_json_string(g, out, &text, &n)) return false;
        buffer_append(out, text, n);
        text++, n -= 2;
    } else {
        if (!(take_quote(g) ? read_quoted(g, &text, &n) : read_until(g, ":,{}[]", &text, &n))) return false;
        json_append_quoted(out, text, n);
    }
    if (is_outermost) {
        g->key = text;
        g->key_length = n;
    }
    skip_space(g);
    if (g->at >= g->end || *g->at++ != ':') return false;
    return buffer_putc(out, ':');
}

static bool read_scalar(struct gemma *g, struct buffer *out, bool is_outermost) {
    const char *text;
    size_t n;
    if (take_quote(g)) {
        if (!read_quoted(g, &text, &n)) return false;
        json_append_quoted(out, text, n);
        return true;
    }
    if (g->at < g->end && *g->at == '"') return read_json_string(g, out, &text, &n) && buffer_append(out, text, n);
    if (!read_until(g, ",}]", &text, &n)) return false;
    unsigned types =
        is_outermost ? reply_tools_types(g->tools, g->name->data, g->name->length, g->key, g->key_length) : 0;
    return reply_typed_value(out, text, n, types);
}

static bool read_object(struct gemma *g, struct buffer *out) {
    char stack[MAX_DEPTH];
    size_t depth = 0;
    for (;;) {
        if (depth && stack[depth - 1] == '{' && !read_key(g, out, depth == 1)) return false;
        skip_space(g);
        char c = g->at < g->end ? *g->at : '\0';
        if (c == '{' || c == '[') {
            if (depth == MAX_DEPTH) return false;
            stack[depth++] = c;
            buffer_putc(out, c);
            g->at++;
            skip_space(g);
            if (g->at >= g->end || *g->at != (c == '{' ? '}' : ']')) continue;
        } else if (!depth || !read_scalar(g, out, depth == 1)) {
            return false;
        }
        for (;;) {
            skip_space(g);
            if (g->at >= g->end) return false;
            c = *g->at++;
            if (c == ',') break;
            if (c != (stack[depth - 1] == '{' ? '}' : ']')) return false;
            buffer_putc(out, c);
            if (!--depth) return g->at == g->end && !out->failed;
        }
        buffer_putc(out, ',');
    }
}

bool reply_gemma_arguments(struct buffer *out, const char *text, size_t length, const char *quote,
                           const struct reply_tools *tools, const struct buffer *name) {
    struct gemma g = {.at = text, .end = text + length, .quote = quote, .tools = tools, .name = name};
    return length && *text == '{' && read_object(&g, out);
}
