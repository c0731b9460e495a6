/* SPDX-License-Identifier: Apache-2.0 */
/* The real program writes under constraints: whatever the bundled model would like to say, what comes out is looked at here
 * without the code that constrained it. */
#include "tests/support/process.h"
#include "tests/support/tap.h"

#include <mlxcel/mlxcel.h>

#include "base/file.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char SCHEMA[] =
    "{\"type\":\"object\",\"properties\":{\"title\":{\"type\":\"string\",\"maxLength\":12},\"year\":{\"type\":"
    "\"integer\","
    "\"minimum\":1800,\"maximum\":1999},\"tags\":{\"type\":\"array\",\"items\":{\"enum\":[\"sea\",\"war\",\"love\"]},"
    "\"minItems\":1,\"maxItems\":3}},\"required\":[\"title\",\"year\",\"tags\"],\"additionalProperties\":false}";

/* stdout of mlxcel generate with two more arguments; false with a note when it failed. */
static bool generate(const char *option, const char *value, const char *seed, struct buffer *out) {
    const char *argv[] = {program_path("mlxcel"),
                          "generate",
                          "-p",
                          "The book",
                          "-n",
                          "120",
                          "--temp",
                          "1",
                          "--seed",
                          seed,
                          option,
                          value,
                          NULL};
    struct process p;
    bool ok = process_run(&p, argv, 300000) && p.status == 0;
    if (!ok) tap_note("status %d: %.300s", p.status, p.err.data);
    buffer_clear(out);
    while (p.out.length && p.out.data[p.out.length - 1] == '\n') p.out.length--;
    if (ok) buffer_append(out, p.out.data, p.out.length);
    process_free(&p);
    return ok;
}

static bool is_tag(const struct json *v) {
    return json_string_is(v, "sea") || json_string_is(v, "war") || json_string_is(v, "love");
}

static bool is_book(const struct json *v) {
    const struct json *title = json_get(v, "title"), *tags = json_get(v, "tags");
    int64_t year = json_integer(json_get(v, "year"), 0);
    bool ok = json_is_object(v) && v->count == 3 && json_is_string(title) && title->count <= 48 && year >= 1800 &&
              year <= 1999 && json_is_array(tags) && tags->count >= 1 && tags->count <= 3;
    for (uint32_t i = 0; ok && i < tags->count; i++) ok = is_tag(&tags->items[i]);
    return ok;
}

static void writes_json_of_a_schema(void) {
    char folder[4096];
    struct arena arena = {0};
    struct buffer out = {0};
    if (!tap_ok(folder_make_temporary(folder, sizeof folder), "a temporary folder")) return;
    char *path = path_join(&arena, folder, "schema.json");
    file_write_atomic(path, SCHEMA, sizeof SCHEMA - 1, NULL);
    static const char *const seeds[] = {"1", "2", "3", "4"};
    for (size_t i = 0; i < 4; i++) {
        struct mx_error err = {0};
        bool ok = generate("--json-schema", path, seeds[i], &out);
        const struct json *v =
            ok ? json_parse(&arena, out.data ? out.data : "", out.length, JSON_REJECT_DUPLICATES, 16, &err) : NULL;
        if (!tap_ok(is_book(v), "seed %s writes an instance of the schema", seeds[i]))
            tap_note("%.300s", out.data ? out.data : "");
    }
    folder_remove(folder);
    buffer_free(&out);
    arena_free(&arena);
}

static void writes_a_choice_and_a_pattern(void) {
    struct buffer out = {0};
    bool ok = generate("--choice", "red,green,blue sky", "5", &out);
    ok = ok && (!strcmp(out.data, "red") || !strcmp(out.data, "green") || !strcmp(out.data, "blue sky"));
    tap_ok(ok, "--choice writes one of the choices");
    ok = generate("--regex", "[0-9]{4}-[0-9]{2}", "6", &out);
    unsigned a, b;
    char rest;
    ok = ok && out.length == 7 && sscanf(out.data, "%4u-%2u%c", &a, &b, &rest) == 2;
    tap_ok(ok, "--regex writes a match and stops where nothing can follow");
    buffer_free(&out);
}

static bool collect(void *context, const struct mlxcel_event *event) {
    return buffer_append(context, event->text, event->length);
}

static void the_library_writes_json_of_a_schema(void) {
    struct mlxcel_error error = {0};
    struct mlxcel_request request;
    struct buffer out = {0};
    struct arena arena = {0};
    struct mlxcel_model_options options = {.threads = 1, .max_tokens = 400};
    struct mlxcel_model *model = mlxcel_open(SOURCE_DIR "/models/novels-24m-4bit", &options, &error);
    if (!tap_ok(model != NULL, "the library opens the bundled model")) tap_note("%s", error.message);
    mlxcel_request_init(&request);
    request.max_tokens = 200;
    request.temperature = 1;
    request.seed = 11;
    request.form = MLXCEL_FORM_JSON_SCHEMA;
    request.form_text = SCHEMA;
    request.on_event = collect;
    request.context = &out;
    bool ok = model && mlxcel_generate(model, "The book", &request, &error);
    const struct json *v =
        ok ? json_parse(&arena, out.data ? out.data : "", out.length, JSON_REJECT_DUPLICATES, 16, NULL) : NULL;
    if (!tap_ok(is_book(v), "a request with a schema gives an instance of it"))
        tap_note("%s %.300s", error.message, out.data ? out.data : "");
    request.form_text = "{\"uniqueItems\":true}";
    tap_ok(model && !mlxcel_generate(model, "x", &request, &error) && error.code == MLXCEL_ERROR_UNSUPPORTED &&
               strstr(error.message, "uniqueItems"),
           "a request with an unsupported schema is refused by name");
    mlxcel_close(model);
    buffer_free(&out);
    arena_free(&arena);
}

static void refuses_what_it_cannot_do(void) {
    struct buffer out = {0};
    const char *argv[] = {program_path("mlxcel"), "generate", "-p", "x", "--json", "--choice", "a,b", NULL};
    const char *bad[] = {program_path("mlxcel"), "generate", "-p", "x", "--regex", "(a", NULL};
    struct process p;
    tap_ok(process_run(&p, argv, 60000) && p.status == 2, "two constraints are wrong usage");
    process_free(&p);
    tap_ok(process_run(&p, bad, 60000) && p.status == 2 && strstr(p.err.data, "regular expression"),
           "a broken expression is named");
    process_free(&p);
    buffer_free(&out);
}

int main(void) {
    writes_json_of_a_schema();
    writes_a_choice_and_a_pattern();
    the_library_writes_json_of_a_schema();
    refuses_what_it_cannot_do();
    return tap_done();
}
