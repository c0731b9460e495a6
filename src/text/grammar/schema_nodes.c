/* SPDX-License-Identifier: Apache-2.0 */
#include "text/grammar/schema_nodes.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* White space between tokens: one space, or a line end and up to this many spaces and tabs. A model that may write any
 * number of them can fall into writing nothing else. */
enum { MAX_INDENT = 60, MAX_NODES = 20000000 };

static bool out_of_memory(struct value_nodes *v) { return error_memory(v->err, "JSON Schema"); }

uint32_t node_make(struct value_nodes *v, enum value_node_kind kind, uint32_t a, uint32_t b, uint32_t c) {
    uint32_t key[4] = {kind, a, b, c};
    uint64_t found;
    if (a == UINT32_MAX) return UINT32_MAX; /* something before failed */
    if (map_get(&v->node_map, (const char *)key, sizeof key, &found)) return (uint32_t)found;
    char *copy = arena_copy(&v->arena, (const char *)key, sizeof key);
    if (v->n_nodes >= MAX_NODES) {
        error_set(v->err, ERROR_LIMIT, "the text is too long for this schema");
        return UINT32_MAX;
    }
    if (!copy || !array_reserve(&v->nodes, &v->nodes_capacity, v->n_nodes + 1, sizeof *v->nodes) ||
        !map_put(&v->node_map, copy, sizeof key, v->n_nodes, NULL)) {
        out_of_memory(v);
        return UINT32_MAX;
    }
    v->nodes[v->n_nodes] = (struct value_node){.kind = (uint8_t)kind, .a = a, .b = b, .c = c};
    return (uint32_t)v->n_nodes++;
}

uint32_t node_space(struct value_nodes *v, uint32_t target) { return node_make(v, NODE_SPACE, target, 0, 0); }

bool node_edge(struct value_nodes *v, uint32_t first, uint32_t last, uint32_t target) {
    if (target == UINT32_MAX) return false;
    struct node_edge *previous = v->n_edges ? &v->edges[v->n_edges - 1] : NULL;
    if (previous && previous->target == target && previous->last + 1 == first) {
        previous->last = last;
        return true;
    }
    if (!array_reserve(&v->edges, &v->edges_capacity, v->n_edges + 1, sizeof *v->edges)) return out_of_memory(v);
    v->edges[v->n_edges++] = (struct node_edge){first, last, target};
    return true;
}

bool node_jump(struct value_nodes *v, uint32_t target) {
    if (target == UINT32_MAX) return false;
    if (!array_reserve(&v->jumps, &v->jumps_capacity, v->n_jumps + 1, sizeof *v->jumps)) return out_of_memory(v);
    v->jumps[v->n_jumps++] = target;
    return true;
}

bool node_call(struct value_nodes *v, uint32_t start, uint32_t next) {
    if (start == UINT32_MAX || next == UINT32_MAX) return false;
    if (!array_reserve(&v->calls, &v->calls_capacity, v->n_calls + 1, sizeof *v->calls)) return out_of_memory(v);
    v->calls[v->n_calls++] = (struct node_call){start, next};
    return true;
}

/* ---- simple nodes ---- */

static bool expand_set(struct value_nodes *v, uint32_t set) {
    static const uint8_t kinds[] = {NODE_TEXT,  NODE_TEXT,       NODE_TEXT,       NODE_NUMBER,
                                    NODE_QUOTE, NODE_ARRAY_OPEN, NODE_OBJECT_OPEN};
    for (uint32_t i = 0; i < v->schema->sets[set].n_specs; i++) {
        uint32_t number = v->schema->sets[set].specs[i];
        if (!node_jump(v, node_make(v, kinds[__builtin_ctz(v->schema->specs[number].type)], number, 0, 0)))
            return false;
    }
    return true;
}

static bool expand_text(struct value_nodes *v, const struct value_node *at) {
    static const char *const texts[] = {"null", "false", "true"};
    const char *text = texts[__builtin_ctz(v->schema->specs[at->a].type)];
    if (!text[at->b]) {
        v->is_final = true;
        return true;
    }
    return node_edge(v, (uint8_t)text[at->b], (uint8_t)text[at->b], node_make(v, NODE_TEXT, at->a, at->b + 1, 0));
}

static bool expand_number(struct value_nodes *v, const struct value_node *at) {
    const struct automaton *a = v->schema->specs[at->a].automaton;
    const struct automaton_state *state = &a->states[at->b];
    v->is_final = state->is_final;
    for (uint32_t i = 0; i < state->n_edges; i++) {
        const struct automaton_edge *edge = &a->edges[state->first_edge + i];
        if (!node_edge(v, edge->first, edge->last, node_make(v, NODE_NUMBER, at->a, edge->target, 0))) return false;
    }
    return true;
}

static bool expand_space(struct value_nodes *v, const struct value_node *at) {
    if (!node_jump(v, at->a)) return false;
    if (!at->b)
        return (at->c || node_edge(v, '\n', '\n', node_make(v, NODE_SPACE, at->a, 1, 0))) &&
               node_edge(v, ' ', ' ', at->a);
    if (at->b > MAX_INDENT) return true;
    uint32_t next = node_make(v, NODE_SPACE, at->a, at->b + 1, 0);
    return node_edge(v, '\t', '\t', next) && node_edge(v, ' ', ' ', next);
}

static bool expand_kind(struct value_nodes *v, uint32_t node) {
    struct value_node at = v->nodes[node];
    switch (at.kind) {
    case NODE_END: v->is_final = true; return true;
    case NODE_SET: return expand_set(v, at.a);
    case NODE_TEXT: return expand_text(v, &at);
    case NODE_NUMBER: return expand_number(v, &at);
    case NODE_QUOTE: return node_edge(v, '"', '"', node_make(v, NODE_STRING, at.a, 0, 0));
    case NODE_SPACE: return expand_space(v, &at);
    case NODE_STRING:
    case NODE_KEY:
    case NODE_RAW:
    case NODE_ESCAPE:
    case NODE_HEX:
    case NODE_LOW_MARK:
    case NODE_LOW:
    case NODE_ANY_BYTES:
    case NODE_ANY_HEX: return expand_characters(v, node);
    default: return expand_compound(v, node);
    }
}

/* ---- the source ---- */

static void *keep(struct value_nodes *v, const void *data, size_t n, size_t size) {
    void *copy = arena_alloc(&v->arena, (n + 1) * size);
    if (copy && n) memcpy(copy, data, n * size);
    return copy;
}

static bool expand(struct value_nodes *v, uint32_t node, struct mx_error *err) {
    v->n_edges = v->n_jumps = v->n_calls = 0;
    v->is_final = false;
    v->err = v->schema->err = err;
    if (!expand_kind(v, node))
        return err->code != ERROR_NONE ? false : error_set(err, ERROR_LIMIT, "JSON Schema: a dead end");
    struct node_edge *edges = keep(v, v->edges, v->n_edges, sizeof *edges);
    uint32_t *jumps = keep(v, v->jumps, v->n_jumps, sizeof *jumps);
    struct node_call *calls = keep(v, v->calls, v->n_calls, sizeof *calls);
    if (!edges || !jumps || !calls) return out_of_memory(v);
    struct value_node *at = &v->nodes[node];
    at->edges = edges;
    at->jumps = jumps;
    at->calls = calls;
    at->n_edges = (uint32_t)v->n_edges;
    at->n_jumps = (uint32_t)v->n_jumps;
    at->n_calls = (uint32_t)v->n_calls;
    at->is_final = v->is_final;
    at->is_ready = true;
    return true;
}

static bool look(void *context, uint32_t node, struct node_view *view, struct mx_error *err) {
    struct value_nodes *v = context;
    if (!v->nodes[node].is_ready && !expand(v, node, err)) return false;
    const struct value_node *at = &v->nodes[node];
    *view = (struct node_view){.edges = at->edges,
                               .jumps = at->jumps,
                               .calls = at->calls,
                               .n_edges = at->n_edges,
                               .n_jumps = at->n_jumps,
                               .n_calls = at->n_calls,
                               .is_final = at->is_final};
    return true;
}

/* In a string whose length is bounded, far from both bounds all places are alike. */
static uint32_t alike(void *context, uint32_t node, uint32_t longest) {
    struct value_nodes *v = context;
    struct value_node at = v->nodes[node];
    if (at.kind != NODE_STRING) return node;
    const struct spec *spec = &v->schema->specs[at.a];
    struct mx_error ignored = {0};
    if (spec->automaton || (spec->maximum != NO_LIMIT && spec->maximum - at.b <= longest)) return node;
    v->err = &ignored;
    uint32_t other = node;
    if (at.b >= spec->minimum)
        other = node_make(v, NODE_STRING, v->any_string, 0, 0);
    else if (spec->minimum - at.b > longest)
        other = node_make(v, NODE_STRING, at.a, 0, 0);
    return other == UINT32_MAX ? node : other;
}

static void destroy(void *context) {
    struct value_nodes *v = context;
    if (!v) return;
    schema_free(v->schema);
    map_free(&v->node_map);
    map_free(&v->object_map);
    map_free(&v->array_map);
    free(v->nodes);
    free(v->objects);
    free(v->arrays);
    free(v->edges);
    free(v->jumps);
    free(v->calls);
    arena_free(&v->arena);
    free(v);
}

/* Takes specs without any value out of the sets, so that they are not offered. */
static void drop_empty_specs(struct schema *s) {
    for (size_t i = 0; i < s->n_sets; i++)
        if (!s->sets[i].is_productive) s->sets[i].n_specs = 0;
}

bool value_nodes_source(struct schema *schema, struct node_source *source, struct mx_error *err) {
    struct value_nodes *v = calloc(1, sizeof *v);
    if (!v) {
        schema_free(schema);
        return error_memory(err, "JSON Schema");
    }
    v->schema = schema;
    v->err = err;
    drop_empty_specs(schema);
    *source = (struct node_source){.context = v, .look = look, .alike = alike, .destroy = destroy};
    size_t number = schema->n_specs;
    bool ok =
        array_reserve(&schema->specs, &schema->specs_capacity, number + 1, sizeof *schema->specs) || out_of_memory(v);
    if (ok) {
        schema->specs[schema->n_specs++] = (struct spec){.type = TYPE_STRING, .maximum = NO_LIMIT};
        v->any_string = (uint32_t)number;
        source->start = node_make(v, NODE_SET, schema->root_set, 0, 0);
        ok = source->start != UINT32_MAX;
    }
    if (!ok) destroy(v);
    return ok;
}
