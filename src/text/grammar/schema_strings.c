/* SPDX-License-Identifier: Apache-2.0 */
/* Strings and keys: what an automaton says of code points becomes bytes. A code point stands for itself in UTF-8, or is
 * escaped: by a short escape, or by \u (in pairs of surrogates above U+FFFF). Printable ASCII is not written with \u, every
 * other code point may be. */
#include "text/grammar/schema_nodes.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static bool out_of_memory(struct value_nodes *v) { return error_memory(v->err, "JSON Schema"); }

/* ---- what follows a code point ---- */

static bool string_code_edges(struct value_nodes *v, uint32_t node, struct automaton_edge **edges, size_t *n) {
    struct value_node at = v->nodes[node];
    const struct spec *spec = &v->schema->specs[at.a];
    const struct automaton *a = spec->automaton;
    *n = 0;
    if (!a) {
        if (spec->maximum != NO_LIMIT && at.b >= spec->maximum) return true;
        uint64_t cap = spec->maximum != NO_LIMIT ? spec->maximum : spec->minimum;
        if (!(*edges = array_alloc(2, sizeof **edges))) return out_of_memory(v);
        uint32_t target = node_make(v, NODE_STRING, at.a, at.b < cap ? at.b + 1 : at.b, 0);
        (*edges)[(*n)++] = (struct automaton_edge){0, 0xd7ff, target};
        (*edges)[(*n)++] = (struct automaton_edge){0xe000, CODE_POINT_MAX, target};
        return target != UINT32_MAX;
    }
    const struct automaton_state *state = &a->states[at.b];
    if (!(*edges = array_alloc(state->n_edges, sizeof **edges))) return out_of_memory(v);
    for (uint32_t i = 0; i < state->n_edges; i++) {
        struct automaton_edge edge = a->edges[state->first_edge + i];
        edge.target = node_make(v, NODE_STRING, at.a, edge.target, 0);
        if (edge.target == UINT32_MAX) return false;
        (*edges)[(*n)++] = edge;
    }
    return true;
}

/* The code points that may follow at a string or key node, worked out once. */
static bool find_code_edges(struct value_nodes *v, uint32_t node) {
    if (v->nodes[node].has_code_edges) return true;
    struct automaton_edge *edges = NULL;
    size_t n = 0;
    bool ok =
        v->nodes[node].kind == NODE_KEY ? key_code_edges(v, node, &edges, &n) : string_code_edges(v, node, &edges, &n);
    struct automaton_edge *copy = ok ? arena_calloc(&v->arena, n + 1, sizeof *copy) : NULL;
    if (copy && n) memcpy(copy, edges, n * sizeof *copy);
    free(edges);
    if (!copy) return ok ? out_of_memory(v) : false;
    v->nodes[node].code_edges = copy;
    v->nodes[node].n_code_edges = (uint32_t)n;
    v->nodes[node].has_code_edges = true;
    return true;
}

/* The first edge of the node that does not end before a code point; NULL when there is none. */
static const struct automaton_edge *edge_from(const struct value_nodes *v, uint32_t node, uint32_t code_point) {
    const struct value_node *at = &v->nodes[node];
    uint32_t low = 0, high = at->n_code_edges;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (at->code_edges[middle].last < code_point)
            low = middle + 1;
        else
            high = middle;
    }
    return low < at->n_code_edges ? &at->code_edges[low] : NULL;
}

enum cover { COVER_NONE, COVER_PART, COVER_ALL };

/* How far one edge covers a block of code points; COVER_ALL sets *target. */
static enum cover cover(const struct value_nodes *v, uint32_t node, uint32_t first, uint32_t last, uint32_t *target) {
    const struct automaton_edge *edge = edge_from(v, node, first);
    if (!edge || edge->first > last) return COVER_NONE;
    if (edge->first > first || edge->last < last) return COVER_PART;
    *target = edge->target;
    return COVER_ALL;
}

/* ---- UTF-8 ---- */

/* An edge for one byte behind which n continuation bytes of the block [first, last] are left. */
static bool raw_edge(struct value_nodes *v, uint32_t node, uint32_t byte, uint32_t first, uint32_t last, uint32_t n) {
    uint32_t target = 0, base = first;
    if (first == 0 && n == 2) first = 0x800;
    if (first == 0 && n == 3) first = 0x10000;
    if (last > CODE_POINT_MAX) last = CODE_POINT_MAX;
    if (first > last) return true;
    enum cover covered = cover(v, node, first, last, &target);
    if (covered == COVER_NONE) return true;
    if (n && covered == COVER_ALL && base == first && last - first + 1 == 1u << 6 * n)
        return node_edge(v, byte, byte, node_make(v, NODE_ANY_BYTES, target, 0, n));
    if (!n) return node_edge(v, byte, byte, target);
    return node_edge(v, byte, byte, node_make(v, NODE_RAW, node, base, n));
}

static bool raw_edges(struct value_nodes *v, uint32_t node) {
    for (uint32_t c = 0x20; c < 0x80; c++)
        if (c != '"' && c != '\\' && !raw_edge(v, node, c, c, c, 0)) return false;
    for (uint32_t lead = 0xc2; lead <= 0xf4; lead++) {
        uint32_t n = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3, base = (lead & (0x3fu >> n)) << 6 * n;
        if (!raw_edge(v, node, lead, base, base + (1u << 6 * n) - 1, n)) return false;
    }
    return true;
}

static bool expand_raw(struct value_nodes *v, const struct value_node *at) {
    uint32_t n = at->c - 1;
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t first = at->b + (i << 6 * n), last = first + (1u << 6 * n) - 1;
        if ((at->c == 2 && at->b == 0 && first < 0x800) || (at->c == 3 && at->b == 0 && first < 0x10000)) continue;
        if (!raw_edge(v, at->a, 0x80 + i, first, last, n)) return false;
    }
    return true;
}

/* ---- escapes ---- */

static bool may_escape(uint32_t code_point) { return code_point < 0x20 || code_point > 0x7e; }

/* Whether some code point of a block can be written by \u here. */
static bool has_escape(const struct value_nodes *v, uint32_t node, uint32_t first, uint32_t last) {
    uint32_t target;
    if (first <= 0xdbff && last >= 0xd800 && cover(v, node, 0x10000, CODE_POINT_MAX, &target) != COVER_NONE)
        return true;
    if (first < 0x20 && cover(v, node, first, last < 0x1f ? last : 0x1f, &target) != COVER_NONE) return true;
    if (last < 0x7f) return false;
    return cover(v, node, first < 0x7f ? 0x7f : first, last, &target) != COVER_NONE;
}

/* Edges for a hex digit in both cases. */
static bool hex_edge(struct value_nodes *v, uint32_t digit, uint32_t target) {
    if (digit < 10) return node_edge(v, '0' + digit, '0' + digit, target);
    return node_edge(v, 'A' + digit - 10, 'A' + digit - 10, target) &&
           node_edge(v, 'a' + digit - 10, 'a' + digit - 10, target);
}

static bool expand_hex(struct value_nodes *v, const struct value_node *at) {
    uint32_t n = at->c - 1, target = 0;
    for (uint32_t digit = 0; digit < 16; digit++) {
        uint32_t first = at->b + (digit << 4 * n), last = first + (1u << 4 * n) - 1;
        bool is_high = first >= 0xd800 && last <= 0xdbff, is_low = first >= 0xdc00 && last <= 0xdfff;
        if (is_low || !has_escape(v, at->a, first, last)) continue;
        if (n) {
            bool is_plain = first > 0x7e && (last < 0xd800 || first > 0xdfff);
            if (is_plain && cover(v, at->a, first, last, &target) == COVER_ALL)
                target = node_make(v, NODE_ANY_HEX, target, 0, n);
            else
                target = node_make(v, NODE_HEX, at->a, first, n);
        } else if (is_high) {
            uint32_t block = 0x10000 + ((first - 0xd800) << 10), ignored;
            if (cover(v, at->a, block, block + 0x3ff, &ignored) == COVER_NONE) continue;
            target = node_make(v, NODE_LOW_MARK, at->a, block, 2);
        } else if (!may_escape(first) || cover(v, at->a, first, first, &target) != COVER_ALL) {
            continue;
        }
        if (!hex_edge(v, digit, target)) return false;
    }
    return true;
}

/* DC00 to DFFF: the first digit says nothing, the second carries two bits. */
static bool expand_low(struct value_nodes *v, const struct value_node *at) {
    uint32_t n = at->c - 1, target = 0;
    if (n == 3) return hex_edge(v, 0xd, node_make(v, NODE_LOW, at->a, at->b, 3));
    for (uint32_t i = 0; i < (n == 2 ? 4u : 16u); i++) {
        uint32_t first = at->b + (i << 4 * n), last = first + (1u << 4 * n) - 1;
        enum cover covered = cover(v, at->a, first, last, &target);
        if (covered == COVER_NONE) continue;
        if (n)
            target = covered == COVER_ALL ? node_make(v, NODE_ANY_HEX, target, 0, n)
                                          : node_make(v, NODE_LOW, at->a, first, n);
        if (!hex_edge(v, n == 2 ? 0xc + i : i, target)) return false;
    }
    return true;
}

static bool expand_escape(struct value_nodes *v, const struct value_node *at) {
    static const struct {
        char letter;
        uint8_t code_point;
    } escapes[] = {{'"', '"'},  {'/', '/'},  {'\\', '\\'}, {'b', '\b'},
                   {'f', '\f'}, {'n', '\n'}, {'r', '\r'},  {'t', '\t'}};
    uint32_t target;
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++)
        if (cover(v, at->a, escapes[i].code_point, escapes[i].code_point, &target) == COVER_ALL &&
            !node_edge(v, (uint8_t)escapes[i].letter, (uint8_t)escapes[i].letter, target))
            return false;
    return !has_escape(v, at->a, 0, 0xffff) || node_edge(v, 'u', 'u', node_make(v, NODE_HEX, at->a, 0, 4));
}

static bool needs_escape(const struct value_nodes *v, uint32_t node) {
    uint32_t target;
    return has_escape(v, node, 0, 0xffff) || cover(v, node, '"', '"', &target) == COVER_ALL ||
           cover(v, node, '\\', '\\', &target) == COVER_ALL || cover(v, node, '/', '/', &target) == COVER_ALL;
}

/* ---- nodes ---- */

static bool close_string(struct value_nodes *v, uint32_t node) {
    const struct value_node *at = &v->nodes[node];
    const struct spec *spec = &v->schema->specs[at->a];
    bool may_end = spec->automaton ? spec->automaton->states[at->b].is_final != 0 : at->b >= spec->minimum;
    return !may_end || node_edge(v, '"', '"', node_make(v, NODE_END, 0, 0, 0));
}

bool expand_characters(struct value_nodes *v, uint32_t node) {
    struct value_node at = v->nodes[node];
    switch (at.kind) {
    case NODE_STRING:
    case NODE_KEY:
        if (!find_code_edges(v, node) || !raw_edges(v, node)) return false;
        if (needs_escape(v, node) && !node_edge(v, '\\', '\\', node_make(v, NODE_ESCAPE, node, 0, 0))) return false;
        return at.kind == NODE_KEY ? key_close(v, node) : close_string(v, node);
    case NODE_RAW: return expand_raw(v, &at);
    case NODE_ESCAPE: return expand_escape(v, &at);
    case NODE_HEX: return expand_hex(v, &at);
    case NODE_LOW: return expand_low(v, &at);
    case NODE_LOW_MARK:
        if (at.c == 2) return node_edge(v, '\\', '\\', node_make(v, NODE_LOW_MARK, at.a, at.b, 1));
        return node_edge(v, 'u', 'u', node_make(v, NODE_LOW, at.a, at.b, 4));
    case NODE_ANY_BYTES:
        return node_edge(v, 0x80, 0xbf, at.c == 1 ? at.a : node_make(v, NODE_ANY_BYTES, at.a, 0, at.c - 1));
    default: break;
    }
    uint32_t target = at.c == 1 ? at.a : node_make(v, NODE_ANY_HEX, at.a, 0, at.c - 1);
    return node_edge(v, '0', '9', target) && node_edge(v, 'A', 'F', target) && node_edge(v, 'a', 'f', target);
}
