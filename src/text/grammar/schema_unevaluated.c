/* SPDX-License-Identifier: Apache-2.0 */
/* unevaluatedProperties and unevaluatedItems: what no other keyword of the schema, or of the subschemas that apply to the
 * same value and hold, has said anything about. Which of them hold is decided first, by a choice for each that is in doubt;
 * then the names and patterns they mention are put together. */
#include "text/grammar/schema.h"

#include <string.h>

static bool out_of_memory(struct schema *s) { return error_memory(s->err, "JSON Schema"); }

static bool is_trivial(const struct json *v) { return v && (v->type == JSON_TRUE || (json_is_object(v) && !v->count)); }

static const struct json *demand(const struct json *schema, const char *keyword) {
    const struct json *v = json_get(schema, keyword);
    return v && !is_trivial(v) ? v : NULL;
}

bool schema_has_unevaluated(const struct json *schema) {
    return demand(schema, "unevaluatedProperties") || demand(schema, "unevaluatedItems");
}

/* ---- the subschemas that apply to the same value ---- */

enum { MAX_APPLIED = 300 };

/* Entries in the order in which they are found. */
struct applied {
    struct schema *s;
    uint32_t entries[MAX_APPLIED];
    uint32_t n;
};

static bool add_entry(struct applied *a, uint32_t entry) {
    for (uint32_t i = 0; i < a->n; i++)
        if (a->entries[i] == entry) return true;
    if (a->n == MAX_APPLIED)
        return error_set(a->s->err, ERROR_LIMIT, "JSON Schema: 'unevaluated...' depends on over %d subschemas",
                         MAX_APPLIED);
    a->entries[a->n++] = entry;
    return true;
}

typedef bool (*member_visitor)(void *context, struct applied *a, const struct json *member, uint32_t parent,
                               bool is_certain, const struct json_member *dependency);

/* Calls visit for each subschema that applies in place. is_certain: it must hold. */
static bool visit_members(struct applied *a, uint32_t entry, member_visitor visit, void *context) {
    static const struct {
        const char *keyword;
        bool is_certain;
    } lists[] = {{"allOf", true}, {"anyOf", false}, {"oneOf", false}};
    static const char *const single[] = {"if", "then", "else"};
    const struct json *schema = a->s->entries[entry].json, *dependent = json_get(schema, "dependentSchemas");
    for (size_t k = 0; k < 3; k++) {
        const struct json *list = json_get(schema, lists[k].keyword);
        for (uint32_t i = 0; json_is_array(list) && i < list->count; i++)
            if (!visit(context, a, &list->items[i], entry, lists[k].is_certain, NULL)) return false;
    }
    for (size_t k = 0; k < 3; k++) {
        const struct json *v = json_get(schema, single[k]);
        if (v && (!k || json_get(schema, "if")) && !visit(context, a, v, entry, false, NULL)) return false;
    }
    for (uint32_t i = 0; json_is_object(dependent) && i < dependent->count; i++)
        if (!visit(context, a, &dependent->members[i].value, entry, false, &dependent->members[i])) return false;
    return true;
}

static bool add_reference(struct applied *a, uint32_t entry) {
    const struct json *ref = json_get(a->s->entries[entry].json, "$ref");
    const struct json *dynamic = json_get(a->s->entries[entry].json, "$dynamicRef");
    uint32_t target;
    if (ref && (!schema_resolve(a->s, entry, ref, &target) || !add_entry(a, target))) return false;
    return !dynamic || (schema_resolve_dynamic(a->s, entry, dynamic, &target) && add_entry(a, target));
}

/* ---- deciding ---- */

/* A member that may or may not hold: both are followed. */
static bool decide_member(void *context, struct applied *a, const struct json *member, uint32_t parent, bool is_certain,
                          const struct json_member *dependency) {
    struct expansion *x = context;
    uint32_t literal, entry;
    (void)dependency;
    if (!keyword_literal(a->s, member, parent, &literal) || !schema_entry_of(a->s, member, parent, &entry))
        return false;
    if (!is_certain && literal > LITERAL_FALSE) {
        struct choice_point *choice = expansion_choice(a->s, x, "unevaluated...");
        for (uint32_t i = 0; i < 2; i++) {
            struct option *option = choice ? choice_option(a->s, choice) : NULL;
            if (!option || !option_literal(a->s, option, literal ^ i)) return false;
        }
    }
    return add_entry(a, entry);
}

bool unevaluated_prepare(struct schema *s, struct expansion *x, uint32_t entry) {
    struct applied a = {.s = s};
    struct pending *pending = arena_calloc(&s->arena, 1, sizeof *pending);
    if (!pending) return out_of_memory(s);
    *pending = (struct pending){x->pending, entry};
    x->pending = pending;
    bool ok = add_entry(&a, entry);
    for (uint32_t i = 0; ok && i < a.n; i++)
        if (json_is_object(s->entries[a.entries[i]].json))
            ok = add_reference(&a, a.entries[i]) && visit_members(&a, a.entries[i], decide_member, x);
    return ok;
}

/* ---- what has been evaluated ---- */

static bool holds(const struct expansion *x, uint32_t literal) {
    for (uint32_t i = 0; i < x->n_done; i++)
        if (x->done[i] == literal) return true;
    return literal == LITERAL_TRUE;
}

static bool is_required(const struct shape *shape, const struct json_member *m) {
    for (uint32_t i = 0; i < shape->n_names; i++)
        if (shape->names[i].length == m->key_length && !memcmp(shape->names[i].key, m->key, m->key_length))
            return shape->names[i].is_required;
    return false;
}

static bool add_if_holding(void *context, struct applied *a, const struct json *member, uint32_t parent,
                           bool is_certain, const struct json_member *dependency) {
    const struct expansion *x = context;
    const struct json *schema = a->s->entries[parent].json;
    uint32_t literal, entry, condition;
    if (!keyword_literal(a->s, member, parent, &literal) || !schema_entry_of(a->s, member, parent, &entry))
        return false;
    if (dependency && !is_required(&x->shape, dependency)) return true;
    if (member == json_get(schema, "then") || member == json_get(schema, "else")) {
        if (!keyword_literal(a->s, json_get(schema, "if"), parent, &condition)) return false;
        if (!holds(x, condition ^ (member == json_get(schema, "else")))) return true;
    } else if (!is_certain && !holds(x, literal)) {
        return true;
    }
    return add_entry(a, entry);
}

/* Appends the members of object `from` to the list. */
static bool add_members(struct schema *s, struct json *list, const struct json *from) {
    if (!json_is_object(from) || !from->count) return true;
    struct json_member *members = arena_calloc(&s->arena, (size_t)list->count + from->count, sizeof *members);
    if (!members) return out_of_memory(s);
    if (list->count) memcpy(members, list->members, list->count * sizeof *members);
    memcpy(members + list->count, from->members, from->count * sizeof *members);
    list->members = members;
    list->count += from->count;
    return true;
}

struct evaluated {
    struct json *names, *patterns;
    bool all_keys, all_items;
    uint32_t n_items;
};

static bool collect(struct schema *s, struct evaluated *e, const struct json *schema, bool is_own) {
    const struct json *items = json_get(schema, "items"), *prefix = json_get(schema, "prefixItems");
    if (json_get(schema, "additionalProperties") || (!is_own && json_get(schema, "unevaluatedProperties")))
        e->all_keys = true;
    if (json_is_array(items)) {
        prefix = items;
        items = json_get(schema, "additionalItems");
    }
    if (items || (!is_own && json_get(schema, "unevaluatedItems"))) e->all_items = true;
    if (json_is_array(prefix) && prefix->count > e->n_items) e->n_items = prefix->count;
    return add_members(s, e->names, json_get(schema, "properties")) &&
           add_members(s, e->patterns, json_get(schema, "patternProperties"));
}

static bool has_contains(const struct schema *s, const struct applied *a) {
    for (uint32_t i = 0; i < a->n; i++)
        if (json_get(s->entries[a->entries[i]].json, "contains")) return true;
    return false;
}

static bool finish_entry(struct schema *s, struct expansion *x, uint32_t entry) {
    const struct json *schema = s->entries[entry].json;
    const struct json *keys = demand(schema, "unevaluatedProperties"), *items = demand(schema, "unevaluatedItems");
    struct applied a = {.s = s};
    struct evaluated e = {.names = arena_calloc(&s->arena, 1, sizeof *e.names),
                          .patterns = arena_calloc(&s->arena, 1, sizeof *e.patterns)};
    if (!e.names || !e.patterns) return out_of_memory(s);
    e.names->type = e.patterns->type = JSON_OBJECT;
    bool ok = add_entry(&a, entry);
    for (uint32_t i = 0; ok && i < a.n; i++) {
        const struct json *part = s->entries[a.entries[i]].json;
        if (json_is_object(part))
            ok = add_reference(&a, a.entries[i]) && visit_members(&a, a.entries[i], add_if_holding, x) &&
                 collect(s, &e, part, i == 0);
    }
    struct atom atom = {.kind = ATOM_KEY_RULE, .class = {.names = e.names, .patterns = e.patterns}};
    if (ok && keys && !e.all_keys)
        ok = keyword_literal(s, keys, entry, &atom.literal) && shape_apply(s, &x->shape, &atom);
    if (!ok || !items || e.all_items || !(x->shape.types & TYPE_ARRAY)) return ok;
    if (has_contains(s, &a))
        return error_set(s->err, ERROR_UNSUPPORTED,
                         "JSON Schema: 'unevaluatedItems' beside 'contains' is not supported");
    atom = (struct atom){.kind = ATOM_ITEMS_FROM, .index = e.n_items};
    return keyword_literal(s, items, entry, &atom.literal) && shape_apply(s, &x->shape, &atom);
}

bool unevaluated_finish(struct schema *s, struct expansion *x) {
    for (const struct pending *p = x->pending; p; p = p->next)
        if (!finish_entry(s, x, p->entry)) return false;
    return true;
}
