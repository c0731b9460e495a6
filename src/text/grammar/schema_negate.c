/* SPDX-License-Identifier: Apache-2.0 */
/* What a schema's keywords say of a value that does not satisfy it: one of them is not met. Each way not to meet one is an
 * option of a single choice. A keyword that concerns one type is met by all values of the others. */
#include "text/grammar/schema.h"

static bool out_of_memory(struct schema *s) { return error_memory(s->err, "JSON Schema"); }

/* The schema whose keywords are denied, and the choice that takes the options. */
struct denial {
    struct schema *s;
    struct choice_point *choice;
    uint32_t entry;
    const struct json *schema;
};

static struct option *add(struct denial *d, unsigned types, const struct atom *atom) {
    struct option *option = choice_option(d->s, d->choice);
    if (!option) return NULL;
    option->types = types;
    if (atom) option->atoms[option->n_atoms++] = *atom;
    return option;
}

static bool add_literal(struct denial *d, unsigned types, uint32_t literal) {
    struct option *option = add(d, types, NULL);
    return option && option_literal(d->s, option, literal);
}

/* ---- constants ---- */

static bool deny_items(struct denial *d, const struct json *value) {
    struct atom fewer = {.kind = ATOM_ITEM_COUNT, .high = value->count},
                more = {.kind = ATOM_ITEM_COUNT, .low = (uint64_t)value->count + 1, .high = NO_LIMIT};
    if (!add(d, TYPE_ALL & ~TYPE_ARRAY, NULL) || !add(d, TYPE_ARRAY, &more)) return false;
    if (value->count) {
        fewer.high = value->count - 1;
        if (!add(d, TYPE_ARRAY, &fewer)) return false;
    }
    for (uint32_t i = 0; i < value->count; i++) {
        uint32_t entry;
        struct atom count = {.kind = ATOM_ITEM_COUNT, .low = (uint64_t)i + 1, .high = NO_LIMIT};
        struct option *option = add(d, TYPE_ARRAY, &count);
        if (!option || !schema_constant(d->s, &value->items[i], &entry)) return false;
        option->atoms[option->n_atoms++] = (struct atom){.kind = ATOM_ITEM, .index = i, .literal = 2 * entry + 1};
    }
    return true;
}

static bool deny_members(struct denial *d, const struct json *value) {
    struct atom more = {.kind = ATOM_EXISTS, .literal = LITERAL_TRUE, .class = {.names = value}};
    if (!add(d, TYPE_ALL & ~TYPE_OBJECT, NULL) || !add(d, TYPE_OBJECT, &more)) return false;
    for (uint32_t i = 0; i < value->count; i++) {
        const struct json_member *m = &value->members[i];
        uint32_t entry;
        struct atom property = {
            .kind = ATOM_PROPERTY, .key = m->key, .key_length = m->key_length, .literal = LITERAL_FALSE};
        if (!schema_constant(d->s, &m->value, &entry) || !add(d, TYPE_OBJECT, &property)) return false;
        property.literal = 2 * entry + 1;
        struct option *option = add(d, TYPE_OBJECT, &property);
        if (!option) return false;
        option->atoms[option->n_atoms++] =
            (struct atom){.kind = ATOM_REQUIRE, .key = m->key, .key_length = m->key_length};
    }
    return true;
}

static bool deny_number(struct denial *d, const struct json *value) {
    struct atom below = {.kind = ATOM_MAXIMUM, .is_exclusive = true},
                above = {.kind = ATOM_MINIMUM, .is_exclusive = true};
    if (!decimal_from_json(&below.number, value))
        return error_set(d->s->err, ERROR_UNSUPPORTED, "JSON Schema: a constant number has too many digits");
    above.number = below.number;
    return add(d, TYPE_ALL, &below) && add(d, TYPE_ALL, &above);
}

bool constant_deny(struct schema *s, struct expansion *x, const struct json *value) {
    if (value->type == JSON_NULL || json_is_bool(value)) {
        x->shape.types &= ~(unsigned)(value->type == JSON_NULL    ? TYPE_NULL
                                      : value->type == JSON_FALSE ? TYPE_FALSE
                                                                  : TYPE_TRUE);
        return true;
    }
    if (json_is_string(value)) {
        struct atom atom = {.kind = ATOM_STRING, .automaton = schema_text(s, value), .operation = AUTOMATON_WITHOUT};
        return atom.automaton && shape_apply(s, &x->shape, &atom);
    }
    struct denial d = {s, expansion_choice(s, x, "not"), 0, NULL};
    if (!d.choice) return false;
    if (json_is_array(value)) return deny_items(&d, value);
    return json_is_object(value) ? deny_members(&d, value) : deny_number(&d, value);
}

static bool deny_constants(struct denial *d, const struct json *values, uint32_t n) {
    struct option *option = add(d, TYPE_ALL, NULL);
    for (uint32_t i = 0; option && i < n; i++) {
        uint32_t entry;
        if (!schema_constant(d->s, &values[i], &entry) || !option_literal(d->s, option, 2 * entry + 1)) return false;
    }
    return option != NULL;
}

/* ---- scalars ---- */

static bool deny_type(struct denial *d) {
    const struct json *type = json_get(d->schema, "type");
    bool has_integer;
    if (!type) return true;
    unsigned bits = keyword_types(type, &has_integer);
    if (has_integer && !(bits & TYPE_NUMBER)) {
        struct atom atom = {.kind = ATOM_KIND, .number_kind = NUMBER_NO_INTEGER};
        bits |= TYPE_NUMBER;
        if (!add(d, TYPE_NUMBER, &atom)) return false;
    }
    return (bits & TYPE_ALL) == TYPE_ALL || add(d, TYPE_ALL & ~bits, NULL);
}

static bool deny_numbers(struct denial *d) {
    static const char *const limits[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};
    for (size_t i = 0; i < 4; i++) {
        struct atom atom;
        bool found;
        if (!keyword_limit(d->s, d->schema, limits[i], &atom, &found)) return false;
        if (!found) continue;
        atom.kind = atom.kind == ATOM_MINIMUM ? ATOM_MAXIMUM : ATOM_MINIMUM;
        atom.is_exclusive = !atom.is_exclusive;
        if (!add(d, TYPE_NUMBER, &atom)) return false;
    }
    const struct json *step = json_get(d->schema, "multipleOf");
    struct atom atom = {.kind = ATOM_STEP, .is_negated = true};
    if (!step) return true;
    if (!decimal_from_json(&atom.number, step) || atom.number.is_negative || !atom.number.n_digits)
        return error_set(d->s->err, ERROR_UNSUPPORTED,
                         "JSON Schema: 'multipleOf' must be positive, with at most 64 digits");
    return add(d, TYPE_NUMBER, &atom);
}

/* A count below the minimum or above the maximum. */
static bool deny_counts(struct denial *d, const char *low_name, const char *high_name, unsigned type,
                        enum atom_kind kind) {
    const struct json *low = json_get(d->schema, low_name), *high = json_get(d->schema, high_name);
    struct atom below = {.kind = kind}, above = {.kind = kind, .high = NO_LIMIT};
    if ((low && !keyword_count(d->s, low, low_name, &below.high)) ||
        (high && !keyword_count(d->s, high, high_name, &above.low)))
        return false;
    if (below.high) {
        below.high--;
        if (!add(d, type, &below)) return false;
    }
    above.low++;
    return !high || add(d, type, &above);
}

static bool deny_strings(struct denial *d) {
    const struct json *pattern = json_get(d->schema, "pattern"), *format = json_get(d->schema, "format");
    struct atom atom = {.kind = ATOM_STRING, .operation = AUTOMATON_WITHOUT};
    if (!deny_counts(d, "minLength", "maxLength", TYPE_STRING, ATOM_LENGTH)) return false;
    if (json_is_string(pattern)) {
        if (!(atom.automaton = schema_pattern(d->s, pattern->string, pattern->count)) || !add(d, TYPE_STRING, &atom))
            return false;
    }
    if (format && (atom.automaton = schema_format(d->s, format)) && !add(d, TYPE_STRING, &atom)) return false;
    return !d->s->err->code;
}

/* ---- arrays ---- */

static bool deny_item(struct denial *d, const struct json *item, uint32_t index) {
    uint32_t literal;
    struct atom count = {.kind = ATOM_ITEM_COUNT, .low = (uint64_t)index + 1, .high = NO_LIMIT};
    if (!keyword_literal(d->s, item, d->entry, &literal)) return false;
    struct option *option = add(d, TYPE_ARRAY, &count);
    if (!option) return false;
    option->atoms[option->n_atoms++] = (struct atom){.kind = ATOM_ITEM, .index = index, .literal = literal ^ 1};
    return true;
}

static bool deny_arrays(struct denial *d) {
    const struct json *items = json_get(d->schema, "items"), *prefix = json_get(d->schema, "prefixItems"),
                      *rest = items;
    const struct json *contains = json_get(d->schema, "contains");
    if (json_bool(json_get(d->schema, "uniqueItems"), false))
        return error_set(d->s->err, ERROR_UNSUPPORTED,
                         "JSON Schema: 'uniqueItems' below 'not', 'oneOf' or 'if' is not supported");
    if (!deny_counts(d, "minItems", "maxItems", TYPE_ARRAY, ATOM_ITEM_COUNT)) return false;
    if (d->s->ignores_newer_keywords) prefix = NULL;
    if (json_is_array(items)) {
        prefix = items;
        rest = json_get(d->schema, "additionalItems");
    }
    uint32_t n = json_is_array(prefix) ? prefix->count : 0;
    for (uint32_t i = 0; i < n; i++)
        if (!deny_item(d, &prefix->items[i], i)) return false;
    struct atom atom = {.kind = ATOM_CONTAINS, .index = n, .low = 1, .high = NO_LIMIT};
    if (rest) {
        if (!keyword_literal(d->s, rest, d->entry, &atom.literal)) return false;
        atom.literal ^= 1;
        if (!add(d, TYPE_ARRAY, &atom)) return false;
    }
    if (!contains || (d->s->draft <= 4 && d->s->ignores_newer_keywords)) return true;
    struct atom fewer = {.kind = ATOM_CONTAINS, .high = 1}, more = {.kind = ATOM_CONTAINS, .high = NO_LIMIT};
    const struct json *least = json_get(d->schema, "minContains"), *most = json_get(d->schema, "maxContains");
    if (d->s->ignores_newer_keywords) least = most = NULL;
    if ((least && !keyword_count(d->s, least, "minContains", &fewer.high)) ||
        (most && !keyword_count(d->s, most, "maxContains", &more.low)) ||
        !keyword_literal(d->s, contains, d->entry, &fewer.literal))
        return false;
    more.literal = fewer.literal;
    if (fewer.high) {
        fewer.high--;
        if (!add(d, TYPE_ARRAY, &fewer)) return false;
    }
    more.low++;
    return !most || add(d, TYPE_ARRAY, &more);
}

/* ---- objects ---- */

/* Some key is not of the kind that "propertyNames" demands. */
static bool deny_keys(struct denial *d, const struct json *keys) {
    uint32_t literal, set;
    if (!keyword_literal(d->s, keys, d->entry, &literal) || !set_add(d->s, SET_ANY, literal ^ 1, &set) ||
        !set_expand(d->s, set))
        return false;
    struct atom atom = {.kind = ATOM_EXISTS, .literal = LITERAL_TRUE};
    if (!set_strings(d->s, set, &atom.class.automaton)) return false;
    return !atom.class.automaton->n_states || add(d, TYPE_OBJECT, &atom);
}

static bool deny_properties(struct denial *d) {
    const struct json *properties = json_get(d->schema, "properties"), *required = json_get(d->schema, "required");
    for (uint32_t i = 0; json_is_array(required) && i < required->count; i++) {
        const struct json *key = &required->items[i];
        struct atom missing = {
            .kind = ATOM_PROPERTY, .key = key->string, .key_length = key->count, .literal = LITERAL_FALSE};
        if (!json_is_string(key))
            return error_set(d->s->err, ERROR_FORMAT, "JSON Schema: 'required' holds %s, expected strings",
                             json_type_name(key));
        if (!add(d, TYPE_OBJECT, &missing)) return false;
    }
    for (uint32_t i = 0; json_is_object(properties) && i < properties->count; i++) {
        const struct json_member *m = &properties->members[i];
        struct atom property = {.kind = ATOM_PROPERTY, .key = m->key, .key_length = m->key_length};
        if (!keyword_literal(d->s, &m->value, d->entry, &property.literal)) return false;
        property.literal ^= 1;
        if (property.literal == LITERAL_FALSE) continue;
        struct option *option = add(d, TYPE_OBJECT, &property);
        if (!option) return false;
        option->atoms[option->n_atoms++] =
            (struct atom){.kind = ATOM_REQUIRE, .key = m->key, .key_length = m->key_length};
    }
    return true;
}

static bool deny_objects(struct denial *d) {
    const struct json *patterns = json_get(d->schema, "patternProperties"),
                      *rest = json_get(d->schema, "additionalProperties");
    const struct json *keys = json_get(d->schema, "propertyNames");
    if (!deny_counts(d, "minProperties", "maxProperties", TYPE_OBJECT, ATOM_PROPERTY_COUNT) || !deny_properties(d))
        return false;
    for (uint32_t i = 0; json_is_object(patterns) && i < patterns->count; i++) {
        const struct json_member *m = &patterns->members[i];
        struct atom atom = {.kind = ATOM_EXISTS};
        if (!keyword_literal(d->s, &m->value, d->entry, &atom.literal) ||
            !(atom.class.automaton = schema_pattern(d->s, m->key, m->key_length)))
            return false;
        atom.literal ^= 1;
        if (atom.literal != LITERAL_FALSE && !add(d, TYPE_OBJECT, &atom)) return false;
    }
    if (rest) {
        struct atom atom = {.kind = ATOM_EXISTS, .class = keyword_others(d->schema)};
        if (!keyword_literal(d->s, rest, d->entry, &atom.literal)) return false;
        atom.literal ^= 1;
        if (atom.literal != LITERAL_FALSE && !add(d, TYPE_OBJECT, &atom)) return false;
    }
    return !keys || (d->s->draft <= 4 && d->s->ignores_newer_keywords) || deny_keys(d, keys);
}

/* ---- combinations ---- */

static bool deny_dependencies(struct denial *d) {
    static const char *const keywords[] = {"dependencies", "dependentRequired", "dependentSchemas"};
    for (size_t k = 0; k < 3; k++) {
        const struct json *all = json_get(d->schema, keywords[k]);
        if (!json_is_object(all) || (k && d->s->ignores_newer_keywords)) continue;
        for (uint32_t i = 0; i < all->count; i++) {
            const struct json_member *m = &all->members[i];
            struct atom there = {.kind = ATOM_REQUIRE, .key = m->key, .key_length = m->key_length};
            if (!json_is_array(&m->value)) {
                uint32_t literal;
                struct option *option = add(d, TYPE_OBJECT, &there);
                if (!option || !keyword_literal(d->s, &m->value, d->entry, &literal) ||
                    !option_literal(d->s, option, literal ^ 1))
                    return false;
                continue;
            }
            for (uint32_t n = 0; n < m->value.count; n++) {
                const struct json *key = &m->value.items[n];
                struct option *option = add(d, TYPE_OBJECT, &there);
                if (!option) return false;
                if (!json_is_string(key))
                    return error_set(d->s->err, ERROR_FORMAT, "JSON Schema: '%s' holds %s, expected strings",
                                     keywords[k], json_type_name(key));
                option->atoms[option->n_atoms++] = (struct atom){
                    .kind = ATOM_PROPERTY, .key = key->string, .key_length = key->count, .literal = LITERAL_FALSE};
            }
        }
    }
    return true;
}

static bool deny_lists(struct denial *d) {
    const struct json *all = json_get(d->schema, "allOf"), *any = json_get(d->schema, "anyOf"),
                      *one = json_get(d->schema, "oneOf");
    uint32_t literal, other;
    for (uint32_t i = 0; json_is_array(all) && i < all->count; i++)
        if (!keyword_literal(d->s, &all->items[i], d->entry, &literal) || !add_literal(d, TYPE_ALL, literal ^ 1))
            return false;
    const struct json *none[2] = {any, one};
    for (uint32_t k = 0; k < 2; k++) {
        if (!json_is_array(none[k])) continue;
        struct option *option = add(d, TYPE_ALL, NULL);
        for (uint32_t i = 0; i < none[k]->count; i++)
            if (!option || !keyword_literal(d->s, &none[k]->items[i], d->entry, &literal) ||
                !option_literal(d->s, option, literal ^ 1))
                return false;
    }
    for (uint32_t i = 0; json_is_array(one) && i < one->count; i++) {
        for (uint32_t k = i + 1; k < one->count; k++) {
            struct option *option = add(d, TYPE_ALL, NULL);
            if (!option || !keyword_literal(d->s, &one->items[i], d->entry, &literal) ||
                !keyword_literal(d->s, &one->items[k], d->entry, &other) || !option_literal(d->s, option, literal) ||
                !option_literal(d->s, option, other))
                return false;
        }
    }
    return true;
}

static bool deny_condition(struct denial *d) {
    const struct json *condition = json_get(d->schema, "if"), *not = json_get(d->schema, "not");
    const struct json *branches[2] = {json_get(d->schema, "then"), json_get(d->schema, "else")};
    uint32_t literal, branch;
    if (not &&(!keyword_literal(d->s, not, d->entry, &literal) || !add_literal(d, TYPE_ALL, literal))) return false;
    if (!condition || (d->s->draft <= 6 && d->s->ignores_newer_keywords)) return true;
    for (uint32_t i = 0; i < 2; i++) {
        if (!branches[i]) continue;
        struct option *option = add(d, TYPE_ALL, NULL);
        if (!option || !keyword_literal(d->s, condition, d->entry, &literal) ||
            !keyword_literal(d->s, branches[i], d->entry, &branch) || !option_literal(d->s, option, literal ^ i) ||
            !option_literal(d->s, option, branch ^ 1))
            return false;
    }
    return true;
}

static bool deny_unsupported(struct denial *d) {
    static const char *const keywords[] = {"unevaluatedProperties", "unevaluatedItems", "$recursiveRef"};
    for (size_t i = 0; i < 3; i++)
        if (json_get(d->schema, keywords[i]) && !d->s->ignores_newer_keywords)
            return error_set(d->s->err, ERROR_UNSUPPORTED, "JSON Schema: '%s' is not supported", keywords[i]);
    return true;
}

bool keywords_deny(struct schema *s, struct expansion *x, uint32_t entry) {
    const struct json *schema = s->entries[entry].json;
    if (s->entries[entry].is_constant) return constant_deny(s, x, schema);
    struct denial d = {s, expansion_choice(s, x, "not"), entry, schema};
    if (!d.choice) return out_of_memory(s);
    if (!json_is_object(schema)) return schema->type != JSON_FALSE || add(&d, TYPE_ALL, NULL);
    const struct json *ref = json_get(schema, "$ref"), *constant = json_get(schema, "const"),
                      *values = json_get(schema, "enum");
    if (ref) {
        uint32_t target;
        if (!schema_resolve(s, entry, ref, &target) || !add_literal(&d, TYPE_ALL, 2 * target + 1)) return false;
        if (s->draft <= 7) return true;
    }
    if (!s->ignores_newer_keywords && (ref = json_get(schema, "$dynamicRef"))) {
        uint32_t target;
        if (!schema_resolve_dynamic(s, entry, ref, &target) || !add_literal(&d, TYPE_ALL, 2 * target + 1)) return false;
    }
    if (constant && !(s->draft <= 4 && s->ignores_newer_keywords) && !deny_constants(&d, constant, 1)) return false;
    if (json_is_array(values) && !deny_constants(&d, values->items, values->count)) return false;
    return deny_type(&d) && deny_numbers(&d) && deny_strings(&d) && deny_arrays(&d) && deny_objects(&d) &&
           deny_lists(&d) && deny_condition(&d) && deny_dependencies(&d) && deny_unsupported(&d);
}
