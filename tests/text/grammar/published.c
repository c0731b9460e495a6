/* SPDX-License-Identifier: Apache-2.0 */
/* The case files of the shared reference folder. */
#include "tests/support/tap.h"
#include "tests/text/grammar/parts.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool list_agrees(struct grammar *g, const struct json *texts, enum grammar_verdict expected, const char *id) {
    bool ok = true;
    for (size_t i = 0; texts && i < texts->count; i++) {
        const struct json *text = &texts->items[i];
        enum grammar_verdict found = verdict_on(g, text->string, text->count);
        if (found == expected) continue;
        ok = false;
        tap_note("%s: '%.*s' is %s, expected %s", id, (int)text->count, text->string, grammar_verdict_name(found),
                 grammar_verdict_name(expected));
    }
    return ok;
}

static bool is_true(const struct json *v) { return v && v->type == JSON_TRUE; }

static bool run_case(const struct json *c, const char *key, const char *id) {
    const struct json *source = json_get(c, key);
    struct mx_error err = {0};
    bool is_regex = !strcmp(key, "pattern");
    struct grammar *g = is_regex ? grammar_from_regex(source->string, source->count, &err)
                                 : grammar_from_gbnf(source->string, source->count, &err);
    bool ok;
    if (is_true(json_get(c, "error"))) {
        ok = !g && err.message[0];
    } else if (is_true(json_get(c, "may_refuse"))) {
        ok = g || err.code == ERROR_UNSUPPORTED;
    } else {
        ok = g && list_agrees(g, json_get(c, "accept"), GRAMMAR_ACCEPT, id);
        ok = ok && list_agrees(g, json_get(c, "incomplete"), GRAMMAR_INCOMPLETE, id);
        ok = ok && list_agrees(g, json_get(c, "reject"), GRAMMAR_REJECT, id);
        if (!g) tap_note("%s: %s", id, err.message);
    }
    grammar_destroy(g);
    return ok;
}

static void run_file(const char *shared, const char *name, const char *key) {
    struct arena arena = {0};
    struct mx_error err = {0};
    char path[4096];
    size_t length;
    snprintf(path, sizeof path, "%s/data/schemas/%s", shared, name);
    char *text = file_read(path, 1 << 24, &length, &err);
    const struct json *cases = text ? json_parse(&arena, text, length, JSON_STRICT, 64, &err) : NULL;
    if (json_is_object(cases)) cases = json_get(cases, "cases");
    if (!tap_ok(json_is_array(cases) && cases->count > 0, "%s holds cases", name)) tap_note("%s", err.message);
    for (size_t i = 0; json_is_array(cases) && i < cases->count; i++) {
        char *id = json_string_copy(&arena, json_get(&cases->items[i], "id"));
        tap_ok(run_case(&cases->items[i], key, id), "%s: %s", name, id);
    }
    arena_free(&arena);
    free(text);
}

void test_published_cases(const char *shared) {
    run_file(shared, "gbnf-cases.json", "grammar");
    run_file(shared, "regex-cases.json", "pattern");
}
