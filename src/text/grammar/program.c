/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns to nodes. A pattern is compiled backwards: what follows it is known first. */
#include "text/grammar/program.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

struct compiler {
    struct program *program;
    const struct grammar_rules *rules;
    struct mx_error *err;
    struct program_edge *edges; /* of the nodes that are being made */
    size_t n_edges, capacity;
};

static uint32_t add_node(struct compiler *c, enum program_kind kind, uint32_t next, uint32_t other) {
    struct program *p = c->program;
    if (p->n_nodes >= PROGRAM_MAX_NODES) {
        error_set(c->err, ERROR_LIMIT, "the grammar is too large: repetitions and classes need over %d nodes",
                  PROGRAM_MAX_NODES);
        return PROGRAM_NONE;
    }
    if (!array_reserve(&p->nodes, &p->nodes_capacity, p->n_nodes + 1, sizeof *p->nodes)) {
        error_memory(c->err, "grammar");
        return PROGRAM_NONE;
    }
    p->nodes[p->n_nodes] = (struct program_node){.kind = (uint8_t)kind, .next = next, .other = other};
    return (uint32_t)p->n_nodes++;
}

static bool add_edge(struct compiler *c, uint32_t first, uint32_t last, uint32_t target) {
    if (target == PROGRAM_NONE) return false;
    if (!array_reserve(&c->edges, &c->capacity, c->n_edges + 1, sizeof *c->edges))
        return error_memory(c->err, "grammar");
    c->edges[c->n_edges++] = (struct program_edge){first, last, target};
    return true;
}

/* Makes a node of the edges from `base` on, and takes them off the list. */
static uint32_t seal(struct compiler *c, size_t base) {
    struct program *p = c->program;
    size_t n = c->n_edges - base;
    uint32_t node = add_node(c, PROGRAM_EDGES, PROGRAM_NONE, PROGRAM_NONE);
    if (node == PROGRAM_NONE) return PROGRAM_NONE;
    if (p->n_edges + n > UINT32_MAX ||
        !array_reserve(&p->edges, &p->edges_capacity, p->n_edges + n, sizeof *p->edges)) {
        error_memory(c->err, "grammar");
        return PROGRAM_NONE;
    }
    if (n) memcpy(p->edges + p->n_edges, c->edges + base, n * sizeof *p->edges);
    p->nodes[node].first_edge = (uint32_t)p->n_edges;
    p->nodes[node].n_edges = (uint32_t)n;
    p->n_edges += n;
    c->n_edges = base;
    return node;
}

/* ---- UTF-8 ---- */

static const uint32_t UTF8_FIRST[5] = {0, 0, 0x80, 0x800, 0x10000};
static const uint32_t UTF8_LAST[5] = {0, 0x7f, 0x7ff, 0xffff, 0x10ffff};
static const uint32_t UTF8_LEAD[5] = {0, 0, 0xc0, 0xe0, 0xf0};

/* Nodes for any 1, 2 or 3 continuation bytes, made when needed. */
struct tails {
    uint32_t next;
    uint32_t any[4];
};

static uint32_t any_tail(struct compiler *c, struct tails *tails, int n_bytes) {
    if (!n_bytes) return tails->next;
    if (tails->any[n_bytes] == PROGRAM_NONE) {
        size_t base = c->n_edges;
        uint32_t rest = any_tail(c, tails, n_bytes - 1);
        if (!add_edge(c, 0x80, 0xbf, rest)) return PROGRAM_NONE;
        tails->any[n_bytes] = seal(c, base);
    }
    return tails->any[n_bytes];
}

/* Adds edges for the n_bytes-byte group [first, last] whose leading byte has `lead` set. Recursion is at most 4 deep. */
static bool add_bytes(struct compiler *c, struct tails *tails, uint32_t first, uint32_t last, int n_bytes,
                      uint32_t lead);

static uint32_t tail(struct compiler *c, struct tails *tails, uint32_t first, uint32_t last, int n_bytes) {
    uint32_t full = (1u << (6 * n_bytes)) - 1;
    if (first == 0 && last == full) return any_tail(c, tails, n_bytes);
    size_t base = c->n_edges;
    return add_bytes(c, tails, first, last, n_bytes, 0x80) ? seal(c, base) : PROGRAM_NONE;
}

static bool add_bytes(struct compiler *c, struct tails *tails, uint32_t first, uint32_t last, int n_bytes,
                      uint32_t lead) {
    int shift = 6 * (n_bytes - 1);
    uint32_t mask = (1u << shift) - 1, a = first >> shift, b = last >> shift;
    if (n_bytes == 1) return add_edge(c, lead | first, lead | last, tails->next);
    if (a == b) return add_edge(c, lead | a, lead | a, tail(c, tails, first & mask, last & mask, n_bytes - 1));
    if (first & mask) {
        if (!add_edge(c, lead | a, lead | a, tail(c, tails, first & mask, mask, n_bytes - 1))) return false;
        a++;
    }
    if ((last & mask) != mask) {
        if (!add_edge(c, lead | b, lead | b, tail(c, tails, 0, last & mask, n_bytes - 1))) return false;
        b--;
    }
    return a > b || add_edge(c, lead | a, lead | b, any_tail(c, tails, n_bytes - 1));
}

static uint32_t compile_class(struct compiler *c, const struct pattern *p, uint32_t next) {
    size_t base = c->n_edges;
    struct tails tails = {.next = next, .any = {PROGRAM_NONE, PROGRAM_NONE, PROGRAM_NONE, PROGRAM_NONE}};
    for (uint32_t i = 0; i < p->n; i++) {
        if (!c->program->is_bytes) {
            if (!add_edge(c, p->ranges[i].first, p->ranges[i].last, next)) return PROGRAM_NONE;
            continue;
        }
        for (int n = 1; n <= 4; n++) {
            uint32_t first = p->ranges[i].first > UTF8_FIRST[n] ? p->ranges[i].first : UTF8_FIRST[n];
            uint32_t last = p->ranges[i].last < UTF8_LAST[n] ? p->ranges[i].last : UTF8_LAST[n];
            if (first <= last && !add_bytes(c, &tails, first, last, n, UTF8_LEAD[n])) return PROGRAM_NONE;
        }
    }
    return seal(c, base);
}

/* ---- trees ---- */

static uint32_t compile(struct compiler *c, const struct pattern *p, uint32_t next);

static uint32_t compile_repeat(struct compiler *c, const struct pattern *p, uint32_t next) {
    uint32_t start = next;
    if (p->maximum == PATTERN_NO_LIMIT) {
        start = add_node(c, PROGRAM_SPLIT, PROGRAM_NONE, next);
        if (start == PROGRAM_NONE) return PROGRAM_NONE;
        uint32_t body = compile(c, p->item, start);
        if (body == PROGRAM_NONE) return PROGRAM_NONE;
        c->program->nodes[start].next = body;
    } else {
        for (uint32_t i = p->minimum; i < p->maximum; i++) {
            uint32_t body = compile(c, p->item, start);
            if (body == PROGRAM_NONE) return PROGRAM_NONE;
            if (body == start) break; /* the item is empty */
            if ((start = add_node(c, PROGRAM_SPLIT, body, next)) == PROGRAM_NONE) return PROGRAM_NONE;
        }
    }
    for (uint32_t i = 0; i < p->minimum; i++) {
        uint32_t body = compile(c, p->item, start);
        if (body == PROGRAM_NONE || body == start) return body;
        start = body;
    }
    return start;
}

/* The first node of p followed by `next`; PROGRAM_NONE with the error set. Recursion is bounded by the tree's depth. */
static uint32_t compile(struct compiler *c, const struct pattern *p, uint32_t next) {
    switch (p->kind) {
    case PATTERN_EMPTY: return next;
    case PATTERN_CLASS: return compile_class(c, p, next);
    case PATTERN_SEQUENCE:
        for (uint32_t i = p->n; i-- > 0 && next != PROGRAM_NONE;) next = compile(c, p->items[i], next);
        return next;
    case PATTERN_CHOICE: {
        uint32_t start = PROGRAM_NONE;
        for (uint32_t i = p->n; i-- > 0;) {
            uint32_t item = compile(c, p->items[i], next);
            if (item == PROGRAM_NONE) return PROGRAM_NONE;
            if ((start = add_node(c, PROGRAM_SPLIT, item, start)) == PROGRAM_NONE) return PROGRAM_NONE;
        }
        return start != PROGRAM_NONE ? start : add_node(c, PROGRAM_EDGES, PROGRAM_NONE, PROGRAM_NONE);
    }
    case PATTERN_REPEAT: return compile_repeat(c, p, next);
    case PATTERN_RULE: return add_node(c, PROGRAM_CALL, next, p->rule);
    case PATTERN_BEGIN: return add_node(c, PROGRAM_BEGIN, next, PROGRAM_NONE);
    case PATTERN_END: return add_node(c, PROGRAM_END, next, PROGRAM_NONE);
    }
    return PROGRAM_NONE;
}

/* ---- anchors ---- */

struct walk {
    uint32_t *list;
    uint8_t *seen;
    size_t n;
};

static bool walk_init(struct walk *w, size_t n_nodes) {
    w->list = array_alloc(n_nodes, sizeof *w->list);
    w->seen = array_calloc(n_nodes, 1);
    w->n = 0;
    return w->list && w->seen;
}

static void walk_free(struct walk *w) {
    free(w->list);
    free(w->seen);
}

static void visit(struct walk *w, uint32_t node) {
    if (node == PROGRAM_NONE || w->seen[node]) return;
    w->seen[node] = 1;
    w->list[w->n++] = node;
}

/* Collects what is reached without consuming anything, through the given anchors. */
static void reach(const struct program *p, struct walk *w, uint32_t from, bool begin, bool end) {
    w->n = 0;
    visit(w, from);
    for (size_t i = 0; i < w->n; i++) {
        const struct program_node *node = &p->nodes[w->list[i]];
        if (node->kind == PROGRAM_SPLIT) visit(w, node->other);
        if (node->kind == PROGRAM_SPLIT || (node->kind == PROGRAM_BEGIN && begin) || (node->kind == PROGRAM_END && end))
            visit(w, node->next);
    }
}

static bool reaches_final(const struct program *p, struct walk *w, uint32_t from, bool begin) {
    reach(p, w, from, begin, true);
    bool found = false;
    for (size_t i = 0; i < w->n; i++) {
        found = found || p->nodes[w->list[i]].kind == PROGRAM_FINAL;
        w->seen[w->list[i]] = 0;
    }
    return found;
}

/* Takes the anchors out of a program of one rule: what stands behind a BEGIN that is reached at the start becomes an
 * alternative of the start, an END that leads to the end without consuming becomes the end, all others match nothing. */
static bool resolve_anchors(struct compiler *c) {
    struct program *p = c->program;
    size_t n = p->n_nodes;
    bool any = false;
    for (size_t i = 0; i < n && !any; i++) any = p->nodes[i].kind == PROGRAM_BEGIN || p->nodes[i].kind == PROGRAM_END;
    if (!any) return true;
    struct walk w;
    bool ok = walk_init(&w, n) || error_memory(c->err, "grammar");
    uint32_t start = p->starts[0];
    bool accepts_empty = ok && reaches_final(p, &w, start, true);
    if (ok) reach(p, &w, start, true, false);
    size_t reached = w.n;
    for (size_t i = 0; ok && i < reached; i++) {
        struct program_node node = p->nodes[w.list[i]];
        if (node.kind == PROGRAM_BEGIN) ok = (start = add_node(c, PROGRAM_SPLIT, node.next, start)) != PROGRAM_NONE;
    }
    for (size_t i = 0; ok && i < reached; i++) w.seen[w.list[i]] = 0;
    if (ok && accepts_empty) {
        uint32_t final = add_node(c, PROGRAM_FINAL, PROGRAM_NONE, PROGRAM_NONE);
        ok = final != PROGRAM_NONE && (start = add_node(c, PROGRAM_SPLIT, final, start)) != PROGRAM_NONE;
    }
    /* Behind an END nothing is consumed, so one that finishes is as good as final. The sweep is over the nodes' order of
     * making, later ones first, in which few ENDs are looked through twice. */
    size_t steps = 0;
    for (size_t i = 0; ok && i < n; i++) {
        if (p->nodes[i].kind != PROGRAM_END) continue;
        bool finishes = reaches_final(p, &w, p->nodes[i].next, false);
        p->nodes[i].kind = finishes ? PROGRAM_FINAL : PROGRAM_EDGES;
        if ((steps += w.n) > 20u * PROGRAM_MAX_NODES) ok = error_set(c->err, ERROR_LIMIT, "too many anchors");
    }
    for (size_t i = 0; ok && i < n; i++)
        if (p->nodes[i].kind == PROGRAM_BEGIN) p->nodes[i].kind = PROGRAM_EDGES;
    p->starts[0] = start;
    walk_free(&w);
    return ok;
}

/* ---- checks ---- */

/* Marks the nodes from which the end of their rule can be reached, and in the end all others as dead. A node waits for
 * at most two things; who waits for a node is kept in lists. */
struct waiting {
    uint32_t *heads;           /* [n_nodes + n_rules] first entry of the node's or rule's list */
    uint32_t *entries, *links; /* node that waits, next entry */
    size_t n;
    uint32_t *queue;
    size_t n_queue;
};

static void wait_for(struct waiting *w, size_t thing, size_t node) {
    w->entries[w->n] = (uint32_t)node;
    w->links[w->n] = w->heads[thing];
    w->heads[thing] = (uint32_t)w->n++;
}

static bool is_alive(const struct program *p, uint32_t node) { return node != PROGRAM_NONE && !p->nodes[node].is_dead; }

static bool may_live(const struct program *p, const struct program_node *node) {
    if (node->kind == PROGRAM_CALL) return is_alive(p, node->next) && is_alive(p, p->starts[node->other]);
    return true; /* one live successor suffices, and it is what woke the node */
}

static void find_alive(struct program *p, struct waiting *w) {
    for (size_t i = 0; i < p->n_nodes; i++) {
        struct program_node *node = &p->nodes[i];
        node->is_dead = node->kind != PROGRAM_FINAL;
        if (!node->is_dead) w->queue[w->n_queue++] = (uint32_t)i;
        if (node->kind == PROGRAM_SPLIT || node->kind == PROGRAM_CALL) {
            if (node->next != PROGRAM_NONE) wait_for(w, node->next, i);
            uint32_t other = node->kind == PROGRAM_CALL ? p->starts[node->other] : node->other;
            if (other != PROGRAM_NONE) wait_for(w, other, i);
        }
        if (node->kind != PROGRAM_EDGES) continue;
        for (uint32_t e = 0; e < node->n_edges; e++) wait_for(w, p->edges[node->first_edge + e].target, i);
    }
    for (size_t i = 0; i < w->n_queue; i++) {
        for (uint32_t e = w->heads[w->queue[i]]; e != PROGRAM_NONE; e = w->links[e]) {
            struct program_node *node = &p->nodes[w->entries[e]];
            if (!node->is_dead || !may_live(p, node)) continue;
            node->is_dead = false;
            w->queue[w->n_queue++] = w->entries[e];
        }
    }
}

static bool mark_dead(struct compiler *c) {
    struct program *p = c->program;
    size_t n = p->n_nodes, n_waits = 2 * n + p->n_edges;
    struct waiting w = {.heads = array_alloc(n, sizeof *w.heads),
                        .entries = array_alloc(n_waits, sizeof *w.entries),
                        .links = array_alloc(n_waits, sizeof *w.links),
                        .queue = array_alloc(n, sizeof *w.queue)};
    bool ok = (w.heads && w.entries && w.links && w.queue) || error_memory(c->err, "grammar");
    if (ok) {
        memset(w.heads, 0xff, n * sizeof *w.heads);
        find_alive(p, &w);
        if (p->nodes[p->starts[p->root]].is_dead)
            ok = error_set(c->err, ERROR_FORMAT, "the grammar matches no text at all");
    }
    free(w.heads);
    free(w.entries);
    free(w.links);
    free(w.queue);
    return ok;
}

enum { MAX_STEPS = 50000000 };

/* Whether each rule can match the empty text: a fixed point, in alternating directions. */
static bool find_nullable(struct compiler *c, struct walk *w, uint8_t *nullable) {
    const struct program *p = c->program;
    size_t steps = 0;
    bool changed = true;
    for (bool backwards = true; changed; backwards = !backwards) {
        changed = false;
        for (uint32_t i_rule = 0; i_rule < p->n_rules; i_rule++) {
            uint32_t r = backwards ? p->n_rules - 1 - i_rule : i_rule;
            if (nullable[r]) continue;
            if ((steps += w->n + 1) > MAX_STEPS)
                return error_set(c->err, ERROR_LIMIT, "the grammar's rules refer to each other in too many ways");
            w->n = 0;
            visit(w, p->starts[r]);
            for (size_t i = 0; i < w->n; i++) {
                const struct program_node *node = &p->nodes[w->list[i]];
                if (node->kind == PROGRAM_FINAL) nullable[r] = 1;
                if (node->kind == PROGRAM_SPLIT) visit(w, node->other);
                if (node->kind == PROGRAM_SPLIT || (node->kind == PROGRAM_CALL && nullable[node->other]))
                    visit(w, node->next);
            }
            for (size_t i = 0; i < w->n; i++) w->seen[w->list[i]] = 0;
            changed = changed || nullable[r];
        }
    }
    return true;
}

/* Looks for a rule that calls itself before anything is consumed: depth-first over the rules' left calls. */
struct left {
    uint32_t *first, *calls; /* [n_rules + 1] where each rule's calls start */
    size_t n_calls, capacity;
};

static bool find_left_calls(const struct program *p, struct walk *w, const uint8_t *nullable, struct left *left) {
    for (uint32_t r = 0; r < p->n_rules; r++) {
        left->first[r] = (uint32_t)left->n_calls;
        w->n = 0;
        visit(w, p->starts[r]);
        for (size_t i = 0; i < w->n; i++) {
            const struct program_node *node = &p->nodes[w->list[i]];
            if (node->kind == PROGRAM_CALL) {
                if (!array_reserve(&left->calls, &left->capacity, left->n_calls + 1, sizeof *left->calls)) return false;
                left->calls[left->n_calls++] = node->other;
            }
            if (node->kind == PROGRAM_SPLIT) visit(w, node->other);
            if (node->kind == PROGRAM_SPLIT || (node->kind == PROGRAM_CALL && nullable[node->other]))
                visit(w, node->next);
        }
        for (size_t i = 0; i < w->n; i++) w->seen[w->list[i]] = 0;
    }
    left->first[p->n_rules] = (uint32_t)left->n_calls;
    return true;
}

/* A rule on a cycle, or PROGRAM_NONE. color: 0 new, 1 on the path, 2 done. */
static uint32_t find_cycle(const struct left *left, uint32_t n_rules, uint8_t *color, uint32_t *path,
                           uint32_t *position) {
    for (uint32_t r = 0; r < n_rules; r++) {
        if (color[r]) continue;
        size_t depth = 1;
        path[0] = r;
        position[r] = left->first[r];
        color[r] = 1;
        while (depth) {
            uint32_t at = path[depth - 1];
            if (position[at] == left->first[at + 1]) {
                color[at] = 2;
                depth--;
                continue;
            }
            uint32_t called = left->calls[position[at]++];
            if (color[called] == 1) return called;
            if (color[called]) continue;
            color[called] = 1;
            position[called] = left->first[called];
            path[depth++] = called;
        }
    }
    return PROGRAM_NONE;
}

static bool refuse_left_recursion(struct compiler *c) {
    struct program *p = c->program;
    struct walk w;
    struct left left = {.first = array_alloc((size_t)p->n_rules + 1, sizeof *left.first)};
    uint8_t *flags = array_calloc(2 * (size_t)p->n_rules, 1);
    uint32_t *lists = array_alloc(2 * (size_t)p->n_rules, sizeof *lists);
    bool ok = walk_init(&w, p->n_nodes) && left.first && flags && lists;
    if (!ok) error_memory(c->err, "grammar");
    ok = ok && find_nullable(c, &w, flags) && (find_left_calls(p, &w, flags, &left) || error_memory(c->err, "grammar"));
    uint32_t rule = ok ? find_cycle(&left, p->n_rules, flags + p->n_rules, lists, lists + p->n_rules) : PROGRAM_NONE;
    if (rule != PROGRAM_NONE) {
        const char *name = c->rules->names ? c->rules->names[rule] : NULL;
        ok = error_set(c->err, ERROR_UNSUPPORTED, "grammar: rule '%s' is left-recursive", name ? name : "?");
    }
    walk_free(&w);
    free(left.first);
    free(left.calls);
    free(flags);
    free(lists);
    return ok;
}

bool program_compile(struct program *program, const struct grammar_rules *rules, bool is_bytes, struct mx_error *err) {
    *program = (struct program){.n_rules = rules->n, .root = rules->root, .is_bytes = is_bytes};
    struct compiler c = {.program = program, .rules = rules, .err = err};
    program->starts = array_alloc(rules->n, sizeof *program->starts);
    bool ok = program->starts || error_memory(err, "grammar");
    for (uint32_t r = 0; ok && r < rules->n; r++) {
        uint32_t final = add_node(&c, PROGRAM_FINAL, PROGRAM_NONE, PROGRAM_NONE);
        ok = final != PROGRAM_NONE && (program->starts[r] = compile(&c, rules->bodies[r], final)) != PROGRAM_NONE;
    }
    ok = ok && (rules->n > 1 || resolve_anchors(&c)) && refuse_left_recursion(&c) && mark_dead(&c);
    free(c.edges);
    if (!ok) program_free(program);
    return ok;
}

void program_free(struct program *p) {
    free(p->nodes);
    free(p->edges);
    free(p->starts);
    *p = (struct program){0};
}
