/* SPDX-License-Identifier: Apache-2.0 */
#include "text/reply_tools.h"

#include <string.h>

enum { MAX_NAME = 256, MAX_SCHEMA_STEPS = 64 };

bool reply_tools_any(const struct reply_tools *tools) { return !tools->list || tools->list->count > 0; }

bool reply_is_name_char(char c) {
    unsigned char u = (unsigned char)c;
    return (u >= '0' && u <= '9') || ((u | 32) >= 'a' && (u | 32) <= 'z') || u >= 0x80 || (u && strchr("_-.:/$@+", c));
}

bool reply_is_name(const char *text, size_t length) {
    if (!length || length > MAX_NAME) return false;
    for (size_t i = 0; i < length; i++)
        if (!reply_is_name_char(text[i])) return false;
    return true;
}

static bool is_text(const struct json *v, const char *text, size_t length) {
    return json_is_string(v) && v->count == length && !memcmp(v->string, text, length);
}

static bool json_is(const struct json *v, const char *word) { return is_text(v, word, strlen(word)); }

/* {"type": "function", "function": {...}} or the function itself. */
static const struct json *function_of(const struct json *tool) {
    const struct json *function = json_get(tool, "function");
    return json_is_object(function) ? function : tool;
}

static const struct json *find(const struct reply_tools *tools, const char *name, size_t length) {
    for (size_t i = 0; tools->list && i < tools->list->count; i++) {
        const struct json *tool = json_at(tools->list, i), *function = function_of(tool);
        if (is_text(json_get(function, "name"), name, length)) return function;
        if (length == 6 && !memcmp(name, "python", 6) && json_is(json_get(tool, "type"), "code_interpreter"))
            return tool;
    }
    return NULL;
}

bool reply_tools_resolve(const struct reply_tools *tools, const char *name, size_t length, const char **found,
                         size_t *found_length) {
    static const char prefix[] = "functions.", suffix[] = ".call";
    enum { PREFIX = sizeof prefix - 1, SUFFIX = sizeof suffix - 1 };
    *found = name;
    *found_length = length;
    if (!reply_is_name(name, length)) return false;
    if (!tools->list) {
        if (length > PREFIX && !memcmp(name, prefix, PREFIX)) {
            *found += PREFIX;
            *found_length -= PREFIX;
        }
        return true;
    }
    if (find(tools, name, length)) return true;
    if (length > SUFFIX && !memcmp(name + length - SUFFIX, suffix, SUFFIX)) {
        *found_length = length - SUFFIX;
        if (find(tools, name, *found_length)) return true;
    }
    for (size_t i = 0; i + 1 < length; i++) {
        if (name[i] != '.' && name[i] != '/') continue;
        *found = name + i + 1;
        *found_length = length - i - 1;
        if (find(tools, *found, *found_length)) return true;
    }
    return false;
}

static unsigned type_from_name(const struct json *name) {
    static const struct {
        const char *name;
        unsigned type;
    } types[] = {{"string", TYPE_STRING}, {"number", TYPE_NUMBER}, {"integer", TYPE_NUMBER}, {"boolean", TYPE_BOOLEAN},
                 {"object", TYPE_OBJECT}, {"array", TYPE_ARRAY},   {"null", TYPE_NULL},      {"str", TYPE_STRING},
                 {"int", TYPE_NUMBER},    {"float", TYPE_NUMBER},  {"bool", TYPE_BOOLEAN},   {"dict", TYPE_OBJECT},
                 {"list", TYPE_ARRAY}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (json_is(name, types[i].name)) return types[i].type;
    return 0;
}

static unsigned type_of_value(const struct json *v) {
    static const unsigned types[] = {
        [JSON_NULL] = TYPE_NULL,      [JSON_FALSE] = TYPE_BOOLEAN, [JSON_TRUE] = TYPE_BOOLEAN,
        [JSON_INTEGER] = TYPE_NUMBER, [JSON_REAL] = TYPE_NUMBER,   [JSON_STRING] = TYPE_STRING,
        [JSON_ARRAY] = TYPE_ARRAY,    [JSON_OBJECT] = TYPE_OBJECT};
    return types[v->type];
}

/* "#/$defs/Name" within the tool's schema. */
static const struct json *follow_reference(const struct json *root, const struct json *reference) {
    if (!json_is_string(reference) || reference->count < 2 || memcmp(reference->string, "#/", 2) != 0) return NULL;
    const char *at = reference->string + 2, *end = reference->string + reference->count;
    while (root) {
        const char *slash = memchr(at, '/', (size_t)(end - at));
        size_t n = (size_t)((slash ? slash : end) - at);
        const struct json *next = NULL;
        for (size_t i = 0; json_is_object(root) && i < root->count; i++)
            if (root->members[i].key_length == n && !memcmp(root->members[i].key, at, n))
                next = &root->members[i].value;
        root = next;
        if (!slash) return root;
        at = slash + 1;
    }
    return NULL;
}

/* What one schema says by itself: type, const, enum, or keywords that only one type has. */
static unsigned own_types(const struct json *schema) {
    unsigned types = type_from_name(json_get(schema, "type"));
    const struct json *list = json_get(schema, "type");
    for (size_t i = 0; json_is_array(list) && i < list->count; i++) types |= type_from_name(json_at(list, i));
    if (json_bool(json_get(schema, "nullable"), false) && types) types |= TYPE_NULL;
    if (types) return types;
    const struct json *value = json_get(schema, "const"), *values = json_get(schema, "enum");
    if (value) return type_of_value(value);
    for (size_t i = 0; json_is_array(values) && i < values->count; i++) types |= type_of_value(json_at(values, i));
    if (!types && json_get(schema, "properties")) types = TYPE_OBJECT;
    if (!types && json_get(schema, "items")) types = TYPE_ARRAY;
    return types;
}

/* The union over anyOf, oneOf, allOf and references, each schema visited once within a fixed number of steps. */
static unsigned types_of_schema(const struct json *root, const struct json *schema) {
    static const char *const unions[] = {"anyOf", "oneOf", "allOf"};
    const struct json *todo[MAX_SCHEMA_STEPS] = {schema};
    size_t n = 1;
    unsigned types = 0;
    for (size_t i = 0; i < n; i++) {
        types |= own_types(todo[i]);
        const struct json *target = follow_reference(root, json_get(todo[i], "$ref"));
        if (target && n < MAX_SCHEMA_STEPS) todo[n++] = target;
        for (size_t u = 0; u < 3; u++) {
            const struct json *parts = json_get(todo[i], unions[u]);
            for (size_t j = 0; json_is_array(parts) && j < parts->count && n < MAX_SCHEMA_STEPS; j++)
                todo[n++] = json_at(parts, j);
        }
    }
    return types;
}

unsigned reply_tools_types(const struct reply_tools *tools, const char *name, size_t name_length, const char *key,
                           size_t key_length) {
    const struct json *function = find(tools, name, name_length);
    const struct json *root = json_get(function, "parameters");
    if (!root) root = json_get(function, "input_schema");
    const struct json *properties = json_get(root, "properties");
    for (size_t i = 0; json_is_object(properties) && i < properties->count; i++) {
        const struct json_member *m = &properties->members[i];
        if (m->key_length == key_length && !memcmp(m->key, key, key_length)) return types_of_schema(root, &m->value);
    }
    return 0;
}
