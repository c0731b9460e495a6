/* SPDX-License-Identifier: Apache-2.0 */
#include "text/grammar/machine.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_ITEMS = 20000,        /* places of one state */
    MAX_STACKS = 2000000,     /* interned sets of stacks */
    MAX_UNION_WORK = 4000000, /* entries looked at by unions in one step */
    TIDY_BYTES = 48 << 20,    /* memory of states above which unheld ones are dropped */
};

struct stacks {
    uint32_t first, n; /* in machine.frames */
    uint16_t depth;
    bool is_bottom, is_open;
};

struct state {
    struct state_item *items;
    uint32_t n_items;
    uint32_t hash;
    uint32_t holds;
    bool accepts, is_open;
    uint32_t *next; /* [256] states behind each byte, made when first needed */
};

/* Hash index of numbers whose keys lie elsewhere. */
struct index {
    uint32_t *slots; /* number + 1; 0 = free */
    size_t capacity, n;
};

struct pair_slot {
    uint32_t a, b, result; /* a = b = 0: free */
};

struct machine {
    struct node_source source;
    struct stacks *stacks;
    size_t n_stacks, stacks_capacity;
    struct state_item *frames; /* (node to return to, stacks below), sorted by node in each set */
    size_t n_frames, frames_capacity;
    struct index stack_index;
    struct pair_slot *unions; /* remembered unions */
    size_t unions_capacity, n_unions;
    struct state *states;
    size_t n_states, states_capacity;
    struct index state_index;
    size_t state_bytes;
    /* scratch of one step */
    struct state_item *work; /* places to look at */
    size_t n_work, work_capacity;
    uint32_t *place_of; /* hash: node to number in places + 1 */
    size_t place_capacity;
    struct state_item *places;
    size_t n_places, places_capacity;
    struct state_item *frame_scratch;
    size_t n_frame_scratch, frame_scratch_capacity;
    size_t union_work;
    bool accepts, is_open;
    struct mx_error failure;
};

static bool fail(struct machine *m, enum error_code code, const char *message) {
    if (m->failure.code) return false;
    return error_set(&m->failure, code, "%s", message);
}

static bool out_of_memory(struct machine *m) { return m->failure.code ? false : error_memory(&m->failure, "grammar"); }

const struct mx_error *machine_failure(const struct machine *m) { return m->failure.code ? &m->failure : NULL; }

/* ---- hashing ---- */

static uint32_t mix(uint64_t h) {
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    h ^= h >> 32;
    return (uint32_t)h;
}

static uint32_t hash_items(const struct state_item *items, size_t n, uint32_t flags) {
    uint64_t h = flags + 1;
    for (size_t i = 0; i < n; i++)
        h = (h ^ ((uint64_t)items[i].node << 32 | items[i].stacks)) * 0x9e3779b97f4a7c15u + (h >> 29);
    return mix(h);
}

typedef uint32_t (*hash_of)(const struct machine *m, uint32_t number);

static bool index_grow(struct machine *m, struct index *index, hash_of hash) {
    if (index->n * 2 < index->capacity) return true;
    size_t capacity = index->capacity ? 2 * index->capacity : 256;
    uint32_t *slots = array_calloc(capacity, sizeof *slots);
    if (!slots) return out_of_memory(m);
    for (size_t i = 0; i < index->capacity; i++) {
        if (!index->slots[i]) continue;
        size_t at = hash(m, index->slots[i] - 1) & (capacity - 1);
        while (slots[at]) at = (at + 1) & (capacity - 1);
        slots[at] = index->slots[i];
    }
    free(index->slots);
    index->slots = slots;
    index->capacity = capacity;
    return true;
}

/* ---- sets of stacks ---- */

static uint32_t hash_of_stacks(const struct machine *m, uint32_t id) {
    const struct stacks *s = &m->stacks[id];
    return hash_items(m->frames + s->first, s->n, (uint32_t)s->is_bottom | (uint32_t)s->is_open << 1);
}

static bool same_items(const struct state_item *a, const struct state_item *b, size_t n) {
    return !n || memcmp(a, b, n * sizeof *a) == 0;
}

/* The number of the set with these frames, sorted by node. frames must not lie in m->frames. */
static uint32_t intern_stacks(struct machine *m, const struct state_item *frames, size_t n, bool is_bottom,
                              bool is_open) {
    if (!index_grow(m, &m->stack_index, hash_of_stacks)) return STACKS_FAILED;
    struct index *index = &m->stack_index;
    size_t at = hash_items(frames, n, (uint32_t)is_bottom | (uint32_t)is_open << 1) & (index->capacity - 1);
    for (; index->slots[at]; at = (at + 1) & (index->capacity - 1)) {
        const struct stacks *s = &m->stacks[index->slots[at] - 1];
        if (s->n == n && s->is_bottom == is_bottom && s->is_open == is_open &&
            same_items(m->frames + s->first, frames, n))
            return index->slots[at] - 1;
    }
    uint16_t depth = 0;
    for (size_t i = 0; i < n; i++)
        if (m->stacks[frames[i].stacks].depth >= depth) depth = (uint16_t)(m->stacks[frames[i].stacks].depth + 1);
    if (m->n_stacks >= MAX_STACKS) {
        fail(m, ERROR_LIMIT, "the text nests in too many ways for this grammar");
        return STACKS_FAILED;
    }
    if (!array_reserve(&m->stacks, &m->stacks_capacity, m->n_stacks + 1, sizeof *m->stacks) ||
        !array_reserve(&m->frames, &m->frames_capacity, m->n_frames + n, sizeof *m->frames)) {
        out_of_memory(m);
        return STACKS_FAILED;
    }
    if (n) memcpy(m->frames + m->n_frames, frames, n * sizeof *frames);
    m->stacks[m->n_stacks] = (struct stacks){(uint32_t)m->n_frames, (uint32_t)n, depth, is_bottom, is_open};
    m->n_frames += n;
    index->slots[at] = (uint32_t)m->n_stacks + 1;
    index->n++;
    return (uint32_t)m->n_stacks++;
}

static struct pair_slot *union_slot(struct machine *m, uint32_t a, uint32_t b) {
    size_t at = mix((uint64_t)a << 32 | b) & (m->unions_capacity - 1);
    while ((m->unions[at].a || m->unions[at].b) && (m->unions[at].a != a || m->unions[at].b != b))
        at = (at + 1) & (m->unions_capacity - 1);
    return &m->unions[at];
}

static bool unions_grow(struct machine *m) {
    if (m->n_unions * 2 < m->unions_capacity) return true;
    size_t capacity = m->unions_capacity ? 2 * m->unions_capacity : 256, old_capacity = m->unions_capacity;
    struct pair_slot *old = m->unions, *slots = array_calloc(capacity, sizeof *slots);
    if (!slots) return out_of_memory(m);
    m->unions = slots;
    m->unions_capacity = capacity;
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i].a || old[i].b) *union_slot(m, old[i].a, old[i].b) = old[i];
    free(old);
    return true;
}

static bool push_frame(struct machine *m, struct state_item frame) {
    if (!array_reserve(&m->frame_scratch, &m->frame_scratch_capacity, m->n_frame_scratch + 1, sizeof frame))
        return out_of_memory(m);
    m->frame_scratch[m->n_frame_scratch++] = frame;
    return true;
}

/* The union of two sets of stacks. Recursion is bounded by MACHINE_MAX_DEPTH. */
static uint32_t unite(struct machine *m, uint32_t a, uint32_t b) {
    if (a == b) return a;
    if (a > b) {
        uint32_t swap = a;
        a = b;
        b = swap;
    }
    if (!unions_grow(m)) return STACKS_FAILED;
    struct pair_slot *slot = union_slot(m, a, b);
    if (slot->a || slot->b) return slot->result;
    struct stacks x = m->stacks[a], y = m->stacks[b];
    size_t base = m->n_frame_scratch;
    if ((m->union_work += x.n + y.n + 1) > MAX_UNION_WORK) {
        fail(m, ERROR_LIMIT, "the text can be read in too many ways by this grammar");
        return STACKS_FAILED;
    }
    for (uint32_t i = 0, j = 0; i < x.n || j < y.n;) {
        struct state_item frame;
        const struct state_item *p = &m->frames[x.first + i], *q = &m->frames[y.first + j];
        if (j == y.n || (i < x.n && p->node < q->node)) {
            frame = *p;
            i++;
        } else if (i == x.n || q->node < p->node) {
            frame = *q;
            j++;
        } else {
            frame = (struct state_item){p->node, unite(m, p->stacks, q->stacks)};
            if (frame.stacks == STACKS_FAILED) return STACKS_FAILED;
            i++;
            j++;
        }
        if (!push_frame(m, frame)) return STACKS_FAILED;
    }
    uint32_t result = intern_stacks(m, m->frame_scratch + base, m->n_frame_scratch - base, x.is_bottom || y.is_bottom,
                                    x.is_open || y.is_open);
    m->n_frame_scratch = base;
    if (result == STACKS_FAILED || !unions_grow(m)) return STACKS_FAILED;
    *union_slot(m, a, b) = (struct pair_slot){a, b, result};
    m->n_unions++;
    return result;
}

/* ---- what is reached without consuming ---- */

static bool add_work(struct machine *m, uint32_t node, uint32_t stacks) {
    if (!array_reserve(&m->work, &m->work_capacity, m->n_work + 1, sizeof *m->work)) return out_of_memory(m);
    m->work[m->n_work++] = (struct state_item){node, stacks};
    return true;
}

static bool places_grow(struct machine *m) {
    if (m->n_places * 2 < m->place_capacity) return true;
    size_t capacity = m->place_capacity ? 2 * m->place_capacity : 64;
    uint32_t *slots = array_calloc(capacity, sizeof *slots);
    if (!slots) return out_of_memory(m);
    for (size_t i = 0; i < m->n_places; i++) {
        size_t at = mix(m->places[i].node) & (capacity - 1);
        while (slots[at]) at = (at + 1) & (capacity - 1);
        slots[at] = (uint32_t)i + 1;
    }
    free(m->place_of);
    m->place_of = slots;
    m->place_capacity = capacity;
    return true;
}

/* Puts a node among the places, or more stacks under one that is there. *is_news: it has to be looked at (again). */
static bool add_place(struct machine *m, uint32_t node, uint32_t *stacks, bool *is_news) {
    if (!places_grow(m)) return false;
    size_t at = mix(node) & (m->place_capacity - 1);
    for (; m->place_of[at]; at = (at + 1) & (m->place_capacity - 1)) {
        struct state_item *place = &m->places[m->place_of[at] - 1];
        if (place->node != node) continue;
        uint32_t all = unite(m, place->stacks, *stacks);
        if (all == STACKS_FAILED) return false;
        *is_news = all != place->stacks;
        *stacks = place->stacks = all;
        return true;
    }
    if (m->n_places >= MAX_ITEMS) return fail(m, ERROR_LIMIT, "the text can be read in too many ways by this grammar");
    if (!array_reserve(&m->places, &m->places_capacity, m->n_places + 1, sizeof *m->places)) return out_of_memory(m);
    m->places[m->n_places++] = (struct state_item){node, *stacks};
    m->place_of[at] = (uint32_t)m->n_places;
    *is_news = true;
    return true;
}

/* A node that only returns, so that a call in front of it needs no frame. */
static bool is_only_final(struct machine *m, uint32_t node) {
    struct node_view view = {0};
    return m->source.look(m->source.context, node, &view, &m->failure) && view.is_final && !view.n_edges &&
           !view.n_jumps && !view.n_calls;
}

static bool add_call(struct machine *m, struct node_call call, uint32_t stacks) {
    if (!is_only_final(m, call.next)) {
        if (m->failure.code) return false;
        if (m->stacks[stacks].depth >= MACHINE_MAX_DEPTH) return true; /* a dead end */
        struct state_item frame = {call.next, stacks};
        stacks = intern_stacks(m, &frame, 1, false, false);
        if (stacks == STACKS_FAILED) return false;
    }
    return add_work(m, call.start, stacks);
}

static bool add_return(struct machine *m, uint32_t stacks) {
    struct stacks s = m->stacks[stacks];
    m->accepts = m->accepts || s.is_bottom;
    m->is_open = m->is_open || s.is_open;
    for (uint32_t i = 0; i < s.n; i++) {
        struct state_item frame = m->frames[s.first + i];
        if (!add_work(m, frame.node, frame.stacks)) return false;
    }
    return true;
}

/* Follows everything from the work list until only places that consume are left, in m->places. */
static bool close_work(struct machine *m) {
    while (m->n_work) {
        struct state_item item = m->work[--m->n_work];
        bool is_news = false;
        if (!add_place(m, item.node, &item.stacks, &is_news)) return false;
        if (!is_news) continue;
        struct node_view view = {0};
        if (!m->source.look(m->source.context, item.node, &view, &m->failure)) return false;
        for (uint32_t i = 0; i < view.n_jumps; i++)
            if (!add_work(m, view.jumps[i], item.stacks)) return false;
        /* Looking at other nodes below ends the view's life. */
        struct node_call calls[8];
        bool is_final = view.is_final;
        for (uint32_t base = 0; base < view.n_calls; base += 8) {
            uint32_t n = view.n_calls - base < 8 ? view.n_calls - base : 8;
            memcpy(calls, view.calls + base, n * sizeof *calls);
            for (uint32_t i = 0; i < n; i++)
                if (!add_call(m, calls[i], item.stacks)) return false;
            if (base + 8 < view.n_calls && !m->source.look(m->source.context, item.node, &view, &m->failure))
                return false;
        }
        if (is_final && !add_return(m, item.stacks)) return false;
    }
    return true;
}

/* ---- states ---- */

static uint32_t hash_of_state(const struct machine *m, uint32_t id) { return m->states[id].hash; }

static int compare_items(const void *a, const void *b) {
    const struct state_item *x = a, *y = b;
    return x->node < y->node ? -1 : x->node > y->node;
}

static uint32_t intern_state(struct machine *m, const struct state_item *items, size_t n, bool accepts, bool is_open) {
    if (!n && !accepts && !is_open) return STATE_DEAD;
    if (!index_grow(m, &m->state_index, hash_of_state)) return STATE_DEAD;
    struct index *index = &m->state_index;
    uint32_t hash = hash_items(items, n, (uint32_t)accepts | (uint32_t)is_open << 1);
    size_t at = hash & (index->capacity - 1);
    for (; index->slots[at]; at = (at + 1) & (index->capacity - 1)) {
        const struct state *s = &m->states[index->slots[at] - 1];
        if (s->hash == hash && s->n_items == n && s->accepts == accepts && s->is_open == is_open &&
            same_items(s->items, items, n))
            return index->slots[at] - 1;
    }
    struct state_item *copy = array_alloc(n, sizeof *copy);
    if (!copy || !array_reserve(&m->states, &m->states_capacity, m->n_states + 1, sizeof *m->states)) {
        free(copy);
        out_of_memory(m);
        return STATE_DEAD;
    }
    if (n) memcpy(copy, items, n * sizeof *copy);
    m->states[m->n_states] =
        (struct state){.items = copy, .n_items = (uint32_t)n, .hash = hash, .accepts = accepts, .is_open = is_open};
    m->state_bytes += sizeof(struct state) + n * sizeof *copy;
    index->slots[at] = (uint32_t)m->n_states + 1;
    index->n++;
    return (uint32_t)m->n_states++;
}

static void begin_step(struct machine *m) {
    m->n_work = m->n_places = m->n_frame_scratch = 0;
    m->union_work = 0;
    m->accepts = m->is_open = false;
    if (m->place_capacity > 4096) { /* keep clearing cheap after a large state */
        free(m->place_of);
        m->place_of = NULL;
        m->place_capacity = 0;
    } else if (m->place_capacity) {
        memset(m->place_of, 0, m->place_capacity * sizeof *m->place_of);
    }
}

/* The state of the places, without those that consume nothing. */
static uint32_t end_step(struct machine *m) {
    if (!close_work(m)) return STATE_DEAD;
    size_t kept = 0;
    for (size_t i = 0; i < m->n_places; i++) {
        struct node_view view = {0};
        if (!m->source.look(m->source.context, m->places[i].node, &view, &m->failure)) return STATE_DEAD;
        if (view.n_edges) m->places[kept++] = m->places[i];
    }
    if (kept > 1) qsort(m->places, kept, sizeof *m->places, compare_items);
    uint32_t state = intern_state(m, m->places, kept, m->accepts, m->is_open);
    m->n_places = 0;
    return state;
}

uint32_t machine_state_at(struct machine *m, uint32_t node, uint32_t stacks) {
    begin_step(m);
    if (m->failure.code || !add_work(m, node, stacks)) return STATE_DEAD;
    return end_step(m);
}

uint32_t machine_start(struct machine *m) { return machine_state_at(m, m->source.start, STACKS_BOTTOM); }

/* *first and *last receive the bytes around `byte` for which the result is the same. */
static uint32_t compute_step(struct machine *m, uint32_t state, uint8_t byte, uint32_t *first, uint32_t *last) {
    begin_step(m);
    *first = 0;
    *last = 255;
    for (uint32_t i = 0; i < m->states[state].n_items; i++) {
        struct state_item item = m->states[state].items[i];
        struct node_view view = {0};
        if (!m->source.look(m->source.context, item.node, &view, &m->failure)) return STATE_DEAD;
        for (uint32_t e = 0; e < view.n_edges; e++) {
            const struct node_edge *edge = &view.edges[e];
            if (byte < edge->first) {
                if (edge->first - 1 < *last) *last = edge->first - 1;
            } else if (byte > edge->last) {
                if (edge->last + 1 > *first) *first = edge->last + 1;
            } else {
                if (edge->first > *first) *first = edge->first;
                if (edge->last < *last) *last = edge->last;
                if (!add_work(m, edge->target, item.stacks)) return STATE_DEAD;
            }
        }
    }
    return m->n_work ? end_step(m) : STATE_DEAD;
}

uint32_t machine_step(struct machine *m, uint32_t state, uint8_t byte) {
    if (state == STATE_DEAD) return STATE_DEAD;
    struct state *s = &m->states[state];
    if (s->next && s->next[byte] != STATE_UNKNOWN) return s->next[byte];
    if (m->failure.code) return STATE_DEAD;
    if (!s->next) {
        s->next = array_alloc(256, sizeof *s->next);
        if (!s->next) {
            out_of_memory(m);
            return STATE_DEAD;
        }
        memset(s->next, 0xff, 256 * sizeof *s->next);
        m->state_bytes += 256 * sizeof *s->next;
    }
    uint32_t first, last, next = compute_step(m, state, byte, &first, &last);
    if (m->failure.code) return STATE_DEAD;
    for (uint32_t b = first; b <= last; b++) m->states[state].next[b] = next;
    return next;
}

bool machine_accepts(const struct machine *m, uint32_t state) { return m->states[state].accepts; }

bool machine_is_open(const struct machine *m, uint32_t state) { return m->states[state].is_open; }

const struct state_item *machine_items(const struct machine *m, uint32_t state, uint32_t *n_items) {
    *n_items = m->states[state].n_items;
    return m->states[state].items;
}

uint32_t machine_alike(struct machine *m, uint32_t node, uint32_t longest) {
    return m->source.alike ? m->source.alike(m->source.context, node, longest) : node;
}

void machine_hold(struct machine *m, uint32_t state) { m->states[state].holds++; }
void machine_release(struct machine *m, uint32_t state) { m->states[state].holds--; }

bool machine_tidy(struct machine *m) {
    if (m->state_bytes < TIDY_BYTES) return false;
    memset(m->state_index.slots, 0, m->state_index.capacity * sizeof *m->state_index.slots);
    m->state_index.n = 0;
    m->state_bytes = 0;
    for (size_t i = 1; i < m->n_states; i++) {
        struct state *s = &m->states[i];
        if (s->next) free(s->next);
        s->next = NULL;
        if (!s->holds) {
            /* The number stays taken by an empty state, so that held ones keep theirs. */
            free(s->items);
            *s = (struct state){0};
            continue;
        }
        size_t at = s->hash & (m->state_index.capacity - 1);
        while (m->state_index.slots[at]) at = (at + 1) & (m->state_index.capacity - 1);
        m->state_index.slots[at] = (uint32_t)i + 1;
        m->state_index.n++;
        m->state_bytes += sizeof *s + s->n_items * sizeof *s->items;
    }
    while (m->n_states > 1 && !m->states[m->n_states - 1].items) m->n_states--;
    return true;
}

/* ---- life ---- */

struct machine *machine_create(const struct node_source *source, struct mx_error *err) {
    struct machine *m = calloc(1, sizeof *m);
    if (!m) {
        source->destroy(source->context);
        error_memory(err, "grammar");
        return NULL;
    }
    m->source = *source;
    uint32_t bottom = intern_stacks(m, NULL, 0, true, false), open = intern_stacks(m, NULL, 0, false, true);
    bool ok = bottom == STACKS_BOTTOM && open == STACKS_OPEN &&
              array_reserve(&m->states, &m->states_capacity, 1, sizeof *m->states);
    if (!ok) {
        error_memory(err, "grammar");
        machine_destroy(m);
        return NULL;
    }
    m->states[m->n_states++] = (struct state){0}; /* STATE_DEAD */
    return m;
}

void machine_destroy(struct machine *m) {
    if (!m) return;
    m->source.destroy(m->source.context);
    for (size_t i = 0; i < m->n_states; i++) {
        free(m->states[i].items);
        free(m->states[i].next);
    }
    free(m->states);
    free(m->stacks);
    free(m->frames);
    free(m->stack_index.slots);
    free(m->state_index.slots);
    free(m->unions);
    free(m->work);
    free(m->place_of);
    free(m->places);
    free(m->frame_scratch);
    free(m);
}
