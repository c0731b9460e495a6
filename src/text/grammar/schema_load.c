/* SPDX-License-Identifier: Apache-2.0 */
/* The schema document: which places are schemas, under which URIs they are known, where references lead. Nothing is
 * fetched: a reference that leaves the document is an error. */
#include "text/grammar/schema.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ENTRIES = 400000 };

/* ---- URIs (RFC 3986, section 5.2) ---- */

struct uri {
    const char *scheme, *authority, *path, *query; /* NULL = absent */
    size_t scheme_length, authority_length, path_length, query_length;
};

static struct uri split_uri(const char *text, size_t length) {
    struct uri u = {0};
    const char *end = text + length, *p = text;
    while (p < end && *p != ':' && *p != '/' && *p != '?') p++;
    if (p < end && *p == ':' && p > text) {
        u.scheme = text;
        u.scheme_length = (size_t)(p - text);
        text = p + 1;
    }
    if (end - text >= 2 && text[0] == '/' && text[1] == '/') {
        u.authority = text + 2;
        p = u.authority;
        while (p < end && *p != '/' && *p != '?') p++;
        u.authority_length = (size_t)(p - u.authority);
        text = p;
    }
    p = memchr(text, '?', (size_t)(end - text));
    u.path = text;
    u.path_length = (size_t)((p ? p : end) - text);
    if (p) {
        u.query = p + 1;
        u.query_length = (size_t)(end - p - 1);
    }
    return u;
}

/* Appends the path without its . and .. segments. */
static void append_path(struct buffer *out, const char *path, size_t length) {
    size_t root = out->length;
    for (size_t at = 0; at < length;) {
        size_t start = at;
        if (path[at] == '/') at++;
        size_t name = at;
        while (at < length && path[at] != '/') at++;
        size_t n = at - name;
        if (n == 1 && path[name] == '.') {
            if (at == length) buffer_putc(out, '/');
        } else if (n == 2 && !memcmp(path + name, "..", 2)) {
            while (out->length > root && out->data[out->length - 1] != '/') out->length--;
            if (out->length > root) out->length--;
            if (at == length) buffer_putc(out, '/');
        } else {
            buffer_append(out, path + start, at - start);
        }
    }
}

/* reference (without fragment) against base; in the arena, NULL when memory is out. */
static const char *resolve_uri(struct arena *arena, const char *base, const char *reference, size_t length) {
    struct uri r = split_uri(reference, length), b = split_uri(base, strlen(base));
    struct buffer out = {0}, path = {0};
    bool own_authority = r.scheme || r.authority;
    const struct uri *authority = own_authority ? &r : &b;
    const char *scheme = r.scheme ? r.scheme : b.scheme;
    if (scheme) {
        buffer_append(&out, scheme, r.scheme ? r.scheme_length : b.scheme_length);
        buffer_putc(&out, ':');
    }
    if (authority->authority) {
        buffer_puts(&out, "//");
        buffer_append(&out, authority->authority, authority->authority_length);
    }
    const struct uri *query = &r;
    if (own_authority || (r.path_length && r.path[0] == '/')) {
        buffer_append(&path, r.path, r.path_length);
    } else if (!r.path_length) {
        buffer_append(&path, b.path, b.path_length);
        if (!r.query) query = &b;
    } else {
        size_t n = b.path_length;
        while (n && b.path[n - 1] != '/') n--;
        if (!n && b.authority) buffer_putc(&path, '/');
        buffer_append(&path, b.path, n);
        buffer_append(&path, r.path, r.path_length);
    }
    append_path(&out, path.data ? path.data : "", path.length);
    if (query->query) {
        buffer_putc(&out, '?');
        buffer_append(&out, query->query, query->query_length);
    }
    const char *result = out.failed || path.failed ? NULL : arena_copy(arena, out.data ? out.data : "", out.length);
    buffer_free(&out);
    buffer_free(&path);
    return result;
}

/* ---- entries ---- */

static bool out_of_memory(struct schema *s) { return error_memory(s->err, "JSON Schema"); }

static bool put_pointer(struct schema *s, struct map *map, const void *pointer, uint64_t value) {
    char *key = arena_copy(&s->arena, (const char *)&pointer, sizeof pointer);
    return (key && map_put(map, key, sizeof pointer, value, NULL)) || out_of_memory(s);
}

static bool add_entry(struct schema *s, struct map *map, struct schema_entry entry, uint32_t *number) {
    if (s->n_entries >= MAX_ENTRIES)
        return error_set(s->err, ERROR_LIMIT, "JSON Schema: over %d subschemas", MAX_ENTRIES);
    if (!array_reserve(&s->entries, &s->entries_capacity, s->n_entries + 1, sizeof *s->entries))
        return out_of_memory(s);
    *number = (uint32_t)s->n_entries;
    s->entries[s->n_entries++] = entry;
    return put_pointer(s, map, entry.json, *number);
}

static bool find_pointer(const struct map *map, const void *pointer, uint32_t *number) {
    uint64_t value;
    if (!map_get(map, (const char *)&pointer, sizeof pointer, &value)) return false;
    *number = (uint32_t)value;
    return true;
}

bool schema_constant(struct schema *s, const struct json *value, uint32_t *entry) {
    return find_pointer(&s->constant_map, value, entry) ||
           add_entry(s, &s->constant_map, (struct schema_entry){.json = value, .base = "", .is_constant = true}, entry);
}

bool schema_entry_of(struct schema *s, const struct json *json, uint32_t parent, uint32_t *entry) {
    if (!json_is_object(json) && !json_is_bool(json))
        return error_set(s->err, ERROR_FORMAT, "JSON Schema: a schema is %s, expected an object or a boolean",
                         json_type_name(json));
    if (find_pointer(&s->entry_map, json, entry)) return true;
    struct schema_entry from = s->entries[parent];
    return add_entry(s, &s->entry_map, (struct schema_entry){.json = json, .root = from.root, .base = from.base},
                     entry);
}

bool schema_has_key(struct schema *s, const struct json *object, const char *key, uint32_t length) {
    if (!json_is_object(object)) return false;
    uint32_t number;
    if (object->count <= 16) {
        for (uint32_t i = 0; i < object->count; i++)
            if (object->members[i].key_length == length && !memcmp(object->members[i].key, key, length)) return true;
        return false;
    }
    if (!find_pointer(&s->key_maps, object, &number)) {
        struct map *keys = arena_calloc(&s->arena, 1, sizeof *keys);
        if (!keys ||
            !array_reserve(&s->key_map_list, &s->key_maps_capacity, s->n_key_maps + 1, sizeof *s->key_map_list) ||
            !put_pointer(s, &s->key_maps, object, s->n_key_maps))
            return out_of_memory(s);
        number = (uint32_t)s->n_key_maps;
        s->key_map_list[s->n_key_maps++] = keys;
        for (uint32_t i = 0; i < object->count; i++)
            if (!map_put(keys, object->members[i].key, object->members[i].key_length, i, NULL)) return out_of_memory(s);
    }
    uint64_t found;
    return map_get(s->key_map_list[number], key, length, &found);
}

/* ---- the index ---- */

struct visit {
    const struct json *json, *root;
    const char *base;
};

struct visits {
    struct visit *data;
    size_t n, capacity;
};

static bool push_visit(struct schema *s, struct visits *v, const struct json *json, const struct visit *parent) {
    if (!json_is_object(json) && !json_is_bool(json)) return true;
    if (!array_reserve(&v->data, &v->capacity, v->n + 1, sizeof *v->data)) return out_of_memory(s);
    v->data[v->n++] = (struct visit){json, parent->root, parent->base};
    return true;
}

/* Keywords whose value is a schema, a list of schemas (or one), or an object of schemas. */
static const char *const ONE[] = {"additionalItems",
                                  "additionalProperties",
                                  "contains",
                                  "contentSchema",
                                  "else",
                                  "if",
                                  "items",
                                  "not",
                                  "propertyNames",
                                  "then",
                                  "unevaluatedItems",
                                  "unevaluatedProperties",
                                  NULL};
static const char *const MANY[] = {"allOf", "anyOf", "items", "oneOf", "prefixItems", NULL};
static const char *const NAMED[] = {
    "$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties", NULL};

static bool is_one_of(const struct json_member *m, const char *const *names) {
    for (; *names; names++)
        if (strlen(*names) == m->key_length && !memcmp(*names, m->key, m->key_length)) return true;
    return false;
}

static bool push_children(struct schema *s, struct visits *v, const struct visit *at) {
    bool ok = true;
    for (uint32_t i = 0; ok && i < at->json->count; i++) {
        const struct json_member *m = &at->json->members[i];
        if (is_one_of(m, ONE)) ok = push_visit(s, v, &m->value, at);
        if (json_is_array(&m->value) && is_one_of(m, MANY))
            for (uint32_t k = 0; ok && k < m->value.count; k++) ok = push_visit(s, v, &m->value.items[k], at);
        if (json_is_object(&m->value) && is_one_of(m, NAMED))
            for (uint32_t k = 0; ok && k < m->value.count; k++) ok = push_visit(s, v, &m->value.members[k].value, at);
    }
    return ok;
}

static bool put_anchor(struct schema *s, const char *base, const struct json *name, const struct json *json) {
    if (!json_is_string(name)) return true;
    char *key = arena_printf(&s->arena, "%s#%.*s", base, (int)name->count, name->string);
    return (key && map_put(&s->anchors, key, strlen(key), (uint64_t)(uintptr_t)json, NULL)) || out_of_memory(s);
}

static bool count_dynamic(struct schema *s, const struct json *name) {
    uint64_t count = 0;
    if (!json_is_string(name)) return true;
    map_get(&s->dynamic_anchors, name->string, name->count, &count);
    return map_put(&s->dynamic_anchors, name->string, name->count, count + 1, NULL) || out_of_memory(s);
}

/* "$id" (before draft 6 "id"): a new resource, or before 2019-09 an anchor when it is a fragment. */
static bool take_id(struct schema *s, struct visit *at) {
    const struct json *id = json_get(at->json, s->draft <= 4 ? "id" : "$id");
    if (!json_is_string(id) || (s->draft <= 7 && json_is_string(json_get(at->json, "$ref")))) return true;
    const char *hash = memchr(id->string, '#', id->count);
    size_t length = hash ? (size_t)(hash - id->string) : id->count;
    if (length) {
        at->base = resolve_uri(&s->arena, at->base, id->string, length);
        at->root = at->json;
        if (!at->base || !map_put(&s->resources, at->base, strlen(at->base), (uint64_t)(uintptr_t)at->json, NULL))
            return out_of_memory(s);
    }
    if (!hash || length + 1 >= id->count || s->draft > 7) return true;
    struct json name = {.type = JSON_STRING, .count = (uint32_t)(id->count - length - 1), .string = hash + 1};
    return put_anchor(s, at->base, &name, at->json);
}

static bool visit_all(struct schema *s, struct visits *v) {
    while (v->n) {
        struct visit at = v->data[--v->n];
        uint32_t number;
        if (find_pointer(&s->entry_map, at.json, &number)) continue;
        if (json_is_object(at.json)) {
            if (!take_id(s, &at) || !count_dynamic(s, json_get(at.json, "$dynamicAnchor")) ||
                !put_anchor(s, at.base, json_get(at.json, "$anchor"), at.json) ||
                !put_anchor(s, at.base, json_get(at.json, "$dynamicAnchor"), at.json) || !push_children(s, v, &at))
                return false;
        }
        if (!add_entry(s, &s->entry_map, (struct schema_entry){.json = at.json, .root = at.root, .base = at.base},
                       &number))
            return false;
    }
    return true;
}

/* ---- the draft ---- */

static bool contains_text(const struct json *v, const char *text) {
    return json_is_string(v) && memmem(v->string, v->count, text, strlen(text)) != NULL;
}

/* Without "$schema": drafts up to 7 where the document uses what later ones dropped. It matters for what stands beside a
 * "$ref" alone. */
static int guess_draft(const struct json *document) {
    if (json_get(document, "$defs")) return 2020;
    return json_get(document, "definitions") || json_get(document, "dependencies") ? 7 : 2020;
}

static bool find_draft(struct schema *s, const struct json *document) {
    static const struct {
        const char *part;
        int draft;
    } drafts[] = {{"draft-03", 4}, {"draft-04", 4},   {"draft-06", 6},
                  {"draft-07", 7}, {"2019-09", 2019}, {"2020-12", 2020}};
    const struct json *name = json_get(document, "$schema");
    for (size_t i = 0; i < sizeof drafts / sizeof *drafts; i++) {
        if (!contains_text(name, drafts[i].part) || !contains_text(name, "json-schema.org")) continue;
        s->draft = drafts[i].draft;
        s->ignores_newer_keywords = s->draft <= 7;
        return true;
    }
    s->draft = guess_draft(document);
    /* A dialect of someone's own may give any keyword another meaning. */
    if (json_is_string(name) && name->count && !contains_text(name, "json-schema.org"))
        return error_set(s->err, ERROR_UNSUPPORTED, "JSON Schema: '$schema' names the unknown dialect '%.*s'",
                         (int)(name->count < 200 ? name->count : 200), name->string);
    return true;
}

bool schema_load(struct schema *s, const struct json *document) {
    static const struct json yes = {.type = JSON_TRUE};
    uint32_t number;
    if (!find_draft(s, document)) return false;
    /* Entry 0 is the schema that everything satisfies. */
    if (!add_entry(s, &s->entry_map, (struct schema_entry){.json = &yes, .root = &yes, .base = ""}, &number))
        return false;
    if (!json_is_object(document) && !json_is_bool(document))
        return error_set(s->err, ERROR_FORMAT, "JSON Schema: the schema is %s, expected an object or a boolean",
                         json_type_name(document));
    struct visits v = {0};
    struct visit root = {document, document, ""};
    bool ok = (map_put(&s->resources, "", 0, (uint64_t)(uintptr_t)document, NULL) || out_of_memory(s)) &&
              push_visit(s, &v, document, &root) && visit_all(s, &v);
    free(v.data);
    return ok;
}

/* ---- references ---- */

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if ((c | 32) >= 'a' && (c | 32) <= 'f') return (c | 32) - 'a' + 10;
    return -1;
}

/* One segment of a JSON pointer: percent-decoded, then ~1 and ~0. */
static char *decode_segment(struct schema *s, const char *text, size_t length, size_t *decoded) {
    char *out = arena_alloc(&s->arena, length + 1);
    size_t n = 0;
    if (!out) return NULL;
    for (size_t i = 0; i < length; i++) {
        int c = (unsigned char)text[i];
        if (c == '%' && i + 2 < length && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0) {
            c = hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]);
            i += 2;
        }
        if (n && out[n - 1] == '~' && (c == '0' || c == '1'))
            out[n - 1] = c == '0' ? '\x7f' : '/';
        else
            out[n++] = (char)c;
    }
    for (size_t i = 0; i < n; i++)
        if (out[i] == '\x7f') out[i] = '~';
    *decoded = n;
    return out;
}

static const struct json *follow_segment(const struct json *at, const char *segment, size_t length) {
    if (json_is_object(at)) {
        for (uint32_t i = at->count; i-- > 0;)
            if (at->members[i].key_length == length && !memcmp(at->members[i].key, segment, length))
                return &at->members[i].value;
        return NULL;
    }
    if (!json_is_array(at) || !length || length > 9 || (segment[0] == '0' && length > 1)) return NULL;
    size_t index = 0;
    for (size_t i = 0; i < length; i++) {
        if (segment[i] < '0' || segment[i] > '9') return NULL;
        index = index * 10 + (size_t)(segment[i] - '0');
    }
    return json_at(at, index);
}

static bool fail_reference(struct schema *s, const struct json *ref) {
    return error_set(s->err, ERROR_UNSUPPORTED, "JSON Schema: $ref '%.*s' leads out of the document or nowhere",
                     (int)(ref->count < 300 ? ref->count : 300), ref->string);
}

/* Follows a JSON pointer; the entry found last on the way gives the resource of what is found. */
static bool follow_pointer(struct schema *s, const struct json *root, const char *pointer, size_t length,
                           const struct json *ref, uint32_t *entry) {
    const struct json *at = root;
    uint32_t owner;
    if (!find_pointer(&s->entry_map, root, &owner)) return fail_reference(s, ref);
    for (size_t i = 0; i < length;) {
        size_t start = ++i, decoded;
        while (i < length && pointer[i] != '/') i++;
        char *segment = decode_segment(s, pointer + start, i - start, &decoded);
        if (!segment) return out_of_memory(s);
        at = follow_segment(at, segment, decoded);
        if (!at) return fail_reference(s, ref);
        find_pointer(&s->entry_map, at, &owner);
    }
    return schema_entry_of(s, at, owner, entry);
}

bool schema_resolve(struct schema *s, uint32_t from, const struct json *ref, uint32_t *entry) {
    if (!json_is_string(ref))
        return error_set(s->err, ERROR_FORMAT, "JSON Schema: $ref is %s, expected a string", json_type_name(ref));
    const char *hash = memchr(ref->string, '#', ref->count), *base = s->entries[from].base;
    size_t length = hash ? (size_t)(hash - ref->string) : ref->count, fragment = hash ? ref->count - length - 1 : 0;
    uint64_t found;
    if (length) {
        base = resolve_uri(&s->arena, base, ref->string, length);
        if (!base) return out_of_memory(s);
    }
    const struct json *root = s->entries[from].root;
    if (length || !root) {
        if (!map_get(&s->resources, base, strlen(base), &found)) return fail_reference(s, ref);
        root = (const struct json *)(uintptr_t)found;
    }
    if (!fragment) return follow_pointer(s, root, "", 0, ref, entry);
    if (hash[1] == '/') return follow_pointer(s, root, hash + 1, fragment, ref, entry);
    char *key = arena_printf(&s->arena, "%s#%.*s", base, (int)fragment, hash + 1);
    if (!key) return out_of_memory(s);
    if (!map_get(&s->anchors, key, strlen(key), &found)) return fail_reference(s, ref);
    return schema_entry_of(s, (const struct json *)(uintptr_t)found, from, entry);
}

/* A dynamic reference is an ordinary one unless it leads to one of several dynamic anchors of a name: which of them counts
 * then depends on the way by which the reference was reached. */
bool schema_resolve_dynamic(struct schema *s, uint32_t from, const struct json *ref, uint32_t *entry) {
    if (!schema_resolve(s, from, ref, entry)) return false;
    const struct json *name = json_get(s->entries[*entry].json, "$dynamicAnchor");
    const char *hash = memchr(ref->string, '#', ref->count);
    uint64_t count = 0;
    if (!json_is_string(name) || !hash) return true;
    size_t length = ref->count - (size_t)(hash + 1 - ref->string);
    if (length != name->count || memcmp(hash + 1, name->string, length) != 0) return true;
    map_get(&s->dynamic_anchors, name->string, name->count, &count);
    return count <= 1 || error_set(s->err, ERROR_UNSUPPORTED,
                                   "JSON Schema: '$dynamicRef' to one of several anchors '%.*s' is not supported",
                                   (int)(length < 100 ? length : 100), name->string);
}
