/* SPDX-License-Identifier: Apache-2.0 */
#include "text/grammar/automaton.h"

#include "text/grammar/program.h"

#include "base/buffer.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

static const struct automaton *fail(struct mx_error *err) {
    error_memory(err, "automaton");
    return NULL;
}

/* ---- building ---- */

void automaton_builder_free(struct automaton_builder *b) {
    free(b->states);
    free(b->edges);
    *b = (struct automaton_builder){0};
}

bool automaton_add_state(struct automaton_builder *b, bool is_final, struct mx_error *err) {
    if (b->n_states >= AUTOMATON_MAX_STATES)
        return error_set(err, ERROR_LIMIT, "a pattern, length or number range needs over %d states",
                         AUTOMATON_MAX_STATES);
    if (!array_reserve(&b->states, &b->states_capacity, b->n_states + 1, sizeof *b->states))
        return error_memory(err, "automaton");
    b->states[b->n_states++] = (struct automaton_state){(uint32_t)b->n_edges, 0, is_final};
    return true;
}

bool automaton_add_edge(struct automaton_builder *b, uint32_t first, uint32_t last, uint32_t target,
                        struct mx_error *err) {
    struct automaton_state *state = &b->states[b->n_states - 1];
    struct automaton_edge *previous = state->n_edges ? &b->edges[b->n_edges - 1] : NULL;
    if (previous && previous->target == target && previous->last + 1 == first) {
        previous->last = last;
        return true;
    }
    if (b->n_edges >= 40 * (size_t)AUTOMATON_MAX_STATES)
        return error_set(err, ERROR_LIMIT, "a pattern needs over %d transitions", 40 * AUTOMATON_MAX_STATES);
    if (!array_reserve(&b->edges, &b->edges_capacity, b->n_edges + 1, sizeof *b->edges))
        return error_memory(err, "automaton");
    b->edges[b->n_edges++] = (struct automaton_edge){first, last, target};
    state->n_edges++;
    return true;
}

/* Marks the states from which a final one can be reached. */
static bool find_useful(const struct automaton_builder *b, uint8_t *useful) {
    size_t n = b->n_states;
    uint32_t *heads = array_alloc(n, sizeof *heads), *links = array_alloc(b->n_edges, sizeof *links);
    uint32_t *from = array_alloc(b->n_edges, sizeof *from), *queue = array_alloc(n, sizeof *queue);
    bool ok = heads && links && from && queue;
    size_t n_queue = 0;
    if (ok) memset(heads, 0xff, n * sizeof *heads);
    for (size_t s = 0; ok && s < n; s++) {
        for (uint32_t e = 0; e < b->states[s].n_edges; e++) {
            size_t edge = b->states[s].first_edge + e;
            from[edge] = (uint32_t)s;
            links[edge] = heads[b->edges[edge].target];
            heads[b->edges[edge].target] = (uint32_t)edge;
        }
        useful[s] = b->states[s].is_final != 0;
        if (useful[s]) queue[n_queue++] = (uint32_t)s;
    }
    for (size_t i = 0; ok && i < n_queue; i++) {
        for (uint32_t e = heads[queue[i]]; e != UINT32_MAX; e = links[e]) {
            if (useful[from[e]]) continue;
            useful[from[e]] = 1;
            queue[n_queue++] = from[e];
        }
    }
    free(heads);
    free(links);
    free(from);
    free(queue);
    return ok;
}

/* One round of refinement: states get the same new block when their old blocks and their edges by old block agree.
 * Returns the number of blocks, 0 when memory is out. */
static uint32_t refine(const struct automaton_builder *b, const uint8_t *useful, const uint32_t *old, uint32_t *block) {
    struct map map = {0};
    struct buffer keys = {0};
    size_t *starts = array_alloc(b->n_states + 1, sizeof *starts);
    uint32_t n_blocks = 0;
    bool ok = starts != NULL;
    for (size_t s = 0; ok && s < b->n_states; s++) {
        starts[s] = keys.length;
        if (!useful[s]) continue;
        buffer_append(&keys, &old[s], sizeof old[s]);
        struct automaton_edge joined = {1, 0, 0};
        for (uint32_t e = 0; e < b->states[s].n_edges; e++) {
            struct automaton_edge edge = b->edges[b->states[s].first_edge + e];
            if (!useful[edge.target]) continue;
            edge.target = old[edge.target];
            if (joined.first <= joined.last && joined.target == edge.target && joined.last + 1 == edge.first) {
                joined.last = edge.last;
                continue;
            }
            if (joined.first <= joined.last) buffer_append(&keys, &joined, sizeof joined);
            joined = edge;
        }
        if (joined.first <= joined.last) buffer_append(&keys, &joined, sizeof joined);
        ok = !keys.failed;
    }
    if (ok) starts[b->n_states] = keys.length;
    for (size_t s = 0; ok && s < b->n_states; s++) {
        if (!useful[s]) continue;
        uint64_t number;
        size_t length = starts[s + 1] - starts[s];
        if (!map_get(&map, keys.data + starts[s], length, &number)) {
            number = n_blocks++;
            ok = map_put(&map, keys.data + starts[s], length, number, NULL);
        }
        block[s] = (uint32_t)number;
    }
    map_free(&map);
    buffer_free(&keys);
    free(starts);
    return ok ? n_blocks : 0;
}

/* block[s] = number of the state in the minimal automaton, in no particular order. */
static bool minimise(const struct automaton_builder *b, const uint8_t *useful, uint32_t *block, uint32_t *n_blocks) {
    uint32_t *old = array_alloc(b->n_states, sizeof *old);
    if (!old) return false;
    for (size_t s = 0; s < b->n_states; s++) block[s] = b->states[s].is_final;
    *n_blocks = 0;
    /* Long chains need a round for each state: beyond this many the automaton is left as it is, which costs only size. */
    size_t budget = 2000000;
    for (;;) {
        memcpy(old, block, b->n_states * sizeof *old);
        uint32_t n = refine(b, useful, old, block);
        if (!n) {
            free(old);
            return false;
        }
        if (n == *n_blocks) break;
        *n_blocks = n;
        size_t cost = b->n_states + b->n_edges;
        if (budget < cost) {
            for (size_t s = 0; s < b->n_states; s++) block[s] = (uint32_t)s;
            *n_blocks = (uint32_t)b->n_states;
            break;
        }
        budget -= cost;
    }
    free(old);
    return true;
}

/* Numbers the blocks breadth-first from the start and writes the result. */
static struct automaton *write_out(struct arena *arena, const struct automaton_builder *b, const uint8_t *useful,
                                   const uint32_t *block, uint32_t n_blocks) {
    uint32_t *number = array_alloc(n_blocks, sizeof *number), *order = array_alloc(n_blocks, sizeof *order);
    struct automaton *a = arena_calloc(arena, 1, sizeof *a);
    struct automaton_state *states = arena_calloc(arena, (size_t)n_blocks + 1, sizeof *states);
    struct automaton_edge *edges = NULL;
    bool ok = number && order && a && states;
    uint32_t n = 0;
    size_t n_edges = 0;
    if (ok) {
        memset(number, 0xff, n_blocks * sizeof *number);
        number[block[0]] = 0;
        order[n++] = 0;
    }
    for (int pass = 0; ok && pass < 2; pass++) { /* count, then write */
        if (pass) ok = (edges = arena_calloc(arena, n_edges + 1, sizeof *edges)) != NULL;
        n_edges = 0;
        for (uint32_t i = 0; ok && i < n; i++) {
            const struct automaton_state *from = &b->states[order[i]];
            states[i] = (struct automaton_state){(uint32_t)n_edges, 0, from->is_final};
            struct automaton_edge last = {1, 0, 0};
            for (uint32_t e = 0; e < from->n_edges; e++) {
                struct automaton_edge edge = b->edges[from->first_edge + e];
                if (!useful[edge.target]) continue;
                uint32_t to = block[edge.target];
                if (number[to] == UINT32_MAX) {
                    number[to] = n;
                    order[n++] = edge.target;
                }
                edge.target = number[to];
                bool joins = states[i].n_edges && last.target == edge.target && last.last + 1 == edge.first;
                if (joins)
                    edge.first = last.first;
                else {
                    n_edges++;
                    states[i].n_edges++;
                }
                last = edge;
                if (pass) edges[n_edges - 1] = edge;
            }
        }
    }
    free(number);
    free(order);
    if (!ok) return NULL;
    *a = (struct automaton){n, (uint32_t)n_edges, states, edges};
    return a;
}

const struct automaton *automaton_finish(struct arena *arena, struct automaton_builder *b, struct mx_error *err) {
    uint8_t *useful = array_calloc(b->n_states, 1);
    uint32_t *block = array_alloc(b->n_states, sizeof *block), n_blocks;
    struct automaton *a = NULL;
    if (useful && block && find_useful(b, useful)) {
        if (!b->n_states || !useful[0])
            a = arena_calloc(arena, 1, sizeof *a);
        else if (minimise(b, useful, block, &n_blocks))
            a = write_out(arena, b, useful, block, n_blocks);
    }
    free(useful);
    free(block);
    automaton_builder_free(b);
    return a ? a : fail(err);
}

/* ---- from patterns: subsets of a program's nodes ---- */

struct subset_builder {
    const struct program *program;
    struct map map; /* subset to state */
    struct arena keys;
    uint32_t **subsets; /* of each state: [0] = count, then sorted nodes */
    size_t n_subsets, capacity;
    uint32_t *list, *sorted; /* [n_nodes] */
    uint8_t *seen;           /* [n_nodes] */
    size_t work;
};

static void visit(struct subset_builder *s, size_t *n, uint32_t node) {
    if (node == PROGRAM_NONE || s->program->nodes[node].is_dead || s->seen[node]) return;
    s->seen[node] = 1;
    s->list[(*n)++] = node;
}

static int compare_numbers(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* The state of the nodes visited so far and what they jump to; UINT32_MAX with the error set. */
static uint32_t close_subset(struct subset_builder *s, size_t n, struct mx_error *err) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        const struct program_node *node = &s->program->nodes[s->list[i]];
        if (node->kind == PROGRAM_SPLIT) {
            visit(s, &n, node->next);
            visit(s, &n, node->other);
        } else {
            s->sorted[kept++] = s->list[i];
        }
    }
    for (size_t i = 0; i < n; i++) s->seen[s->list[i]] = 0;
    if ((s->work += n) > 30000000) {
        error_set(err, ERROR_LIMIT, "a pattern is too complex");
        return UINT32_MAX;
    }
    qsort(s->sorted, kept, sizeof *s->sorted, compare_numbers);
    uint64_t found;
    if (map_get(&s->map, (const char *)s->sorted, kept * sizeof *s->sorted, &found)) return (uint32_t)found;
    if (s->n_subsets >= AUTOMATON_MAX_STATES) {
        error_set(err, ERROR_LIMIT, "a pattern needs over %d states", AUTOMATON_MAX_STATES);
        return UINT32_MAX;
    }
    uint32_t *copy = arena_calloc(&s->keys, kept + 1, sizeof *copy);
    if (!copy || !array_reserve(&s->subsets, &s->capacity, s->n_subsets + 1, sizeof *s->subsets)) {
        error_memory(err, "automaton");
        return UINT32_MAX;
    }
    copy[0] = (uint32_t)kept;
    if (kept) memcpy(copy + 1, s->sorted, kept * sizeof *copy);
    s->subsets[s->n_subsets] = copy;
    if (!map_put(&s->map, (const char *)(copy + 1), kept * sizeof *copy, s->n_subsets, NULL)) {
        error_memory(err, "automaton");
        return UINT32_MAX;
    }
    return (uint32_t)s->n_subsets++;
}

/* Where the edges of a subset begin and end, sorted. */
static bool find_cuts(const struct subset_builder *s, const uint32_t *subset, uint32_t **cuts, size_t *capacity,
                      size_t *n) {
    *n = 0;
    for (uint32_t i = 1; i <= subset[0]; i++) {
        const struct program_node *node = &s->program->nodes[subset[i]];
        if (node->kind != PROGRAM_EDGES) continue;
        if (!array_reserve(cuts, capacity, *n + 2 * (size_t)node->n_edges, sizeof **cuts)) return false;
        for (uint32_t e = 0; e < node->n_edges; e++) {
            (*cuts)[(*n)++] = s->program->edges[node->first_edge + e].first;
            (*cuts)[(*n)++] = s->program->edges[node->first_edge + e].last + 1;
        }
    }
    if (!*n) return true;
    qsort(*cuts, *n, sizeof **cuts, compare_numbers);
    size_t kept = 1;
    for (size_t i = 1; i < *n; i++)
        if ((*cuts)[i] != (*cuts)[kept - 1]) (*cuts)[kept++] = (*cuts)[i];
    *n = kept;
    return true;
}

static bool add_subset_edges(struct subset_builder *s, struct automaton_builder *b, const uint32_t *subset,
                             const uint32_t *cuts, size_t n_cuts, struct mx_error *err) {
    for (size_t c = 0; c + 1 < n_cuts; c++) {
        size_t n = 0;
        for (uint32_t i = 1; i <= subset[0]; i++) {
            const struct program_node *node = &s->program->nodes[subset[i]];
            if (node->kind != PROGRAM_EDGES) continue;
            for (uint32_t e = 0; e < node->n_edges; e++) {
                const struct program_edge *edge = &s->program->edges[node->first_edge + e];
                if (edge->first <= cuts[c] && cuts[c] <= edge->last) visit(s, &n, edge->target);
            }
            s->work += node->n_edges;
        }
        if (!n) continue;
        uint32_t target = close_subset(s, n, err);
        if (target == UINT32_MAX || !automaton_add_edge(b, cuts[c], cuts[c + 1] - 1, target, err)) return false;
    }
    return true;
}

static bool determinise(struct subset_builder *s, struct automaton_builder *b, struct mx_error *err) {
    const struct program *p = s->program;
    s->list = array_alloc(p->n_nodes, sizeof *s->list);
    s->sorted = array_alloc(p->n_nodes, sizeof *s->sorted);
    s->seen = array_calloc(p->n_nodes, 1);
    if (!s->list || !s->sorted || !s->seen) return error_memory(err, "automaton");
    size_t n = 0, n_cuts = 0, capacity = 0;
    uint32_t *cuts = NULL;
    visit(s, &n, p->starts[0]);
    bool ok = close_subset(s, n, err) != UINT32_MAX;
    for (size_t i = 0; ok && i < s->n_subsets; i++) {
        const uint32_t *subset = s->subsets[i];
        bool is_final = false;
        for (uint32_t k = 1; k <= subset[0]; k++) is_final = is_final || p->nodes[subset[k]].kind == PROGRAM_FINAL;
        ok = automaton_add_state(b, is_final, err) &&
             (find_cuts(s, subset, &cuts, &capacity, &n_cuts) || error_memory(err, "automaton")) &&
             add_subset_edges(s, b, subset, cuts, n_cuts, err);
    }
    free(cuts);
    return ok;
}

const struct automaton *automaton_from_pattern(struct arena *arena, const struct pattern *pattern,
                                               struct mx_error *err) {
    struct grammar_rules rules = {.bodies = &pattern, .n = 1};
    struct program program;
    struct mx_error local = {0};
    if (!program_compile(&program, &rules, false, &local)) {
        if (local.code == ERROR_FORMAT) return arena_calloc(arena, 1, sizeof(struct automaton)); /* matches nothing */
        *err = local;
        return NULL;
    }
    struct subset_builder s = {.program = &program};
    struct automaton_builder b = {0};
    bool ok = determinise(&s, &b, err);
    map_free(&s.map);
    arena_free(&s.keys);
    free(s.subsets);
    free(s.list);
    free(s.sorted);
    free(s.seen);
    program_free(&program);
    if (ok) return automaton_finish(arena, &b, err);
    automaton_builder_free(&b);
    return NULL;
}

const struct automaton *automaton_from_texts(struct arena *arena, const char *const *texts, const size_t *lengths,
                                             size_t n, struct mx_error *err) {
    struct arena scratch = {0};
    const struct pattern **items = arena_calloc(&scratch, n + 1, sizeof *items);
    bool ok = items != NULL;
    for (size_t i = 0; ok && i < n; i++) ok = (items[i] = pattern_text(&scratch, texts[i], lengths[i])) != NULL;
    const struct pattern *p = ok ? pattern_list(&scratch, PATTERN_CHOICE, items, n) : NULL;
    const struct automaton *a = p ? automaton_from_pattern(arena, p, err) : fail(err);
    arena_free(&scratch);
    return a;
}

static bool add_any_edges(struct automaton_builder *b, uint32_t target, struct mx_error *err) {
    return automaton_add_edge(b, 0, 0xd7ff, target, err) && automaton_add_edge(b, 0xe000, CODE_POINT_MAX, target, err);
}

const struct automaton *automaton_any(struct arena *arena, struct mx_error *err) {
    struct automaton_builder b = {0};
    if (automaton_add_state(&b, true, err) && add_any_edges(&b, 0, err)) return automaton_finish(arena, &b, err);
    automaton_builder_free(&b);
    return NULL;
}

const struct automaton *automaton_length(struct arena *arena, uint32_t minimum, uint32_t maximum,
                                         struct mx_error *err) {
    struct automaton_builder b = {0};
    uint32_t last = maximum == PATTERN_NO_LIMIT ? minimum : maximum;
    bool ok = true;
    for (uint32_t i = 0; ok && i <= last; i++) {
        ok = automaton_add_state(&b, i >= minimum && i <= maximum, err);
        if (ok && i < last) ok = add_any_edges(&b, i + 1, err);
        if (ok && i == last && maximum == PATTERN_NO_LIMIT) ok = add_any_edges(&b, i, err);
    }
    if (ok) return automaton_finish(arena, &b, err);
    automaton_builder_free(&b);
    return NULL;
}

/* ---- two automata side by side ---- */

struct pairs {
    struct map map;
    struct arena keys;
    uint32_t (*list)[2];
    size_t n, capacity;
};

static uint32_t pair_number(struct pairs *p, uint32_t a, uint32_t b, struct mx_error *err) {
    uint32_t pair[2] = {a, b};
    uint64_t found;
    if (map_get(&p->map, (const char *)pair, sizeof pair, &found)) return (uint32_t)found;
    char *key = arena_copy(&p->keys, (const char *)pair, sizeof pair);
    if (!key || !array_reserve(&p->list, &p->capacity, p->n + 1, sizeof *p->list) ||
        !map_put(&p->map, key, sizeof pair, p->n, NULL)) {
        error_memory(err, "automaton");
        return UINT32_MAX;
    }
    memcpy(p->list[p->n], pair, sizeof pair);
    return (uint32_t)p->n++;
}

static bool combines(bool a, bool b, enum automaton_operation operation) {
    return operation == AUTOMATON_AND ? a && b : operation == AUTOMATON_OR ? a || b : a && !b;
}

/* Edges of one pair of states: both lists are walked along in ascending order. */
static bool add_pair_edges(struct pairs *p, struct automaton_builder *builder, const struct automaton *a, uint32_t x,
                           const struct automaton *b, uint32_t y, enum automaton_operation operation,
                           struct mx_error *err) {
    const struct automaton_edge *i = NULL, *j = NULL, *i_end = NULL, *j_end = NULL;
    if (x != AUTOMATON_DEAD) i_end = (i = a->edges + a->states[x].first_edge) + a->states[x].n_edges;
    if (y != AUTOMATON_DEAD) j_end = (j = b->edges + b->states[y].first_edge) + b->states[y].n_edges;
    for (uint32_t at = 0; i < i_end || j < j_end;) {
        uint32_t to_x = AUTOMATON_DEAD, to_y = AUTOMATON_DEAD, end = UINT32_MAX;
        if (i < i_end) {
            if (i->first <= at) to_x = i->target;
            end = i->first <= at ? i->last + 1 : i->first;
        }
        if (j < j_end) {
            uint32_t bound = j->first <= at ? j->last + 1 : j->first;
            if (j->first <= at) to_y = j->target;
            if (bound < end) end = bound;
        }
        bool is_live = operation == AUTOMATON_AND  ? to_x != AUTOMATON_DEAD && to_y != AUTOMATON_DEAD
                       : operation == AUTOMATON_OR ? to_x != AUTOMATON_DEAD || to_y != AUTOMATON_DEAD
                                                   : to_x != AUTOMATON_DEAD;
        if (is_live) {
            uint32_t target = pair_number(p, to_x, to_y, err);
            if (target == UINT32_MAX || !automaton_add_edge(builder, at, end - 1, target, err)) return false;
        }
        at = end;
        if (i < i_end && i->last < at) i++;
        if (j < j_end && j->last < at) j++;
    }
    return true;
}

static bool is_final(const struct automaton *a, uint32_t state) {
    return state != AUTOMATON_DEAD && a->states[state].is_final;
}

const struct automaton *automaton_combine(struct arena *arena, const struct automaton *a, const struct automaton *b,
                                          enum automaton_operation operation, struct mx_error *err) {
    struct pairs p = {0};
    struct automaton_builder builder = {0};
    bool ok = pair_number(&p, a->n_states ? 0 : AUTOMATON_DEAD, b->n_states ? 0 : AUTOMATON_DEAD, err) != UINT32_MAX;
    for (size_t i = 0; ok && i < p.n; i++) {
        uint32_t x = p.list[i][0], y = p.list[i][1];
        ok = automaton_add_state(&builder, combines(is_final(a, x), is_final(b, y), operation), err) &&
             add_pair_edges(&p, &builder, a, x, b, y, operation, err);
    }
    map_free(&p.map);
    arena_free(&p.keys);
    free(p.list);
    if (ok) return automaton_finish(arena, &builder, err);
    automaton_builder_free(&builder);
    return NULL;
}

bool automaton_is_any(const struct automaton *a) {
    return a->n_states == 1 && a->states[0].is_final && a->n_edges == 2 && a->edges[0].first == 0 &&
           a->edges[0].last == 0xd7ff && a->edges[1].first == 0xe000 && a->edges[1].last == CODE_POINT_MAX;
}

uint32_t automaton_step(const struct automaton *a, uint32_t state, uint32_t code_point) {
    if (state == AUTOMATON_DEAD) return state;
    const struct automaton_edge *edges = a->edges + a->states[state].first_edge;
    uint32_t low = 0, high = a->states[state].n_edges;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (edges[middle].last < code_point)
            low = middle + 1;
        else
            high = middle;
    }
    return low < a->states[state].n_edges && edges[low].first <= code_point ? edges[low].target : AUTOMATON_DEAD;
}

bool automaton_matches(const struct automaton *a, const char *text, size_t length) {
    uint32_t state = a->n_states ? 0 : AUTOMATON_DEAD;
    for (size_t at = 0; at < length;) {
        uint32_t code_point;
        size_t step = utf8_decode(text + at, length - at, &code_point);
        if (!step) return false;
        at += step;
        state = automaton_step(a, state, code_point);
    }
    return is_final(a, state);
}
