/* SPDX-License-Identifier: Apache-2.0 */
#include "text/jinja/symbols.h"

#include <string.h>

/* Units of work (a table entry copied, a node visited) that a template may take to compile. */
#define MAX_WORK 30000000

static bool work(struct compiler *c, size_t n) {
    c->work += n;
    return c->work <= MAX_WORK || jinja_raise(&c->run, JINJA_LIMIT, "the template is too large");
}

/* ---- slots ---- */

struct scope *jinja_new_scope(struct compiler *c, struct scope *outer) {
    struct scope *scope = jinja_compiler_alloc(c, 1, sizeof *scope);
    if (!scope || !(scope->function = jinja_compiler_alloc(c, 1, sizeof *scope->function))) return NULL;
    scope->outer = outer;
    scope->depth = outer ? outer->depth + 1 : 0;
    for (struct scope *o = outer; o; o = o->outer) o->function->is_captured = true;
    return scope;
}

static uint64_t mix(uint64_t key) {
    key *= 0x9e3779b97f4a7c15u;
    return key ^ key >> 32;
}

/* The slot of a name on a level; equal pairs share one, as equal Python identifiers do. */
static bool slot_of(struct compiler *c, struct scope *scope, unsigned level, uint32_t name, uint32_t *slot) {
    struct function *f = scope->function;
    if ((f->n_slots + 1) * 2 > scope->capacity) {
        size_t capacity = scope->capacity ? scope->capacity * 2 : 32;
        uint64_t *keys = jinja_compiler_alloc(c, capacity, sizeof *keys);
        uint32_t *slots = keys ? jinja_compiler_alloc(c, capacity, sizeof *slots) : NULL;
        if (!slots || !work(c, capacity)) return false;
        for (size_t i = 0; i < scope->capacity; i++) {
            if (!scope->keys[i]) continue;
            size_t at = mix(scope->keys[i]) & (capacity - 1);
            while (keys[at]) at = (at + 1) & (capacity - 1);
            keys[at] = scope->keys[i];
            slots[at] = scope->slots[i];
        }
        scope->keys = keys;
        scope->slots = slots;
        scope->capacity = capacity;
    }
    uint64_t key = ((uint64_t)level << 32 | name) + 1;
    size_t at = mix(key) & (scope->capacity - 1);
    while (scope->keys[at] && scope->keys[at] != key) at = (at + 1) & (scope->capacity - 1);
    if (!scope->keys[at]) {
        scope->keys[at] = key;
        scope->slots[at] = f->n_slots++;
    }
    *slot = scope->slots[at];
    return true;
}

/* ---- tables ---- */

struct symbols *jinja_new_symbols(struct compiler *c, struct symbols *parent, struct scope *scope) {
    struct symbols *s = jinja_compiler_alloc(c, 1, sizeof *s);
    if (!s) return NULL;
    s->parent = parent;
    s->scope = scope;
    s->level = parent ? parent->level + 1 : 0;
    return s;
}

static struct symbol *own(const struct symbols *s, uint32_t name) {
    if (!s->index) {
        for (size_t i = 0; i < s->n; i++)
            if (s->entries[i].name == name) return &s->entries[i];
        return NULL;
    }
    for (size_t at = mix(name) & (s->index_size - 1); s->index[at]; at = (at + 1) & (s->index_size - 1))
        if (s->entries[s->index[at] - 1].name == name) return &s->entries[s->index[at] - 1];
    return NULL;
}

struct symbol *jinja_find_symbol(struct symbols *s, uint32_t name, struct symbols **owner) {
    for (; s; s = s->parent) {
        struct symbol *found = own(s, name);
        if (owner) *owner = s;
        if (found) return found;
    }
    return NULL;
}

static bool rebuild_index(struct compiler *c, struct symbols *s) {
    if (s->n < 16) return true;
    if (s->n * 2 >= s->index_size) {
        size_t size = 64;
        while (size < s->n * 4) size *= 2;
        s->index = jinja_compiler_alloc(c, size, sizeof *s->index);
        s->index_size = size;
        if (!s->index || !work(c, size)) return false;
        for (size_t i = 0; i + 1 < s->n; i++) {
            size_t at = mix(s->entries[i].name) & (size - 1);
            while (s->index[at]) at = (at + 1) & (size - 1);
            s->index[at] = (uint32_t)i + 1;
        }
    }
    size_t at = mix(s->entries[s->n - 1].name) & (s->index_size - 1);
    while (s->index[at]) at = (at + 1) & (s->index_size - 1);
    s->index[at] = (uint32_t)s->n;
    return true;
}

/* The own entry of a name, made when it is not there. */
static struct symbol *define(struct compiler *c, struct symbols *s, uint32_t name) {
    struct symbol *found = own(s, name);
    if (found) return found;
    if (s->n == s->capacity) {
        size_t capacity = s->capacity ? s->capacity * 2 : 8;
        struct symbol *grown = jinja_compiler_alloc(c, capacity, sizeof *grown);
        if (!grown) return NULL;
        if (s->n) memcpy(grown, s->entries, s->n * sizeof *grown);
        s->entries = grown;
        s->capacity = capacity;
    }
    struct symbol *entry = &s->entries[s->n++];
    *entry = (struct symbol){.name = name};
    return slot_of(c, s->scope, s->level, name, &entry->slot) && rebuild_index(c, s) ? entry : NULL;
}

/* What a stored name starts from: the outer variable, or `otherwise`. */
static void start_from(struct symbols *s, struct symbol *entry, enum load_action otherwise) {
    struct symbols *owner = NULL;
    struct symbol *outer = jinja_find_symbol(s->parent, entry->name, &owner);
    entry->action = (uint8_t)(outer ? LOAD_ALIAS : otherwise);
    if (outer) {
        entry->alias_scope = owner->scope;
        entry->alias_slot = outer->slot;
    }
}

static bool store(struct compiler *c, struct symbols *s, const struct name *name) {
    bool is_new = !own(s, name->id);
    struct symbol *entry = define(c, s, name->id);
    if (!entry) return false;
    entry->is_stored = true;
    if (is_new) start_from(s, entry, LOAD_UNDEFINED);
    return true;
}

static bool load(struct compiler *c, struct symbols *s, const struct name *name) {
    if (jinja_find_symbol(s, name->id, NULL)) return true;
    struct symbol *entry = define(c, s, name->id);
    if (!entry) return false;
    entry->action = LOAD_RESOLVE;
    return true;
}

bool jinja_declare_parameter(struct compiler *c, struct symbols *s, const struct name *name) {
    struct symbol *entry = define(c, s, name->id);
    if (!entry) return false;
    entry->is_stored = true;
    entry->action = LOAD_PARAMETER;
    return true;
}

/* ---- branches ---- */

static struct symbols *copy_symbols(struct compiler *c, const struct symbols *s) {
    struct symbols *copy = jinja_compiler_alloc(c, 1, sizeof *copy);
    if (!copy || !work(c, s->n + s->index_size)) return NULL;
    *copy = *s;
    copy->capacity = s->n;
    copy->entries = jinja_compiler_alloc(c, s->n ? s->n : 1, sizeof *copy->entries);
    if (!copy->entries) return NULL;
    if (s->n) memcpy(copy->entries, s->entries, s->n * sizeof *copy->entries);
    if (s->index) {
        copy->index = jinja_compiler_alloc(c, s->index_size, sizeof *copy->index);
        if (!copy->index) return NULL;
        memcpy(copy->index, s->index, s->index_size * sizeof *copy->index);
    }
    return copy;
}

/* Takes over what the branches found out; a name that only a branch stores starts from the outer value. */
static bool merge_branches(struct compiler *c, struct symbols *s, struct symbols *branches[3]) {
    struct symbols *before = copy_symbols(c, s);
    if (!before) return false;
    for (int b = 0; b < 3; b++) {
        if (!work(c, branches[b]->n)) return false;
        for (size_t i = 0; i < branches[b]->n; i++) {
            const struct symbol *from = &branches[b]->entries[i];
            struct symbol *entry = define(c, s, from->name);
            if (!entry) return false;
            bool is_stored = entry->is_stored || from->is_stored;
            *entry = *from;
            entry->is_stored = is_stored;
        }
    }
    for (size_t i = 0; i < s->n; i++) {
        const struct symbol *old = own(before, s->entries[i].name);
        if (s->entries[i].is_stored && !(old && old->is_stored)) start_from(s, &s->entries[i], LOAD_RESOLVE);
    }
    return true;
}

static bool track_if(struct compiler *c, struct symbols *s, struct node *n) {
    if (!jinja_track(c, s, n->branch.test)) return false;
    const struct nodes *bodies[3] = {&n->branch.body, &n->branch.elifs, &n->branch.otherwise};
    struct symbols *branches[3];
    for (int b = 0; b < 3; b++) {
        branches[b] = copy_symbols(c, s);
        if (!branches[b] || !jinja_track_all(c, branches[b], bodies[b])) return false;
    }
    return merge_branches(c, s, branches);
}

/* ---- nodes ---- */

struct tracking {
    struct compiler *c;
    struct symbols *s;
};

static bool track_child(void *context, struct node *child) {
    struct tracking *t = context;
    return jinja_track(t->c, t->s, child);
}

bool jinja_track_all(struct compiler *c, struct symbols *s, const struct nodes *nodes) {
    for (struct node *n = nodes->first; n; n = n->next)
        if (!jinja_track(c, s, n)) return false;
    return true;
}

bool jinja_track_target(struct compiler *c, struct symbols *s, struct node *target) {
    if (target->kind == NODE_NAME) return jinja_declare_parameter(c, s, target->name);
    for (struct node *item = target->items.first; item; item = item->next)
        if (!jinja_track_target(c, s, item)) return false;
    return true;
}

bool jinja_track(struct compiler *c, struct symbols *s, struct node *n) {
    if (!work(c, 1)) return false;
    switch ((enum node_kind)n->kind) {
    case NODE_NAME:
        if (n->use == NAME_PARAMETER) return jinja_declare_parameter(c, s, n->name);
        return n->use == NAME_STORE ? store(c, s, n->name) : load(c, s, n->name);
    case NODE_NSREF: return load(c, s, n->name);
    case NODE_IF: return track_if(c, s, n);
    case NODE_MACRO: return store(c, s, n->macro.macro->name);
    case NODE_CALL_BLOCK: return !n->macro.call || jinja_track(c, s, n->macro.call);
    case NODE_FOR: return jinja_track(c, s, n->loop.iterable);
    case NODE_FILTER_BLOCK:
    case NODE_WITH: return jinja_track(c, s, n->scope.value);
    case NODE_ASSIGN: return jinja_track(c, s, n->scope.value) && jinja_track(c, s, n->scope.into);
    case NODE_ASSIGN_BLOCK: return jinja_track(c, s, n->scope.into);
    case NODE_AUTOESCAPE:
    case NODE_BLOCK: return true;
    case NODE_IMPORT: return jinja_track(c, s, n->include.template) && jinja_track_all(c, s, &n->include.targets);
    default: {
        struct tracking t = {c, s};
        return jinja_each_child(n, track_child, &t);
    }
    }
}
