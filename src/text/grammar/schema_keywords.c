/* SPDX-License-Identifier: Apache-2.0 */
/* What a schema's keywords say of a value that satisfies it. */
#include "text/grammar/schema.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static bool out_of_memory(struct schema *s) { return error_memory(s->err, "JSON Schema"); }

static bool unsupported(struct schema *s, const char *keyword) {
    return error_set(s->err, ERROR_UNSUPPORTED, "JSON Schema: '%s' is not supported", keyword);
}

static bool malformed(struct schema *s, const char *keyword, const struct json *value, const char *expected) {
    return error_set(s->err, ERROR_FORMAT, "JSON Schema: '%s' is %s, expected %s", keyword, json_type_name(value),
                     expected);
}

/* ---- helpers ---- */

static unsigned type_bits(const struct json *name, bool *has_integer) {
    static const struct {
        const char *name;
        unsigned bits;
    } types[] = {{"null", TYPE_NULL},     {"boolean", TYPE_FALSE | TYPE_TRUE},
                 {"number", TYPE_NUMBER}, {"integer", 0},
                 {"string", TYPE_STRING}, {"array", TYPE_ARRAY},
                 {"object", TYPE_OBJECT}, {"any", TYPE_ALL}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (!json_string_is(name, types[i].name)) continue;
        if (i == 3) *has_integer = true;
        return types[i].bits;
    }
    return 0;
}

unsigned keyword_types(const struct json *type, bool *has_integer) {
    unsigned bits = 0;
    *has_integer = false;
    if (!json_is_array(type)) return type_bits(type, has_integer);
    for (uint32_t i = 0; i < type->count; i++) bits |= type_bits(&type->items[i], has_integer);
    return bits;
}

struct key_class keyword_others(const struct json *schema) {
    return (struct key_class){.names = json_get(schema, "properties"),
                              .patterns = json_get(schema, "patternProperties")};
}

bool keyword_count(struct schema *s, const struct json *value, const char *keyword, uint64_t *count) {
    struct decimal d;
    if (!decimal_from_json(&d, value) || !decimal_is_integer(&d) || d.is_negative)
        return malformed(s, keyword, value, "a count");
    int64_t n = json_integer(value, INT64_MAX);
    *count = (uint64_t)n;
    return true;
}

/* minimum, maximum and their exclusive forms (boolean up to draft 4). */
bool keyword_limit(struct schema *s, const struct json *schema, const char *keyword, struct atom *atom, bool *found) {
    bool is_minimum = strstr(keyword, "inimum") != NULL, is_exclusive = keyword[0] == 'e';
    const struct json *value = json_get(schema, keyword);
    *found = value && !(is_exclusive && json_is_bool(value));
    if (!*found) return true;
    *atom = (struct atom){.kind = is_minimum ? ATOM_MINIMUM : ATOM_MAXIMUM, .is_exclusive = is_exclusive};
    if (!json_is_number(value)) return malformed(s, keyword, value, "a number");
    if (!decimal_from_json(&atom->number, value))
        return error_set(s->err, ERROR_UNSUPPORTED, "JSON Schema: '%s': the number has too many digits", keyword);
    if (!is_exclusive && json_bool(json_get(schema, is_minimum ? "exclusiveMinimum" : "exclusiveMaximum"), false))
        atom->is_exclusive = true;
    return true;
}

bool keyword_literal(struct schema *s, const struct json *json, uint32_t parent, uint32_t *literal) {
    uint32_t entry;
    if (!schema_entry_of(s, json, parent, &entry)) return false;
    /* `true` and `false` have one literal each, whatever their place. */
    *literal = json->type == JSON_TRUE || (json_is_object(json) && !json->count) ? LITERAL_TRUE
               : json->type == JSON_FALSE                                        ? LITERAL_FALSE
                                                                                 : 2 * entry;
    return true;
}

static bool apply(struct schema *s, struct expansion *x, const struct atom *atom) {
    return shape_apply(s, &x->shape, atom);
}

/* ---- constants ---- */

static struct option *option_of(struct schema *s, struct choice_point *choice, unsigned types) {
    struct option *option = choice_option(s, choice);
    if (option) option->types = types;
    return option;
}

static bool number_option(struct schema *s, struct choice_point *choice, const struct json *value) {
    struct option *option = option_of(s, choice, TYPE_NUMBER);
    if (!option) return false;
    option->atoms[0].kind = ATOM_MINIMUM;
    option->atoms[1].kind = ATOM_MAXIMUM;
    option->n_atoms = 2;
    if (!decimal_from_json(&option->atoms[0].number, value))
        return error_set(s->err, ERROR_UNSUPPORTED, "JSON Schema: a constant number has too many digits");
    option->atoms[1].number = option->atoms[0].number;
    return true;
}

/* An array or object: a literal, whose own expansion says the rest. */
static bool compound_option(struct schema *s, struct choice_point *choice, const struct json *value) {
    uint32_t entry;
    struct option *option = option_of(s, choice, json_is_array(value) ? TYPE_ARRAY : TYPE_OBJECT);
    return option && schema_constant(s, value, &entry) && option_literal(s, option, 2 * entry);
}

/* Many numbers: one automaton. A few are ranges, of which more is known without one. */
enum { MANY_NUMBERS = 8 };

static bool numbers_option(struct schema *s, struct choice_point *choice, const struct json *values, uint32_t n) {
    struct option *option = option_of(s, choice, TYPE_NUMBER);
    struct decimal *numbers = array_alloc(n, sizeof *numbers);
    size_t count = 0;
    bool ok = option && (numbers || out_of_memory(s));
    for (uint32_t i = 0; ok && i < n; i++) {
        if (!json_is_number(&values[i])) continue;
        if (!decimal_from_json(&numbers[count++], &values[i]))
            ok = error_set(s->err, ERROR_UNSUPPORTED, "JSON Schema: a constant number has too many digits");
    }
    const struct automaton *a = ok ? schema_keep(s, numbers_automaton(&s->arena, numbers, count, s->err)) : NULL;
    free(numbers);
    if (!a) return false;
    option->atoms[0] = (struct atom){.kind = ATOM_NUMBERS, .automaton = a};
    option->n_atoms = 1;
    return true;
}

/* Options for the values of an enumeration. */
static bool enumeration_options(struct schema *s, struct choice_point *choice, const struct json *values, uint32_t n) {
    unsigned plain = 0;
    const char **texts = arena_calloc(&s->arena, (size_t)n + 1, sizeof *texts);
    size_t *lengths = arena_calloc(&s->arena, (size_t)n + 1, sizeof *lengths), n_texts = 0;
    if (!texts || !lengths) return out_of_memory(s);
    uint32_t n_numbers = 0;
    for (uint32_t i = 0; i < n; i++) n_numbers += json_is_number(&values[i]);
    if (n_numbers > MANY_NUMBERS && !numbers_option(s, choice, values, n)) return false;
    for (uint32_t i = 0; i < n; i++) {
        const struct json *v = &values[i];
        bool ok = true;
        if (v->type == JSON_NULL)
            plain |= TYPE_NULL;
        else if (v->type == JSON_FALSE)
            plain |= TYPE_FALSE;
        else if (v->type == JSON_TRUE)
            plain |= TYPE_TRUE;
        else if (json_is_number(v))
            ok = n_numbers > MANY_NUMBERS || number_option(s, choice, v);
        else if (json_is_string(v)) {
            texts[n_texts] = v->string;
            lengths[n_texts++] = v->count;
        } else {
            ok = compound_option(s, choice, v);
        }
        if (!ok) return false;
    }
    if (plain && !option_of(s, choice, plain)) return false;
    if (!n_texts) return true;
    struct option *option = option_of(s, choice, TYPE_STRING);
    const struct automaton *a = automaton_from_texts(&s->arena, texts, lengths, n_texts, s->err);
    if (!option || !a || !(a = schema_keep(s, a))) return false;
    option->atoms[0] = (struct atom){.kind = ATOM_STRING, .automaton = a, .operation = AUTOMATON_AND};
    option->n_atoms = 1;
    return true;
}

static bool assert_array_constant(struct schema *s, struct expansion *x, const struct json *value) {
    struct atom count = {.kind = ATOM_ITEM_COUNT, .low = value->count, .high = value->count};
    x->shape.types &= TYPE_ARRAY;
    if (!apply(s, x, &count)) return false;
    for (uint32_t i = value->count; i-- > 0;) {
        uint32_t entry;
        struct atom item = {.kind = ATOM_ITEM, .index = i};
        if (!schema_constant(s, &value->items[i], &entry)) return false;
        item.literal = 2 * entry;
        if (!apply(s, x, &item)) return false;
    }
    return true;
}

static bool assert_object_constant(struct schema *s, struct expansion *x, const struct json *value) {
    x->shape.types &= TYPE_OBJECT;
    struct name_condition *names = arena_calloc(&s->arena, (size_t)value->count + 1, sizeof *names);
    if (!names) return out_of_memory(s);
    for (uint32_t i = 0; i < value->count; i++) {
        const struct json_member *m = &value->members[i];
        uint32_t entry;
        if (!schema_constant(s, &m->value, &entry)) return false;
        names[i] =
            (struct name_condition){.key = m->key, .length = m->key_length, .literal = 2 * entry, .is_required = true};
    }
    struct atom rest = {.kind = ATOM_KEY_RULE, .literal = LITERAL_FALSE, .class = {.names = value}};
    return shape_add_names(s, &x->shape, names, value->count) && apply(s, x, &rest);
}

bool constant_assert(struct schema *s, struct expansion *x, const struct json *value) {
    if (json_is_array(value)) return assert_array_constant(s, x, value);
    if (json_is_object(value)) return assert_object_constant(s, x, value);
    struct choice_point *one = expansion_choice(s, x, "const");
    return one && enumeration_options(s, one, value, 1);
}

static bool assert_enumerations(struct schema *s, struct expansion *x, const struct json *schema) {
    const struct json *constant = json_get(schema, "const"), *values = json_get(schema, "enum");
    if (s->draft <= 4 && s->ignores_newer_keywords) constant = NULL;
    if (constant) {
        struct choice_point *choice = expansion_choice(s, x, "const");
        if (!choice || !enumeration_options(s, choice, constant, 1)) return false;
    }
    if (!values) return true;
    if (!json_is_array(values)) return malformed(s, "enum", values, "an array");
    struct choice_point *choice = expansion_choice(s, x, "enum");
    return choice && enumeration_options(s, choice, values->items, values->count);
}

/* ---- scalars ---- */

static bool assert_type(struct schema *s, struct expansion *x, const struct json *schema) {
    const struct json *type = json_get(schema, "type");
    if (!type) return true;
    bool has_integer;
    unsigned bits = keyword_types(type, &has_integer);
    if (!bits && !has_integer && !(json_is_array(type) && !type->count)) {
        return error_set(s->err, ERROR_FORMAT, "JSON Schema: 'type' names no type of JSON");
    }
    if (has_integer && !(bits & TYPE_NUMBER)) {
        struct atom atom = {.kind = ATOM_KIND, .number_kind = NUMBER_INTEGER};
        bits |= TYPE_NUMBER;
        if (!apply(s, x, &atom)) return false;
    }
    x->shape.types &= bits;
    return true;
}

static bool assert_numbers(struct schema *s, struct expansion *x, const struct json *schema) {
    static const char *const limits[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};
    for (size_t i = 0; i < 4; i++) {
        struct atom atom;
        bool found;
        if (!keyword_limit(s, schema, limits[i], &atom, &found) || (found && !apply(s, x, &atom))) return false;
    }
    const struct json *step = json_get(schema, "multipleOf");
    if (!step) return true;
    struct atom atom = {.kind = ATOM_STEP};
    if (!json_is_number(step)) return malformed(s, "multipleOf", step, "a number");
    if (!decimal_from_json(&atom.number, step) || atom.number.is_negative || !atom.number.n_digits)
        return error_set(s->err, ERROR_UNSUPPORTED,
                         "JSON Schema: 'multipleOf' must be positive, with at most 64 digits");
    return apply(s, x, &atom);
}

static bool assert_strings(struct schema *s, struct expansion *x, const struct json *schema) {
    const struct json *low = json_get(schema, "minLength"), *high = json_get(schema, "maxLength");
    const struct json *pattern = json_get(schema, "pattern"), *format = json_get(schema, "format");
    struct atom length = {.kind = ATOM_LENGTH, .high = NO_LIMIT};
    if ((low && !keyword_count(s, low, "minLength", &length.low)) ||
        (high && !keyword_count(s, high, "maxLength", &length.high)) || !apply(s, x, &length))
        return false;
    struct atom atom = {.kind = ATOM_STRING, .operation = AUTOMATON_AND};
    if (pattern) {
        if (!json_is_string(pattern)) return malformed(s, "pattern", pattern, "a string");
        atom.automaton = schema_pattern(s, pattern->string, pattern->count);
        if (!atom.automaton || !apply(s, x, &atom)) return false;
    }
    if (format && (atom.automaton = schema_format(s, format)) && !apply(s, x, &atom)) return false;
    return !s->err->code;
}

/* ---- arrays ---- */

static bool assert_items(struct schema *s, struct expansion *x, uint32_t entry) {
    const struct json *schema = s->entries[entry].json;
    const struct json *items = json_get(schema, "items"), *prefix = json_get(schema, "prefixItems"), *rest = items;
    if (s->ignores_newer_keywords) prefix = NULL;
    if (json_is_array(items)) {
        prefix = items;
        rest = json_get(schema, "additionalItems");
    }
    if (prefix && !json_is_array(prefix)) return malformed(s, "prefixItems", prefix, "an array");
    uint32_t n = prefix ? prefix->count : 0;
    for (uint32_t i = n; i-- > 0;) {
        struct atom atom = {.kind = ATOM_ITEM, .index = i};
        if (!keyword_literal(s, &prefix->items[i], entry, &atom.literal) ||
            (atom.literal != LITERAL_TRUE && !apply(s, x, &atom)))
            return false;
    }
    if (!rest) return true;
    struct atom atom = {.kind = ATOM_ITEMS_FROM, .index = n};
    return keyword_literal(s, rest, entry, &atom.literal) && (atom.literal == LITERAL_TRUE || apply(s, x, &atom));
}

static bool assert_arrays(struct schema *s, struct expansion *x, uint32_t entry) {
    const struct json *schema = s->entries[entry].json;
    const struct json *low = json_get(schema, "minItems"), *high = json_get(schema, "maxItems");
    const struct json *contains = json_get(schema, "contains"), *unique = json_get(schema, "uniqueItems");
    const struct json *least = json_get(schema, "minContains"), *most = json_get(schema, "maxContains");
    struct atom count = {.kind = ATOM_ITEM_COUNT, .high = NO_LIMIT};
    if ((low && !keyword_count(s, low, "minItems", &count.low)) ||
        (high && !keyword_count(s, high, "maxItems", &count.high)) || !apply(s, x, &count) ||
        !assert_items(s, x, entry))
        return false;
    if (json_bool(unique, false) && !apply(s, x, &(struct atom){.kind = ATOM_UNIQUE})) return false;
    if (!contains || (s->draft <= 4 && s->ignores_newer_keywords)) return true;
    struct atom atom = {.kind = ATOM_CONTAINS, .low = 1, .high = NO_LIMIT};
    if (s->ignores_newer_keywords) least = most = NULL;
    if ((least && !keyword_count(s, least, "minContains", &atom.low)) ||
        (most && !keyword_count(s, most, "maxContains", &atom.high)))
        return false;
    return keyword_literal(s, contains, entry, &atom.literal) &&
           ((!atom.low && atom.high == NO_LIMIT) || apply(s, x, &atom));
}

/* ---- objects ---- */

static bool assert_properties(struct schema *s, struct expansion *x, uint32_t entry) {
    const struct json *schema = s->entries[entry].json;
    const struct json *properties = json_get(schema, "properties"), *required = json_get(schema, "required");
    if (properties && !json_is_object(properties)) return malformed(s, "properties", properties, "an object");
    if (required && !json_is_array(required)) {
        if (!json_is_bool(required)) return malformed(s, "required", required, "an array");
        required = NULL; /* draft 3 */
    }
    uint32_t n = (properties ? properties->count : 0) + (required ? required->count : 0), count = 0;
    struct name_condition *names = arena_calloc(&s->arena, (size_t)n + 1, sizeof *names);
    if (!names) return out_of_memory(s);
    for (uint32_t i = 0; properties && i < properties->count; i++) {
        const struct json_member *m = &properties->members[i];
        struct name_condition c = {.key = m->key, .length = m->key_length};
        if (!keyword_literal(s, &m->value, entry, &c.literal)) return false;
        names[count++] = c;
    }
    for (uint32_t i = 0; required && i < required->count; i++) {
        const struct json *key = &required->items[i];
        if (!json_is_string(key)) return malformed(s, "required", key, "strings");
        names[count++] = (struct name_condition){
            .key = key->string, .length = key->count, .literal = LITERAL_TRUE, .is_required = true};
    }
    return shape_add_names(s, &x->shape, names, count);
}

static bool assert_key_rules(struct schema *s, struct expansion *x, uint32_t entry) {
    const struct json *schema = s->entries[entry].json;
    const struct json *patterns = json_get(schema, "patternProperties"),
                      *rest = json_get(schema, "additionalProperties");
    if (patterns && !json_is_object(patterns)) return malformed(s, "patternProperties", patterns, "an object");
    for (uint32_t i = 0; patterns && i < patterns->count; i++) {
        const struct json_member *m = &patterns->members[i];
        struct atom atom = {.kind = ATOM_KEY_RULE};
        if (!keyword_literal(s, &m->value, entry, &atom.literal)) return false;
        if (!(atom.class.automaton = schema_pattern(s, m->key, m->key_length))) return false;
        if (atom.literal != LITERAL_TRUE && !apply(s, x, &atom)) return false;
    }
    if (!rest) return true;
    struct atom atom = {.kind = ATOM_KEY_RULE, .class = keyword_others(schema)};
    return keyword_literal(s, rest, entry, &atom.literal) && (atom.literal == LITERAL_TRUE || apply(s, x, &atom));
}

static bool assert_objects(struct schema *s, struct expansion *x, uint32_t entry) {
    const struct json *schema = s->entries[entry].json;
    const struct json *low = json_get(schema, "minProperties"), *high = json_get(schema, "maxProperties");
    const struct json *keys = json_get(schema, "propertyNames");
    struct atom count = {.kind = ATOM_PROPERTY_COUNT, .high = NO_LIMIT};
    if ((low && !keyword_count(s, low, "minProperties", &count.low)) ||
        (high && !keyword_count(s, high, "maxProperties", &count.high)) || !apply(s, x, &count) ||
        !assert_key_rules(s, x, entry) || !assert_properties(s, x, entry))
        return false;
    if (!keys || (s->draft <= 4 && s->ignores_newer_keywords)) return true;
    struct atom atom = {.kind = ATOM_KEYS};
    return keyword_literal(s, keys, entry, &atom.literal) && (atom.literal == LITERAL_TRUE || apply(s, x, &atom));
}

/* ---- combinations ---- */

/* "if this key is there, then ...": the key is missing, or it is there and the literal holds. */
static bool add_dependency(struct schema *s, struct expansion *x, const struct json_member *m, uint32_t entry) {
    struct choice_point *choice = expansion_choice(s, x, "dependencies");
    struct option *without = choice ? choice_option(s, choice) : NULL;
    if (!without) return false;
    without->atoms[0] =
        (struct atom){.kind = ATOM_PROPERTY, .key = m->key, .key_length = m->key_length, .literal = LITERAL_FALSE};
    without->n_atoms = 1;
    struct option *with = choice_option(s, choice);
    uint32_t literal = LITERAL_TRUE;
    if (!with) return false;
    with->types = TYPE_OBJECT;
    with->atoms[0] = (struct atom){.kind = ATOM_REQUIRE, .key = m->key, .key_length = m->key_length};
    with->n_atoms = 1;
    if (!json_is_array(&m->value))
        return keyword_literal(s, &m->value, entry, &literal) && option_literal(s, with, literal);
    /* A list of keys is the schema {"required": [...]}. */
    struct json *schema = arena_calloc(&s->arena, 1, sizeof *schema);
    struct json_member *member = arena_calloc(&s->arena, 1, sizeof *member);
    if (!schema || !member) return out_of_memory(s);
    *member = (struct json_member){.key = "required", .key_length = 8, .value = m->value};
    *schema = (struct json){.type = JSON_OBJECT, .count = 1, .members = member};
    return keyword_literal(s, schema, entry, &literal) && option_literal(s, with, literal);
}

static bool assert_dependencies(struct schema *s, struct expansion *x, uint32_t entry) {
    static const char *const keywords[] = {"dependencies", "dependentRequired", "dependentSchemas"};
    for (size_t k = 0; k < 3; k++) {
        const struct json *all = json_get(s->entries[entry].json, keywords[k]);
        if (!all || (k && s->ignores_newer_keywords)) continue;
        if (!json_is_object(all)) return malformed(s, keywords[k], all, "an object");
        for (uint32_t i = 0; i < all->count; i++)
            if (!add_dependency(s, x, &all->members[i], entry)) return false;
    }
    return true;
}

static bool assert_any_of(struct schema *s, struct expansion *x, uint32_t entry) {
    const struct json *all = json_get(s->entries[entry].json, "anyOf");
    if (!all) return true;
    if (!json_is_array(all)) return malformed(s, "anyOf", all, "an array");
    struct choice_point *choice = expansion_choice(s, x, "anyOf");
    if (!choice) return false;
    for (uint32_t i = 0; i < all->count; i++) {
        uint32_t literal;
        struct option *option = choice_option(s, choice);
        if (!option || !keyword_literal(s, &all->items[i], entry, &literal) || !option_literal(s, option, literal))
            return false;
    }
    return true;
}

static bool assert_one_of(struct schema *s, struct expansion *x, uint32_t entry) {
    const struct json *all = json_get(s->entries[entry].json, "oneOf");
    if (!all) return true;
    if (!json_is_array(all)) return malformed(s, "oneOf", all, "an array");
    if (all->count > 500) return error_set(s->err, ERROR_LIMIT, "JSON Schema: 'oneOf' has over 500 alternatives");
    struct choice_point *choice = expansion_choice(s, x, "oneOf");
    if (!choice) return false;
    for (uint32_t i = 0; i < all->count; i++) {
        struct option *option = choice_option(s, choice);
        if (!option) return false;
        for (uint32_t k = 0; k < all->count; k++) {
            uint32_t literal;
            if (!keyword_literal(s, &all->items[(i + k) % all->count], entry, &literal)) return false;
            if (!option_literal(s, option, k ? literal ^ 1 : literal)) return false;
        }
    }
    return true;
}

static bool assert_condition(struct schema *s, struct expansion *x, uint32_t entry) {
    const struct json *schema = s->entries[entry].json, *condition = json_get(schema, "if");
    const struct json *branches[2] = {json_get(schema, "then"), json_get(schema, "else")};
    if (!condition || (!branches[0] && !branches[1]) || (s->draft <= 6 && s->ignores_newer_keywords)) return true;
    uint32_t literal;
    struct choice_point *choice = expansion_choice(s, x, "if");
    if (!choice || !keyword_literal(s, condition, entry, &literal)) return false;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t branch;
        struct option *option = choice_option(s, choice);
        if (!option || !option_literal(s, option, literal ^ i)) return false;
        if (branches[i] && (!keyword_literal(s, branches[i], entry, &branch) || !option_literal(s, option, branch)))
            return false;
    }
    return true;
}

static bool assert_combinations(struct schema *s, struct expansion *x, uint32_t entry) {
    const struct json *schema = s->entries[entry].json, *all = json_get(schema, "allOf"),
                      *not = json_get(schema, "not");
    uint32_t literal;
    if (all && !json_is_array(all)) return malformed(s, "allOf", all, "an array");
    for (uint32_t i = 0; all && i < all->count; i++)
        if (!keyword_literal(s, &all->items[i], entry, &literal) || !expansion_todo(s, x, literal)) return false;
    if (not &&(!keyword_literal(s, not, entry, &literal) || !expansion_todo(s, x, literal ^ 1))) return false;
    return assert_any_of(s, x, entry) && assert_one_of(s, x, entry) && assert_condition(s, x, entry) &&
           assert_dependencies(s, x, entry);
}

/* Keywords that change what is valid and are not understood. true, {} and the like would change nothing. */
static bool refuse_unsupported(struct schema *s, const struct json *schema) {
    static const struct {
        const char *keyword;
        bool is_newer; /* than draft 7 */
    } keywords[] = {{"$recursiveRef", true}, {"extends", false}, {"disallow", false}, {"divisibleBy", false}};
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        const struct json *value = json_get(schema, keywords[i].keyword);
        if (!value || (keywords[i].is_newer && s->ignores_newer_keywords) || (!keywords[i].is_newer && s->draft > 4))
            continue;
        if (value->type == JSON_TRUE || (json_is_object(value) && !value->count)) continue;
        return unsupported(s, keywords[i].keyword);
    }
    return true;
}

bool keywords_assert(struct schema *s, struct expansion *x, uint32_t entry) {
    const struct json *schema = s->entries[entry].json, *ref;
    if (s->entries[entry].is_constant) return constant_assert(s, x, schema);
    if (!json_is_object(schema)) {
        if (schema->type == JSON_FALSE) x->shape.types = 0;
        return true;
    }
    if ((ref = json_get(schema, "$ref"))) {
        uint32_t target;
        if (!schema_resolve(s, entry, ref, &target) || !expansion_todo(s, x, 2 * target)) return false;
        if (s->draft <= 7) return true; /* nothing beside it counts */
    }
    if (!s->ignores_newer_keywords && (ref = json_get(schema, "$dynamicRef"))) {
        uint32_t target;
        if (!schema_resolve_dynamic(s, entry, ref, &target) || !expansion_todo(s, x, 2 * target)) return false;
    }
    if (schema_has_unevaluated(schema) && !s->ignores_newer_keywords && !unevaluated_prepare(s, x, entry)) return false;
    return refuse_unsupported(s, schema) && assert_type(s, x, schema) && assert_enumerations(s, x, schema) &&
           assert_numbers(s, x, schema) && assert_strings(s, x, schema) && assert_arrays(s, x, entry) &&
           assert_objects(s, x, entry) && assert_combinations(s, x, entry);
}
