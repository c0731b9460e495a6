/* SPDX-License-Identifier: Apache-2.0 */
#include "text/token_mask.h"

#include "text/grammar/grammar.h"
#include "text/grammar/token_trie.h"

#include "base/map.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_CACHE_BYTES = 64 << 20,
    N_STATE_MASKS = 64, /* whole masks that are kept, by state */
};

/* What is known of one place: tokens that are allowed whatever surrounds it, and those that reach beyond it. */
struct place_mask {
    uint32_t *allowed;   /* ids, or a bit set where `is_dense` */
    uint32_t *uncertain; /* places in the trie's order of tokens, ascending */
    uint32_t n_allowed, n_uncertain;
    bool is_dense, adds_plain;
};

struct state_mask {
    uint32_t state; /* STATE_DEAD = free */
    uint32_t *bits;
};

struct mask_cache {
    const struct token_trie *trie;
    struct map nodes; /* node to place mask; keys lie in the arena */
    struct arena keys;
    struct place_mask *places;
    size_t n_places, places_capacity;
    size_t bytes;
    struct state_mask states[N_STATE_MASKS];
    uint32_t *path; /* [longest + 1] states along the walk */
    uint32_t *found, *uncertain;
    size_t n_found, found_capacity, n_uncertain, uncertain_capacity;
};

static void clear(struct mask_cache *cache) {
    for (size_t i = 0; i < cache->n_places; i++) {
        free(cache->places[i].allowed);
        free(cache->places[i].uncertain);
    }
    cache->n_places = 0;
    cache->bytes = 0;
    map_free(&cache->nodes);
    arena_free(&cache->keys);
    cache->nodes = (struct map){0};
    cache->keys = (struct arena){0};
    for (int i = 0; i < N_STATE_MASKS; i++) cache->states[i].state = STATE_DEAD;
}

void mask_cache_destroy(struct mask_cache *cache) {
    if (!cache) return;
    clear(cache);
    for (int i = 0; i < N_STATE_MASKS; i++) free(cache->states[i].bits);
    free(cache->places);
    free(cache->path);
    free(cache->found);
    free(cache->uncertain);
    free(cache);
}

static struct mask_cache *cache_of(struct grammar *g, const struct token_trie *trie) {
    if (g->masks && g->masks->trie == trie) return g->masks;
    mask_cache_destroy(g->masks);
    g->masks = calloc(1, sizeof *g->masks);
    if (!g->masks) return NULL;
    g->masks->trie = trie;
    g->masks->path = array_alloc(trie->longest + 2, sizeof *g->masks->path);
    if (g->masks->path) return g->masks;
    mask_cache_destroy(g->masks);
    g->masks = NULL;
    return NULL;
}

static size_t n_words(const struct token_trie *trie) { return (trie->n_ids + 31) / 32; }

static void set_bit(uint32_t *bits, uint32_t id) { bits[id / 32] |= 1u << id % 32; }

/* ---- one place, its surroundings unknown ---- */

static bool push(uint32_t **list, size_t *n, size_t *capacity, uint32_t value) {
    if (!array_reserve(list, capacity, *n + 1, sizeof **list)) return false;
    (*list)[(*n)++] = value;
    return true;
}

/* ---- places where plain text may go on ---- */

enum { MAX_PLAIN_STATES = 600 };

/* States that plain text leads to, in the order in which they are found. */
struct plain_check {
    struct machine *m;
    uint32_t states[MAX_PLAIN_STATES];
    uint8_t left[MAX_PLAIN_STATES];            /* continuation bytes of the character that has begun */
    uint8_t length[MAX_PLAIN_STATES];          /* characters so far */
    uint16_t slots[2 * MAX_PLAIN_STATES + 48]; /* hash: number + 1 */
    size_t n;
};

/* Notes a state; false for a dead one, or when there are too many. */
static bool reach(struct plain_check *c, uint32_t state, unsigned left, unsigned length) {
    const size_t n_slots = sizeof c->slots / sizeof *c->slots;
    if (state == STATE_DEAD) return false;
    size_t at = (state * 4 + left) % n_slots;
    for (; c->slots[at]; at = (at + 1) % n_slots) {
        size_t i = c->slots[at] - 1u;
        if (c->states[i] == state && c->left[i] == left) return true;
    }
    if (c->n == MAX_PLAIN_STATES) return false;
    c->states[c->n] = state;
    c->left[c->n] = (uint8_t)left;
    c->length[c->n] = (uint8_t)length;
    c->slots[at] = (uint16_t)++c->n;
    return true;
}

static bool reach_bytes(struct plain_check *c, uint32_t from, unsigned first, unsigned last, unsigned left,
                        unsigned length) {
    uint32_t previous = STATE_DEAD;
    for (unsigned b = first; b <= last; b++) {
        if (b == '"' || b == '\\') continue;
        uint32_t state = machine_step(c->m, from, (uint8_t)b);
        if (state == previous && state != STATE_DEAD) continue;
        if (!reach(c, state, left, length)) return false;
        previous = state;
    }
    return true;
}

/* Whether all plain text of up to TRIE_PLAIN_CHARACTERS may follow: then all plain tokens are allowed. */
static bool takes_plain_text(struct machine *m, uint32_t start) {
    static const struct {
        uint8_t first, last, left, second_first, second_last;
    } leads[] = {{0xc2, 0xdf, 1, 0x80, 0xbf}, {0xe0, 0xe0, 2, 0xa0, 0xbf}, {0xe1, 0xec, 2, 0x80, 0xbf},
                 {0xed, 0xed, 2, 0x80, 0x9f}, {0xee, 0xef, 2, 0x80, 0xbf}, {0xf0, 0xf0, 3, 0x90, 0xbf},
                 {0xf1, 0xf3, 3, 0x80, 0xbf}, {0xf4, 0xf4, 3, 0x80, 0x8f}};
    struct plain_check c = {.m = m};
    reach(&c, start, 0, 0);
    for (size_t i = 0; i < c.n; i++) {
        uint32_t from = c.states[i];
        unsigned left = c.left[i], length = c.length[i];
        if (left) {
            if (!reach_bytes(&c, from, 0x80, 0xbf, left - 1, length + (left == 1))) return false;
            continue;
        }
        if (length == TRIE_PLAIN_CHARACTERS) continue;
        if (!reach_bytes(&c, from, 0x20, 0x7e, 0, length + 1)) return false;
        for (size_t k = 0; k < sizeof leads / sizeof *leads; k++) {
            for (unsigned b = leads[k].first; b <= leads[k].last; b++) {
                uint32_t state = machine_step(m, from, (uint8_t)b);
                if (state == STATE_DEAD || !reach_bytes(&c, state, leads[k].second_first, leads[k].second_last,
                                                        leads[k].left - 1u, length + (leads[k].left == 1)))
                    return false;
            }
        }
    }
    return true;
}

/* Walks a trie from the place. A branch that dies after the place could have been left is uncertain as a whole. */
static bool walk_place(struct mask_cache *cache, struct machine *m, uint32_t start, const struct trie_nodes *nodes) {
    uint32_t open_depth = UINT32_MAX; /* depth at which the place could first be left on the current path */
    cache->path[0] = start;
    for (uint32_t i = 0; i < nodes->n;) {
        const struct trie_node *node = &nodes->data[i];
        uint32_t depth = node->depth, from = cache->path[depth - 1];
        if (open_depth != UINT32_MAX && open_depth >= depth) open_depth = UINT32_MAX;
        uint32_t state = from == STATE_DEAD ? STATE_DEAD : machine_step(m, from, node->byte);
        bool is_dead = state == STATE_DEAD;
        if (!is_dead && machine_is_open(m, state)) {
            for (uint32_t t = node->first_token; t < node->end_token; t++)
                if (!push(&cache->found, &cache->n_found, &cache->found_capacity, t)) return false;
            if (open_depth == UINT32_MAX) open_depth = depth;
            uint32_t n_items;
            machine_items(m, state, &n_items);
            if (!n_items) { /* nothing goes on inside */
                for (uint32_t t = node->end_token; t < node->last_token; t++)
                    if (!push(&cache->uncertain, &cache->n_uncertain, &cache->uncertain_capacity, t)) return false;
                i = node->next;
                continue;
            }
        } else if (!is_dead) {
            for (uint32_t t = node->first_token; t < node->end_token; t++)
                if (!push(&cache->found, &cache->n_found, &cache->found_capacity, t)) return false;
        } else {
            if (open_depth < depth)
                for (uint32_t t = node->first_token; t < node->last_token; t++)
                    if (!push(&cache->uncertain, &cache->n_uncertain, &cache->uncertain_capacity, t)) return false;
            i = node->next;
            continue;
        }
        cache->path[depth] = state;
        i++;
    }
    return true;
}

static bool keep_place(struct mask_cache *cache, struct place_mask *place) {
    const struct token_trie *trie = cache->trie;
    place->is_dense = cache->n_found > n_words(trie);
    size_t n = place->is_dense ? n_words(trie) : cache->n_found;
    place->n_allowed = (uint32_t)cache->n_found;
    place->n_uncertain = (uint32_t)cache->n_uncertain;
    place->allowed = array_calloc(n, sizeof *place->allowed);
    place->uncertain = array_alloc(cache->n_uncertain, sizeof *place->uncertain);
    if (!place->allowed || !place->uncertain) return false;
    for (size_t i = 0; i < cache->n_found; i++) {
        uint32_t id = trie->ids[cache->found[i]];
        if (place->is_dense)
            set_bit(place->allowed, id);
        else
            place->allowed[i] = id;
    }
    if (cache->n_uncertain) memcpy(place->uncertain, cache->uncertain, cache->n_uncertain * sizeof *place->uncertain);
    cache->bytes += (n + cache->n_uncertain) * sizeof *place->allowed;
    return true;
}

static const struct place_mask *place_mask(struct grammar *g, struct mask_cache *cache, uint32_t node) {
    struct machine *m = g->machine;
    node = machine_alike(m, node, (uint32_t)cache->trie->longest);
    uint64_t number;
    if (map_get(&cache->nodes, (const char *)&node, sizeof node, &number)) return &cache->places[number];
    uint32_t start = machine_state_at(m, node, STACKS_OPEN);
    if (start == STATE_DEAD) return NULL;
    struct place_mask place = {.adds_plain = takes_plain_text(m, start)};
    cache->n_found = cache->n_uncertain = 0;
    char *key = arena_copy(&cache->keys, (const char *)&node, sizeof node);
    if (!key || !walk_place(cache, m, start, place.adds_plain ? &cache->trie->rest : &cache->trie->all) ||
        machine_failure(m) ||
        !array_reserve(&cache->places, &cache->places_capacity, cache->n_places + 1, sizeof place) ||
        !keep_place(cache, &place) || !map_put(&cache->nodes, key, sizeof node, cache->n_places, NULL)) {
        free(place.allowed);
        free(place.uncertain);
        return NULL;
    }
    cache->places[cache->n_places] = place;
    return &cache->places[cache->n_places++];
}

/* ---- a whole state ---- */

/* Tries the tokens that reach beyond their place in their surroundings. */
static void try_tokens(struct mask_cache *cache, struct machine *m, uint32_t state, const uint32_t *tokens, uint32_t n,
                       uint32_t *bits) {
    const struct token_trie *trie = cache->trie;
    const char *last = "";
    size_t known = 0; /* bytes of `last` whose states are in the path */
    cache->path[0] = state;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t id = trie->ids[tokens[i]];
        const char *bytes = trie->bytes + trie->starts[tokens[i]];
        size_t length = trie->starts[tokens[i] + 1] - trie->starts[tokens[i]], at = 0;
        if (bits[id / 32] >> id % 32 & 1) continue;
        while (at < known && at < length && bytes[at] == last[at]) at++;
        uint32_t now = cache->path[at];
        while (at < length && now != STATE_DEAD) {
            now = machine_step(m, now, (uint8_t)bytes[at]);
            cache->path[++at] = now;
        }
        last = bytes;
        known = at;
        if (now != STATE_DEAD) set_bit(bits, id);
    }
}

static void add_allowed(const struct token_trie *trie, const struct place_mask *place, uint32_t *bits) {
    size_t n = n_words(trie);
    if (place->adds_plain)
        for (size_t i = 0; i < n; i++) bits[i] |= trie->plain[i];
    if (place->is_dense) {
        for (size_t i = 0; i < n; i++) bits[i] |= place->allowed[i];
    } else {
        for (uint32_t i = 0; i < place->n_allowed; i++) set_bit(bits, place->allowed[i]);
    }
}

static bool compute(struct grammar *g, struct mask_cache *cache, uint32_t state, uint32_t *bits) {
    uint32_t n_items;
    machine_items(g->machine, state, &n_items);
    for (int pass = 0; pass < 2; pass++) { /* first all that is certain, so that less has to be tried */
        for (uint32_t i = 0; i < n_items; i++) {
            uint32_t ignored, node = machine_items(g->machine, state, &ignored)[i].node;
            const struct place_mask *place = place_mask(g, cache, node);
            if (!place) return false;
            if (!pass)
                add_allowed(cache->trie, place, bits);
            else
                try_tokens(cache, g->machine, state, place->uncertain, place->n_uncertain, bits);
        }
    }
    return !machine_failure(g->machine);
}

bool matcher_mask(const struct matcher *matcher, const struct token_trie *trie, uint32_t *bits) {
    struct grammar *g = matcher->grammar;
    struct mask_cache *cache = cache_of(g, trie);
    if (!cache) return false;
    if (matcher->state == STATE_DEAD) return true;
    if (machine_tidy(g->machine) || cache->bytes > MAX_CACHE_BYTES) clear(cache);
    struct state_mask *slot = &cache->states[matcher->state % N_STATE_MASKS];
    size_t size = n_words(trie) * sizeof *bits;
    if (slot->state == matcher->state) {
        memcpy(bits, slot->bits, size);
        return true;
    }
    if (!compute(g, cache, matcher->state, bits)) return false;
    if (!slot->bits) slot->bits = array_alloc(n_words(trie), sizeof *slot->bits);
    slot->state = slot->bits ? matcher->state : STATE_DEAD;
    if (slot->bits) memcpy(slot->bits, bits, size);
    return true;
}
