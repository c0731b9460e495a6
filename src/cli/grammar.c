/* SPDX-License-Identifier: Apache-2.0 */
/* mlxcel grammar: does a text match a grammar? --check takes the text from standard input; --jsonl takes one case a line,
 * {"schema" | "gbnf" | "regex", "text"}. The answer is "accept", "incomplete" or "reject". */
#include "cli/commands.h"
#include "cli/lines.h"

#include "base/file.h"
#include "text/grammar.h"

#include <stdlib.h>
#include <string.h>

static enum grammar_verdict verdict_of(struct grammar *grammar, const char *text, size_t length, struct mx_error *err) {
    struct matcher matcher;
    matcher_init(&matcher, grammar);
    enum grammar_verdict verdict = matcher_push(&matcher, text, length);
    matcher_free(&matcher);
    if (grammar_failure(grammar)) *err = *grammar_failure(grammar);
    return verdict;
}

static struct grammar *grammar_of_line(const struct options *options, const struct json *line, struct mx_error *err) {
    const struct json *gbnf = json_get(line, "gbnf"), *regex = json_get(line, "regex"),
                      *schema = json_get(line, "schema");
    unsigned flags = options_flag(options, OPT_FORMATS) ? SCHEMA_FORMATS : 0;
    if (json_is_string(schema)) return grammar_from_schema(schema->string, schema->count, flags, err);
    if (schema) return grammar_from_schema_value(schema, flags, err);
    if (json_is_string(gbnf)) return grammar_from_gbnf(gbnf->string, gbnf->count, err);
    if (json_is_string(regex)) return grammar_from_regex(regex->string, regex->count, err);
    error_set(err, ERROR_FORMAT, "expected {\"schema\" or \"gbnf\" or \"regex\", \"text\"}");
    return NULL;
}

static bool check_line(void *context, const struct json *line, struct json_writer *out, struct mx_error *err) {
    const struct json *text = json_get(line, "text");
    if (!json_is_string(text))
        return error_set(err, ERROR_FORMAT, "'text' is %s, expected a string", json_type_name(text));
    struct grammar *grammar = grammar_of_line(context, line, err);
    if (!grammar) return false;
    enum grammar_verdict verdict = verdict_of(grammar, text->string, text->count, err);
    grammar_destroy(grammar);
    if (err->code) return false;
    json_write_string(out, grammar_verdict_name(verdict));
    return true;
}

static struct grammar *grammar_of_options(const struct options *options, struct mx_error *err) {
    const char *gbnf = options_text(options, OPT_GRAMMAR_FILE), *regex = options_text(options, OPT_REGEX);
    const char *schema = options_text(options, OPT_JSON_SCHEMA), *file = schema ? schema : gbnf;
    if (!gbnf + !regex + !schema != 2) {
        error_set(err, ERROR_USAGE, "give one of --json-schema, --gbnf and --regex");
        return NULL;
    }
    if (regex) {
        struct grammar *grammar = grammar_from_regex(regex, strlen(regex), err);
        if (!grammar) options_blame(OPT_REGEX, err);
        return grammar;
    }
    size_t length;
    char *text = file_read(file, GRAMMAR_MAX_BYTES, &length, err);
    unsigned flags = options_flag(options, OPT_FORMATS) ? SCHEMA_FORMATS : 0;
    struct grammar *grammar = NULL;
    if (text) grammar = schema ? grammar_from_schema(text, length, flags, err) : grammar_from_gbnf(text, length, err);
    if (text && !grammar) error_prefix(err, "%s", file);
    free(text);
    return grammar;
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/* A JSON text may have white space around it, which a model is not made to write. */
static void trim(const char **text, size_t *length) {
    while (*length && is_space((*text)[*length - 1])) --*length;
    while (*length && is_space(**text)) {
        ++*text;
        --*length;
    }
}

/* Reads standard input and appends the verdict. */
static bool judge_input(const struct options *options, struct grammar *grammar, struct buffer *out,
                        struct mx_error *err) {
    struct buffer text = {0};
    bool ok = read_standard_input(&text, err);
    if (ok) {
        const char *content = text.data;
        size_t length = text.length;
        if (options_is_set(options, OPT_JSON_SCHEMA)) trim(&content, &length);
        enum grammar_verdict verdict = verdict_of(grammar, content, length, err);
        ok = !err->code && (buffer_printf(out, "%s\n", grammar_verdict_name(verdict)) || error_memory(err, "output"));
    }
    buffer_free(&text);
    return ok;
}

static int check_input(const struct options *options) {
    struct mx_error err = {0};
    struct buffer out = {0};
    struct grammar *grammar = grammar_of_options(options, &err);
    bool ok = grammar && (!options_flag(options, OPT_CHECK) || judge_input(options, grammar, &out, &err));
    int status = !ok ? command_fail(&err) : out.length ? command_print(&out) : 0;
    buffer_free(&out);
    grammar_destroy(grammar);
    return status;
}

int command_grammar(const struct options *options) {
    static const enum option_id single[] = {OPT_JSON_SCHEMA, OPT_GRAMMAR_FILE, OPT_REGEX, OPT_CHECK};
    struct mx_error err = {0};
    if (!options_flag(options, OPT_JSONL)) return check_input(options);
    for (size_t i = 0; i < sizeof single / sizeof *single; i++)
        if (!options_exclude(options, OPT_JSONL, single[i], &err)) return command_fail(&err);
    return for_each_json_line(check_line, (void *)(uintptr_t)options, &err) ? 0 : command_fail(&err);
}
