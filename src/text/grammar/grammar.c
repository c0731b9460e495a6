/* SPDX-License-Identifier: Apache-2.0 */
#include "text/grammar/grammar.h"

#include "text/grammar/program.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* ---- programs as sources of nodes ---- */

struct place {
    uint32_t jumps[2];
    struct node_call call;
    uint32_t first_edge;
    uint32_t n_edges;
    uint8_t n_jumps, n_calls;
    bool is_final;
};

struct program_places {
    struct place *places;
    struct node_edge *edges;
    size_t n_places;
};

static bool look_at_place(void *context, uint32_t node, struct node_view *view, struct mx_error *err) {
    const struct program_places *all = context;
    (void)err;
    const struct place *place = &all->places[node];
    *view = (struct node_view){.edges = all->edges + place->first_edge,
                               .jumps = place->jumps,
                               .calls = &place->call,
                               .n_edges = place->n_edges,
                               .n_jumps = place->n_jumps,
                               .n_calls = place->n_calls,
                               .is_final = place->is_final};
    return true;
}

static void destroy_places(void *context) {
    struct program_places *all = context;
    if (!all) return;
    free(all->places);
    free(all->edges);
    free(all);
}

static bool is_alive(const struct program *p, uint32_t node) { return node != PROGRAM_NONE && !p->nodes[node].is_dead; }

/* Copies what is alive. */
static void fill_places(const struct program *p, struct program_places *all) {
    size_t n_edges = 0;
    for (size_t i = 0; i < p->n_nodes; i++) {
        const struct program_node *node = &p->nodes[i];
        struct place *place = &all->places[i];
        place->first_edge = (uint32_t)n_edges;
        place->is_final = node->kind == PROGRAM_FINAL;
        if (node->kind == PROGRAM_SPLIT) {
            if (is_alive(p, node->next)) place->jumps[place->n_jumps++] = node->next;
            if (is_alive(p, node->other)) place->jumps[place->n_jumps++] = node->other;
        }
        if (node->kind == PROGRAM_CALL && !node->is_dead) {
            place->call = (struct node_call){p->starts[node->other], node->next};
            place->n_calls = 1;
        }
        if (node->kind != PROGRAM_EDGES) continue;
        for (uint32_t e = 0; e < node->n_edges; e++) {
            struct program_edge edge = p->edges[node->first_edge + e];
            if (is_alive(p, edge.target))
                all->edges[n_edges++] = (struct node_edge){edge.first, edge.last, edge.target};
        }
        place->n_edges = (uint32_t)n_edges - place->first_edge;
    }
}

struct grammar *grammar_from_rules(const struct grammar_rules *rules, struct mx_error *err) {
    struct program program;
    if (!program_compile(&program, rules, true, err)) return NULL;
    struct program_places *all = calloc(1, sizeof *all);
    if (all) {
        all->n_places = program.n_nodes;
        all->places = array_calloc(program.n_nodes, sizeof *all->places);
        all->edges = array_alloc(program.n_edges, sizeof *all->edges);
    }
    if (!all || !all->places || !all->edges) {
        destroy_places(all);
        program_free(&program);
        error_memory(err, "grammar");
        return NULL;
    }
    fill_places(&program, all);
    struct node_source source = {
        .context = all, .look = look_at_place, .destroy = destroy_places, .start = program.starts[program.root]};
    program_free(&program);
    return grammar_create(&source, err);
}

/* ---- grammars ---- */

struct grammar *grammar_create(const struct node_source *source, struct mx_error *err) {
    struct grammar *g = calloc(1, sizeof *g);
    if (!g) {
        source->destroy(source->context);
        error_memory(err, "grammar");
        return NULL;
    }
    if ((g->machine = machine_create(source, err))) return g;
    free(g);
    return NULL;
}

void grammar_destroy(struct grammar *g) {
    if (!g) return;
    mask_cache_destroy(g->masks);
    machine_destroy(g->machine);
    free(g);
}

const struct mx_error *grammar_failure(const struct grammar *g) { return machine_failure(g->machine); }

static bool check_size(size_t length, struct mx_error *err) {
    return length <= GRAMMAR_MAX_BYTES ||
           error_set(err, ERROR_LIMIT, "the grammar has %zu bytes, at most %d are read", length, GRAMMAR_MAX_BYTES);
}

struct grammar *grammar_from_gbnf(const char *text, size_t length, struct mx_error *err) {
    struct arena arena = {0};
    struct grammar_rules rules;
    struct grammar *g = NULL;
    if (check_size(length, err) && gbnf_parse(&arena, text, length, &rules, err)) g = grammar_from_rules(&rules, err);
    arena_free(&arena);
    return g;
}

static struct grammar *from_pattern(const struct pattern *pattern, struct mx_error *err) {
    struct grammar_rules rules = {.bodies = &pattern, .n = 1};
    return pattern ? grammar_from_rules(&rules, err) : NULL;
}

struct grammar *grammar_from_regex(const char *text, size_t length, struct mx_error *err) {
    struct arena arena = {0};
    struct grammar *g = NULL;
    if (check_size(length, err)) g = from_pattern(regex_parse(&arena, text, length, 0, err), err);
    arena_free(&arena);
    return g;
}

struct grammar *grammar_from_choices(const char *const *choices, size_t n, struct mx_error *err) {
    struct arena arena = {0};
    struct grammar *g = NULL;
    const struct pattern **items = arena_calloc(&arena, n + 1, sizeof *items);
    bool ok = items || error_memory(err, "choices");
    if (ok && !n) ok = error_set(err, ERROR_USAGE, "there is nothing to choose from");
    for (size_t i = 0; ok && i < n; i++) {
        size_t length = strlen(choices[i]);
        if (utf8_valid_prefix(choices[i], length) != length)
            ok = error_set(err, ERROR_FORMAT, "choice %zu is not UTF-8", i + 1);
        else
            ok = (items[i] = pattern_text(&arena, choices[i], length)) || error_memory(err, "choices");
    }
    const struct pattern *pattern = ok ? pattern_list(&arena, PATTERN_CHOICE, items, n) : NULL;
    if (ok && !pattern) ok = error_memory(err, "choices");
    if (ok) g = from_pattern(pattern, err);
    arena_free(&arena);
    return g;
}

/* ---- matchers ---- */

const char *grammar_verdict_name(enum grammar_verdict verdict) {
    static const char *const names[] = {"reject", "incomplete", "accept"};
    return names[verdict];
}

static void move_to(struct matcher *matcher, uint32_t state) {
    machine_hold(matcher->grammar->machine, state);
    machine_release(matcher->grammar->machine, matcher->state);
    matcher->state = state;
}

bool matcher_init(struct matcher *matcher, struct grammar *grammar) {
    *matcher = (struct matcher){grammar, machine_start(grammar->machine)};
    machine_hold(grammar->machine, matcher->state);
    return matcher->state != STATE_DEAD;
}

void matcher_copy(struct matcher *copy, const struct matcher *matcher) {
    *copy = *matcher;
    machine_hold(copy->grammar->machine, copy->state);
}

void matcher_free(struct matcher *matcher) {
    if (matcher->grammar) machine_release(matcher->grammar->machine, matcher->state);
    *matcher = (struct matcher){0};
}

enum grammar_verdict matcher_verdict(const struct matcher *matcher) {
    if (matcher->state == STATE_DEAD) return GRAMMAR_REJECT;
    return machine_accepts(matcher->grammar->machine, matcher->state) ? GRAMMAR_ACCEPT : GRAMMAR_INCOMPLETE;
}

enum grammar_verdict matcher_push(struct matcher *matcher, const char *bytes, size_t length) {
    struct machine *m = matcher->grammar->machine;
    uint32_t state = matcher->state;
    for (size_t i = 0; i < length && state != STATE_DEAD; i++) {
        state = machine_step(m, state, (uint8_t)bytes[i]);
        if (i % 4096 != 4095) continue;
        move_to(matcher, state);
        machine_tidy(m);
    }
    move_to(matcher, state);
    return matcher_verdict(matcher);
}

bool matcher_is_complete(const struct matcher *matcher) {
    uint32_t n_items;
    machine_items(matcher->grammar->machine, matcher->state, &n_items);
    return !n_items && matcher_verdict(matcher) == GRAMMAR_ACCEPT;
}
