/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Schemas to grammars. */
#include "text/grammar/schema.h"

#include "text/grammar/grammar.h"
#include "text/grammar/schema_nodes.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_JSON_DEPTH = 500 };

void schema_free(struct schema *s) {
    if (!s) return;
    struct map *maps[] = {&s->entry_map,       &s->constant_map, &s->resources,  &s->anchors,
                          &s->dynamic_anchors, &s->set_map,      &s->spec_map,   &s->automaton_map,
                          &s->pattern_map,     &s->combine_map,  &s->format_map, &s->key_maps};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) map_free(maps[i]);
    for (size_t i = 0; i < s->n_key_maps; i++) map_free(s->key_map_list[i]);
    for (size_t i = 0; i < s->n_sets; i++) free(s->sets[i].specs);
    free(s->key_map_list);
    free(s->entries);
    free(s->sets);
    free(s->specs);
    arena_free(&s->arena);
    free(s);
}

static bool compile(struct schema *s, const struct json *document) {
    uint32_t entry, literal;
    if (!schema_load(s, document) || !schema_entry_of(s, document, 0, &entry) ||
        !keyword_literal(s, document, 0, &literal))
        return false;
    return set_add(s, SET_ANY, literal, &s->root_set) && specs_find_productive(s);
}

static struct grammar *from_text(char *text, size_t length, unsigned flags, struct mx_error *err) {
    struct mx_error local = {0};
    struct schema *s = calloc(1, sizeof *s);
    if (!s) {
        error_memory(err, "JSON Schema");
        return NULL;
    }
    if (!err) err = &local;
    err->code = ERROR_NONE;
    s->err = err;
    s->asserts_formats = (flags & SCHEMA_FORMATS) != 0;
    const char *copy = arena_copy(&s->arena, text, length);
    const struct json *document =
        copy ? json_parse(&s->arena, copy, length, JSON_PYTHON_INTEGERS, MAX_JSON_DEPTH, err) : NULL;
    if (!copy)
        error_memory(err, "JSON Schema");
    else if (!document)
        error_prefix(err, "JSON Schema");
    struct node_source source;
    if (!document || !compile(s, document)) {
        schema_free(s);
        return NULL;
    }
    return value_nodes_source(s, &source, err) ? grammar_create(&source, err) : NULL;
}

struct grammar *grammar_from_schema(const char *text, size_t length, unsigned flags, struct mx_error *err) {
    if (length <= GRAMMAR_MAX_BYTES) return from_text((char *)(uintptr_t)text, length, flags, err);
    error_set(err, ERROR_LIMIT, "JSON Schema: the schema has %zu bytes, at most %d are read", length,
              GRAMMAR_MAX_BYTES);
    return NULL;
}

struct grammar *grammar_from_schema_value(const struct json *schema, unsigned flags, struct mx_error *err) {
    struct buffer text = {0};
    json_write_value(&(struct json_writer){.out = &text}, schema);
    struct grammar *g = NULL;
    if (text.failed)
        error_memory(err, "JSON Schema");
    else
        g = grammar_from_schema(text.data, text.length, flags, err);
    buffer_free(&text);
    return g;
}

struct grammar *grammar_from_json_object(struct mx_error *err) {
    static const char schema[] = "{\"type\":\"object\"}";
    return grammar_from_schema(schema, sizeof schema - 1, 0, err);
}
