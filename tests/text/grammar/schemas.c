/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Schema: own cases, and the published suites: of each schema that is accepted every valid instance must be a text of
 * the grammar and no invalid one. */
#include "tests/support/tap.h"
#include "tests/text/grammar/parts.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct schema_case {
    const char *schema;
    const char *accept, *incomplete, *reject; /* texts separated by newlines; NULL = none */
    unsigned flags;
};

static const struct schema_case CASES[] = {
    {"{}", "1\n\"a\"\n[]\n{}\nnull\ntrue\n-0.5e+10\n[1, {\"a\": [ ]}]", "[\n{\"\ntru\n\"\\u00",
     "nul1\n01\n[1,]\n{a\n\"\\x\""},
    {"{\"type\":\"integer\",\"minimum\":-3,\"maximum\":12}", "-3\n12\n0\n7.0\n1e1\n-0", "-\n1e\n7.",
     "-4\n13\n7.5\n1e2\n00"},
    {"{\"exclusiveMinimum\":0.25,\"maximum\":1e3}", "0.26\n1000\n1e3\n0.2500001\n9.99e2", "0.25\n0.2\n1e",
     "1000.1\n-1\n1e4\n1001"},
    {"{\"type\":\"number\",\"multipleOf\":0.25}", "0.25\n-1.5\n3\n0.75\n1.25e2", "0.2\n1.", "0.3,\n1.255,"},
    {"{\"type\":\"integer\",\"multipleOf\":7}", "14\n-7\n0\n700", "1\n-", "14.5\nx"},
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
     "\"ab\"\n\"\xc3\xa9\xc3\xa9\xc3\xa9\"\n\"\\ud83d\\ude00x\"\n\"\\n\\\"\"", "\"\n\"a\n\"ab", "\"a\"\n\"abcd"},
    {"{\"type\":\"string\",\"pattern\":\"^a+b?$\",\"maxLength\":3}", "\"a\"\n\"aab\"\n\"aaa\"", "\"\n\"aa",
     "\"b\n\"aaaa\n\"aabb"},
    {"{\"type\":\"string\",\"pattern\":\"x\"}", "\"x\"\n\"axb\"", "\"ab", "\"ab\""},
    {"{\"enum\":[1,2,3,4,5,6,7,8,-12.5,1e3,0,0.05]}", "1\n-12.5\n8.0\n-1.25e1\n1000\n1e+03\n0\n0.05\n5e-2", "-\n1e\n-1",
     "9\n12\n-1,\n0.5"},
    {"{\"enum\":[1,\"a\",null,{\"k\":[true]}]}", "1\n1.0\n\"a\"\nnull\n{\"k\":[true]}", "{\"k\"\n\"",
     "2\n\"b\n{}\n[\n{\"k\":[false"},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"string\"}},\"required\":["
     "\"b\"],\"additionalProperties\":false}",
     "{\"b\":\"\"}\n{\"a\":1,\"b\":\"\"}\n{\"b\":\"x\",\"a\":2}\n{\n  \"b\": \"x\"\n}", "{\n{\"a\":1,\n{\"a\":1\n{\"",
     "{}\n{\"c\n{\"b\":1\n{\"b\":\"\",\"b\n{\"b\":\"\",}"},
    {"{\"type\":\"object\",\"patternProperties\":{\"^n_\":{\"type\":\"number\"}},\"additionalProperties\":{\"type\":"
     "\"string\"},\"maxProperties\":2}",
     "{}\n{\"n_a\":1,\"x\":\"\"}\n{\"n\":\"\"}", "{\"n_\":\n{\"x\":\"y\"",
     "{\"n_a\":\"\n{\"x\":1\n{\"a\":\"\",\"b\":\"\","},
    {"{\"type\":\"object\",\"propertyNames\":{\"maxLength\":2},\"minProperties\":1}", "{\"ab\":1}", "{\n{\"a",
     "{}\n{\"abc"},
    {"{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"minItems\":1,\"maxItems\":2}", "[true]\n[true,false]",
     "[\n[true\n[true,", "[]\n[1\n[true,true,"},
    {"{\"type\":\"array\",\"prefixItems\":[{\"const\":1},{\"type\":\"string\"}],\"items\":false}", "[]\n[1]\n[1,\"a\"]",
     "[1,", "[2\n[1,\"a\",\n[\"a"},
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"contains\":{\"minimum\":10},\"maxItems\":2}",
     "[10]\n[1,11]\n[12,3]", "[1\n[1,\n[1,1", "[]\n[1]\n[1,2]\n[1,2,"},
    {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\",\"minimum\":2}]}", "1\n2.5\n-7", "2\n3.",
     "3,\n-0.5\n3.0,\n1.5"},
    {"{\"not\":{\"type\":\"string\"}}", "1\n[]", "[", "\""},
    {"{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"integer\"}}},{\"properties\":{\"a\":{\"minimum\":5}}}],\"type\":"
     "\"object\"}",
     "{\"a\":5}\n{}", "{\"a\":4\n{\"a\":", "{\"a\":4}\n{\"a\":\"\n{\"a\":5.5}"},
    {"{\"if\":{\"properties\":{\"k\":{\"const\":\"n\"}},\"required\":[\"k\"]},\"then\":{\"required\":[\"v\"]},\"type\":"
     "\"object\"}",
     "{}\n{\"k\":\"m\"}\n{\"k\":\"n\",\"v\":0}\n{\"v\":1,\"k\":\"n\"}", "{\"k\":\"n\"", "{\"k\":\"n\"}"},
    {"{\"$ref\":\"#/$defs/"
     "tree\",\"$defs\":{\"tree\":{\"type\":\"object\",\"properties\":{\"c\":{\"type\":\"array\",\"items\":{\"$ref\":\"#"
     "/$defs/tree\"}}},\"additionalProperties\":false}}}",
     "{}\n{\"c\":[{\"c\":[]},{}]}", "{\"c\":[{\"c\"", "{\"c\":[1\n{\"d"},
    {"{\"$dynamicAnchor\":\"n\",\"type\":\"array\",\"items\":{\"$dynamicRef\":\"#n\"}}", "[]\n[[],[[]]]", "[[",
     "[1\n{"},
    {"{\"dependentRequired\":{\"a\":[\"b\"]},\"type\":\"object\"}",
     "{}\n{\"b\":1}\n{\"a\":1,\"b\":2}\n{\"b\":1,\"a\":1}", "{\"a\":1", "{\"a\":1}"},
    {"{\"type\":\"string\",\"format\":\"date\"}", "\"2024-02-29\"\n\"1999-12-31\"", "\"2024-02-",
     "\"2023-02-29\n\"2024-13", SCHEMA_FORMATS},
    {"{\"type\":\"string\",\"format\":\"date\"}", "\"tomorrow\"", NULL, "1"},
    {"{\"type\":\"object\",\"allOf\":[{\"properties\":{\"a\":{}}}],\"anyOf\":[{\"properties\":{\"b\":{\"const\":1}},"
     "\"required\":[\"b\"]},{}],\"unevaluatedProperties\":false}",
     "{}\n{\"a\":0}\n{\"b\":1,\"a\":2}", "{\"b\":", "{\"b\":2\n{\"c"},
    {"{\"const\":\"\xc3\xa9\\n\"}", "\"\xc3\xa9\\n\"\n\"\\u00e9\\u000a\"\n\"\\u00E9\\n\"", "\"\\u00", "\"e\n\"\\u0065"},
    {"false", NULL, NULL, "1\n{"},
};

static void check_list(struct grammar *g, const char *texts, enum grammar_verdict expected, const char *name) {
    while (texts) {
        /* A newline within an instance stands before white space. */
        const char *end = texts;
        while ((end = strchr(end, '\n')) && (end[1] == ' ' || end[1] == '}')) end++;
        size_t length = end ? (size_t)(end - texts) : strlen(texts);
        enum grammar_verdict found = verdict_on(g, texts, length);
        if (!tap_ok(found == expected, "%s: '%.*s' is %s", name, (int)length, texts, grammar_verdict_name(expected)))
            tap_note("found: %s", grammar_verdict_name(found));
        texts = end ? end + 1 : NULL;
    }
}

static void check_refusals(void) {
    static const struct {
        const char *schema, *message;
    } cases[] = {
        {"{\"uniqueItems\":true}", "'uniqueItems'"},
        {"{\"pattern\":\"(?=a)\"}", "look-ahead"},
        {"{\"$ref\":\"http://example.org/x\"}", "$ref 'http://example.org/x'"},
        {"{\"$ref\":\"#/$defs/none\"}", "#/$defs/none"},
        {"{\"type\":\"text\"}", "'type'"},
        {"{\"$recursiveRef\":\"#\"}", "'$recursiveRef'"},
        {"{\"unevaluatedItems\":false,\"contains\":{\"const\":1}}", "'unevaluatedItems'"},
        {"{\"$schema\":\"http://example.org/mine\"}", "'$schema'"},
        {"[1]", "expected an object or a boolean"},
        {"{\"minLength\":-1}", "'minLength'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mx_error err = {0};
        struct grammar *g = grammar_from_schema(cases[i].schema, strlen(cases[i].schema), 0, &err);
        if (!tap_ok(!g && strstr(err.message, cases[i].message), "%s is refused by name", cases[i].schema))
            tap_note("%s", err.message);
        grammar_destroy(g);
    }
}

void test_own_schemas(void) {
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct schema_case *c = &CASES[i];
        struct mx_error err = {0};
        struct grammar *g = grammar_from_schema(c->schema, strlen(c->schema), c->flags, &err);
        if (!tap_ok(g != NULL, "%s is read", c->schema)) {
            tap_note("%s", err.message);
            continue;
        }
        check_list(g, c->accept, GRAMMAR_ACCEPT, c->schema);
        check_list(g, c->incomplete, GRAMMAR_INCOMPLETE, c->schema);
        check_list(g, c->reject, GRAMMAR_REJECT, c->schema);
        grammar_destroy(g);
    }
    check_refusals();
}

/* ---- hostile schemas ---- */

static void within_limit(const char *name, struct buffer *schema, const char *input) {
    double start = processor_seconds();
    struct mx_error err = {0};
    struct grammar *g = grammar_from_schema(schema->data, schema->length, 0, &err);
    if (g) verdict_on(g, input, strlen(input));
    double seconds = processor_seconds() - start;
    tap_ok(seconds < SECONDS_ALLOWED && (g || err.message[0]), "%s ends soon: %s", name, g ? "followed" : err.message);
    if (seconds >= SECONDS_ALLOWED / 4) tap_note("it took %.2f s", seconds);
    grammar_destroy(g);
    buffer_free(schema);
}

void test_schema_limits(void) {
    struct buffer b = {0};
    buffer_puts(&b, "{\"type\":\"object\",\"properties\":{");
    for (int i = 0; b.length < 1000000; i++) buffer_printf(&b, "%s\"key%d\":{\"type\":\"string\"}", i ? "," : "", i);
    buffer_puts(&b, "},\"additionalProperties\":false}");
    within_limit("a megabyte of properties", &b, "{\"key77\":\"a\",\"key3\":");
    buffer_puts(&b, "{\"enum\":[");
    for (int i = 0; b.length < 1000000; i++) buffer_printf(&b, "%s\"value %d\"", i ? "," : "", i);
    buffer_puts(&b, "]}");
    within_limit("a megabyte of enum", &b, "\"value 5\"");
    buffer_puts(&b, "{\"enum\":[0");
    for (int i = 1; b.length < 1000000; i++) buffer_printf(&b, ",%d", i);
    buffer_puts(&b, "]}");
    within_limit("a megabyte of numbers", &b, "5");
    buffer_puts(&b, "{\"required\":[\"a\"");
    for (int i = 1; b.length < 1000000; i++) buffer_printf(&b, ",\"r%d\"", i);
    buffer_puts(&b, "]}");
    within_limit("a megabyte of required names", &b, "{\"r5\":1,");
    buffer_puts(&b, "{\"oneOf\":[{}");
    for (int i = 1; i < 300; i++) buffer_printf(&b, ",{\"properties\":{\"a%d\":{\"minimum\":%d}}}", i, i);
    buffer_puts(&b, "]}");
    within_limit("oneOf of alternatives that overlap", &b, "{}");
    for (int i = 0; i < 40; i++)
        buffer_printf(&b, "%s{\"anyOf\":[{\"required\":[\"a%d\"]},{\"required\":[\"b%d\"]}]}", i ? "," : "{\"allOf\":[",
                      i, i);
    buffer_puts(&b, "]}");
    within_limit("a product of alternatives", &b, "{}");
    for (int i = 0; i < 400; i++) buffer_puts(&b, "{\"not\":");
    buffer_puts(&b, "{}");
    for (int i = 0; i < 400; i++) buffer_puts(&b, "}");
    within_limit("nested negations", &b, "{}");
    buffer_puts(&b, "{\"allOf\":[{\"pattern\":\"(a|b)*a(a|b){12}$\"},{\"pattern\":\"(a|b)*b(a|b){13}$\"},{\"not\":{"
                    "\"pattern\":\"(a|b|c)*c(a|b){11}$\"}}]}");
    within_limit("a product of patterns", &b, "\"a\"");
    buffer_puts(&b, "{\"properties\":{");
    for (int i = 0; i < 2000; i++) buffer_printf(&b, "%s\"k%d\":{\"pattern\":\"a%d\\\\p{Lu}\"}", i ? "," : "", i, i);
    buffer_puts(&b, "}}");
    within_limit("patterns with categories", &b, "{\"k7\":\"a7");
    buffer_puts(&b, "{\"patternProperties\":{");
    for (int i = 0; i < 20000; i++) buffer_printf(&b, "%s\"^a%d$\":{}", i ? "," : "", i);
    buffer_puts(&b, "}}");
    within_limit("patterns of names", &b, "{\"a7\":1}");
    buffer_puts(&b, "{\"maxLength\":1000000000,\"pattern\":\"^a*$\"}");
    within_limit("a large length beside a pattern", &b, "\"a\"");
    buffer_puts(&b, "{\"type\":\"array\",\"minItems\":1000000000,\"items\":{\"minLength\":1000000}}");
    within_limit("large counts", &b, "[[[\"a\"");
    buffer_puts(&b, "{\"$ref\":\"#/a\",\"a\":{\"$ref\":\"#/b\"},\"b\":{\"$ref\":\"#/a\"}}");
    within_limit("references in a circle", &b, "1");
    for (int i = 0; i < 100000; i++) buffer_puts(&b, "[");
    within_limit("deep JSON", &b, "1");
    buffer_puts(&b, "{\"$defs\":{");
    for (int i = 0; b.length < 900000; i++)
        buffer_printf(&b, "%s\"d%d\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/d%d\"},\"minItems\":1}",
                      i ? "," : "", i, i + 1);
    buffer_puts(&b, ",\"d10399\":{},\"d10400\":{}},\"$ref\":\"#/$defs/d0\"}");
    within_limit("a long chain of references", &b, "[[[");
}

/* ---- published suites ---- */

struct tally {
    size_t schemas, accepted, wrong;
};

static bool is_true(const struct json *v) { return v && v->type == JSON_TRUE; }

static void run_schema(struct tally *tally, const struct json *schema, const struct json *tests, const char *name) {
    struct mx_error err = {0};
    struct grammar *g = grammar_from_schema_value(schema, 0, &err);
    struct buffer text = {0};
    bool is_wrong = false;
    tally->schemas++;
    if (!g && (err.code == ERROR_NONE || err.code == ERROR_MEMORY)) is_wrong = true;
    for (uint32_t i = 0; g && json_is_array(tests) && i < tests->count; i++) {
        buffer_clear(&text);
        json_write_value(&(struct json_writer){.out = &text}, json_get(&tests->items[i], "data"));
        bool valid = is_true(json_get(&tests->items[i], "valid"));
        if ((verdict_on(g, text.data, text.length) == GRAMMAR_ACCEPT) == valid) continue;
        is_wrong = true;
        tap_note("%s: %.200s should be %s", name, text.data, valid ? "accepted" : "refused");
    }
    tally->accepted += g != NULL;
    tally->wrong += is_wrong;
    buffer_free(&text);
    grammar_destroy(g);
}

static void run_file(struct tally *tally, const char *folder, const char *name) {
    struct arena arena = {0};
    size_t length;
    char *path = path_join(&arena, folder, name), *text = file_read(path, 1 << 24, &length, NULL);
    const struct json *groups = text ? json_parse(&arena, text, length, JSON_PYTHON_INTEGERS, 500, NULL) : NULL;
    for (uint32_t i = 0; json_is_array(groups) && i < groups->count; i++)
        run_schema(tally, json_get(&groups->items[i], "schema"), json_get(&groups->items[i], "tests"), name);
    free(text);
    arena_free(&arena);
}

static void run_folder(const char *root, const char *part, double least_share) {
    struct arena arena = {0};
    struct tally tally = {0};
    char **names = NULL;
    size_t n_names = 0;
    char *folder = path_join(&arena, root, part);
    folder_list(&arena, folder, ".json", &names, &n_names, NULL);
    for (size_t i = 0; i < n_names; i++) run_file(&tally, folder, names[i]);
    tap_ok(tally.schemas > 50 && !tally.wrong, "%s: every instance of %zu accepted schemas is told right", part,
           tally.accepted);
    tap_ok((double)tally.accepted >= least_share * (double)tally.schemas,
           "%s: %zu of %zu schemas are accepted (%.1f %%)", part, tally.accepted, tally.schemas,
           100.0 * (double)tally.accepted / (double)tally.schemas);
    arena_free(&arena);
}

static void run_lines(const char *path) {
    struct tally tally = {0};
    size_t length;
    char *text = file_read(path, 1 << 26, &length, NULL);
    for (char *line = text; line && *line;) {
        struct arena arena = {0};
        char *end = strchr(line, '\n');
        size_t n = end ? (size_t)(end - line) : strlen(line);
        const struct json *c = json_parse(&arena, line, n, JSON_PYTHON_INTEGERS, 500, NULL);
        char *name = json_string_copy(&arena, json_get(c, "name"));
        if (c) run_schema(&tally, json_get(c, "schema"), json_get(c, "tests"), name ? name : "?");
        arena_free(&arena);
        line = end ? end + 1 : NULL;
    }
    free(text);
    tap_ok(tally.schemas > 500 && !tally.wrong, "real schemas: every instance of %zu accepted ones is told right",
           tally.accepted);
    tap_ok((double)tally.accepted >= 0.98 * (double)tally.schemas, "real schemas: %zu of %zu are accepted (%.1f %%)",
           tally.accepted, tally.schemas, 100.0 * (double)tally.accepted / (double)tally.schemas);
}

void test_published_schemas(const char *shared) {
    char folder[256];
    struct arena arena = {0};
    if (!tap_ok(folder_make_temporary(folder, sizeof folder), "a temporary folder")) return;
    char *command = arena_printf(&arena,
                                 "tar -xJf '%s/data/schemas/json-schema-test-suite.tar.xz' -C '%s' && xz -dc "
                                 "'%s/data/schemas/maskbench-sample.jsonl.xz' > '%s/real.jsonl'",
                                 shared, folder, shared, folder);
    if (tap_ok(command && system(command) == 0, "the archives are unpacked")) {
        char *tests = path_join(&arena, folder, "JSON-Schema-Test-Suite/tests");
        run_folder(tests, "draft7", 0.85);
        run_folder(tests, "draft2020-12", 0.85);
        run_lines(path_join(&arena, folder, "real.jsonl"));
    }
    folder_remove(folder);
    arena_free(&arena);
}
