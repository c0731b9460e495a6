/* SPDX-License-Identifier: Apache-2.0 */
/* Deterministic automata over code points: the strings, keys and numerals of JSON Schema.
 *
 * An automaton is trimmed (from every state the end can be reached), minimal and numbered in the order of a breadth-first
 * walk, so that two automata for the same language are equal byte for byte. State 0 is the start; an automaton without
 * states accepts nothing. Everything lies in the caller's arena. */
#ifndef MLXCEL_TEXT_GRAMMAR_AUTOMATON_H
#define MLXCEL_TEXT_GRAMMAR_AUTOMATON_H

#include "text/grammar/pattern.h"

enum { AUTOMATON_DEAD = UINT32_MAX, AUTOMATON_MAX_STATES = 50000 };

struct automaton_edge {
    uint32_t first, last, target; /* sorted, without overlap; adjacent edges have different targets */
};

struct automaton_state {
    uint32_t first_edge, n_edges;
    uint32_t is_final;
};

struct automaton {
    uint32_t n_states, n_edges;
    const struct automaton_state *states;
    const struct automaton_edge *edges;
};

enum automaton_operation { AUTOMATON_AND, AUTOMATON_OR, AUTOMATON_WITHOUT };

/* All return NULL with the error set. The pattern must hold no rules. */
const struct automaton *automaton_from_pattern(struct arena *arena, const struct pattern *pattern,
                                               struct mx_error *err);
/* n texts (UTF-8). */
const struct automaton *automaton_from_texts(struct arena *arena, const char *const *texts, const size_t *lengths,
                                             size_t n, struct mx_error *err);
/* Every text. */
const struct automaton *automaton_any(struct arena *arena, struct mx_error *err);
/* Texts of minimum to maximum code points (PATTERN_NO_LIMIT = no maximum). */
const struct automaton *automaton_length(struct arena *arena, uint32_t minimum, uint32_t maximum, struct mx_error *err);
const struct automaton *automaton_combine(struct arena *arena, const struct automaton *a, const struct automaton *b,
                                          enum automaton_operation operation, struct mx_error *err);
bool automaton_is_any(const struct automaton *a);
uint32_t automaton_step(const struct automaton *a, uint32_t state, uint32_t code_point);
bool automaton_matches(const struct automaton *a, const char *text, size_t length);

/* ---- building ---- */

/* States are added in any order, edges to the state that was added last. */
struct automaton_builder {
    struct automaton_state *states;
    size_t n_states, states_capacity;
    struct automaton_edge *edges;
    size_t n_edges, edges_capacity;
};

/* Adds a state; false when memory is out or there are too many (the error tells which). */
bool automaton_add_state(struct automaton_builder *builder, bool is_final, struct mx_error *err);
/* Edges of a state are added in ascending order. */
bool automaton_add_edge(struct automaton_builder *builder, uint32_t first, uint32_t last, uint32_t target,
                        struct mx_error *err);
/* Trims, minimises, numbers; the start is state 0. Empties the builder. */
const struct automaton *automaton_finish(struct arena *arena, struct automaton_builder *builder, struct mx_error *err);
void automaton_builder_free(struct automaton_builder *builder);

#endif
