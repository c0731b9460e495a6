/* SPDX-License-Identifier: Apache-2.0 */
/* The specs of a schema as nodes of a recogniser, made one by one when the recogniser comes to them. */
#ifndef MLXCEL_TEXT_GRAMMAR_SCHEMA_NODES_H
#define MLXCEL_TEXT_GRAMMAR_SCHEMA_NODES_H

#include "text/grammar/machine.h"
#include "text/grammar/schema.h"

enum value_node_kind {
    NODE_END,          /* returns */
    NODE_SET,          /* a: set; any value of it */
    NODE_TEXT,         /* a: spec of null, true or false, b: position */
    NODE_NUMBER,       /* a: spec, b: state */
    NODE_QUOTE,        /* a: spec; in front of a string */
    NODE_STRING,       /* a: spec, b: state, or number of code points so far */
    NODE_OBJECT_OPEN,  /* a: spec */
    NODE_OBJECT_FIRST, /* a: object state; behind { */
    NODE_OBJECT_NEXT,  /* a: object state; behind a value */
    NODE_OBJECT_KEY,   /* a: object state; behind , */
    NODE_OBJECT_CLOSE,
    NODE_KEY,         /* a: object state, b: key state */
    NODE_COLON,       /* a: object state behind the key, b: set of its value */
    NODE_VALUE,       /* the same, behind the colon */
    NODE_ARRAY_OPEN,  /* a: spec */
    NODE_ARRAY_FIRST, /* a: array state; behind [ */
    NODE_ARRAY_NEXT,  /* a: array state; behind an item */
    NODE_ARRAY_ITEM,  /* a: array state; behind , */
    NODE_ARRAY_CLOSE,
    NODE_SPACE, /* a: node that follows, b: characters so far, c: 1 = on one line */
    /* within a character of a string or key; a: the node in front of it, b: code point so far, c: what is left */
    NODE_RAW,      /* c continuation bytes */
    NODE_ESCAPE,   /* behind a backslash */
    NODE_HEX,      /* c hex digits of \u */
    NODE_LOW_MARK, /* b: first code point of the high surrogate's block, c: 2 = backslash, 1 = u */
    NODE_LOW,      /* c hex digits of a low surrogate */
    /* a: node that follows, c: bytes or digits left, whatever they are */
    NODE_ANY_BYTES,
    NODE_ANY_HEX,
};

struct value_node {
    uint8_t kind;
    bool is_ready, is_final, has_code_edges;
    uint32_t a, b, c;
    uint32_t n_edges, n_jumps, n_calls, n_code_edges;
    const struct node_edge *edges;
    const uint32_t *jumps;
    const struct node_call *calls;
    const struct automaton_edge *code_edges; /* of strings and keys: targets are nodes */
};

/* Where an object stands. */
struct object_state {
    uint32_t spec;
    uint32_t satisfied;  /* bits of the exists conditions that are met */
    uint64_t count;      /* properties so far, as far as it matters */
    uint32_t n_required; /* names that are still missing */
    uint64_t *seen;      /* a bit for each name */
};

struct array_state {
    uint32_t spec;
    uint32_t padding;
    uint64_t index; /* items so far, as far as it matters */
    uint64_t counts[MAX_CONTAINS];
};

struct value_nodes {
    struct schema *schema;
    struct arena arena;
    struct value_node *nodes;
    size_t n_nodes, nodes_capacity;
    struct map node_map;
    struct object_state *objects;
    size_t n_objects, objects_capacity;
    struct map object_map;
    struct array_state *arrays;
    size_t n_arrays, arrays_capacity;
    struct map array_map;
    uint32_t any_string; /* spec of all strings */
    /* the node that is being expanded */
    struct node_edge *edges;
    size_t n_edges, edges_capacity;
    uint32_t *jumps;
    size_t n_jumps, jumps_capacity;
    struct node_call *calls;
    size_t n_calls, calls_capacity;
    bool is_final;
    struct mx_error *err;
};

/* The node's number; UINT32_MAX with the error set. */
uint32_t node_make(struct value_nodes *v, enum value_node_kind kind, uint32_t a, uint32_t b, uint32_t c);
/* A node for optional white space in front of another. */
uint32_t node_space(struct value_nodes *v, uint32_t target);
/* For the node that is being expanded; false with the error set (also for target = UINT32_MAX). */
bool node_edge(struct value_nodes *v, uint32_t first, uint32_t last, uint32_t target);
bool node_jump(struct value_nodes *v, uint32_t target);
bool node_call(struct value_nodes *v, uint32_t start, uint32_t next);

/* schema_strings.c: nodes of strings and keys, and within their characters */
bool expand_characters(struct value_nodes *v, uint32_t node);
/* schema_values.c: nodes of arrays and objects */
bool expand_compound(struct value_nodes *v, uint32_t node);
bool key_code_edges(struct value_nodes *v, uint32_t node, struct automaton_edge **edges, size_t *n);
bool key_close(struct value_nodes *v, uint32_t node);

/* Takes the schema over. False with the error set (the schema is freed then too). */
bool value_nodes_source(struct schema *schema, struct node_source *source, struct mx_error *err);
void schema_free(struct schema *schema);

#endif
