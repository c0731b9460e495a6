/* SPDX-License-Identifier: Apache-2.0 */
/* The Jinja interpreter against jinja2: tests/data/jinja-conformance.json (the language) and jinja-cases.json (every
 * filter, test and method; computed and checked by scripts/check-templates.py) always, the renderings of real templates
 * where the shared folder is. Text must be equal byte for byte; an error must be an error, and what a template raises
 * itself must have the same message. Hostile templates end within two seconds with one line. */
#include "tests/support/tap.h"

#include "base/file.h"
#include "text/jinja.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 16 << 20, JSON_DEPTH = 400, JSON_FLAGS = JSON_ALLOW_NAN | JSON_PYTHON_INTEGERS };

/* Thursday, the moment at which all expected values were computed. */
static const struct tm noon = {.tm_year = 126,
                               .tm_mon = 0,
                               .tm_mday = 15,
                               .tm_hour = 12,
                               .tm_min = 34,
                               .tm_sec = 56,
                               .tm_wday = 4,
                               .tm_yday = 14,
                               .tm_isdst = -1};

static const struct json *read_json(struct arena *arena, const char *path) {
    struct mx_error err = {0};
    size_t length;
    char *text = file_read(path, MAX_FILE, &length, &err), *copy = text ? arena_copy(arena, text, length) : NULL;
    const struct json *json = copy ? json_parse(arena, copy, length, JSON_FLAGS, JSON_DEPTH, &err) : NULL;
    if (!json) tap_note("%s: %s", path, err.message);
    free(text);
    return json;
}

static bool same_text(const struct buffer *a, const struct json *b) {
    return json_is_string(b) && a->length == b->count && (!b->count || !memcmp(a->data, b->string, b->count));
}

/* expected: {"text"} or {"error", "kind", "message"}. A difference is explained. */
static bool agrees(const char *text, size_t length, const struct json *context, const struct json *expected) {
    struct jinja_limits limits = jinja_default_limits;
    struct jinja_failure failure = {0};
    struct mx_error err = {0};
    struct buffer out = {0};
    limits.now = &noon;
    struct jinja_template *t = jinja_compile_explained(text, length, &failure, &err);
    bool ok = t && jinja_render_explained(t, context, &limits, &out, &failure, &err), same;
    const struct json *wanted = json_get(expected, "text"), *kind = json_get(expected, "kind");
    if (wanted) {
        same = ok && same_text(&out, wanted);
    } else {
        bool is_own = kind && kind->count == 15 && !memcmp(kind->string, "raise_exception", 15);
        same = !ok && err.code && err.message[0] && !strchr(err.message, '\n');
        if (is_own)
            same = same && failure.kind && !strcmp(failure.kind, "raise_exception") &&
                   same_text(&failure.message, json_get(expected, "message"));
    }
    if (!same)
        tap_note("got %s: %.300s",
                 ok             ? "text"
                 : failure.kind ? failure.kind
                                : "an error",
                 ok ? (out.data ? out.data : "") : err.message);
    buffer_free(&out);
    jinja_failure_free(&failure);
    jinja_free(t);
    return same;
}

/* ---- small cases ---- */

static void cases_agree(const char *name, const char *path, uint32_t at_least) {
    struct arena arena = {0};
    const struct json *cases = read_json(&arena, path);
    uint32_t n_bad = 0, n = json_is_array(cases) ? cases->count : 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct json *c = &cases->items[i], *text = json_get(c, "template");
        if (json_is_string(text) && agrees(text->string, text->count, json_get(c, "context"), c)) continue;
        char *id = json_string_copy(&arena, json_get(c, "id"));
        tap_ok(false, "%s: %s", name, id ? id : "?");
        n_bad++;
    }
    tap_ok(!n_bad && n >= at_least, "%s: %u cases agree with jinja2", name, n - n_bad);
    arena_free(&arena);
}

/* Every builtin of the tables is named in some case: one that is added needs one. */
static void every_builtin_has_a_case(void) {
    static const char *const names[] = {
#define FILTER(name, ...)    "|" #name,
#define ATTRIBUTE(name, ...) "." #name,
#include "text/jinja/filters.def"
#include "text/jinja/methods.def"
    };
    struct mx_error err = {0};
    size_t length, n_bad = 0;
    char *text = file_read(SOURCE_DIR "/tests/data/jinja-cases.json", MAX_FILE, &length, &err);
    for (size_t i = 0; text && i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);
        const char *at = text;
        bool found = false;
        while (!found && (at = strstr(at, names[i]))) {
            at += n;
            found = !(*at >= 'a' && *at <= 'z') && *at != '_';
        }
        if (!found) tap_note("%s", names[i]);
        n_bad += !found;
    }
    tap_ok(text && !n_bad, "every_builtin_has_a_case");
    free(text);
}

/* ---- real templates ---- */

/* The shared contexts leave bos_token and eos_token to the model's file. */
static const struct json *with_tokens(struct arena *arena, const struct json *context, const struct json *expected) {
    struct json_member *members = arena_calloc(arena, context->count + 2, sizeof *members);
    struct json *all = arena_calloc(arena, 1, sizeof *all);
    uint32_t n = context->count;
    static const char *const tokens[] = {"bos_token", "eos_token"};
    memcpy(members, context->members, n * sizeof *members);
    for (int i = 0; i < 2; i++) {
        const struct json *token = json_get(expected, tokens[i]);
        if (json_is_string(token))
            members[n++] = (struct json_member){.key = tokens[i], .key_length = 9, .value = *token};
    }
    *all = (struct json){.type = JSON_OBJECT, .count = n, .members = members};
    return all;
}

static uint32_t template_agrees(const char *folder, const char *name, const struct json *contexts) {
    struct arena arena = {0};
    struct mx_error err = {0};
    size_t length;
    uint32_t n_bad = 0;
    const struct json *expected = read_json(&arena, arena_printf(&arena, "%s/expected/%s.json", folder, name));
    const struct json *results = json_get(expected, "results");
    char *text = file_read(arena_printf(&arena, "%s/%s.jinja", folder, name), MAX_FILE, &length, &err);
    uint32_t n = text && json_is_object(results) ? results->count : 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct json_member *m = &results->members[i];
        char *id = arena_copy(&arena, m->key, m->key_length);
        const struct json *context = json_get(contexts, id);
        if (!json_is_object(context) || !agrees(text, length, with_tokens(&arena, context, expected), &m->value)) {
            tap_note("%s, %s", name, id);
            n_bad++;
        }
    }
    free(text);
    arena_free(&arena);
    if (!n || n_bad) tap_ok(false, "real_templates_agree: %s", name);
    return n - n_bad;
}

static void real_templates_agree(const char *shared) {
    struct arena arena = {0};
    struct mx_error err = {0};
    char *folder = arena_printf(&arena, "%s/data/templates", shared), **names;
    const struct json *contexts =
        json_get(read_json(&arena, arena_printf(&arena, "%s/contexts.json", folder)), "contexts");
    size_t n = 0, n_renders = 0;
    bool ok = contexts && folder_list(&arena, folder, ".jinja", &names, &n, &err);
    for (size_t i = 0; ok && i < n; i++) {
        names[i][strlen(names[i]) - strlen(".jinja")] = '\0';
        n_renders += template_agrees(folder, names[i], contexts);
    }
    tap_ok(ok && n >= 262 && n_renders >= 262 * 22, "real_templates_agree: %zu renders of %zu templates", n_renders, n);
    arena_free(&arena);
}

/* ---- bounds ---- */

/* Seconds that a template may take; a sanitizer makes everything slower. */
#if defined(__SANITIZE_ADDRESS__)
#define MOST 20
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MOST 20
#endif
#endif
#ifndef MOST
#define MOST 2
#endif

/* Of the processor: other programs may run beside the test. */
static double seconds_used(void) { return (double)clock() / CLOCKS_PER_SEC; }

/* Within two seconds, as an error of one line or, where that is allowed, with text. */
static void ends_soon(const char *name, const char *text, size_t length, bool may_succeed) {
    struct mx_error err = {0};
    struct buffer out = {0};
    struct json context = {.type = JSON_OBJECT};
    double start = seconds_used();
    struct jinja_template *t = jinja_compile(text, length, &err);
    bool ok = t && jinja_render(t, &context, NULL, &out, &err);
    double seconds = seconds_used() - start;
    bool is_bad = ok ? !may_succeed : !err.code || !err.message[0] || strchr(err.message, '\n') || out.length;
    tap_ok(!is_bad && seconds < MOST, "hostile_templates_end_soon: %s", name);
    if (is_bad || seconds >= MOST) tap_note("%.2f s, %zu bytes, %s", seconds, out.length, err.message);
    buffer_free(&out);
    jinja_free(t);
}

static void hostile_templates_end_soon(void) {
    static const char *const texts[] = {
        "{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(1000) %}{% endfor %}{% endfor %}{% "
        "endfor %}",
        "{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(1000) %}{{ a * b + c }}{% endfor %}"
        "{% endfor %}{% endfor %}",
        "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
        "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(0) }}",
        "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% for i in range(100000) %}{{ 'x' * 10000 }}{% endfor %}",
        "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% set ns = namespace(l=[1]) %}{% for i in range(100) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
        "{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
        "{% set ns = namespace(l=[]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l|tojson "
        "}}",
        "{% set ns = namespace(l=[]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l == "
        "ns.l }}"
        "{{ ns.l|pprint }}",
        "{{ 'x' * 1000000000000 }}",
        "{% set ns = namespace(n=3) %}{% for i in range(100) %}{% set ns.n = ns.n * ns.n %}{% endfor %}{{ ns.n }}",
        "{% set n = 7 ** 30000 %}{% for i in range(100000) %}{{ n }}{% endfor %}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ '%.1000000000f' % 1 }}",
        "{{ 'x'.center(1000000000) }}",
        "{{ 'x'|indent(1000000000, true) }}",
        "{{ lipsum(n=1000000000) }}",
        "{% for i in range(100000) %}{{ range(100000)|list|length }}{% endfor %}",
        "{% for i in range(100000) %}{{ range(100000)|sum }}{% endfor %}",
        "{% set s = 'a b' * 100000 %}{% for i in range(1000) %}{{ s.split()|length }}{% endfor %}",
        "{% for i in range(100000) %}{{ range(1000)|map('string')|sort|join|length }}{% endfor %}",
        "{% for i in range(100000) %}{{ range(1000)|unique|list|length }}{% endfor %}",
        "{% for i in range(100000) %}{{ range(1000)|batch(1)|list|length }}{% endfor %}",
        "{{ range(3)|slice(1000000000000)|list|length }}",
        "{{ [1]|batch(1000000000000, 'x')|list }}",
        "{{ ''.join(['x' * 1000] * 1000000) }}",
        "{{ 'x'.replace('', 'y' * 1000000).replace('y', 'z' * 1000000) }}",
    };
    static const char *const harmless[] = {
        /* or costly: either way within the time */
        "{{ 9 ** 9 ** 9 ** 9 }}",
        "{% for i in range(100000) %}{% if 'y' in 'x' * 100000 %}{% endif %}{% endfor %}",
        "{% set s = ('a' * 1000) ~ 'b' %}{% set t = 'a' * 1000000 %}{% for i in range(1000) %}{{ t.find(s) }}{% endfor "
        "%}",
        "{% set s = 'a' * 100000 %}{% for i in range(100000) %}{{ s|upper|length }}{% endfor %}",
        "{{ ('<' * 1000000)|striptags }}{% for i in range(100000) %}{{ ('<' * 10000)|striptags|length }}{% endfor %}",
        "{% for i in range(100000) %}{{ ('(http://' * 1000)|urlize|length }}{% endfor %}",
        "{% for i in range(100000) %}{{ ('a-' * 1000)|wordwrap(3)|length }}{% endfor %}",
        "{% set s = ('b' ~ 'a' * 500000) %}{% set t = 'a' * 1000000 %}{% for i in range(100) %}{{ t.rfind(s) }}{{ "
        "t.rsplit(s)|length }}"
        "{{ t.rpartition(s)|length }}{{ t.replace(s, '')|length }}{{ t.count(s) }}{{ s in t }}{% endfor %}",
        "{% set s = ('a' * 500000 ~ 'b') %}{% set t = 'a' * 1000000 %}{% for i in range(100) %}{{ t.rfind(s) }}{{ "
        "t.rsplit(s)|length }}"
        "{{ t.rpartition(s)|length }}{{ t.replace(s, '')|length }}{{ t.count(s) }}{{ s in t }}{% endfor %}",
        "{% set n = 100 %}{% for i in range(1000) %}{{ ('<>' * (5000 * n))|striptags|length }}{% endfor %}",
        "{% set n = 100 %}{% for i in range(1000) %}{{ ('a- ' * (500 * n))|wordwrap(3)|length }}{% endfor %}",
        "{% set n = 100 %}{% for i in range(1000) %}{{ ('(http://a.b/) ' * (500 * n))|urlize|length }}{% endfor %}",
        "{% set s = '\u00e9' * 100000 %}{% for i in range(100000) %}{{ s|upper|length }}{{ s|title|length }}{% endfor "
        "%}",
        "{% set s = '\u00e9' * 100000 %}{% for i in range(100000) %}{{ s[i] }}{% endfor %}",
        "{% set s = 'a\\n' * 100000 %}{% for i in range(100000) %}{{ s|indent|length }}{{ s|tojson|length }}{{ "
        "s|e|length }}{% endfor %}",
        "{% set s = '%%' * 100000 %}{% for i in range(100000) %}{{ (s % ())|length }}{% endfor %}",
        "{% set s = '{{' * 100000 %}{% for i in range(100000) %}{{ s.format()|length }}{% endfor %}",
        "{% set s = ' a ' * 100000 %}{% for i in range(100000) %}{{ s|urlencode|length }}{{ s|wordcount }}{{ s|trim(' "
        "a')|length }}{% endfor %}",
        "{% set s = 'x ' * 100000 %}{% for i in range(100000) %}{{ s|pprint|length }}{{ s == s ~ '' }}{{ "
        "s|truncate(100)|length }}{% endfor %}",
        "{% set s = '1' * 4000 %}{% for i in range(100000) %}{{ s|int }}{{ s|float }}{{ s|int * s|int // 7 }}{% endfor "
        "%}",
        "{% set s = 'x' * 100000 %}{% for i in range(100000) %}{{ s.translate({120: 'y'})|length }}{{ s.isalnum() }}{{ "
        "s.expandtabs() }}{% endfor %}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) ends_soon(texts[i], texts[i], strlen(texts[i]), false);
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        ends_soon(harmless[i], harmless[i], strlen(harmless[i]), true);
}

/* The same piece many times. */
static void nested_templates_end_soon(void) {
    static const char *const pieces[] = {"{{ (",
                                         "{{ [",
                                         "{{ {1:",
                                         "{% if 1 %}",
                                         "{% for i in x %}",
                                         "{{ not ",
                                         "{{ -",
                                         "{{ a(",
                                         "{% macro m() %}",
                                         "{{ a if b else ",
                                         "{% call m() %}",
                                         "{% filter upper %}",
                                         "{{ x[",
                                         "{% block a %}",
                                         "{{ '",
                                         "{# ",
                                         "{{ 1 + ",
                                         "{{ x|f("};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct buffer text = {0};
        const char *rest = !strncmp(pieces[i], "{{ ", 3) ? pieces[i] + 3 : pieces[i];
        if (rest != pieces[i]) buffer_puts(&text, "{{ ");
        while (text.length < 1000000) buffer_puts(&text, rest);
        ends_soon(pieces[i], text.data, text.length, false);
        buffer_free(&text);
    }
}

/* A long chain that is no error must not cost stack either. */
static void long_chains_render(void) {
    static const char *const pieces[][3] = {{"{{ 1", " + 1", " }}"},
                                            {"{{ 'a'", " ~ 'a'", " }}"},
                                            {"{{ 1", "|int", " }}"},
                                            {"{{ x", ".y", " is defined }}"},
                                            {"{% if x %}", "{% elif x %}", "{% endif %}"},
                                            {"{{ 1 ", " and 1", " }}"}};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct buffer text = {0}, out = {0};
        struct mx_error err = {0};
        struct json context = {.type = JSON_OBJECT};
        double start = seconds_used();
        buffer_puts(&text, pieces[i][0]);
        while (text.length < 200000) buffer_puts(&text, pieces[i][1]);
        buffer_puts(&text, pieces[i][2]);
        struct jinja_template *t = jinja_compile(text.data, text.length, &err);
        bool ok = t && jinja_render(t, &context, NULL, &out, &err);
        double seconds = seconds_used() - start;
        tap_ok((ok || err.code) && seconds < MOST, "long_chains_render: %s%s... (%s)", pieces[i][0], pieces[i][1],
               ok ? "text" : err.message);
        buffer_free(&text);
        buffer_free(&out);
        jinja_free(t);
    }
}

static void limits_are_the_callers(void) {
    static const char text[] = "{% for i in range(n) %}x{% endfor %}";
    struct json_member n = {.key = "n", .key_length = 1, .value = {.type = JSON_INTEGER, .integer = 1000}};
    struct json context = {.type = JSON_OBJECT, .count = 1, .members = &n};
    struct jinja_limits few = jinja_default_limits, small = jinja_default_limits;
    struct jinja_failure failure = {0};
    struct mx_error err = {0};
    struct buffer out = {0};
    struct jinja_template *t = jinja_compile(text, sizeof text - 1, &err);
    few.max_steps = 500;
    small.max_output_bytes = 999;
    buffer_puts(&out, "before");
    bool ok = t && !jinja_render_explained(t, &context, &few, &out, &failure, &err) && err.code == ERROR_LIMIT &&
              !strcmp(failure.kind, "limit") && out.length == 6;
    tap_ok(ok, "limits_are_the_callers: steps");
    ok = t && !jinja_render_explained(t, &context, &small, &out, &failure, &err) && err.code == ERROR_LIMIT &&
         out.length == 6;
    tap_ok(ok, "limits_are_the_callers: output");
    small.max_output_bytes = 1000;
    ok = t && jinja_render(t, &context, &small, &out, &err) && out.length == 1006;
    tap_ok(ok, "limits_are_the_callers: within them");
    jinja_failure_free(&failure);
    buffer_free(&out);
    jinja_free(t);
}

int main(void) {
    const char *shared = shared_folder();
    cases_agree("conformance", SOURCE_DIR "/tests/data/jinja-conformance.json", 547);
    cases_agree("cases", SOURCE_DIR "/tests/data/jinja-cases.json", 1000);
    every_builtin_has_a_case();
    hostile_templates_end_soon();
    nested_templates_end_soon();
    long_chains_render();
    limits_are_the_callers();
    if (shared) {
        struct arena arena = {0};
        cases_agree("shared conformance", arena_printf(&arena, "%s/data/templates/conformance.json", shared), 547);
        arena_free(&arena);
        real_templates_agree(shared);
    } else {
        tap_skip("shared conformance", SHARED_ABSENT);
        tap_skip("real_templates_agree", SHARED_ABSENT);
    }
    return tap_done();
}
